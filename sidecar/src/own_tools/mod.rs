//! The tools that Pilothouse provides to agents. Each is defined once as a [`Tool`]. The native agent calls them
//! directly; other agents reach them through an MCP server in the sidecar.
//!
//! | module | purpose |
//! |---|---|
//! | [`deliverable`], [`handoff`] | tools that the sidecar implements itself |
//! | [`memory_pill`], [`create_task`], [`record_learning`], [`log_decision`] | tools that call the agent API |
//! | [`propose_consolidation`] | proposes new instructions of a skill |
//! | [`submit_output`] | reports what the agent produced |
//! | `knowledge` | tools for agents of a project: artifacts, search, decisions |
//! | [`ask`], [`plan`], [`todo`] | tools for the native agent only; other agents have their own |
//! | [`request_decision`], `proposal` | options of which the owner chooses |
//! | [`requests`], `open_question` | open requests to the owner |
//! | [`server`], [`socket`], [`bridge`] | the MCP server, its socket, and the program that agents start to connect to it |
//! | [`arguments`] | parses a model's arguments and derives their schema |

pub mod arguments;
pub mod ask;
pub mod bridge;
pub mod create_task;
pub mod deliverable;
pub mod handoff;
mod knowledge;
pub mod log_decision;
pub mod memory_pill;
pub(crate) mod open_question;
pub mod plan;
mod proposal;
pub mod propose_consolidation;
pub mod record_learning;
pub mod request_decision;
pub mod requests;
pub mod server;
pub mod socket;
pub mod submit_output;
pub mod todo;

use std::path::Path;
use std::sync::Arc;

use pilothouse_agent::tool::SharedTool;
use pilothouse_wire::launch::SidecarLaunch;

use crate::adapter::{AdapterError, AgentContext, EventSink};
use crate::agent_api::AgentApi;
use crate::deliverables::Deliverables;
use crate::process::{AgentUser, Processes, agent_folder};
use crate::unreported::ReportedFiles;

pub use plan::PlanMode;
pub use requests::Requests;
pub use server::{McpServerConfig, ToolServer};
pub use submit_output::{Destination, SubmitTool, Submitted};

/// Name of the sidecar's MCP server.
pub const SERVER_NAME: &str = "pilothouse";

#[derive(Clone)]
pub struct OwnTools {
    shared: Vec<SharedTool>,
    /// For agents that are served over MCP.
    submit: SharedTool,
    /// Of the served tools that wait for the owner.
    requests: Requests,
    deliverables: Deliverables,
    events: EventSink,
    processes: Processes,
}

/// The tool that stores a file of the agent as an artifact. `None` outside of a project.
pub(crate) fn report_artifact(context: &AgentContext) -> Result<Option<SharedTool>, AdapterError> {
    let AgentContext { launch, events, processes, .. } = context;
    if !launch.request.authorize_tools {
        return Ok(None);
    }
    let api = AgentApi::new(launch, events.redactor().clone())
        .map_err(|e| AdapterError::Configuration(e.to_string()))?;
    let thread = processes.file_thread().map_err(|e| AdapterError::Agent(e.to_string()))?;
    let folder = Path::new(&launch.request.working_directory);
    Ok(Some(knowledge::report_artifact(api, thread, folder, ReportedFiles::of(&launch.session_home))))
}

impl OwnTools {
    pub fn of(context: &AgentContext) -> Result<Self, AdapterError> {
        Self::new(&context.launch, context.events.clone(), &context.processes)
    }

    /// `processes` determines the file access rights of the deliverables.
    pub fn new(
        launch: &SidecarLaunch,
        events: EventSink,
        processes: &Processes,
    ) -> Result<Self, AdapterError> {
        let folder = Path::new(&launch.request.working_directory);
        let deliverables = Deliverables::new(folder, events.clone(), processes)
            .map_err(|e| AdapterError::Agent(format!("failed to track its deliverables: {e}")))?;
        let api = AgentApi::new(launch, events.redactor().clone())
            .map_err(|e| AdapterError::Configuration(e.to_string()))?;
        let mut shared: Vec<SharedTool> = vec![
            Arc::new(deliverable::DeliverableTool::new(deliverables.clone())),
            Arc::new(handoff::HandoffTool::new(events.clone())),
            Arc::new(memory_pill::MemoryPillTool::new(api.clone())),
            Arc::new(create_task::CreateTaskTool::new(api.clone())),
            Arc::new(record_learning::RecordLearningTool::new(api.clone())),
            Arc::new(log_decision::LogDecisionTool::new(api.clone())),
            Arc::new(propose_consolidation::ProposeConsolidationTool::new(api.clone())),
        ];
        let thread = processes.file_thread().map_err(|e| AdapterError::Agent(e.to_string()))?;
        if launch.request.authorize_tools {
            // A brief gives access to the knowledge of a project.
            let reported = ReportedFiles::of(&launch.session_home);
            shared.extend(knowledge::tools(&api, thread.as_ref(), folder, reported));
        }
        let destination = Destination::AgentApi(api);
        let submit = Arc::new(SubmitTool::new(destination, processes.clone(), thread, folder.to_owned()));
        Ok(Self {
            shared,
            submit,
            requests: Requests::default(),
            deliverables,
            events,
            processes: processes.clone(),
        })
    }

    pub fn shared(&self) -> Vec<SharedTool> {
        self.shared.clone()
    }

    /// The tools for the native agent: the shared ones, and those that wait for the owner through `requests`.
    /// `approval`: leaving plan mode needs the owner's decision.
    pub fn native(&self, requests: &Requests, plan_mode: &PlanMode, approval: bool) -> Vec<SharedTool> {
        let mut tools = self.shared();
        tools.push(self.request_decision(requests));
        tools.push(Arc::new(ask::AskTool::new(requests.clone())));
        tools.push(Arc::new(plan::EnterPlanTool::new(plan_mode.clone())));
        tools.push(Arc::new(plan::ExitPlanTool::new(plan_mode.clone(), requests.clone(), approval)));
        tools.push(Arc::new(todo::TodoTool::new(self.events.clone())));
        tools
    }

    fn request_decision(&self, requests: &Requests) -> SharedTool {
        Arc::new(request_decision::RequestDecisionTool::new(requests.clone(), self.events.clone()))
    }

    /// Requests of served tools that wait for the owner.
    pub const fn requests(&self) -> &Requests {
        &self.requests
    }

    pub const fn deliverables(&self) -> &Deliverables {
        &self.deliverables
    }

    /// The tools for agents that are served over MCP.
    pub fn served(&self) -> Vec<SharedTool> {
        let mut tools = self.shared();
        tools.push(self.request_decision(&self.requests));
        tools.push(self.submit.clone());
        tools
    }

    /// Serves these tools over MCP until the server is dropped. Agents connect with
    /// [`ToolServer::mcp_server_config`].
    pub fn serve(&self, launch: &SidecarLaunch) -> std::io::Result<ToolServer> {
        let folder = agent_folder(launch);
        self.processes.folder(&folder)?;
        let agent = self.processes.user().map(AgentUser::uid);
        ToolServer::start(self.served(), &folder, agent)
    }
}

#[cfg(test)]
mod tests;
