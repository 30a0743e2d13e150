//! Every fault that a script can inject is visible at the gateway.

use std::time::Duration;

use pilothouse_wire::Command;
use serde_json::{Value, json};

use crate::gateway::{Gateway, event};
use crate::sidecar::{Folders, begin, much, playing, turn};

async fn played(fault: Value) -> (Gateway, Folders, crate::sidecar::Sidecar) {
    playing(json!([turn(json!([{ "say": "before" }, fault, { "say": "after" }]))])).await
}

#[tokio::test]
async fn malformed_event_is_authentic_but_invalid() {
    let (gateway, _folders, _sidecar) =
        played(json!({ "malformed": { "type": "no_such_event", "x": 1 } })).await;
    let at = gateway.sees("no_such_event").await;
    gateway.sees("turn_completed").await;
    let delivered = gateway.delivered();
    assert!(serde_json::from_value::<pilothouse_wire::RawEvent>(delivered[at].body.clone()).is_err());
    assert_eq!(delivered[at].sequence, at as u64 + 1, "it takes its sequence");
    event(&delivered[at + 1]);
}

#[tokio::test]
async fn a_duplicate_arrives_twice() {
    let (gateway, _folders, _sidecar) = played(json!({ "duplicate": { "say": "twice" } })).await;
    gateway.sees("turn_completed").await;
    gateway.sees_nth("assistant_message text twice", 2).await;
    let delivered = gateway.delivered();
    let twice: Vec<_> = delivered.iter().filter(|e| e.short().ends_with("twice")).collect();
    assert_eq!(twice[0].sealed, twice[1].sealed);
    assert_ne!(twice[0].deduplication_id, twice[1].deduplication_id);
}

#[tokio::test]
async fn reordered_events_arrive_in_the_wrong_order() {
    let (gateway, _folders, _sidecar) =
        played(json!({ "reorder": [{ "say": "first" }, { "say": "second" }] })).await;
    gateway.sees("turn_completed").await;
    let delivered = gateway.delivered();
    let at = |what: &str| delivered.iter().position(|e| e.short().ends_with(what)).unwrap();
    assert_eq!(at("second") + 1, at("first"));
    assert_eq!(delivered[at("first")].sequence + 1, delivered[at("second")].sequence);
}

#[tokio::test]
async fn gap_is_filled_by_a_replay_unless_permanent() {
    for forever in [false, true] {
        let gap = json!({ "gap": { "step": { "say": "missing" }, "forever": forever } });
        let (gateway, _folders, _sidecar) = played(gap).await;
        gateway.sees("turn_completed").await;
        let delivered = gateway.delivered();
        let last = delivered.last().unwrap().sequence;
        let sequence = (1..last).find(|n| delivered.iter().all(|e| e.sequence != *n)).unwrap();
        gateway.send(Command::Replay { from_sequence: sequence, to_sequence: sequence });
        if forever {
            let id = gateway.send(Command::Interrupt {});
            gateway.acknowledged(id, "done").await;
            assert!(gateway.delivered().iter().all(|e| e.sequence != sequence));
        } else {
            let at = gateway.sees("assistant_message text missing").await;
            assert_eq!(gateway.delivered()[at].sequence, sequence);
        }
    }
}

#[tokio::test]
async fn silent_sidecar_sends_nothing() {
    let gateway = Gateway::start().await;
    let folders = Folders::new(&gateway);
    let _sidecar = folders.start();
    let steps = json!([turn(json!([{ "say": "before" }, { "wait": 100 }, { "silence": 1500 }, much(20)]))]);
    gateway.send(begin(json!({ "script": { "steps": steps } })));
    let start = std::time::Instant::now();
    gateway.sees("assistant_message text before").await;
    gateway.sees("turn_completed").await;
    assert!(start.elapsed() > Duration::from_millis(1400));
    let beats = gateway.heartbeats();
    assert!(beats <= 4, "{beats} heartbeats came before the silence and after it");
    gateway.until("heartbeats again", |g| (g.heartbeats() > beats + 1).then_some(())).await;
}

#[tokio::test]
async fn crash_leaves_unsent_events_to_drain() {
    use std::os::unix::process::ExitStatusExt as _;
    let (gateway, folders, sidecar) = played(json!({ "crash": { "exit": 42 } })).await;
    assert_eq!(sidecar.ended().await.code(), Some(42));
    assert_eq!(folders.drain().await.code(), Some(0));
    assert_eq!(gateway.story().last().unwrap(), "assistant_message text before");

    let (gateway, folders, sidecar) = played(json!({ "crash": "kill" })).await;
    assert_eq!(sidecar.ended().await.signal(), Some(9));
    assert_eq!(folders.drain().await.code(), Some(0));
    assert_eq!(gateway.story().last().unwrap(), "assistant_message text before");
}

#[tokio::test]
async fn ignored_command_is_never_acknowledged() {
    let steps = json!([turn(
        json!([{ "ignore": { "command": "pause" } }, { "say": "armed" }, { "waitForMessage": {} }])
    )]);
    let (gateway, _folders, _sidecar) = playing(steps).await;
    gateway.sees("assistant_message text armed").await;
    let ignored = Gateway::command_id();
    gateway.send_as(ignored, 1, Command::Pause {});
    gateway.send_as(ignored, 2, Command::Pause {});
    let heard = gateway.send(Command::Interrupt {});
    gateway.acknowledged(heard, "done").await;
    assert!(!gateway.story().iter().any(|s| s.starts_with("pause_ack")));
}

#[tokio::test]
async fn command_ignored_once_is_obeyed_when_repeated() {
    let ignore = json!({ "ignore": { "command": "pause", "untilRepeated": true } });
    let steps = json!([turn(json!([ignore, { "say": "armed" }, { "waitForMessage": {} }]))]);
    let (gateway, _folders, _sidecar) = playing(steps).await;
    gateway.sees("assistant_message text armed").await;
    let id = Gateway::command_id();
    gateway.send_as(id, 1, Command::Pause {});
    gateway.until("an empty queue", |g| (g.undeleted() == 0).then_some(())).await;
    gateway.send_as(id, 2, Command::Pause {});
    gateway.acknowledged(id, "done").await;
    assert_eq!(gateway.story().iter().filter(|s| *s == "pause_ack received").count(), 1);
}

#[tokio::test]
async fn activity_after_a_stop_follows_its_acknowledgement() {
    for (command, ack) in
        [(Command::Pause {}, "pause_ack done"), (Command::Interrupt {}, "interrupt_ack done")]
    {
        let after = json!({ "afterStop": { "command": command.name(), "steps": [{ "say": "still here" }] } });
        let steps = json!([turn(json!([after, { "say": "armed" }, { "waitForMessage": {} }]))]);
        let (gateway, _folders, _sidecar) = playing(steps).await;
        gateway.sees("assistant_message text armed").await;
        gateway.send(command);
        let at = gateway.sees("assistant_message text still here").await;
        assert_eq!(gateway.story()[at - 1], ack);
        assert_eq!(gateway.delivered()[at].body["turnId"], "turn-1-1");
    }
}
