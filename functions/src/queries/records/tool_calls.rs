//! `GET /api/agents/sessions/{id}/tool-calls`: lists tool calls with their results (S0 8.7 `GetSessionToolCallsQuery`).

use axum::Json;
use axum::extract::State;
use pilothouse_api::Page;
use pilothouse_api::records::{ToolCallView, ToolResultView};
use pilothouse_app::App;
use pilothouse_app::function::{HttpFunction, PAGE_OF_SUB_AGENT, Verb};
use pilothouse_app::http::request::Parameters;
use pilothouse_app::http::{Owner, PageRequest, Problem, Session};
use pilothouse_app::journal_views;
use pilothouse_app::paging::Scope;
use pilothouse_domain::journal::{Cause, JournalEntry};
use pilothouse_domain::value::ToolCallStatus;
use pilothouse_domain::{AgentSession, AgentSessionId, RunId, SessionEvent};
use pilothouse_store::layout;

pub const FUNCTION: HttpFunction =
    HttpFunction::new("records-tool-calls", Verb::Get, "/api/agents/sessions/{id}/tool-calls", |verb| {
        verb.route(list_tool_calls)
    })
    .owner()
    .summary("List tool calls with their results")
    .query(PAGE_OF_SUB_AGENT)
    .output::<Page<ToolCallView>>(&[200]);

/// Responds with 200 and a page: the calls of the main agent, or with `subAgentId` those of one subagent.
async fn list_tool_calls(
    State(app): State<App>,
    Owner(owner): Owner,
    Session(id): Session,
    page: PageRequest,
    parameters: Parameters,
) -> Result<Json<Page<ToolCallView>>, Problem> {
    let session = app.session_of(&owner, id).await?;
    let subagent = parameters.parsed("subAgentId")?;
    let scope = Scope::new("tool-calls", layout::tool_calls_partition(id, subagent.as_ref()));
    let after = scope.decode(&page)?;
    // A call and its result are adjacent entries, so a read of `limit` entries never yields more than `limit` calls.
    let mut listing = app.store.tool_calls(id, subagent.as_ref(), page.limit, after).await?;
    // A read returns at most 1 MB, so the response stays below the limit of Lambda.
    for _ in 0..2 {
        let room = page.limit - pair(&listing.items, &session).len();
        if room == 0 || listing.next.is_none() {
            break;
        }
        let more = app.store.tool_calls(id, subagent.as_ref(), room, listing.next).await?;
        listing.items.extend(more.items);
        listing.next = more.next;
    }
    // Reads one more entry in case it is the result of the last call.
    if let (Some(last), Some(position)) = (listing.items.last(), &listing.next)
        && journal_views::tool_call(last).is_some()
    {
        let more = app.store.tool_calls(id, subagent.as_ref(), 1, Some(position.clone())).await?;
        if more.items.first().is_some_and(|entry| journal_views::tool_result(entry).is_some()) {
            listing.items.extend(more.items);
            listing.next = more.next;
        }
    }
    let mut items = pair(&listing.items, &session);
    find_ends(&app, id, &listing.items, &mut items).await?;
    Ok(Json(Page { items, next_cursor: listing.next.map(|position| scope.encode(&position)) }))
}

/// Pairs the tool calls of journal entries with their results.
pub(super) fn pair(entries: &[JournalEntry], session: &AgentSession) -> Vec<ToolCallView> {
    let mut calls: Vec<ToolCallView> = Vec::new();
    for entry in entries {
        if let Some(mut call) = journal_views::tool_call(entry) {
            if run_of(entry).is_some_and(|run| session.run().is_none_or(|current| current.id != run)) {
                end_open(&mut call, "The run ended before the tool did.");
            } else if entry.sequence <= session.journal_sequence()
                && session.open_tool_call(&call.id).is_none()
            {
                // A call that is newer than the loaded session may still be open.
                end_open(&mut call, "The turn ended before the tool did.");
            }
            calls.push(call);
        } else if let Some((id, subagent, result)) = journal_views::tool_result(entry) {
            let known = calls.iter_mut().rev().find(|call| call.id == id);
            if known.as_ref().is_some_and(|call| call.completed_at.is_some()) {
                // The first result of a call counts.
                continue;
            }
            let mut orphan = journal_views::orphan(id, subagent, entry);
            let call = known.unwrap_or(&mut orphan);
            call.status = if result.is_error { ToolCallStatus::Error } else { ToolCallStatus::Success };
            call.result = Some(result);
            call.completed_at = Some(entry.at);
            if orphan.result.is_some() {
                calls.push(orphan);
            }
        }
    }
    calls
}

/// Most journal entries that are read to find the ends of calls without a result.
const MAX_ENTRIES_READ: usize = 1000;

/// Whether a call ended with its turn or run, at a time that is not known yet.
fn ended_without_result(call: &ToolCallView) -> bool {
    call.result.is_some() && call.completed_at.is_none()
}

/// Adds the times at which calls without a result ended.
pub(super) fn record_ends(calls: &mut [ToolCallView], entry: &JournalEntry) {
    for event in &entry.events {
        let SessionEvent::ToolCallCompleted { tool_call_id, .. } = event else { continue };
        let mut open = calls.iter_mut().filter(|call| ended_without_result(call));
        if let Some(call) = open.find(|call| call.id == *tool_call_id) {
            call.completed_at = Some(entry.at);
        }
    }
}

/// Finds the ends of calls without a result in the journal.
async fn find_ends(
    app: &App,
    id: AgentSessionId,
    entries: &[JournalEntry],
    calls: &mut [ToolCallView],
) -> Result<(), Problem> {
    let ended = |entry: &&JournalEntry| {
        let started = journal_views::tool_call(entry);
        started.is_some_and(|started| {
            calls.iter().any(|call| call.id == started.id && ended_without_result(call))
        })
    };
    let Some(mut after) = entries.iter().filter(ended).map(|entry| entry.sequence).min() else {
        return Ok(());
    };
    let mut entries_read = 0;
    while entries_read < MAX_ENTRIES_READ && calls.iter().any(ended_without_result) {
        let entries = app.store.journal(id, after, 100).await?;
        let Some(last) = entries.last() else { break };
        (after, entries_read) = (last.sequence, entries_read + entries.len());
        for entry in entries {
            record_ends(calls, &entry);
        }
    }
    Ok(())
}

fn run_of(entry: &JournalEntry) -> Option<RunId> {
    match entry.cause {
        Cause::Agent { run_id, .. } => Some(run_id),
        _ => None,
    }
}

/// Marks an open tool call as failed, because its turn or run has ended (decision 6). A later result in the journal replaces
/// this one.
fn end_open(call: &mut ToolCallView, why: &str) {
    call.status = ToolCallStatus::Error;
    call.result =
        Some(ToolResultView { content: why.to_owned(), is_error: true, truncated: false, blob: None });
}
