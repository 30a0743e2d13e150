//! `GET /api/agents/sessions/{id}/export`: a session as one JSON document.
//!
//! Messages, tool calls, activity, logs and raw events are views of the journal, so one pass over it makes them all, and
//! they fit each other. The document is a function of what is kept: the same state gives the same bytes.

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use http::{HeaderValue, StatusCode, header};
use pilothouse_domain::agent_api::{AgentLearning, AgentTask};
use pilothouse_domain::journal::JournalEntry;
use pilothouse_domain::{AgentSession, AgentSessionId};
use pilothouse_store::blob::BlobKey;

use super::{blob, metrics, tool_calls, view};
use crate::api::export::{ExportReference, ExportRest, ExportedRun, SCHEMA_VERSION, SessionExport};
use crate::api::messages::QueueView;
use crate::api::sessions::SessionView;
use crate::app::App;
use crate::edge::{Owner, Problem, Session};

/// How much of the journal one document holds: bytes of its entries, as JSON.
const MAX_JOURNAL_BYTES: usize = 32 * 1024 * 1024;
/// Entries that are read at once.
const READ: usize = 500;
/// Tasks and learnings of one document.
const MAX_ITEMS: usize = 1000;
/// How many of them are read at once.
const PAGE: usize = 200;

/// 200 with the document. One larger than an answer may be ([`blob::MAX_ANSWER_BYTES`]) is kept as a blob of the session,
/// and answered with 303, which says where; a journal larger than 32 MiB ends early, and `rest` says where it goes on.
pub async fn handle(
    State(app): State<App>,
    Owner(owner): Owner,
    Session(id): Session,
) -> Result<Response, Problem> {
    let loaded = app.store.conversation(id).await?.ok_or_else(Problem::no_session)?;
    if *loaded.conversation.session.owner_id() != owner {
        return Err(Problem::no_session());
    }
    let conversation = &loaded.conversation;
    let session = &conversation.session;
    let (entries, rest) = journal(&app, session).await?;
    let export = SessionExport {
        schema_version: SCHEMA_VERSION,
        session: SessionView::of(session),
        runs: runs(session),
        queue: QueueView::of(&conversation.queue, session.control_version()),
        messages: entries.iter().filter_map(view::message).collect(),
        tool_calls: tool_calls::pair(&entries, session),
        activity: entries.iter().flat_map(view::activity).collect(),
        logs: entries.iter().filter_map(view::log_chunk).collect(),
        metrics: metrics::of(&app, session).await?,
        task_list: session.task_list().cloned(),
        plan: session.plan().cloned(),
        pending_requests: session.pending_requests().to_vec(),
        output: session.output().cloned(),
        tasks: tasks(&app, id).await?,
        learnings: learnings(&app, id).await?,
        raw_events: entries.iter().filter_map(view::recorded).collect(),
        rest,
    };
    let document = serde_json::to_vec(&export).map_err(Problem::internal)?;
    if document.len() <= blob::MAX_ANSWER_BYTES {
        return Ok(answer(id, document.into()));
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

fn answer(id: AgentSessionId, document: Bytes) -> Response {
    let mut response = document.into_response();
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    if let Ok(name) = HeaderValue::from_str(&format!("attachment; filename=\"session-{id}.json\"")) {
        headers.insert(header::CONTENT_DISPOSITION, name);
    }
    response
}

/// The entries of the journal up to where the session stands, and where those go on that do not fit.
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
