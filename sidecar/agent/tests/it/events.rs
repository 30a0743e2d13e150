//! The events of a session: their order, their content, and that the file is written first (S1 3.3, 4.2, 9).

use std::time::Duration;

use pilothouse_agent::event::{AgentOutcome, SessionEvent};
use pilothouse_agent::message::{AgentMessage, ToolResultMessage};
use pilothouse_agent::tool::ToolOutput;
use serde_json::{Value, json};

use crate::support::*;

fn short(event: &SessionEvent) -> String {
    let of = |result: &ToolResultMessage| {
        format!("{} {}", result.tool_call_id, if result.is_error { "error" } else { "ok" })
    };
    match event {
        SessionEvent::AgentStart => "agent start".into(),
        SessionEvent::AgentEnd { .. } => "agent end".into(),
        SessionEvent::TurnStart => "turn start".into(),
        SessionEvent::TurnEnd => "turn end".into(),
        SessionEvent::TextDelta(text) => format!("text {text}"),
        SessionEvent::ThinkingDelta(text) => format!("thinking {text}"),
        SessionEvent::ToolExecutionStart(call) => format!("start {} {}", call.id, call.name),
        SessionEvent::ToolExecutionUpdate { tool_call_id, .. } => format!("update {tool_call_id}"),
        SessionEvent::ToolExecutionEnd(result) => format!("end {}", of(result)),
        SessionEvent::MessageEnd { message, .. } => match message {
            AgentMessage::User(_) => "message user".into(),
            AgentMessage::Assistant(_) => "message assistant".into(),
            AgentMessage::ToolResult(result) => format!("message {}", of(result)),
            AgentMessage::BashExecution(_) => "message command".into(),
        },
        SessionEvent::Usage { .. } => "usage".into(),
        other => format!("{other:?}"),
    }
}

fn story(open: &mut Open) -> Vec<String> {
    open.received_events().iter().map(short).collect()
}

#[tokio::test]
async fn run_events_are_published_from_start_to_end() {
    let model = Scripted::new([thinking("hm", "hello")]);
    let setup = SessionSetup::new(model, Vec::new());
    let mut open = setup.open();
    open.prompt("go").await;
    let expected = [
        "agent start",
        "message user",
        "turn start",
        "thinking hm",
        "text hello",
        "message assistant",
        "usage",
        "turn end",
        "agent end",
    ];
    assert_eq!(story(&mut open), expected);
}

#[tokio::test]
async fn each_tool_publishes_its_start_and_end() {
    let failing = TestTool::named("fail", |_, _| ToolOutput::error("no"));
    let model = Scripted::new([
        call(&[
            ("a", "echo", json!({ "text": "one" })),
            ("b", "fail", json!({ "text": "two" })),
            ("c", "echo", json!({ "text": 5 })),
            ("d", "none", json!({})),
        ]),
        say("done"),
    ]);
    let setup = SessionSetup::new(model, vec![TestTool::echo(), failing]);
    let mut open = setup.open();
    open.prompt("go").await;
    let events = open.received_events();
    let of_tools: Vec<String> = events
        .iter()
        .map(short)
        .filter(|line| ["start ", "update ", "end ", "message "].iter().any(|start| line.starts_with(start)))
        .filter(|line| !line.ends_with("user") && !line.ends_with("assistant"))
        .collect();
    let expected = [
        "start a echo",
        "update a",
        "end a ok",
        "message a ok",
        "start b fail",
        "end b error",
        "message b error",
        "start c echo",
        "end c error",
        "message c error",
        "start d none",
        "end d error",
        "message d error",
    ];
    assert_eq!(of_tools, expected, "one after the other, and none overlaps another");
    let start = events.iter().find_map(|event| match event {
        SessionEvent::ToolExecutionStart(call) => Some(call.arguments.clone()),
        _ => None,
    });
    assert_eq!(start, Some(json!({ "text": "one" })));
}

#[tokio::test]
async fn reply_is_published_while_it_streams() {
    let model = Scripted::new([Reply::Hang("half a sentence")]);
    let setup = SessionSetup::new(model, Vec::new());
    let mut open = setup.open();
    let run = open.begin("go");
    let heard = within(async {
        loop {
            if let SessionEvent::TextDelta(text) = open.events.recv().await.unwrap() {
                return text;
            }
        }
    })
    .await;
    assert_eq!(heard, "half a sentence");
    within(open.session.abort()).await;
    assert_eq!(within(run).await.unwrap(), AgentOutcome::Aborted);
    assert_eq!(open.texts(), ["user: go", "assistant: half a sentence"], "the shown text is kept");
}

#[tokio::test]
async fn completed_messages_are_already_in_the_file() {
    let gated = Gated::new("wait");
    let model = Scripted::new([call(&[("a", "wait", json!({}))]), say("done")]);
    let setup = SessionSetup::new(model, vec![gated.clone()]);
    let mut open = setup.open();
    let path = file(&open.session);
    let run = open.begin("go");
    within(gated.started.notified()).await;
    let roles = || {
        let all = lines(&path);
        let roles = all.iter().filter_map(|line| line["message"]["role"].as_str().map(str::to_owned));
        roles.collect::<Vec<_>>()
    };
    assert_eq!(roles(), ["user", "assistant"], "while its tool runs, the call is on disk");
    gated.open.notify_one();
    within(run).await.unwrap();
    assert_eq!(roles(), ["user", "assistant", "toolResult", "assistant"]);
    let all = lines(&path);
    let emitted: Vec<_> = open
        .received_events()
        .into_iter()
        .filter_map(|event| match event {
            SessionEvent::MessageEnd { entry_id, message } => Some((json!(entry_id), json!(message))),
            _ => None,
        })
        .collect();
    let messages: Vec<_> = all.iter().filter(|line| line["type"] == "message").collect();
    let written: Vec<_> = messages.iter().map(|line| (line["id"].clone(), line["message"].clone())).collect();
    assert_eq!(emitted, written, "each message is emitted once, in the order of the file, with its time");
    let at = |line: &Value| line["timestamp"].as_str().unwrap().to_owned();
    let times = [at(&all[0]), at(&messages[0]["message"]), at(&messages[2]["message"])];
    assert!(times.is_sorted(), "of the session, the prompt and the tool result: {times:?}");
}

#[tokio::test]
async fn bookmark_is_written_at_once_and_can_be_removed() {
    let model = Scripted::then_always([], say("done"));
    let given = SessionSetup::new(model, Vec::new());
    let open = given.open();
    open.prompt("go").await;
    let state = open.session.state();
    let leaf = state.leaf.unwrap();
    open.session.label(&leaf, Some("here")).unwrap();
    let last = lines(&state.file).pop().unwrap();
    assert_eq!(
        (&last["type"], &last["label"], &last["target"]),
        (&json!("label"), &json!("here"), &json!(leaf))
    );
    assert_eq!(open.session.state().leaf, Some(leaf.clone()), "the conversation continues at the same leaf");
    open.session.label(&leaf, None).unwrap();
    assert_eq!(lines(&state.file).pop().unwrap()["label"], json!(null));
    assert!(open.session.label("nonsense", Some("x")).is_err());
    assert_eq!(open.texts(), ["user: go", "assistant: done"]);
}

#[tokio::test]
async fn retry_publishes_its_delay_and_leaves_no_trace_in_requests() {
    let model = Scripted::new([transient("overloaded", None), Reply::Break("half"), say("done")]);
    let setup = SessionSetup::new(model.clone(), Vec::new());
    let mut open = setup.open();
    open.prompt("go").await;
    let events = open.received_events();
    let pauses: Vec<(u32, Duration, String)> = events
        .iter()
        .filter_map(|event| match event {
            SessionEvent::AutoRetryStart { attempt, delay, error, .. } => {
                Some((*attempt, *delay, error.clone()))
            }
            _ => None,
        })
        .collect();
    let broken = "the model's answer ended before it was complete";
    let ms = Duration::from_millis;
    let causes: Vec<_> = pauses.iter().map(|(attempt, _, error)| (*attempt, error.as_str())).collect();
    assert_eq!(causes, [(1, "overloaded"), (2, broken)]);
    // Jitter takes up to half of a delay.
    assert!(pauses.iter().zip([ms(1), ms(2)]).all(|((_, delay, _), most)| (most / 2..=most).contains(delay)));
    for request in model.requests() {
        assert_eq!(texts(&request.messages), ["user: go"]);
    }
    let written = std::fs::read_to_string(file(&open.session)).unwrap();
    assert!(!written.contains("overloaded") && !written.contains("half"), "{written}");
}

#[tokio::test]
async fn summary_publishes_its_start_and_end_between_turns() {
    // So full that the next turn waits for it.
    let turn = call_taking(&[("a", "echo", json!({ "text": "x" }))], usage(9_500, 0));
    let model = Scripted::new([turn, say("the summary"), say("done")]);
    let mut setup = SessionSetup::new(model.clone(), vec![TestTool::echo()]);
    setup.config.context.keep_recent_tokens = 0;
    let mut open = setup.open();
    assert_eq!(open.prompt("go").await, AgentOutcome::Completed);
    let story = story(&mut open);
    let at = |start: &str| story.iter().position(|line| line.starts_with(start));
    let (first, start, end) = (at("turn end"), at("CompactionStart"), at("CompactionEnd"));
    let second = story.iter().rposition(|line| line == "turn start");
    assert!(first.is_some() && first < start && start < end && end < second, "{story:#?}");
    let asked = texts(&model.requests()[2].messages);
    assert!(asked.len() == 1 && asked[0].contains("the summary"), "the turn after it has it: {asked:?}");
}

#[tokio::test]
async fn conversation_at_the_threshold_is_not_compacted() {
    let model = Scripted::new([say_taking("done", usage(8_000, 0))]);
    let setup = SessionSetup::new(model, Vec::new());
    let mut open = setup.open();
    assert_eq!(open.prompt("go").await, AgentOutcome::Completed);
    assert!(!story(&mut open).iter().any(|line| line.starts_with("Compaction")));
}
