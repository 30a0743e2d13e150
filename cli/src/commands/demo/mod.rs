//! `pilothouse demo`: a tour on a temporary server.

mod demo_session;
mod narrator;
mod scenario;
mod story;

use std::path::Path;
use std::sync::Arc;

use clap::Args;
use pilothouse_client::{Client, Credentials};
use pilothouse_domain::UserId;
use pilothouse_domain::value::AllowedModels;
use pilothouse_embedded::{AgentsOnExit, Options, Retention, Server};
use pilothouse_local_keys::{DEFAULT_OWNER, LocalKeys};
use pilothouse_scenarios::Scenario;
use tokio::sync::oneshot;

use self::scenario::Choice;
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
///
/// With `--scenario`, plays a project with several agents instead: their work, and the decisions of a person.
#[derive(Debug, Args)]
pub struct Demo {
    /// Play this scenario of a project: maya, david, priya, rosa, sam, or a file (.json)
    #[arg(long, value_name = "NAME")]
    pub scenario: Option<String>,
    /// Play a failure of the scenario: guardrail, crash, malformed, error or timeout
    #[arg(long, value_name = "NAME", requires = "scenario")]
    pub failure: Option<String>,
    /// The capabilities of the agents: all, openai, claude, gemini or minimal
    #[arg(long, value_name = "PROFILE", requires = "scenario", default_value = "all")]
    pub capabilities: String,
    /// Divide the waiting times of the agents by this factor
    #[arg(long, value_name = "FACTOR", requires = "scenario", default_value_t = 1.0)]
    pub speed: f64,
    /// Wait for Enter before each step
    #[arg(long, requires = "scenario")]
    pub step: bool,
}

impl Demo {
    pub(super) async fn run(self) -> Result<Exit, CliError> {
        let choice = self.choice()?;
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
            pass_env: Vec::new(),
            console_hosts: Vec::new(),
            default_adapter: None,
            allowed_models: AllowedModels::default(),
            retention: Retention::default(),
        })
        .await?;
        let client = client(server.url(), &data)?;

        let (stop, stopped) = oneshot::channel::<()>();
        let serving = tokio::spawn(server.run_until(async move {
            // Ends the server on a message, and also when the sender is dropped.
            let _ = stopped.await;
        }));
        let result = tokio::select! {
            result = play(&client, &files, folder.path(), choice.as_ref()) => result.map(|()| Exit::Done),
            _ = tokio::signal::ctrl_c() => Ok(Exit::Stopped),
        };
        if choice.is_some() || !matches!(result, Ok(Exit::Done)) {
            // No agent may outlive the demo.
            story::cancel_sessions(&client).await;
        }
        drop(stop);
        let _ = serving.await;
        result
    }

    fn choice(&self) -> Result<Option<Choice>, CliError> {
        let Some(name) = &self.scenario else { return Ok(None) };
        if !(self.speed.is_finite() && self.speed > 0.0) {
            return Err(CliError::Usage("`--speed` must be greater than 0".into()));
        }
        Ok(Some(Choice {
            scenario: Scenario::named(name)?,
            failure: self.failure.clone(),
            capabilities: self.capabilities.clone(),
            speed: self.speed,
            is_stepped: self.step,
        }))
    }
}

async fn play(
    client: &Client,
    files: &story::Files,
    folder: &Path,
    choice: Option<&Choice>,
) -> Result<(), CliError> {
    match choice {
        Some(choice) => Box::pin(scenario::run_steps(client, folder, choice)).await,
        None => Box::pin(story::run_steps(client, files)).await,
    }
}

fn client(url: &str, data: &Path) -> Result<Client, CliError> {
    let keys = LocalKeys::open_or_create(data)?;
    let owner = UserId::parse(DEFAULT_OWNER).map_err(|e| CliError::Failed(e.to_string()))?;
    Ok(Client::new(url, Credentials::local(Arc::new(keys), owner))?)
}
