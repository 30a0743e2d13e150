//! `GET /api/agent/sessions/{id}/knowledge`: lets an agent search the workstreams that it may read (S2, "Security boundaries";
//! decision 84).

use axum::Json;
use axum::extract::State;
use pilothouse_api::knowledge::SearchResults;
use pilothouse_app::App;
use pilothouse_app::function::requirements::COMMAND;
use pilothouse_app::function::{HttpFunction, Verb};
use pilothouse_app::http::request::Parameters;
use pilothouse_app::http::{AgentCaller, Problem, Session};
use pilothouse_domain::decision::KnowledgeAccess;

use super::audit::{KnowledgeUse, log_and_count};
use super::caller::KnowledgeCaller;
use crate::knowledge::search::{search, terms_of};

pub const FUNCTION: HttpFunction =
    HttpFunction::new("agent-search-knowledge", Verb::Get, "/api/agent/sessions/{id}/knowledge", |verb| {
        verb.route(search_knowledge)
    })
    .agent()
    .summary("Search the artifacts and objectives of readable workstreams")
    .query(&["query"])
    .output::<SearchResults>(&[200])
    // It writes the log.
    .requires(COMMAND);

/// Responds with 200 and at most 20 results of the workstreams that the agent may read. Each call is logged.
async fn search_knowledge(
    State(app): State<App>,
    caller: AgentCaller,
    Session(id): Session,
    parameters: Parameters,
) -> Result<Json<SearchResults>, Problem> {
    let agent = KnowledgeCaller::load(&app, &caller, id).await?;
    let terms = terms_of(parameters.text("query"))?;
    let used = KnowledgeUse::of(KnowledgeAccess::Search, None, Some(terms.join(" ")));
    log_and_count(&app, &agent.session, (&used, true)).await?;
    Ok(Json(search(&app, agent.membership.project_id, Some(&agent.scope), terms).await?))
}
