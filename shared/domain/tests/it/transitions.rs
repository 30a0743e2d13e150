//! Compares the transition table of the code with one written from S0 8.4 and the decisions, and calls every public method in every
//! status.

use pilothouse_domain::brake::BrakeBehavior;
use pilothouse_domain::conversation::FactOutcome;
use pilothouse_domain::session::{AgentFact, AgentSessionStatus as S, Operation as Op};
use pilothouse_domain::value::{Adjustment, DeliverableCounts, FailureReason, ThinkingLevel};

use crate::scenario::{Scenario, Step, asks, completes, output, shows, starts, turn};

/// Non-terminal statuses without a pending request (S0: those that can be cancelled).
const RESTING: [S; 7] =
    [S::Queued, S::Running, S::Interrupted, S::Paused, S::WaitingForInput, S::WaitingForApproval, S::Idle];

/// Transitions that the specification allows. All others must be refused.
fn specified(operation: Op) -> Vec<(S, S)> {
    let same = |statuses: &[S]| statuses.iter().map(|s| (*s, *s)).collect::<Vec<_>>();
    let all_to = |statuses: &[S], to: S| statuses.iter().map(|s| (*s, to)).collect::<Vec<_>>();
    match operation {
        Op::Start => vec![(S::Queued, S::Running)],
        // Decision 18: a started session is Running before its first turn begins.
        Op::StartTurn => vec![(S::Idle, S::Running), (S::Interrupted, S::Running), (S::Running, S::Running)],
        // Decision 26: the end of a turn closes open requests.
        Op::RecordTurnCompleted => {
            vec![(S::Running, S::Idle), (S::WaitingForInput, S::Idle), (S::WaitingForApproval, S::Idle)]
        }
        // Decision 18: unrecorded output is recorded in Idle as well.
        Op::RecordOutput => vec![
            (S::Running, S::Idle),
            (S::WaitingForInput, S::Idle),
            (S::WaitingForApproval, S::Idle),
            (S::Idle, S::Idle),
        ],
        // Decision 26: an interrupt closes open requests.
        Op::RequestInterrupt => {
            all_to(&[S::Running, S::WaitingForInput, S::WaitingForApproval], S::Interrupting)
        }
        Op::ConfirmInterrupted => vec![(S::Interrupting, S::Interrupted)],
        // Decision 17.
        Op::ConfirmInterruptedTurnOver => vec![(S::Interrupting, S::Idle)],
        Op::RequestPause => vec![(S::Running, S::Pausing)],
        // Decision 72.
        Op::Hold => {
            let mut held = all_to(&[S::Running, S::WaitingForInput, S::WaitingForApproval], S::Pausing);
            held.extend(same(&[S::Queued, S::Interrupted, S::Paused, S::Idle]));
            held.extend(same(&[S::Interrupting, S::Pausing, S::Resuming, S::Cancelling]));
            held
        }
        Op::ConfirmPaused => vec![(S::Pausing, S::Paused)],
        Op::RequestResume => vec![(S::Paused, S::Resuming)],
        Op::ConfirmResumed => vec![(S::Resuming, S::Running)],
        // Decision 12.
        Op::AbandonResume => vec![(S::Resuming, S::Paused)],
        Op::RequestCancel => all_to(&RESTING, S::Cancelling),
        Op::ConfirmCancelled => vec![(S::Cancelling, S::Cancelled), (S::Queued, S::Cancelled)],
        Op::RecordContextExhausted | Op::RecordVoluntaryHandoff => vec![(S::Running, S::ContextExhausted)],
        Op::RecordContextNearingLimit | Op::RecordPlanAutoApproved => same(&[S::Running]),
        // Decision 26: several requests can be open; the oldest determines the status.
        Op::RecordUserQuestionAsked => vec![
            (S::Running, S::WaitingForInput),
            (S::WaitingForInput, S::WaitingForInput),
            (S::WaitingForApproval, S::WaitingForApproval),
        ],
        Op::RecordPlanPendingApproval => vec![
            (S::Running, S::WaitingForApproval),
            (S::WaitingForApproval, S::WaitingForApproval),
            (S::WaitingForInput, S::WaitingForInput),
        ],
        Op::RecordUserQuestionAnswered
        | Op::RecordPlanApproved
        | Op::RecordPlanRejected
        | Op::CloseRequest => all_to(&[S::WaitingForInput, S::WaitingForApproval], S::Running),
        // Decision 26: the answer is sent as a message. So is an answer that the sidecar never received (decision 12).
        Op::AnswerHibernated => all_to(&[S::WaitingForInput, S::WaitingForApproval, S::Running], S::Idle),
        Op::EnableSkill | Op::DisableSkill | Op::RequestReload | Op::RequestFork => {
            same(&[S::Idle, S::Interrupted])
        }
        // S1 5.
        Op::RequestCompact => same(&[S::Running, S::Idle, S::Interrupted]),
        Op::ApproveOutput | Op::Close => vec![(S::Idle, S::Completed)],
        Op::RejectOutput => vec![(S::Idle, S::Failed)],
        // S0, and decision 14.
        Op::RecordFailure => all_to(
            &[
                S::Running,
                S::Paused,
                S::Interrupting,
                S::Interrupted,
                S::Pausing,
                S::Resuming,
                S::Queued,
                S::WaitingForInput,
                S::WaitingForApproval,
            ],
            S::Failed,
        ),
        // Decision 12: a start, a retry, and a new run of any session that can hibernate.
        Op::FailLaunch => all_to(
            &[
                S::Queued,
                S::Idle,
                S::Interrupted,
                S::Paused,
                S::Resuming,
                S::WaitingForInput,
                S::WaitingForApproval,
            ],
            S::Failed,
        ),
        Op::Retry => vec![(S::Failed, S::Queued)],
        // Decision 17.
        Op::RecordPlanCreated
        | Op::UpdateSessionTaskList
        | Op::UpdateMetrics
        | Op::RecordQuotaExceeded
        | Op::RecordDeliverables
        | Op::ConfirmReloaded => same(&S::ALL),
        // A failed session can be retried with the values that are set then.
        Op::ChangeBudget | Op::RequestAdjustment => {
            let ended = [S::Cancelled, S::Completed, S::ContextExhausted];
            same(&S::ALL.into_iter().filter(|s| !ended.contains(s)).collect::<Vec<_>>())
        }
        // Decisions 28 and 29.
        Op::AcceptMessage => {
            let mut open = RESTING.to_vec();
            open.extend([S::Interrupting, S::Pausing, S::Resuming, S::Cancelling]);
            same(&open)
        }
        // Decisions 14 and 22.
        Op::Hibernate | Op::Wake => {
            same(&[S::Idle, S::Interrupted, S::Paused, S::WaitingForInput, S::WaitingForApproval])
        }
    }
}

#[test]
fn transition_table_matches_the_specification() {
    for operation in Op::ALL {
        let specified = specified(operation);
        for from in S::ALL {
            let to = specified.iter().find(|(f, _)| *f == from).map(|(_, to)| *to);
            assert_eq!(operation.next(from), to, "{operation:?} from {from}");
        }
    }
}

#[test]
fn statuses_are_classified_as_specified() {
    for status in S::ALL {
        let terminal = [S::Cancelled, S::Completed, S::ContextExhausted, S::Failed].contains(&status);
        let intermediate = [S::Interrupting, S::Pausing, S::Resuming, S::Cancelling].contains(&status);
        assert_eq!(status.is_terminal(), terminal, "{status}");
        assert_eq!(status.is_intermediate(), intermediate, "{status}");
        // Only a retry leaves a terminal status.
        if terminal {
            for operation in Op::ALL {
                let leaves = operation.next(status).is_some_and(|to| to != status);
                assert_eq!(
                    leaves,
                    status == S::Failed && operation == Op::Retry,
                    "{operation:?} from {status}"
                );
            }
        }
    }
}

type Command = fn(&mut Scenario) -> Step;

/// The owner's methods that are allowed or refused by status alone, with their operations.
fn commands() -> Vec<(Op, Command)> {
    vec![
        (Op::RequestInterrupt, Scenario::interrupt),
        (Op::ConfirmInterrupted, |s| s.commit(|c, _| c.session.confirm_interrupted(false))),
        (Op::ConfirmInterruptedTurnOver, |s| s.commit(|c, _| c.session.confirm_interrupted(true))),
        (Op::RequestPause, Scenario::pause),
        (Op::Hold, |s| s.hold(1, BrakeBehavior::Pause)),
        (Op::Hold, |s| s.hold(1, BrakeBehavior::Kill)),
        (Op::ConfirmPaused, |s| s.commit(|c, _| c.session.confirm_paused())),
        (Op::RequestResume, Scenario::resume),
        (Op::ConfirmResumed, |s| s.commit(|c, ctx| c.session.confirm_resumed(ctx))),
        (Op::ConfirmCancelled, |s| s.commit(|c, ctx| c.session.confirm_cancelled(ctx))),
        (Op::Close, Scenario::close),
        (Op::RecordFailure, |s| {
            s.commit(|c, ctx| c.session.record_failure(FailureReason::AgentError, None, ctx))
        }),
        (Op::Retry, Scenario::retry),
        (Op::ChangeBudget, |s| s.raise_cap("9")),
        (Op::AcceptMessage, |s| s.follow_up(1)),
        (Op::EnableSkill, |s| s.enable(1)),
        (Op::RequestAdjustment, |s| s.adjust(&[Adjustment::SetThinkingLevel { level: ThinkingLevel::High }])),
        (Op::RequestCompact, |s| s.adjust(&[Adjustment::Compact { instructions: None }])),
        (Op::RequestFork, |s| s.adjust(&[Adjustment::Fork { before_turn_id: turn("t1") }])),
        (Op::RequestReload, Scenario::reload),
    ]
}

#[test]
fn every_command_follows_the_table_in_every_status() {
    for status in S::ALL {
        for (operation, command) in commands() {
            let mut scenario = Scenario::in_status(status);
            let before = scenario.conv.clone();
            let to = specified(operation).into_iter().find(|(from, _)| *from == status).map(|(_, to)| to);
            match (command(&mut scenario), to) {
                (Ok(()), Some(to)) => {
                    assert_eq!(scenario.conv.session.status(), to, "{operation:?} from {status}");
                }
                (Err(code), None) => {
                    assert_eq!(code, "invalid-transition", "{operation:?} from {status}");
                    assert_eq!(scenario.conv, before, "{operation:?} refused in {status} changed something");
                }
                (result, to) => panic!("{operation:?} from {status}: {result:?}, but specified is {to:?}"),
            }
        }
    }
}

/// Decision 16: a cancellation is accepted unless the session has ended.
#[test]
fn cancel_is_accepted_until_the_session_has_ended() {
    for status in S::ALL {
        let mut scenario = Scenario::in_status(status);
        let before = scenario.conv.clone();
        let result = scenario.cancel();
        let session = &scenario.conv.session;
        match status {
            S::Queued => assert_eq!(session.status(), S::Cancelled),
            S::Cancelling => assert_eq!((session.status(), scenario.last.len()), (S::Cancelling, 0)),
            s if s.is_intermediate() => assert_eq!((session.status(), session.cancel_accepted()), (s, true)),
            s if s.is_terminal() => {
                assert_eq!((result, &scenario.conv), (Err("invalid-transition"), &before));
                continue;
            }
            _ => assert_eq!(session.status(), S::Cancelling),
        }
        assert_eq!(result, Ok(()));
    }
}

/// Requests and reviews have further conditions, but a wrong status is always refused.
#[test]
fn decisions_are_refused_when_nothing_is_to_decide() {
    for status in S::ALL {
        let scenario = Scenario::in_status(status);
        let id = pilothouse_domain::OutputId::new(uuid::Uuid::from_u128(1));
        let code = if status == S::Idle { "nothing-to-review" } else { "invalid-transition" };
        let scenario = scenario.refuses(code, |s| s.approve(id)).refuses(code, |s| s.reject(id));
        let code = if status == S::WaitingForInput { None } else { Some("request-over") };
        let scenario = match code {
            Some(code) => scenario.refuses(code, |s| s.answer("q1")),
            None => scenario.refuses("wrong-request", |s| s.approve_plan("q1")),
        };
        if status == S::WaitingForApproval {
            scenario.refuses("wrong-request", |s| s.answer("p1"));
        } else {
            scenario
                .refuses("request-over", |s| s.approve_plan("p1"))
                .refuses("request-over", |s| s.reject_plan("p1"));
        }
    }
}

/// Facts are never refused: they are applied, deferred, or recorded with a reason (decision 17). After a stop they are flagged
/// (decision 15).
#[test]
fn every_fact_follows_the_table_in_every_status() {
    let facts = [
        (Op::StartTurn, starts("t2")),
        (Op::RecordTurnCompleted, completes("t1")),
        (Op::RecordContextExhausted, AgentFact::ContextExhausted),
        (Op::RecordVoluntaryHandoff, AgentFact::HandedOver { reason: "full".to_owned() }),
        (Op::RecordContextNearingLimit, AgentFact::ContextNearingLimit { usage_percent: "85".to_owned() }),
        (Op::RecordUserQuestionAsked, asks("q2")),
        (Op::RecordPlanPendingApproval, shows("p2")),
        (Op::RecordPlanCreated, AgentFact::PlanModeEntered),
        (Op::UpdateSessionTaskList, AgentFact::TasksReplaced(Vec::new())),
        (Op::RecordDeliverables, AgentFact::DeliverablesReported(DeliverableCounts::default())),
    ];
    for status in S::ALL {
        for (operation, fact) in facts.clone() {
            let mut scenario = Scenario::in_status(status);
            let to = specified(operation).into_iter().find(|(from, _)| *from == status).map(|(_, to)| to);
            let between = status.is_intermediate() || status == S::Paused;
            scenario.observe(fact);
            let now = scenario.conv.session.status();
            let outcome = scenario.outcome.unwrap();
            if operation == Op::StartTurn && matches!(status, S::Interrupted | S::Paused | S::Cancelled) {
                // This turn was not requested.
                assert_eq!(
                    (now, outcome),
                    (status, FactOutcome::Ignored("after-stop".to_owned())),
                    "{operation:?} in {status}"
                );
                continue;
            }
            if let Some(to) = to {
                assert_eq!((now, outcome), (to, FactOutcome::Applied), "{operation:?} from {status}");
                continue;
            }
            assert_eq!(now, status, "{operation:?} moved {status}");
            let waits = between && operation != Op::RecordContextNearingLimit;
            assert_eq!(outcome == FactOutcome::Deferred, waits, "{operation:?} in {status}: {outcome:?}");
            assert!(
                waits || matches!(outcome, FactOutcome::Ignored(_)),
                "{operation:?} in {status}: {outcome:?}"
            );
        }
    }
}

/// Output through the agent API waits for the end of the turn, or is recorded at once in Idle (decision 18).
#[test]
fn submitted_output_is_accepted_while_the_session_lives() {
    for status in S::ALL {
        let mut scenario = Scenario::in_status(status);
        let before = scenario.conv.clone();
        let result = scenario.commit(|c, ctx| c.session.submit_output(output(1), ctx));
        if status.is_terminal() || status == S::Queued {
            assert_eq!((result, &scenario.conv), (Err("invalid-transition"), &before), "{status}");
        } else {
            assert_eq!(result, Ok(()), "{status}");
            assert_eq!(scenario.conv.session.status(), status);
            assert_eq!(scenario.conv.session.has_pending_review(), status == S::Idle, "{status}");
        }
    }
}

/// A run is created once, and only if it is needed.
#[test]
fn no_run_is_created_when_none_is_required() {
    for status in S::ALL {
        let mut scenario = Scenario::in_status(status);
        let before = scenario.conv.clone();
        let mut ids = scenario.ids.clone();
        let mut ctx = pilothouse_domain::DomainContext::new(
            scenario.now,
            pilothouse_domain::Deadlines::default(),
            &mut ids,
        );
        assert_eq!(scenario.conv.session.mint_run(&mut ctx), None, "{status}");
        assert_eq!(scenario.conv, before, "{status}");
    }
}
