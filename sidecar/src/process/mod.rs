//! Starts the processes of agents and of their tools, apart from the sidecar.
//!
//! Each has a chosen environment (no secret of the sidecar's is in it), a process group of its own that ends as a whole,
//! and a [`guard`] that ends the group when the sidecar is gone, however that died (ruling 15). Where the sidecar runs as
//! root in a container, they run as another [`AgentUser`], who can read nothing of the sidecar's and gains no privileges.
//!
//! | module | what it is |
//! |---|---|
//! | [`environment`] | what such a process sees of the sidecar's environment |
//! | [`user`] | who it runs as |
//! | [`guard`] | the program that stands between |
//! | [`group`] | a process that was started, with everything that it started |
//! | [`in_process`] | does a piece of the sidecar's own work with that user's rights to files |

pub mod environment;
pub mod group;
pub mod guard;
pub mod in_process;
pub mod user;

use std::ffi::{OsStr, OsString};
use std::fs::DirBuilder;
use std::io;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use nix::fcntl::{FcntlArg, FdFlag, fcntl};
use tokio::process::Command;

pub use group::Group;
pub use user::AgentUser;

/// How the processes of an agent are started. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Processes {
    guard: Option<PathBuf>,
    user: Option<AgentUser>,
}

impl Processes {
    /// Guarded by this program. `user`: who they run as; none: who the sidecar runs as.
    pub fn new(user: Option<AgentUser>) -> io::Result<Self> {
        Ok(Self { guard: Some(guard::program()?), user })
    }

    /// Guarded by the `pilothouse-sidecar` at `program`.
    pub const fn guarded_by(program: PathBuf, user: Option<AgentUser>) -> Self {
        Self { guard: Some(program), user }
    }

    /// Without a guard, as the same user: where this program is not `pilothouse-sidecar`, as in unit tests.
    pub const fn unguarded() -> Self {
        Self { guard: None, user: None }
    }

    /// Who they run as, when that is not who the sidecar runs as.
    pub const fn user(&self) -> Option<&AgentUser> {
        self.user.as_ref()
    }

    /// What goes before a program and its arguments so that it runs as the agent's user; nothing where that is who the
    /// sidecar runs as.
    pub fn prefix(&self) -> Vec<OsString> {
        let (Some(program), Some(user)) = (&self.guard, &self.user) else { return Vec::new() };
        // Whoever starts it may be a shell, whose own `/proc/self/exe` is another.
        let program = std::fs::read_link(program).unwrap_or_else(|_| program.clone());
        vec![program.into(), guard::VERB_AS.into(), user.to_string().into()]
    }

    /// A command in the chosen environment. Arguments, folder, more variables and streams are set as on any other.
    pub fn command(&self, program: impl AsRef<OsStr>) -> io::Result<Guarded> {
        let Some(guard) = &self.guard else {
            return Ok(Guarded { command: self.apart(Command::new(program)), leash: None });
        };
        let (hold, leash) = io::pipe()?;
        let user = self.user.as_ref().map_or_else(|| guard::SAME_USER.to_owned(), AgentUser::to_string);
        let mut command = Command::new(guard);
        command.arg(guard::VERB).arg(hold.as_raw_fd().to_string()).arg(user).arg(program);
        Ok(Guarded { command: self.apart(command), leash: Some((hold, leash)) })
    }

    /// Makes a folder and those above it; the agent's processes alone can look into it.
    pub fn folder(&self, path: &Path) -> io::Result<()> {
        DirBuilder::new().recursive(true).mode(0o700).create(path)?;
        self.user.as_ref().map_or(Ok(()), |user| user.own(path))
    }

    fn apart(&self, mut command: Command) -> Command {
        command.env_clear().envs(self.environment()).process_group(0).kill_on_drop(true);
        command
    }

    /// All that such a process sees unless it is given more.
    pub fn environment(&self) -> Vec<(OsString, OsString)> {
        let mut shown = environment::chosen();
        if let Some(user) = &self.user {
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

/// A command that is about to be started.
#[derive(Debug)]
pub struct Guarded {
    command: Command,
    /// The end that the guard watches, and the one whose end it watches for.
    leash: Option<(io::PipeReader, io::PipeWriter)>,
}

impl Guarded {
    /// What is started: arguments that are added go to the program itself.
    pub const fn command(&mut self) -> &mut Command {
        &mut self.command
    }

    /// Starts it.
    pub fn spawn(mut self) -> io::Result<Group> {
        let Some((hold, leash)) = self.leash.take() else {
            return Ok(Group::new(self.command.spawn()?, None));
        };
        // A copy that another child inherits meanwhile does no harm: only the other end holds the leash.
        fcntl(&hold, FcntlArg::F_SETFD(FdFlag::empty()))?;
        Ok(Group::new(self.command.spawn()?, Some(leash)))
    }
}
