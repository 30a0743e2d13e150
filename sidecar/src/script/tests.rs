//! Commands that arrive at an unfavourable moment.

use std::sync::Arc;
use std::time::Duration;

use pilothouse_domain::value::{MessagePriority, MessageSource};
use pilothouse_domain::{CommandId, MessageId};
use pilothouse_wire::RawEvent;
use pilothouse_wire::command::Begin;
use serde_json::{Value, json};
use tokio::sync::mpsc::{self, UnboundedSender};
use uuid::Uuid;

use super::*;
use crate::adapter::{AgentCommand, EventFilter, EventSink, Message, MessageReply, Reply};
use crate::process::Processes;
use crate::spool::tests::{launch, open};
use crate::spool::{Spool, SpoolError};

fn ids() -> (CommandId, MessageId) {
    (CommandId::new(Uuid::now_v7()), MessageId::new(Uuid::now_v7()))
}

/// Sends a message just as a turn begins.
struct Interjects {
    commands: UnboundedSender<AgentCommand>,
    abandoned: UnboundedSender<CommandId>,
    spool: Spool,
}

#[async_trait]
impl EventFilter for Interjects {
    async fn filter(&self, event: RawEvent) -> Result<Vec<RawEvent>, SpoolError> {
        if matches!(event, RawEvent::TurnStarted { .. }) {
            let (command_id, id) = ids();
            let message = Message {
                id,
                content: "this".into(),
                images: Vec::new(),
                priority: MessagePriority::Immediate,
                source: MessageSource::User,
                expected_turn: None,
            };
            let reply = MessageReply::new(command_id, id, self.spool.clone(), self.abandoned.clone());
            self.commands.send(AgentCommand::Message(message, reply)).unwrap();
        }
        Ok(vec![event])
    }
}

/// The texts so far, and whether the turn has ended.
async fn said(spool: &Spool) -> (Vec<String>, bool) {
    let batch = spool.batch(1000, usize::MAX).await.unwrap();
    let events = batch.entries.iter().map(|entry| {
        let signed = pilothouse_wire::Signed::parse(&entry.body).unwrap();
        serde_json::from_str::<Value>(signed.envelope.get()).unwrap()["body"].clone()
    });
    let events: Vec<Value> = events.collect();
    let said = events.iter().filter_map(|event| event["content"]["text"].as_str().map(str::to_owned));
    (said.collect(), events.iter().any(|event| event["type"] == "turn_completed"))
}

#[tokio::test]
async fn message_just_before_its_wait_satisfies_the_wait() {
    let (home, run) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let spool = open(run.path());
    let (commands, receiver) = mpsc::unbounded_channel();
    let (abandoned, _given_up) = mpsc::unbounded_channel();
    let filter =
        Interjects { commands: commands.clone(), abandoned: abandoned.clone(), spool: spool.clone() };
    let mut launch = launch();
    launch.session_home = home.path().to_string_lossy().into_owned();
    let context = AgentContext {
        launch: Arc::new(launch),
        events: EventSink::new(spool.clone()).with_filter(Arc::new(filter)),
        commands: receiver,
        processes: Processes::unguarded(),
        lease: crate::lease::Lease::default(),
    };
    let playing = tokio::spawn(Box::new(Script::default()).run(context));
    let turn = json!({ "turn": { "steps": [{ "waitForMessage": {} }, { "say": "I heard {{message}}" }] } });
    let config = json!({
        "modelId": "m",
        "composedSystemPrompt": "",
        "allowedTools": [],
        "workingDirectory": "/",
        "objective": "x",
        "planApprovalRequired": false,
        "contextWarnAtPercent": 80,
        "adapterOptions": { "script": { "steps": [turn], "onSteer": "in between" } },
    });
    let begin = Begin {
        config: serde_json::from_value(config).unwrap(),
        resume_conversation: false,
        prompt: Some("Do it.".into()),
        images: Vec::new(),
        allowance_usd: None,
        allow_unmetered: false,
    };
    let reply = Reply::new(ids().0, RawEvent::BeginAck, spool.clone(), abandoned);
    commands.send(AgentCommand::Begin(Box::new(begin), reply)).unwrap();
    let heard = tokio::time::timeout(Duration::from_secs(20), async {
        loop {
            let (said, over) = said(&spool).await;
            if over {
                return said;
            }
            tokio::task::yield_now().await;
        }
    });
    assert_eq!(heard.await.expect("the turn ends"), ["I heard this"]);
    playing.abort();
}
