//! Outputs whose results violate the schema of the brief (S2 `AgentBrief.outputSchema`; decision 83).

use pilothouse_domain::output::{OutputRules, SessionOutput};
use pilothouse_domain::output_schema::OutputSchema;
use pilothouse_domain::session::{AgentFact, AgentSessionStatus as S};
use pilothouse_domain::value::{MessageSource, SessionOutcome};
use serde_json::{Value, json};

use crate::scenario::{Scenario, starts, turn};

fn checked(result: Value) -> SessionOutput {
    let schema = OutputSchema::new(json!({ "type": "object", "required": ["total"] }));
    let mut output = SessionOutput { result: Some(result), ..SessionOutput::default() };
    output.check_result(&OutputRules { schema: Some(schema), ..OutputRules::default() });
    output
}

fn completes_with(id: &str, result: Value) -> AgentFact {
    AgentFact::TurnCompleted {
        turn: turn(id),
        output: Some(checked(result)),
        outcome: SessionOutcome::Completed,
    }
}

fn pending_review(scenario: &Scenario) -> bool {
    scenario.conv.session.has_pending_review()
}

/// Violations of the output under review.
fn shown(scenario: &Scenario) -> usize {
    scenario.conv.session.output().map_or(0, |recorded| recorded.output.violations.len())
}

/// Starts turn `id` with the message that the latest step sent.
fn corrects(scenario: Scenario, id: &str) -> Scenario {
    let sent = &scenario.conv.queue.messages()[0];
    let content = sent.content.as_str();
    assert!(content.contains("- /total is required"), "{content}");
    assert_eq!(sent.source, MessageSource::System);
    let message = sent.message_id;
    scenario.begins_turn_with(id, message)
}

#[test]
fn invalid_result_starts_another_turn() {
    let scenario = Scenario::running()
        .observes(completes_with("t1", json!({})))
        .then_events(&[
            "SessionOutputReturnedEvent",
            "AgentSessionTurnCompletedEvent",
            "MessageEnqueuedEvent",
            "MessageDispatchedEvent",
        ])
        .then(pending_review, &false);
    corrects(scenario, "t2")
        .observes(completes_with("t2", json!({ "total": 1 })))
        .then_status(S::Idle)
        .then(pending_review, &true)
        .then(shown, &0);
}

#[test]
fn third_invalid_result_is_reviewed_with_its_violations() {
    let first = Scenario::running().observes(completes_with("t1", json!({})));
    let second = corrects(first, "t2").observes(completes_with("t2", json!({})));
    corrects(second, "t3")
        .observes(completes_with("t3", json!({})))
        .then_events(&["AgentSessionOutputReadyEvent"])
        .then(pending_review, &true)
        .then(shown, &1);
}

#[test]
fn submitted_result_is_returned_in_the_response() {
    let submits = |result: Value| {
        move |s: &mut Scenario| s.commit(|c, ctx| c.session.submit_output(checked(result.clone()), ctx))
    };
    Scenario::running()
        .when(submits(json!({})))
        .then_events(&["SessionOutputReturnedEvent"])
        .when(submits(json!({ "total": 1 })))
        .then_events(&[])
        .observes(AgentFact::TurnCompleted {
            turn: turn("t1"),
            output: None,
            outcome: SessionOutcome::Completed,
        })
        .then_events(&["AgentSessionOutputReadyEvent"])
        .then(shown, &0);
}

#[test]
fn corrections_are_counted_for_each_output() {
    let first = Scenario::running().observes(completes_with("t1", json!({})));
    let ready = corrects(first, "t2").observes(completes_with("t2", json!({ "total": 1 })));
    ready
        .observes(starts("t3"))
        .observes(completes_with("t3", json!({})))
        .then_event("SessionOutputReturnedEvent");
}

#[test]
fn result_that_is_too_large_is_left_out() {
    let output = checked(json!({ "total": "x".repeat(SessionOutput::MAX_RESULT_BYTES) }));
    assert_eq!((output.result, output.violations.len()), (None, 1));
}
