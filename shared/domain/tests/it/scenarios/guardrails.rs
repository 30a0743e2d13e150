//! Guardrails of a brief on what the agent receives and submits (S2 `GuardrailPolicy`; decision 79).

use pilothouse_domain::decision::OwnerDecision;
use pilothouse_domain::effect::{BlastRadius, Severity};
use pilothouse_domain::escalation::{GuardrailPolicy, InputGuardrail, ToolApproval, TripSubject};
use pilothouse_domain::output::{OutputRules, SessionOutput};
use pilothouse_domain::session::{AgentFact, AgentSessionStatus as S, SessionError, judge_input};
use pilothouse_domain::text::{Feedback, MessageContent};
use pilothouse_domain::value::{Answer, Question, QuestionOption, SessionOutcome};
use pilothouse_domain::{Events, SessionEvent};
use serde_json::{Value, json};

use crate::scenario::{Scenario, Step, asks, call, completes, ends, message, new_message, shows, turn};

fn policy(value: Value) -> GuardrailPolicy {
    serde_json::from_value(value).unwrap()
}

/// A guardrail that trips on texts with `secret`.
fn secrets(action: &str) -> Vec<InputGuardrail> {
    let guardrail = json!({ "name": "no secrets", "action": action, "description": "Secrets stay out.",
        "condition": { "text": ["*secret*"] } });
    policy(json!({ "inputGuardrails": [guardrail] })).input_guardrails
}

fn sends(content: &str, guardrails: &[InputGuardrail]) -> impl FnOnce(&mut Scenario) -> Step {
    let new = new_message(1, content);
    move |s| s.commit(|c, ctx| c.enqueue_guarded(new, guardrails, ctx))
}

fn edits(n: u128, content: &str, guardrails: &[InputGuardrail]) -> impl FnOnce(&mut Scenario) -> Step {
    let content = MessageContent::parse(content).unwrap();
    move |s| s.commit(|c, _| c.edit_message(message(n), content, guardrails))
}

fn retries(
    instruction: Option<&str>,
    fresh: bool,
    guardrails: &[InputGuardrail],
) -> impl FnOnce(&mut Scenario) -> Step {
    let instruction = instruction.map(|text| Feedback::parse(text).unwrap());
    move |s| s.commit(|c, ctx| c.retry_guarded(instruction, fresh, guardrails, ctx))
}

fn compacts(instructions: Option<&str>, guardrails: &[InputGuardrail]) -> impl FnOnce(&mut Scenario) -> Step {
    let instructions = instructions.map(|text| Feedback::parse(text).unwrap());
    move |s| s.commit(|c, ctx| c.compact_guarded(instructions.as_ref(), guardrails, ctx))
}

/// The guardrails that tripped in the latest step, with what they tripped on.
fn trips(scenario: &Scenario) -> Vec<(String, TripSubject)> {
    let trip = |event: &SessionEvent| match event {
        SessionEvent::GuardrailTripped { subject, guardrail } => Some((guardrail.name.to_string(), *subject)),
        _ => None,
    };
    scenario.last.iter().filter_map(trip).collect()
}

fn tripped(subject: TripSubject) -> Vec<(String, TripSubject)> {
    vec![("no secrets".to_owned(), subject)]
}

#[test]
fn blocked_message_is_refused_and_changes_nothing() {
    Scenario::running()
        .refuses("guardrail-blocked", sends("the secret is 7", &secrets("block")))
        .when(sends("hello", &secrets("block")))
        .then(trips, &Vec::new())
        .then_queue(&[1], &[]);
}

#[test]
fn message_that_only_warns_or_logs_is_sent_and_recorded() {
    for action in ["warn", "log"] {
        Scenario::running()
            .when(sends("the secret is 7", &secrets(action)))
            .then_event("MessageEnqueuedEvent")
            .then(trips, &tripped(TripSubject::Message))
            .then_queue(&[1], &[]);
    }
}

#[test]
fn status_and_repetition_come_before_guardrails() {
    let ended = Scenario::in_status(S::Cancelled);
    ended.refuses("invalid-transition", sends("the secret is 7", &secrets("block")));
    // The message was accepted before the brief had the guardrail.
    Scenario::running()
        .when(sends("the secret is 7", &[]))
        .when(sends("the secret is 7", &secrets("block")))
        .then_events(&[])
        .then_queue(&[1], &[]);
}

#[test]
fn new_text_of_a_message_is_judged() {
    Scenario::running()
        .refuses("not-found", edits(9, "the secret is 7", &secrets("block")))
        .when(|s| s.follow_up(1))
        .refuses("guardrail-blocked", edits(1, "the secret is 7", &secrets("block")))
        .when(edits(1, "the secret is 7", &secrets("log")))
        .then_events(&["MessageEditedEvent", "SessionGuardrailTrippedEvent"])
        .then(trips, &tripped(TripSubject::Message));
}

#[test]
fn text_trips_if_all_patterns_match_the_whole_of_it() {
    for (trips, patterns, text) in [
        (true, json!(["*card*"]), "my card\nis red"),
        (false, json!(["card*"]), "my card"),
        (false, json!(["*Card*"]), "my card"),
        (true, json!(["*card*", "*???-???*"]), "card 123-456"),
        (false, json!(["*card*", "*???-???*"]), "card 123456"),
    ] {
        let guardrail = json!({ "name": "g", "action": "block", "condition": { "text": patterns } });
        let guardrails = policy(json!({ "inputGuardrails": [guardrail] })).input_guardrails;
        let judged = judge_input(&guardrails, TripSubject::Message, text);
        assert_eq!(judged.is_err(), trips, "{patterns} on {text}");
    }
}

#[test]
fn refusal_names_the_guardrail_and_what_to_do() {
    let both = [secrets("block"), secrets("warn")].concat();
    let blocked = judge_input(&both, TripSubject::Objective, "a secret").unwrap_err();
    let expected = "the guardrail `no secrets` of the agent's brief refuses this objective (Secrets stay out); \
                    change the objective, or the guardrail";
    assert_eq!(SessionError::from(blocked.clone()).to_string(), expected);
    assert_eq!(blocked.events().len(), 2, "also the one that warns is recorded");
}

#[test]
fn retry_judges_the_instruction_and_a_repeated_objective() {
    let failed = || Scenario::running().observes(ends(true));
    let objective =
        json!({ "name": "no orders", "action": "block", "condition": { "text": ["Make it so"] } });
    let objective = policy(json!({ "inputGuardrails": [objective] })).input_guardrails;
    failed()
        .refuses("guardrail-blocked", retries(Some("use the secret"), false, &secrets("block")))
        .when(retries(Some("use the secret"), false, &secrets("warn")))
        .then(trips, &tripped(TripSubject::Instruction));
    failed()
        .refuses("guardrail-blocked", retries(None, true, &objective))
        .when(retries(None, false, &objective))
        .then(trips, &Vec::new());
}

#[test]
fn instructions_for_a_summary_are_judged() {
    let ended = Scenario::in_status(S::Cancelled);
    ended.refuses("invalid-transition", compacts(Some("Keep the secret"), &secrets("block")));
    Scenario::idle()
        .refuses("guardrail-blocked", compacts(Some("Keep the secret"), &secrets("block")))
        .when(compacts(None, &secrets("block")))
        .then_events(&["SessionAdjustmentRequestedEvent"])
        .when(compacts(Some("Keep the secret"), &secrets("log")))
        .then_events(&["SessionAdjustmentRequestedEvent", "SessionGuardrailTrippedEvent"])
        .then(trips, &tripped(TripSubject::Instruction));
}

fn resolves(decision: OwnerDecision, guardrails: &[InputGuardrail]) -> impl FnOnce(&mut Scenario) -> Step {
    move |s| s.commit(|c, ctx| c.resolve_guarded(decision, guardrails, ctx))
}

fn answers(question: &str, answer: &str) -> OwnerDecision {
    let answers = vec![Answer { question: question.to_owned(), answer: answer.to_owned() }];
    OwnerDecision::Answer { request: call("q1"), answers }
}

#[test]
fn answers_to_questions_are_judged() {
    let judged = |answer: &str, action: &str| resolves(answers("q1?", answer), secrets(action).leak());
    Scenario::running()
        .observes(asks("q1"))
        .refuses("guardrail-blocked", judged("the secret is 7", "block"))
        .then_status(S::WaitingForInput)
        .when(judged("the secret is 7", "warn"))
        .then_events(&["SessionInputReceivedEvent", "SessionGuardrailTrippedEvent"])
        .then(trips, &tripped(TripSubject::Answer))
        .refuses("request-over", judged("the secret is 7", "block"));
}

#[test]
fn options_of_the_agent_are_not_judged() {
    let option = |label: &str| QuestionOption { label: label.to_owned(), description: None };
    let question = Question {
        question: "Which?".to_owned(),
        header: None,
        options: vec![option("a secret"), option("none")],
        multi_select: false,
    };
    let asks = |questions: Vec<Question>| AgentFact::QuestionAsked {
        request: call("q1"),
        questions,
        approval: None,
        proposal: None,
        timeout: None,
    };
    let block = secrets("block");
    let single = Scenario::running().observes(asks(vec![question.clone()]));
    single
        .clone()
        .when(resolves(answers("Which?", "a secret"), &block))
        .then_events(&["SessionInputReceivedEvent"]);
    single.refuses("guardrail-blocked", resolves(answers("Which?", "another secret"), &block));
    let several = Question { multi_select: true, ..question };
    let several = Scenario::running().observes(asks(vec![several]));
    let both = "none, a secret";
    several
        .clone()
        .when(resolves(answers("Which?", both), &block))
        .then_events(&["SessionInputReceivedEvent"]);
    several.refuses("guardrail-blocked", resolves(answers("Which?", "none, another secret"), &block));
}

#[test]
fn feedback_on_plans_and_reasons_of_denials_are_judged() {
    let rejects = || OwnerDecision::RejectPlan {
        request: call("p1"),
        feedback: Feedback::parse("Use the secret").unwrap(),
    };
    Scenario::running()
        .refuses("request-over", resolves(rejects(), &secrets("block")))
        .observes(shows("p1"))
        .refuses("guardrail-blocked", resolves(rejects(), &secrets("block")))
        .then_status(S::WaitingForApproval)
        .when(resolves(rejects(), &secrets("log")))
        .then_events(&["SessionPlanRejectedEvent", "SessionGuardrailTrippedEvent"])
        .then(trips, &tripped(TripSubject::Feedback));
    let approval = ToolApproval {
        tool_name: "Bash".to_owned(),
        input: "{}".to_owned(),
        input_blob: None,
        allow: "Allow".to_owned(),
        deny: "Deny".to_owned(),
        modifiable: false,
        verdict: None,
    };
    let question = Question {
        question: "May it read the secret?".to_owned(),
        header: None,
        options: Vec::new(),
        multi_select: false,
    };
    let asked = AgentFact::QuestionAsked {
        request: call("q1"),
        questions: vec![question],
        approval: Some(approval.clone()),
        proposal: None,
        timeout: None,
    };
    let denies = |why: Option<&str>| answers("May it read the secret?", &approval.denial(why));
    Scenario::running()
        .observes(asked)
        .refuses("guardrail-blocked", resolves(denies(Some("it is secret")), &secrets("block")))
        .when(resolves(denies(None), &secrets("block")))
        .then_events(&["SessionInputReceivedEvent"]);
}

#[test]
fn restart_judges_the_objective_once_its_process_is_over() {
    let objective =
        json!({ "name": "no orders", "action": "block", "condition": { "text": ["Make it so"] } });
    let objective = policy(json!({ "inputGuardrails": [objective] })).input_guardrails;
    let restarts = |s: &mut Scenario| {
        s.commit::<SessionError>(|c, ctx| c.restart(&objective, ctx).map(|restart| restart.of_failed))
    };
    Scenario::running()
        .observes(ends(true))
        .refuses("process-stopping", restarts)
        .when(|s| s.die(true))
        .refuses("guardrail-blocked", restarts);
}

fn rules(action: &str, condition: &Value) -> OutputRules {
    let guardrail = json!({ "name": "no prices", "action": action, "description": "Prices stay out",
        "condition": { "result": condition } });
    let guardrails = policy(json!({ "outputGuardrails": [guardrail] })).output_guardrails;
    OutputRules { guardrails, ..OutputRules::default() }
}

/// An output that a guardrail on `/price` judged.
fn judged(action: &str, result: Value) -> SessionOutput {
    let mut output = SessionOutput { result: Some(result), ..SessionOutput::default() };
    output.check_result(&rules(action, &json!([{ "at": "/price", "matches": "*" }])));
    output
}

fn completes_with(id: &str, output: SessionOutput) -> AgentFact {
    AgentFact::TurnCompleted { turn: turn(id), output: Some(output), outcome: SessionOutcome::Completed }
}

fn priced(id: &str, action: &str) -> AgentFact {
    completes_with(id, judged(action, json!({ "price": 7 })))
}

/// The severity of the open review.
fn severity(scenario: &Scenario) -> Option<Severity> {
    let review = scenario.conv.session.open_decisions().next().unwrap();
    review.severity
}

/// Starts turn `id` with the message that the latest step sent.
fn corrects(scenario: Scenario, id: &str) -> Scenario {
    let sent = &scenario.conv.queue.messages()[0];
    let content = sent.content.as_str();
    assert!(content.contains("- the result is not allowed: Prices stay out"), "{content}");
    assert!(!content.contains("no prices"), "the agent does not learn the name: {content}");
    let message = sent.message_id;
    scenario.begins_turn_with(id, message)
}

#[test]
fn blocked_output_is_corrected_in_another_turn() {
    let returned = Scenario::running()
        .observes(priced("t1", "block"))
        .then_event("SessionOutputReturnedEvent")
        .then(trips, &vec![("no prices".to_owned(), TripSubject::Output)])
        .then(|s| s.conv.session.has_pending_review(), &false);
    corrects(returned, "t2")
        .observes(completes_with("t2", judged("block", json!({ "total": 1 }))))
        .then_events(&["AgentSessionOutputReadyEvent"])
        .then(|s| s.conv.session.has_pending_review(), &true)
        .then(severity, &None);
}

#[test]
fn message_about_many_objections_says_what_to_do() {
    let guardrail = |at: usize| {
        json!({ "name": format!("g{at}"), "action": "block", "description": "x".repeat(500),
            "condition": { "result": [{ "matches": "7" }] } })
    };
    let guardrails = policy(json!({ "outputGuardrails": (0..10).map(guardrail).collect::<Vec<Value>>() }));
    let mut output = SessionOutput { result: Some(json!(7)), ..SessionOutput::default() };
    output.check_result(&OutputRules { guardrails: guardrails.output_guardrails, ..OutputRules::default() });
    let returned = Scenario::running().observes(completes_with("t1", output));
    let content = returned.conv.queue.messages()[0].content.as_str();
    assert!(content.ends_with("Correct the result and submit it again."), "{content}");
}

#[test]
fn third_blocked_output_is_reviewed_before_all_others() {
    let first = Scenario::running().observes(priced("t1", "block"));
    let second = corrects(first, "t2").observes(priced("t2", "block"));
    corrects(second, "t3")
        .observes(priced("t3", "block"))
        .then_events(&["SessionGuardrailTrippedEvent", "AgentSessionOutputReadyEvent"])
        .then(severity, &Some(Severity::High))
        .then(|s| s.conv.session.output().map(|it| it.output.guardrails.len()), &Some(1));
}

#[test]
fn output_that_needs_a_review_is_reviewed_before_all_others() {
    Scenario::running()
        .observes(priced("t1", "ask"))
        .then_events(&["SessionGuardrailTrippedEvent", "AgentSessionOutputReadyEvent"])
        .then(|s| s.conv.session.has_pending_review(), &true)
        .then(severity, &Some(Severity::High));
    let review =
        Scenario::running().observes(priced("t1", "ask")).conv.session.open_decisions().next().unwrap();
    assert_eq!(review.rank(), (Severity::High, BlastRadius::Small));
}

#[test]
fn output_that_only_warns_or_logs_is_reviewed_as_usual() {
    for action in ["warn", "log"] {
        Scenario::running()
            .observes(priced("t1", action))
            .then_events(&["SessionGuardrailTrippedEvent", "AgentSessionOutputReadyEvent"])
            .then(severity, &None);
    }
}

#[test]
fn submitted_output_that_is_blocked_is_returned_in_the_response() {
    let submits = |result: Value| {
        move |s: &mut Scenario| {
            s.commit(|c, ctx| c.session.submit_output(judged("block", result.clone()), ctx))
        }
    };
    let scenario = Scenario::running()
        .when(submits(json!({ "price": 7 })))
        .then_events(&["SessionGuardrailTrippedEvent", "SessionOutputReturnedEvent"]);
    let Some(SessionEvent::OutputReturned { violations, .. }) = scenario.last.last() else { panic!() };
    assert_eq!(violations[0].message, "is not allowed: Prices stay out");
    scenario
        .when(submits(json!({ "total": 1 })))
        .then_events(&[])
        .observes(completes("t1"))
        .then_event("AgentSessionOutputReadyEvent")
        .then(trips, &Vec::new());
}

#[test]
fn staged_output_trips_when_it_is_recorded() {
    Scenario::running()
        .when(|s| {
            let output = judged("ask", json!({ "price": 7 }));
            s.commit(|c, ctx| c.session.submit_output(output, ctx))
        })
        .then_events(&[])
        .observes(completes("t1"))
        .then_event("SessionGuardrailTrippedEvent")
        .then(severity, &Some(Severity::High));
}

#[test]
fn output_of_an_interrupted_turn_is_reviewed_as_it_is() {
    Scenario::running()
        .when(|s| s.interrupt())
        .observes(priced("t1", "block"))
        .confirms(pilothouse_domain::session::LifecycleCommand::Interrupt)
        .then_event("SessionGuardrailTrippedEvent")
        .then_no_event("SessionOutputReturnedEvent")
        .then(|s| s.conv.session.has_pending_review(), &true);
}

#[test]
fn condition_on_a_result_holds_for_its_values() {
    for (trips, condition, result) in [
        (true, json!([{ "matches": "*ACME*" }]), json!({ "notes": ["for ACME"] })),
        (true, json!([{ "matches": "*ACME*" }]), json!("for ACME")),
        (false, json!([{ "at": "/total", "matches": "*ACME*" }]), json!({ "notes": "ACME", "total": 1 })),
        (true, json!([{ "at": "/total", "matches": "1??" }]), json!({ "total": 199 })),
        (false, json!([{ "matches": "*a*" }, { "matches": "*b*" }]), json!({ "x": "a" })),
        (false, json!([{ "matches": "*" }]), Value::Null),
    ] {
        let mut output = SessionOutput { result: Some(result.clone()), ..SessionOutput::default() };
        output.check_result(&rules("block", &condition));
        assert_eq!(output.guardrails.len(), usize::from(trips), "{condition} on {result}");
    }
    let mut without_result = SessionOutput::default();
    without_result.check_result(&rules("block", &json!([{ "matches": "*" }])));
    assert!(without_result.guardrails.is_empty());
}

#[test]
fn report_of_a_sidecar_about_guardrails_does_not_count() {
    let mut output = judged("block", json!({ "price": 7 }));
    output.check_result(&OutputRules::default());
    assert_eq!(output.guardrails, []);
}

#[test]
fn every_violation_of_guardrails_is_named() {
    let many = |n: usize| vec![json!("x"); n];
    let conditions = |n: usize| vec![json!({ "matches": "x" }); n];
    let policy = policy(json!({
        "inputGuardrails": [
            { "name": "a", "action": "ask", "condition": {} },
            { "name": "b", "action": "block", "condition": { "text": many(11) } },
        ],
        "outputGuardrails": [
            { "name": "a", "action": "ask", "condition": {} },
            { "name": "c", "action": "warn", "condition": { "result": conditions(11) } },
            { "name": "d", "action": "log", "condition": { "result": [{ "at": "price", "matches": "x" }] } },
        ],
        "toolGuardrails": [{ "name": "b", "action": "block", "condition": {} }],
    }));
    let fields: Vec<_> = policy.check().into_iter().map(|(field, _)| field).collect();
    assert_eq!(
        fields,
        [
            "inputGuardrails[0].action",
            "inputGuardrails[0].condition",
            "inputGuardrails[1].condition.text",
            "outputGuardrails[0].name",
            "outputGuardrails[0].condition",
            "outputGuardrails[1].condition.result",
            "outputGuardrails[2].condition.result[0].at",
            "toolGuardrails[0].name",
            "toolGuardrails[0].condition",
        ]
    );
}

#[test]
fn brief_has_at_most_fifty_guardrails_in_total() {
    let inputs = |n: usize| -> Vec<Value> {
        let guardrail =
            |at| json!({ "name": format!("i{at}"), "action": "log", "condition": { "text": ["x"] } });
        (0..n).map(guardrail).collect()
    };
    let tool = json!({ "name": "t", "action": "log", "condition": { "tool": "Bash" } });
    let fits = policy(json!({ "inputGuardrails": inputs(49), "toolGuardrails": [tool.clone()] }));
    assert_eq!(fits.check(), []);
    let found = policy(json!({ "inputGuardrails": inputs(50), "toolGuardrails": [tool] })).check();
    let found: Vec<_> = found.iter().map(|(field, it)| (field.as_str(), it.to_string())).collect();
    assert_eq!(found, [("", "must have at most 50 guardrails in total".to_owned())]);
}

#[test]
fn guardrails_of_a_brief_have_at_most_32_kib() {
    let of_length = |length: usize| {
        let guardrail = |at| {
            json!({ "name": format!("i{at}"), "action": "log",
                "condition": { "text": vec!["x".repeat(length); 10] } })
        };
        policy(json!({ "inputGuardrails": (0..20).map(guardrail).collect::<Vec<Value>>() })).check()
    };
    assert_eq!(of_length(100), []);
    let found = of_length(200);
    let found: Vec<_> = found.iter().map(|(field, it)| (field.as_str(), it.to_string())).collect();
    assert_eq!(found, [("", "must have at most 32 KiB".to_owned())]);
}

#[test]
fn trips_are_stored_and_earlier_forms_stay() {
    let trip: Events = judge_input(&secrets("warn"), TripSubject::Message, "a secret").unwrap();
    let stored = serde_json::to_value(&trip).unwrap();
    let expected = json!([{ "type": "SessionGuardrailTrippedEvent", "subject": "message",
        "guardrail": { "name": "no secrets", "action": "warn", "description": "Secrets stay out." } }]);
    assert_eq!(stored, expected);
    assert_eq!(serde_json::from_value::<Events>(stored).unwrap(), trip);
    // A brief and an output without these guardrails look as they did before.
    let policy = serde_json::to_value(GuardrailPolicy::default()).unwrap();
    assert_eq!(policy, json!({ "toolGuardrails": [] }));
    assert_eq!(serde_json::to_value(SessionOutput::default()).unwrap().get("guardrails"), None);
}
