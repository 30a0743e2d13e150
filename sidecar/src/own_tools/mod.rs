//! The tools that Pilothouse itself gives an agent, each defined once as a [`Tool`] and offered in two forms: to the native
//! agent as it is, and to every other agent through an MCP server of the sidecar.
//!
//! | module | what it is |
//! |---|---|
//! | [`deliverable`], [`handoff`] | what the sidecar does itself |
//! | [`memory_pill`], [`create_task`], [`record_learning`], [`log_decision`] | calls of the agent API |
//! | [`ask`], [`plan`], [`todo`] | for the native agent alone: the others bring these themselves |
//! | [`requests`] | what waits for the owner |
//! | [`agent_api`] | the client of the agent API; its key never leaves the sidecar |
//! | [`server`], [`socket`], [`bridge`] | the MCP server, where it listens, and the program that agents start to reach it |
//! | [`arguments`] | from a model's arguments to typed ones, and the schema that says what they are |

pub mod agent_api;
pub mod arguments;
pub mod ask;
pub mod bridge;
pub mod create_task;
pub mod deliverable;
pub mod handoff;
pub mod log_decision;
pub mod memory_pill;
pub mod plan;
pub mod record_learning;
pub mod requests;
pub mod server;
pub mod socket;
pub mod todo;

use std::path::Path;
use std::sync::Arc;

use pilothouse_agent::tool::SharedTool;
use pilothouse_wire::launch::SidecarLaunch;

use crate::adapter::{AdapterError, AgentContext, EventSink};
use crate::deliverables::Deliverables;
use crate::process::AgentUser;

pub use plan::PlanMode;
pub use requests::Requests;
pub use server::{McpServerConfig, ToolServer};

/// What MCP calls the sidecar's server.
pub const SERVER_NAME: &str = "pilothouse";

/// The own tools of one run.
#[derive(Clone)]
pub struct OwnTools {
    shared: Vec<SharedTool>,
    deliverables: Deliverables,
    events: EventSink,
    /// Who the agent runs as, when that is not who the sidecar runs as.
    agent: Option<AgentUser>,
}

impl OwnTools {
    /// The tools of the run that `context` is of.
    pub fn of(context: &AgentContext) -> Result<Self, AdapterError> {
        Self::new(&context.launch, context.events.clone(), context.processes.user().cloned())
    }

    /// The tools of a run. `agent`: who its agent runs as, when that is not who the sidecar runs as.
    pub fn new(
        launch: &SidecarLaunch,
        events: EventSink,
        agent: Option<AgentUser>,
    ) -> Result<Self, AdapterError> {
        let folder = Path::new(&launch.request.working_directory);
        let deliverables = Deliverables::new(folder, events.clone(), agent.as_ref())
            .map_err(|e| AdapterError::Agent(format!("its deliverables cannot be looked after: {e}")))?;
        let api = agent_api::AgentApi::new(&launch.agent_api, launch.request.session_id)
            .map_err(|e| AdapterError::Configuration(e.to_string()))?;
        let shared: Vec<SharedTool> = vec![
            Arc::new(deliverable::DeliverableTool::new(deliverables.clone())),
            Arc::new(handoff::HandoffTool::new(events.clone())),
            Arc::new(memory_pill::MemoryPillTool::new(api.clone())),
            Arc::new(create_task::CreateTaskTool::new(api.clone())),
            Arc::new(record_learning::RecordLearningTool::new(api.clone())),
            Arc::new(log_decision::LogDecisionTool::new(api)),
        ];
        Ok(Self { shared, deliverables, events, agent })
    }

    /// The tools that every agent gets.
    pub fn shared(&self) -> Vec<SharedTool> {
        self.shared.clone()
    }

    /// The tools of the native agent: those that every agent gets, and those that wait for the owner through `requests`.
    /// `approval` says whether leaving plan mode waits for the owner's decision.
    pub fn native(&self, requests: &Requests, plan_mode: &PlanMode, approval: bool) -> Vec<SharedTool> {
        let mut tools = self.shared();
        tools.push(Arc::new(ask::AskTool::new(requests.clone())));
        tools.push(Arc::new(plan::EnterPlanTool::new(plan_mode.clone())));
        tools.push(Arc::new(plan::ExitPlanTool::new(plan_mode.clone(), requests.clone(), approval)));
        tools.push(Arc::new(todo::TodoTool::new(self.events.clone())));
        tools
    }

    /// The deliverables that the tool works on.
    pub const fn deliverables(&self) -> &Deliverables {
        &self.deliverables
    }

    /// Serves the tools that every agent gets by MCP, until the server is dropped. [`ToolServer::mcp_server_config`] is what
    /// an agent is configured with to reach it.
    pub fn serve(&self, launch: &SidecarLaunch) -> std::io::Result<ToolServer> {
        let agent = self.agent.as_ref().map(AgentUser::uid);
        ToolServer::start(self.shared(), Path::new(&launch.session_home), agent)
    }
}

#[cfg(test)]
mod tests;
