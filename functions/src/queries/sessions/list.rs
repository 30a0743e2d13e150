//! `GET /api/agents/sessions`: lists the owner's sessions, newest first (S0 8.7 `ListAgentSessionsQuery`).

use axum::Json;
use axum::extract::State;
use pilothouse_api::Page;
use pilothouse_api::sessions::SessionSummary;
use pilothouse_app::App;
use pilothouse_app::function::{HttpFunction, Verb};
use pilothouse_app::http::request::Parameters;
use pilothouse_app::http::{Owner, PageRequest, Problem};
use pilothouse_app::paging::Scope;
use pilothouse_domain::session::AgentSessionStatus;
use pilothouse_domain::{AgentSession, Timestamp, UserId};
use pilothouse_store::layout;
use serde::Deserialize;
use serde::de::IntoDeserializer;
use serde::de::value::{Error, StrDeserializer};

pub const FUNCTION: HttpFunction =
    HttpFunction::new("sessions-list", Verb::Get, "/api/agents/sessions", |verb| verb.route(list_sessions))
        .owner()
        .summary("List sessions, newest first")
        .query(&["limit", "cursor", "status"])
        .output::<Page<SessionSummary>>(&[200]);

/// Responds with 200 and a page. `status` filters by status. A filtered page may be short even if more pages follow.
async fn list_sessions(
    State(app): State<App>,
    Owner(owner): Owner,
    page: PageRequest,
    parameters: Parameters,
) -> Result<Json<Page<SessionSummary>>, Problem> {
    let status = parameters.text("status").map(parse_status).transpose()?;
    let scope = Scope::new("sessions", layout::owner_partition(&owner))
        .filtered(parameters.text("status").unwrap_or_default());
    let keep = |session: &AgentSession| status.is_none_or(|wanted| session.status() == wanted);
    Ok(Json(summaries(&app, &owner, &page, &scope, (None, None), keep).await?))
}

fn parse_status(text: &str) -> Result<AgentSessionStatus, Problem> {
    let text: StrDeserializer<'_, Error> = text.into_deserializer();
    AgentSessionStatus::deserialize(text).map_err(|_| {
        let all: Vec<_> = AgentSessionStatus::ALL.iter().map(ToString::to_string).collect();
        Problem::invalid("status", format!("must be one of {}", all.join(", ")))
    })
}

pub(super) async fn summaries(
    app: &App,
    owner: &UserId,
    page: &PageRequest,
    scope: &Scope,
    (from, to): (Option<Timestamp>, Option<Timestamp>),
    keep: impl Fn(&AgentSession) -> bool,
) -> Result<Page<SessionSummary>, Problem> {
    let read = |limit, after| app.store.sessions_between(owner, from, to, limit, after);
    let summary = |session: AgentSession| keep(&session).then(|| SessionSummary::of(&session));
    scope.read(page, read, summary).await
}
