//! Which outcomes change the trust of an agent (S2, "Trust score update rules"; decision 76).

use pilothouse_domain::OutputId;
use pilothouse_domain::effect::{ActionKind, Severity};
use pilothouse_domain::session::{AgentFact, SessionSettings};
use pilothouse_domain::trust::{JudgedAction, ReportedOutcome, TrustOutcome as O};
use pilothouse_domain::value::{Answer, FailureReason, SessionOutcome};
use serde_json::{Value, json};

use crate::inbox::Inbox;
use crate::scenario::{Scenario, Step, call, can_all, settings, shows, starts};

/// A question of the agent, which asks for permission if it has an approval.
fn asked(options: &[&str], approval: &Value) -> AgentFact {
    let options: Vec<_> = options.iter().map(|label| json!({ "label": label })).collect();
    AgentFact::QuestionAsked {
        request: call("q1"),
        questions: vec![
            serde_json::from_value(json!({ "question": "May it?", "options": options })).unwrap(),
        ],
        approval: serde_json::from_value(approval.clone()).unwrap(),
        proposal: None,
        timeout: None,
    }
}

fn permission() -> AgentFact {
    let approval = json!({ "toolName": "Bash", "input": "{}", "allow": "Allow", "deny": "Deny" });
    asked(&["Allow", "Deny"], &approval)
}

/// The outcome of the decision about `request` after these steps.
fn outcome_of(
    request: &str,
    fact: AgentFact,
    step: impl FnOnce(Scenario) -> Scenario,
) -> Option<ReportedOutcome> {
    let mut inbox = Inbox::default();
    let scenario = Scenario::running().observes(fact);
    inbox.follow(&scenario.conv.session);
    inbox.follow(&step(scenario).conv.session);
    ReportedOutcome::of_decision(inbox.about(&call(request)))
}

fn answered(fact: AgentFact, answer: &str) -> Option<ReportedOutcome> {
    outcome_of("q1", fact, |s| {
        s.when(|s| {
            let answer = Answer { question: "May it?".to_owned(), answer: answer.to_owned() };
            s.commit(|conv, ctx| conv.session.answer(&call("q1"), vec![answer], ctx))
        })
    })
}

#[test]
fn permissions_count_with_the_classification_of_the_call() {
    let action = Some(JudgedAction::new(ActionKind::Execute, Severity::High));
    for (answer, outcome) in [
        ("Allow", O::HumanApprovesToolCall),
        ("Deny", O::HumanRejectsToolCall),
        ("Deny: use trash", O::HumanRejectsToolCall),
    ] {
        let reported = answered(permission(), answer).unwrap();
        assert_eq!((reported.outcome, reported.action), (outcome, action), "{answer}");
        assert!(reported.decision_id.is_some());
    }
}

#[test]
fn choices_answers_and_plans_have_no_outcome() {
    assert_eq!(answered(asked(&["Red", "Blue"], &Value::Null), "Red"), None);
    assert_eq!(answered(asked(&[], &Value::Null), "Red"), None);
    assert_eq!(outcome_of("p1", shows("p1"), |s| s.when(|s| s.approve_plan("p1"))), None);
    assert_eq!(outcome_of("q1", permission(), |s| s), None, "it is pending");
}

#[test]
fn default_answer_is_not_a_resolution_by_a_person() {
    let settings = SessionSettings { default_answer: Some("Allow".to_owned()), ..settings() };
    let mut inbox = Inbox::default();
    let mut asked = Scenario::with(settings);
    asked.allocate();
    let asked =
        asked.observes(AgentFact::SidecarReady(can_all())).observes(starts("t1")).observes(permission());
    inbox.follow(&asked.conv.session);
    inbox.follow(&asked.when(|s| s.clock_with_heartbeats(24 * 60 * 60)).conv.session);
    let reported = ReportedOutcome::of_decision(inbox.about(&call("q1"))).unwrap();
    assert_eq!(reported.outcome, O::DecisionAutoResolved);
}

#[test]
fn reviews_of_an_output_judge_the_artifact() {
    let reviewed = |review: fn(&mut Scenario, OutputId) -> Step| {
        let scenario = Scenario::reviewable();
        let output = scenario.output_id();
        let scenario = scenario.when(|s| review(s, output));
        let decided = scenario.conv.session.changed_decisions().find_map(ReportedOutcome::of_decision);
        decided.map(|reported| (reported.outcome, reported.action))
    };
    assert_eq!(reviewed(Scenario::approve), Some((O::ArtifactApproved, None)));
    assert_eq!(reviewed(Scenario::reject), Some((O::ArtifactRejected, None)));
}

#[test]
fn ends_count_only_if_the_agent_caused_them() {
    use FailureReason as F;
    use SessionOutcome as T;
    let ends = [T::Completed, T::MaxIterations, T::ExecutionError, T::BudgetExceeded, T::QuotaExceeded];
    let partial = O::TaskCompletedPartial;
    let expected = [O::TaskCompletedSuccess, O::TaskAbandonedOrMaxTurns, partial, partial, partial];
    assert_eq!(ends.map(O::of_completion), expected);
    assert_eq!(O::of_failure(F::AgentError), Some(O::TaskAbandonedOrMaxTurns));
    let others = [
        F::BudgetExhausted,
        F::VerificationFailed,
        F::ManualCancellation,
        F::Timeout,
        F::InfrastructureError,
    ];
    assert_eq!(others.map(O::of_failure), [None; 5]);
}
