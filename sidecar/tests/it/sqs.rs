//! A sidecar that uses the queues directly gives the same guarantees.

use pilothouse_wire::Command;
use pilothouse_wire::keys::sha256_hex;
use serde_json::{Value, json};

use crate::delivery::assert_complete;
use crate::gateway::{Gateway, Plan};
use crate::sidecar::{Folders, Sidecar, begin, much, turn};

async fn playing(steps: Value) -> (Gateway, Folders, Sidecar) {
    let gateway = Gateway::start().await;
    let folders = Folders::in_the_cloud(&gateway);
    let sidecar = folders.start();
    gateway.send(begin(json!({ "script": { "steps": steps } })));
    (gateway, folders, sidecar)
}

#[tokio::test]
async fn events_arrive_once_in_order_over_a_faulty_queue() {
    let gateway = Gateway::start().await;
    gateway.plan([
        Plan::Refuse(503),
        Plan::LoseResponse,
        Plan::Part(1),
        Plan::Part(0),
        Plan::Refuse(500),
        Plan::Part(3),
        Plan::LoseResponse,
    ]);
    let folders = Folders::in_the_cloud(&gateway);
    let _sidecar = folders.start();
    gateway.send(begin(json!({ "script": { "steps": [turn(json!([much(60)]))] } })));
    gateway.sees("turn_completed").await;
    assert_complete(&gateway);
    assert_eq!(gateway.story().iter().filter(|s| *s == "assistant_message text line").count(), 60);
    gateway.until("heartbeats", |g| (g.heartbeats() > 0).then_some(())).await;
    assert_eq!(gateway.look(|inner| inner.cloud.granted), 1, "credentials are kept");
}

/// After `begin` events are sent at once for four heartbeats, which the first wait exceeds.
#[tokio::test]
async fn events_that_are_not_urgent_share_a_request() {
    let pause = json!({ "wait": 300 });
    let steps = json!([{ "wait": 1500 }, { "say": "a" }, pause, { "say": "b" }, pause, { "say": "c" }, { "wait": 600_000 }]);
    let (gateway, _folders, _sidecar) = playing(json!([turn(steps)])).await;
    let is_said =
        |text: &str| ["a", "b", "c"].iter().any(|it| text == format!("assistant_message text {it}"));
    let shared = |gateway: &Gateway| {
        let delivered = gateway.delivered();
        let said = delivered.iter().filter(|event| is_said(&event.short()));
        let sequences: Vec<_> = said.map(|event| event.sequence).collect();
        (sequences.len() == 3 && gateway.requests().contains(&sequences)).then_some(())
    };
    gateway.until("one request with the three events", shared).await;
    assert_complete(&gateway);
}

#[tokio::test]
async fn commands_leave_the_queue_once_they_are_spooled() {
    let (gateway, _folders, sidecar) = playing(json!([turn(json!([much(10_000)]))])).await;
    gateway.sees_nth("assistant_message", 3).await;
    let stop = gateway.send(Command::Stop {});
    gateway.acknowledged(stop, "done").await;
    assert_eq!(sidecar.ended().await.code(), Some(0));
    assert_eq!(gateway.undeleted(), 0);
    assert_complete(&gateway);
}

#[tokio::test]
async fn large_result_is_stored_by_hash_before_its_event() {
    let text = "0123456789abcdef".repeat(20_000);
    let tool = json!({ "tool": { "name": "Bash", "result": text } });
    let (gateway, _folders, _sidecar) = playing(json!([turn(json!([tool]))])).await;
    let at = gateway.sees("tool_result").await;
    let sequence = gateway.delivered()[at].sequence;
    assert_eq!(gateway.blobs()[&sha256_hex(text.as_bytes())], text.as_bytes());
    let arrivals = gateway.arrivals();
    let position = |what: &str| arrivals.iter().position(|a| a == what).unwrap();
    assert!(position("blob") < position(&format!("event {sequence}")));
}

#[tokio::test]
async fn expired_credentials_are_renewed_and_nothing_is_lost() {
    let (gateway, _folders, _sidecar) = playing(json!([turn(json!([much(300)]))])).await;
    gateway.sees_nth("assistant_message", 3).await;
    gateway.with(|inner| inner.cloud.spent = inner.cloud.granted);
    gateway.sees("turn_completed").await;
    let (granted, refused) = gateway.look(|inner| (inner.cloud.granted, inner.cloud.refused));
    assert!(granted == 2 && refused >= 1, "granted {granted}, refused {refused}");
    assert_complete(&gateway);
}

#[tokio::test]
async fn the_run_ends_with_its_queue() {
    let (gateway, _folders, sidecar) = playing(json!([turn(json!([much(10_000)]))])).await;
    gateway.sees_nth("assistant_message", 3).await;
    gateway.with(|inner| inner.cloud.queue_gone = true);
    assert_eq!(sidecar.ended().await.code(), Some(5));
}

#[tokio::test]
async fn credential_refusal_is_final_and_a_failure_is_not() {
    for status in [401, 410] {
        let gateway = Gateway::start().await;
        gateway.status(Some(503));
        let folders = Folders::in_the_cloud(&gateway);
        let sidecar = folders.start();
        gateway.until("a failure", |g| g.look(|inner| (inner.asked > 1).then_some(()))).await;
        gateway.status(Some(status));
        assert_eq!(sidecar.ended().await.code(), Some(5));
    }
}

#[tokio::test]
async fn drain_uses_the_queue_too() {
    let (gateway, folders, sidecar) = playing(json!([turn(json!([much(2000)]))])).await;
    gateway.sees_nth("assistant_message", 20).await;
    sidecar.signal(nix::sys::signal::Signal::SIGKILL);
    sidecar.ended().await;
    assert_eq!(folders.drain().await.code(), Some(0));
    assert_complete(&gateway);
}
