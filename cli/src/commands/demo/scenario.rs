//! A scenario of a project, step by step with its live stream.

use std::io::IsTerminal as _;
use std::path::Path;
use std::time::Duration;

use pilothouse_api::project_stream::{ProjectMessageBody, StateSync};
use pilothouse_client::{Client, ProjectWatch, ProjectWatchEvent};
use pilothouse_scenarios::{Scenario, ScenarioPlayer, Settings, Step};
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout};

use super::narrator::Narrator;
use crate::context::{now, write};
use crate::error::CliError;
use crate::output;
use crate::output::project_stream::{Names, message};

/// The time limit for each wait for the agents, which are slow at speed 1.
const PATIENCE: Duration = Duration::from_mins(2);
/// The time during which events are shown after a step.
const AFTER_STEP: Duration = Duration::from_millis(400);
/// The name of the play without a failure.
const MAIN: &str = "main";

/// The options of the command.
#[derive(Debug)]
pub(super) struct Choice {
    pub(super) scenario: Scenario,
    pub(super) failure: Option<String>,
    pub(super) capabilities: String,
    pub(super) speed: f64,
    /// Whether each step waits for Enter.
    pub(super) is_stepped: bool,
}

pub(super) async fn run_steps(client: &Client, folder: &Path, choice: &Choice) -> Result<(), CliError> {
    let work = folder.join("work");
    std::fs::create_dir_all(&work).map_err(|source| CliError::File { path: work.clone(), source })?;
    let settings = Settings {
        profile: choice.capabilities.clone(),
        speed: choice.speed,
        folder: work,
        patience: PATIENCE,
    };
    let play = choice.failure.as_deref().unwrap_or(MAIN);
    let mut narrator = Narrator::new();
    write(&format!(
        "{}\nThe agents have the capabilities `{}`.\n",
        choice.scenario.about, choice.capabilities
    ))?;
    let mut player = ScenarioPlayer::begin(client, &choice.scenario, play, settings).await?;
    let project = player.project();
    let mut follower = Follower { watch: client.watch_project(project, None), names: Names::default() };
    for step in player.steps() {
        if choice.is_stepped {
            wait_for_enter().await?;
        }
        narrator.step(&step.title)?;
        follower.show_during(&narrator, &mut player, step).await?;
    }
    narrator.step("The briefing")?;
    narrator.command("pilothouse briefing")?;
    let briefing = client.briefing(project, None).await?;
    Narrator::output(&output::briefing::show(&briefing, narrator.style, now()))
}

/// The live stream of the project.
struct Follower {
    watch: ProjectWatch,
    names: Names,
}

impl Follower {
    /// Performs a step, and prints the events during it and shortly after it.
    async fn show_during(
        &mut self,
        narrator: &Narrator,
        player: &mut ScenarioPlayer<'_>,
        step: &Step,
    ) -> Result<(), CliError> {
        let performing = player.perform(step);
        tokio::pin!(performing);
        loop {
            tokio::select! {
                biased;
                done = &mut performing => break done?,
                next = self.watch.next() => self.show(narrator, next?)?,
            }
        }
        let end = Instant::now() + AFTER_STEP;
        while let Ok(next) = timeout(end.saturating_duration_since(Instant::now()), self.watch.next()).await {
            self.show(narrator, next?)?;
        }
        Ok(())
    }

    fn show(&mut self, narrator: &Narrator, event: ProjectWatchEvent) -> Result<(), CliError> {
        let ProjectWatchEvent::Message(received) = event else { return Ok(()) };
        match &received.body {
            ProjectMessageBody::StateSync(state) => {
                if let StateSync::Whole(state) = &**state {
                    self.names.read(state);
                }
                Ok(())
            }
            // Events for debugging.
            ProjectMessageBody::Event(event) if event.workspace.is_none() => Ok(()),
            body => Narrator::output(&message(body, &self.names, narrator.style)),
        }
    }
}

async fn wait_for_enter() -> Result<(), CliError> {
    if !std::io::stdin().is_terminal() {
        return Err(CliError::Usage("`--step` needs a terminal, where you press Enter for each step".into()));
    }
    write("\n[Enter] ")?;
    let (sender, read) = oneshot::channel();
    // A blocking task of the runtime would delay the end of the program after Ctrl-C until Enter.
    std::thread::spawn(move || sender.send(std::io::stdin().read_line(&mut String::new())));
    read.await.map_err(|e| CliError::Failed(e.to_string()))?.map(drop).map_err(CliError::Output)
}
