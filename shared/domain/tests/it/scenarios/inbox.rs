//! Decisions of the inbox: what opens, resolves and ends them (decision 74).

use pilothouse_domain::brake::BrakeBehavior;
use pilothouse_domain::conversation::Conversation;
use pilothouse_domain::decision::{
    ApprovalTerms, CancelReason, Decision, DecisionKind, DecisionState, DecisionStatus, DecisionSubject,
    OwnerDecision, ProposedResolution, Resolution, ResolutionDelivery, ResolutionType as T, ResolvedBy,
};
use pilothouse_domain::effect::{ActionKind, Severity};
use pilothouse_domain::escalation::ToolApproval;
use pilothouse_domain::session::{
    AgentFact, AgentSessionStatus as S, LifecycleCommand, ProcessState, SessionSettings,
};
use pilothouse_domain::text::{AnswerText, Feedback};
use pilothouse_domain::trust::TrustOutcome;
use pilothouse_domain::value::{
    Answer, OptionAssessment, OptionProposal, ProposedOption, Question, QuestionOption,
};
use pilothouse_domain::{DomainContext, SessionEvent};
use serde_json::json;

use crate::inbox::Inbox;
use crate::scenario::{Scenario, asks, call, completes, output, settings, shows, turn};

const DAY: u64 = 24 * 60 * 60;

/// The inbox after a scenario in which each step was stored.
fn inbox_of(steps: &[&dyn Fn(Scenario) -> Scenario]) -> (Scenario, Inbox) {
    let mut inbox = Inbox::default();
    let mut scenario = Scenario::running();
    for step in steps {
        scenario = step(scenario);
        inbox.follow(&scenario.conv.session);
        let stored = serde_json::to_value(&scenario.conv.session).unwrap();
        scenario.conv.session = serde_json::from_value(stored).unwrap();
    }
    (scenario, inbox)
}

fn state_of(inbox: &Inbox, request: &str) -> DecisionState {
    inbox.about(&call(request)).state.clone()
}

fn cancelled_for(state: &DecisionState) -> Option<CancelReason> {
    match state {
        DecisionState::Cancelled { reason, .. } => Some(*reason),
        _ => None,
    }
}

#[test]
fn answer_is_resolving_until_the_sidecar_has_it() {
    let answered = |s: Scenario| s.when(|s| s.answer("q1"));
    let (scenario, inbox) = inbox_of(&[&|s| s.observes(asks("q1")), &answered]);
    let DecisionState::Resolving { ruling } = state_of(&inbox, "q1") else { panic!("{inbox:?}") };
    assert!(matches!(ruling.resolved_by, ResolvedBy::Owner { .. }));
    assert!(matches!(ruling.resolution, Resolution::Answer { .. }));
    drop(scenario);
    let returned =
        |s: Scenario| s.observes(AgentFact::ToolEnded { call: call("q1"), is_error: false, subagent: None });
    let (_, inbox) = inbox_of(&[&|s| s.observes(asks("q1")), &answered, &returned]);
    let resolved = DecisionState::Resolved { ruling, delivery: Some(ResolutionDelivery::Command) };
    assert_eq!(state_of(&inbox, "q1"), resolved);
}

#[test]
fn answer_without_a_sidecar_is_resolved_as_a_message() {
    let (_, inbox) = inbox_of(&[
        &|s| s.observes(asks("q1")),
        &|mut s| {
            s.die(true).unwrap();
            s
        },
        &|s| s.when(|s| s.answer("q1")),
    ]);
    let state = state_of(&inbox, "q1");
    assert!(
        matches!(state, DecisionState::Resolved { delivery: Some(ResolutionDelivery::Message), .. }),
        "{state:?}"
    );
}

#[test]
fn timeout_expires_the_request_and_cancels_the_others() {
    let (scenario, inbox) = inbox_of(&[
        &|s| s.observes(asks("q1")),
        &|mut s| {
            s.clock_with_heartbeats(60).unwrap();
            s.observes(shows("p1"))
        },
        &|mut s| {
            s.clock_with_heartbeats(DAY - 30).unwrap();
            s
        },
    ]);
    assert_eq!(scenario.conv.session.status(), S::Failed);
    assert!(matches!(state_of(&inbox, "q1"), DecisionState::Expired { .. }));
    assert_eq!(cancelled_for(&state_of(&inbox, "p1")), Some(CancelReason::SessionFailed));
}

#[test]
fn default_answer_resolves_in_place_of_the_owner() {
    let settings = SessionSettings { default_answer: Some("yes".to_owned()), ..settings() };
    let mut scenario = Scenario::with(settings);
    scenario.allocate();
    scenario.observe(AgentFact::SidecarReady(crate::scenario::can_all()));
    scenario.observe(crate::scenario::starts("t1"));
    scenario.observe(asks("q1"));
    scenario.clock_with_heartbeats(DAY).unwrap();
    let changed: Vec<&Decision> = scenario.conv.session.changed_decisions().collect();
    let ruling = changed[0].state.ruling().unwrap();
    assert_eq!(ruling.resolved_by, ResolvedBy::DefaultAnswer);
}

#[test]
fn decisions_end_with_their_turn_interrupt_or_session() {
    type Steps<'a> = &'a dyn Fn(Scenario) -> Scenario;
    let cases: [(Steps<'_>, CancelReason); 5] = [
        (&|s| s.observes(completes("t1")), CancelReason::TurnEnded),
        (&|s| s.when(|s| s.interrupt()), CancelReason::Interrupted),
        (&|s| s.when(|s| s.cancel()), CancelReason::SessionCancelled),
        (
            &|s| s.observes(AgentFact::ToolEnded { call: call("q1"), is_error: true, subagent: None }),
            CancelReason::Withdrawn,
        ),
        (&|s| s.observes(crate::scenario::ends(true)), CancelReason::SessionFailed),
    ];
    for (end, reason) in cases {
        let (_, inbox) = inbox_of(&[&|s| s.observes(asks("q1")), end]);
        assert_eq!(cancelled_for(&state_of(&inbox, "q1")), Some(reason));
    }
}

#[test]
fn newer_output_supersedes_the_review_of_the_older() {
    let ends_with = |files: u32| AgentFact::TurnCompleted {
        turn: turn("t1"),
        output: Some(output(files)),
        outcome: pilothouse_domain::value::SessionOutcome::Completed,
    };
    let (scenario, inbox) = inbox_of(&[&|s| s.observes(ends_with(1)), &|mut s| {
        s.commit(|conv, ctx| conv.session.submit_output(output(2), ctx)).unwrap();
        s
    }]);
    let superseded = inbox.in_state(DecisionStatus::Cancelled);
    assert_eq!(cancelled_for(&superseded[0].state), Some(CancelReason::Superseded));
    let DecisionSubject::OutputReview { output_id, .. } = inbox.in_state(DecisionStatus::Pending)[0].subject
    else {
        panic!("{inbox:?}")
    };
    let scenario = scenario.when(|s| s.approve(output_id));
    let approved = scenario.conv.session.changed_decisions().next().unwrap();
    assert_eq!(approved.state.ruling().map(|ruling| &ruling.resolution), Some(&Resolution::APPROVE));
}

#[test]
fn process_that_dies_keeps_its_decisions_open() {
    let (scenario, inbox) = inbox_of(&[&|s| s.observes(asks("q1")), &|mut s| {
        s.die(true).unwrap();
        s.clock(1, ProcessState::Dead).unwrap();
        s
    }]);
    assert_eq!(state_of(&inbox, "q1"), DecisionState::Pending);
    assert!(scenario.conv.session.hibernated());
}

#[test]
fn a_brake_suspends_decisions_until_its_release() {
    let (_, inbox) =
        inbox_of(&[&|s| s.observes(asks("q1")), &|s| s.when(|s| s.pull(1, BrakeBehavior::Pause))]);
    assert!(matches!(state_of(&inbox, "q1"), DecisionState::Suspended { .. }));
    let (_, inbox) = inbox_of(&[
        &|s| s.observes(asks("q1")),
        &|s| s.when(|s| s.pull(1, BrakeBehavior::Pause)),
        &|s| s.when(|s| s.pull(2, BrakeBehavior::Pause)),
        &|s| s.when(|s| s.release_brake(1)),
    ]);
    assert!(matches!(state_of(&inbox, "q1"), DecisionState::Suspended { .. }), "the other brake holds it");
    let (_, inbox) = inbox_of(&[
        &|s| s.observes(asks("q1")),
        &|s| s.when(|s| s.pull(1, BrakeBehavior::Pause)),
        &|s| s.confirms(LifecycleCommand::Pause),
        &|s| s.when(|s| s.release_brake(1)),
    ]);
    assert_eq!(state_of(&inbox, "q1"), DecisionState::Pending);
    let (_, inbox) = inbox_of(&[
        &|s| s.observes(asks("q1")),
        &|s| s.when(|s| s.pull(1, BrakeBehavior::Kill)),
        &|s| s.when(|s| s.cancel()),
        &|s| s.when(|s| s.die(true)),
    ]);
    assert!(matches!(state_of(&inbox, "q1"), DecisionState::Cancelled { .. }));
}

fn question(text: &str, labels: &[&str]) -> Question {
    let option = |label: &&str| QuestionOption { label: (*label).to_owned(), description: None };
    let options = labels.iter().map(option).collect();
    Question { question: text.to_owned(), header: None, options, multi_select: false }
}

fn permission() -> (Question, ToolApproval) {
    let approval = ToolApproval {
        tool_name: "Bash".to_owned(),
        input: "{}".to_owned(),
        input_blob: None,
        allow: "Allow".to_owned(),
        deny: "Deny".to_owned(),
        verdict: None,
        modifiable: false,
    };
    (question("May it?", &["Allow", "Deny"]), approval)
}

fn proposed(resolution_type: T) -> ProposedResolution {
    ProposedResolution {
        resolution_type,
        chosen_option_id: None,
        answers: None,
        rationale: None,
        always_approve: false,
        modified_input: None,
    }
}

#[test]
fn questions_become_options_approvals_or_questions() {
    let kind = |questions: &[Question], approval: Option<&ToolApproval>| {
        DecisionSubject::of_questions(call("q1"), questions, approval, None).kind()
    };
    assert_eq!(kind(&[question("Which?", &["A", "B"])], None), DecisionKind::Option);
    assert_eq!(kind(&[question("Which?", &[])], None), DecisionKind::Question);
    let several = Question { multi_select: true, ..question("Which?", &["A", "B"]) };
    assert_eq!(kind(&[several], None), DecisionKind::Question);
    assert_eq!(kind(&[question("A?", &[]), question("B?", &[])], None), DecisionKind::Question);
    let (asked, approval) = permission();
    assert_eq!(kind(&[asked], Some(&approval)), DecisionKind::ToolApproval);
}

#[test]
fn reason_for_a_rejection_never_allows_the_call() {
    let (asked, approval) = permission();
    let subject = DecisionSubject::of_questions(call("q1"), &[asked], Some(&approval), None);
    for reason in ["Allow", "yes", "Deny", "use trash instead"] {
        let rationale = Some(Feedback::parse(reason).unwrap());
        let decided = subject.decide(&ProposedResolution { rationale, ..proposed(T::Reject) }).unwrap();
        let OwnerDecision::Answer { answers, .. } = decided else { panic!("{decided:?}") };
        assert_eq!(answers[0].answer, format!("Deny: {reason}"));
    }
}

fn asks_permission(approval: ToolApproval) -> AgentFact {
    let questions = vec![question("May it?", &["Allow", "Deny"])];
    AgentFact::QuestionAsked {
        request: call("t1"),
        questions,
        approval: Some(approval),
        proposal: None,
        timeout: None,
    }
}

#[test]
fn a_tool_call_is_allowed_with_another_input() {
    let approval = ToolApproval { modifiable: true, ..permission().1 };
    let input = json!({ "command": "ls" });
    let terms = ApprovalTerms { modified_input: Some(input.clone()), ..ApprovalTerms::default() };
    let allow = |conv: &mut Conversation, ctx: &mut DomainContext<'_>| {
        conv.resolve(OwnerDecision::AllowCall { request: call("t1"), terms: terms.clone() }, ctx)
    };
    let mut scenario = Scenario::running().observes(asks_permission(approval.clone()));
    scenario.commit(allow).unwrap();
    let received = scenario.last.iter().find_map(|event| match event {
        SessionEvent::InputReceived { answers, modified_input, command, .. } => {
            Some((answers[0].answer.as_str(), modified_input.clone(), command.is_some()))
        }
        _ => None,
    });
    assert_eq!(received, Some(("Allow", Some(input.clone()), true)));
    let decision = scenario.conv.session.changed_decisions().next().unwrap();
    let resolution = decision.state.ruling().map(|ruling| ruling.resolution.clone());
    assert_eq!(resolution, Some(Resolution::Modify { modified_input: input.clone(), rationale: None }));

    // An agent that sleeps gets the permission as a message.
    let mut asleep = Scenario::running().observes(asks_permission(approval));
    asleep.die(true).unwrap();
    asleep.clock(1, ProcessState::Dead).unwrap();
    asleep.commit(allow).unwrap();
    let message = asleep.conv.queue.messages().last().unwrap().content.as_str().to_owned();
    assert!(message.contains("May it?: Allow") && message.contains(r#"{"command":"ls"}"#), "{message}");
}

#[test]
fn terms_that_do_not_fit_a_tool_call_are_named() {
    let subject = |modifiable: bool| {
        let (asked, approval) = permission();
        DecisionSubject::of_questions(
            call("t1"),
            &[asked],
            Some(&ToolApproval { modifiable, ..approval }),
            None,
        )
    };
    let fields = |subject: &DecisionSubject, proposed: ProposedResolution| -> Vec<&'static str> {
        subject.decide(&proposed).unwrap_err().iter().map(|misfit| misfit.field).collect()
    };
    let input = Some(json!({ "command": "ls" }));
    let modify = ProposedResolution { modified_input: input.clone(), ..proposed(T::Modify) };
    assert!(subject(true).decide(&modify).is_ok());
    assert_eq!(fields(&subject(false), modify), ["resolutionType"], "the adapter cannot change the input");
    assert_eq!(fields(&subject(true), proposed(T::Modify)), ["modifiedInput"]);
    let text = ProposedResolution { modified_input: Some(json!("ls")), ..proposed(T::Modify) };
    assert_eq!(fields(&subject(true), text), ["modifiedInput"]);
    let both = ProposedResolution { modified_input: input, always_approve: true, ..proposed(T::Reject) };
    assert_eq!(fields(&subject(true), both), ["alwaysApprove", "modifiedInput"]);
    let always = ProposedResolution { always_approve: true, ..proposed(T::Approve) };
    assert_eq!(fields(&subject(true), always), ["alwaysApprove"], "the session belongs to no project");
}

/// A permission that the project allows only with a reason.
fn explained_permission() -> ToolApproval {
    let AgentFact::QuestionAsked { approval: Some(mut approval), .. } =
        super::decision_timeouts::permission(ActionKind::Update, Severity::Low)
    else {
        unreachable!()
    };
    approval.modifiable = true;
    if let Some(verdict) = &mut approval.verdict {
        verdict.requires_rationale = true;
    }
    approval
}

#[test]
fn required_reason_of_an_approval_is_recorded() {
    let approval = explained_permission();
    let (asked, _) = permission();
    let subject = DecisionSubject::of_questions(call("t1"), &[asked], Some(&approval), None);
    let modified = ProposedResolution { modified_input: Some(json!({})), ..proposed(T::Modify) };
    for silent in [proposed(T::Approve), modified] {
        let fields: Vec<_> = subject.decide(&silent).unwrap_err().iter().map(|misfit| misfit.field).collect();
        assert_eq!(fields, ["rationale"], "{silent:?}");
    }
    assert!(subject.decide(&proposed(T::Reject)).is_ok());

    let mut scenario = Scenario::running().observes(asks_permission(approval));
    for allowed in ["allow", " Allow\n"] {
        let answers = vec![Answer { question: "May it?".to_owned(), answer: allowed.to_owned() }];
        let answer = OwnerDecision::Answer { request: call("t1"), answers };
        let refused = scenario.commit(|conv, ctx| conv.resolve(answer, ctx));
        assert_eq!(refused, Err("validation-failed"), "{allowed:?}");
    }
    let rationale = Some(Feedback::parse("The customer asked for it").unwrap());
    let decided = subject.decide(&ProposedResolution { rationale, ..proposed(T::Approve) }).unwrap();
    scenario.commit(|conv, ctx| conv.resolve(decided, ctx)).unwrap();
    let decision = scenario.conv.session.changed_decisions().next().unwrap();
    let resolution = decision.state.ruling().map(|ruling| ruling.resolution.clone());
    let rationale = Some("The customer asked for it".to_owned());
    assert_eq!(resolution, Some(Resolution::Approve { always_approve: false, rationale }));
}

#[test]
fn every_misfit_of_a_resolution_is_named() {
    let fields = |subject: &DecisionSubject, proposed: &ProposedResolution| -> Vec<&'static str> {
        subject.decide(proposed).unwrap_err().iter().map(|misfit| misfit.field).collect()
    };
    let plan = DecisionSubject::Plan { request_id: call("p1"), version: 1 };
    let rationale = Some(Feedback::parse("no").unwrap());
    let wrong = ProposedResolution {
        chosen_option_id: Some("1".to_owned()),
        rationale: rationale.clone(),
        ..proposed(T::Answer)
    };
    assert_eq!(fields(&plan, &wrong), ["resolutionType", "chosenOptionId", "answers", "rationale"]);
    assert_eq!(fields(&plan, &proposed(T::Reject)), ["rationale"]);
    assert!(plan.decide(&ProposedResolution { rationale, ..proposed(T::Reject) }).is_ok());
    let option = DecisionSubject::of_questions(call("q1"), &[question("Which?", &["A", "B"])], None, None);
    let chosen =
        |id: &str| ProposedResolution { chosen_option_id: Some(id.to_owned()), ..proposed(T::ChooseOption) };
    assert_eq!(fields(&option, &chosen("3")), ["chosenOptionId"]);
    assert!(option.decide(&chosen("2")).is_ok());
    let two =
        DecisionSubject::of_questions(call("q1"), &[question("A?", &[]), question("B?", &[])], None, None);
    let answers = vec![Answer { question: "C?".to_owned(), answer: AnswerText::parse("x").unwrap().into() }];
    let answer = ProposedResolution { answers: Some(answers), ..proposed(T::Answer) };
    assert_eq!(fields(&two, &answer), ["answers", "answers", "answers"]);
}

fn proposal(requires_rationale: bool) -> OptionProposal {
    let option = |id: &str, label: &str| ProposedOption {
        id: id.to_owned(),
        label: label.to_owned(),
        description: None,
        tradeoffs: Some("slower".to_owned()),
    };
    let assessment = OptionAssessment {
        recommended_option_id: Some("lite".to_owned()),
        severity: Some(Severity::Critical),
        requires_rationale,
        ..OptionAssessment::default()
    };
    OptionProposal { options: vec![option("lite", "SQLite"), option("pg", "Postgres")], assessment }
}

fn proposes(id: &str, proposal: &OptionProposal) -> AgentFact {
    AgentFact::QuestionAsked {
        request: call(id),
        questions: vec![proposal.as_question("Which store?".to_owned())],
        approval: None,
        proposal: Some(proposal.clone()),
        timeout: None,
    }
}

#[test]
fn proposed_options_are_ranked_within_bounds_and_chosen_with_a_reason() {
    let proposal = proposal(true);
    let (scenario, inbox) = inbox_of(&[&|s| s.observes(proposes("q1", &proposal))]);
    let decision = inbox.about(&call("q1"));
    assert_eq!(decision.kind(), DecisionKind::Option);
    assert_eq!(decision.severity, Some(Severity::High), "an agent cannot claim critical severity");
    let chosen = ProposedResolution { chosen_option_id: Some("pg".to_owned()), ..proposed(T::ChooseOption) };
    let misfits = decision.subject.decide(&chosen).unwrap_err();
    assert_eq!(misfits.iter().map(|misfit| misfit.field).collect::<Vec<_>>(), ["rationale"]);
    let rationale = Some(Feedback::parse("we have it").unwrap());
    let of_owner = decision.subject.decide(&ProposedResolution { rationale, ..chosen }).unwrap();
    let OwnerDecision::Answer { answers, .. } = &of_owner else { panic!("{of_owner:?}") };
    assert_eq!(answers[0].answer, "Postgres: we have it");
    let subject = decision.subject.clone();
    let resolved = |s: Scenario| s.when(|s| s.decide(of_owner.clone()));
    drop(scenario);
    let (_, inbox) = inbox_of(&[&|s| s.observes(proposes("q1", &proposal)), &resolved]);
    let DecisionState::Resolving { ruling } = state_of(&inbox, "q1") else { panic!("{inbox:?}") };
    let expected = Resolution::ChooseOption {
        chosen_option_id: "pg".to_owned(),
        rationale: Some("we have it".to_owned()),
    };
    assert_eq!(ruling.resolution, expected);
    let outcome = |id: &str| {
        let chosen = Resolution::ChooseOption { chosen_option_id: id.to_owned(), rationale: None };
        TrustOutcome::of_resolution(&subject, &chosen)
    };
    assert_eq!(outcome("lite"), Some(TrustOutcome::HumanApprovesRecommendedOption));
    assert_eq!(outcome("pg"), Some(TrustOutcome::HumanPicksNonRecommended));
}
