//! Projects and their agents.

use std::time::Duration;

use pilothouse_api::Page;
use pilothouse_api::briefing::Briefing;
use pilothouse_api::checkpoints::CheckpointList;
use pilothouse_api::decisions::LoggedDecisionView;
use pilothouse_api::portfolio::{AgentHealthView, PortfolioEntry};
use pilothouse_api::projects::{
    AgentView, ControlModeView, KilledAgents, ProjectSummary, ProjectView, SpawnedAgent,
};
use pilothouse_domain::control_mode::ControlMode;
use pilothouse_domain::{ProjectAgentId, ProjectId, Timestamp};
use serde_json::{Value, json};

use super::inputs::PageQuery;
use super::{ApiError, Client};

const PROJECTS: &str = "api/projects";
const AGENTS: &str = "api/agents";
const CONTROL_MODE: &str = "api/control-mode";

impl Client {
    /// Lists a page of the owner's projects, newest first; `archived` selects archived or open ones.
    pub async fn projects(
        &self,
        archived: Option<bool>,
        page_query: &PageQuery,
    ) -> Result<Page<ProjectSummary>, ApiError> {
        let mut query = page_query.query();
        query.extend(archived.map(|archived| ("isArchived", archived.to_string())));
        self.get_with(PROJECTS.to_owned(), query).await
    }

    /// Reads a project.
    pub async fn project(&self, id: ProjectId) -> Result<ProjectView, ApiError> {
        self.get(format!("{PROJECTS}/{id}")).await
    }

    /// Creates a project from the fields of the API.
    pub async fn create_project(&self, project: &Value) -> Result<ProjectView, ApiError> {
        self.post(PROJECTS.to_owned(), project).await
    }

    /// Updates the given fields of a project.
    pub async fn update_project(&self, id: ProjectId, changes: &Value) -> Result<ProjectView, ApiError> {
        self.patch(format!("{PROJECTS}/{id}"), changes).await
    }

    /// Archives or restores a project: no agents start in an archived one.
    pub async fn set_project_archived(&self, id: ProjectId, archived: bool) -> Result<ProjectView, ApiError> {
        let action = if archived { "archive" } else { "restore" };
        self.post(format!("{PROJECTS}/{id}/{action}"), &json!({})).await
    }

    /// The control mode of a project. `None` means the owner's only project.
    pub async fn control_mode(&self, project: Option<ProjectId>) -> Result<ControlModeView, ApiError> {
        let query = project.map(|id| ("projectId", id.to_string())).into_iter().collect();
        self.get_with(CONTROL_MODE.to_owned(), query).await
    }

    /// Changes the control mode of a project. `restart_agents` restarts the processes that were configured before.
    pub async fn set_control_mode(
        &self,
        project: Option<ProjectId>,
        mode: ControlMode,
        restart_agents: bool,
    ) -> Result<ControlModeView, ApiError> {
        let body = json!({ "projectId": project, "mode": mode, "restartAgents": restart_agents });
        self.put(CONTROL_MODE.to_owned(), &body).await
    }

    /// A page of the decision log of a project, latest first.
    pub async fn decision_log(
        &self,
        id: ProjectId,
        page_query: &PageQuery,
    ) -> Result<Page<LoggedDecisionView>, ApiError> {
        self.get_with(format!("{PROJECTS}/{id}/decision-log"), page_query.query()).await
    }

    /// Cancels the sessions of the active agents of a project.
    pub async fn kill_agents(&self, id: ProjectId) -> Result<KilledAgents, ApiError> {
        self.post(format!("{PROJECTS}/{id}/kill"), &json!({})).await
    }

    /// Lists a page of the agents of a project, oldest first. `None` means the owner's only project.
    pub async fn agents(
        &self,
        project: Option<ProjectId>,
        page_query: &PageQuery,
    ) -> Result<Page<AgentView>, ApiError> {
        let mut query = page_query.query();
        query.extend(project.map(|id| ("projectId", id.to_string())));
        self.get_with(AGENTS.to_owned(), query).await
    }

    /// Reads an agent.
    pub async fn agent(&self, id: ProjectAgentId) -> Result<AgentView, ApiError> {
        self.get(format!("{AGENTS}/{id}")).await
    }

    /// Creates an agent from the fields of the API, and starts its session.
    pub async fn spawn_agent(&self, agent: &Value) -> Result<SpawnedAgent, ApiError> {
        self.post(format!("{AGENTS}/spawn"), agent).await
    }

    /// All projects at a glance, newest first.
    pub async fn portfolio(
        &self,
        archived: Option<bool>,
        page_query: &PageQuery,
    ) -> Result<Page<PortfolioEntry>, ApiError> {
        let mut query = page_query.query();
        query.extend(archived.map(|archived| ("isArchived", archived.to_string())));
        self.get_with("api/portfolio".to_owned(), query).await
    }

    /// The briefing of a project about the time since `since`; `None` means the last 24 hours.
    pub async fn briefing(&self, id: ProjectId, since: Option<Timestamp>) -> Result<Briefing, ApiError> {
        let query = since.map(|since| ("since", since.to_string())).into_iter().collect();
        self.get_with(format!("{PROJECTS}/{id}/briefing"), query).await
    }

    /// The health of an agent.
    pub async fn agent_health(&self, id: ProjectAgentId) -> Result<AgentHealthView, ApiError> {
        self.get(format!("{AGENTS}/{id}/health")).await
    }

    /// Pauses an agent.
    pub async fn pause_agent(&self, id: ProjectAgentId) -> Result<AgentView, ApiError> {
        self.post(format!("{AGENTS}/{id}/pause"), &json!({})).await
    }

    /// Resumes a paused agent.
    pub async fn resume_agent(&self, id: ProjectAgentId) -> Result<AgentView, ApiError> {
        self.post(format!("{AGENTS}/{id}/resume"), &json!({})).await
    }

    /// Ends an agent. Without `grace`, its process ends at once; `limit` is the longest time that it may take.
    pub async fn kill_agent(
        &self,
        id: ProjectAgentId,
        grace: bool,
        limit: Option<Duration>,
    ) -> Result<AgentView, ApiError> {
        let limit = limit.map(|limit| u64::try_from(limit.as_millis()).unwrap_or(u64::MAX));
        self.post(format!("{AGENTS}/{id}/kill"), &json!({ "grace": grace, "graceTimeoutMs": limit })).await
    }

    /// The checkpoints of an agent, newest first.
    pub async fn checkpoints(&self, id: ProjectAgentId) -> Result<CheckpointList, ApiError> {
        self.get(format!("{AGENTS}/{id}/checkpoints")).await
    }

    /// Changes fields of the brief of an agent.
    pub async fn update_brief(&self, id: ProjectAgentId, brief: &Value) -> Result<AgentView, ApiError> {
        self.patch(format!("{AGENTS}/{id}/brief"), brief).await
    }
}
