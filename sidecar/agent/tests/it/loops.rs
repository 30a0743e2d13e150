//! Turns, steering, follow-ups, retries and aborts (S1 3, 6.2, decision 40).

use std::time::Duration;

use pilothouse_agent::event::{AgentOutcome, SessionEvent};
use pilothouse_agent::message::{AgentMessage, AssistantContent, StopReason, UserContent};
use pilothouse_agent::model::{ModelError, OmittedContent};
use pilothouse_agent::session::{
    FollowUpMode, PromptOptions, Prompted, Queue, RetryPolicy, SessionError, Start, SteeringMode,
};
use pilothouse_agent::tool::SharedTool;
use pilothouse_domain::value::{CycleDirection, ThinkingLevel};
use serde_json::json;

use crate::support::*;

#[tokio::test]
async fn loop_continues_until_the_model_calls_no_tool() {
    let model = Scripted::new([
        call(&[("a", "echo", json!({ "text": "one" })), ("b", "echo", json!({ "text": "two" }))]),
        call(&[("c", "echo", json!({ "text": "three" }))]),
        say("done"),
    ]);
    let mut open = SessionSetup::new(model.clone(), vec![TestTool::echo()]).open();
    assert_eq!(open.prompt("go").await, AgentOutcome::Completed);
    let expected = [
        "user: go",
        "call a",
        "call b",
        "result a: one",
        "result b: two",
        "call c",
        "result c: three",
        "assistant: done",
    ];
    assert_eq!(open.texts(), expected);
    let events = open.received_events();
    assert_eq!(events.iter().filter(|event| **event == SessionEvent::TurnStart).count(), 3);
    assert_eq!(events.iter().filter(|event| **event == SessionEvent::TurnEnd).count(), 3);
    assert_eq!(events.first(), Some(&SessionEvent::AgentStart));
    assert_eq!(events.last(), Some(&SessionEvent::AgentEnd { outcome: AgentOutcome::Completed }));
    assert!(events.contains(&SessionEvent::ToolExecutionUpdate {
        tool_call_id: "a".into(),
        chunk: "progress of one".into(),
    }));
}

#[tokio::test]
async fn steering_skips_the_rest_of_the_batch_with_results() {
    let gated = Gated::new("wait");
    let model = Scripted::new([
        call(&[("a", "wait", json!({})), ("b", "echo", json!({ "text": "never" }))]),
        say("I look at it"),
    ]);
    let tools: Vec<SharedTool> = vec![gated.clone(), TestTool::echo()];
    let mut open = SessionSetup::new(model.clone(), tools).open();
    let run = open.begin("go");
    within(gated.started.notified()).await;
    let options = PromptOptions { tag: Some("m1".into()), ..PromptOptions::default() };
    open.session.steer("look here", options).unwrap();
    gated.open.notify_one();
    assert_eq!(within(run).await.unwrap(), AgentOutcome::Completed);
    let texts = open.texts();
    assert!(texts[4].starts_with("error b: Skipped: the user said something new"), "{texts:?}");
    assert_eq!(texts[5..], ["user: look here", "assistant: I look at it"]);
    let events = open.received_events();
    let starts = events.iter().filter(|event| matches!(event, SessionEvent::ToolExecutionStart(_))).count();
    assert_eq!(starts, 1, "a skipped call does not begin");
    let entry = events.iter().find_map(|event| match event {
        SessionEvent::Injected { tag, entry_id } if tag == "m1" => Some(entry_id.clone()),
        _ => None,
    });
    assert!(entry.is_some(), "the sender learns that the message is in the conversation");
}

#[tokio::test]
async fn finish_steering_mode_lets_the_batch_complete() {
    let gated = Gated::new("wait");
    let model = Scripted::new([
        call(&[("a", "wait", json!({})), ("b", "echo", json!({ "text": "ran" }))]),
        say("done"),
    ]);
    let mut setup = SessionSetup::new(model, vec![gated.clone(), TestTool::echo()]);
    setup.config.steering_mode = SteeringMode::Finish;
    let open = setup.open();
    let run = open.begin("go");
    within(gated.started.notified()).await;
    open.session.steer("look here", PromptOptions::default()).unwrap();
    gated.open.notify_one();
    within(run).await.unwrap();
    assert_eq!(open.texts()[4..6], ["result b: ran", "user: look here"]);
}

#[tokio::test]
async fn steering_after_the_last_tool_adds_a_turn() {
    let gated = Gated::new("wait");
    let model = Scripted::new([call(&[("a", "wait", json!({}))]), say("done")]);
    let open = SessionSetup::new(model.clone(), vec![gated.clone()]).open();
    let run = open.begin("go");
    within(gated.started.notified()).await;
    open.session.steer("look here", PromptOptions::default()).unwrap();
    gated.open.notify_one();
    within(run).await.unwrap();
    assert_eq!(open.texts()[2..4], ["result a: done", "user: look here"]);
    assert_eq!(model.requests().len(), 2);
}

#[tokio::test]
async fn follow_ups_run_last_one_per_turn_or_all_at_once() {
    for (mode, turns) in [(FollowUpMode::OneATurn, 3), (FollowUpMode::All, 2)] {
        let gated = Gated::new("wait");
        let model = Scripted::then_always([call(&[("a", "wait", json!({}))])], say("done"));
        let mut setup = SessionSetup::new(model.clone(), vec![gated.clone()]);
        setup.config.follow_up_mode = mode;
        let open = setup.open();
        let run = open.begin("go");
        within(gated.started.notified()).await;
        open.session.follow_up("first", PromptOptions::default()).unwrap();
        let options = PromptOptions { while_running: Some(Queue::FollowUp), ..PromptOptions::default() };
        let queued = open.session.prompt("second", options).await.unwrap();
        assert_eq!(queued, Prompted::Queued);
        gated.open.notify_one();
        within(run).await.unwrap();
        assert_eq!(model.requests().len(), turns + 1, "{mode:?}");
        assert!(!open.session.state().running, "without a follow-up it is idle");
        let texts = open.texts();
        let at = |text: &str| texts.iter().position(|line| line == text).unwrap();
        assert!(
            at("user: first") > at("assistant: done") && at("user: second") > at("user: first"),
            "{texts:?}"
        );
    }
}

#[tokio::test]
async fn prompt_during_a_run_is_refused_as_busy() {
    let model = Scripted::new([Reply::Hang("…")]);
    let open = SessionSetup::new(model.clone(), Vec::new()).open();
    let run = open.begin("go");
    model.wait_for(1).await;
    let refused = open.session.prompt("again", PromptOptions::default()).await;
    assert!(matches!(refused, Err(SessionError::Busy)), "{refused:?}");
    within(open.session.abort()).await;
    assert_eq!(within(run).await.unwrap(), AgentOutcome::Aborted);
}

#[tokio::test]
async fn aborted_reply_is_kept_and_the_next_prompt_continues() {
    let model = Scripted::new([Reply::Hang("half a sentence"), say("yes?")]);
    let open = SessionSetup::new(model.clone(), Vec::new()).open();
    let run = open.begin("go");
    model.wait_for(1).await;
    within(open.session.abort()).await;
    assert_eq!(within(run).await.unwrap(), AgentOutcome::Aborted);
    assert_eq!(open.prompt("hello").await, AgentOutcome::Completed);
    let texts = open.texts();
    // The piece may be read before the abort or not.
    assert_eq!(texts.first().map(String::as_str), Some("user: go"));
    assert_eq!(texts[texts.len() - 2..], ["user: hello", "assistant: yes?"]);
}

#[tokio::test]
async fn aborted_tool_is_ended_and_every_call_gets_a_result() {
    let gated = Gated::new("wait");
    let model = Scripted::new([
        call(&[("a", "wait", json!({})), ("b", "echo", json!({ "text": "never" }))]),
        say("hello"),
    ]);
    let open = SessionSetup::new(model, vec![gated.clone(), TestTool::echo()]).open();
    let run = open.begin("go");
    within(gated.started.notified()).await;
    within(open.session.abort()).await;
    assert_eq!(within(run).await.unwrap(), AgentOutcome::Aborted);
    let texts = open.texts();
    assert_eq!(texts[3], "error a: cut off");
    assert!(texts[4].starts_with("error b: Cut off"), "{texts:?}");
    assert_eq!(open.prompt("on").await, AgentOutcome::Completed);
}

#[tokio::test]
async fn dropping_a_prompt_aborts_it() {
    let model = Scripted::new([Reply::Hang("…"), say("hello")]);
    let open = SessionSetup::new(model.clone(), Vec::new()).open();
    {
        let prompt = open.session.prompt("go", PromptOptions::default());
        tokio::pin!(prompt);
        tokio::select! {
            _ = &mut prompt => panic!("it hangs"),
            () = model.wait_for(1) => {}
        }
    }
    within(open.session.abort()).await;
    assert!(!open.session.state().running);
    assert_eq!(open.prompt("again").await, AgentOutcome::Completed);
}

#[tokio::test]
async fn queued_messages_survive_an_abort_or_are_withdrawn() {
    let model = Scripted::new([Reply::Hang("…"), Reply::Hang("…"), say("done")]);
    let open = SessionSetup::new(model.clone(), Vec::new()).open();
    let run = open.begin("go");
    model.wait_for(1).await;
    open.session.follow_up("later", PromptOptions::default()).unwrap();
    within(open.session.abort()).await;
    within(run).await.unwrap();
    assert_eq!(open.session.state().follow_up, 1);
    let taken = open.session.take_queued();
    assert_eq!(taken.len(), 1);
    open.session.steer("now", PromptOptions::default()).unwrap();
    let run = open.begin("go on");
    model.wait_for(2).await;
    within(open.session.abort()).await;
    within(run).await.unwrap();
    let texts = open.texts();
    let users: Vec<&String> = texts.iter().filter(|text| text.starts_with("user")).collect();
    assert_eq!(users, ["user: go", "user: now", "user: go on"]);
}

#[tokio::test]
async fn transient_failures_are_retried_and_leave_no_trace() {
    let model = Scripted::new([transient("overloaded", None), Reply::Break("half"), say("done")]);
    let mut open = SessionSetup::new(model.clone(), Vec::new()).open();
    assert_eq!(open.prompt("go").await, AgentOutcome::Completed);
    assert_eq!(open.texts(), ["user: go", "assistant: done"]);
    let events = open.received_events();
    let attempts: Vec<u32> = events
        .iter()
        .filter_map(|event| match event {
            SessionEvent::AutoRetryStart { attempt, max_attempts: Some(3), .. } => Some(*attempt),
            _ => None,
        })
        .collect();
    assert_eq!(attempts, [1, 2]);
    assert!(events.contains(&SessionEvent::AutoRetryEnd { success: true, attempts: 2 }));
}

#[tokio::test(start_paused = true)]
async fn provider_delay_is_respected_and_can_be_aborted() {
    let wait = Duration::from_secs(30);
    let model = Scripted::new([transient("slow down", Some(wait)), say("done"), transient("", Some(wait))]);
    let mut setup = SessionSetup::new(model.clone(), Vec::new());
    setup.config.retry.max_delay = Duration::from_secs(1);
    let open = setup.open();
    let begun = tokio::time::Instant::now();
    assert_eq!(
        tokio::time::timeout(wait * 2, open.begin("go")).await.unwrap().unwrap(),
        AgentOutcome::Completed
    );
    assert!(begun.elapsed() >= wait);
    let run = open.begin("again");
    model.wait_for(3).await;
    tokio::time::timeout(Duration::from_secs(1), open.session.abort()).await.unwrap();
    assert_eq!(run.await.unwrap(), AgentOutcome::Aborted);
}

#[tokio::test]
async fn last_failed_try_is_recorded_and_hidden_from_models() {
    let failure = || transient("overloaded", None);
    let model = Scripted::new([failure(), failure(), failure(), failure(), say("back again")]);
    let mut open = SessionSetup::new(model.clone(), Vec::new()).open();
    let unavailable = AgentOutcome::Unavailable { message: "overloaded".into(), retry_at: None };
    assert_eq!(open.prompt("go").await, unavailable);
    assert!(open.received_events().contains(&SessionEvent::AutoRetryEnd { success: false, attempts: 3 }));
    let last = open.session.messages().pop().unwrap();
    let AgentMessage::Assistant(last) = &*last else { panic!("no failure") };
    assert_eq!((last.stop_reason, last.error.as_deref()), (StopReason::Error, Some("overloaded")));
    // It continues from there without a new message.
    assert_eq!(within(open.session.resume()).await.unwrap(), AgentOutcome::Completed);
    assert_eq!(texts(&model.requests()[4].messages), ["user: go"]);
}

#[tokio::test(start_paused = true)]
async fn outage_of_hours_is_survived_and_a_longer_one_ends_the_run() {
    let outage = std::iter::repeat_n(transient("overloaded", None), 60);
    let model = Scripted::new(outage.chain([say("back again"), transient("overloaded", Some(HOUR * 7))]));
    let mut setup = SessionSetup::new(model, Vec::new());
    setup.config.retry = RetryPolicy::default();
    let mut open = setup.open();
    let begun = tokio::time::Instant::now();
    let run = open.begin("go");
    assert_eq!(run.await.unwrap(), AgentOutcome::Completed);
    assert!(begun.elapsed() > HOUR * 2, "{:?}", begun.elapsed());
    let delay = |event: &SessionEvent| match event {
        SessionEvent::AutoRetryStart { delay, .. } => Some(*delay),
        _ => None,
    };
    let delays: std::collections::HashSet<_> = open.received_events().iter().filter_map(delay).collect();
    assert!(delays.len() > 50, "the delays have jitter: {delays:?}");
    let AgentOutcome::Unavailable { retry_at: Some(_), .. } = open.begin("again").await.unwrap() else {
        panic!("the provider asked for more than the patience");
    };
}

const HOUR: Duration = Duration::from_hours(1);

#[tokio::test]
async fn rejected_content_is_left_out_and_not_sent_again() {
    let rejected = |content| {
        Reply::Fail(ModelError::RejectedContent { message: "image exceeds 5 MB maximum".into(), content })
    };
    let image = || UserContent::Image { mime_type: "image/png".into(), data: "AAAA".into() };
    let model = Scripted::new([
        rejected(OmittedContent::Images),
        say("one"),
        say("two"),
        say("three"),
        rejected(OmittedContent::Images),
        say("four"),
        rejected(OmittedContent::Images),
    ]);
    let setup = SessionSetup::new(model.clone(), Vec::new());
    let mut open = setup.open();
    let with_image = || PromptOptions { images: vec![image()], ..PromptOptions::default() };
    within(open.session.prompt("look", with_image())).await.unwrap();
    let omitted = |event: &SessionEvent| matches!(event, SessionEvent::ContentOmitted { .. });
    assert_eq!(open.received_events().iter().filter(|event| omitted(event)).count(), 1);
    open.prompt("go on").await;
    let file = file(&open.session);
    drop(open);
    let open = Open::start(setup.config.clone(), Start::File(file));
    within(open.session.prompt("and this", with_image())).await.unwrap();
    let seen: Vec<_> = model.requests().iter().map(|request| texts(&request.messages)).collect();
    assert_eq!(seen[0], ["user: look (image/png)"]);
    for later in &seen[1..] {
        assert!(later[0].contains("cannot see"), "also after a restart: {later:?}");
    }
    assert_eq!(seen[3][4], "user: and this (image/png)", "a later image is sent");
    // Another image is rejected, and then a conversation without any.
    open.prompt("next").await;
    assert_eq!(open.prompt("last").await, AgentOutcome::Failed("image exceeds 5 MB maximum".into()));
    assert_eq!(model.requests().len(), 7, "a rejection that cannot be repaired is not repeated");
}

#[tokio::test]
async fn rejected_thoughts_are_left_out_and_the_model_stops_thinking() {
    let rejected = ModelError::RejectedContent { message: "no".into(), content: OmittedContent::Thoughts };
    let model = Scripted::new([thinking("hm", "one"), Reply::Fail(rejected), say("two"), say("three")]);
    let mut setup = SessionSetup::new(model.clone(), Vec::new());
    setup.config.model = Some("large".into());
    setup.config.thinking = ThinkingLevel::High;
    let open = setup.open();
    open.prompt("go").await;
    assert_eq!(open.prompt("on").await, AgentOutcome::Completed);
    open.prompt("further").await;
    let requests = model.requests();
    let thought = |request: &pilothouse_agent::model::ModelRequest| {
        request.messages.iter().any(|message| {
            matches!(&**message, AgentMessage::Assistant(reply)
                if reply.content.iter().any(|block| matches!(block, AssistantContent::Thinking { .. })))
        })
    };
    let sent: Vec<_> = requests.iter().map(|request| (thought(request), request.thinking)).collect();
    let (off, high) = (ThinkingLevel::Off, ThinkingLevel::High);
    assert_eq!(sent, [(false, high), (true, high), (false, off), (false, high)]);
}

#[tokio::test]
async fn permanent_failure_ends_the_run_at_once() {
    let reset_at = Some(pilothouse_domain::Timestamp::from_millis(5_000));
    let rejected = ModelError::Rejected { message: "wrong key".into(), status: Some(401) };
    let quota = ModelError::QuotaExceeded { message: "used up".into(), reset_at };
    let model = Scripted::new([Reply::Fail(rejected), Reply::Fail(quota)]);
    let open = SessionSetup::new(model.clone(), Vec::new()).open();
    assert_eq!(open.prompt("go").await, AgentOutcome::Failed("wrong key".into()));
    let outcome = open.prompt("again").await;
    assert_eq!(outcome, AgentOutcome::QuotaExceeded { message: "used up".into(), reset_at });
    assert_eq!(model.requests().len(), 2);
}

#[tokio::test]
async fn run_ends_at_the_turn_limit_and_can_be_continued() {
    let again = call(&[("a", "echo", json!({ "text": "x" }))]);
    let model = Scripted::new([again.clone(), again, say("done")]);
    let mut setup = SessionSetup::new(model.clone(), vec![TestTool::echo()]);
    setup.config.max_turns = Some(2);
    let open = setup.open();
    assert_eq!(open.prompt("go").await, AgentOutcome::MaxTurns);
    assert_eq!(within(open.session.resume()).await.unwrap(), AgentOutcome::Completed);
    assert!(matches!(open.session.resume().await, Err(SessionError::NothingToDo)));
}

#[tokio::test]
async fn model_and_thinking_level_change_from_the_next_call() {
    let model = Scripted::then_always([], say("done"));
    let setup = SessionSetup::new(model.clone(), Vec::new());
    let mut open = setup.open();
    open.prompt("one").await;
    assert_eq!(open.session.cycle_model(CycleDirection::Forward).unwrap().id, "large");
    open.session.set_thinking_level(ThinkingLevel::High).unwrap();
    open.prompt("two").await;
    assert_eq!(open.session.cycle_model(CycleDirection::Backward).unwrap().id, "small");
    assert_eq!(open.session.set_model("test/large").unwrap().id, "large");
    assert!(matches!(open.session.set_model("other/x"), Ok(_) | Err(SessionError::Model(_))));
    open.session.set_model("large").unwrap();
    let models: Vec<_> = model.requests().iter().map(|r| (r.model.clone(), r.thinking)).collect();
    assert_eq!(models, [("small".into(), ThinkingLevel::Off), ("large".into(), ThinkingLevel::High)]);
    assert!(open.received_events().contains(&SessionEvent::ThinkingLevelChange(ThinkingLevel::High)));
    let file = file(&open.session);
    drop(open);
    let reopened = Open::start(setup.config.clone(), pilothouse_agent::session::Start::File(file));
    let kept = reopened.session.state();
    assert_eq!((kept.model.id.as_str(), kept.thinking), ("large", ThinkingLevel::High));
}

#[tokio::test]
async fn images_are_sent_with_a_prompt() {
    let model = Scripted::new([say("a cat")]);
    let open = SessionSetup::new(model.clone(), Vec::new()).open();
    let image =
        pilothouse_agent::message::UserContent::Image { mime_type: "image/png".into(), data: "AAAA".into() };
    let options = PromptOptions { images: vec![image], ..PromptOptions::default() };
    within(open.session.prompt("what is it?", options)).await.unwrap();
    assert_eq!(texts(&model.requests()[0].messages), ["user: what is it? (image/png)"]);
}

#[tokio::test]
async fn nothing_starts_after_close() {
    let model = Scripted::new([Reply::Hang("…")]);
    let open = SessionSetup::new(model.clone(), Vec::new()).open();
    let run = open.begin("go");
    model.wait_for(1).await;
    within(open.session.close()).await;
    assert_eq!(within(run).await.unwrap(), AgentOutcome::Aborted);
    assert!(matches!(open.session.prompt("x", PromptOptions::default()).await, Err(SessionError::Closed)));
    assert!(matches!(open.session.steer("x", PromptOptions::default()), Err(SessionError::Closed)));
}

#[tokio::test]
async fn last_moment_follow_ups_are_not_lost() {
    for _ in 0..50 {
        let model = Scripted::then_always([], say("done"));
        let open = SessionSetup::new(model.clone(), Vec::new()).open();
        let run = open.begin("go");
        let session = open.session.clone();
        let late = tokio::spawn(async move {
            tokio::task::yield_now().await;
            let options = PromptOptions { while_running: Some(Queue::FollowUp), ..PromptOptions::default() };
            session.prompt("late", options).await.unwrap()
        });
        within(run).await.unwrap();
        within(late).await.unwrap();
        let users = open.texts().iter().filter(|text| text.starts_with("user")).count();
        assert_eq!((users, open.session.state().follow_up), (2, 0));
    }
}
