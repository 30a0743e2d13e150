//! `pilothouse-sidecar run <run-dir>`, `pilothouse-sidecar drain <run-dir>` and `pilothouse-sidecar container`; and
//! `pilothouse-sidecar guard … -- <program> …`, by which a sidecar runs what ends with it, and `pilothouse-sidecar tools <socket>`,
//! by which agents reach its tools.

use std::error::Error;
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use pilothouse_sidecar::exit::Exit;
use pilothouse_sidecar::own_tools::bridge;
use pilothouse_sidecar::process::guard;
use pilothouse_sidecar::{container, drain, run};
use tracing::error;

const USAGE: &str = "usage: pilothouse-sidecar run <run-dir>
       pilothouse-sidecar drain <run-dir>
       pilothouse-sidecar container";

/// What the program is asked to do.
enum Task {
    /// Runs the sidecar of a folder.
    Run(PathBuf),
    /// Sends what is left in a folder.
    Drain(PathBuf),
    /// Runs the sidecar that the environment names.
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
    // Before everything else: it is between an agent and each of its commands.
    if let [verb, rest @ ..] = arguments.as_slice()
        && verb == guard::VERB
    {
        return guard::run(rest);
    }
    let level =
        std::env::var("PILOTHOUSE_LOG").ok().and_then(|l| l.parse().ok()).unwrap_or(tracing::Level::INFO);
    tracing_subscriber::fmt().with_writer(std::io::stderr).with_max_level(level).with_ansi(false).init();

    if let [verb, socket] = arguments.as_slice()
        && verb == bridge::VERB
    {
        return bridge::run(socket);
    }
    let Some(task) = Task::parse(&arguments) else {
        eprintln!("{USAGE}");
        return Exit::Usage.into();
    };
    // One thread: the sidecar mostly waits, and stands beside every agent.
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(e) => {
            error!(error = &e as &dyn Error, "the runtime cannot be started");
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
