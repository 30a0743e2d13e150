//! `container`: one life of one sidecar in a container that knows nothing but its run's token.
//!
//! | variable | what it is |
//! |---|---|
//! | `PILOTHOUSE_URL` | base address of the control plane |
//! | `PILOTHOUSE_SESSION_ID`, `PILOTHOUSE_RUN_ID` | whose run it is |
//! | `PILOTHOUSE_TOKEN` | the run's gateway token |
//! | `PILOTHOUSE_HOME` | where folders are made; `/var/lib/pilothouse` unless it is set |
//! | `PILOTHOUSE_AGENT_USER` | `uid:gid:home` of who the agent and its tools run as, when this runs as root |
//!
//! In that folder, `runs/{run}` is the run directory, which needs to last no longer than the task, and `sessions/{session}`
//! the session's home, where a volume is mounted that outlives it (ruling 23).
//!
//! The agent's user can go through the session's home and read nothing there but what adapters give it, can use the working
//! directory, and cannot look into the run directory: launch file, keys and spool stand there.
//!
//! Nobody drains after a container: it does so itself before it ends. That it ended is told by its runtime.

use std::fs::{self, DirBuilder, OpenOptions, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use pilothouse_domain::{AgentSessionId, RunId};
use pilothouse_wire::keys::GatewayToken;
use pilothouse_wire::launch::SidecarLaunch;
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::timeout;
use tracing::{info, warn};

use crate::broker::BrokerError;
use crate::control_plane::ControlPlane;
use crate::exit::Exit;
use crate::process::{self, AgentUser, USER_VARIABLE};
use crate::retry::Backoff;
use crate::run::RunError;
use crate::{drain, run};

/// Where folders are made unless `PILOTHOUSE_HOME` says so.
const HOME: &str = "/var/lib/pilothouse";
/// How long the launch is asked for; below the 5 minutes that a run has to say that it is ready (ruling 12).
const LAUNCH_LIMIT: Duration = Duration::from_mins(4);
/// How long to wait between two such requests.
const FIRST_WAIT: Duration = Duration::from_millis(100);
const LONGEST_WAIT: Duration = Duration::from_secs(5);
/// How long the rest is sent; together with the time that an agent has to stop below the 2 minutes that ECS gives.
const DRAIN_LIMIT: Duration = Duration::from_secs(30);

/// A container that could not do its work.
#[derive(Debug, thiserror::Error)]
pub enum ContainerError {
    /// A variable is not there, or not what it should be.
    #[error("the variable {0} is missing or malformed")]
    Variable(&'static str),
    /// The control plane did not tell what to run.
    #[error("what to run is not known")]
    Launch(#[source] BrokerError),
    /// The control plane told of another run.
    #[error("the launch is of another run")]
    OtherRun,
    /// The folders cannot be made.
    #[error("the folders of the run cannot be made")]
    Folders(#[source] io::Error),
    /// Signals cannot be handled.
    #[error("signals cannot be handled")]
    Signals(#[source] io::Error),
    /// The run failed.
    #[error(transparent)]
    Run(#[from] RunError),
}

/// What the environment says.
struct Given {
    url: String,
    session: AgentSessionId,
    run: RunId,
    token: GatewayToken,
    home: PathBuf,
    /// Who the agent runs as, when that is another.
    user: Option<AgentUser>,
}

impl Given {
    fn read(variable: impl Fn(&str) -> Option<String>) -> Result<Self, ContainerError> {
        let needed =
            |name| variable(name).filter(|value| !value.is_empty()).ok_or(ContainerError::Variable(name));
        let malformed = |name| move |_| ContainerError::Variable(name);
        let token = serde_json::Value::String(needed("PILOTHOUSE_TOKEN")?);
        Ok(Self {
            url: needed("PILOTHOUSE_URL")?,
            session: needed("PILOTHOUSE_SESSION_ID")?
                .parse()
                .map_err(|_| ContainerError::Variable("PILOTHOUSE_SESSION_ID"))?,
            run: needed("PILOTHOUSE_RUN_ID")?
                .parse()
                .map_err(|_| ContainerError::Variable("PILOTHOUSE_RUN_ID"))?,
            token: serde_json::from_value(token).map_err(malformed("PILOTHOUSE_TOKEN"))?,
            home: variable("PILOTHOUSE_HOME").unwrap_or_else(|| HOME.to_owned()).into(),
            user: AgentUser::named(variable(USER_VARIABLE))
                .map_err(|_| ContainerError::Variable(USER_VARIABLE))?,
        })
    }
}

/// Fetches what is to be run, runs it, and sends what is left.
pub async fn run() -> Result<Exit, ContainerError> {
    process::shut_off();
    let given = Given::read(|name| std::env::var(name).ok())?;
    let mut terminate = signal(SignalKind::terminate()).map_err(ContainerError::Signals)?;
    let launch = tokio::select! {
        launch = launch(&given) => launch,
        // Nothing was begun, so nothing is to be ended or sent.
        _ = terminate.recv() => return Ok(Exit::Done),
    };
    let launch = match launch {
        Err(ContainerError::Launch(error)) if error.is_final() => {
            warn!(error = &error as &dyn std::error::Error, "the control plane refuses this run");
            return Ok(Exit::Rejected);
        }
        launch => launch?,
    };
    if given.user.is_none() {
        warn!("the agent runs as this program's own user, and can read what that can");
    }
    let dir = prepare(&given, launch).map_err(ContainerError::Folders)?;
    match run::run(&dir, given.user).await? {
        Exit::Isolated | Exit::Undrained => drained(&dir).await,
        exit => Ok(exit),
    }
}

/// Asks until it is told, refused for good, or too late.
async fn launch(given: &Given) -> Result<SidecarLaunch, ContainerError> {
    let control_plane = ControlPlane::new(&given.url, &given.token).map_err(ContainerError::Launch)?;
    let asked = timeout(LAUNCH_LIMIT, async {
        let mut backoff = Backoff::new(FIRST_WAIT, LONGEST_WAIT);
        loop {
            match control_plane.launch().await {
                Ok(launch) => return Ok(launch),
                Err(error) if error.is_final() => return Err(error),
                Err(error) => {
                    let wait = backoff.failed();
                    warn!(error = &error as &dyn std::error::Error, ?wait, "the launch is asked for again");
                    tokio::time::sleep(wait).await;
                }
            }
        }
    });
    let launch = asked.await.unwrap_or(Err(BrokerError::Late)).map_err(ContainerError::Launch)?;
    let request = &launch.request;
    if (request.session_id, request.run_id) != (given.session, given.run) {
        return Err(ContainerError::OtherRun);
    }
    Ok(launch)
}

/// Makes the folders of the run, for this user alone, and writes the launch into them. An agent of another user can go
/// through those above its own.
fn prepare(given: &Given, mut launch: SidecarLaunch) -> io::Result<PathBuf> {
    let folder = |path: &Path, mode| DirBuilder::new().recursive(true).mode(mode).create(path);
    let (runs, sessions) = (given.home.join("runs"), given.home.join("sessions"));
    let dir = runs.join(given.run.to_string());
    let session_home = sessions.join(given.session.to_string());
    folder(&dir, 0o700)?;
    folder(&session_home, 0o700)?;
    // A container has no folder of the owner's unless a volume brings it.
    let working_directory = Path::new(&launch.request.working_directory);
    fs::create_dir_all(working_directory)?;
    if let Some(user) = &given.user {
        for path in [&given.home, &sessions, &session_home] {
            fs::set_permissions(path, Permissions::from_mode(0o711))?;
        }
        fs::set_permissions(&runs, Permissions::from_mode(0o700))?;
        if let Err(error) = user.own(working_directory) {
            // A volume that does not let itself be given away may well be open to the user.
            warn!(%error, "the working directory cannot be given to the agent's user");
        }
    }
    launch.session_home = session_home.to_string_lossy().into_owned();
    let mut file = OpenOptions::new();
    let file = file.write(true).create(true).truncate(true).mode(0o600);
    let mut file = file.open(dir.join("launch.json"))?;
    file.write_all(&serde_json::to_vec(&launch)?)?;
    info!(run = %given.run, "launched");
    Ok(dir)
}

/// Sends what the run could not, for a limited time.
async fn drained(dir: &Path) -> Result<Exit, ContainerError> {
    match timeout(DRAIN_LIMIT, drain::drain(dir)).await {
        Ok(exit) => Ok(exit?),
        Err(_) => Ok(Exit::Undrained),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_or_malformed_variable_is_named() {
        let id = uuid::Uuid::now_v7().to_string();
        let all = |name: &str| match name {
            "PILOTHOUSE_HOME" | USER_VARIABLE => None,
            "PILOTHOUSE_URL" => Some("http://127.0.0.1:1".to_owned()),
            _ => Some(id.clone()),
        };
        assert_eq!(Given::read(all).map(|given| given.home).ok(), Some(PathBuf::from(HOME)));
        for name in ["PILOTHOUSE_URL", "PILOTHOUSE_SESSION_ID", "PILOTHOUSE_RUN_ID", "PILOTHOUSE_TOKEN"] {
            for wrong in [None, Some(String::new())] {
                let found = Given::read(|asked| if asked == name { wrong.clone() } else { all(asked) });
                assert!(matches!(found.err(), Some(ContainerError::Variable(named)) if named == name));
            }
        }
        let malformed = |name: &str| if name.ends_with("_ID") { Some("x".into()) } else { all(name) };
        assert!(matches!(
            Given::read(malformed).err(),
            Some(ContainerError::Variable("PILOTHOUSE_SESSION_ID"))
        ));
    }
}
