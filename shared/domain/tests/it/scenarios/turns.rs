//! Turns, output, subagents and the end of the agent's conversation (decisions 18, 19, 31).

use pilothouse_domain::conversation::FactOutcome;
use pilothouse_domain::session::{AgentFact, AgentSessionStatus as S, LifecycleCommand, SubAgentStatus};
use pilothouse_domain::value::{ActivityItem, ActivityItemType, FailureReason, ToolCallStatus};
use pilothouse_domain::{SessionEvent, SubAgentId, Timestamp};

use crate::scenario::{Scenario, call, completes, ends, output, starts, usd, used, used_by};

#[test]
fn the_end_of_another_turn_ends_nothing() {
    Scenario::running()
        .observes(completes("t0"))
        .then_ignored("RecordTurnCompleted does not apply while Running")
        .then_status(S::Running)
        .observes(completes("t1"))
        .then_status(S::Idle)
        .observes(completes("t1"))
        .then_ignored("RecordTurnCompleted does not apply while Idle")
        .then(|s| s.conv.session.metrics().turn_count, &1);
}

#[test]
fn agent_api_output_takes_effect_at_the_end_of_the_turn() {
    Scenario::running()
        .when(|s| s.commit(|c, ctx| c.session.submit_output(output(3), ctx)))
        .then_events(&[])
        .observes(completes("t1"))
        .then_events(&["AgentSessionOutputReadyEvent"])
        .then(|s| s.conv.session.output().unwrap().output.files_changed, &3)
        .observes(starts("t2"))
        .observes(completes("t2"))
        .then_events(&["AgentSessionTurnCompletedEvent"])
        .then(|s| s.conv.session.has_pending_review(), &true);
}

#[test]
fn end_of_conversation_ends_turn_and_run_and_records_output() {
    let end = |files| AgentFact::SessionEnded {
        is_error: false,
        reason: "success".to_owned(),
        message: None,
        output: Some(output(files)),
    };
    let scenario = Scenario::running()
        .observes(end(1))
        .then_events(&["AgentSessionOutputReadyEvent", "SessionRunStopOrderedEvent"])
        .then_status(S::Idle);
    let recorded = scenario.output_id();
    scenario.observes(end(1)).then_events(&[]).then(Scenario::output_id, &recorded);
    Scenario::idle()
        .observes(end(1))
        .then_events(&["AgentSessionOutputReadyEvent", "SessionRunStopOrderedEvent"])
        .then(|s| s.conv.session.metrics().turn_count, &1);
    Scenario::idle()
        .observes(ends(false))
        .then_taken(FactOutcome::Applied)
        .then_events(&["SessionRunStopOrderedEvent"]);
}

#[test]
fn error_keeps_the_reason_of_the_agent() {
    let failed = |scenario: Scenario| {
        scenario.observes(ends(true)).then_status(S::Failed).then(
            |s| s.conv.session.failure().map(|f| (f.reason, f.message.clone())),
            &Some((FailureReason::AgentError, Some("max_turns".to_owned()))),
        )
    };
    failed(Scenario::running());
    failed(Scenario::interrupted());
    failed(Scenario::paused());
    failed(Scenario::in_status(S::WaitingForInput));
    // An error does not end an Idle session (S0 8.4), because no turn can fail. Its run is of no further use.
    Scenario::idle().observes(ends(true)).then_events(&["SessionRunStopOrderedEvent"]).then_status(S::Idle);
}

#[test]
fn session_that_ended_while_suspended_is_idle_after_resume() {
    Scenario::paused()
        .observes(ends(false))
        .then_taken(FactOutcome::Deferred)
        .then_status(S::Paused)
        .when(|s| s.die(true))
        .then_hibernated(S::Paused);
    Scenario::interrupted()
        .observes(ends(false))
        .then_ignored("RecordTurnCompleted does not apply while Interrupted")
        .then_status(S::Interrupted);
}

#[test]
fn subagent_usage_counts_for_it_and_its_parents() {
    let sub = SubAgentId::parse("sub").unwrap();
    let started = AgentFact::SubAgentStarted {
        subagent: sub.clone(),
        model: None,
        objective: "Look".to_owned(),
        call: Some(call("task-1")),
    };
    let scenario = Scenario::running()
        .observes(started)
        .observes(used("0.1"))
        .observes(used_by(Some("sub"), "0.2"))
        .observes(used_by(Some("sub"), "0.3"));
    assert_eq!(scenario.conv.subagents[&sub].usage.total_cost_usd(), usd("0.3"));
    assert_eq!(scenario.conv.subagents[&sub].tool_call_id, Some(call("task-1")));
    assert_eq!(scenario.conv.session.metrics().usage.total_cost_usd(), usd("0.4"));
    let scenario = scenario
        .observes(AgentFact::SubAgentEnded { subagent: sub.clone(), failure: None })
        .then_events(&["SubAgentSessionCompletedEvent"]);
    let scenario =
        scenario.observes(AgentFact::SubAgentEnded { subagent: sub.clone(), failure: None }).then_events(&[]);
    assert_eq!(scenario.conv.subagents[&sub].status, SubAgentStatus::Completed);
}

#[test]
fn usage_of_an_unannounced_subagent_counts_for_it_too() {
    let scenario = Scenario::running().observes(used_by(Some("late"), "0.2"));
    let sub = &scenario.conv.subagents[&SubAgentId::parse("late").unwrap()];
    assert_eq!((sub.usage.total_cost_usd(), sub.model_id.as_deref()), (usd("0.2"), Some("m")));
    assert_eq!(scenario.conv.session.metrics().usage.total_cost_usd(), usd("0.2"));
    // Its totals keep growing.
    let scenario = scenario.observes(used_by(Some("late"), "0.5"));
    assert_eq!(scenario.conv.session.metrics().usage.total_cost_usd(), usd("0.5"));
    let failed = SessionEvent::SubAgentFailed {
        sub_agent_id: SubAgentId::parse("late").unwrap(),
        failure_reason: FailureReason::InfrastructureError,
    };
    scenario
        .when(|s| s.die(true))
        .then(|s| s.last.contains(&failed), &true)
        .then_event("SubAgentSessionFailedEvent");
}

#[test]
fn events_of_a_subagent_name_it() {
    let sub = || SubAgentId::parse("sub").unwrap();
    let (model, tool) = (|| Some("small".to_owned()), || "Bash".to_owned());
    let steps = [
        (
            AgentFact::SubAgentStarted {
                subagent: sub(),
                model: model(),
                objective: "Look".to_owned(),
                call: None,
            },
            SessionEvent::SubAgentStarted { sub_agent_id: sub(), model_id: model() },
        ),
        (
            AgentFact::Said { subagent: Some(sub()) },
            SessionEvent::MessageRecorded { sub_agent_id: Some(sub()) },
        ),
        (
            AgentFact::ToolStarted { call: call("c1"), name: tool(), subagent: Some(sub()) },
            SessionEvent::ToolCallStarted {
                tool_call_id: call("c1"),
                tool_name: tool(),
                sub_agent_id: Some(sub()),
            },
        ),
        (
            AgentFact::ToolEnded { call: call("c1"), is_error: false, subagent: Some(sub()) },
            SessionEvent::ToolCallCompleted {
                tool_call_id: call("c1"),
                tool_name: Some(tool()),
                status: ToolCallStatus::Success,
                sub_agent_id: Some(sub()),
            },
        ),
        (
            AgentFact::SubAgentEnded { subagent: sub(), failure: Some("It broke.".to_owned()) },
            SessionEvent::SubAgentFailed { sub_agent_id: sub(), failure_reason: FailureReason::AgentError },
        ),
    ];
    let mut scenario = Scenario::running();
    for (fact, event) in steps {
        scenario = scenario.observes(fact);
        assert_eq!(scenario.last, [event]);
    }
}

#[test]
fn open_tool_calls_end_with_their_turn() {
    let open = |s: &Scenario| s.conv.session.open_tool_call(&crate::scenario::call("c1")).is_some();
    let calling = || Scenario::running().observes(crate::scenario::calls("c1")).then(open, &true);
    calling()
        .observes(completes("t1"))
        .then_events(&["ToolCallCompletedEvent", "AgentSessionTurnCompletedEvent"])
        .then(open, &false);
    calling()
        .when(|s| s.interrupt())
        .confirms(LifecycleCommand::Interrupt)
        .then_events(&["SessionInterruptedEvent", "ToolCallCompletedEvent"])
        .then(open, &false);
    // The end of a turn ends its calls even if it is deferred.
    calling()
        .when(|s| s.pause())
        .observes(completes("t1"))
        .then_events(&["ToolCallCompletedEvent"])
        .then(open, &false);
    // The end of a replaced turn ends nothing.
    Scenario::running()
        .observes(starts("t2"))
        .observes(crate::scenario::calls("c1"))
        .observes(completes("t1"))
        .then(open, &true);
    // A late result is recorded as a result.
    calling()
        .observes(completes("t1"))
        .observes(crate::scenario::results("c1"))
        .then_events(&["ToolCallCompletedEvent"]);
    let id = crate::scenario::call("c1");
    let failed =
        calling().observes(AgentFact::ToolEnded { call: id.clone(), is_error: true, subagent: None });
    assert_eq!(
        failed.last,
        [SessionEvent::ToolCallCompleted {
            tool_call_id: id,
            tool_name: Some("Bash".to_owned()),
            status: ToolCallStatus::Error,
            sub_agent_id: None,
        }]
    );
}

/// S0 8.5: the result of a call is set exactly once.
#[test]
fn first_result_of_a_tool_call_counts() {
    let result = |is_error| AgentFact::ToolEnded { call: call("c1"), is_error, subagent: None };
    let calling = || Scenario::running().observes(crate::scenario::calls("c1"));
    let answered = || calling().observes(result(false)).then_events(&["ToolCallCompletedEvent"]);
    answered().observes(result(true)).then_events(&[]).then_taken(FactOutcome::Applied);
    answered().observes(completes("t1")).observes(result(true)).then_events(&[]);
    // A call that was never reported has one result as well.
    let unheard = Scenario::running().observes(result(false)).then_events(&["ToolCallCompletedEvent"]);
    unheard.observes(result(true)).then_events(&[]);
    // A call that ended with its turn has no result before a late one.
    let late =
        calling().observes(completes("t1")).observes(result(false)).then_events(&["ToolCallCompletedEvent"]);
    late.observes(result(true)).then_events(&[]);
    // An agent may use an id again.
    let again = answered().observes(crate::scenario::calls("c1"));
    again.observes(result(true)).then_events(&["ToolCallCompletedEvent"]);
}

/// A result is listed beside its call as long as the call is known.
#[test]
fn ended_tool_calls_are_known_for_a_while() {
    let recorded = |s: &Scenario| s.conv.session.tool_call_recorded_at(&call("c1"));
    let calling = Scenario::running().observes(crate::scenario::calls("c1"));
    let place = recorded(&calling);
    assert!(place.is_some());
    let ended = calling.observes(completes("t1")).then(recorded, &place);
    let next_run = ended.when(|s| s.die(true)).observes_late(crate::scenario::results("c1"));
    let answered = next_run.then(recorded, &place).observes_late(crate::scenario::results("c1"));
    assert!(answered.conv.session.has_tool_result(&call("c1")));
    let many = (2..40).fold(Scenario::running().observes(crate::scenario::results("c1")), |scenario, n| {
        scenario.observes(crate::scenario::results(&format!("c{n}")))
    });
    assert!(
        !many.conv.session.has_tool_result(&call("c1")) && many.conv.session.has_tool_result(&call("c39"))
    );
}

#[test]
fn open_tool_calls_end_with_their_run() {
    Scenario::running().observes(crate::scenario::calls("c1")).when(|s| s.die(true)).then_events(&[
        "ToolCallCompletedEvent",
        "AgentSessionFailedEvent",
        "SessionRunEndedEvent",
        "SessionReleasedEvent",
    ]);
}

#[test]
fn message_refused_without_an_agent_waits_for_a_new_run() {
    let mut scenario = Scenario::idle().when(|s| s.steer(1)).then_event("MessageDispatchedEvent");
    let command = super::delivery::dispatched(&scenario);
    scenario = scenario
        .observes(AgentFact::CommandRefused {
            command,
            code: "no-agent".into(),
            message: "The agent is gone.".into(),
        })
        .then_events(&["SessionCommandRefusedEvent", "MessageReturnedEvent", "SessionRunStopOrderedEvent"]);
    scenario.when(|s| s.die(true)).then_event("SessionSlotWantedEvent").then_status(S::Idle);
}

#[test]
fn resume_refused_after_the_turn_ended_counts_as_its_end() {
    let scenario = Scenario::paused().observes(completes("t1")).when(|s| s.resume());
    let command = scenario.conv.session.pending_command().unwrap().command_id;
    scenario
        .observes(AgentFact::CommandRefused {
            command,
            code: "no-agent".into(),
            message: "The agent is gone.".into(),
        })
        .then_event("AgentSessionTurnCompletedEvent")
        .then_status(S::Idle);
}

#[test]
fn call_that_ends_with_its_run_keeps_its_subagent() {
    let subagent = SubAgentId::parse("helper").unwrap();
    let started = AgentFact::ToolStarted {
        call: call("c1"),
        name: "Bash".to_owned(),
        subagent: Some(subagent.clone()),
    };
    let scenario = Scenario::running().observes(started).when(|s| s.die(true));
    let ended: Vec<_> = scenario
        .last
        .iter()
        .filter_map(|event| match event {
            SessionEvent::ToolCallCompleted { tool_call_id, status, sub_agent_id, .. } => {
                Some((tool_call_id.clone(), *status, sub_agent_id.clone()))
            }
            _ => None,
        })
        .collect();
    assert_eq!(ended, [(call("c1"), ToolCallStatus::Error, Some(subagent))]);
}

#[test]
fn detail_is_truncated_only_beyond_its_limit() {
    let line = |chars| {
        let item = ActivityItem::new(ActivityItemType::Message, "m", Timestamp::from_millis(0));
        item.with_detail(&"ä".repeat(chars))
    };
    let (whole, cut) = (line(ActivityItem::MAX_DETAIL), line(ActivityItem::MAX_DETAIL + 1));
    assert!(!whole.truncated && cut.truncated);
    assert_eq!(whole.detail.unwrap().chars().count(), ActivityItem::MAX_DETAIL);
    assert!(serde_json::to_value(&cut).unwrap()["truncated"] == true);
}

#[test]
fn summary_is_one_line_of_1_to_200_characters() {
    let summary =
        |text: &str| ActivityItem::new(ActivityItemType::Message, text, Timestamp::from_millis(0)).summary;
    let longest = "ä".repeat(200);
    assert_eq!(summary(&longest), longest);
    assert_eq!(summary(&format!("{longest}ä")).chars().count(), 200);
    assert_eq!(summary("first\n second"), "first second");
    assert_eq!(summary(" \n"), "Message");
}
