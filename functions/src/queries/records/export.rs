//! `GET /api/agents/sessions/{id}/export`: exports a session as one JSON document.
//!
//! Messages, tool calls, activity, logs and raw events are views of the journal. One pass over the journal builds them all, so
//! they are consistent. The same stored state always produces the same bytes.

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use http::{HeaderValue, StatusCode, header};
use pilothouse_api::export::{ExportReference, ExportRest, ExportedRun, SCHEMA_VERSION, SessionExport};
use pilothouse_api::messages::QueueView;
use pilothouse_api::sessions::SessionView;
use pilothouse_app::App;
use pilothouse_app::function::requirements::EXPORT;
use pilothouse_app::function::{HttpFunction, Verb};
use pilothouse_app::http::{Owner, Problem, Session};
use pilothouse_app::journal_views;
use pilothouse_domain::agent_api::{AgentLearning, AgentTask};
use pilothouse_domain::journal::JournalEntry;
use pilothouse_domain::{AgentSession, AgentSessionId};
use pilothouse_store::blob::BlobKey;

use super::{blob, metrics, tool_calls};

pub const FUNCTION: HttpFunction =
    HttpFunction::new("records-export", Verb::Get, "/api/agents/sessions/{id}/export", |verb| {
        verb.route(export_session)
    })
    .owner()
    .summary("Export a session as one JSON document")
    .output::<SessionExport>(&[200, 303])
    .requires(EXPORT);

/// The largest size of the journal entries of one document, in bytes of JSON.
const MAX_JOURNAL_BYTES: usize = 32 * 1024 * 1024;
/// The number of entries of one read.
const READ: usize = 500;
/// The number of tasks, and of learnings, at which a document stops reading more.
const MAX_ITEMS: usize = 1000;
/// The number of tasks or learnings of one read.
const PAGE: usize = 200;

/// Responds with 200 and the document. A document larger than [`blob::MAX_ANSWER_BYTES`] is stored as a blob of the session,
/// and the response is 303 with its location. A journal larger than 32 MiB is cut, and `rest` states where it continues.
async fn export_session(
    State(app): State<App>,
    Owner(owner): Owner,
    Session(id): Session,
) -> Result<Response, Problem> {
    let loaded = app.store.conversation_of(&owner, id).await?.ok_or_else(Problem::no_session)?;
    let conversation = &loaded.conversation;
    let session = &conversation.session;
    let (entries, rest) = journal(&app, session).await?;
    let mut tool_calls = tool_calls::pair(&entries, session);
    for entry in &entries {
        tool_calls::record_ends(&mut tool_calls, entry);
    }
    let export = SessionExport {
        schema_version: SCHEMA_VERSION,
        session: SessionView::of(session),
        runs: runs(session),
        queue: QueueView::of(&conversation.queue, session.control_version()),
        messages: entries.iter().flat_map(journal_views::messages).collect(),
        tool_calls,
        activity: entries.iter().flat_map(journal_views::activity).collect(),
        logs: entries.iter().filter_map(journal_views::log_chunk).collect(),
        metrics: metrics::of(&app, session).await?,
        task_list: session.task_list().cloned(),
        plan: session.plan().cloned(),
        pending_requests: session.pending_requests().to_vec(),
        output: session.output().cloned(),
        tasks: tasks(&app, id).await?,
        learnings: learnings(&app, id).await?,
        raw_events: entries.iter().filter_map(journal_views::recorded).collect(),
        rest,
    };
    let document = serde_json::to_vec(&export).map_err(Problem::internal)?;
    if document.len() <= blob::MAX_ANSWER_BYTES {
        return Ok(download_response(id, document.into()));
    }
    let key = BlobKey::of(&format!("sessions/{id}"), &document).map_err(Problem::internal)?;
    let bytes = document.len() as u64;
    app.blobs.put(&key, Bytes::from(document)).await.map_err(Problem::internal)?;
    let location = match app.blobs.link(&key, blob::LINK_VALID).await.map_err(Problem::internal)? {
        Some(link) => link,
        None => format!("/api/agents/sessions/{id}/blobs/{}", key.digest()),
    };
    let sha256 = key.digest().to_owned();
    let reference =
        ExportReference { schema_version: SCHEMA_VERSION, bytes, sha256, location: location.clone() };
    let mut response = (StatusCode::SEE_OTHER, Json(reference)).into_response();
    let location = HeaderValue::from_str(&location).map_err(Problem::internal)?;
    response.headers_mut().insert(header::LOCATION, location);
    Ok(response)
}

fn download_response(id: AgentSessionId, document: Bytes) -> Response {
    let mut response = document.into_response();
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    if let Ok(name) = HeaderValue::from_str(&format!("attachment; filename=\"session-{id}.json\"")) {
        headers.insert(header::CONTENT_DISPOSITION, name);
    }
    response
}

/// Reads the journal up to the sequence number of the session. Returns where the rest starts when the entries exceed
/// [`MAX_JOURNAL_BYTES`].
async fn journal(
    app: &App,
    session: &AgentSession,
) -> Result<(Vec<JournalEntry>, Option<ExportRest>), Problem> {
    let (mut entries, mut bytes, mut after) = (Vec::new(), 0, 0);
    while after < session.journal_sequence() {
        let page = app.store.journal(session.id(), after, READ).await?;
        if page.is_empty() {
            break;
        }
        for entry in page {
            if entry.sequence > session.journal_sequence() {
                return Ok((entries, None));
            }
            bytes += serde_json::to_string(&entry).map_err(Problem::internal)?.len();
            if bytes > MAX_JOURNAL_BYTES {
                return Ok((entries, Some(ExportRest { from: entry.sequence })));
            }
            after = entry.sequence;
            entries.push(entry);
        }
    }
    Ok((entries, None))
}

fn runs(session: &AgentSession) -> Vec<ExportedRun> {
    let past = session.past_runs().iter();
    let past = past.map(|run| ExportedRun { id: run.id, ordinal: run.ordinal, ended_at: run.ended_at });
    let current = session.run();
    let current = current.map(|run| ExportedRun { id: run.id, ordinal: run.ordinal, ended_at: None });
    past.chain(current).collect()
}

async fn tasks(app: &App, id: AgentSessionId) -> Result<Vec<AgentTask>, Problem> {
    let (mut items, mut after) = (Vec::new(), None);
    while items.len() < MAX_ITEMS {
        let listing = app.store.agent_tasks(id, PAGE, after).await?;
        items.extend(listing.items);
        after = listing.next;
        if after.is_none() {
            break;
        }
    }
    Ok(items)
}

async fn learnings(app: &App, id: AgentSessionId) -> Result<Vec<AgentLearning>, Problem> {
    let (mut items, mut after) = (Vec::new(), None);
    while items.len() < MAX_ITEMS {
        let listing = app.store.learnings_of_session(id, PAGE, after).await?;
        items.extend(listing.items);
        after = listing.next;
        if after.is_none() {
            break;
        }
    }
    Ok(items)
}
