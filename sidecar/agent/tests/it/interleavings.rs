//! Any interleaving of steering, follow-ups, aborts, failures and compactions keeps calls and results paired, and loses
//! no message (decision 40).

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use pilothouse_agent::message::Usage;
use pilothouse_agent::model::ModelError;
use pilothouse_agent::session::{FollowUpMode, PromptOptions, Queue, SessionError, Start, SteeringMode};
use pilothouse_agent::tool::ToolOutput;
use pilothouse_domain::value::CycleDirection;
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::support::*;

/// An operation on the session before or while the agent works.
#[derive(Debug, Clone)]
enum Act {
    Prompt,
    Steer,
    FollowUp,
    Abort,
    Compact,
    CycleModel,
    Branch,
    Restart,
    Yield(u8),
    Settle,
}

#[derive(Debug, Clone)]
enum Does {
    Say,
    Call(u8),
    Fail,
    Break,
    Overflow,
    Reject,
    Full,
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        4 => Just(Act::Prompt),
        4 => Just(Act::Steer),
        3 => Just(Act::FollowUp),
        2 => Just(Act::Abort),
        1 => Just(Act::Compact),
        1 => Just(Act::CycleModel),
        1 => Just(Act::Branch),
        1 => Just(Act::Restart),
        6 => (0..6_u8).prop_map(Act::Yield),
        2 => Just(Act::Settle),
    ]
}

fn does() -> impl Strategy<Value = Does> {
    prop_oneof![
        4 => Just(Does::Say),
        6 => (1..4_u8).prop_map(Does::Call),
        2 => Just(Does::Fail),
        1 => Just(Does::Break),
        1 => Just(Does::Overflow),
        1 => Just(Does::Reject),
        1 => Just(Does::Full),
    ]
}

fn replies(script: &[Does]) -> Vec<Reply> {
    let mut calls = 0;
    let reply = |does: &Does| match does {
        Does::Say => say("said"),
        Does::Call(count) => {
            let ids: Vec<String> = (0..*count)
                .map(|_| {
                    calls += 1;
                    format!("call-{calls}")
                })
                .collect();
            let batch: Vec<(&str, &str, Value)> =
                ids.iter().map(|id| (id.as_str(), "echo", json!({ "text": "x" }))).collect();
            call(&batch)
        }
        Does::Fail => transient("busy", None),
        Does::Break => Reply::Break("half"),
        Does::Overflow => overflow(),
        Does::Reject => Reply::Fail(ModelError::Rejected { message: "no".into(), status: Some(400) }),
        Does::Full => say_taking("full", Usage { input: 9_500, ..Usage::default() }),
    };
    script.iter().map(reply).collect()
}

/// The numbered user messages in the whole tree, with repetitions.
fn said(open: &Open) -> Vec<usize> {
    let lines = lines(&file(&open.session));
    let text = |line: &Value| line["message"]["content"][0]["text"].as_str().map(str::to_owned);
    let of_users = lines.iter().filter(|line| line["message"]["role"] == "user").filter_map(text);
    of_users.filter_map(|text| text.strip_prefix("message ")?.parse().ok()).collect()
}

async fn interleave(acts: Vec<Act>, script: Vec<Does>, steering: SteeringMode, follow_ups: FollowUpMode) {
    let model = Scripted::then_always(replies(&script), say("the end"));
    let runs = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&runs);
    let tool = TestTool::named("echo", move |_, _| {
        counted.fetch_add(1, Ordering::Relaxed);
        ToolOutput::text("ran")
    });
    let mut setup = SessionSetup::new(model.clone(), vec![tool]);
    setup.config.steering_mode = steering;
    setup.config.follow_up_mode = follow_ups;
    setup.config.context.keep_recent_tokens = 20;
    setup.config.retry.base_delay = std::time::Duration::ZERO;
    let mut open = setup.open();
    let mut sent = 0;
    let mut tasks = Vec::new();
    for act in acts {
        match act {
            Act::Prompt | Act::Steer | Act::FollowUp => {
                sent += 1;
                let text = format!("message {sent}");
                let queue = if matches!(act, Act::FollowUp) { Queue::FollowUp } else { Queue::Steering };
                if matches!(act, Act::Prompt) {
                    let session = open.session.clone();
                    let options = PromptOptions { while_running: Some(queue), ..PromptOptions::default() };
                    tasks.push(tokio::spawn(async move {
                        session.prompt(&text, options).await.map(drop).unwrap();
                    }));
                } else if matches!(act, Act::Steer) {
                    open.session.steer(&text, PromptOptions::default()).unwrap();
                } else {
                    open.session.follow_up(&text, PromptOptions::default()).unwrap();
                }
            }
            Act::Abort => within(open.session.abort()).await,
            Act::Compact => {
                let session = open.session.clone();
                tasks.push(tokio::spawn(async move { drop(session.compact(None).await) }));
            }
            Act::CycleModel => drop(open.session.cycle_model(CycleDirection::Forward).unwrap()),
            Act::Branch => {
                let leaf = open.session.state().leaf;
                match open.session.branch(leaf.as_deref()) {
                    Ok(()) | Err(SessionError::Busy) => {}
                    Err(error) => panic!("{error}"),
                }
            }
            Act::Restart => {
                // In place of the sidecar, the test keeps the queued messages.
                settle(&mut tasks, &open).await;
                let waiting = open.session.take_queued();
                let file = file(&open.session);
                drop(open);
                open = Open::start(setup.config.clone(), Start::File(file));
                for queued in waiting {
                    let text = texts(&[queued.message.into()])[0].trim_start_matches("user: ").to_owned();
                    match queued.queue {
                        Queue::Steering => open.session.steer(&text, PromptOptions::default()).unwrap(),
                        Queue::FollowUp => open.session.follow_up(&text, PromptOptions::default()).unwrap(),
                    }
                }
            }
            Act::Yield(times) => {
                for _ in 0..times {
                    tokio::task::yield_now().await;
                }
            }
            Act::Settle => settle(&mut tasks, &open).await,
        }
    }
    settle(&mut tasks, &open).await;
    // After this, all queued messages are delivered.
    for _ in 0..100 {
        let waiting = open.session.state();
        if waiting.steering + waiting.follow_up == 0 {
            break;
        }
        within(open.session.resume()).await.unwrap();
    }
    let said = said(&open);
    let distinct: BTreeSet<usize> = said.iter().copied().collect();
    assert_eq!(distinct, (1..=sent).collect(), "a message is lost");
    assert_eq!(said.len(), sent, "a message is delivered twice: {said:?}");
    // In the tree, each call has one result as well.
    let all = lines(&file(&open.session));
    let calls =
        all.iter().flat_map(|line| line["message"]["content"].as_array().cloned().unwrap_or_default());
    let calls: Vec<Value> =
        calls.filter(|block| block["type"] == "toolCall").map(|block| block["id"].clone()).collect();
    let results: Vec<&Value> =
        all.iter().map(|line| &line["message"]["toolCallId"]).filter(|id| id.is_string()).collect();
    assert_eq!(results, calls.iter().collect::<Vec<_>>());
    let ran = all.iter().filter(|line| line["message"]["content"][0]["text"] == "ran").count();
    assert_eq!(ran, runs.load(Ordering::Relaxed), "a result is lost or was made up");
}

/// Returns when no work is running.
async fn settle(tasks: &mut Vec<tokio::task::JoinHandle<()>>, open: &Open) {
    for task in tasks.drain(..) {
        within(task).await.unwrap();
    }
    assert!(!open.session.state().running);
}

/// Number of interleavings: all with `PILOTHOUSE_PROPERTIES=full`, a fifth otherwise.
fn cases() -> u32 {
    if std::env::var("PILOTHOUSE_PROPERTIES").is_ok_and(|how| how == "full") { 150 } else { 30 }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), ..ProptestConfig::default() })]

    #[test]
    fn any_interleaving_keeps_pairs_and_loses_nothing(
        acts in prop::collection::vec(act(), 1..24),
        script in prop::collection::vec(does(), 0..24),
        finish in any::<bool>(),
        all in any::<bool>(),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let steering = if finish { SteeringMode::Finish } else { SteeringMode::Skip };
        let follow_ups = if all { FollowUpMode::All } else { FollowUpMode::OneATurn };
        runtime.block_on(interleave(acts, script, steering, follow_ups));
    }
}
