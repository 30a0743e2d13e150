//! Questions and plans by id (decision 26).

use pilothouse_domain::SessionEvent;
use pilothouse_domain::conversation::FactOutcome;
use pilothouse_domain::decision::OwnerDecision;
use pilothouse_domain::escalation::ToolApproval;
use pilothouse_domain::session::{
    AgentFact, AgentOptions, AgentSessionStatus as S, LifecycleCommand, ProcessState, SessionSettings,
};
use pilothouse_domain::value::{
    Capabilities, FailureReason, MessageSource, PlanStatus, Question, QuestionOption,
};

use crate::scenario::{Scenario, asks, call, completes, results, settings, shows, starts};

const DAY: u64 = 24 * 60 * 60;

fn running_with(settings: SessionSettings) -> Scenario {
    let mut scenario = Scenario::with(settings);
    scenario.allocate();
    scenario.observes(AgentFact::SidecarReady(Capabilities::default())).observes(starts("t1"))
}

#[test]
fn a_waiting_status_lasts_while_a_request_blocks() {
    Scenario::running()
        .observes(asks("q1"))
        .then_events(&["SessionWaitingForInputEvent"])
        .observes(shows("p1"))
        .then_status(S::WaitingForInput)
        .observes(asks("q2"))
        .when(|s| s.answer("q1"))
        .then_events(&["SessionInputReceivedEvent"])
        .then_status(S::WaitingForApproval)
        .refuses("request-over", |s| s.answer("q1"))
        .refuses("wrong-request", |s| s.answer("p1"))
        .refuses("wrong-request", |s| s.approve_plan("q2"))
        .when(|s| s.answer("q2"))
        .then_status(S::WaitingForApproval)
        .when(|s| s.reject_plan("p1"))
        .then_events(&["SessionPlanRejectedEvent"])
        .then_status(S::Running);
}

#[test]
fn every_question_of_a_request_needs_its_answer() {
    Scenario::in_status(S::WaitingForInput)
        .refuses("validation-failed", |s| {
            s.commit(|c, ctx| {
                c.resolve(OwnerDecision::Answer { request: call("q1"), answers: Vec::new() }, ctx)
            })
        })
        .when(|s| s.answer("q1"))
        .then_event("SessionInputReceivedEvent")
        .then_status(S::Running);
}

fn asks_permission(id: &str) -> AgentFact {
    let approval = ToolApproval {
        tool_name: "Bash".to_owned(),
        input: "{}".to_owned(),
        input_blob: None,
        allow: "Allow".to_owned(),
        deny: "Deny".to_owned(),
        verdict: None,
        modifiable: false,
    };
    let AgentFact::QuestionAsked { request, questions, .. } = asks(id) else { panic!("a question") };
    AgentFact::QuestionAsked { request, questions, approval: Some(approval), proposal: None, timeout: None }
}

#[test]
fn a_request_beyond_twenty_is_denied_and_the_agent_is_told() {
    let full = (1..=20).fold(Scenario::running(), |s, n| s.observes(asks(&format!("q{n}"))));
    let denied = full.observes(asks_permission("t1")).then_events(&["SessionRequestDeniedEvent"]);
    assert_eq!(denied.conv.session.pending_requests().len(), 20);
    let SessionEvent::RequestDenied { request_id, answers, command } = &denied.last[0] else {
        panic!("{:?}", denied.last)
    };
    assert_eq!(*request_id, call("t1"));
    assert!(answers[0].answer.starts_with("Deny: too many requests"), "{}", answers[0].answer);
    assert_eq!(
        denied.conv.session.unacknowledged_answer(command.command_id).map(|(request, _)| request),
        Some(request_id),
        "it is sent again until the sidecar has it"
    );
    denied
        .then_status(S::WaitingForInput)
        .observes(asks("q1"))
        .then_events(&["SessionWaitingForInputEvent"])
        .when(|s| s.answer("q1"))
        .observes(asks_permission("t2"))
        .then_events(&["SessionWaitingForInputEvent"]);
}

#[test]
fn the_result_of_its_call_closes_a_request() {
    Scenario::running()
        .observes(asks("q1"))
        .observes(asks("q2"))
        .observes(results("q1"))
        .then_events(&["ToolCallCompletedEvent", "SessionRequestClosedEvent"])
        .then_status(S::WaitingForInput)
        .observes(results("q2"))
        .then_status(S::Running);
}

#[test]
fn turn_end_closes_every_request() {
    Scenario::running()
        .observes(asks("q1"))
        .observes(shows("p1"))
        .observes(completes("t1"))
        .then_events(&[
            "SessionRequestClosedEvent",
            "SessionRequestClosedEvent",
            "AgentSessionTurnCompletedEvent",
        ])
        .then_status(S::Idle)
        .refuses("request-over", |s| s.answer("q1"));
}

#[test]
fn plans_count_their_revisions() {
    let plan = |s: &Scenario| s.conv.session.plan().map(|p| (p.version, p.status)).unwrap();
    Scenario::running()
        .observes(AgentFact::PlanModeEntered)
        .then_event("SessionPlanCreatedEvent")
        .then(plan, &(1, PlanStatus::Draft))
        .then(|s| s.conv.session.plan().unwrap().content.clone(), &None)
        .observes(shows("p1"))
        .then(plan, &(1, PlanStatus::PendingApproval))
        .when(|s| s.reject_plan("p1"))
        .then(plan, &(1, PlanStatus::Rejected))
        .observes(shows("p2"))
        .then(plan, &(2, PlanStatus::PendingApproval))
        .when(|s| s.approve_plan("p2"))
        .then_event("SessionPlanApprovedEvent")
        .then_status(S::Running)
        .then(plan, &(2, PlanStatus::Approved))
        .observes(AgentFact::PlanModeEntered)
        .observes(shows("p3"))
        .then(plan, &(3, PlanStatus::PendingApproval));
}

#[test]
fn plan_without_required_approval_blocks_nothing() {
    let agent = AgentOptions { plan_approval_required: false, ..AgentOptions::default() };
    let settings = SessionSettings { agent, ..settings() };
    let pending =
        SessionEvent::PlanPendingApproval { request_id: call("p1"), requires_approval: false, version: 1 };
    running_with(settings)
        .observes(shows("p1"))
        .then(|s| s.last.clone(), &vec![pending])
        .then_events(&["SessionPlanPendingApprovalEvent"])
        .then_status(S::Running)
        .then(|s| s.conv.session.plan().unwrap().status, &PlanStatus::Approved);
}

#[test]
fn unanswered_request_fails_the_session() {
    Scenario::in_status(S::WaitingForInput)
        .when(|s| s.clock_with_heartbeats(DAY - 1))
        .then_status(S::WaitingForInput)
        .when(|s| s.clock_with_heartbeats(1))
        .then_event("AgentSessionFailedEvent")
        .then_status(S::Failed)
        .then(|s| s.conv.session.failure().unwrap().reason, &FailureReason::Timeout);
}

#[test]
fn default_answer_applies_after_the_timeout() {
    let settings = SessionSettings { default_answer: Some("Decide".to_owned()), ..settings() };
    running_with(settings.clone())
        .observes(asks("q1"))
        .when(|s| s.clock_with_heartbeats(DAY))
        .then_event("SessionInputReceivedEvent")
        .then_status(S::Running);
    // Plans have no default decision.
    running_with(settings)
        .observes(shows("p1"))
        .when(|s| s.clock_with_heartbeats(DAY))
        .then_status(S::Failed);
}

#[test]
fn answer_without_a_process_is_sent_as_a_message() {
    let sources = |s: &Scenario| s.conv.queue.messages().iter().map(|m| m.source).collect::<Vec<_>>();
    Scenario::in_status(S::WaitingForInput)
        .when(|s| s.die(true))
        .then_hibernated(S::WaitingForInput)
        .when(|s| s.answer("q1"))
        .then_events(&[
            "SessionInputReceivedEvent",
            "MessageEnqueuedEvent",
            "SessionSlotWantedEvent",
            "SessionRunRequestedEvent",
            "SessionAllocatedEvent",
        ])
        .then_status(S::Idle)
        .then(sources, &vec![MessageSource::User])
        .then(|s| s.conv.session.turn().is_none(), &true)
        .refuses("turn-over", |s| s.send(1, pilothouse_domain::value::MessagePriority::Immediate, Some("t1")))
        .wakes()
        .then_events(&["SessionRunReadyEvent", "MessageDispatchedEvent"]);
}

#[test]
fn default_answer_without_a_process_is_sent_as_a_message() {
    let settings = SessionSettings { default_answer: Some("Decide".to_owned()), ..settings() };
    running_with(settings)
        .observes(asks("q1"))
        .when(|s| s.die(true))
        .when(|s| s.clock(DAY, ProcessState::Unknown))
        .then_event("SessionInputReceivedEvent")
        .then_event("MessageEnqueuedEvent")
        .then_status(S::Idle);
}

#[test]
fn hibernated_plans_are_decided_in_order() {
    Scenario::running()
        .observes(shows("p1"))
        .observes(asks("q1"))
        .when(|s| s.die(true))
        .when(|s| s.approve_plan("p1"))
        .then_events(&["SessionPlanApprovedEvent", "MessageEnqueuedEvent"])
        .then_status(S::WaitingForInput)
        .when(|s| s.answer("q1"))
        .then_status(S::Idle)
        .then_event("SessionSlotWantedEvent");
}

/// An answer is never lost, even if the queue is full.
#[test]
fn answer_fits_into_a_full_queue() {
    let mut scenario = Scenario::in_status(S::WaitingForInput).when(|s| s.die(true));
    for n in 0..100 {
        scenario = scenario.when(|s| s.follow_up(n));
    }
    let scenario = scenario
        .refuses("queue-full", |s| s.follow_up(100))
        .when(|s| s.answer("q1"))
        .then_event("MessageEnqueuedEvent");
    let next = scenario.conv.queue.next_pending().unwrap();
    assert!(next.content.as_str().contains("q1?: yes"));
}

fn plan_status(scenario: &Scenario) -> PlanStatus {
    scenario.conv.session.plan().unwrap().status
}

#[test]
fn a_plan_stops_waiting_when_its_request_ends() {
    Scenario::running()
        .observes(shows("p1"))
        .then(plan_status, &PlanStatus::PendingApproval)
        .observes(results("p1"))
        .then_status(S::Running)
        .then(plan_status, &PlanStatus::Draft);
    Scenario::running()
        .observes(shows("p1"))
        .when(Scenario::force_cancel)
        .then(plan_status, &PlanStatus::Draft);
}

#[test]
fn a_plan_beyond_twenty_requests_is_rejected() {
    let full = (1..=20).fold(Scenario::running(), |s, n| s.observes(asks(&format!("q{n}"))));
    let rejected = full.observes(shows("p1")).then_events(&["SessionPlanRejectedEvent"]);
    assert_eq!(rejected.conv.session.pending_requests().len(), 20);
}

#[test]
fn questions_beyond_twenty_are_part_of_the_last_one() {
    let AgentFact::QuestionAsked { request, questions, .. } = asks("q") else { panic!("a question") };
    let number = |n: usize| Question {
        question: format!("Question {n}?"),
        options: vec![QuestionOption { label: format!("Option {n}"), description: None }],
        ..questions[0].clone()
    };
    let questions = (1..=22).map(number).collect();
    let asked =
        AgentFact::QuestionAsked { request, questions, approval: None, proposal: None, timeout: None };
    let scenario = Scenario::running().observes(asked);
    let SessionEvent::WaitingForInput { questions, .. } = &scenario.last[0] else {
        panic!("{:?}", scenario.last)
    };
    assert_eq!(questions.len(), 20);
    assert_eq!(
        (questions[0].question.as_str(), questions[0].options[0].label.as_str()),
        ("Question 1?", "Option 1")
    );
    assert_eq!(questions[19].question, "Question 20?\nQuestion 21?\nQuestion 22?");
    assert!(questions[19].options.is_empty());
}

/// Deferred facts are part of the item of the session. A question or a plan without room can be denied, other facts are small.
#[test]
fn deferred_request_without_room_is_denied() {
    let long = |id: &str| {
        let AgentFact::QuestionAsked { request, mut questions, .. } = asks(id) else { panic!("a question") };
        questions[0].question = "x".repeat(60 * 1024);
        AgentFact::QuestionAsked { request, questions, approval: None, proposal: None, timeout: None }
    };
    let full = ["q1", "q2"]
        .iter()
        .fold(Scenario::paused(), |s, id| s.observes(long(id)).then_taken(FactOutcome::Deferred));
    full.observes(long("q3"))
        .then_event("SessionRequestDeniedEvent")
        .observes(completes("t1"))
        .then_taken(FactOutcome::Deferred);
}

#[test]
fn no_deferred_request_is_dropped() {
    let paused = (1..=15).fold(Scenario::paused(), |s, n| {
        s.observes(asks(&format!("q{n}"))).then_taken(FactOutcome::Deferred)
    });
    let resumed = paused.when(Scenario::resume).confirms(LifecycleCommand::Resume);
    assert_eq!(resumed.conv.session.pending_requests().len(), 15);
}
