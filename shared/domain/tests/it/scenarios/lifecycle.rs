//! The two-phase life cycle (decisions 11, 15 to 17), review, and retry.

use pilothouse_domain::conversation::FactOutcome;
use pilothouse_domain::output::{CommitSha, SessionOutput};
use pilothouse_domain::session::{
    AgentFact, AgentSessionStatus as S, LifecycleCommand as C, RunCause, RunPhase,
};
use pilothouse_domain::text::Feedback;
use pilothouse_domain::value::{Capabilities, ExecutionMode, FailureReason, SessionOutcome};
use pilothouse_domain::{CommandId, OutputId, SessionEvent};
use uuid::Uuid;

use crate::scenario::{
    Scenario, Step, asks, calls, can_all, completes, ends, message, output, said, skill, starts, starts_with,
    turn, used,
};

#[test]
fn session_is_created_launched_started_and_closed() {
    let scenario = Scenario::launching();
    let now = scenario.now;
    let turn_completed =
        SessionEvent::TurnCompleted { turn_count: 1, last_turn_at: now, outcome: SessionOutcome::Completed };
    scenario
        .then_events(&["AgentSessionCreatedEvent", "SessionRunRequestedEvent", "SessionAllocatedEvent"])
        .observes(AgentFact::SidecarReady(can_all()))
        .then_events(&["AgentSessionStartedEvent", "SessionRunReadyEvent"])
        .then_status(S::Running)
        .then(|s| s.conv.session.started_at(), &Some(now))
        .then(|s| s.conv.session.api_key_hash() == Some(s.key.as_str()), &true)
        .observes(starts("t1"))
        .then_events(&["AgentSessionTurnStartedEvent"])
        .observes(completes("t1"))
        .then_events(&["AgentSessionTurnCompletedEvent"])
        .then(|s| s.last[0].clone(), &turn_completed)
        .then(|s| s.conv.session.metrics().last_turn_at, &Some(now))
        .when(|s| s.close())
        .then_events(&["AgentSessionClosedEvent", "SessionRunStopOrderedEvent"])
        .then_status(S::Completed)
        .when(|s| s.die(true))
        .then_events(&["SessionRunEndedEvent", "SessionReleasedEvent"])
        .then_status(S::Completed);
}

#[test]
fn start_records_what_the_agent_works_with() {
    let mut scenario = Scenario::launching();
    scenario.conv.session.set_skills(&[skill(1)]).unwrap();
    let scenario = scenario.observes(AgentFact::SidecarReady(can_all()));
    let SessionEvent::Started { enabled_skill_ids, execution_mode, .. } = &scenario.last[0] else {
        panic!("{:?}", scenario.last)
    };
    assert_eq!((&enabled_skill_ids[..], *execution_mode), (&[skill(1)][..], Some(ExecutionMode::Standalone)));
}

#[test]
fn each_request_waits_for_its_acknowledgement() {
    Scenario::running()
        .when(|s| s.pause())
        .then_events(&["SessionPauseRequestedEvent"])
        .then_status(S::Pausing)
        .refuses("invalid-transition", |s| s.pause())
        .refuses("invalid-transition", |s| s.interrupt())
        .refuses("invalid-transition", |s| s.resume())
        .confirms(C::Pause)
        .then_events(&["SessionPausedEvent"])
        .when(|s| s.resume())
        .then_events(&["SessionResumeRequestedEvent"])
        .confirms(C::Resume)
        .then_events(&["SessionResumedEvent"])
        .then_status(S::Running)
        .when(|s| s.interrupt())
        .then_events(&["SessionInterruptRequestedEvent"])
        .confirms(C::Interrupt)
        .then_events(&["SessionInterruptedEvent"])
        .then_status(S::Interrupted)
        .when(|s| s.cancel())
        .then_events(&["SessionCancelRequestedEvent"])
        .confirms(C::Stop)
        .then_events(&["SessionCancelledEvent", "SessionRunStopOrderedEvent"])
        .then_status(S::Cancelled);
}

#[test]
fn duplicate_stale_and_foreign_acknowledgements_are_ignored() {
    let scenario = Scenario::running().when(|s| s.pause());
    let command = scenario.pending_command();
    let foreign = CommandId::new(Uuid::from_u128(42));
    scenario
        .observes(AgentFact::CommandDone(C::Pause, foreign))
        .then_ignored("stale-ack")
        .observes(AgentFact::CommandDone(C::Interrupt, command))
        .then_ignored("stale-ack")
        .then_status(S::Pausing)
        .confirms(C::Pause)
        .observes(AgentFact::CommandDone(C::Pause, command))
        .then_ignored("stale-ack")
        .then_events(&[])
        .then_status(S::Paused);
}

#[test]
fn done_without_received_confirms() {
    let scenario = Scenario::running().when(|s| s.interrupt());
    let command = scenario.pending_command();
    scenario.observes(AgentFact::CommandDone(C::Interrupt, command)).then_status(S::Interrupted);
}

#[test]
fn facts_of_an_earlier_run_only_count_usage() {
    Scenario::running()
        .observes_late(completes("t1"))
        .then_ignored("stale-run")
        .then_status(S::Running)
        .observes_late(used("0.10"))
        .then_taken(FactOutcome::Applied)
        .then_events(&["SessionMetricsUpdatedEvent", "SessionAllowanceChangedEvent"])
        .observes_late(said())
        .then_taken(FactOutcome::Applied)
        .then_status(S::Running);
}

#[test]
fn cancel_during_another_request_runs_after_it() {
    for (given, done, confirmed) in [
        (Scenario::in_status(S::Interrupting), C::Interrupt, "SessionInterruptedEvent"),
        (Scenario::in_status(S::Pausing), C::Pause, "SessionPausedEvent"),
        (Scenario::in_status(S::Resuming), C::Resume, "SessionResumedEvent"),
    ] {
        given
            .when(|s| s.cancel())
            .then_events(&["SessionCancelAcceptedEvent"])
            .when(|s| s.cancel())
            .then_events(&[])
            .confirms(done)
            .then_events(&[confirmed, "SessionCancelRequestedEvent"])
            .then_status(S::Cancelling)
            .confirms(C::Stop)
            .then_status(S::Cancelled);
    }
}

/// The end of the process resolves the earlier request, and the cancellation follows (decision 16).
#[test]
fn accepted_cancel_outlasts_the_process() {
    let deaths: [fn(&mut Scenario) -> Step; 3] = [|s| s.die(true), |s| s.die(false), Scenario::lose];
    for status in [S::Interrupting, S::Pausing, S::Resuming] {
        for death in deaths {
            Scenario::in_status(status)
                // The agent's own error does not undo it either.
                .observes(ends(true))
                .when(|s| s.steer(1))
                .when(Scenario::cancel)
                .then_events(&["SessionCancelAcceptedEvent"])
                .when(death)
                .then_event("SessionCancelRequestedEvent")
                .then_event("SessionCancelledEvent")
                .then_no_event("AgentSessionFailedEvent")
                .then_status(S::Cancelled)
                .then_queue(&[], &[])
                .then(|s| s.pool.leases().len(), &0);
        }
    }
}

/// Facts from before the death count first (decision 17).
#[test]
fn output_of_an_ended_turn_outlasts_process_and_cancel() {
    Scenario::in_status(S::Interrupting)
        .observes(AgentFact::TurnCompleted {
            turn: turn("t1"),
            output: Some(output(2)),
            outcome: SessionOutcome::Completed,
        })
        .when(Scenario::cancel)
        .when(|s| s.die(true))
        .then_event("AgentSessionOutputReadyEvent")
        .then_status(S::Cancelled);
}

#[test]
fn forced_cancel_ends_the_process_at_once() {
    for status in
        [S::Running, S::Idle, S::Interrupting, S::Pausing, S::Resuming, S::Cancelling, S::WaitingForInput]
    {
        Scenario::in_status(status)
            .when(|s| s.force_cancel())
            .then_event("SessionRunStopOrderedEvent")
            .when(|s| s.die(true))
            .then_event("SessionCancelledEvent")
            .then_status(S::Cancelled);
    }
}

#[test]
fn a_cancel_does_not_wait_for_the_slot_of_a_resume() {
    let mut scenario = Scenario::paused().when(|s| s.die(true));
    let other = "00000000-0000-7000-8000-00000000ffff";
    let full = serde_json::json!({
        "maxConcurrentSessions": 1,
        "leases": { other: { "runId": other, "since": "2026-01-01T00:00:00Z" } },
        "waiting": [],
    });
    scenario.pool = serde_json::from_value(full).unwrap();
    scenario.when(|s| s.resume()).then_status(S::Resuming).when(|s| s.cancel()).then_status(S::Cancelled);
}

#[test]
fn cancel_without_an_agent_is_confirmed_at_once() {
    Scenario::new()
        .when(|s| s.cancel())
        .then_events(&["SessionCancelRequestedEvent", "SessionCancelledEvent"])
        .then_status(S::Cancelled);
    Scenario::launching()
        .when(|s| s.cancel())
        .then_events(&["SessionCancelRequestedEvent", "SessionCancelledEvent", "SessionRunStopOrderedEvent"])
        .observes(AgentFact::SidecarReady(Capabilities::default()))
        .then_events(&[])
        .then_status(S::Cancelled);
    Scenario::idle()
        .when(|s| s.die(true))
        .when(|s| s.cancel())
        .then_events(&["SessionCancelRequestedEvent", "SessionCancelledEvent"]);
}

#[test]
fn turn_that_ends_during_an_interrupt_leads_to_idle() {
    Scenario::in_status(S::Interrupting)
        .observes(AgentFact::TurnCompleted {
            turn: turn("t1"),
            output: Some(output(2)),
            outcome: SessionOutcome::Completed,
        })
        .then_taken(FactOutcome::Deferred)
        .then_status(S::Interrupting)
        .confirms(C::Interrupt)
        .then_events(&["SessionInterruptedEvent", "AgentSessionOutputReadyEvent"])
        .then_status(S::Idle)
        .then(|s| (s.conv.session.metrics().turn_count, s.conv.session.has_pending_review()), &(1, true));
}

#[test]
fn turn_that_begins_during_an_interrupt_is_interrupted() {
    Scenario::in_status(S::Interrupting)
        .observes(completes("t1"))
        .observes(starts("t2"))
        .then_taken(FactOutcome::Deferred)
        .confirms(C::Interrupt)
        .then_events(&[
            "SessionInterruptedEvent",
            "AgentSessionTurnCompletedEvent",
            "AgentSessionTurnStartedEvent",
        ])
        .then_status(S::Interrupted)
        .then(|s| (s.conv.session.metrics().turn_count, s.conv.session.turn().is_none()), &(1, true));
}

#[test]
fn turn_that_ends_while_suspended_counts_on_resume() {
    Scenario::in_status(S::Pausing)
        .observes(completes("t1"))
        .then_taken(FactOutcome::Deferred)
        .confirms(C::Pause)
        .then_status(S::Paused)
        .when(|s| s.resume())
        .confirms(C::Resume)
        .then_events(&["SessionResumedEvent", "AgentSessionTurnCompletedEvent"])
        .then_status(S::Idle);
}

#[test]
fn parked_facts_are_applied_in_order() {
    Scenario::in_status(S::Resuming)
        .observes(asks("q1"))
        .observes(completes("t1"))
        .observes(starts("t2"))
        .observes(AgentFact::ContextExhausted)
        .confirms(C::Resume)
        .then_events(&[
            "SessionResumedEvent",
            "SessionWaitingForInputEvent",
            "SessionRequestClosedEvent",
            "AgentSessionTurnCompletedEvent",
            "AgentSessionTurnStartedEvent",
            "ContextExhaustedEvent",
        ])
        .then_status(S::ContextExhausted);
}

/// Decision 17: a fact that fits no status is recorded with the reason.
#[test]
fn inapplicable_parked_fact_is_recorded_as_ignored() {
    Scenario::in_status(S::Resuming)
        .observes(AgentFact::ContextExhausted)
        .observes(completes("t1"))
        .confirms(C::Resume)
        .then_events(&["SessionResumedEvent", "ContextExhaustedEvent", "SessionFactIgnoredEvent"]);
    Scenario::in_status(S::Cancelling).observes(asks("q1")).confirms(C::Stop).then_events(&[
        "SessionCancelledEvent",
        "SessionFactIgnoredEvent",
        "SessionRunStopOrderedEvent",
    ]);
}

#[test]
fn interrupt_closes_a_parked_question() {
    Scenario::in_status(S::Interrupting)
        .observes(asks("q1"))
        .confirms(C::Interrupt)
        .then_events(&["SessionInterruptedEvent", "SessionRequestClosedEvent"])
        .then_status(S::Interrupted);
}

#[test]
fn question_answered_while_suspended_does_not_block() {
    Scenario::in_status(S::Pausing)
        .observes(asks("q1"))
        .observes(crate::scenario::results("q1"))
        .then_events(&["ToolCallCompletedEvent", "SessionRequestClosedEvent"])
        .confirms(C::Pause)
        .when(|s| s.resume())
        .confirms(C::Resume)
        .then_status(S::Running);
}

#[test]
fn usage_messages_and_results_count_during_a_request() {
    for status in [S::Interrupting, S::Pausing, S::Resuming, S::Cancelling] {
        Scenario::in_status(status)
            .observes(said())
            .then_events(&["AgentMessageRecordedEvent"])
            .observes(calls("c1"))
            .observes(crate::scenario::results("c1"))
            .then_events(&["ToolCallCompletedEvent"])
            .observes(used("0.01"))
            .then_events(&["SessionMetricsUpdatedEvent"])
            .then_status(status);
    }
}

#[test]
fn active_agent_after_a_stop_is_stopped_again_then_killed() {
    for (status, fact) in [(S::Interrupted, said()), (S::Paused, calls("c1")), (S::Interrupted, starts("t2"))]
    {
        Scenario::in_status(status)
            .observes(fact)
            .then_ignored("after-stop")
            .then_event("SessionAfterStopActivityEvent")
            .then_event("SessionCommandReissuedEvent")
            .then_status(status)
            .observes(said())
            .then_event("SessionAfterStopActivityEvent")
            .then_event("SessionRunStopOrderedEvent")
            .observes(said())
            .then_no_event("SessionRunStopOrderedEvent")
            .when(|s| s.die(true))
            .then_hibernated(status);
    }
    Scenario::in_status(S::Cancelled)
        .observes(said())
        .then_event("SessionAfterStopActivityEvent")
        .observes(said())
        .then_event("SessionRunStopOrderedEvent");
}

#[test]
fn results_of_earlier_work_are_no_activity_after_a_stop() {
    Scenario::interrupted()
        .observes(used("0.2"))
        .then_events(&["SessionMetricsUpdatedEvent"])
        .observes(crate::scenario::results("c1"))
        .then_events(&["ToolCallCompletedEvent"])
        .then_status(S::Interrupted);
}

/// Activity of an earlier run after its stop does not count against the next run.
#[test]
fn next_run_is_judged_separately() {
    Scenario::interrupted()
        .observes(said())
        .observes(said())
        .when(|s| s.die(true))
        .when(|s| s.steer(1))
        .wakes()
        .observes(starts_with("t2", 1))
        .when(|s| s.interrupt())
        .confirms(C::Interrupt)
        .observes(said())
        .then_event("SessionCommandReissuedEvent");
}

#[test]
fn agent_without_pause_support_refuses() {
    Scenario::launching()
        .observes(AgentFact::SidecarReady(Capabilities::default()))
        .refuses("not-supported", |s| s.pause())
        .when(|s| s.interrupt());
}

#[test]
fn refused_resume_stays_suspended_and_refused_stop_is_enforced() {
    let refused = |scenario: Scenario| {
        let command = scenario.pending_command();
        scenario.observes(AgentFact::CommandRefused {
            command,
            code: "no".to_owned(),
            message: "No".to_owned(),
        })
    };
    refused(Scenario::in_status(S::Resuming))
        .then_events(&["SessionCommandRefusedEvent", "SessionResumeAbandonedEvent"])
        .then_status(S::Paused);
    refused(Scenario::in_status(S::Interrupting))
        .then_events(&["SessionCommandRefusedEvent", "SessionRunStopOrderedEvent"])
        .when(|s| s.die(true))
        .then_hibernated(S::Interrupted);
}

#[test]
fn output_is_decided_by_its_id() {
    let scenario = Scenario::reviewable();
    let first = scenario.output_id();
    let commit = CommitSha::parse("a".repeat(40)).unwrap();
    let scenario = scenario.refuses("review-pending", |s| s.close()).observes(starts("t2")).observes(
        AgentFact::TurnCompleted {
            turn: turn("t2"),
            output: Some(SessionOutput { commit_sha: Some(commit.clone()), ..output(2) }),
            outcome: SessionOutcome::Completed,
        },
    );
    let second = scenario.output_id();
    let approved = SessionEvent::Approved { output_id: second, commit_sha: Some(commit.clone()) };
    scenario
        .clone()
        .then(|s| s.conv.session.output().unwrap().output.commit_sha.clone(), &Some(commit))
        .refuses("output-changed", |s| s.approve(first))
        .when(|s| s.approve(second))
        .then_events(&["AgentSessionApprovedEvent", "SessionRunStopOrderedEvent"])
        .then(|s| s.last[0].clone(), &approved)
        .then_status(S::Completed);
    scenario
        .refuses("output-changed", |s| s.reject(first))
        .when(|s| s.reject(second))
        .then_events(&["AgentSessionRejectedEvent", "AgentSessionFailedEvent", "SessionRunStopOrderedEvent"])
        .then(|s| s.conv.session.failure().unwrap().reason, &FailureReason::VerificationFailed);
    Scenario::idle().refuses("nothing-to-review", |s| s.approve(OutputId::new(Uuid::nil())));
}

#[test]
fn no_decision_is_accepted_while_a_turn_is_starting() {
    let scenario = Scenario::reviewable().when(|s| s.steer(1)).then_event("MessageDispatchedEvent");
    let id = scenario.output_id();
    scenario
        .refuses("turn-starting", |s| s.approve(id))
        .refuses("turn-starting", |s| s.reject(id))
        .refuses("turn-starting", |s| s.close())
        .observes(AgentFact::MessageInjected(message(1)))
        .refuses("turn-starting", |s| s.close())
        .observes(starts_with("t2", 1))
        .observes(completes("t2"))
        .when(|s| s.approve(id));
}

#[test]
fn retry_clears_the_failure_and_keeps_the_spend() {
    let scenario = Scenario::running()
        .observes(used("0.5"))
        .observes(ends(true))
        .then_status(S::Failed)
        .when(|s| s.die(true))
        .when(|s| s.retry())
        .then_events(&["AgentSessionRetriedEvent", "SessionRunRequestedEvent", "SessionAllocatedEvent"])
        .then_status(S::Queued);
    let instruction = Feedback::parse("Again").unwrap();
    let retried = SessionEvent::Retried { retry_count: 1, additional_instruction: Some(instruction) };
    assert_eq!(scenario.last[0], retried);
    let session = &scenario.conv.session;
    assert_eq!((session.completed_at(), session.failure(), session.retry_count()), (None, None, 1));
    assert_eq!(session.budget().estimated_cost_usd(), crate::scenario::usd("0.5"));
    assert_eq!(session.run().map(|run| run.cause), Some(RunCause::Retry));
    scenario
        .wakes()
        .then_events(&["AgentSessionStartedEvent", "SessionRunReadyEvent"])
        .then_status(S::Running);
}

#[test]
fn a_session_is_retried_three_times() {
    let mut scenario = Scenario::running();
    for _ in 0..3 {
        scenario = scenario.observes(ends(true)).when(|s| s.die(true)).when(|s| s.retry()).wakes();
    }
    scenario.observes(ends(true)).refuses("retries-exhausted", |s| s.retry());
}

/// The failed run may take a while to end. Facts that it still reports are late.
#[test]
fn retry_waits_for_the_failed_run_to_end() {
    let scenario =
        Scenario::running().observes(ends(true)).then_event("SessionRunStopOrderedEvent").when(|s| s.retry());
    let old = scenario.run();
    scenario
        .then_no_event("SessionRunRequestedEvent")
        .observes(ends(true))
        .then_ignored("stale-run")
        .observes(used("0.1"))
        .then_taken(FactOutcome::Applied)
        .then_status(S::Queued)
        .when(|s| s.die(true))
        .then_events(&[
            "SessionRunEndedEvent",
            "SessionReleasedEvent",
            "SessionRunRequestedEvent",
            "SessionAllocatedEvent",
        ])
        .then_status(S::Queued)
        .then(|s| s.run() != old && s.conv.session.run().unwrap().phase == RunPhase::Launching, &true);
}
