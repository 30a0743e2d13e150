//! Timeouts of requests in a project: deadlines in ticks, and what the policies do (decision 77).

use std::time::Duration;

use pilothouse_domain::brake::BrakeBehavior;
use pilothouse_domain::control_mode::ControlMode;
use pilothouse_domain::decision::{
    Decision, DecisionKind, DecisionState, DecisionStatus, DecisionTimeoutPolicy, OnTimeout as T, ResolvedBy,
    TimeoutEffect, TimeoutOverrides, TimeoutRule, TimeoutTerms,
};
use pilothouse_domain::effect::{ActionKind, BlastRadius, Effect, Effects, Severity};
use pilothouse_domain::session::{AgentFact, AgentSessionStatus as S, LifecycleCommand, ProcessState};
use pilothouse_domain::tick::{Tick, TickClock, TickConfig, TickMode};
use pilothouse_domain::trust::{ReportedOutcome, TrustOutcome};
use pilothouse_domain::value::{OptionProposal, input_hash};
use pilothouse_domain::{SessionEvent, VerdictId};
use serde_json::json;
use uuid::Uuid;

use crate::scenario::{PROJECT_AGENT, Scenario, Step, asks, call, shows};

const MODE: ControlMode = ControlMode::Ecosystem;

pub(crate) fn wall_clock() -> TickConfig {
    TickConfig { interval_ms: 1000, mode: TickMode::WallClock }
}

fn manual() -> TickConfig {
    TickConfig { mode: TickMode::Manual, ..wall_clock() }
}

pub(crate) fn policy(on_timeout: T) -> DecisionTimeoutPolicy {
    DecisionTimeoutPolicy { timeout_ticks: Some(20), on_timeout, max_extensions: 1 }
}

/// A running session of a project with this clock.
pub(crate) fn in_project(config: TickConfig) -> Scenario {
    let mut scenario = Scenario::running();
    let mut clock = TickClock::new(config).unwrap();
    clock.set_active(PROJECT_AGENT, true, scenario.now);
    scenario.ticks = Some(clock);
    scenario
}

/// Lets the agent make a request under the policy.
pub(crate) fn under(scenario: Scenario, policy: DecisionTimeoutPolicy, mut fact: AgentFact) -> Scenario {
    let ticks = scenario.ticks.as_ref().unwrap().read_for(PROJECT_AGENT, scenario.now);
    let overrides = TimeoutOverrides { project: Some(policy), ..TimeoutOverrides::default() };
    let terms = TimeoutTerms::new(MODE, &overrides, ticks);
    match &mut fact {
        AgentFact::QuestionAsked { timeout, .. } | AgentFact::PlanShown { timeout, .. } => {
            *timeout = Some(Box::new(terms));
        }
        _ => panic!("a request"),
    }
    scenario.observes(fact)
}

/// A request for permission, judged as an action of this kind and severity.
pub(crate) fn permission(kind: ActionKind, severity: Severity) -> AgentFact {
    let effect = Effect::new(kind, severity, BlastRadius::Small);
    let verdict = json!({
        "verdictId": VerdictId::new(Uuid::from_u128(9)), "tool": "Bash", "effect": effect,
        "rule": { "type": "modeDefault", "mode": "adaptive" }, "effects": Effects::one(effect),
        "inputHash": input_hash(&json!({})),
    });
    let approval = json!({
        "toolName": "Bash", "input": "{}", "allow": "Allow", "deny": "Deny", "verdict": verdict,
    });
    let options = json!([{ "label": "Allow" }, { "label": "Deny" }]);
    AgentFact::QuestionAsked {
        request: call("q1"),
        questions: vec![
            serde_json::from_value(json!({ "question": "May it?", "options": options })).unwrap(),
        ],
        approval: serde_json::from_value(approval).unwrap(),
        proposal: None,
        timeout: None,
    }
}

/// Two options, of which the second is recommended.
fn proposes(severity: Severity) -> AgentFact {
    let proposal: OptionProposal = serde_json::from_value(json!({
        "options": [{ "id": "a", "label": "SQLite" }, { "id": "b", "label": "Postgres" }],
        "recommendedOptionId": "b", "severity": severity,
    }))
    .unwrap();
    let questions = vec![proposal.as_question("Which store?".to_owned())];
    AgentFact::QuestionAsked {
        request: call("q1"),
        questions,
        approval: None,
        proposal: Some(proposal),
        timeout: None,
    }
}

pub(crate) fn decision(scenario: &Scenario) -> Decision {
    scenario.conv.session.changed_decisions().next().cloned().unwrap()
}

fn due(scenario: &Scenario) -> Option<Tick> {
    let request = &scenario.conv.session.pending_requests()[0];
    request.timeout.as_ref().and_then(|timeout| timeout.due_tick)
}

fn answer(scenario: &Scenario) -> String {
    let answer = scenario.last.iter().find_map(|event| match event {
        SessionEvent::InputReceived { answers, .. } => Some(answers[0].answer.clone()),
        SessionEvent::PlanRejected { feedback, .. } => Some(feedback.as_str().to_owned()),
        _ => None,
    });
    answer.unwrap()
}

/// Lets time pass while heartbeats arrive.
fn wait(scenario: &mut Scenario, seconds: u64) -> Step {
    scenario.clock_with_heartbeats(seconds)
}

#[test]
fn harmless_call_is_approved_at_the_due_tick() {
    let asked = under(
        in_project(wall_clock()),
        policy(T::AutoRecommend),
        permission(ActionKind::Update, Severity::Low),
    );
    assert_eq!(
        asked.conv.session.pending_requests()[0].expires_at,
        Some(asked.now + Duration::from_secs(20))
    );
    let mut waiting = asked.when(|s| wait(s, 19)).then_status(S::WaitingForInput);
    wait(&mut waiting, 1).unwrap();
    let mut resolved = waiting
        .then_status(S::Running)
        .then_event("SessionRequestTimedOutEvent")
        .then_event("SessionInputReceivedEvent");
    assert_eq!(answer(&resolved), "Allow");
    let resolving = decision(&resolved);
    let rule = TimeoutRule::Project { mode: MODE };
    assert_eq!(resolving.state.ruling().unwrap().resolved_by, ResolvedBy::Timeout { rule });
    assert_eq!(ReportedOutcome::of_decision(&resolving).unwrap().outcome, TrustOutcome::DecisionAutoResolved);

    // The result of the call shows that the agent has the approval.
    resolved = resolved.observes(AgentFact::ToolEnded { call: call("q1"), is_error: false, subagent: None });
    assert_eq!(decision(&resolved).status(), DecisionStatus::AutoResolved);
}

#[test]
fn recommended_option_is_taken_at_the_due_tick_unless_it_is_severe() {
    let resolved = under(in_project(wall_clock()), policy(T::AutoRecommend), proposes(Severity::Medium))
        .when(|s| wait(s, 20))
        .then_status(S::Running);
    assert_eq!(answer(&resolved), "Postgres");
    let rule = TimeoutRule::Project { mode: MODE };
    let resolving = decision(&resolved);
    assert_eq!(resolving.state.ruling().unwrap().resolved_by, ResolvedBy::Timeout { rule });
    assert_eq!(ReportedOutcome::of_decision(&resolving).unwrap().outcome, TrustOutcome::DecisionAutoResolved);

    let severe = under(in_project(wall_clock()), policy(T::AutoRecommend), proposes(Severity::High))
        .when(|s| wait(s, 20))
        .then_status(S::WaitingForInput);
    assert_eq!(decision(&severe).severity, Some(Severity::Critical), "a person has to decide");
}

#[test]
fn risky_call_escalates_up_to_its_rejection() {
    let risky = permission(ActionKind::Delete, Severity::Medium);
    let mut scenario = under(in_project(wall_clock()), policy(T::AutoRecommend), risky);
    for (severity, due_tick) in [(Severity::High, 40), (Severity::Critical, 60)] {
        wait(&mut scenario, 20).unwrap();
        let decision = decision(&scenario);
        assert_eq!((decision.severity, decision.status()), (Some(severity), DecisionStatus::Pending));
        assert_eq!(due(&scenario), Some(Tick::new(due_tick)));
    }
    wait(&mut scenario, 20).unwrap();
    let scenario = scenario.then_status(S::Running);
    assert!(answer(&scenario).starts_with("Deny: "), "{}", answer(&scenario));
    assert_eq!(decision(&scenario).state, DecisionState::Expired { ended_at: scenario.now });
    assert_eq!(ReportedOutcome::of_decision(&decision(&scenario)), None, "the agent is not to blame");
}

#[test]
fn questions_and_plans_end_without_failing_the_session() {
    let question = under(in_project(wall_clock()), policy(T::Cancel), asks("q1")).when(|s| wait(s, 20));
    assert!(answer(&question).contains("time to decide is over"));
    assert_eq!(question.conv.session.status(), S::Running);
    let plan = under(in_project(wall_clock()), policy(T::Cancel), shows("p1")).when(|s| wait(s, 20));
    assert!(answer(&plan).contains("time to decide is over"));
    assert_eq!(plan.conv.session.status(), S::Running);
}

#[test]
fn extension_repeats_before_it_escalates() {
    let mut scenario = under(in_project(wall_clock()), policy(T::Extend), asks("q1"));
    wait(&mut scenario, 20).unwrap();
    let extended = decision(&scenario);
    assert_eq!((extended.severity, extended.timeout.unwrap().extensions), (None, 1));
    wait(&mut scenario, 20).unwrap();
    assert_eq!(decision(&scenario).severity, Some(Severity::High));
}

#[test]
fn a_decision_without_timeout_waits_without_limit() {
    let never = DecisionTimeoutPolicy::of_mode(ControlMode::Orchestrator);
    let mut scenario = under(in_project(wall_clock()), never, asks("q1"));
    assert_eq!(scenario.conv.session.pending_requests()[0].expires_at, None);
    wait(&mut scenario, 60 * 60 * 24 * 30).unwrap();
    scenario.then_status(S::WaitingForInput);
}

#[test]
fn advancing_manual_ticks_fires_what_is_due() {
    let mut scenario = under(in_project(manual()), policy(T::Cancel), asks("q1"));
    assert_eq!(scenario.conv.session.pending_requests()[0].expires_at, None);
    wait(&mut scenario, 60).unwrap();
    scenario
        .tick(|clock, _| {
            clock.advance(19).unwrap();
        })
        .unwrap();
    let mut scenario = scenario.then_status(S::WaitingForInput);
    scenario
        .tick(|clock, _| {
            clock.advance(1).unwrap();
        })
        .unwrap();
    scenario.then_status(S::Running);
}

#[test]
fn changed_rate_moves_the_deadline() {
    let mut scenario = under(in_project(wall_clock()), policy(T::Cancel), asks("q1"));
    wait(&mut scenario, 10).unwrap();
    let slower = TickConfig { interval_ms: 10_000, ..wall_clock() };
    scenario
        .tick(|clock, now| {
            clock.configure(slower, now).unwrap();
        })
        .unwrap();
    let expires = scenario.conv.session.pending_requests()[0].expires_at;
    assert_eq!(expires, Some(scenario.now + Duration::from_secs(100)), "ten ticks are left");
    scenario
        .tick(|clock, now| {
            clock.configure(manual(), now).unwrap();
        })
        .unwrap();
    assert_eq!(scenario.conv.session.pending_requests()[0].expires_at, None);
    let faster = TickConfig { interval_ms: 10, ..wall_clock() };
    scenario
        .tick(|clock, now| {
            clock.configure(faster, now).unwrap();
        })
        .unwrap();
    wait(&mut scenario, 1).unwrap();
    scenario.then_status(S::Running);
}

/// The estimated time comes, but the clock of the project stood still.
#[test]
fn deadline_is_set_again_while_the_tick_is_not_reached() {
    let mut scenario = under(in_project(wall_clock()), policy(T::Cancel), asks("q1"));
    let slower = TickConfig { interval_ms: 2000, ..wall_clock() };
    scenario.ticks.as_mut().unwrap().configure(slower, scenario.now).unwrap();
    wait(&mut scenario, 20).unwrap();
    let mut scenario = scenario.then_status(S::WaitingForInput);
    wait(&mut scenario, 20).unwrap();
    scenario.then_status(S::Running);
}

#[test]
fn time_starts_again_after_a_brake() {
    let asked = under(in_project(wall_clock()), policy(T::Cancel), asks("q1"));
    let mut released = asked
        .when(|s| wait(s, 15))
        .when(|s| s.pull(1, BrakeBehavior::Pause))
        .confirms(LifecycleCommand::Pause)
        .when(|s| s.clock_with_heartbeats(600))
        .then_status(S::Paused)
        .when(|s| s.release_brake(1))
        .confirms(LifecycleCommand::Resume)
        .then_status(S::WaitingForInput);
    wait(&mut released, 0).unwrap();
    assert_eq!(due(&released), Some(Tick::new(635)));
    released
        .when(|s| wait(s, 19))
        .then_status(S::WaitingForInput)
        .when(|s| wait(s, 1))
        .then_status(S::Running);
}

#[test]
fn timeout_of_a_sleeping_agent_reaches_it_as_a_message() {
    let call = permission(ActionKind::Update, Severity::Low);
    let mut asleep = under(in_project(wall_clock()), policy(T::AutoRecommend), call);
    asleep.die(true).unwrap();
    asleep.clock(20, ProcessState::Dead).unwrap();
    let message = asleep.conv.queue.messages().last().unwrap().content.as_str().to_owned();
    assert!(message.contains("Make the call again"), "{message}");
}

#[test]
fn each_timeout_reports_its_effect() {
    let mut scenario = under(in_project(wall_clock()), policy(T::Escalate), asks("q1"));
    for number in [1, 2] {
        wait(&mut scenario, 20).unwrap();
        let SessionEvent::RequestTimedOut { kind, timeout, severity, .. } = &scenario.last[0] else {
            panic!("{:?}", scenario.last);
        };
        let raised = if number == 1 { Severity::High } else { Severity::Critical };
        assert_eq!(
            (*kind, timeout.effect, timeout.number),
            (DecisionKind::Question, TimeoutEffect::Escalated, number)
        );
        assert_eq!(*severity, Some(raised));
    }
}
