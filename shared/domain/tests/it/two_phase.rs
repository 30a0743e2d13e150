//! The two-phase lifecycle (S3, rulings 11 to 16), explored to the end: every order in which an owner's requests, the real
//! aggregates, a network, sidecars, a runtime and the clock can act, with a bounded number of requests and faults.
//!
//! What is promised of each reachable state: no confirmed stop while a process works on, never two agents at once, a slot
//! for each run and for no other. And of each path on which nobody is put off for ever: whatever is under way ends.

mod canon;
mod explore;
mod sidecar;
mod world;

use explore::{Found, explore};
use world::{Ask, Bounds, Broken, Fault};

/// More states than there are.
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

/// Everything but what plays with time.
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
    let found = found(&Bounds { asks, faults, of, wrong, broken: Broken::Nothing });
    if let Some(violation) = found.violation {
        panic!("{violation}");
    }
    assert!(found.exhaustive, "cut off at {MOST} states");
    assert!(found.states >= at_least && found.unsettled > 0, "hardly anything was explored");
}

#[test]
fn three_requests_in_any_order() {
    holds(3, &ASKS, 0, &[], 4_000);
}

#[test]
fn two_requests_and_anything_that_goes_wrong() {
    holds(2, &[Ask::Interrupt, Ask::FollowUp], 1, &QUICK, 4_000);
    holds(2, &[Ask::Interrupt, Ask::Steer], 1, &QUICK, 4_000);
    holds(2, &[Ask::Pause, Ask::Resume, Ask::Cancel], 1, &QUICK, 4_000);
}

#[test]
fn a_request_and_two_things_that_go_wrong() {
    let wrong = [Fault::Crash, Fault::Stuck, Fault::LoseCommand, Fault::LoseAck, Fault::Rebel];
    holds(1, &[Ask::Pause, Ask::Cancel], 2, &wrong, 5_000);
}

#[test]
fn a_request_and_a_sidecar_that_is_slower_than_the_deadlines() {
    holds(1, &[Ask::Interrupt, Ask::Cancel], 1, &[Fault::Slow], 1_000);
}

#[test]
fn a_request_and_a_journal_that_is_slower_than_the_deadlines() {
    holds(1, &ASKS, 1, &[Fault::Lag], 5_000);
}

#[test]
fn a_request_and_a_sidecar_that_is_cut_off() {
    holds(1, &ASKS, 1, &[Fault::CutOff], 4_000);
}

/// A checker that finds nothing has to be one that can: each of these breaks one rule, and is found by it.
#[track_caller]
fn is_found(broken: Broken, asks: u8, of: &[Ask], faults: u8, wrong: &[Fault], as_what: &str) {
    let found = found(&Bounds { asks, faults, of, wrong, broken });
    let violation = found.violation.expect("what is broken is found");
    println!("{broken:?}: {violation}");
    assert!(violation.starts_with(as_what), "{violation}");
}

#[test]
fn an_acknowledgement_of_another_command_that_confirms_is_found() {
    let of = [Ask::Pause, Ask::Resume];
    is_found(Broken::AnyAckConfirms, 3, &of, 1, &[Fault::RepeatCommand], "Paused, and a process works on");
}

#[test]
fn a_slot_that_is_kept_after_a_crash_is_found() {
    is_found(Broken::SlotKept, 0, &[], 1, &[Fault::Crash], "the slot of a run that is over is kept");
}

#[test]
fn deadlines_that_pass_unseen_are_found() {
    is_found(Broken::NoClock, 1, &[Ask::Interrupt], 1, &[Fault::Deaf], "hangs");
}

#[test]
fn a_stop_that_is_told_before_it_is_done_is_found() {
    is_found(Broken::AckBeforeStop, 1, &[Ask::Pause], 0, &[], "Paused, and a process works on");
}

#[test]
fn a_sidecar_that_works_on_unheard_is_found() {
    is_found(Broken::NoSelfStop, 1, &[Ask::Cancel], 1, &[Fault::CutOff], "Cancelled, and a process works on");
}

#[test]
fn an_order_to_kill_that_is_lost_is_found() {
    is_found(Broken::KillLost, 1, &[Ask::Cancel], 1, &[Fault::Deaf], "hangs");
}
