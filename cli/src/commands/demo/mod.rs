//! `pilothouse demo`: a tour on a temporary server.

mod demo_session;
mod narrator;
mod story;

use std::path::Path;
use std::sync::Arc;

use clap::Args;
use pilothouse_client::{Client, Credentials};
use pilothouse_domain::UserId;
use pilothouse_embedded::{AgentsOnExit, Options, Server};
use pilothouse_local_keys::{DEFAULT_OWNER, LocalKeys};
use tokio::sync::oneshot;

use crate::error::CliError;
use crate::exit::Exit;

/// A recorded run of a real agent: tools, a task list, a subagent, a question, a plan.
const RECORDING: &str = include_str!("../../../../tests/fixtures/transcripts/claude-sdk-full-tour.jsonl");
/// A run that exceeds its cap.
const BUDGET_SCRIPT: &str = include_str!("../../../assets/demo-budget.json");

/// Show a tour: two sessions that are steered, paused, answered and approved.
///
/// Starts a server in a temporary folder, plays two agents (no model is called, nothing is spent), and runs and prints the
/// commands that you would type. Takes less than a minute. The exit code is 1 if a step failed.
#[derive(Debug, Args)]
pub struct Demo {}

impl Demo {
    pub(super) async fn run(self) -> Result<Exit, CliError> {
        super::up::logs();
        let folder = tempfile::Builder::new()
            .prefix("pilothouse-demo-")
            .tempdir()
            .map_err(|source| CliError::File { path: std::env::temp_dir(), source })?;
        let files = story::Files::write(folder.path())?;
        let data = folder.path().join("data");
        // Port 0 avoids a conflict with a running server.
        let listen = std::net::SocketAddr::from(([127, 0, 0, 1], 0));
        let server = Server::start(Options {
            listen,
            data: data.clone(),
            agents_on_exit: AgentsOnExit::End,
            confine: None,
            secrets: None,
            console_hosts: Vec::new(),
            default_adapter: None,
        })
        .await?;
        let client = client(server.url(), &data)?;

        let (stop, stopped) = oneshot::channel::<()>();
        let serving = tokio::spawn(server.run_until(async move {
            // Ends the server on a message, and also when the sender is dropped.
            let _ = stopped.await;
        }));
        let result = tokio::select! {
            result = story::run_steps(&client, &files) => result.map(|()| Exit::Done),
            _ = tokio::signal::ctrl_c() => Ok(Exit::Stopped),
        };
        if !matches!(result, Ok(Exit::Done)) {
            // No agent may outlive the demo.
            story::cancel_sessions(&client).await;
        }
        drop(stop);
        let _ = serving.await;
        result
    }
}

fn client(url: &str, data: &Path) -> Result<Client, CliError> {
    let keys = LocalKeys::open_or_create(data)?;
    let owner = UserId::parse(DEFAULT_OWNER).map_err(|e| CliError::Failed(e.to_string()))?;
    Ok(Client::new(url, Credentials::local(Arc::new(keys), owner))?)
}
