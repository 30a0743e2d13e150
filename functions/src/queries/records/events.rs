//! `GET /api/agents/sessions/{id}/events`: lists the recorded raw events of a session's sidecars. This audit trail is readable
//! from any sequence number (AG-017, decision 1).

use axum::Json;
use axum::extract::State;
use pilothouse_api::Page;
use pilothouse_api::records::RawEventView;
use pilothouse_api::stream::{cursor, parse_cursor};
use pilothouse_app::App;
use pilothouse_app::function::{HttpFunction, Verb};
use pilothouse_app::http::request::Parameters;
use pilothouse_app::http::{Owner, PageRequest, Problem, Session};
use pilothouse_app::journal_views;
use pilothouse_domain::RunId;
use pilothouse_domain::journal::{Cause, JournalEntry};

pub const FUNCTION: HttpFunction =
    HttpFunction::new("records-events", Verb::Get, "/api/agents/sessions/{id}/events", |verb| {
        verb.route(list_raw_events)
    })
    .owner()
    .summary("List the raw events of a session")
    .query(&["limit", "cursor", "from", "run"])
    .output::<Page<RawEventView>>(&[200]);

/// The largest number of entries that one request reads. It bounds the cost of filters.
const MAX_ENTRIES_READ: usize = 2000;

/// A page ends when its bodies exceed this number of bytes, far below the response limit of Lambda.
const PAGE_BYTES: usize = 1_000_000;

/// Selects the events of one run, by its id or by its ordinal among the session's runs.
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

/// Responds with 200 and a page in order of recording. Without `run`, `from` is a sequence number of the session's journal.
/// With `run`, it is a sequence number of the run's sidecar. Expired entries are omitted (decision 38).
async fn list_raw_events(
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
    let (mut entries_read, mut bytes) = (0, 0);
    while entries_read < MAX_ENTRIES_READ && after < session.journal_sequence() {
        let entries = app.store.journal(id, after, page.limit.max(50)).await?;
        if entries.is_empty() {
            return Ok(Json(Page { items, next_cursor: None }));
        }
        for entry in entries {
            entries_read += 1;
            let Some(event) = journal_views::recorded(&entry) else {
                after = entry.sequence;
                continue;
            };
            let wanted = run.as_ref().is_none_or(|run| {
                // The runtime's event about the end of a run has no sequence number and follows all numbered events.
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
