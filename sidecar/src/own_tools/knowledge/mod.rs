//! The tools with which agents of a project share knowledge (S2, "Knowledge Store"; decision 84). The control plane checks the
//! workstreams of the agent.

mod decision_detail;
mod flag_coherence;
mod read_artifact;
mod report_artifact;
mod search_knowledge;
mod workspace;

use std::path::Path;
use std::sync::Arc;

use pilothouse_agent::tool::SharedTool;

use crate::agent_api::AgentApi;
use crate::process::in_process::AgentThread;
use crate::unreported::ReportedFiles;

/// The tool with which the sidecar itself reports files of the agent.
pub(super) fn report_artifact(
    api: AgentApi,
    thread: Option<AgentThread>,
    working_directory: &Path,
    reported: ReportedFiles,
) -> SharedTool {
    Arc::new(report_artifact::ReportArtifactTool::new(api, thread, working_directory, reported))
}

/// The tools of an agent that works in `working_directory`. `thread` reads files, if the agent's rights are not the sidecar's.
pub(super) fn tools(
    api: &AgentApi,
    thread: Option<&AgentThread>,
    working_directory: &Path,
    reported: ReportedFiles,
) -> Vec<SharedTool> {
    vec![
        report_artifact(api.clone(), thread.cloned(), working_directory, reported),
        Arc::new(read_artifact::ReadArtifactTool::new(api.clone())),
        Arc::new(search_knowledge::SearchKnowledgeTool::new(api.clone())),
        Arc::new(decision_detail::DecisionDetailTool::new(api.clone())),
        Arc::new(flag_coherence::FlagCoherenceTool::new(api.clone())),
    ]
}
