//! `GET /api/agents/sessions/{id}/activity`: everything that happened, line by line (S0 8.7
//! `GetSessionActivityStreamQuery`).

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use pilothouse_domain::{AgentSession, SubAgentId, Timestamp};

use super::view;
use crate::api::Page;
use crate::api::records::ActivityView;
use crate::api::stream::{cursor, cursor_within, parse_cursor};
use crate::app::App;
use crate::edge::request::Parameters;
use crate::edge::{Owner, PageRequest, Problem, Session};

/// Entries that one request looks at, at most: filters cost a bounded amount.
const READS: usize = 2000;

/// Lines of a page when nothing else is said (S0 8.8).
const LIMIT: usize = 200;
/// How far clocks of those who commit may be apart: the search for `since` begins this much earlier.
const SKEW: Duration = Duration::from_secs(10);

/// 200 with a page in the order of ingestion, of 200 lines when nothing else is said. `subAgentId` keeps one subagent's lines; `since` those taken in at or
/// after a time (ruling 38). The cursors are those of the live stream: who has read to the end and waits for more asks
/// again with the `cursor` that the session itself showed before, or follows the stream.
pub async fn handle(
    State(app): State<App>,
    Owner(owner): Owner,
    Session(id): Session,
    page: PageRequest,
    parameters: Parameters,
) -> Result<Json<Page<ActivityView>>, Problem> {
    let session = app.session_of(&owner, id).await?;
    let subagent: Option<SubAgentId> = parameters.parsed("subAgentId")?;
    let since: Option<Timestamp> = parameters.parsed("since")?;
    let limit = if parameters.text("limit").is_some() { page.limit } else { LIMIT };
    let (mut after, mut seen) = match page.cursor.as_deref() {
        None => (before(&app, &session, since).await?, 0),
        Some(text) => parse_cursor(text)
            .filter(|(sequence, _)| *sequence <= session.journal_sequence())
            .ok_or_else(|| Problem::invalid("cursor", "is not a cursor of this list"))?,
    };
    let mut items = Vec::new();
    let mut looked_at = 0;
    while looked_at < READS {
        let entries = app.store.journal(id, after, limit.max(50)).await?;
        if entries.is_empty() {
            return Ok(Json(Page { items, next_cursor: None }));
        }
        for entry in entries {
            looked_at += 1;
            // What was seen is of the entry that follows the cursor; that one may have expired.
            let seen = if entry.sequence == after + 1 { std::mem::take(&mut seen) } else { 0 };
            for (at, line) in view::activity(&entry).enumerate().skip(seen) {
                let wanted =
                    subagent.as_ref().is_none_or(|wanted| line.item.sub_agent_id.as_ref() == Some(wanted))
                        && since.is_none_or(|since| entry.at >= since);
                if wanted && items.len() == limit {
                    return Ok(Json(Page {
                        items,
                        next_cursor: Some(cursor_within(entry.sequence - 1, at)),
                    }));
                }
                if wanted {
                    items.push(line);
                }
            }
            after = entry.sequence;
        }
        if after >= session.journal_sequence() {
            return Ok(Json(Page { items, next_cursor: None }));
        }
    }
    Ok(Json(Page { items, next_cursor: Some(cursor(after)) }))
}

/// A place in the journal that nothing since `since` comes before, found by halving: entries are in the order of their
/// times, but for the skew of clocks.
async fn before(app: &App, session: &AgentSession, since: Option<Timestamp>) -> Result<u64, Problem> {
    let Some(since) = since else { return Ok(0) };
    let (mut low, mut high) = (0, session.journal_sequence());
    // Everything up to `low` is older; what follows `high` is not, or is not there.
    while low < high {
        let middle = low + (high - low) / 2;
        match app.store.journal(session.id(), middle, 1).await?.first() {
            Some(entry) if entry.at + SKEW < since => low = entry.sequence,
            _ => high = middle,
        }
    }
    Ok(low)
}
