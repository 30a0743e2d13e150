//! Budget (rulings 31 and 32).

use pilothouse_domain::session::{AgentFact, AgentSessionStatus as S, LifecycleCommand as C};
use pilothouse_domain::value::{Capabilities, MessageSource};

use crate::scene::{Scene, completes, message, starts, usd, used};

#[test]
fn running_totals_are_counted_once() {
    Scene::running()
        .told(used("0.2"))
        .told(used("0.2"))
        .told(used("0.1"))
        .told(used("0.3"))
        .then(|s| s.conv.session.metrics().total_cost_usd, &usd("0.3"))
        .then(|s| s.conv.session.budget().estimated_cost_usd(), &usd("0.3"));
}

#[test]
fn the_warning_comes_once_and_reaches_the_agent_in_its_turn() {
    Scene::running()
        .told(used("0.79"))
        .then_events(&["MetricsUpdated"])
        .told(used("0.80"))
        .then_events(&["MetricsUpdated", "BudgetWarning", "MessageEnqueued", "MessageDispatched"])
        .then(|s| s.conv.queue.messages()[0].source, &MessageSource::System)
        .told(used("0.9"))
        .then_events(&["MetricsUpdated"]);
}

/// A notice must not begin a turn, least of all after an interrupt.
#[test]
fn a_warning_that_comes_late_begins_no_turn() {
    for status in [S::Idle, S::Interrupted] {
        Scene::in_status(status)
            .told(used("0.85"))
            .then_events(&["MetricsUpdated", "BudgetWarning"])
            .when(|s| s.die(true))
            .then_hibernated(status)
            .told_late(used("0.9"))
            .then_events(&["MetricsUpdated"]);
    }
    // The turn that it is for ends before it can be said.
    Scene::in_status(S::Interrupting)
        .told(used("0.85"))
        .then_event("MessageEnqueued")
        .told_done(C::Interrupt)
        .then_events(&["Interrupted", "MessageCancelled"])
        .then_status(S::Interrupted);
}

#[test]
fn the_cap_pauses_in_the_same_commit_and_overshoot_counts() {
    Scene::running()
        .told(used("1.25"))
        .then_event("BudgetExhausted")
        .then_event("PauseRequested")
        .then_status(S::Pausing)
        .then(|s| s.conv.session.budget().overshoot_usd(), &usd("0.25"))
        .told(used("1.5"))
        .then_events(&["MetricsUpdated"])
        .told_done(C::Pause)
        .then_status(S::Paused)
        .refuses("budget-exhausted", |s| s.resume())
        .when(|s| s.steer(1))
        .then_events(&["MessageEnqueued"])
        .refuses("cap-below-spend", |s| s.raise_cap("1.5"))
        .when(|s| s.raise_cap("3"))
        .then_events(&["BudgetChanged", "AllowanceChanged"])
        .then_status(S::Paused)
        .when(|s| s.resume())
        .told_done(C::Resume)
        .then_event("MessageDispatched")
        .then_status(S::Running);
}

#[test]
fn only_running_pauses() {
    Scene::idle().told(used("2")).then_no_event("PauseRequested").then_status(S::Idle);
    Scene::in_status(S::WaitingForInput)
        .told(used("2"))
        .then_status(S::WaitingForInput)
        .refuses("budget-exhausted", |s| s.answer("q1"));
}

#[test]
fn what_would_run_waits_for_the_cap() {
    Scene::idle()
        .told(used("1"))
        .when(|s| s.follow_up(1))
        .then_queue(&[1], &[])
        .when(|s| s.raise_cap("2"))
        .then_events(&["BudgetChanged", "AllowanceChanged", "MessageDispatched"])
        .then_queue(&[1], &[1]);
    // Neither is a run taken for it.
    Scene::idle()
        .told(used("1"))
        .when(|s| s.die(true))
        .when(|s| s.follow_up(1))
        .then_no_event("SlotWanted")
        .when(|s| s.raise_cap("2"))
        .then_event("SlotWanted");
    Scene::running()
        .told(used("1"))
        .told_done(C::Pause)
        .when(|s| s.die(true))
        .refuses("budget-exhausted", |s| s.resume());
    Scene::running()
        .told(AgentFact::SessionEnded { is_error: true, reason: "x".to_owned(), message: None, output: None })
        .told(used("1"))
        .refuses("budget-exhausted", |s| s.retry());
}

#[test]
fn an_agent_that_cannot_pause_is_interrupted_at_the_cap() {
    Scene::launching()
        .told(AgentFact::SidecarReady(Capabilities::default()))
        .told(starts("t1"))
        .told(used("1"))
        .then_event("InterruptRequested")
        .told_done(C::Interrupt)
        .then_status(S::Interrupted);
}

/// Late usage may spend the rest while a hibernated session waits for its run to resume.
#[test]
fn a_resume_with_nothing_left_is_abandoned() {
    let mut scene = Scene::paused().when(|s| s.die(true));
    // The owner's only slot is taken by another session.
    scene.pool.configure(1).unwrap();
    let mut other = Scene::new();
    other.pool = scene.pool.clone();
    other.allocate();
    scene.pool = shifted(&other.pool);
    scene
        .when(|s| s.resume())
        .then_status(S::Resuming)
        .told_late(used("5"))
        .then_event("ResumeAbandoned")
        .then_hibernated(S::Paused)
        .then(|s| s.conv.session.slot_wanted(), &None);
}

/// The same pool with its lease in another session's name.
fn shifted(pool: &pilothouse_domain::pool::SessionPool) -> pilothouse_domain::pool::SessionPool {
    let json = serde_json::to_string(pool).unwrap();
    let id = pool.leases().keys().next().unwrap().to_string();
    serde_json::from_str(&json.replace(&id, &message(99).to_string())).unwrap()
}

#[test]
fn a_resume_that_succeeds_with_nothing_left_pauses_again() {
    Scene::in_status(S::Resuming)
        .told(used("5"))
        .told_done(C::Resume)
        .then_events(&["Resumed", "PauseRequested"])
        .then_status(S::Pausing);
}

#[test]
fn usage_and_messages_do_not_move_the_control_version() {
    let scene = Scene::idle();
    let version = scene.conv.session.control_version();
    scene
        .told(used("5"))
        .when(|s| s.follow_up(1))
        .told(completes("t9"))
        .then(|s| s.conv.session.control_version(), &version);
}
