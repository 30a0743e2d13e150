//! `pilothouse demo`: everything once, on a server of its own that is gone afterwards.

mod narrator;
mod scene;
mod story;

use std::path::Path;
use std::sync::Arc;

use clap::Args;
use pilothouse_domain::UserId;
use tokio::sync::oneshot;

use crate::client::{Client, Credentials};
use crate::error::CliError;
use crate::exit::Exit;
use crate::keys::{DEFAULT_OWNER, LocalKeys};
use crate::server::{Options, Server};

/// A recorded run of a real agent: tools, a task list, a subagent, a question, a plan.
const RECORDING: &str = include_str!("../../../../tests/fixtures/transcripts/claude-sdk-full-tour.jsonl");
/// A run that costs more than it may.
const BUDGET_SCRIPT: &str = include_str!("../../../assets/demo-budget.json");

/// See everything once: two recorded sessions, steered, paused, answered and approved.
///
/// Starts a server of its own in a temporary folder, plays two agents (no model is called, nothing is spent), and does
/// with them what you would do, naming each command. Ends by itself after less than a minute; exits with 1 if anything
/// did not happen.
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
        // Port 0: a server that runs already is not in the way.
        let listen = std::net::SocketAddr::from(([127, 0, 0, 1], 0));
        let server = Server::start(Options { listen, data: data.clone(), ephemeral: true }).await?;
        let client = client(server.url(), &data)?;

        let (stop, stopped) = oneshot::channel::<()>();
        let serving = tokio::spawn(server.run_until(async move {
            // Either way the server is to end: when it is told to, and when nobody is left to tell it.
            let _ = stopped.await;
        }));
        let told = tokio::select! {
            told = story::tell(&client, &files) => told.map(|()| Exit::Done),
            _ = tokio::signal::ctrl_c() => Ok(Exit::Stopped),
        };
        if !matches!(told, Ok(Exit::Done)) {
            // Nothing is to outlive the demo.
            story::clear_the_stage(&client).await;
        }
        drop(stop);
        let _ = serving.await;
        told
    }
}

fn client(url: &str, data: &Path) -> Result<Client, CliError> {
    let keys = LocalKeys::open_or_create(data)?;
    let owner = UserId::parse(DEFAULT_OWNER).map_err(|e| CliError::Failed(e.to_string()))?;
    Ok(Client::new(url, Credentials::local(Arc::new(keys), owner))?)
}
