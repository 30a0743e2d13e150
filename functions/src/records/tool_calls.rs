//! `GET /api/agents/sessions/{id}/tool-calls`: tool calls with their results (S0 8.7 `GetSessionToolCallsQuery`).

use axum::Json;
use axum::extract::State;
use pilothouse_domain::journal::{Cause, JournalEntry};
use pilothouse_domain::value::ToolCallStatus;
use pilothouse_domain::{AgentSession, RunId};
use pilothouse_store::layout;

use super::paging::Scope;
use super::view;
use crate::api::Page;
use crate::api::records::{ToolCallView, ToolResultView};
use crate::app::App;
use crate::edge::request::Parameters;
use crate::edge::{Owner, PageRequest, Problem, Session};

/// 200 with a page: the parent's calls, or with `subAgentId` that subagent's alone.
pub async fn handle(
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
    // A call and its result are neighbours: what is read never holds more calls than the page still has room for.
    let mut listing = app.store.tool_calls(id, subagent.as_ref(), page.limit, after).await?;
    // Each read is a megabyte at most, and so an answer stays below what Lambda takes.
    for _ in 0..2 {
        let room = page.limit - pair(&listing.items, &session).len();
        if room == 0 || listing.next.is_none() {
            break;
        }
        let more = app.store.tool_calls(id, subagent.as_ref(), room, listing.next).await?;
        listing.items.extend(more.items);
        listing.next = more.next;
    }
    // One entry more finds the result of the last call.
    if let (Some(last), Some(position)) = (listing.items.last(), &listing.next)
        && view::tool_call(last).is_some()
    {
        let more = app.store.tool_calls(id, subagent.as_ref(), 1, Some(position.clone())).await?;
        if more.items.first().is_some_and(|entry| view::tool_result(entry).is_some()) {
            listing.items.extend(more.items);
            listing.next = more.next;
        }
    }
    Ok(Json(Page {
        items: pair(&listing.items, &session),
        next_cursor: listing.next.map(|position| scope.encode(&position)),
    }))
}

/// The calls that entries hold, each with its result.
pub(super) fn pair(entries: &[JournalEntry], session: &AgentSession) -> Vec<ToolCallView> {
    let mut calls: Vec<ToolCallView> = Vec::new();
    for entry in entries {
        if let Some(mut call) = view::tool_call(entry) {
            if run_of(entry).is_some_and(|run| session.run().is_none_or(|current| current.id != run)) {
                end_with_run(&mut call);
            }
            calls.push(call);
        } else if let Some((id, subagent, result)) = view::tool_result(entry) {
            let known = calls.iter_mut().rev().find(|call| call.id == id);
            let mut orphan = view::orphan(id, subagent, entry);
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

fn run_of(entry: &JournalEntry) -> Option<RunId> {
    match entry.cause {
        Cause::Agent { run_id, .. } => Some(run_id),
        _ => None,
    }
}

/// Open tool calls end as Error with their run (ruling 6).
fn end_with_run(call: &mut ToolCallView) {
    call.status = ToolCallStatus::Error;
    call.result = Some(ToolResultView {
        content: "The run ended before the tool did.".to_owned(),
        is_error: true,
        truncated: false,
        blob: None,
    });
}
