//! Every event arrives once and in order, despite failures of the gateway and the process.

use std::time::Duration;

use nix::sys::signal::Signal;
use pilothouse_wire::Command;
use pilothouse_wire::keys::sha256_hex;
use serde_json::json;

use crate::gateway::{Gateway, Plan};
use crate::sidecar::{Folders, begin, much, playing, turn};

pub(crate) fn assert_complete(gateway: &Gateway) {
    let sequences: Vec<_> = gateway.delivered().iter().map(|e| e.sequence).collect();
    let expected: Vec<_> = (1..=sequences.len() as u64).collect();
    assert_eq!(sequences, expected, "from 1, without gaps, in order, each once");
}

#[tokio::test]
async fn unreliable_gateway_gets_everything_once_and_in_order() {
    let gateway = Gateway::start().await;
    let plans = [
        Plan::Refuse(503),
        Plan::LoseResponse,
        Plan::Part(1),
        Plan::Delay(Duration::from_millis(50)),
        Plan::Part(0),
        Plan::Refuse(500),
        Plan::LoseResponse,
        Plan::Part(3),
        Plan::LoseResponse,
    ];
    gateway.plan(plans);
    let folders = Folders::new(&gateway);
    let _sidecar = folders.start();
    gateway.send(begin(json!({ "script": { "steps": [turn(json!([much(60)]))] } })));
    gateway.sees("turn_completed").await;
    assert_complete(&gateway);
    assert_eq!(gateway.delivered()[0].short(), "sidecar_ready");
    let said = gateway.story().iter().filter(|s| *s == "assistant_message text line").count();
    assert_eq!(said, 60);
}

#[tokio::test]
async fn drain_after_a_kill_sends_the_rest_in_order_and_reports_it() {
    let (gateway, folders, sidecar) = playing(json!([turn(json!([much(2000)]))])).await;
    gateway.sees_nth("assistant_message", 20).await;
    // The gateway accepts no events, while the agent continues.
    gateway.status(Some(503));
    let before = gateway.delivered().len();
    let spool = folders.run().join("spool.db");
    let unsent = || unsent(&spool);
    gateway.until("a spool with unsent events", |_| (unsent() > 30).then_some(())).await;
    sidecar.signal(Signal::SIGKILL);
    sidecar.ended().await;
    let left = unsent();
    gateway.status(None);
    // The response to the first batch is lost as well, but no event is delivered twice.
    gateway.plan([Plan::LoseResponse, Plan::Part(2)]);
    assert_eq!(folders.drain().await.code(), Some(0));
    assert_complete(&gateway);
    assert_eq!(gateway.delivered().len(), before + left);
    assert_eq!(folders.drain().await.code(), Some(0), "nothing is left");
    assert_eq!(gateway.delivered().len(), before + left);
}

fn unsent(spool: &std::path::Path) -> usize {
    use pilothouse_sqlite::rusqlite::{Connection, OpenFlags};
    let db = Connection::open_with_flags(spool, OpenFlags::SQLITE_OPEN_READ_ONLY).unwrap();
    db.busy_timeout(Duration::from_secs(5)).unwrap();
    db.query_row("SELECT COUNT(*) FROM outgoing WHERE state = 0", [], |row| row.get(0)).unwrap()
}

#[tokio::test]
async fn a_run_has_one_sidecar() {
    let gateway = Gateway::start().await;
    let folders = Folders::new(&gateway);
    let first = folders.start();
    gateway.sees("sidecar_ready").await;
    assert_eq!(folders.start().ended().await.code(), Some(3));
    assert_eq!(folders.drain().await.code(), Some(3));
    assert_eq!(std::fs::read_to_string(folders.run().join("lock")).unwrap(), first.pid().to_string());
    assert_eq!(gateway.delivered().len(), 1);
}

#[tokio::test]
async fn restarted_sidecar_continues_sequences_and_reports_agent_loss() {
    let (gateway, folders, sidecar) = playing(json!([turn(json!([much(5000)]))])).await;
    gateway.sees_nth("assistant_message", 5).await;
    sidecar.signal(Signal::SIGKILL);
    sidecar.ended().await;
    let _second = folders.start();
    gateway.sees("session_end agent_lost").await;
    assert_complete(&gateway);
    let again = gateway.send(Command::Interrupt {});
    gateway.acknowledged(again, "no-agent").await;
    assert_eq!(gateway.story().iter().filter(|s| *s == "sidecar_ready").count(), 1);
}

#[tokio::test]
async fn large_result_is_stored_before_the_event_that_names_it() {
    let text = "0123456789abcdef".repeat(20_000);
    let tool = json!({ "tool": { "name": "Bash", "result": text } });
    let (gateway, _folders, _sidecar) = playing(json!([turn(json!([tool]))])).await;
    let at = gateway.sees("tool_result").await;
    let event = &gateway.delivered()[at];
    let sha256 = sha256_hex(text.as_bytes());
    assert_eq!(event.body["content"]["sha256"], sha256);
    assert_eq!(event.body["content"]["size"], text.len());
    assert!(event.sealed.len() < 128 * 1024);
    assert_eq!(gateway.blobs()[&sha256], text.as_bytes());
    let arrivals = gateway.arrivals();
    let position = |what: &str| arrivals.iter().position(|a| a == what).unwrap();
    assert!(position("blob") < position(&format!("event {}", event.sequence)));
    gateway.sees("turn_completed").await;
    assert_complete(&gateway);
}

#[tokio::test]
async fn replay_sends_the_same_envelopes_under_new_deduplication_ids() {
    let (gateway, _folders, _sidecar) = playing(json!([turn(json!([much(5)]))])).await;
    gateway.sees("turn_completed").await;
    let before = gateway.delivered();
    gateway.send(Command::Replay { from_sequence: 2, to_sequence: 4 });
    let count = before.len() + 3;
    gateway.until("the replay", |g| (g.delivered().len() == count).then_some(())).await;
    let after = gateway.delivered();
    for (again, first) in after[before.len()..].iter().zip(&before[1..4]) {
        assert_eq!((&again.sealed, again.message_id), (&first.sealed, first.message_id));
        assert_eq!(first.deduplication_id, format!("{}:1", first.message_id));
        assert_eq!(again.deduplication_id, format!("{}:2", first.message_id));
    }
}

#[tokio::test]
async fn expired_lease_stops_the_agent_and_leaves_events_to_drain() {
    let gateway = Gateway::start().await;
    let folders = Folders::with_lease(&gateway, Some(1000));
    let sidecar = folders.start();
    gateway.send(begin(json!({ "script": { "steps": [turn(json!([much(10_000)]))] } })));
    gateway.sees_nth("assistant_message", 3).await;
    gateway.status(Some(503));
    assert_eq!(sidecar.ended().await.code(), Some(4));
    gateway.status(None);
    assert_eq!(folders.drain().await.code(), Some(0));
    assert_complete(&gateway);
    let story = gateway.story();
    assert_eq!(story.last().unwrap(), "notice lease_expired", "after it, the agent did nothing");
}

/// Events, heartbeats, blobs and waiting for commands share one connection.
#[tokio::test]
async fn a_sidecar_needs_one_connection() {
    let tool = json!({ "tool": { "name": "Bash", "result": "0123456789abcdef".repeat(20_000) } });
    let (gateway, _folders, _sidecar) = playing(json!([turn(json!([tool, much(100)]))])).await;
    gateway.sees("turn_completed").await;
    let beats = gateway.heartbeats();
    gateway.until("heartbeats", |g| (g.heartbeats() > beats + 5).then_some(())).await;
    assert_eq!((gateway.connections(), gateway.blobs().len()), (1, 1));
}

/// As on a worker, whose server may be unreachable for minutes.
#[tokio::test]
async fn sidecar_without_a_lease_keeps_its_agent_during_an_outage() {
    let gateway = Gateway::start().await;
    let folders = Folders::new(&gateway);
    let _sidecar = folders.start();
    gateway.send(begin(json!({ "script": { "steps": [turn(json!([much(1000), { "say": "done" }]))] } })));
    gateway.sees_nth("assistant_message", 3).await;
    gateway.status(Some(503));
    let asked = gateway.look(|inner| inner.asked);
    // 30 heartbeat intervals, which are 7 minutes at 15 s each.
    let away = gateway.until("a long absence", |g| (g.look(|i| i.asked) > asked + 30).then_some(()));
    away.await;
    gateway.status(None);
    gateway.sees("turn_completed").await;
    assert_complete(&gateway);
    assert!(!gateway.story().iter().any(|said| said.starts_with("notice")));
}

#[tokio::test]
async fn heartbeats_renew_the_lease_of_a_quiet_sidecar() {
    let gateway = Gateway::start().await;
    let folders = Folders::with_lease(&gateway, Some(1000));
    let _sidecar = folders.start();
    gateway.until("heartbeats for twice the limit", |g| (g.heartbeats() > 10).then_some(())).await;
    let delivered = gateway.delivered();
    assert_eq!(
        delivered.len(),
        1,
        "heartbeats have no sequence, and nothing else happened: {:?}",
        gateway.story()
    );
}

#[tokio::test]
async fn a_refused_run_ends() {
    for status in [401, 410] {
        let gateway = Gateway::start().await;
        let folders = Folders::new(&gateway);
        let sidecar = folders.start();
        gateway.sees("sidecar_ready").await;
        gateway.status(Some(status));
        assert_eq!(sidecar.ended().await.code(), Some(5));
    }
}

#[tokio::test]
async fn signal_stops_the_agent_and_sends_all_events() {
    let (gateway, folders, sidecar) = playing(json!([turn(json!([much(10_000)]))])).await;
    gateway.sees_nth("assistant_message", 3).await;
    sidecar.signal(Signal::SIGTERM);
    assert_eq!(sidecar.ended().await.code(), Some(0));
    assert_eq!(unsent(&folders.run().join("spool.db")), 0);
    assert_eq!(gateway.story().last().unwrap(), "notice terminated");
    assert_complete(&gateway);
}

#[tokio::test]
async fn ending_sidecar_still_sends_requested_replays() {
    // The sidecar stops its agent and then waits until all events are accepted.
    let gap = json!({ "gap": { "step": { "say": "missing" } } });
    let (gateway, _folders, sidecar) =
        playing(json!([turn(json!([gap, { "say": "after" }, much(10_000)]))])).await;
    let after = gateway.sees("assistant_message text after").await;
    let missing = gateway.delivered()[after].sequence - 1;
    gateway.refuse_events(true);
    gateway.send(Command::Stop {});
    gateway.until("a taken stop", |g| (g.undeleted() == 0).then_some(())).await;
    gateway.send(Command::Replay { from_sequence: missing, to_sequence: missing });
    gateway.until("a taken replay", |g| (g.undeleted() == 0).then_some(())).await;
    gateway.refuse_events(false);
    assert_eq!(sidecar.ended().await.code(), Some(0));
    let at = gateway.sees("assistant_message text missing").await;
    assert_eq!(gateway.delivered()[at].sequence, missing);
    assert!(gateway.story().contains(&"stop_ack done".to_owned()));
}
