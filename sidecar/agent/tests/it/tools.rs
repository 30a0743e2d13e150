//! Finding tools, validating arguments and ending turns (S1 3.3).

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use pilothouse_agent::event::{AgentOutcome, SessionEvent};
use pilothouse_agent::governor::{Governor, ModelCall, ToolVerdict, Verdict};
use pilothouse_agent::message::ToolCall;
use pilothouse_agent::session::PromptOptions;
use pilothouse_agent::tool::{SharedTool, ToolOutput};
use serde_json::json;
use tokio::sync::Notify;

use crate::support::*;

#[tokio::test]
async fn invalid_arguments_list_every_violation_and_run_nothing() {
    let runs = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&runs);
    let tool = TestTool::named("echo", move |_, _| {
        counted.fetch_add(1, Ordering::Relaxed);
        ToolOutput::text("ran")
    });
    let model = Scripted::new([
        call(&[("a", "echo", json!({ "text": 5, "count": 0, "more": true }))]),
        call(&[("b", "echo", json!("{\"text\": \"cut"))]),
        call(&[("c", "echo", json!({ "text": "fits" }))]),
        say("done"),
    ]);
    let open = SessionSetup::new(model, vec![tool]).open();
    assert_eq!(open.prompt("go").await, AgentOutcome::Completed);
    let texts = open.texts();
    let first = &texts[2];
    for part in ["error a", "/text", "/count", "more"] {
        assert!(first.contains(part), "{part} is not named in {first}");
    }
    assert!(texts[4].starts_with("error b: The arguments of `echo` are no JSON object"), "{}", texts[4]);
    assert_eq!(texts[6], "result c: ran");
    assert_eq!(runs.load(Ordering::Relaxed), 1);
}

#[tokio::test]
async fn unknown_tool_is_answered_with_the_available_ones() {
    let model = Scripted::new([call(&[("a", "delete", json!({}))]), say("done")]);
    let open = SessionSetup::new(model, vec![TestTool::echo()]).open();
    assert_eq!(open.prompt("go").await, AgentOutcome::Completed);
    assert_eq!(open.texts()[2], "error a: There is no tool `delete`. There are: echo.");
}

#[tokio::test]
async fn first_of_two_tools_with_the_same_name_wins() {
    let second = TestTool::named("echo", |_, _| ToolOutput::text("second"));
    let model = Scripted::new([call(&[("a", "echo", json!({ "text": "first" }))]), say("done")]);
    let open = SessionSetup::new(model.clone(), vec![TestTool::echo(), second]).open();
    open.prompt("go").await;
    assert_eq!(open.texts()[2], "result a: first");
    assert_eq!(model.requests()[0].tools.len(), 1);
}

#[tokio::test]
async fn terminating_tool_ends_the_turn_and_skips_the_batch() {
    let hand =
        TestTool::named("hand_over", |_, _| ToolOutput { ends_turn: true, ..ToolOutput::text("handed") });
    let model = Scripted::new([
        call(&[("a", "hand_over", json!({ "text": "x" })), ("b", "echo", json!({ "text": "never" }))]),
        say("never said"),
    ]);
    let open = SessionSetup::new(model.clone(), vec![hand, TestTool::echo()]).open();
    assert_eq!(open.prompt("go").await, AgentOutcome::Completed);
    assert_eq!(model.requests().len(), 1);
    assert!(open.texts()[4].starts_with("error b: Skipped: an earlier call"), "{:?}", open.texts());
}

/// Decides on a tool call by its text, and holds everything once `hold` is set.
#[derive(Default)]
struct Guard {
    held: Notify,
    release: Notify,
    hold: std::sync::atomic::AtomicBool,
}

#[async_trait]
impl Governor for Guard {
    async fn before_model(&self, _: &ModelCall) -> Verdict {
        if self.hold.load(Ordering::SeqCst) {
            self.held.notify_one();
            self.release.notified().await;
        }
        Verdict::Go
    }

    async fn before_tool(&self, call: &ToolCall) -> ToolVerdict {
        match call.arguments["text"].as_str() {
            Some("stop") => ToolVerdict::Stop("not allowed".into()),
            Some("refuse") => ToolVerdict::Refuse("do something else".into()),
            Some("change") => ToolVerdict::GoWith(json!({ "text": "changed" })),
            Some("spoil") => ToolVerdict::GoWith(json!({ "text": 5 })),
            _ => ToolVerdict::Go,
        }
    }
}

#[tokio::test]
async fn tool_stopped_by_the_governor_ends_the_run_with_results() {
    let model = Scripted::new([
        call(&[("a", "echo", json!({ "text": "stop" })), ("b", "echo", json!({ "text": "never" }))]),
        say("hello"),
    ]);
    let mut setup = SessionSetup::new(model, vec![TestTool::echo()]);
    setup.config.governor = Arc::new(Guard::default());
    let mut open = setup.open();
    assert_eq!(open.prompt("go").await, AgentOutcome::Held("not allowed".into()));
    let texts = open.texts();
    assert!(texts[3].contains("not allowed") && texts[4].contains("not allowed"), "{texts:?}");
    let events = open.received_events();
    assert!(!events.iter().any(|event| matches!(event, SessionEvent::ToolExecutionStart(_))), "{events:?}");
    assert_eq!(open.prompt("on").await, AgentOutcome::Completed);
}

#[tokio::test]
async fn governor_refuses_or_changes_single_calls() {
    let echo = |id, text| (id, "echo", json!({ "text": text }));
    let model = Scripted::new([
        call(&[echo("a", "refuse"), echo("b", "change"), echo("c", "spoil"), echo("d", "go")]),
        say("done"),
    ]);
    let mut setup = SessionSetup::new(model, vec![TestTool::echo()]);
    setup.config.governor = Arc::new(Guard::default());
    let mut open = setup.open();
    assert_eq!(open.prompt("go").await, AgentOutcome::Completed);
    let texts = open.texts();
    let results = &texts[5..9];
    assert_eq!(results[0], "error a: do something else");
    assert!(results[1].starts_with("result b") && results[1].contains("changed"), "{results:?}");
    assert!(results[2].starts_with("error c: The arguments of `echo` are not valid."), "{results:?}");
    assert!(results[3].starts_with("result d"), "{results:?}");
    let start = |event: SessionEvent| match event {
        SessionEvent::ToolExecutionStart(call) => Some(call.id),
        _ => None,
    };
    let started: Vec<String> = open.received_events().into_iter().filter_map(start).collect();
    assert_eq!(started, ["a", "b", "c", "d"], "refused calls, too");
}

#[tokio::test]
async fn blocked_governor_holds_the_session_until_an_abort() {
    let guard = Arc::new(Guard::default());
    let model = Scripted::then_always([], say("done"));
    let mut setup = SessionSetup::new(model.clone(), Vec::new());
    setup.config.governor = guard.clone();
    let open = setup.open();
    guard.hold.store(true, Ordering::SeqCst);
    let run = open.begin("go");
    within(guard.held.notified()).await;
    assert_eq!(model.requests().len(), 0, "nothing was asked while it was held");
    guard.release.notify_one();
    assert_eq!(within(run).await.unwrap(), AgentOutcome::Completed);

    let run = open.begin("again");
    within(guard.held.notified()).await;
    open.session.follow_up("later", PromptOptions::default()).unwrap();
    within(open.session.abort()).await;
    assert_eq!(within(run).await.unwrap(), AgentOutcome::Aborted);
    assert_eq!(model.requests().len(), 1);
}

#[tokio::test]
async fn panicking_tool_does_not_end_the_session() {
    let bad: SharedTool = TestTool::named("echo", |_, _| panic!("a defect"));
    let model = Scripted::new([call(&[("a", "echo", json!({ "text": "x" }))]), say("hello")]);
    let open = SessionSetup::new(model, vec![bad]).open();
    assert_eq!(open.prompt("go").await, AgentOutcome::Completed);
    assert!(open.texts().iter().any(|text| text.starts_with("error a")), "{:?}", open.texts());
}
