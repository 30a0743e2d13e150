//! Compaction, and handoff as the alternative (S1 6.1, decision 35).

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use pilothouse_agent::event::{AgentOutcome, CompactionReason, SessionEvent};
use pilothouse_agent::governor::{CallPurpose, Governor, ModelCall, Verdict};
use pilothouse_agent::message::Usage;
use pilothouse_agent::model::registry::Api;
use pilothouse_agent::model::{LanguageModel, ModelError, ModelRequest, ModelStream};
use pilothouse_agent::session::{SessionError, Start};
use pilothouse_agent::tool::{SharedTool, ToolContext, ToolOutput};
use pilothouse_agent::tree::SessionTree;
use pilothouse_domain::value::ContextPolicy;
use serde_json::{Value, json};
use tokio::sync::Semaphore;

use crate::support::*;

/// Keeps no recent messages by default, so that short conversations can be compacted.
fn setup(model: Arc<Scripted>) -> SessionSetup {
    let mut setup = SessionSetup::new(model, vec![TestTool::echo()]);
    setup.config.context.keep_recent_tokens = 30;
    setup
}

#[tokio::test]
async fn turn_beyond_the_threshold_is_followed_by_a_summary() {
    let model = Scripted::new([
        say_taking("a long answer", usage(8_001, 0)),
        say_taking("the summary", usage(500, 50)),
        say("on"),
    ]);
    let mut open = setup(model.clone()).open();
    assert_eq!(open.prompt("go").await, AgentOutcome::Completed);
    let events = open.received_events();
    assert!(events.contains(&SessionEvent::CompactionStart { reason: CompactionReason::Threshold }));
    assert!(events.contains(&SessionEvent::CompactionEnd {
        reason: CompactionReason::Threshold,
        tokens_before: 8_001,
        result: Ok("the summary".into()),
    }));
    let shown = events.iter().any(|event| *event == SessionEvent::TextDelta("the summary".into()));
    assert!(!shown, "a summary is not part of the answer");
    open.prompt("on").await;
    let seen = texts(&model.requests()[2].messages);
    assert!(seen[0].contains("the summary") && seen[0].starts_with("user"), "{seen:?}");
    assert_eq!(seen.last().map(String::as_str), Some("user: on"));
    assert_eq!(open.session.state().meters.total().usage.input, 8_001 + 500 + 100);
}

#[tokio::test]
async fn overflow_is_compacted_and_retried_once() {
    let model = Scripted::new([
        call(&[("a", "echo", json!({ "text": "x".repeat(300) }))]),
        overflow(),
        say("the summary"),
        say("done"),
    ]);
    let mut open = setup(model.clone()).open();
    assert_eq!(open.prompt("go").await, AgentOutcome::Completed);
    assert!(
        open.received_events()
            .contains(&SessionEvent::CompactionStart { reason: CompactionReason::Overflow })
    );
    let texts = open.texts();
    assert!(texts[0].contains("the summary"), "{texts:?}");
    assert_eq!(texts.last().map(String::as_str), Some("assistant: done"));
    assert!(!texts.iter().any(|text| text.contains("too long")), "the error is not in the context");
}

#[tokio::test]
async fn a_conversation_that_still_does_not_fit_fails() {
    let model = Scripted::new([overflow(), say("the summary"), overflow()]);
    let open = setup(model.clone()).open();
    assert_eq!(open.prompt("go").await, AgentOutcome::Failed("too long".into()));
    assert_eq!(model.requests().len(), 3);
}

#[tokio::test]
async fn failed_summary_changes_nothing() {
    let model = Scripted::new([
        say("one"),
        Reply::Fail(ModelError::Rejected { message: "no".into(), status: Some(400) }),
    ]);
    let open = setup(model.clone()).open();
    open.prompt("go").await;
    let before = open.texts();
    let failed = within(open.session.compact(None)).await;
    assert!(matches!(failed, Err(SessionError::Compaction(ref why)) if why == "no"), "{failed:?}");
    assert_eq!(open.texts(), before);
    assert!(!open.session.state().running);
}

#[tokio::test]
async fn manual_compaction_takes_instructions_and_keeps_the_tail() {
    let model = Scripted::new([say(&"old ".repeat(100)), say("new"), say("the summary"), say("on")]);
    let open = setup(model.clone()).open();
    open.prompt("first").await;
    open.prompt("second").await;
    let result = within(open.session.compact(Some("mind the tests"))).await.unwrap();
    assert_eq!(result.summary, "the summary");
    let asked = &model.requests()[2];
    let task = &texts(&asked.messages)[0];
    assert!(task.contains("The user adds: mind the tests") && task.contains("first"), "{task}");
    assert!(asked.tools.is_empty());
    let texts = open.texts();
    assert_eq!(texts.len(), 3, "{texts:?}");
    assert_eq!(texts[1..], ["user: second", "assistant: new"]);
    assert_eq!(open.session.state().messages, 3);
    open.prompt("third").await;
}

#[tokio::test]
async fn manual_compaction_waits_for_the_end_of_the_turn() {
    let gated = Gated::new("wait");
    let model = Scripted::new([call(&[("a", "wait", json!({}))]), say("the summary"), say("done")]);
    let mut setup = setup(model.clone());
    setup.config.tools = vec![gated.clone()];
    let open = setup.open();
    let run = open.begin("go");
    within(gated.started.notified()).await;
    let session = open.session.clone();
    let compacted = tokio::spawn(async move { session.compact(None).await });
    tokio::task::yield_now().await;
    gated.open.notify_one();
    assert_eq!(within(run).await.unwrap(), AgentOutcome::Completed);
    assert_eq!(within(compacted).await.unwrap().unwrap().summary, "the summary");
}

#[tokio::test]
async fn compaction_never_separates_a_call_from_its_result() {
    for keep in [0, 5, 20, 40, 80, 160, 1_000] {
        let calls =
            [("a", "echo", json!({ "text": "one" })), ("b", "echo", json!({ "text": "y".repeat(60) }))];
        let model =
            Scripted::new([call(&calls), call(&calls[..1]), say("said"), say("the summary"), say("done")]);
        let mut setup = setup(model.clone());
        setup.config.context.keep_recent_tokens = keep;
        let open = setup.open();
        open.prompt("go").await;
        within(open.session.compact(None)).await.unwrap();
        // The script checks the pairing of its requests.
        assert_eq!(open.prompt("on").await, AgentOutcome::Completed, "keeping {keep}");
    }
}

#[tokio::test]
async fn summary_survives_a_restart_and_the_next_one_includes_it() {
    let model = Scripted::new([
        say(&"old ".repeat(100)),
        say("first summary"),
        say(&"new ".repeat(100)),
        say("second summary"),
    ]);
    let setup = setup(model.clone());
    let open = setup.open();
    open.prompt("go").await;
    within(open.session.compact(None)).await.unwrap();
    let (before, file) = (open.texts(), file(&open.session));
    drop(open);
    let open = Open::start(setup.config.clone(), Start::File(file));
    assert_eq!(open.texts(), before);
    open.prompt("more").await;
    within(open.session.compact(None)).await.unwrap();
    let task = &texts(&model.requests()[3].messages)[0];
    assert!(task.contains("first summary"), "{task}");
    assert!(open.texts()[0].contains("second summary"));
    assert!(!open.texts()[0].contains("first summary"));
}

#[tokio::test]
async fn long_summary_survives_three_compactions_whole() {
    // Every piece is unique, so that a cut at any place is noticed.
    let summary = |n: usize| -> String {
        (0..)
            .map(|at| format!("fact {n}.{at};"))
            .scan(0, |length, fact| {
                *length += fact.len();
                (*length < 20 * 1024).then_some(fact)
            })
            .collect()
    };
    let repeated = |word: &str| (0..1_000).map(|at| format!("{word} {at}, ")).collect::<Vec<_>>().concat();
    let (wish, output) = (repeated("wish"), repeated("line"));
    let read = move |_: Value, _: ToolContext| ToolOutput::text(output.clone());
    let write = |arguments: Value, _: ToolContext| match arguments["path"].as_str() {
        Some("forbidden.rs") => ToolOutput::error("no"),
        _ => ToolOutput::text("written"),
    };
    let file = |id, name, path: &str| call(&[(id, name, json!({ "text": "x", "path": path }))]);
    let model = Scripted::new([
        file("a", "read", "first.rs"),
        file("b", "read", "changed.rs"),
        file("c", "write", "changed.rs"),
        say("one"),
        say(&summary(1)),
        file("d", "write", "forbidden.rs"),
        file("e", "edit", "second.rs"),
        say("two"),
        say(&summary(2)),
        say("three"),
        say(&summary(3)),
        say("four"),
    ]);
    let tools = vec![file_tool("read", read), file_tool("write", write), file_tool("edit", write)];
    let registry = registry_of(Api::AnthropicMessages, None, 200_000);
    let mut setup = SessionSetup::with_registry(model.clone(), tools, registry);
    setup.config.context.keep_recent_tokens = 0;
    let open = setup.open();
    for prompt in [wish.as_str(), "more", "still more"] {
        open.prompt(prompt).await;
        within(open.session.compact(None)).await.unwrap();
    }
    open.prompt("last").await;
    let requests = model.requests();
    let task = |at: usize| texts(&requests[at].messages).remove(0);
    assert!(task(4).contains(&wish), "a message of the user is not cut");
    assert!(task(4).contains("line 0,") && !task(4).contains("line 500,"), "the result of a tool is cut");
    assert!(task(8).contains(&summary(1)) && task(10).contains(&summary(2)), "a summary is not cut");
    let context = task(11);
    assert!(context.contains(&summary(3)) && !context.contains("fact 1.0;"), "{context}");
    assert!(context.contains("<files-read>\nfirst.rs\n</files-read>"), "{context}");
    assert!(context.ends_with("<files-written>\nchanged.rs\nsecond.rs\n</files-written>"), "{context}");
}

fn file_tool(
    name: &str,
    does: impl Fn(Value, ToolContext) -> ToolOutput + Send + Sync + 'static,
) -> SharedTool {
    TestTool::accepting(name, json!({ "type": "object" }), does)
}

#[tokio::test]
async fn handoff_notifies_the_agent_once_before_exhaustion() {
    let model = Scripted::new([
        call_taking(&[("a", "echo", json!({ "text": "x" }))], usage(9_000, 0)),
        call_taking(&[("b", "echo", json!({ "text": "document" }))], usage(9_100, 0)),
        say("the document is written"),
    ]);
    let mut setup = setup(model.clone());
    setup.config.context.policy = ContextPolicy::Handoff;
    setup.config.context.handoff_prompt = Some("Write the handoff document.".into());
    let open = setup.open();
    assert_eq!(open.prompt("go").await, AgentOutcome::ContextExhausted);
    let texts = open.texts();
    let requests = texts.iter().filter(|text| text.contains("Write the handoff document.")).count();
    assert_eq!((requests, model.requests().len()), (1, 3));
}

#[tokio::test]
async fn handoff_stops_a_continuing_agent_and_overflow_ends_it() {
    let busy = || call_taking(&[("a", "echo", json!({ "text": "x" }))], usage(9_000, 0));
    let model = Scripted::then_always([], busy());
    let mut setup = setup(model.clone());
    setup.config.context.policy = ContextPolicy::Handoff;
    setup.config.context.handoff_prompt = Some("Write.".into());
    setup.config.context.handoff_turns = 2;
    assert_eq!(setup.open().prompt("go").await, AgentOutcome::ContextExhausted);
    assert_eq!(model.requests().len(), 3);

    let model = Scripted::new([overflow()]);
    let mut setup = SessionSetup::new(model, Vec::new());
    setup.config.context.policy = ContextPolicy::Handoff;
    assert_eq!(setup.open().prompt("go").await, AgentOutcome::ContextExhausted);
}
/// A fake model for two concurrent calls: it answers the conversation from a list, and a summary when the test
/// permits it.
struct Both {
    turns: Arc<Scripted>,
    summaries: Arc<Scripted>,
    /// How many summaries may be answered.
    open: Semaphore,
}

#[async_trait]
impl LanguageModel for Both {
    async fn stream(&self, request: ModelRequest) -> Result<ModelStream, ModelError> {
        if !request.system.starts_with("You summarise") {
            return self.turns.stream(request).await;
        }
        let stream = self.summaries.stream(request).await;
        self.open.acquire().await.unwrap().forget();
        stream
    }
}

fn both(turns: Vec<Reply>, summaries: Vec<Reply>) -> Arc<Both> {
    let open = Semaphore::new(0);
    Arc::new(Both { turns: Scripted::new(turns), summaries: Scripted::new(summaries), open })
}

fn echo(id: &'static str, usage: Usage) -> Reply {
    call_taking(&[(id, "echo", json!({ "text": "some words ".repeat(20) }))], usage)
}

fn setup_of_both(model: &Arc<Both>) -> SessionSetup {
    let mut setup = SessionSetup::new(Scripted::new([]), vec![TestTool::echo()]);
    setup.config.language_model = model.clone();
    setup.config.context.keep_recent_tokens = 30;
    setup
}

#[tokio::test]
async fn agent_continues_while_its_conversation_is_summarised() {
    let model = both(
        vec![
            echo("a", usage(8_001, 0)),
            echo("b", usage(8_050, 0)),
            echo("c", usage(8_100, 0)),
            say_taking("done", usage(300, 0)),
        ],
        vec![say_taking("the summary", usage(500, 50))],
    );
    let setup = setup_of_both(&model);
    let mut open = setup.open();
    let run = open.begin("go");
    // Two more turns of the conversation before the summary is complete.
    model.summaries.wait_for(1).await;
    model.turns.wait_for(3).await;
    model.open.add_permits(1);
    assert_eq!(within(run).await.unwrap(), AgentOutcome::Completed);
    let events = open.received_events();
    let begun = |event: &&SessionEvent| matches!(event, SessionEvent::CompactionStart { .. });
    assert_eq!(events.iter().filter(begun).count(), 1, "it does not start twice");
    assert!(events.contains(&SessionEvent::CompactionEnd {
        reason: CompactionReason::Threshold,
        tokens_before: tokens_before(&events),
        result: Ok("the summary".into()),
    }));
    let texts = open.texts();
    assert!(texts[0].contains("the summary"), "{texts:#?}");
    let calls: Vec<_> = texts.iter().filter(|text| text.starts_with("call")).collect();
    assert_eq!(calls, ["call b", "call c"], "later messages are not in the summary: {texts:#?}");
    // The same after reopening the file.
    let file = file(&open.session);
    drop(open);
    let tree = SessionTree::open(&file).unwrap();
    assert_eq!(crate::support::texts(&tree.context().messages), texts);
}

fn tokens_before(events: &[SessionEvent]) -> u64 {
    let tokens = |event: &SessionEvent| match event {
        SessionEvent::CompactionEnd { tokens_before, .. } => Some(*tokens_before),
        _ => None,
    };
    events.iter().find_map(tokens).unwrap()
}

#[tokio::test]
async fn abort_cancels_a_summary_and_changes_nothing() {
    let model = both(vec![echo("a", usage(8_001, 0)), Reply::Hang("…")], vec![say("never")]);
    let mut open = setup_of_both(&model).open();
    let run = open.begin("go");
    model.summaries.wait_for(1).await;
    model.turns.wait_for(2).await;
    within(open.session.abort()).await;
    assert_eq!(within(run).await.unwrap(), AgentOutcome::Aborted);
    let events = open.received_events();
    let ended =
        events.iter().position(|event| matches!(event, SessionEvent::CompactionEnd { result: Err(_), .. }));
    let over = events.iter().position(|event| matches!(event, SessionEvent::AgentEnd { .. }));
    assert!(ended.unwrap() < over.unwrap(), "no event follows the end: {events:#?}");
    assert!(open.texts()[0].starts_with("user: go"), "{:?}", open.texts());
}

#[tokio::test]
async fn turn_waits_for_the_summary_when_the_window_is_nearly_full() {
    let model = both(
        vec![echo("a", usage(8_001, 0)), echo("b", usage(9_500, 0)), say("done")],
        vec![say("the summary")],
    );
    let open = setup_of_both(&model).open();
    let run = open.begin("go");
    model.summaries.wait_for(1).await;
    model.turns.wait_for(2).await;
    model.open.add_permits(1);
    assert_eq!(within(run).await.unwrap(), AgentOutcome::Completed);
    let last = model.turns.requests().pop().unwrap();
    assert!(texts(&last.messages)[0].contains("the summary"), "{:?}", texts(&last.messages));
}

/// Refuses background compactions.
struct NotBeside(Mutex<Vec<ModelCall>>);

#[async_trait]
impl Governor for NotBeside {
    async fn before_model(&self, call: &ModelCall) -> Verdict {
        self.0.lock().unwrap().push(call.clone());
        match call.purpose {
            CallPurpose::BackgroundCompaction => Verdict::Stop("not now".into()),
            CallPurpose::Turn | CallPurpose::Compaction => Verdict::Go,
        }
    }
}

#[tokio::test]
async fn summary_that_cannot_run_concurrently_follows_the_turn() {
    let model =
        both(vec![echo("a", usage(8_001, 0)), say_taking("done", usage(8_100, 0))], vec![say("the summary")]);
    model.open.add_permits(1);
    let mut setup = setup_of_both(&model);
    let governor = Arc::new(NotBeside(Mutex::default()));
    setup.config.governor = governor.clone();
    let open = setup.open();
    assert_eq!(open.prompt("go").await, AgentOutcome::Completed);
    assert!(open.texts()[0].contains("the summary"), "{:?}", open.texts());
    let asked = governor.0.lock().unwrap().clone();
    let purposes: Vec<_> = asked.iter().map(|call| call.purpose).collect();
    let beside = CallPurpose::BackgroundCompaction;
    assert_eq!(purposes, [CallPurpose::Turn, beside, CallPurpose::Turn, CallPurpose::Compaction]);
    let [_, beside, turn, _] = &asked[..] else { panic!("{asked:?}") };
    assert!(beside.worst_case_usd > turn.worst_case_usd, "both are under way at once: {asked:?}");
}
