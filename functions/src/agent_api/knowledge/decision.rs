//! `GET /api/agent/sessions/{id}/decisions/{decisionId}`: lets an agent read a decision of its project (S2 `KnowledgeSnapshot`;
//! decision 84).

use axum::Json;
use axum::extract::State;
use pilothouse_api::agent::DecisionDetail;
use pilothouse_app::App;
use pilothouse_app::function::requirements::COMMAND;
use pilothouse_app::function::{HttpFunction, Verb};
use pilothouse_app::http::request::PathParams;
use pilothouse_app::http::{AgentCaller, Problem, Session};
use pilothouse_domain::artifact::ArtifactError;
use pilothouse_domain::decision::KnowledgeAccess;

use super::audit::{KnowledgeUse, log_and_count};
use super::caller::KnowledgeCaller;

pub const FUNCTION: HttpFunction = HttpFunction::new(
    "agent-decision-detail",
    Verb::Get,
    "/api/agent/sessions/{id}/decisions/{decisionId}",
    |verb| verb.route(read_decision),
)
.agent()
.summary("Read a decision of a readable workstream")
.output::<DecisionDetail>(&[200])
// It writes the log.
.requires(COMMAND);

/// Responds with 200 and the decision, without the rule that required it. A decision of a workstream that the agent may not read is
/// refused with 403 `outside-workstream`. Each call is logged.
async fn read_decision(
    State(app): State<App>,
    caller: AgentCaller,
    Session(id): Session,
    path: PathParams,
) -> Result<Json<DecisionDetail>, Problem> {
    let agent = KnowledgeCaller::load(&app, &caller, id).await?;
    let named = path.get("decisionId").and_then(|text| text.parse().ok()).ok_or_else(Problem::no_decision)?;
    let decision = app.store.decision_of(agent.session.owner_id(), named).await?;
    let decision = decision.ok_or_else(Problem::no_decision)?;
    let project = decision.project.as_ref();
    let project = project.filter(|project| project.project_id == agent.membership.project_id);
    let workstream = &project.ok_or_else(Problem::no_decision)?.workstream;
    let allowed = agent.scope.may_read(workstream);
    let used = KnowledgeUse::of(KnowledgeAccess::ReadDecision, Some(workstream), Some(named.to_string()));
    log_and_count(&app, &agent.session, (&used, allowed)).await?;
    if !allowed {
        return Err(ArtifactError::NotReadable { workstream: workstream.clone() }.into());
    }
    DecisionDetail::of(&decision).map(Json).ok_or_else(Problem::no_decision)
}
