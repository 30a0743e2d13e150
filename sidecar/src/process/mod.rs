//! Starts the processes of agents and of their tools, apart from the sidecar.
//!
//! Each has a chosen environment (no secret of the sidecar's is in it) and a guard (`pilothouse_agent::process::guard`), which ends
//! everything that it started when it ends, when it is told to, and when the sidecar is gone, however that died (ruling 15). Where
//! the sidecar runs as root in a container, they run as another [`AgentUser`], who can read nothing of the sidecar's and gains no
//! privileges.
//!
//! | module | what it is |
//! |---|---|
//! | [`environment`] | what such a process sees of the sidecar's environment |
//! | [`in_process`] | does a piece of the sidecar's own work with that user's rights to files |

pub mod environment;
pub mod in_process;

use std::ffi::{OsStr, OsString};
use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

pub use pilothouse_agent::process::{AgentUser, Ending, Group, Guard, Launch, Reins, guard};

/// The variable by which an image names the user of its agents: `uid:gid:home`.
pub const USER_VARIABLE: &str = "PILOTHOUSE_AGENT_USER";

/// How the processes of an agent are started. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Processes {
    guard: Guard,
}

impl Processes {
    /// Guarded by this program. `user`: who they run as; none: who the sidecar runs as.
    pub fn new(user: Option<AgentUser>) -> io::Result<Self> {
        Ok(Self { guard: Guard::this_program()?.for_user(user) })
    }

    /// Guarded by the `pilothouse-sidecar` at `program`.
    pub fn guarded_by(program: PathBuf, user: Option<AgentUser>) -> Self {
        Self { guard: Guard::at(program).for_user(user) }
    }

    /// Without a guard, as the same user: where this program is not `pilothouse-sidecar`, as in unit tests.
    pub const fn unguarded() -> Self {
        Self { guard: Guard::GroupAlone }
    }

    /// Who they run as, when that is not who the sidecar runs as.
    pub const fn user(&self) -> Option<&AgentUser> {
        self.guard.user()
    }

    /// What guards them.
    pub const fn guard(&self) -> &Guard {
        &self.guard
    }

    /// A command in the chosen environment. Arguments, folder, more variables and streams are set as on any other.
    pub fn command(&self, program: impl AsRef<OsStr>) -> io::Result<Launch> {
        self.command_ending(program, Ending::default())
    }

    /// The same for one that does not end at once.
    pub fn command_ending(&self, program: impl AsRef<OsStr>, ending: Ending) -> io::Result<Launch> {
        let mut launch = self.guard.command(program, ending)?;
        launch.command().envs(self.environment());
        Ok(launch)
    }

    /// Makes a folder and those above it; the agent's processes alone can look into it.
    pub fn folder(&self, path: &Path) -> io::Result<()> {
        DirBuilder::new().recursive(true).mode(0o700).create(path)?;
        self.user().map_or(Ok(()), |user| user.own(path))
    }

    /// All that such a process sees unless it is given more.
    pub fn environment(&self) -> Vec<(OsString, OsString)> {
        let mut shown = environment::chosen();
        if let Some(user) = self.user() {
            shown.retain(|(name, _)| !["HOME", "USER", "LOGNAME"].iter().any(|own| name == own));
            shown.push(("HOME".into(), user.home().into()));
        }
        shown
    }
}

/// Keeps an agent that runs under the sidecar's own user from reading this process's memory and environment, which hold the
/// run's token and the keys of models. Root reads them all the same.
pub fn shut_off() {
    #[cfg(any(target_os = "linux", target_os = "android"))]
    if let Err(error) = nix::sys::prctl::set_dumpable(false) {
        tracing::warn!(%error, "this process can be read by others of its user");
    }
}
