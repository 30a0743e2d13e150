//! Trust of agents, and ticks of projects.

use pilothouse_api::trust::{SimulationView, TickView, TrustView};
use pilothouse_domain::{ProjectAgentId, ProjectId};
use serde_json::{Value, json};

use super::inputs::PageQuery;
use super::{ApiError, Client};

const TRUST: &str = "api/trust";
const TICK: &str = "api/tick";

impl Client {
    /// Reads the trust of an agent with a page of its history, newest first.
    pub async fn trust(&self, agent: ProjectAgentId, page_query: &PageQuery) -> Result<TrustView, ApiError> {
        self.get_with(format!("{TRUST}/{agent}"), page_query.query()).await
    }

    /// Replays the outcomes of an agent under another configuration: a preset with changes, from the fields of the API.
    pub async fn simulate_trust(
        &self,
        agent: ProjectAgentId,
        configuration: &Value,
    ) -> Result<SimulationView, ApiError> {
        self.post(format!("{TRUST}/{agent}/simulate"), configuration).await
    }

    /// Reads the ticks of a project. `None` means the owner's only project.
    pub async fn ticks(&self, project: Option<ProjectId>) -> Result<TickView, ApiError> {
        let query = project.map(|id| ("projectId", id.to_string())).into_iter().collect();
        self.get_with(TICK.to_owned(), query).await
    }

    /// Advances the ticks of a project in manual mode. `None` means the owner's only project.
    pub async fn advance_ticks(&self, project: Option<ProjectId>, ticks: u64) -> Result<TickView, ApiError> {
        let body = match project {
            Some(id) => json!({ "projectId": id, "ticks": ticks }),
            None => json!({ "ticks": ticks }),
        };
        self.post(format!("{TICK}/advance"), &body).await
    }
}
