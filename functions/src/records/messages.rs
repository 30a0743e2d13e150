//! `GET /api/agents/sessions/{id}/messages`: the conversation (S0 8.7 `GetSessionMessagesQuery`).

use axum::Json;
use axum::extract::State;
use pilothouse_store::layout;

use super::paging::Scope;
use super::view;
use crate::api::Page;
use crate::api::records::MessageView;
use crate::app::App;
use crate::edge::request::Parameters;
use crate::edge::{Owner, PageRequest, Problem, Session};

/// 200 with a page: the parent's messages, or with `subAgentId` that subagent's alone.
pub async fn handle(
    State(app): State<App>,
    Owner(owner): Owner,
    Session(id): Session,
    page: PageRequest,
    parameters: Parameters,
) -> Result<Json<Page<MessageView>>, Problem> {
    app.session_of(&owner, id).await?;
    let subagent = parameters.parsed("subAgentId")?;
    let scope = Scope::new("messages", layout::messages_partition(id, subagent.as_ref()));
    let after = scope.decode(&page)?;
    let listing = app.store.messages(id, subagent.as_ref(), page.limit, after).await?;
    Ok(Json(Page {
        items: listing.items.iter().filter_map(view::message).collect(),
        next_cursor: listing.next.map(|position| scope.encode(&position)),
    }))
}
