//! `GET /api/agents/sessions/{id}/messages`: lists the messages of the conversation (S0 8.7 `GetSessionMessagesQuery`).

use axum::Json;
use axum::extract::State;
use pilothouse_api::Page;
use pilothouse_api::records::MessageView;
use pilothouse_app::App;
use pilothouse_app::function::{HttpFunction, PAGE_OF_SUB_AGENT, Verb};
use pilothouse_app::http::request::Parameters;
use pilothouse_app::http::{Owner, PageRequest, Problem, Session};
use pilothouse_app::journal_views;
use pilothouse_app::paging::Scope;
use pilothouse_store::layout;

pub const FUNCTION: HttpFunction =
    HttpFunction::new("records-messages", Verb::Get, "/api/agents/sessions/{id}/messages", |verb| {
        verb.route(list_conversation_messages)
    })
    .owner()
    .summary("List the messages of the conversation")
    .query(PAGE_OF_SUB_AGENT)
    .output::<Page<MessageView>>(&[200]);

/// Responds with 200 and a page: the messages of the main agent, or with `subAgentId` those of one subagent.
async fn list_conversation_messages(
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
        items: listing.items.iter().flat_map(journal_views::messages).collect(),
        next_cursor: listing.next.map(|position| scope.encode(&position)),
    }))
}
