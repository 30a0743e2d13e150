//! Model calls beyond the budget (decision 32), exhausted quotas (decision 39), and deliverables (S4).

use std::time::Duration;

use pilothouse_domain::SessionEvent;
use pilothouse_domain::session::{
    AgentFact, AgentSessionStatus as S, LifecycleCommand as C, PausedReason, ProcessState,
};
use pilothouse_domain::value::{Capabilities, DeliverableCounts};

use crate::scenario::{Scenario, asks, starts, usd, used};

fn too_dear() -> AgentFact {
    AgentFact::BudgetExceeded { needed: Some(usd("0.4")), left: Some(usd("0.3")) }
}

fn used_up(scenario: &Scenario, seconds: Option<u64>) -> AgentFact {
    AgentFact::QuotaExceeded {
        message: Some("5-hour limit reached".to_owned()),
        reset_at: seconds.map(|seconds| scenario.now + Duration::from_secs(seconds)),
    }
}

fn reason(scenario: &Scenario) -> Option<PausedReason> {
    scenario.conv.session.paused_reason()
}

#[test]
fn call_beyond_the_budget_pauses_until_the_cap_is_raised() {
    Scenario::running()
        .observes(used("0.7"))
        .observes(too_dear())
        .then_events(&["SessionBudgetExhaustedEvent", "SessionPauseRequestedEvent"])
        .then(|s| matches!(s.last[0], SessionEvent::BudgetExhausted { left_usd: Some(left), .. } if left == usd("0.3")), &true)
        .then(|s| s.conv.session.budget().exhausted(), &true)
        .then(|s| s.conv.session.budget().remaining_usd(), &usd("0.3"))
        .observes(too_dear())
        .then_events(&[])
        .confirms(C::Pause)
        .then_status(S::Paused)
        .then(reason, &Some(PausedReason::BudgetExhausted))
        .refuses("budget-exhausted", Scenario::resume)
        // The same cap does not help, as the call still costs as much.
        .when(|s| s.raise_cap("1"))
        .refuses("budget-exhausted", Scenario::resume)
        .when(|s| s.raise_cap("2"))
        .then_events(&["SessionBudgetChangedEvent", "SessionAllowanceChangedEvent"])
        .when(Scenario::resume)
        .confirms(C::Resume)
        .then_status(S::Running)
        .then(|s| s.conv.session.turn().is_some(), &true);
}

/// The cap was raised while the agent reported the old one: the agent checks again with the new allowance.
#[test]
fn call_beyond_an_earlier_budget_holds_nobody() {
    Scenario::running()
        .when(|s| s.raise_cap("2"))
        .then_event("SessionAllowanceChangedEvent")
        .observes(too_dear())
        .then_events(&[])
        .then_status(S::Running);
}

#[test]
fn exhausted_quota_pauses_in_the_same_commit_and_resumes() {
    let scenario = Scenario::running();
    let fact = used_up(&scenario, Some(600));
    scenario
        .observes(fact)
        .then_events(&["SessionQuotaExceededEvent", "SessionPauseRequestedEvent"])
        .confirms(C::Pause)
        .then_status(S::Paused)
        .then(reason, &Some(PausedReason::QuotaExceeded))
        .when(|s| s.clock_with_heartbeats(599))
        .then_events(&[])
        .when(|s| s.clock_with_heartbeats(1))
        .then_events(&["SessionQuotaResetEvent", "SessionResumeRequestedEvent"])
        .confirms(C::Resume)
        .then_status(S::Running)
        .then(|s| s.conv.session.quota().is_none(), &true)
        .then(|s| s.conv.session.turn().is_some(), &true);
}

#[test]
fn unavailable_model_pauses_and_says_so() {
    let unavailable = |retry_at| AgentFact::ModelUnavailable { message: Some("overloaded".into()), retry_at };
    let scenario = Scenario::running()
        .observes(unavailable(None))
        .then_events(&["SessionModelUnavailableEvent", "SessionPauseRequestedEvent"])
        .confirms(C::Pause)
        .then(reason, &Some(PausedReason::ModelUnavailable))
        .when(|s| s.clock_with_heartbeats(3_000))
        .then_events(&[])
        .when(Scenario::resume)
        .confirms(C::Resume)
        .then_status(S::Running)
        .then(|s| s.conv.session.turn().is_some(), &true);
    let retry_at = Some(scenario.now + Duration::from_mins(10));
    scenario
        .observes(unavailable(retry_at))
        .confirms(C::Pause)
        .when(|s| s.clock_with_heartbeats(600))
        .then_events(&["SessionResumeRequestedEvent"]);
}

#[test]
fn hibernated_session_wakes_when_its_quota_resets() {
    let scenario = Scenario::running();
    let fact = used_up(&scenario, Some(7200));
    scenario
        .observes(fact)
        .confirms(C::Pause)
        .when(|s| s.clock_with_heartbeats(3600))
        .then_event("SessionHibernationOrderedEvent")
        .when(|s| s.die(true))
        .then_hibernated(S::Paused)
        .when(|s| s.clock(3600, ProcessState::Unknown))
        .then_event("SessionQuotaResetEvent")
        .then_event("SessionRunRequestedEvent")
        .wakes()
        .confirms(C::Resume)
        .then_status(S::Running);
}

/// A reset time in the past must not cause an immediate resume, over and over.
#[test]
fn the_clock_does_not_resume_at_once() {
    let scenario = Scenario::running();
    let fact = used_up(&scenario, Some(0));
    scenario
        .observes(fact)
        .confirms(C::Pause)
        .when(|s| s.clock_with_heartbeats(29))
        .then_events(&[])
        .when(|s| s.clock_with_heartbeats(1))
        .then_event("SessionResumeRequestedEvent");
}

#[test]
fn without_a_reset_time_its_owner_resumes() {
    let scenario = Scenario::running();
    let fact = used_up(&scenario, None);
    let scenario = scenario
        .observes(fact)
        .confirms(C::Pause)
        .when(|s| s.clock_with_heartbeats(3599))
        .then_events(&[])
        .when(Scenario::resume)
        .confirms(C::Resume)
        .then_status(S::Running);
    // The quota is still used up, so the session pauses again.
    let fact = used_up(&scenario, None);
    scenario.observes(fact).then_status(S::Pausing);
}

#[test]
fn session_paused_by_its_owner_is_not_resumed_by_the_clock() {
    let scenario = Scenario::running().when(Scenario::pause);
    let fact = used_up(&scenario, Some(60));
    scenario
        .observes(fact)
        .then_events(&["SessionQuotaExceededEvent"])
        .confirms(C::Pause)
        .then(reason, &Some(PausedReason::Owner))
        .when(|s| s.clock_with_heartbeats(3000))
        .then_events(&[]);
}

#[test]
fn quota_reset_without_budget_resumes_nothing() {
    let scenario = Scenario::running();
    let fact = used_up(&scenario, Some(60));
    scenario
        .observes(fact)
        .observes(used("5"))
        .confirms(C::Pause)
        .when(|s| s.clock_with_heartbeats(60))
        .then_events(&["SessionQuotaResetEvent"])
        .then_status(S::Paused)
        .then(reason, &Some(PausedReason::BudgetExhausted));
}

#[test]
fn waiting_agent_is_paused_when_it_continues() {
    let scenario = Scenario::running().observes(asks("q1"));
    let fact = used_up(&scenario, None);
    scenario
        .observes(fact)
        .then_status(S::WaitingForInput)
        .when(|s| s.answer("q1"))
        .then_event("SessionPauseRequestedEvent")
        .then_status(S::Pausing);
}

#[test]
fn agent_without_pause_support_is_interrupted() {
    let scenario = Scenario::launching()
        .observes(AgentFact::SidecarReady(Capabilities::default()))
        .observes(starts("t1"));
    let fact = used_up(&scenario, None);
    scenario
        .observes(fact)
        .then_event("SessionInterruptRequestedEvent")
        .confirms(C::Interrupt)
        .then_status(S::Interrupted);
}

#[test]
fn deliverable_counts_refer_to_their_journal_entry() {
    let reported = |pending, passed, blocked| {
        AgentFact::DeliverablesReported(DeliverableCounts { pending, passed, blocked })
    };
    let scenario = Scenario::running().observes(reported(2, 1, 0));
    let changed = SessionEvent::DeliverablesChanged { pending: 2, passed: 1, blocked: 0 };
    assert_eq!(scenario.last, [changed]);
    let recorded = scenario.conv.session.deliverables().unwrap();
    assert_eq!(
        (recorded.counts.total(), recorded.journal_sequence),
        (3, scenario.conv.session.journal_sequence() + 1)
    );
    // A run that has ended reports nothing about the deliverables of the next one.
    let scenario = scenario.observes_late(reported(9, 0, 0)).then_ignored("stale-run");
    assert_eq!(scenario.conv.session.deliverables().unwrap().counts.passed, 1);
}
