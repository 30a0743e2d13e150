//! Command line of the sidecar.
//!
//! - `pilothouse-sidecar run <run-dir>` runs the sidecar of a run directory.
//! - `pilothouse-sidecar drain <run-dir>` sends the events that a dead sidecar left in its spool.
//! - `pilothouse-sidecar container` runs the sidecar that the container's environment describes.
//! - `pilothouse-sidecar guard … -- <program> …` runs a program that ends together with the sidecar. The sidecar
//!   calls this itself.
//! - `pilothouse-sidecar tools <socket>` connects an agent to the sidecar's tools over MCP.
//! - `pilothouse-sidecar confinement` prints how the kernel can confine agents.

use std::error::Error;
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use pilothouse_sidecar::exit::Exit;
use pilothouse_sidecar::own_tools::bridge;
use pilothouse_sidecar::process::{self, guard};
use pilothouse_sidecar::{container, drain, run};
use tracing::error;

const USAGE: &str = "usage: pilothouse-sidecar run <run-dir>
       pilothouse-sidecar drain <run-dir>
       pilothouse-sidecar container
       pilothouse-sidecar confinement";

enum Task {
    Run(PathBuf),
    /// Sends what an earlier sidecar left in the spool of a run directory.
    Drain(PathBuf),
    Container,
}

impl Task {
    fn parse(arguments: &[OsString]) -> Option<Self> {
        match arguments {
            [verb, path] if verb == "run" => Some(Self::Run(path.into())),
            [verb, path] if verb == "drain" => Some(Self::Drain(path.into())),
            [verb] if verb == "container" => Some(Self::Container),
            _ => None,
        }
    }

    async fn carry_out(self) -> Result<Exit, Box<dyn Error>> {
        Ok(match self {
            Self::Run(path) => run::run(&path, None).await?,
            Self::Drain(path) => drain::drain(&path).await?,
            Self::Container => container::run().await?,
        })
    }
}

fn main() -> ExitCode {
    let arguments: Vec<OsString> = std::env::args_os().skip(1).collect();
    // First, because a guard runs before every command of an agent.
    if let [verb, rest @ ..] = arguments.as_slice()
        && verb == guard::VERB
    {
        return guard::run(rest);
    }
    if let [verb] = arguments.as_slice()
        && verb == "confinement"
    {
        println!("{}", process::confinement::support_in_words());
        return ExitCode::SUCCESS;
    }
    let level =
        std::env::var("PILOTHOUSE_LOG").ok().and_then(|l| l.parse().ok()).unwrap_or(tracing::Level::INFO);
    tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        // The sidecar must survive a log that it cannot write, for example on a full disk.
        .log_internal_errors(false)
        .with_max_level(level)
        .with_ansi(false)
        .init();

    if let [verb, socket] = arguments.as_slice()
        && verb == bridge::VERB
    {
        return bridge::run(socket);
    }
    let Some(task) = Task::parse(&arguments) else {
        eprintln!("{USAGE}");
        return Exit::Usage.into();
    };
    // One thread uses less memory next to every agent, and the sidecar mostly waits.
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(e) => {
            error!(error = &e as &dyn Error, "failed to start the async runtime");
            return Exit::Failed.into();
        }
    };
    match runtime.block_on(task.carry_out()) {
        Ok(exit) => exit.into(),
        Err(e) => {
            error!(error = &*e, "the sidecar failed");
            Exit::Failed.into()
        }
    }
}
