//! Budget (decisions 31 and 32).

use std::collections::BTreeMap;

use pilothouse_domain::session::{AgentFact, AgentSessionStatus as S, LifecycleCommand as C, PausedReason};
use pilothouse_domain::value::{
    Capabilities, ContextWindowSnapshot, MessageSource, SessionOutcome, TokenUsage,
};
use pilothouse_domain::{SessionEvent, SubAgentId, Usd};

use crate::scenario::{
    Scenario, asks, call, calls, can_all, completes, message, starts, turn, usd, used, used_by,
};

#[test]
fn running_totals_are_counted_once() {
    Scenario::running()
        .observes(used("0.2"))
        .observes(used("0.2"))
        .observes(used("0.1"))
        .observes(used("0.3"))
        .then(|s| s.conv.session.metrics().usage.total_cost_usd(), &usd("0.3"))
        .then(|s| s.conv.session.budget().estimated_cost_usd(), &usd("0.3"));
}

fn costs(by_model: [(&str, &str); 2]) -> BTreeMap<String, Usd> {
    by_model.into_iter().map(|(model, cost)| (model.to_owned(), usd(cost))).collect()
}

/// Each report names its model. The costs of the models add up to the total, with those of subagents.
#[test]
fn costs_of_a_session_are_counted_under_their_models() {
    let report = |subagent, model: &str, total| {
        let AgentFact::Used(mut report) = used_by(subagent, total) else { panic!("another fact") };
        model.clone_into(&mut report.model);
        AgentFact::Used(report)
    };
    let sub = SubAgentId::parse("sub").unwrap();
    Scenario::running()
        .observes(report(None, "large", "0.2"))
        .observes(report(None, "large", "0.1"))
        .observes(report(None, "large", "0.3"))
        .observes(report(Some("sub"), "small", "0.05"))
        .observes(report(Some("sub"), "large", "0.1"))
        .then(
            |s| s.conv.session.metrics().usage.cost_usd_by_model().clone(),
            &costs([("large", "0.4"), ("small", "0.05")]),
        )
        .then(|s| s.conv.session.metrics().usage.total_cost_usd(), &usd("0.45"))
        .then(|s| s.conv.session.metrics().usage.unattributed_cost_usd(), &Usd::ZERO)
        .then(
            |s| s.conv.subagents[&sub].usage.cost_usd_by_model().clone(),
            &costs([("large", "0.1"), ("small", "0.05")]),
        );
}

/// Earlier versions stored the tokens of each model, but only the total of the costs.
#[test]
fn cost_of_an_earlier_version_is_of_no_model() {
    let mut scenario = Scenario::running().observes(used("0.2"));
    let mut stored = serde_json::to_value(&scenario.conv.session).unwrap();
    stored["spending"]["metrics"].as_object_mut().unwrap().remove("costUsdByModel").unwrap();
    scenario.conv.session = serde_json::from_value(stored).unwrap();
    scenario
        .then(|s| s.conv.session.metrics().usage.unattributed_cost_usd(), &usd("0.2"))
        .observes(used("0.5"))
        .then(|s| s.conv.session.metrics().usage.total_cost_usd(), &usd("0.5"))
        .then(|s| s.conv.session.metrics().usage.cost_usd_by_model()["m"], &usd("0.3"))
        .then(|s| s.conv.session.metrics().usage.unattributed_cost_usd(), &usd("0.2"));
}

#[test]
fn budget_warning_is_sent_once_within_the_turn() {
    let warning = SessionEvent::BudgetWarning {
        spent_usd: usd("0.8"),
        cap_usd: usd("1"),
        percent_used: "80".to_owned(),
    };
    Scenario::running()
        .observes(used("0.79"))
        .then_events(&["SessionMetricsUpdatedEvent"])
        .observes(used("0.80"))
        .then_events(&[
            "SessionMetricsUpdatedEvent",
            "SessionBudgetWarningEvent",
            "MessageEnqueuedEvent",
            "MessageDispatchedEvent",
        ])
        .then(|s| s.last[1].clone(), &warning)
        .then(|s| s.conv.queue.messages()[0].source, &MessageSource::System)
        .observes(used("0.9"))
        .then_events(&["SessionMetricsUpdatedEvent"]);
}

#[test]
fn events_of_usage_have_the_state_of_the_context_window() {
    let window = |input_tokens| ContextWindowSnapshot {
        usage: TokenUsage { input_tokens, ..TokenUsage::default() },
        model_context_limit: 200_000,
        recorded_at: Scenario::new().now,
    };
    let report = |cost: &str, input_tokens| {
        let AgentFact::Used(mut report) = used(cost) else { panic!("another fact") };
        report.context_window = Some(window(input_tokens));
        AgentFact::Used(report)
    };
    let updated = SessionEvent::MetricsUpdated {
        total_cost_usd: usd("0.3"),
        context_window_usage_percent: Some("85".to_owned()),
        turn_count: 1,
    };
    let nearing = SessionEvent::ContextNearingLimit {
        usage_percent: "85.00".to_owned(),
        model_context_limit: Some(200_000),
    };
    Scenario::idle()
        .observes(starts("t2"))
        .observes(report("0.3", 170_000))
        .then(|s| s.last.clone(), &vec![updated])
        .observes(AgentFact::ContextNearingLimit { usage_percent: "85.00".to_owned() })
        .then(|s| s.last.clone(), &vec![nearing])
        .then_status(S::Running)
        // The next snapshot replaces this one. A report without a snapshot keeps it.
        .observes(report("0.4", 20_000))
        .then(|s| s.conv.session.metrics().context_window, &Some(window(20_000)))
        .observes(used("0.5"))
        .then(|s| s.conv.session.metrics().context_window, &Some(window(20_000)));
}

/// The notice must not start a turn, least of all after an interrupt.
#[test]
fn late_budget_warning_starts_no_turn() {
    for status in [S::Idle, S::Interrupted] {
        Scenario::in_status(status)
            .observes(used("0.85"))
            .then_events(&["SessionMetricsUpdatedEvent", "SessionBudgetWarningEvent"])
            .when(|s| s.die(true))
            .then_hibernated(status)
            .observes_late(used("0.9"))
            .then_events(&["SessionMetricsUpdatedEvent"]);
    }
    // The turn for which the notice is meant ends before it can be sent.
    Scenario::in_status(S::Interrupting)
        .observes(used("0.85"))
        .then_event("MessageEnqueuedEvent")
        .confirms(C::Interrupt)
        .then_events(&["SessionInterruptedEvent", "MessageCancelledEvent"])
        .then_status(S::Interrupted);
}

#[test]
fn the_cap_pauses_in_the_same_commit_and_overshoot_counts() {
    let exhausted = SessionEvent::BudgetExhausted {
        spent_usd: usd("1.25"),
        cap_usd: usd("1"),
        needed_usd: None,
        left_usd: None,
    };
    Scenario::running()
        .observes(used("1.25"))
        .then(|s| s.last.contains(&exhausted), &true)
        .then_event("SessionBudgetExhaustedEvent")
        .then_event("SessionPauseRequestedEvent")
        .then_status(S::Pausing)
        .then(|s| s.conv.session.budget().overshoot_usd(), &usd("0.25"))
        .observes(used("1.5"))
        .then_events(&["SessionMetricsUpdatedEvent"])
        .confirms(C::Pause)
        .then_status(S::Paused)
        .refuses("budget-exhausted", |s| s.resume())
        .when(|s| s.steer(1))
        .then_events(&["MessageEnqueuedEvent"])
        .refuses("cap-below-spend", |s| s.raise_cap("1.5"))
        .when(|s| s.raise_cap("3"))
        .then_events(&["SessionBudgetChangedEvent", "SessionAllowanceChangedEvent"])
        .then_status(S::Paused)
        .when(|s| s.resume())
        .confirms(C::Resume)
        .then_event("MessageDispatchedEvent")
        .then_status(S::Running);
}

#[test]
fn only_running_sessions_pause_at_the_cap() {
    Scenario::idle().observes(used("2")).then_no_event("SessionPauseRequestedEvent").then_status(S::Idle);
    Scenario::in_status(S::WaitingForInput)
        .observes(used("2"))
        .then_status(S::WaitingForInput)
        .refuses("budget-exhausted", |s| s.answer("q1"));
}

#[test]
fn new_work_waits_for_the_cap() {
    Scenario::idle()
        .observes(used("1"))
        .when(|s| s.follow_up(1))
        .then_queue(&[1], &[])
        .when(|s| s.raise_cap("2"))
        .then_events(&["SessionBudgetChangedEvent", "SessionAllowanceChangedEvent", "MessageDispatchedEvent"])
        .then_queue(&[1], &[1]);
    // No run starts for it.
    Scenario::idle()
        .observes(used("1"))
        .when(|s| s.die(true))
        .when(|s| s.follow_up(1))
        .then_no_event("SessionSlotWantedEvent")
        .when(|s| s.raise_cap("2"))
        .then_event("SessionSlotWantedEvent");
    Scenario::running()
        .observes(used("1"))
        .confirms(C::Pause)
        .when(|s| s.die(true))
        .refuses("budget-exhausted", |s| s.resume());
    Scenario::running()
        .observes(AgentFact::SessionEnded {
            is_error: true,
            reason: "x".to_owned(),
            message: None,
            output: None,
        })
        .observes(used("1"))
        .refuses("budget-exhausted", |s| s.retry());
}

#[test]
fn agent_without_pause_support_is_interrupted_at_the_cap() {
    Scenario::launching()
        .observes(AgentFact::SidecarReady(Capabilities::default()))
        .observes(starts("t1"))
        .observes(used("1"))
        .then_event("SessionInterruptRequestedEvent")
        .confirms(C::Interrupt)
        .then_status(S::Interrupted);
}

/// Late usage may use up the budget while a hibernated session waits for its run to resume.
#[test]
fn resume_without_budget_is_abandoned() {
    let mut scenario = Scenario::paused().when(|s| s.die(true));
    // Another session has the owner's only slot.
    scenario.pool.configure(1).unwrap();
    let mut other = Scenario::new();
    other.pool = scenario.pool.clone();
    other.allocate();
    scenario.pool = shifted(&other.pool);
    scenario
        .when(|s| s.resume())
        .then_status(S::Resuming)
        .observes_late(used("5"))
        .then_event("SessionResumeAbandonedEvent")
        .then_hibernated(S::Paused)
        .then(|s| s.conv.session.slot_wanted(), &None);
}

/// The same pool, with its lease held by another session.
fn shifted(pool: &pilothouse_domain::pool::SessionPool) -> pilothouse_domain::pool::SessionPool {
    let json = serde_json::to_string(pool).unwrap();
    let id = pool.leases().keys().next().unwrap().to_string();
    serde_json::from_str(&json.replace(&id, &message(99).to_string())).unwrap()
}

#[test]
fn successful_resume_without_budget_pauses_again() {
    Scenario::in_status(S::Resuming)
        .observes(used("5"))
        .confirms(C::Resume)
        .then_events(&["SessionResumedEvent", "SessionPauseRequestedEvent"])
        .then_status(S::Pausing);
}

/// Deferred facts describe the state before the cap was raised. None of them exhausts the budget again, and the waiting message is
/// sent.
#[test]
fn raised_cap_survives_all_parked_facts() {
    let over_budget =
        AgentFact::TurnCompleted { turn: turn("t1"), output: None, outcome: SessionOutcome::BudgetExceeded };
    let ended =
        AgentFact::SessionEnded { is_error: false, reason: "end".to_owned(), message: None, output: None };
    let table: &[(&[AgentFact], S)] = &[
        (std::slice::from_ref(&over_budget), S::Idle),
        (&[over_budget.clone(), ended.clone()], S::Idle),
        (&[completes("t1")], S::Idle),
        (&[ended], S::Idle),
        (&[AgentFact::BudgetExceeded { needed: Some(usd("0.4")), left: None }], S::Running),
        (&[AgentFact::BudgetExceeded { needed: None, left: None }], S::Running),
        (&[used("1.3")], S::Running),
        (&[asks("q1")], S::WaitingForInput),
        (&[over_budget.clone(), starts("t2")], S::Running),
        (&[over_budget.clone(), starts("t2"), completes("t2")], S::Idle),
    ];
    let pause_confirmed = |s: Scenario| s.confirms(C::Pause);
    for (facts, status) in table {
        for reports_in_pausing in [true, false] {
            let scenario =
                Scenario::running().observes(calls("c1")).observes(used("1.2")).then_status(S::Pausing);
            let scenario = if reports_in_pausing { scenario } else { pause_confirmed(scenario) };
            let starts_late =
                !reports_in_pausing && facts.iter().any(|f| matches!(f, AgentFact::TurnStarted { .. }));
            if starts_late {
                // A turn that starts after the pause was confirmed is activity of a stopped agent (decision 15).
                continue;
            }
            let scenario = facts.iter().fold(scenario, |scenario, fact| scenario.observes(fact.clone()));
            let scenario = if reports_in_pausing { pause_confirmed(scenario) } else { scenario };
            let scenario = scenario
                .then_status(S::Paused)
                .when(|s| s.steer(1))
                .when(|s| s.raise_cap("5"))
                .when(|s| s.resume())
                .confirms(C::Resume);
            let session = &scenario.conv.session;
            assert!(!session.budget().exhausted(), "{facts:?}: {:?}", session.budget());
            assert_eq!(session.status(), *status, "{facts:?}");
            let ends = facts
                .iter()
                .any(|fact| matches!(fact, AgentFact::TurnCompleted { .. } | AgentFact::SessionEnded { .. }));
            assert_eq!(session.open_tool_call(&call("c1")).is_none(), ends, "{facts:?}");
            if session.is_live() && *status != S::WaitingForInput {
                assert!(scenario.conv.queue.messages().iter().all(|m| m.sent), "{facts:?}");
            }
        }
    }
}

fn unmetered() -> AgentFact {
    AgentFact::SidecarReady(Capabilities { unmetered: true, ..can_all() })
}

#[test]
fn unpriced_agent_is_held_until_unmetered_spend_is_allowed() {
    let reason = |s: &Scenario| s.conv.session.paused_reason();
    Scenario::running()
        .observes(unmetered())
        .then_events(&["SessionSpendUnmeteredEvent", "SessionPauseRequestedEvent"])
        .observes(unmetered())
        .then_events(&[])
        .confirms(C::Pause)
        .then_status(S::Paused)
        .then(reason, &Some(PausedReason::Unmetered))
        .refuses("unmetered", Scenario::resume)
        // A higher cap does not help, as it could not be enforced.
        .refuses("unmetered", |s| s.raise_cap("5"))
        .when(|s| s.allow_unmetered(true))
        .then_events(&["SessionBudgetChangedEvent"])
        .when(Scenario::resume)
        .confirms(C::Resume)
        .then_status(S::Running)
        .when(|s| s.raise_cap("5"))
        // The owner withdraws the permission.
        .when(|s| s.allow_unmetered(false))
        .then_status(S::Pausing);
}

#[test]
fn allowed_unmetered_spend_is_only_reported() {
    Scenario::running()
        .when(|s| s.allow_unmetered(true))
        .observes(unmetered())
        .then_events(&["SessionSpendUnmeteredEvent"])
        .then_status(S::Running)
        // A model with a known price.
        .observes(AgentFact::SidecarReady(can_all()))
        .then_events(&[])
        .then(|s| s.conv.session.budget().unmetered(), &false);
}

#[test]
fn new_work_waits_until_unmetered_spend_is_allowed() {
    Scenario::idle()
        .observes(unmetered())
        .then_events(&["SessionSpendUnmeteredEvent"])
        .when(|s| s.follow_up(1))
        .then_queue(&[1], &[])
        .when(|s| s.allow_unmetered(true))
        .then_event("MessageDispatchedEvent");
    // Neither a run nor a retry starts for it. The next run of the same agent changes nothing.
    Scenario::idle()
        .observes(unmetered())
        .when(|s| s.die(true))
        .when(|s| s.follow_up(1))
        .then_no_event("SessionSlotWantedEvent")
        .when(|s| s.allow_unmetered(true))
        .then_event("SessionSlotWantedEvent");
    Scenario::running()
        .observes(unmetered())
        .confirms(C::Pause)
        .observes(AgentFact::SessionEnded {
            is_error: true,
            reason: "x".to_owned(),
            message: None,
            output: None,
        })
        .then_status(S::Failed)
        .refuses("unmetered", Scenario::retry);
}

#[test]
fn usage_and_messages_do_not_move_the_control_version() {
    let scenario = Scenario::idle();
    let version = scenario.conv.session.control_version();
    scenario
        .observes(used("5"))
        .when(|s| s.follow_up(1))
        .observes(completes("t9"))
        .then(|s| s.conv.session.control_version(), &version);
}
