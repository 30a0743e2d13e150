//! `GET /api/agents/sessions/{id}/activity`: lists the activity of a session (S0 8.7
//! `GetSessionActivityStreamQuery`).

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use pilothouse_api::Page;
use pilothouse_api::records::ActivityView;
use pilothouse_api::stream::{cursor, cursor_within, parse_cursor};
use pilothouse_app::App;
use pilothouse_app::function::{HttpFunction, Verb};
use pilothouse_app::http::request::Parameters;
use pilothouse_app::http::{Owner, PageRequest, Problem, Session};
use pilothouse_app::journal_views;
use pilothouse_domain::{SubAgentId, Timestamp};

pub const FUNCTION: HttpFunction =
    HttpFunction::new("records-activity", Verb::Get, "/api/agents/sessions/{id}/activity", |verb| {
        verb.route(list_activity)
    })
    .owner()
    .summary("List the activity of a session")
    .query(&["limit", "cursor", "subAgentId", "since"])
    .output::<Page<ActivityView>>(&[200]);

/// The largest number of entries that one request reads. It bounds the cost of filters.
const MAX_ENTRIES_READ: usize = 2000;

/// The default number of lines of a page (S0 8.8).
const LIMIT: usize = 200;
/// The largest assumed difference between the clocks of committing processes. The search for `since` starts this much earlier.
const MAX_CLOCK_SKEW: Duration = Duration::from_secs(10);

/// Responds with 200 and a page in order of ingestion, by default of 200 lines. `subAgentId` limits the list to one subagent.
/// `since` limits it to lines that were ingested at or after a time (decision 38). The live stream uses the same cursors. At
/// the end of the list, a caller follows the stream or polls with the `cursor` of the session.
async fn list_activity(
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
        None => match since {
            None => (0, 0),
            Some(since) => {
                (app.last_entry_while(&session, |entry| entry.at + MAX_CLOCK_SKEW < since).await?, 0)
            }
        },
        Some(text) => parse_cursor(text)
            .filter(|(sequence, _)| *sequence <= session.journal_sequence())
            .ok_or_else(|| Problem::invalid("cursor", "is not a cursor of this list"))?,
    };
    let mut items = Vec::new();
    let mut entries_read = 0;
    while entries_read < MAX_ENTRIES_READ {
        let entries = app.store.journal(id, after, limit.max(50)).await?;
        if entries.is_empty() {
            return Ok(Json(Page { items, next_cursor: None }));
        }
        for entry in entries {
            entries_read += 1;
            // `seen` counts lines of the entry after the cursor. This entry may have expired.
            let seen = if entry.sequence == after + 1 { std::mem::take(&mut seen) } else { 0 };
            for (at, line) in journal_views::activity(&entry).enumerate().skip(seen) {
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
