//! `GET /api/agents/templates/{id}`: a template in full (S0 8.7 `GetAgentTemplateQuery`).

use axum::extract::State;
use http::StatusCode;
use pilothouse_domain::AgentTemplateId;
use pilothouse_domain::template::AgentTemplate;

use super::shown;
use crate::app::App;
use crate::change::{Answer, Call};
use crate::edge::{Id, Problem};

/// 200 with the template; its version is its `ETag`.
pub async fn handle(
    State(app): State<App>,
    call: Call,
    Id(id): Id<AgentTemplateId>,
) -> Result<Answer, Problem> {
    let loaded = app.owned_of::<AgentTemplate>(&call, id).await?;
    shown(StatusCode::OK)(&loaded.value, loaded.version)
}
