//! The agent alone: this program starts itself again as the agent, without sidecar and control plane.

use std::path::Path;
use std::sync::Arc;

use pilothouse_agent::model::genai::GenaiModel;
use pilothouse_agent::session::{AgentSession, PromptOptions, SessionConfig, Start};

use crate::in_process;

/// The variable with the agent's working folder. A process that has it is the agent.
pub(crate) const FOLDER: &str = "PILOTHOUSE_BENCH_AGENT";
/// The variable with the address of the model server.
pub(crate) const MODELS: &str = "PILOTHOUSE_BENCH_MODELS";

/// Processes one prompt and exits.
pub(crate) fn agent(folder: &Path) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let registry = Arc::new(in_process::registry(std::env::var(MODELS).ok()));
        let model = Arc::new(GenaiModel::new(Arc::clone(&registry)));
        let mut config = SessionConfig::new(folder, folder.join("sessions"), model, registry);
        config.model = Some("scripted/scripted-1".into());
        let (session, _events) = AgentSession::open(config, Start::New { parent: None }).unwrap();
        session.prompt("say hello", PromptOptions::default()).await.unwrap();
    });
}
