//! Backpressure (decision 96): while many envelopes wait, an event that continues or replaces the last waiting one is merged into it.
//!
//! Nothing is dropped, nothing overtakes another event, and an event is durable when its append returns. A merged event gets no sequence
//! of its own, so sequences have no gaps.

use std::collections::BTreeMap;

use pilothouse_sqlite::rusqlite::{Connection, OptionalExtension as _, params};
use pilothouse_wire::{Envelope, RawEvent, Signed};
use serde_json::json;

use super::envelopes::{Delivery, insert_all, last_sequence};
use super::{Outgoing, OutgoingContent, Sealer, SpoolError};
use crate::oversize::{self, LOG_PIECE_BYTES};

/// Schema step: the number of merged events by kind, until the owner is notified.
pub(super) const TABLES: &str =
    "CREATE TABLE merged (kind TEXT PRIMARY KEY, events INTEGER NOT NULL) STRICT, WITHOUT ROWID;";

/// Name of the notice with the counts.
const NOTICE: &str = "backpressure";
/// Events are merged while more envelopes wait.
pub(super) const MAX_WAITING: u64 = 500;
/// The owner is notified when no more envelopes wait, or after this many merged events.
const RELIEVED: u64 = 250;
const NOTICE_AFTER: u64 = 10_000;

/// Appends events in their order. Returns the last sequence.
pub(super) fn append(db: &Connection, sealer: &Sealer, outgoing: &[Outgoing]) -> Result<u64, SpoolError> {
    for one in outgoing {
        if merge_into_last(db, sealer, one)? {
            if merged(db)?.values().sum::<u64>() >= NOTICE_AFTER {
                notify(db, sealer)?;
            }
        } else {
            insert_all(db, sealer, std::slice::from_ref(one))?;
        }
    }
    last_sequence(db)
}

/// Adds the notice with the counts once few envelopes wait.
pub(super) fn notify_if_relieved(db: &Connection, sealer: &Sealer) -> Result<(), SpoolError> {
    if !merged(db)?.is_empty() && waiting(db, RELIEVED + 1)? <= RELIEVED {
        notify(db, sealer)?;
    }
    Ok(())
}

fn notify(db: &Connection, sealer: &Sealer) -> Result<(), SpoolError> {
    let counts = merged(db)?;
    let total: u64 = counts.values().sum();
    let summary = format!(
        "The agent reported faster than its events could be sent, so {total} of them were merged into earlier ones. None was dropped."
    );
    let detail = Some(json!({ "merged": counts, "total": total }));
    insert_all(
        db,
        sealer,
        &[Outgoing::event(RawEvent::Notice { name: NOTICE.to_owned(), summary, detail })?],
    )?;
    db.execute("DELETE FROM merged", [])?;
    Ok(())
}

fn merged(db: &Connection) -> Result<BTreeMap<String, u64>, SpoolError> {
    let mut statement = db.prepare_cached("SELECT kind, events FROM merged")?;
    let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// The number of waiting envelopes, or `limit` if there are more. Envelopes that a replay repeats do not count: they say nothing about
/// the pace of the agent.
fn waiting(db: &Connection, limit: u64) -> Result<u64, SpoolError> {
    let count = "SELECT COUNT(*) FROM (SELECT 1 FROM outgoing WHERE state = 0 AND attempt = 1 LIMIT ?1)";
    Ok(db.prepare_cached(count)?.query_row([limit], |row| row.get(0))?)
}

/// Merges an event into the last envelope, if many wait and the two fit. Returns whether it did.
fn merge_into_last(db: &Connection, sealer: &Sealer, next: &Outgoing) -> Result<bool, SpoolError> {
    let Outgoing { content: OutgoingContent::Event(event), delivery: Delivery::Normal, occurred_at, .. } =
        next
    else {
        return Ok(false);
    };
    if !is_mergeable(event) || waiting(db, MAX_WAITING + 1)? <= MAX_WAITING {
        return Ok(false);
    }
    // Envelopes are sent in order, so the last of so many is not being sent.
    let last: Option<(u64, String)> = db
        .prepare_cached(
            "SELECT sequence, body FROM outgoing WHERE sequence = (SELECT MAX(sequence) FROM outgoing)
             AND state = 0 AND attempt = 1 AND extra_sends = 0 AND send_order = sequence",
        )?
        .query_row([], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    let Some((sequence, body)) = last else { return Ok(false) };
    let Some(combined) = parse(&body).and_then(|last| combine(last, event)) else { return Ok(false) };
    // Also removes a secret that the two events had in parts.
    let Ok(combined) = sealer.redactor().event(combined) else { return Ok(false) };
    let mut blobs = Vec::new();
    let fitting = oversize::fit(combined, &mut blobs)?;
    let ([combined], true) = (fitting.as_slice(), blobs.is_empty()) else { return Ok(false) };
    let (message_id, envelope) = sealer.seal(Some(sequence), None, *occurred_at, combined)?;
    db.prepare_cached("UPDATE outgoing SET message_id = ?2, body = ?3 WHERE sequence = ?1")?
        .execute(params![sequence, message_id.to_string(), envelope])?;
    db.prepare_cached(
        "INSERT INTO merged (kind, events) VALUES (?1, 1) ON CONFLICT (kind) DO UPDATE SET events = events + 1",
    )?
    .execute([event.name()])?;
    Ok(true)
}

/// The event of an envelope. `None` if it is not a known one.
fn parse(body: &str) -> Option<RawEvent> {
    let signed = Signed::parse(body).ok()?;
    serde_json::from_str::<Envelope<RawEvent>>(signed.envelope.get()).ok().map(|envelope| envelope.body)
}

/// Chunks of output, and reports of progress that contain all of their predecessor. Results, requests, decisions, acknowledgements and ends
/// are never merged.
const fn is_mergeable(event: &RawEvent) -> bool {
    matches!(event, RawEvent::LogChunk { .. } | RawEvent::UsageUpdate(_) | RawEvent::TaskList { .. })
}

/// The event with the contents of both. `None` if they do not belong together, or are too large.
fn combine(last: RawEvent, next: &RawEvent) -> Option<RawEvent> {
    match (last, next) {
        (RawEvent::LogChunk { stream, content }, RawEvent::LogChunk { stream: of_next, content: more })
            if stream == *of_next && content.len() + more.len() <= LOG_PIECE_BYTES =>
        {
            Some(RawEvent::LogChunk { stream, content: content + more })
        }
        // Totals include the earlier ones.
        (RawEvent::UsageUpdate(last), RawEvent::UsageUpdate(next))
            if (&last.meter_id, &last.model_id, &last.subagent_id)
                == (&next.meter_id, &next.model_id, &next.subagent_id) =>
        {
            let mut total = next.clone();
            total.context_window = next.context_window.or(last.context_window);
            Some(RawEvent::UsageUpdate(total))
        }
        (RawEvent::TaskList { .. }, RawEvent::TaskList { tasks }) => {
            Some(RawEvent::TaskList { tasks: tasks.clone() })
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use pilothouse_domain::value::TokenUsage;
    use pilothouse_domain::{MeterId, Timestamp, ToolCallId};
    use proptest::prelude::*;
    use serde_json::Value;

    use super::*;
    use crate::spool::Spool;
    use crate::spool::tests::{bodies, open};

    /// Events that are never merged.
    const CRITICAL: [fn(u32) -> RawEvent; 2] = [
        |n| RawEvent::ToolResult {
            tool_call_id: ToolCallId::parse(format!("call-{n}")).unwrap(),
            content: "done".into(),
            is_error: false,
            subagent_id: None,
        },
        |n| RawEvent::Notice { name: "result".into(), summary: n.to_string(), detail: None },
    ];

    fn log(stream: &str, content: &str) -> RawEvent {
        RawEvent::LogChunk { stream: stream.into(), content: content.into() }
    }

    fn usage(meter: &str, total: u32) -> RawEvent {
        RawEvent::UsageUpdate(pilothouse_wire::event::UsageUpdate {
            meter_id: MeterId::parse(meter.to_owned()).unwrap(),
            model_id: "m".into(),
            subagent_id: None,
            cost_usd: total.to_string(),
            token_usage: TokenUsage::default(),
            context_window: None,
        })
    }

    async fn append(spool: &Spool, events: &[RawEvent]) {
        let outgoing = events.iter().map(|event| Outgoing::event(event.clone()).unwrap()).collect();
        spool.append_all(outgoing).await.unwrap();
    }

    /// A spool with as many waiting envelopes as there may be.
    async fn filled(dir: &std::path::Path) -> Spool {
        let spool = open(dir);
        let waiting: Vec<_> = (0..=MAX_WAITING).map(|_| CRITICAL[1](0)).collect();
        append(&spool, &waiting).await;
        spool
    }

    async fn after_filling(spool: &Spool) -> Vec<Value> {
        bodies(spool).await.split_off(usize::try_from(MAX_WAITING).unwrap() + 1)
    }

    async fn accept_all(spool: &Spool) {
        let batch = spool.batch(10_000, usize::MAX).await.unwrap();
        spool
            .accepted(
                batch.entries.iter().map(|entry| (entry.sequence, entry.attempt)).collect(),
                10,
                usize::MAX,
            )
            .await
            .unwrap();
    }

    #[tokio::test]
    async fn few_waiting_envelopes_are_not_merged() {
        let dir = tempfile::tempdir().unwrap();
        let spool = open(dir.path());
        append(&spool, &[log("a", "1"), log("a", "2"), usage("m", 1), usage("m", 2)]).await;
        assert_eq!(bodies(&spool).await.len(), 4);
        accept_all(&spool).await;
        assert_eq!(bodies(&spool).await.len(), 0, "nothing was merged");
    }

    #[tokio::test]
    async fn owner_sees_the_counts_when_the_backlog_is_sent() {
        let dir = tempfile::tempdir().unwrap();
        let spool = filled(dir.path()).await;
        append(&spool, &[log("a", "1"), log("a", "2"), log("a", "3"), usage("m", 1), usage("m", 2)]).await;
        assert_eq!(after_filling(&spool).await.len(), 2);
        accept_all(&spool).await;
        let left = bodies(&spool).await;
        assert_eq!(left.len(), 1, "{left:?}");
        assert_eq!((&left[0]["name"], &left[0]["detail"]["total"]), (&json!("backpressure"), &json!(3)));
        assert_eq!(left[0]["detail"]["merged"], json!({ "log_chunk": 2, "usage_update": 1 }));
        accept_all(&spool).await;
        assert_eq!(bodies(&spool).await.len(), 0, "the notice is sent once");
    }

    #[tokio::test]
    async fn merged_chunks_stay_small_and_hide_split_secrets() {
        let dir = tempfile::tempdir().unwrap();
        let spool = filled(dir.path()).await;
        spool.redactor().keep("kestrel-kestrel");
        append(&spool, &[log("a", "kestrel"), log("a", "-kestrel")]).await;
        let half = "x".repeat(LOG_PIECE_BYTES / 2);
        append(&spool, &[log("b", &half), log("b", &half), log("b", &half)]).await;
        let after = after_filling(&spool).await;
        let lengths: Vec<_> = after.iter().map(|it| it["content"].as_str().unwrap().len()).collect();
        assert!(!after[0].to_string().contains("kestrel"), "{}", after[0]);
        assert_eq!(lengths[1..], [LOG_PIECE_BYTES, LOG_PIECE_BYTES / 2]);
    }

    #[tokio::test]
    async fn merged_event_has_the_time_of_the_latest_one() {
        let dir = tempfile::tempdir().unwrap();
        let spool = filled(dir.path()).await;
        for millis in [1, 2] {
            let at = Timestamp::from_millis(millis);
            spool.append(Outgoing::event(log("a", "x")).unwrap().occurred(Some(at))).await.unwrap();
        }
        let batch = spool.batch(10_000, usize::MAX).await.unwrap();
        let signed = Signed::parse(&batch.entries.last().unwrap().body).unwrap();
        let envelope: Envelope<RawEvent> = serde_json::from_str(signed.envelope.get()).unwrap();
        assert_eq!(envelope.body, log("a", "xx"));
        assert_eq!(envelope.occurred_at, Some(Timestamp::from_millis(2)));
    }

    #[tokio::test]
    async fn envelope_that_a_replay_repeats_is_not_changed() {
        let dir = tempfile::tempdir().unwrap();
        let spool = filled(dir.path()).await;
        append(&spool, &[log("a", "1")]).await;
        spool.db.write(|db| super::super::envelopes::resend(db, 1, 10_000)).await.unwrap();
        append(&spool, &[log("a", "2")]).await;
        assert_eq!(after_filling(&spool).await.len(), 2);
    }

    fn events() -> impl Strategy<Value = Vec<RawEvent>> {
        let event = prop_oneof![
            4 => ("[ab]", "[a-z]{0,5}").prop_map(|(stream, text)| log(&stream, &text)),
            2 => ("[mn]", 0_u32..100).prop_map(|(meter, total)| usage(&meter, total)),
            1 => Just(RawEvent::TaskList { tasks: Vec::new() }),
            2 => (0_u32..100, 0_usize..2).prop_map(|(n, which)| CRITICAL[which](n)),
        ];
        proptest::collection::vec(event, 0..60)
    }

    /// The events with neighbours merged, by the rule in its shortest form.
    fn expected(events: &[RawEvent]) -> Vec<Value> {
        let mut all: Vec<Value> = Vec::new();
        for event in events.iter().map(|event| json!(event)) {
            let same = |last: &Value, fields: &[&str]| fields.iter().all(|field| last[field] == event[field]);
            match (all.last_mut(), event["type"].as_str()) {
                (Some(last), Some("log_chunk")) if same(last, &["type", "stream"]) => {
                    let text = [&last["content"], &event["content"]].map(|it| it.as_str().unwrap()).concat();
                    last["content"] = text.into();
                }
                (Some(last), Some("usage_update")) if same(last, &["type", "meterId"]) => *last = event,
                (Some(last), Some("task_list")) if same(last, &["type"]) => *last = event,
                _ => all.push(event),
            }
        }
        all
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]

        #[test]
        fn merging_keeps_every_content_and_the_order(events in events(), cut in 0_usize..60) {
            let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
            let (after, sequences) = runtime.block_on(async {
                let dir = tempfile::tempdir().unwrap();
                let spool = filled(dir.path()).await;
                let (first, second) = events.split_at(cut.min(events.len()));
                append(&spool, first).await;
                append(&spool, second).await;
                let batch = spool.batch(10_000, usize::MAX).await.unwrap();
                let sequences: Vec<_> = batch.entries.iter().map(|entry| entry.sequence).collect();
                (after_filling(&spool).await, sequences)
            });
            prop_assert_eq!(&after, &expected(&events));
            let all = u64::try_from(sequences.len()).unwrap();
            prop_assert_eq!(sequences, (1..=all).collect::<Vec<_>>(), "sequences have no gaps");
        }
    }
}
