//! The session's API (S1 4.1, 5): the effects of each call, and its errors.

use std::sync::Arc;

use async_trait::async_trait;
use pilothouse_agent::event::{AgentOutcome, SessionEvent};
use pilothouse_agent::governor::{Governor, ModelCall, Verdict};
use pilothouse_agent::message::UserContent;
use pilothouse_agent::model::registry::{Api, ModelRegistry, ProviderConfig, RegistryError};
use pilothouse_agent::resources::{Resources, Template};
use pilothouse_agent::session::{PromptOptions, Prompted, Queue, SessionError, Start};
use pilothouse_domain::value::{CycleDirection, ThinkingLevel};
use serde_json::json;
use tokio::sync::Notify;

use crate::support::*;

fn image() -> UserContent {
    UserContent::Image { mime_type: "image/png".into(), data: "AAAA".into() }
}

#[tokio::test]
async fn state_reports_what_the_agent_is_doing() {
    let gated = Gated::new("wait");
    let model = Scripted::new([call(&[("a", "wait", json!({}))])]);
    let mut setup = SessionSetup::new(model, vec![gated.clone()]);
    setup.config.thinking = ThinkingLevel::Low;
    let open = setup.open();
    let idle = open.session.state();
    assert_eq!((idle.running, idle.messages, idle.context_tokens), (false, 0, 0));
    assert_eq!((idle.model.name().as_str(), idle.thinking), ("test/small", ThinkingLevel::Low));
    assert_eq!(idle.meters.total().calls, 0);
    assert_eq!(lines(&idle.file)[0]["id"], idle.session_id.as_str());

    let run = open.begin("go");
    within(gated.started.notified()).await;
    open.session.steer("one", PromptOptions::default()).unwrap();
    open.session.follow_up("two", PromptOptions::default()).unwrap();
    open.session.follow_up("three", PromptOptions::default()).unwrap();
    let busy = open.session.state();
    assert!(busy.running);
    assert_eq!((busy.steering, busy.follow_up), (1, 2));
    assert_eq!((busy.messages, busy.meters.total().calls), (2, 1));
    assert_eq!(busy.context_tokens, 110, "what the provider counted");
    assert_eq!((&busy.session_id, &busy.file), (&idle.session_id, &idle.file));
    let last = lines(&busy.file).pop().unwrap();
    assert_eq!(busy.leaf.as_deref(), last["id"].as_str(), "the answer is the last that is in the file");

    within(open.session.abort()).await;
    assert_eq!(within(run).await.unwrap(), AgentOutcome::Aborted);
    let after = open.session.state();
    assert!(!after.running);
    assert_eq!((after.messages, after.steering, after.follow_up), (3, 1, 2));
}

#[tokio::test]
async fn prompt_during_a_run_enters_the_named_queue() {
    let gated = Gated::new("wait");
    let model = Scripted::new([
        call(&[("a", "wait", json!({})), ("b", "wait", json!({}))]),
        say("I look"),
        say("and then"),
    ]);
    let setup = SessionSetup::new(model.clone(), vec![gated.clone()]);
    let mut open = setup.open();
    let run = open.begin("go");
    within(gated.started.notified()).await;
    for (queue, text) in [(Queue::FollowUp, "later"), (Queue::Steering, "now")] {
        let options = PromptOptions {
            while_running: Some(queue),
            images: vec![image()],
            tag: Some(text.into()),
            ..PromptOptions::default()
        };
        assert_eq!(open.session.prompt(text, options).await.unwrap(), Prompted::Queued);
    }
    gated.open.notify_one();
    assert_eq!(within(run).await.unwrap(), AgentOutcome::Completed);
    let texts = open.texts();
    assert!(texts[4].starts_with("error b: Skipped"), "steering skips the remaining calls: {texts:?}");
    assert_eq!(
        texts[5..],
        ["user: now (image/png)", "assistant: I look", "user: later (image/png)", "assistant: and then"]
    );
    let events = open.received_events();
    let tags: Vec<_> = events
        .iter()
        .filter_map(|event| match event {
            SessionEvent::Injected { tag, .. } => Some(tag.as_str()),
            _ => None,
        })
        .collect();
    assert_eq!(tags, ["now", "later"], "each sender hears when its message is in the conversation");
}

#[derive(Default)]
struct Gate {
    asked: Notify,
    open: Notify,
}

#[async_trait]
impl Governor for Gate {
    async fn before_model(&self, _: &ModelCall) -> Verdict {
        self.asked.notify_one();
        self.open.notified().await;
        Verdict::Go
    }
}

#[tokio::test]
async fn steering_during_the_last_reply_precedes_follow_ups() {
    let gate = Arc::new(Gate::default());
    let model = Scripted::new([say("one"), say("two"), say("three")]);
    let mut setup = SessionSetup::new(model, Vec::new());
    setup.config.governor = gate.clone();
    let mut open = setup.open();
    let run = open.begin("go");
    within(gate.asked.notified()).await;
    open.session.follow_up("later", PromptOptions::default()).unwrap();
    open.session.steer("now", PromptOptions::default()).unwrap();
    for _ in 0..2 {
        gate.open.notify_one();
        within(gate.asked.notified()).await;
    }
    gate.open.notify_one();
    assert_eq!(within(run).await.unwrap(), AgentOutcome::Completed);
    let expected =
        ["user: go", "assistant: one", "user: now", "assistant: two", "user: later", "assistant: three"];
    assert_eq!(open.texts(), expected);
    let waiting: Vec<_> = open
        .received_events()
        .into_iter()
        .filter_map(|event| match event {
            SessionEvent::QueueUpdate { steering, follow_up } => Some((steering, follow_up)),
            _ => None,
        })
        .collect();
    assert_eq!(waiting, [(0, 1), (1, 1), (0, 1), (0, 0)], "each change of the queue is emitted");
}

#[tokio::test]
async fn unexpanded_prompt_is_sent_unchanged() {
    let mut setup = SessionSetup::new(Scripted::then_always([], say("done")), Vec::new());
    let mut resources = Resources::default();
    resources.add_template(Template {
        name: "fix".into(),
        description: String::new(),
        location: "fix.md".into(),
        body: "Fix $1 now.".into(),
    });
    setup.config.resources = Arc::new(resources);
    let open = setup.open();
    for expand in [true, false] {
        let options = PromptOptions { expand, ..PromptOptions::default() };
        within(open.session.prompt("/fix it", options)).await.unwrap();
    }
    assert_eq!(open.texts(), ["user: Fix it now.", "assistant: done", "user: /fix it", "assistant: done"]);
}

#[tokio::test]
async fn prompt_after_a_run_starts_the_next_one() {
    let model = Scripted::new([say("one"), say("two")]);
    let setup = SessionSetup::new(model.clone(), Vec::new());
    let mut open = setup.open();
    open.prompt("first").await;
    assert!(!open.session.state().running);
    open.prompt("second").await;
    assert_eq!(texts(&model.requests()[1].messages), ["user: first", "assistant: one", "user: second"]);
    let ends = open
        .received_events()
        .into_iter()
        .filter(|event| matches!(event, SessionEvent::AgentEnd { .. }))
        .count();
    assert_eq!(ends, 2);
}

#[tokio::test]
async fn model_without_a_key_is_not_selected() {
    let keyless = ProviderConfig {
        name: "other".into(),
        api: Api::OpenaiChat,
        base_url: None,
        api_key: None,
        keyless: false,
        returns_thoughts: None,
        models: vec![serde_json::from_value(json!({ "id": "bare" })).unwrap()],
    };
    let registry = Arc::new(ModelRegistry::clone(&registry()).with(keyless));
    let model = Scripted::then_always([], say("done"));
    let setup = SessionSetup::with_registry(model.clone(), Vec::new(), registry);
    let mut open = setup.open();
    let refused = open.session.set_model("other/bare");
    assert!(
        matches!(&refused, Err(SessionError::Model(RegistryError::NoKey(name))) if name == "other"),
        "{refused:?}"
    );
    for _ in 0..4 {
        let next = open.session.cycle_model(CycleDirection::Forward).unwrap();
        assert_eq!(next.provider, "test", "models without a key are not in the cycle");
    }
    let changes = open.received_events().into_iter().filter_map(|event| match event {
        SessionEvent::ModelChange { provider, model } => Some(format!("{provider}/{model}")),
        _ => None,
    });
    assert_eq!(changes.collect::<Vec<_>>(), ["test/large", "test/small", "test/large", "test/small"]);
    open.prompt("go").await;
    assert_eq!(model.requests()[0].provider, "test");
    let again =
        open.received_events().into_iter().any(|event| matches!(event, SessionEvent::ModelChange { .. }));
    assert!(!again);
}

#[tokio::test]
async fn new_session_names_its_parent_and_switch_restores_the_model() {
    let model = Scripted::then_always([], say("done"));
    let setup = SessionSetup::new(model.clone(), Vec::new());
    let open = setup.open();
    open.session.set_model("large").unwrap();
    open.session.set_thinking_level(ThinkingLevel::High).unwrap();
    open.prompt("one").await;
    let first = open.session.state();
    open.session.new_session(Some(&first.session_id)).unwrap();
    let second = open.session.state();
    assert_eq!(lines(&second.file)[0]["parent"], first.session_id.as_str());
    assert_eq!(lines(&first.file)[0].get("parent"), None);
    assert_eq!((second.messages, second.meters.total().calls), (0, 0));
    open.session.set_model("small").unwrap();
    open.session.set_thinking_level(ThinkingLevel::Off).unwrap();

    assert_eq!(open.session.switch_session(&first.session_id).unwrap(), first.session_id);
    let back = open.session.state();
    assert_eq!((back.model.id.as_str(), back.thinking), ("large", ThinkingLevel::High));
    assert_eq!((back.messages, &back.meters), (2, &first.meters));
}

#[tokio::test]
async fn unknown_session_is_not_opened() {
    let setup = SessionSetup::new(Scripted::then_always([], say("done")), Vec::new());
    let open = setup.open();
    open.prompt("one").await;
    let before = open.session.state();
    std::fs::write(setup.folder.path().join("outside.jsonl"), "{}").unwrap();
    for unknown in ["", "../outside", "019b0000-0000-7000-8000-000000000000", "/etc/passwd"] {
        let refused = open.session.switch_session(unknown);
        assert!(
            matches!(&refused, Err(SessionError::Session(id)) if id == unknown),
            "{unknown}: {refused:?}"
        );
    }
    assert_eq!(open.session.state(), before);
    assert_eq!(open.prompt("two").await, AgentOutcome::Completed);
}

#[tokio::test]
async fn summary_names_the_first_kept_entry() {
    let new = say_taking("new", usage(700, 20));
    let model = Scripted::new([say(&"old ".repeat(100)), new, say("the summary")]);
    let mut setup = SessionSetup::new(model, Vec::new());
    setup.config.context.keep_recent_tokens = 30;
    let open = setup.open();
    open.prompt("first").await;
    open.prompt("second").await;
    let result = within(open.session.compact(None)).await.unwrap();
    assert_eq!(result.tokens_before, 720, "the provider counted them for the last reply");
    let all = lines(&file(&open.session));
    let kept = all.iter().find(|line| line["id"] == result.first_kept.as_str()).unwrap();
    assert_eq!(kept["message"]["content"][0]["text"], "second");
    let summary = all.iter().find(|line| line["type"] == "compaction").unwrap();
    assert_eq!(
        (&summary["summary"], &summary["firstKept"], &summary["tokensBefore"]),
        (&json!("the summary"), &json!(result.first_kept), &json!(720)),
        "it is in the file when it is answered"
    );
}

#[tokio::test]
async fn closed_session_starts_nothing_and_can_be_reopened() {
    let model = Scripted::then_always([], say("done"));
    let setup = SessionSetup::new(model.clone(), Vec::new());
    let open = setup.open();
    open.prompt("one").await;
    let leaf = open.session.state().leaf.unwrap();
    within(open.session.close()).await;
    within(open.session.close()).await;
    let options = PromptOptions::default;
    let refused = [
        open.session.prompt("x", options()).await.map(drop),
        open.session.steer("x", options()),
        open.session.follow_up("x", options()),
        open.session.resume().await.map(drop),
        within(open.session.compact(None)).await.map(drop),
        open.session.new_session(None).map(drop),
        open.session.fork(&leaf).map(drop),
        open.session.branch(None),
    ];
    for (at, refused) in refused.into_iter().enumerate() {
        let expected = match at {
            // The session has no work to continue, closed or not.
            3 => matches!(refused, Err(SessionError::Closed | SessionError::NothingToDo)),
            _ => matches!(refused, Err(SessionError::Closed)),
        };
        assert!(expected, "{at}: {refused:?}");
    }
    assert_eq!(model.requests().len(), 1);
    let file = file(&open.session);
    drop(open);
    let next = Open::start(setup.config.clone(), Start::File(file));
    assert_eq!(next.prompt("two").await, AgentOutcome::Completed);
}
