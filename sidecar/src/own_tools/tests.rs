//! The native agent's tools that wait for the owner, and the tools that publish events, without a control plane.

use std::time::Duration;

use pilothouse_agent::tool::{ToolContext, ToolOutput};
use pilothouse_domain::ToolCallId;
use pilothouse_domain::value::Answer;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::*;
use crate::adapter::{OwnerAnswers, PlanDecision};
use crate::spool::Spool;
use crate::spool::tests::{launch, open};
use crate::tool_names::OWN_TOOLS;

struct Given {
    _dir: tempfile::TempDir,
    spool: Spool,
    requests: Requests,
    mode: PlanMode,
    tools: Vec<SharedTool>,
    /// Those that all agents have.
    shared: Vec<SharedTool>,
    cancelled: CancellationToken,
}

fn given(approval: bool) -> Given {
    let dir = tempfile::tempdir().unwrap();
    let spool = open(dir.path());
    let mut launch = launch();
    launch.request.working_directory = dir.path().to_string_lossy().into_owned();
    launch.agent_api.url = "http://127.0.0.1:1".into();
    let (requests, mode) = (Requests::default(), PlanMode::default());
    let own = OwnTools::new(&launch, EventSink::new(spool.clone()), &Processes::unguarded()).unwrap();
    let tools = own.native(&requests, &mode, approval);
    let shared = own.served();
    Given { _dir: dir, spool, requests, mode, tools, shared, cancelled: CancellationToken::new() }
}

impl Given {
    fn call(&self, name: &str, arguments: Value) -> JoinHandle<ToolOutput> {
        let tool = self.tools.iter().find(|tool| tool.spec().name == name).unwrap().clone();
        let (progress, _) = mpsc::unbounded_channel();
        let context =
            ToolContext { tool_call_id: "call-1".into(), cancelled: self.cancelled.clone(), progress };
        tokio::spawn(async move { tool.run(arguments, context).await })
    }

    async fn called(&self, name: &str, arguments: Value) -> (bool, String) {
        said(&self.call(name, arguments).await.unwrap())
    }

    async fn waits(&self) {
        let waiting = async {
            while self.requests.waiting() != [call()] {
                tokio::task::yield_now().await;
            }
        };
        timeout(Duration::from_secs(20), waiting).await.expect("it waits for the owner");
    }
}

fn call() -> ToolCallId {
    ToolCallId::parse("call-1").unwrap()
}

fn said(output: &ToolOutput) -> (bool, String) {
    let text = serde_json::to_value(&output.content[0]).unwrap()["text"].as_str().unwrap().to_owned();
    (output.is_error, text)
}

#[tokio::test]
async fn question_waits_for_the_owner_and_returns_the_answers() {
    let given = given(true);
    let asking = given
        .call(ask::NAME, json!({ "questions": [{ "question": "Which?", "options": [{ "label": "A" }] }] }));
    given.waits().await;
    let answers = vec![Answer { question: "Which?".into(), answer: "A".into() }];
    given.requests.answer(OwnerAnswers { request: call(), answers, modified_input: None }).unwrap();
    let (failed, text) = said(&asking.await.unwrap());
    assert!(!failed);
    assert_eq!(
        serde_json::from_str::<Value>(&text).unwrap(),
        json!({ "answers": [{ "question": "Which?", "answer": "A" }] })
    );
    for wrong in [json!({}), json!({ "questions": [] }), json!({ "questions": [{ "question": " " }] })] {
        assert!(given.called(ask::NAME, wrong).await.0);
    }
}

#[tokio::test]
async fn interrupt_ends_a_waiting_question_and_plan() {
    let given = given(true);
    let asking = given.call(ask::NAME, json!({ "questions": [{ "question": "Which?" }] }));
    given.waits().await;
    given.requests.close();
    assert!(said(&asking.await.unwrap()).0);
    given.mode.set(true);
    let showing = given.call(plan::EXIT, json!({ "plan": "# Plan" }));
    given.waits().await;
    given.cancelled.cancel();
    assert!(said(&showing.await.unwrap()).0);
    assert!(given.requests.waiting().is_empty() && given.mode.is_active(), "the plan is not approved");
}

#[tokio::test]
async fn a_plan_is_shown_until_the_owner_approves_it() {
    let given = given(true);
    assert!(!given.called(plan::ENTER, json!({})).await.0);
    assert!(given.mode.is_active());
    let showing = given.call(plan::EXIT, json!({ "plan": "# Plan" }));
    given.waits().await;
    let decide = |approved, feedback: Option<&str>| PlanDecision {
        request: call(),
        approved,
        feedback: feedback.map(str::to_owned),
    };
    given.requests.decide(decide(false, Some("smaller steps"))).unwrap();
    let (failed, text) = said(&showing.await.unwrap());
    assert!(failed && text.contains("smaller steps") && given.mode.is_active(), "{text}");
    let showing = given.call(plan::EXIT, json!({ "plan": "# Smaller plan" }));
    given.waits().await;
    given.requests.decide(decide(true, None)).unwrap();
    assert!(!said(&showing.await.unwrap()).0);
    assert!(!given.mode.is_active());
}

#[tokio::test]
async fn plan_without_required_approval_is_accepted_at_once() {
    let given = given(false);
    given.mode.set(true);
    assert!(given.called(plan::EXIT, json!({ "plan": "" })).await.0);
    assert!(!given.called(plan::EXIT, json!({ "plan": "# Plan" })).await.0);
    assert!(!given.mode.is_active());
}

#[tokio::test]
async fn step_list_is_reported_as_the_control_plane_reads_it() {
    let given = given(true);
    let todos = json!([
        { "content": "Look", "status": "completed" },
        { "content": "Write", "status": "in_progress", "activeForm": "Writing" },
    ]);
    assert!(!given.called(todo::NAME, json!({ "todos": todos })).await.0);
    let batch = given.spool.batch(10, usize::MAX).await.unwrap();
    let signed = pilothouse_wire::Signed::parse(&batch.entries[0].body).unwrap();
    let envelope: Value = serde_json::from_str(signed.envelope.get()).unwrap();
    assert_eq!(
        envelope["body"],
        json!({ "type": "task_list", "tasks": [
            { "id": "1", "subject": "Look", "status": "Completed" },
            { "id": "2", "subject": "Write", "status": "InProgress", "activeForm": "Writing" },
        ] })
    );
}

#[tokio::test]
async fn unreachable_control_plane_does_not_stop_the_agent() {
    let given = given(true);
    let (failed, text) = given.called(log_decision::NAME, json!({ "content": "x" })).await;
    assert!(failed);
    assert_eq!(text, "The control plane cannot be reached now. Go on with your work, and try again later.");
}

#[test]
fn tools_have_unique_names_and_schemas_without_references() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let _guard = runtime.enter();
    let given = given(true);
    let names: std::collections::BTreeSet<_> =
        given.tools.iter().map(|tool| tool.spec().name.clone()).collect();
    assert_eq!(names.len(), given.tools.len());
    for tool in &given.tools {
        let schema = &tool.spec().input_schema;
        assert_eq!(schema["type"], "object", "{schema}");
        assert!(!schema.to_string().contains("$ref"), "{schema}");
    }
}

#[test]
fn the_classification_knows_every_own_tool() {
    use pilothouse_classification::pattern::ToolClassifications;
    use pilothouse_classification::{Adapter, Context, Effect, ToolCall, classify};

    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let _guard = runtime.enter();
    let patterns = ToolClassifications::default();
    let context = Context::new("/w", "/w", "/home/agent", &patterns).unwrap();
    let arguments = json!({});
    let is_known = |adapter, tool: &str| {
        let found = classify(&ToolCall { adapter, tool, kind: None, arguments: &arguments }, &context);
        found.effects.iter().all(|effect| effect != Effect::UNCLASSIFIED)
    };
    let given = given(true);
    for tool in &given.tools {
        assert!(is_known(Adapter::Native, &tool.spec().name), "{}", tool.spec().name);
    }
    for tool in &given.shared {
        let name = format!("{OWN_TOOLS}{}", tool.spec().name);
        assert!(is_known(Adapter::Claude, &name) && is_known(Adapter::Acp, &name), "{name}");
    }
}

fn proposal(recommended: &str) -> Value {
    let option = |id: &str| json!({ "id": id, "label": id, "description": "d", "tradeoffs": "t" });
    json!({ "title": "Which store?", "summary": "We need one.", "options": [option("sqlite"), option("postgres")],
        "recommendedOptionId": recommended })
}

impl Given {
    fn owner_says(&self, answer: &str) {
        let answers = vec![Answer { question: "Which store?".into(), answer: answer.into() }];
        self.requests.answer(OwnerAnswers { request: call(), answers, modified_input: None }).unwrap();
    }

    /// The bodies of the published events.
    async fn published(&self) -> Vec<Value> {
        let batch = self.spool.batch(10, usize::MAX).await.unwrap();
        let body = |entry: &crate::spool::BatchEntry| {
            let signed = pilothouse_wire::Signed::parse(&entry.body).unwrap();
            serde_json::from_str::<Value>(signed.envelope.get()).unwrap()["body"].clone()
        };
        batch.entries.iter().map(body).collect()
    }
}

#[tokio::test]
async fn choice_of_the_owner_is_returned_with_its_reason() {
    let given = given(true);
    for (answer, result) in [
        ("sqlite", json!({ "chosenOptionId": "sqlite", "label": "sqlite", "rationale": null })),
        (
            "postgres: we have it",
            json!({ "chosenOptionId": "postgres", "label": "postgres", "rationale": "we have it" }),
        ),
        ("neither", json!({ "answer": "neither" })),
    ] {
        let asking = given.call(request_decision::NAME, proposal("sqlite"));
        given.waits().await;
        given.owner_says(answer);
        let (failed, text) = said(&asking.await.unwrap());
        assert!(!failed && serde_json::from_str::<Value>(&text).unwrap() == result, "{text}");
    }
    let asked = &given.published().await[0];
    assert_eq!((&asked["type"], &asked["requestId"]), (&json!("question_asked"), &json!("call-1")));
    assert_eq!(asked["proposal"]["recommendedOptionId"], "sqlite");
    assert_eq!(asked["questions"][0]["options"][1]["label"], "postgres");
}

#[tokio::test]
async fn options_that_never_fit_are_shown_as_far_as_they_do() {
    let given = given(true);
    for _ in 0..2 {
        let (failed, text) = given.called(request_decision::NAME, proposal("mysql")).await;
        assert!(
            failed && text.contains("`recommendedOptionId` must be the id of one of the options"),
            "{text}"
        );
    }
    let asking = given.call(request_decision::NAME, proposal("mysql"));
    given.waits().await;
    given.owner_says("sqlite");
    assert!(!said(&asking.await.unwrap()).0);
    let published = given.published().await;
    assert_eq!(published[0]["name"], "decision_repaired");
    let proposal = &published[1]["proposal"];
    assert_eq!((&proposal["repaired"], &proposal["recommendedOptionId"]), (&json!(true), &Value::Null));
    assert!(given.called(request_decision::NAME, json!({})).await.0, "the attempts are counted anew");
    assert!(given.called(request_decision::NAME, json!({})).await.0);
    let asking = given.call(request_decision::NAME, json!({ "title": "What now?" }));
    given.waits().await;
    given.owner_says("Stop");
    assert_eq!(said(&asking.await.unwrap()), (false, json!({ "answer": "Stop" }).to_string()));
    let last = given.published().await.pop().unwrap();
    assert_eq!((&last["questions"][0]["question"], &last["proposal"]), (&json!("What now?"), &Value::Null));
}
