//! `GET /api/agents/sessions`: the owner's sessions, newest first (S0 8.7 `ListAgentSessionsQuery`).

use axum::Json;
use axum::extract::State;
use pilothouse_domain::session::AgentSessionStatus;
use pilothouse_domain::{AgentSession, Timestamp, UserId};
use pilothouse_store::layout;
use serde::Deserialize;
use serde::de::IntoDeserializer;
use serde::de::value::{Error, StrDeserializer};

use crate::api::Page;
use crate::api::sessions::SessionSummary;
use crate::app::App;
use crate::edge::request::Parameters;
use crate::edge::{Owner, PageRequest, Problem};
use crate::records::paging::Scope;

/// 200 with a page; `status` keeps those in one status. A page may be short although there are more.
pub async fn handle(
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

/// Reads a few pages of the index at most, so that a rare filter costs a bounded amount a request.
const READS: usize = 5;

pub(super) async fn summaries(
    app: &App,
    owner: &UserId,
    page: &PageRequest,
    scope: &Scope,
    (from, to): (Option<Timestamp>, Option<Timestamp>),
    keep: impl Fn(&AgentSession) -> bool,
) -> Result<Page<SessionSummary>, Problem> {
    let mut after = scope.decode(page)?;
    let mut items = Vec::new();
    for _ in 0..READS {
        // Never read past the page, so that the position is that of the last item that was looked at.
        let listing = app.store.sessions_between(owner, from, to, page.limit - items.len(), after).await?;
        items.extend(listing.items.iter().filter(|session| keep(session)).map(SessionSummary::of));
        after = listing.next;
        if after.is_none() || items.len() >= page.limit {
            break;
        }
    }
    Ok(Page { items, next_cursor: after.map(|position| scope.encode(&position)) })
}
