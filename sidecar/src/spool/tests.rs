//! The guarantees of the spool, without a network.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::Path;

use pilothouse_domain::{AgentSessionId, CommandId, MessageId, RunId, TraceParent};
use pilothouse_wire::command::IssuedCommand;
use pilothouse_wire::event::{Ack, AckStep, MessagePhase};
use pilothouse_wire::launch::{AgentApiAccess, BrokerAccess, LaunchRequest, OfflineLimits, SidecarLaunch};
use pilothouse_wire::{Command, Envelope, RawEvent, RootSecret, Signed};
use uuid::Uuid;

use super::*;

/// A launch without a reachable broker.
pub(crate) fn launch() -> SidecarLaunch {
    let secret = RootSecret::new("k", vec![1; 32]).unwrap();
    let (session_id, run_id) = (AgentSessionId::new(Uuid::from_u128(1)), RunId::new(Uuid::from_u128(2)));
    SidecarLaunch {
        request: LaunchRequest {
            session_id,
            run_id,
            ordinal: 1,
            retry_count: 0,
            adapter: "script".into(),
            working_directory: "/".into(),
            worker_labels: std::collections::BTreeMap::new(),
            lease_ms: None,
            authorize_tools: false,
            agent: None,
            secrets: Vec::new(),
            workspace: None,
        },
        envelope_key: secret.envelope_key(run_id),
        key_id: "k".into(),
        broker: BrokerAccess::Gateway {
            url: String::new(),
            token: secret.gateway_token(session_id, run_id),
            http2: false,
        },
        session_home: "/".into(),
        agent_api: AgentApiAccess { url: String::new(), api_key: String::new() },
        heartbeat_seconds: 1.0,
        offline: OfflineLimits::default(),
        confinement: None,
        hidden_where_supported: Vec::new(),
    }
}

pub(crate) fn open(dir: &Path) -> Spool {
    Spool::open(&dir.join("spool.db"), Sealer::new(&launch())).unwrap()
}

fn log(text: &str) -> Outgoing {
    Outgoing::event(RawEvent::LogChunk { stream: "agent".into(), content: text.into() }).unwrap()
}

async fn unsent(spool: &Spool) -> Vec<(u64, u32)> {
    let batch = spool.batch(1000, usize::MAX).await.unwrap();
    batch.entries.iter().map(|e| (e.sequence, e.attempt)).collect()
}

fn issued(command: Command, attempt: u8) -> IssuedCommand {
    IssuedCommand { command_id: CommandId::new(Uuid::from_u128(9)), attempt, command }
}

fn ack(issued: &IssuedCommand, step: AckStep) -> RawEvent {
    RawEvent::PauseAck(Ack { command_id: issued.command_id, step })
}

pub(crate) async fn bodies(spool: &Spool) -> Vec<serde_json::Value> {
    let batch = spool.batch(10_000, usize::MAX).await.unwrap();
    let envelope = |e: BatchEntry| Signed::parse(&e.body).unwrap().envelope.get().to_owned();
    let body = |json: String| serde_json::from_str::<serde_json::Value>(&json).unwrap()["body"].clone();
    batch.entries.into_iter().map(envelope).map(body).collect()
}

#[tokio::test]
async fn sequences_continue_after_a_restart_without_gaps() {
    let dir = tempfile::tempdir().unwrap();
    let spool = open(dir.path());
    assert_eq!(spool.append(log("a")).await.unwrap(), 1);
    assert_eq!(spool.append_all(vec![log("b"), log("c")]).await.unwrap(), 3);
    spool.accepted(vec![(1, 1)], 10, usize::MAX).await.unwrap();
    drop(spool);
    let spool = open(dir.path());
    assert_eq!(spool.append(log("d")).await.unwrap(), 4);
    assert_eq!(unsent(&spool).await, [(2, 1), (3, 1), (4, 1)]);
}

#[tokio::test]
async fn concurrent_appends_never_share_or_skip_a_sequence() {
    let dir = tempfile::tempdir().unwrap();
    let spool = open(dir.path());
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..100 {
        let spool = spool.clone();
        tasks.spawn(async move { spool.append(log("x")).await.unwrap() });
    }
    let mut sequences = tasks.join_all().await;
    sequences.sort_unstable();
    assert_eq!(sequences, (1..=100).collect::<Vec<_>>());
}

#[tokio::test]
async fn torn_write_at_the_end_loses_nothing_acknowledged() {
    let dir = tempfile::tempdir().unwrap();
    let copy = tempfile::tempdir().unwrap();
    let spool = open(dir.path());
    for n in 0..20 {
        spool.append(log(&n.to_string())).await.unwrap();
    }
    // As after a kill: half a write follows the last commit.
    for name in ["spool.db", "spool.db-wal"] {
        std::fs::copy(dir.path().join(name), copy.path().join(name)).unwrap();
    }
    let mut wal = OpenOptions::new().append(true).open(copy.path().join("spool.db-wal")).unwrap();
    wal.write_all(&[0xA5; 3000]).unwrap();
    let recovered = open(copy.path());
    assert_eq!(unsent(&recovered).await.len(), 20);
    assert_eq!(recovered.append(log("next")).await.unwrap(), 21);
}

#[tokio::test]
async fn batch_is_bounded_in_count_and_bytes_but_never_empty() {
    let dir = tempfile::tempdir().unwrap();
    let spool = open(dir.path());
    for _ in 0..20 {
        spool.append(log(&"x".repeat(1000))).await.unwrap();
    }
    for (most, bytes, taken, full) in
        [(10, usize::MAX, 10, true), (10, 4000, 2, true), (10, 1, 1, true), (30, usize::MAX, 20, false)]
    {
        let batch = spool.batch(most, bytes).await.unwrap();
        assert_eq!((batch.entries.len(), batch.is_full), (taken, full), "{most} of {bytes} bytes");
    }
}

/// They may be acknowledgements.
#[tokio::test]
async fn envelopes_of_an_earlier_version_do_not_wait() {
    let dir = tempfile::tempdir().unwrap();
    let earlier = Schema { steps: &SCHEMA.steps[..3], ..SCHEMA };
    let db = Database::open(dir.path().join("spool.db"), &[earlier]).unwrap();
    let event = RawEvent::LogChunk { stream: "agent".into(), content: "a".into() };
    let (id, body) = Sealer::new(&launch()).seal(Some(1), None, None, event).unwrap();
    let sql = "INSERT INTO outgoing (sequence, send_order, message_id, body, state) VALUES (1, 1, ?1, ?2, 0)";
    db.write(move |db| db.execute(sql, [id.to_string(), body])).await.unwrap();
    drop(db);
    let spool = open(dir.path());
    spool.append(log("b")).await.unwrap();
    let batch = spool.batch(10, usize::MAX).await.unwrap();
    let urgent: Vec<_> = batch.entries.iter().map(|entry| entry.urgency).collect();
    assert_eq!(urgent, [Urgency::Now, Urgency::Progress]);
    assert!(batch.is_due());
}

#[tokio::test]
async fn a_replay_during_a_send_is_not_lost() {
    let dir = tempfile::tempdir().unwrap();
    let spool = open(dir.path());
    spool.append_all(vec![log("a"), log("b")]).await.unwrap();
    spool.accepted(vec![(1, 1)], 10, usize::MAX).await.unwrap();
    // The replay requests 2 while it is being sent, because it may be lost.
    let replay = issued(Command::Replay { from_sequence: 1, to_sequence: u64::MAX }, 1);
    assert_eq!(spool.take(replay.clone(), None, None).await.unwrap(), Taken::Replayed(2));
    spool.accepted(vec![(2, 1)], 10, usize::MAX).await.unwrap();
    assert_eq!(unsent(&spool).await, [(1, 2), (2, 2)]);
    assert_eq!(spool.take(replay, None, None).await.unwrap(), Taken::Repeat, "the queue brings it twice");
    assert_eq!(unsent(&spool).await, [(1, 2), (2, 2)]);
    assert_eq!(spool.unfinished().await.unwrap(), [], "nothing is left to do");
}

#[tokio::test]
async fn repeated_command_gets_its_last_acknowledgement() {
    let dir = tempfile::tempdir().unwrap();
    let spool = open(dir.path());
    let pause = issued(Command::Pause {}, 1);
    let received = || Some(ack(&pause, AckStep::Received));
    assert_eq!(spool.take(pause.clone(), None, received()).await.unwrap(), Taken::New);
    assert_eq!(spool.take(pause.clone(), None, received()).await.unwrap(), Taken::Repeat);
    assert_eq!(bodies(&spool).await.len(), 1, "the same attempt is not answered");
    spool.acknowledge(pause.command_id, ack(&pause, AckStep::Done), true).await.unwrap();
    drop(spool);
    let spool = open(dir.path());
    assert_eq!(spool.take(issued(Command::Pause {}, 2), None, received()).await.unwrap(), Taken::Repeat);
    let steps: Vec<_> = bodies(&spool).await.iter().map(|b| b["step"].clone()).collect();
    assert_eq!(steps, ["received", "done", "done"]);
}

#[tokio::test]
async fn unfinished_commands_persist_except_uncertain_messages() {
    let dir = tempfile::tempdir().unwrap();
    let spool = open(dir.path());
    let pause = issued(Command::Pause {}, 1);
    spool.take(pause.clone(), None, None).await.unwrap();
    let message_id = pilothouse_domain::MessageId::new(Uuid::from_u128(5));
    let message = IssuedCommand {
        command_id: CommandId::new(Uuid::from_u128(10)),
        attempt: 1,
        command: Command::SteeringMessage {
            message_id,
            content: "x".into(),
            images: Vec::new(),
            priority: pilothouse_domain::value::MessagePriority::Immediate,
            source: pilothouse_domain::value::MessageSource::User,
            expected_turn_id: None,
        },
    };
    spool.take(message.clone(), None, None).await.unwrap();
    assert_eq!(spool.unfinished().await.unwrap(), [pause.clone(), message.clone()]);
    let injecting =
        RawEvent::MessageAck { command_id: message.command_id, message_id, phase: MessagePhase::Injecting };
    spool.acknowledge(message.command_id, injecting, false).await.unwrap();
    assert_eq!(spool.unfinished().await.unwrap(), [pause]);
}

/// A pause may be carried out while the agent starts, before its `begin` is.
#[tokio::test]
async fn stop_that_was_carried_out_shows_that_an_agent_was_started() {
    for is_refused in [true, false] {
        let dir = tempfile::tempdir().unwrap();
        let spool = open(dir.path());
        let pause = issued(Command::Pause {}, 1);
        let command_id = pause.command_id;
        spool.take(pause.clone(), None, Some(ack(&pause, AckStep::Received))).await.unwrap();
        assert!(!spool.begun().await.unwrap());
        let refused =
            RawEvent::CommandRefused { command_id, code: "no-agent".into(), message: "none".into() };
        let answer = if is_refused { refused } else { ack(&pause, AckStep::Done) };
        spool.acknowledge(command_id, answer, true).await.unwrap();
        assert_eq!(spool.begun().await.unwrap(), !is_refused);
    }
}

/// The spooled events, each with its span.
async fn places(spool: &Spool) -> Vec<(String, Option<String>)> {
    let batch = spool.batch(1000, usize::MAX).await.unwrap();
    let events = batch.entries.into_iter().map(|entry| {
        let signed = Signed::parse(&entry.body).unwrap();
        let opened = signed.open(&launch().envelope_key).unwrap();
        let body: serde_json::Value = serde_json::from_str(opened.body.get()).unwrap();
        (body["type"].as_str().unwrap().to_owned(), opened.traceparent.map(TraceParent::span_id))
    });
    events.collect()
}

#[tokio::test]
async fn events_carry_the_trace_of_their_command_or_message() {
    let dir = tempfile::tempdir().unwrap();
    let spool = open(dir.path());
    let pause = issued(Command::Pause {}, 1);
    spool.take(pause.clone(), TraceParent::new(1, 0xa), Some(ack(&pause, AckStep::Received))).await.unwrap();
    let (command_id, message_id) = (CommandId::new(Uuid::from_u128(10)), MessageId::new(Uuid::from_u128(5)));
    let message = Command::SteeringMessage {
        message_id,
        content: "x".into(),
        images: Vec::new(),
        priority: pilothouse_domain::value::MessagePriority::Immediate,
        source: pilothouse_domain::value::MessageSource::User,
        expected_turn_id: None,
    };
    let message = IssuedCommand { command_id, attempt: 1, command: message };
    spool.take(message, TraceParent::new(1, 0xb), None).await.unwrap();
    let injected = RawEvent::MessageAck { command_id, message_id, phase: MessagePhase::Injected };
    spool.acknowledge(command_id, injected, true).await.unwrap();
    let turn_id = pilothouse_domain::TurnId::parse("t1".to_owned()).unwrap();
    let started = RawEvent::TurnStarted { turn_id: turn_id.clone(), message_id: Some(message_id) };
    spool.append(Outgoing::event(started).unwrap()).await.unwrap();
    drop(spool);
    let spool = open(dir.path());
    spool.append(log("a")).await.unwrap();
    spool.acknowledge(pause.command_id, ack(&pause, AckStep::Done), true).await.unwrap();
    let over = RawEvent::TurnCompleted {
        turn_id,
        output: None,
        outcome: pilothouse_domain::value::SessionOutcome::Completed,
    };
    spool.append(Outgoing::event(over).unwrap()).await.unwrap();
    // The answer to a later attempt is in the span of the first one.
    spool.take(issued(Command::Pause {}, 2), None, None).await.unwrap();
    let (a, b) = (Some("000000000000000a"), Some("000000000000000b"));
    let expected = [
        ("pause_ack", a),
        ("message_ack", b),
        ("turn_started", b),
        ("log_chunk", None),
        ("pause_ack", a),
        ("turn_completed", b),
        ("pause_ack", a),
    ];
    let said = places(&spool).await;
    let said: Vec<_> = said.iter().map(|(name, place)| (name.as_str(), place.as_deref())).collect();
    assert_eq!(said, expected);
}

#[tokio::test]
async fn no_run_secret_is_spooled_in_any_form() {
    let dir = tempfile::tempdir().unwrap();
    let spool = open(dir.path());
    let launch = launch();
    let (BrokerAccess::Gateway { token, .. } | BrokerAccess::Sqs { token, .. }) = &launch.broker;
    spool.redactor().keep("sk-ant-of-the-provider");
    let leaks = format!("{} sk-ant-of-the-provider ", token.as_str());
    let result = RawEvent::ToolResult {
        tool_call_id: "call-1".parse().unwrap(),
        content: leaks.repeat(20_000).into(),
        is_error: false,
        subagent_id: None,
    };
    spool.append_all(vec![log(&leaks), Outgoing::event(result).unwrap()]).await.unwrap();
    let raw = serde_json::value::to_raw_value(&serde_json::json!({ "type": "x", "y": leaks })).unwrap();
    spool.append(Outgoing::raw(raw)).await.unwrap();
    let issued = issued(Command::Pause {}, 1);
    spool.take(issued.clone(), None, Some(ack(&issued, AckStep::Received))).await.unwrap();
    let refused =
        RawEvent::CommandRefused { command_id: issued.command_id, code: "invalid".into(), message: leaks };
    spool.acknowledge(issued.command_id, refused, true).await.unwrap();
    spool.take(IssuedCommand { attempt: 2, ..issued }, None, None).await.unwrap();

    let batch = spool.batch(1000, usize::MAX).await.unwrap();
    let mut sent: String = batch.entries.iter().map(|entry| entry.body.as_str()).collect();
    let blob = spool.next_blob(1000).await.unwrap().expect("the result is too large for an envelope");
    assert_eq!(
        blob.sha256,
        pilothouse_wire::keys::sha256_hex(&blob.bytes),
        "the key is the hash of the stored content"
    );
    sent.push_str(std::str::from_utf8(&blob.bytes).unwrap());
    assert!(sent.contains("[secret] [secret]"));
    assert!(!sent.contains(token.as_str()) && !sent.contains("sk-ant-of-the-provider"));
}

#[tokio::test]
async fn envelope_has_the_time_of_emission_if_it_is_known() {
    let dir = tempfile::tempdir().unwrap();
    let spool = open(dir.path());
    let at = Some(Timestamp::from_millis(7));
    spool.append_all(vec![log("known").occurred(at), log("unknown")]).await.unwrap();
    let batch = spool.batch(10, usize::MAX).await.unwrap();
    let times: Vec<_> = batch
        .entries
        .iter()
        .map(|entry| {
            let signed = Signed::parse(&entry.body).unwrap();
            serde_json::from_str::<Envelope<RawEvent>>(signed.envelope.get()).unwrap().occurred_at
        })
        .collect();
    assert_eq!(times, [at, None]);
}

/// Makes SQLite fail as on a full disk once the file has `pages` pages.
async fn limit(spool: &Spool, pages: u32) {
    let pragma = format!("PRAGMA max_page_count = {pages}");
    spool.write(move |db| Ok(db.execute_batch(&pragma)?)).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn full_disk_delays_events_and_loses_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let spool = open(dir.path());
    spool.append(log("before")).await.unwrap();
    limit(&spool, 1).await;
    let mut waiting = spool.waiting_for_space();
    let emitting = tokio::spawn({
        let spool = spool.clone();
        async move { spool.append_all(vec![log(&"x".repeat(20_000)), log("after")]).await }
    });
    let command = issued(Command::Pause {}, 1);
    let taking = tokio::spawn({
        let (spool, mut large) = (spool.clone(), command.clone());
        large.command = Command::SteeringMessage {
            message_id: MessageId::new(Uuid::from_u128(5)),
            content: "y".repeat(20_000),
            images: Vec::new(),
            priority: pilothouse_domain::value::MessagePriority::Immediate,
            source: pilothouse_domain::value::MessageSource::User,
            expected_turn_id: None,
        };
        async move { spool.take(large, None, None).await }
    });
    waiting.wait_for(|count| *count == 2).await.unwrap();
    tokio::time::sleep(std::time::Duration::from_mins(10)).await;
    assert!(!emitting.is_finished() && !taking.is_finished(), "nothing counts as durable");
    assert_eq!(unsent(&spool).await, [(1, 1)], "spooled events can be published meanwhile");
    limit(&spool, 1_000_000).await;
    assert_eq!(emitting.await.unwrap().unwrap(), 3);
    assert_eq!(taking.await.unwrap().unwrap(), Taken::New);
    assert_eq!(unsent(&spool).await, [(1, 1), (2, 1), (3, 1)]);
    assert_eq!(*waiting.borrow_and_update(), 0);
}
