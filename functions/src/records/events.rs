//! `GET /api/agents/sessions/{id}/events`: the raw events that a session's sidecars sent, as they were recorded: the audit
//! trail, readable from any sequence (AG-017, ruling 1).

use axum::Json;
use axum::extract::State;
use pilothouse_domain::RunId;
use pilothouse_domain::journal::{Cause, JournalEntry};

use super::view;
use crate::api::Page;
use crate::api::records::RawEventView;
use crate::api::stream::{cursor, parse_cursor};
use crate::app::App;
use crate::edge::request::Parameters;
use crate::edge::{Owner, PageRequest, Problem, Session};

/// Entries that one request looks at, at most: filters cost a bounded amount.
const READS: usize = 2000;

/// A page ends when its bodies have this many bytes, far below what Lambda answers.
const PAGE_BYTES: usize = 1_000_000;

/// Which run's events are wanted: one by its id, or by its place among the session's runs.
enum Run {
    Id(RunId),
    Ordinal(u32),
}

impl Run {
    fn parse(text: &str) -> Result<Self, Problem> {
        text.parse().map(Self::Ordinal).or_else(|_| text.parse().map(Self::Id)).map_err(|_| {
            Problem::invalid(
                "run",
                "must be the id of a run, or its place among the session's runs (1, 2, …)",
            )
        })
    }

    fn has(&self, entry: &JournalEntry) -> bool {
        match (&entry.cause, self) {
            (Cause::Agent { run_id, .. }, Self::Id(wanted)) => run_id == wanted,
            (Cause::Agent { run, .. }, Self::Ordinal(wanted)) => run == wanted,
            _ => false,
        }
    }
}

/// 200 with a page in the order of recording. Without `run`, `from` is a place in the session's journal; with it, a
/// sequence of that run, as its sidecar counted. What has expired (ruling 38) is not there any more.
pub async fn handle(
    State(app): State<App>,
    Owner(owner): Owner,
    Session(id): Session,
    page: PageRequest,
    parameters: Parameters,
) -> Result<Json<Page<RawEventView>>, Problem> {
    let session = app.session_of(&owner, id).await?;
    let run = parameters.text("run").map(Run::parse).transpose()?;
    let from: u64 = parameters
        .parsed("from")
        .map_err(|_| Problem::invalid("from", "must be a sequence: a whole number"))?
        .unwrap_or(0);
    let mut after = match page.cursor.as_deref() {
        None if run.is_none() => from.saturating_sub(1),
        None => 0,
        Some(text) => parse_cursor(text)
            .filter(|(sequence, seen)| *seen == 0 && *sequence <= session.journal_sequence())
            .map(|(sequence, _)| sequence)
            .ok_or_else(|| Problem::invalid("cursor", "is not a cursor of this list"))?,
    };
    let mut items = Vec::new();
    let (mut looked_at, mut bytes) = (0, 0);
    while looked_at < READS && after < session.journal_sequence() {
        let entries = app.store.journal(id, after, page.limit.max(50)).await?;
        if entries.is_empty() {
            return Ok(Json(Page { items, next_cursor: None }));
        }
        for entry in entries {
            looked_at += 1;
            let Some(event) = view::recorded(&entry) else {
                after = entry.sequence;
                continue;
            };
            let wanted = run.as_ref().is_none_or(|run| {
                // What the runtime says of a run's end has no sequence and comes after all that have one.
                run.has(&entry) && event.sequence.is_none_or(|sequence| sequence >= from)
            });
            if wanted && (items.len() == page.limit || bytes > PAGE_BYTES) {
                return Ok(Json(Page { items, next_cursor: Some(cursor(after)) }));
            }
            after = entry.sequence;
            if wanted {
                bytes += event.body.to_string().len();
                items.push(event);
            }
        }
    }
    let more = after < session.journal_sequence();
    Ok(Json(Page { items, next_cursor: more.then(|| cursor(after)) }))
}
