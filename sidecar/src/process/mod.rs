//! Starts the processes of agents and of their tools, in isolation from the sidecar.
//!
//! Each process has a selected environment without the sidecar's secrets, and a guard
//! (`pilothouse_agent::process::guard`). The guard ends all descendants of the process when the process ends, when the
//! sidecar requests it, and when the sidecar dies for any reason (decision 15). If the sidecar runs as root in a
//! container, the processes run as another [`AgentUser`], who cannot read the sidecar's files and gains no privileges.
//! If the launch demands it, the kernel confines them to some folders, or hides the run directory in a container
//! ([`confinement`]).
//!
//! | module | purpose |
//! |---|---|
//! | [`environment`] | selects the variables that such a process sees |
//! | [`confinement`] | which files such a process may read and write |
//! | [`in_process`] | runs work of the sidecar itself with the processes' file access rights |

pub mod confinement;
pub mod environment;
pub mod git;
pub mod in_process;

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use pilothouse_wire::launch::SidecarLaunch;
use tracing::warn;

use self::in_process::{AgentThread, Rights};

pub use self::confinement::{agent_folder, named_folders};
pub use pilothouse_agent::process::{
    AgentUser, Ending, Group, Guard, Launch, ProcessHandle, ToolProcesses, guard, is_below_this,
    tool_processes,
};

/// Variable by which an image names the user of its agents: `uid:gid:home`.
pub const USER_VARIABLE: &str = "PILOTHOUSE_AGENT_USER";

/// Starts the processes of an agent. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Processes {
    guard: Guard,
    /// Variables that point confined programs to folders that they can write to.
    variables: Arc<[(&'static str, PathBuf)]>,
    /// Why the agent must not be started: a sentence for people.
    refusal: Option<Arc<str>>,
    /// Secrets of the agent by variable.
    secrets: Arc<BTreeMap<String, String>>,
    /// The thread for file operations with the rights of these processes, created on first use. Clones share it.
    file_thread: Arc<Mutex<Option<AgentThread>>>,
}

impl Processes {
    /// Uses this program as the guard. Processes run as `user`, or as the sidecar's own user.
    pub fn new(user: Option<AgentUser>) -> io::Result<Self> {
        Ok(Self::below(Guard::this_program()?.for_user(user)))
    }

    /// Creates the starter for a run: guarded by this program, and confined as in the launch. An agent with its own
    /// user is not confined.
    pub fn of_run(launch: &SidecarLaunch, user: Option<AgentUser>) -> io::Result<Self> {
        let processes = Self::new(user)?;
        Ok(if processes.user().is_none() { processes.confined_for(launch) } else { processes })
    }

    /// Adds the confinement of the run's launch.
    #[must_use]
    pub fn confined_for(mut self, launch: &SidecarLaunch) -> Self {
        let Some(asked) = &launch.confinement else {
            if !launch.hidden_where_supported.is_empty() {
                let confinement = confinement::hiding(&launch.hidden_where_supported);
                self.guard = self.guard.confined_to(confinement);
            }
            return self;
        };
        match confinement::prepare(launch, asked) {
            Ok(prepared) => {
                self.guard = self.guard.confined_to(Some(prepared.confinement));
                self.variables = prepared.variables.into();
                self.refusal = prepared.refusal.map(Into::into);
            }
            Err(sentence) => self.refusal = Some(sentence.into()),
        }
        self
    }

    fn below(guard: Guard) -> Self {
        Self {
            guard,
            variables: Arc::new([]),
            refusal: None,
            secrets: Arc::default(),
            file_thread: Arc::default(),
        }
    }

    /// Adds secrets for the agent's own processes. Other processes do not get them.
    #[must_use]
    pub fn with_secrets(self, secrets: BTreeMap<String, String>) -> Self {
        Self { secrets: Arc::new(secrets), ..self }
    }

    /// Secrets of the agent by variable.
    pub fn secrets(&self) -> &BTreeMap<String, String> {
        &self.secrets
    }

    /// The error is the reason why no agent may be started.
    pub fn check(&self) -> Result<(), String> {
        self.refusal.as_deref().map_or(Ok(()), |sentence| Err(sentence.to_owned()))
    }

    /// Adds folders that confined programs may write to. Folders that would expose hidden files are skipped.
    #[must_use]
    pub fn writing_to(&self, folders: impl IntoIterator<Item = PathBuf>) -> Self {
        let mut more = self.clone();
        let Some(mut confinement) = more.guard.confinement().cloned() else { return more };
        for folder in folders {
            if let Err(error) = confinement.allow_writing(&folder) {
                warn!(%error, "failed to grant access to a folder of the agent");
            }
        }
        more.guard = more.guard.confined_to(Some(confinement));
        more
    }

    /// Whether the kernel limits where these processes may write.
    pub const fn are_confined(&self) -> bool {
        match self.guard.confinement() {
            Some(confinement) => !confinement.writes_elsewhere(),
            None => false,
        }
    }

    /// Variables that point confined programs to folders that they can write to.
    pub fn folder_variables(&self) -> Vec<(&'static str, PathBuf)> {
        self.variables.to_vec()
    }

    /// A thread with the file access rights of these processes. `None` if those are the sidecar's own rights.
    pub fn file_thread(&self) -> io::Result<Option<AgentThread>> {
        let rights = match (self.user(), self.guard.confinement()) {
            (Some(user), _) => Rights::OfUser(user.clone()),
            // Other platforms cannot confine a thread. There, file tools limit themselves to the working directory.
            (None, Some(confinement)) if cfg!(any(target_os = "linux", target_os = "android")) => {
                Rights::Confined(confinement.clone())
            }
            _ => return Ok(None),
        };
        let mut thread = self.file_thread.lock().unwrap_or_else(PoisonError::into_inner);
        if thread.is_none() {
            *thread = Some(AgentThread::start(rights)?);
        }
        Ok(thread.clone())
    }

    /// Ends all processes when the lease in this file expires.
    #[must_use]
    pub fn leased(self, lease: Option<PathBuf>) -> Self {
        Self { guard: self.guard.leased(lease), ..self }
    }

    /// Locks this file as long as any of the processes runs.
    #[must_use]
    pub fn locking(self, lock: Option<PathBuf>) -> Self {
        Self { guard: self.guard.locking(lock), ..self }
    }

    /// Uses the `pilothouse-sidecar` at `program` as the guard.
    pub fn guarded_by(program: PathBuf, user: Option<AgentUser>) -> Self {
        Self::below(Guard::at(program).for_user(user))
    }

    /// No guard, and the same user. For programs other than `pilothouse-sidecar`, such as unit tests.
    pub fn unguarded() -> Self {
        Self::below(Guard::GroupAlone)
    }

    /// `None` for the sidecar's own user.
    pub const fn user(&self) -> Option<&AgentUser> {
        self.guard.user()
    }

    pub const fn guard(&self) -> &Guard {
        &self.guard
    }

    /// Creates a command with the selected environment. The caller sets arguments, folder, further variables and
    /// streams as usual.
    pub fn command(&self, program: impl AsRef<OsStr>) -> io::Result<Launch> {
        self.command_ending(program, Ending::default())
    }

    /// Like [`Self::command`], for a program that needs time to end.
    pub fn command_ending(&self, program: impl AsRef<OsStr>, ending: Ending) -> io::Result<Launch> {
        self.check().map_err(io::Error::other)?;
        let mut launch = self.guard.command(program, ending)?;
        launch.command().envs(self.environment());
        Ok(launch)
    }

    /// Creates a folder and its parents. Only the agent's processes can access it.
    pub fn folder(&self, path: &Path) -> io::Result<()> {
        DirBuilder::new().recursive(true).mode(0o700).create(path)?;
        self.user().map_or(Ok(()), |user| user.own(path))
    }

    pub fn environment(&self) -> Vec<(OsString, OsString)> {
        let mut shown = environment::chosen();
        if let Some(user) = self.user() {
            shown.retain(|(name, _)| !["HOME", "USER", "LOGNAME"].iter().any(|own| name == own));
            shown.push(("HOME".into(), user.home().into()));
        }
        shown.retain(|(name, _)| !self.variables.iter().any(|(own, _)| name == own));
        shown.extend(self.variables.iter().map(|(name, folder)| ((*name).into(), folder.into())));
        shown
    }
}

/// Prevents an agent with the sidecar's own user from reading this process's memory and environment, which hold the
/// run's token and the keys of model providers. Has no effect against root.
pub fn shut_off() {
    #[cfg(any(target_os = "linux", target_os = "android"))]
    if let Err(error) = nix::sys::prctl::set_dumpable(false) {
        tracing::warn!(%error, "failed to protect this process from other processes of its user");
    }
}
