//! Full disks of the server and of the sidecar.

use pilothouse_domain::Events;
use pilothouse_domain::session::{
    AgentSessionStatus as S, LifecycleCommand as C, PausedReason, SessionError,
};
use pilothouse_domain::value::Disk;

use crate::scenario::{Scenario, Step};

fn server_disk_is_short(scenario: &mut Scenario) -> Step {
    scenario.commit(|conv, ctx| Ok::<Events, SessionError>(conv.session.pause_for_disk(ctx)))
}

fn worker_disk(scenario: &mut Scenario, is_full: bool) -> Step {
    scenario.commit(|conv, ctx| Ok::<Events, SessionError>(conv.session.observe_worker_disk(is_full, ctx)))
}

fn reason(scenario: &Scenario) -> Option<PausedReason> {
    scenario.conv.session.paused_reason()
}

fn disk(scenario: &Scenario) -> Option<Disk> {
    scenario.conv.session.full_disk().map(|full| full.disk)
}

#[test]
fn a_full_server_disk_pauses_and_the_clock_resumes() {
    Scenario::running()
        .when(server_disk_is_short)
        .then_events(&["SessionDiskFullEvent", "SessionPauseRequestedEvent"])
        .then(reason, &Some(PausedReason::DiskFull))
        .when(server_disk_is_short)
        .then_events(&[])
        // The pause is not confirmed yet, so the check is postponed.
        .when(|s| s.clock_with_heartbeats(5))
        .then_events(&[])
        .confirms(C::Pause)
        .then_status(S::Paused)
        .then(reason, &Some(PausedReason::DiskFull))
        .when(|s| s.clock_with_heartbeats(5))
        .then_events(&["SessionDiskFreedEvent", "SessionResumeRequestedEvent"])
        .confirms(C::Resume)
        .then_status(S::Running)
        .then(disk, &None)
        .then(|s| s.conv.session.turn().is_some(), &true);
}

#[test]
fn full_server_disk_ignores_resting_sessions() {
    for status in [S::Idle, S::Interrupted, S::Paused, S::Queued] {
        Scenario::in_status(status).when(server_disk_is_short).then_events(&[]).then_status(status);
    }
}

#[test]
fn owner_request_ends_the_wait_for_the_disk() {
    Scenario::running()
        .when(server_disk_is_short)
        .confirms(C::Pause)
        .when(Scenario::resume)
        .then(disk, &None)
        .confirms(C::Resume)
        .then_status(S::Running);
    Scenario::running()
        .when(server_disk_is_short)
        .confirms(C::Pause)
        .when(Scenario::cancel)
        .confirms(C::Stop)
        .then_status(S::Cancelled)
        .then(disk, &None);
}

#[test]
fn a_full_worker_disk_is_shown_and_changes_no_status() {
    Scenario::running()
        .when(|s| worker_disk(s, true))
        .then_events(&["SessionDiskFullEvent"])
        .then_status(S::Running)
        .then(disk, &Some(Disk::Worker))
        .then(reason, &None)
        .when(|s| worker_disk(s, true))
        .then_events(&[])
        .when(|s| worker_disk(s, false))
        .then_events(&["SessionDiskFreedEvent"])
        .then(disk, &None);
    Scenario::running().when(|s| worker_disk(s, true)).when(|s| s.die(true)).then(disk, &None);
}
