//! `GET /api/agents/sessions/{id}/search`: finds words in the texts of a session (decision 97).

use axum::Json;
use axum::extract::State;
use pilothouse_api::Page;
use pilothouse_api::records::TextMatch;
use pilothouse_api::stream::{cursor, parse_cursor};
use pilothouse_app::function::{HttpFunction, Verb};
use pilothouse_app::http::request::Parameters;
use pilothouse_app::http::{Owner, PageRequest, Problem, Session};
use pilothouse_app::{App, journal_search};
use pilothouse_domain::text_search::SearchWords;
use pilothouse_store::JournalPage;

pub const FUNCTION: HttpFunction =
    HttpFunction::new("records-search", Verb::Get, "/api/agents/sessions/{id}/search", |verb| {
        verb.route(search_texts)
    })
    .owner()
    .summary("Find words in the texts of a session, latest first")
    .query(&["query", "limit", "cursor"])
    .output::<Page<TextMatch>>(&[200]);

/// The largest number of entries that one request reads. Those that have expired and are not deleted yet count.
const MAX_ENTRIES_READ: usize = 2000;
/// A request reads no further entries when those that it has read exceed this number of bytes. Entries may be 128 KB long.
const MAX_BYTES_READ: usize = 8 * 1024 * 1024;
/// The number of entries of one read.
const READ: usize = 100;

/// Responds with 200 and a page of the entries of the journal that have all words of `query` in one of their texts, latest first. A request
/// reads a limited part of the journal, so a page may be short, or even empty, although more entries follow. Entries that are recorded
/// after the first page are not searched.
async fn search_texts(
    State(app): State<App>,
    Owner(owner): Owner,
    Session(id): Session,
    page: PageRequest,
    parameters: Parameters,
) -> Result<Json<Page<TextMatch>>, Problem> {
    let session = app.session_of(&owner, id).await?;
    let words = SearchWords::parse(parameters.text("query").unwrap_or_default());
    let words = words.map_err(|error| Problem::invalid("query", error))?;
    let last = session.journal_sequence();
    // A cursor is the last entry that was read.
    let mut before = match page.cursor.as_deref() {
        None => last + 1,
        Some(text) => parse_cursor(text)
            .filter(|(sequence, seen)| *seen == 0 && *sequence <= last)
            .map(|(sequence, _)| sequence)
            .ok_or_else(|| Problem::invalid("cursor", "is not a cursor of this list"))?,
    };
    let mut items = Vec::new();
    let (mut entries_read, mut bytes_read) = (0, 0);
    while entries_read < MAX_ENTRIES_READ {
        let begin = before;
        let JournalPage { entries, read_to } = app.store.journal_page_before(id, begin, READ).await?;
        for entry in entries {
            if items.len() == page.limit || bytes_read > MAX_BYTES_READ {
                return Ok(Json(Page { items, next_cursor: Some(cursor(before)) }));
            }
            before = entry.sequence;
            bytes_read += journal_search::size(&entry);
            items.extend(journal_search::find(&entry, &words));
        }
        let Some(read_to) = read_to else {
            return Ok(Json(Page { items, next_cursor: None }));
        };
        before = read_to;
        // Sequences have no gaps, except those of deleted entries.
        entries_read += usize::try_from(begin.saturating_sub(read_to)).unwrap_or(READ).min(READ);
    }
    Ok(Json(Page { items, next_cursor: Some(cursor(before)) }))
}
