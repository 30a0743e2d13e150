//! Exhaustive exploration of the two-phase life cycle (S3, decisions 11 to 16): every order in which requests of an owner, the real
//! aggregates, a network, sidecars, a runtime and the clock can act, with a bounded number of requests and faults.
//!
//! Checked for each reachable state: no confirmed stop while a process keeps working, never two agents at once, a slot for each run
//! and nothing else, and no failure in place of a cancellation. Checked for each fair path: whatever is in progress ends.

mod canon;
mod explore;
mod sidecar;
mod world;

use explore::{Found, explore};
use world::{Ask, Bounds, Broken, Fault};

/// Upper bound for the number of states.
const MOST: usize = 400_000;

fn found(bounds: &Bounds<'_>) -> Found {
    let found = explore(bounds, MOST);
    println!(
        "{} requests of {:?}, {} faults of {:?}: {} states ({} unsettled), {} steps",
        bounds.asks, bounds.of, bounds.faults, bounds.wrong, found.states, found.unsettled, found.steps
    );
    found
}

const ASKS: [Ask; 6] = [Ask::Interrupt, Ask::Pause, Ask::Resume, Ask::Cancel, Ask::Force, Ask::FollowUp];

/// All faults except those that change the timing.
const QUICK: [Fault; 10] = [
    Fault::Crash,
    Fault::Deaf,
    Fault::Stuck,
    Fault::LoseCommand,
    Fault::RepeatCommand,
    Fault::LoseAck,
    Fault::RepeatFact,
    Fault::Reorder,
    Fault::Rebel,
    Fault::Hibernate,
];

#[track_caller]
fn holds(asks: u8, of: &[Ask], faults: u8, wrong: &[Fault], at_least: usize) {
    let bounds = Bounds { asks, faults, of, wrong, broken: Broken::Nothing, leased: true };
    holds_within(&bounds, at_least);
}

#[track_caller]
fn holds_within(bounds: &Bounds<'_>, at_least: usize) {
    let found = found(bounds);
    if let Some(violation) = found.violation {
        panic!("{violation}");
    }
    assert!(found.exhaustive, "cut off at {MOST} states");
    assert!(found.states >= at_least && found.unsettled > 0, "hardly anything was explored");
}

#[test]
fn three_requests_in_any_order_settle() {
    holds(3, &ASKS, 0, &[], 4_000);
}

#[test]
fn two_requests_and_any_fault_settle() {
    holds(2, &[Ask::Interrupt, Ask::FollowUp], 1, &QUICK, 4_000);
    holds(2, &[Ask::Interrupt, Ask::Steer], 1, &QUICK, 4_000);
    holds(2, &[Ask::Pause, Ask::Resume, Ask::Cancel], 1, &QUICK, 4_000);
}

#[test]
fn one_request_and_two_faults_settle() {
    let wrong = [Fault::Crash, Fault::Stuck, Fault::LoseCommand, Fault::LoseAck, Fault::Rebel];
    holds(1, &[Ask::Pause, Ask::Cancel], 2, &wrong, 5_000);
}

#[test]
fn request_settles_with_a_slow_sidecar() {
    holds(1, &[Ask::Interrupt, Ask::Cancel], 1, &[Fault::Slow], 1_000);
}

#[test]
fn request_settles_with_a_slow_journal() {
    holds(1, &ASKS, 1, &[Fault::Lag], 5_000);
}

#[test]
fn request_settles_with_a_disconnected_sidecar() {
    holds(1, &ASKS, 1, &[Fault::CutOff], 4_000);
}

/// Without a lease, silence alone ends nothing: pending work waits until the worker is back.
#[test]
fn request_settles_with_a_disconnected_worker() {
    let wrong = [Fault::CutOff];
    let bounds =
        Bounds { asks: 1, faults: 1, of: &ASKS, wrong: &wrong, broken: Broken::Nothing, leased: false };
    holds_within(&bounds, 4_000);
}

#[test]
fn request_settles_with_a_lost_worker() {
    let of = [Ask::Lose, Ask::Cancel, Ask::FollowUp];
    let wrong = [Fault::CutOff];
    let bounds =
        Bounds { asks: 2, faults: 1, of: &of, wrong: &wrong, broken: Broken::Nothing, leased: false };
    holds_within(&bounds, 4_000);
}

const BRAKES: [Ask; 3] = [Ask::Brake, Ask::BrakeKill, Ask::Release];

/// Decision 72: nothing passes a brake, no agent acts after its session confirmed the stop, and every session confirms it.
#[test]
fn brakes_in_any_order_with_requests_settle() {
    holds(3, &[Ask::Pause, Ask::Resume, Ask::FollowUp, Ask::Brake, Ask::Release], 0, &[], 2_000);
    holds(3, &[Ask::Interrupt, Ask::Cancel, Ask::Steer, Ask::Brake, Ask::BrakeKill], 0, &[], 2_000);
}

#[test]
fn brake_and_any_fault_settle() {
    holds(2, &BRAKES, 1, &QUICK, 4_000);
}

#[test]
fn resume_brake_and_release_with_a_crash_settle() {
    holds(
        3,
        &[Ask::Pause, Ask::Resume, Ask::Brake, Ask::Release],
        1,
        &[Fault::Crash, Fault::Hibernate],
        4_000,
    );
}

/// Decision 14: a process that dies before it receives the resume takes nothing with it.
#[test]
fn resume_outlives_any_two_processes() {
    holds(2, &[Ask::Pause, Ask::Resume], 2, &[Fault::Crash, Fault::LoseCommand], 1_000);
    holds(3, &[Ask::Brake, Ask::Release, Ask::Cancel], 1, &[Fault::Crash], 1_000);
}

#[test]
fn brake_settles_with_a_slow_journal() {
    holds(2, &[Ask::Brake, Ask::Release], 1, &[Fault::Lag, Fault::Deaf], 2_000);
}

/// Tests of the checker itself: each of these breaks one rule, and the checker has to find it.
#[track_caller]
fn is_found(broken: Broken, asks: u8, of: &[Ask], faults: u8, wrong: &[Fault], as_what: &str) {
    let leased = broken != Broken::SilenceKills;
    let found = found(&Bounds { asks, faults, of, wrong, broken, leased });
    let violation = found.violation.expect("what is broken is found");
    println!("{broken:?}: {violation}");
    assert!(violation.starts_with(as_what), "{violation}");
}

#[test]
fn explorer_finds_foreign_acknowledgement_that_confirms() {
    let of = [Ask::Pause, Ask::Resume];
    is_found(Broken::AnyAckConfirms, 3, &of, 1, &[Fault::RepeatCommand], "Paused, and a process works on");
}

#[test]
fn explorer_finds_slot_kept_after_a_crash() {
    is_found(Broken::SlotKept, 0, &[], 1, &[Fault::Crash], "the slot of a run that is over is kept");
}

#[test]
fn explorer_finds_ignored_deadlines() {
    is_found(Broken::NoClock, 1, &[Ask::Interrupt], 1, &[Fault::Deaf], "hangs");
}

#[test]
fn explorer_finds_stop_reported_before_it_is_done() {
    is_found(Broken::AckBeforeStop, 1, &[Ask::Pause], 0, &[], "Paused, and a process works on");
}

#[test]
fn explorer_finds_start_that_passes_a_brake() {
    let of = [Ask::Pause, Ask::Resume, Ask::Brake];
    is_found(Broken::BrakePassed, 3, &of, 1, &[Fault::Hibernate], "a run was created although a brake");
}

#[test]
fn explorer_finds_brake_that_no_deadline_enforces() {
    is_found(Broken::NoClock, 1, &[Ask::Brake], 1, &[Fault::Deaf], "hangs");
}

#[test]
fn explorer_finds_brake_confirmed_before_it_stops() {
    is_found(Broken::AckBeforeStop, 1, &[Ask::Brake], 0, &[], "Paused, and a process works on");
}

#[test]
fn explorer_finds_sidecar_that_keeps_working_unobserved() {
    is_found(Broken::NoSelfStop, 1, &[Ask::Cancel], 1, &[Fault::CutOff], "Cancelled, and a process works on");
}

#[test]
fn explorer_finds_silence_that_ends_a_run() {
    is_found(
        Broken::SilenceKills,
        1,
        &[Ask::Cancel],
        1,
        &[Fault::CutOff],
        "Cancelled, and a process works on",
    );
}

#[test]
fn explorer_finds_lost_kill_order() {
    is_found(Broken::KillLost, 1, &[Ask::Cancel], 1, &[Fault::Deaf], "hangs");
}

#[test]
fn explorer_finds_resume_lost_with_its_process() {
    let of = [Ask::Pause, Ask::Resume];
    is_found(Broken::NeverDrained, 2, &of, 1, &[Fault::Crash], "failed with a process that had not received");
}
