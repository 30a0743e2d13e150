//! `container`: runs a sidecar in a container that knows nothing but its run's token.
//!
//! | variable | meaning |
//! |---|---|
//! | `PILOTHOUSE_URL` | base URL of the control plane |
//! | `PILOTHOUSE_SESSION_ID`, `PILOTHOUSE_RUN_ID` | ids of the session and the run |
//! | `PILOTHOUSE_TOKEN` | the run's gateway token |
//! | `PILOTHOUSE_HOME` | parent folder of all state; defaults to `/var/lib/pilothouse` |
//! | `PILOTHOUSE_AGENT_USER` | `uid:gid:home` of the user that the agent and its tools run as, if the sidecar runs as root |
//!
//! Below that home, `runs/{run}` is the run directory, which the task needs until it ends, and `sessions/{session}` is
//! the session's home, where a volume that outlives the task is mounted (decision 23).
//!
//! The agent's user can traverse the session's home and read what adapters give it there. It can use the working
//! directory. It has no access to the run directory with the launch file, keys and the spool.
//!
//! No `drain` runs after a container, so the container drains its own spool before it exits. The container runtime
//! reports the exit to the control plane.

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
use crate::broker::control_plane::ControlPlane;
use crate::exit::Exit;
use crate::process::{self, AgentUser, USER_VARIABLE};
use crate::retry::Backoff;
use crate::run::RunError;
use crate::{drain, run};

const HOME: &str = "/var/lib/pilothouse";
/// Limit of asking for the launch. Below the 5 minutes in which a run must report that it is ready (decision 12).
const LAUNCH_LIMIT: Duration = Duration::from_mins(4);
/// First and longest wait between two such requests.
const FIRST_WAIT: Duration = Duration::from_millis(100);
const MAX_WAIT: Duration = Duration::from_secs(5);
/// Limit of sending the remaining events. Together with the time for stopping the agent, below the 2 minutes of ECS.
const DRAIN_LIMIT: Duration = Duration::from_secs(30);

#[derive(Debug, thiserror::Error)]
pub enum ContainerError {
    /// A variable is missing or malformed.
    #[error("the variable {0} is missing or malformed")]
    Variable(&'static str),
    #[error("failed to fetch the launch from the control plane")]
    Launch(#[source] BrokerError),
    /// The control plane returned the launch of another run.
    #[error("the launch belongs to another run")]
    OtherRun,
    #[error("failed to create the folders of the run")]
    Folders(#[source] io::Error),
    #[error("failed to install signal handlers")]
    Signals(#[source] io::Error),
    #[error(transparent)]
    Run(#[from] RunError),
}

struct ContainerEnvironment {
    url: String,
    session: AgentSessionId,
    run: RunId,
    token: GatewayToken,
    home: PathBuf,
    /// The user that the agent runs as, if it differs from the sidecar's.
    user: Option<AgentUser>,
}

impl ContainerEnvironment {
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

/// Fetches the launch, runs the sidecar and sends the remaining events.
pub async fn run() -> Result<Exit, ContainerError> {
    process::shut_off();
    let given = ContainerEnvironment::read(|name| std::env::var(name).ok())?;
    let mut terminate = signal(SignalKind::terminate()).map_err(ContainerError::Signals)?;
    let launch = tokio::select! {
        launch = launch(&given) => launch,
        // Nothing to stop or send yet.
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
        warn!("the agent runs as the sidecar's own user and can read the sidecar's files");
    }
    let dir = prepare(&given, launch).map_err(ContainerError::Folders)?;
    match run::run(&dir, given.user).await? {
        Exit::LeaseExpired | Exit::Undrained => drained(&dir).await,
        exit => Ok(exit),
    }
}

/// Asks for the launch until the control plane returns it, refuses the run for good, or the time is up.
async fn launch(given: &ContainerEnvironment) -> Result<SidecarLaunch, ContainerError> {
    let control_plane = ControlPlane::new(&given.url, &given.token).map_err(ContainerError::Launch)?;
    let asked = timeout(LAUNCH_LIMIT, async {
        let mut backoff = Backoff::new(FIRST_WAIT, MAX_WAIT);
        loop {
            match control_plane.launch().await {
                Ok(launch) => return Ok(launch),
                Err(error) if error.is_final() => return Err(error),
                Err(error) => {
                    let wait = backoff.failed();
                    warn!(
                        error = &error as &dyn std::error::Error,
                        ?wait,
                        "failed to fetch the launch; retrying"
                    );
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

/// Creates the folders of the run, readable for this user only, and writes the launch file. An agent with its own
/// user can traverse the folders above its home.
fn prepare(given: &ContainerEnvironment, mut launch: SidecarLaunch) -> io::Result<PathBuf> {
    let folder = |path: &Path, mode| DirBuilder::new().recursive(true).mode(mode).create(path);
    let (runs, sessions) = (given.home.join("runs"), given.home.join("sessions"));
    let dir = runs.join(given.run.to_string());
    let session_home = sessions.join(given.session.to_string());
    folder(&dir, 0o700)?;
    folder(&session_home, 0o700)?;
    // A container has no folder of the owner unless a volume provides one.
    let working_directory = Path::new(&launch.request.working_directory);
    fs::create_dir_all(working_directory)?;
    if let Some(user) = &given.user {
        for path in [&given.home, &sessions, &session_home] {
            fs::set_permissions(path, Permissions::from_mode(0o711))?;
        }
        fs::set_permissions(&runs, Permissions::from_mode(0o700))?;
        if let Err(error) = user.own(working_directory) {
            // This may fail on a volume to which the agent's user already has access.
            warn!(%error, "failed to change the owner of the working directory to the agent's user");
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
        assert_eq!(ContainerEnvironment::read(all).map(|given| given.home).ok(), Some(PathBuf::from(HOME)));
        for name in ["PILOTHOUSE_URL", "PILOTHOUSE_SESSION_ID", "PILOTHOUSE_RUN_ID", "PILOTHOUSE_TOKEN"] {
            for wrong in [None, Some(String::new())] {
                let found =
                    ContainerEnvironment::read(
                        |asked| if asked == name { wrong.clone() } else { all(asked) },
                    );
                assert!(matches!(found.err(), Some(ContainerError::Variable(named)) if named == name));
            }
        }
        let malformed = |name: &str| if name.ends_with("_ID") { Some("x".into()) } else { all(name) };
        assert!(matches!(
            ContainerEnvironment::read(malformed).err(),
            Some(ContainerError::Variable("PILOTHOUSE_SESSION_ID"))
        ));
    }
}
