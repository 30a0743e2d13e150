//! Approvals of tool calls that no longer wait (decision 77).

use pilothouse_domain::brake::BrakeBehavior;
use pilothouse_domain::decision::{ApprovalTerms, OwnerDecision};
use pilothouse_domain::effect::{ActionKind, Severity};
use pilothouse_domain::session::{AgentFact, AgentSession, LifecycleCommand, ProcessState};
use pilothouse_domain::text::Feedback;
use pilothouse_domain::value::{Answer, input_hash};
use pilothouse_domain::{CommandId, SessionEvent};
use serde_json::{Value, json};

use super::decision_timeouts::permission;
use crate::scenario::{Scenario, Step, call};

fn asked() -> Scenario {
    Scenario::running().observes(permission(ActionKind::Delete, Severity::Medium))
}

fn asleep() -> Scenario {
    let mut scenario = asked();
    scenario.die(true).unwrap();
    scenario.clock(1, ProcessState::Dead).unwrap();
    scenario
}

pub(crate) fn approve(scenario: &mut Scenario, modified_input: Option<Value>) -> Step {
    let terms = ApprovalTerms { modified_input, ..ApprovalTerms::default() };
    scenario.commit(|conv, ctx| conv.resolve(OwnerDecision::AllowCall { request: call("q1"), terms }, ctx))
}

pub(crate) fn deny(scenario: &mut Scenario, why: &str) -> Step {
    let reason = Feedback::parse(why).unwrap();
    let answers =
        vec![Answer { question: "May it?".to_owned(), answer: format!("Deny: {}", reason.as_str()) }];
    scenario.commit(|conv, ctx| conv.resolve(OwnerDecision::Answer { request: call("q1"), answers }, ctx))
}

fn message(scenario: &Scenario) -> String {
    scenario.conv.queue.messages().last().unwrap().content.as_str().to_owned()
}

fn is_granted(session: &AgentSession, input: &Value) -> bool {
    session.grant_for("Bash", &input_hash(input)).is_some()
}

fn command(scenario: &Scenario) -> CommandId {
    let command = scenario.last.iter().find_map(|event| match event {
        SessionEvent::InputReceived { command, .. } => command.as_ref().map(|command| command.command_id),
        _ => None,
    });
    command.unwrap()
}

#[test]
fn approval_of_a_sleeping_agent_allows_one_repetition() {
    let mut scenario = asleep();
    approve(&mut scenario, None).unwrap();
    assert!(message(&scenario).contains("Make the call again"), "{}", message(&scenario));
    let session = &mut scenario.conv.session;
    let stored = serde_json::to_value(&*session).unwrap();
    *session = serde_json::from_value(stored).unwrap();
    assert!(!is_granted(session, &json!({ "command": "rm" })), "another input");
    assert_eq!(session.use_grant("Write", &input_hash(&json!({})), &call("q2")), None, "another tool");
    let used = session.use_grant("Bash", &input_hash(&json!({})), &call("q2"));
    assert!(matches!(used.unwrap().1[..], [SessionEvent::GrantUsed { .. }]));
    assert_eq!(session.use_grant("Bash", &input_hash(&json!({})), &call("q3")), None, "it is used up");
}

#[test]
fn modified_approval_allows_the_changed_input_only() {
    let mut scenario = asleep();
    approve(&mut scenario, Some(json!({ "command": "ls" }))).unwrap();
    assert!(message(&scenario).contains(r#"exactly this input: {"command":"ls"}"#), "{}", message(&scenario));
    assert!(is_granted(&scenario.conv.session, &json!({ "command": "ls" })));
    assert!(!is_granted(&scenario.conv.session, &json!({})));
}

#[test]
fn denial_of_a_sleeping_agent_is_a_message_without_a_grant() {
    let mut scenario = asleep();
    deny(&mut scenario, "keep it").unwrap();
    assert!(
        message(&scenario).contains("is denied: keep it. Do not make it again."),
        "{}",
        message(&scenario)
    );
    assert!(!is_granted(&scenario.conv.session, &json!({})));
}

#[test]
fn approval_that_the_process_never_received_becomes_a_grant() {
    let mut scenario = asked();
    approve(&mut scenario, None).unwrap();
    assert!(!is_granted(&scenario.conv.session, &json!({})), "the call waits for the command");
    scenario.die(true).unwrap();
    assert!(is_granted(&scenario.conv.session, &json!({})));

    let mut received = asked();
    approve(&mut received, None).unwrap();
    let mut received =
        received.observes(AgentFact::ToolEnded { call: call("q1"), is_error: false, subagent: None });
    received.die(true).unwrap();
    assert!(!is_granted(&received.conv.session, &json!({})), "the call ran");
}

#[test]
fn refused_approval_becomes_a_grant_unless_the_owner_interrupted() {
    for (code, granted) in [("invalid", true), ("turn-over", false)] {
        let mut scenario = asked();
        approve(&mut scenario, None).unwrap();
        let command = command(&scenario);
        let refused =
            AgentFact::CommandRefused { command, code: code.to_owned(), message: "not waiting".to_owned() };
        let scenario = scenario.observes(refused);
        assert_eq!(is_granted(&scenario.conv.session, &json!({})), granted, "{code}");
    }
}

#[test]
fn grants_rest_under_a_brake_and_end_with_the_session() {
    let mut scenario = asleep();
    approve(&mut scenario, None).unwrap();
    let mut scenario = scenario.when(|s| s.pull(1, BrakeBehavior::Kill));
    assert!(!is_granted(&scenario.conv.session, &json!({})));
    scenario.release_brake(1).unwrap();
    assert!(is_granted(&scenario.conv.session, &json!({})));
    let mut scenario = scenario.when(Scenario::cancel);
    if scenario.conv.session.pending_command().is_some() {
        scenario = scenario.confirms(LifecycleCommand::Stop);
    }
    scenario.die(true).unwrap();
    assert!(scenario.conv.session.status().is_terminal());
    assert!(!is_granted(&scenario.conv.session, &json!({})));
}
