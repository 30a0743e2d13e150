use std::ffi::{OsStr, OsString};
use std::io::{self, PipeReader, PipeWriter};
use std::os::fd::AsRawFd as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Mutex, PoisonError};

use nix::fcntl::{FcntlArg, FdFlag, fcntl};
use tokio::process::Command;

use super::guard::VERB;
use super::{AgentUser, Confinement, Ending, Group};
use crate::workspace::Environment;

/// Ends programs with their descendants.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Guard {
    /// No guard. The program leads a process group, which is killed when its handle is dropped. Processes survive if
    /// they leave the group, or if the agent is killed.
    #[default]
    GroupAlone,
    /// A program that runs [`guard::run`](super::guard::run) for the subcommand [`guard::VERB`](super::guard::VERB).
    Program {
        program: PathBuf,
        /// User that programs run as, if it differs from the agent's.
        user: Option<AgentUser>,
        /// Lease file ([`LeaseFile`](super::lease::LeaseFile)). All programs end when the lease expires.
        lease: Option<PathBuf>,
        /// A file on which each guard and its programs hold a shared `flock` until their last process has ended.
        lock: Option<PathBuf>,
        /// File access of the programs. `None`: only the user's permissions apply.
        confinement: Option<Confinement>,
    },
}

impl Guard {
    /// Uses the running program, which must have the subcommand. Works even if its file was replaced meanwhile.
    pub fn this_program() -> io::Result<Self> {
        let running = PathBuf::from("/proc/self/exe");
        Ok(Self::at(if running.exists() { running } else { std::env::current_exe()? }))
    }

    pub const fn at(program: PathBuf) -> Self {
        Self::Program { program, user: None, lease: None, lock: None, confinement: None }
    }

    #[must_use]
    pub fn for_user(mut self, named: Option<AgentUser>) -> Self {
        if let Self::Program { user, .. } = &mut self {
            *user = named;
        }
        self
    }

    /// See [`Self::Program`].
    #[must_use]
    pub fn leased(mut self, file: Option<PathBuf>) -> Self {
        if let Self::Program { lease, .. } = &mut self {
            *lease = file;
        }
        self
    }

    /// A guard that cannot lock the file starts no program.
    #[must_use]
    pub fn locking(mut self, file: Option<PathBuf>) -> Self {
        if let Self::Program { lock, .. } = &mut self {
            *lock = file;
        }
        self
    }

    #[must_use]
    pub fn confined_to(mut self, to: Option<Confinement>) -> Self {
        if let Self::Program { confinement, .. } = &mut self {
            *confinement = to;
        }
        self
    }

    /// `None`: only the user's permissions apply.
    pub const fn confinement(&self) -> Option<&Confinement> {
        match self {
            Self::Program { confinement, .. } => confinement.as_ref(),
            Self::GroupAlone => None,
        }
    }

    /// `None` for the agent's own user.
    pub const fn user(&self) -> Option<&AgentUser> {
        match self {
            Self::Program { user, .. } => user.as_ref(),
            Self::GroupAlone => None,
        }
    }

    /// The caller sets arguments, folder, environment and streams as usual. The environment of this process is not
    /// inherited.
    pub fn command(&self, program: impl AsRef<OsStr>, ending: Ending) -> io::Result<Launch> {
        let Self::Program { program: guard, user, lease, lock, confinement } = self else {
            let mut command = Command::new(program);
            command.env_clear().process_group(0).kill_on_drop(true);
            return Ok(Launch { command, leash: None, ending });
        };
        let (hold, leash) = io::pipe()?;
        let mut command = Command::new(guard);
        command.env_clear().arg(VERB).arg("--leash").arg(hold.as_raw_fd().to_string());
        if let Some(user) = user {
            command.arg("--user").arg(user.to_string());
        }
        for (option, file) in [("--lease", lease), ("--lock", lock)] {
            if let Some(file) = file {
                command.arg(option).arg(file);
            }
        }
        if let Some(confinement) = confinement {
            command.arg("--confine").arg(serde_json::to_string(confinement)?);
        }
        for (option, time) in [("--grace", ending.grace), ("--linger", ending.linger)] {
            if !time.is_zero() {
                command.arg(option).arg(time.as_millis().to_string());
            }
        }
        command.arg("--").arg(program);
        Ok(Launch { command, leash: Some((hold, leash)), ending })
    }
}

/// A command to be started.
#[derive(Debug)]
pub struct Launch {
    command: Command,
    /// The read end for the guard, which detects the end of this process, and the write end for this process.
    leash: Option<(PipeReader, PipeWriter)>,
    ending: Ending,
}

/// Held while a leash is inheritable, so that only its own guard inherits it.
static STARTING: Mutex<()> = Mutex::new(());

impl Launch {
    /// Added arguments go to the program, not to the guard.
    pub const fn command(&mut self) -> &mut Command {
        &mut self.command
    }

    pub fn spawn(mut self) -> io::Result<Group> {
        let Some((hold, leash)) = self.leash.take() else {
            return Group::new(self.command.spawn()?, None, self.ending);
        };
        let child = {
            let _alone = STARTING.lock().unwrap_or_else(PoisonError::into_inner);
            fcntl(&hold, FcntlArg::F_SETFD(FdFlag::empty()))?;
            let child = self.command.spawn();
            drop(hold);
            child?
        };
        Group::new(child, Some(leash), self.ending)
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Program {
    pub guard: Guard,
    /// Path of the program, or its name in the `PATH` of its environment.
    pub program: OsString,
    pub args: Vec<OsString>,
    pub cwd: PathBuf,
    /// The complete environment.
    pub environment: Environment,
}

impl Program {
    /// A program without arguments and without a guard.
    pub fn new(program: impl Into<OsString>, cwd: &Path, environment: Environment) -> Self {
        Self {
            guard: Guard::default(),
            program: program.into(),
            args: Vec::new(),
            cwd: cwd.to_owned(),
            environment,
        }
    }

    #[must_use]
    pub fn guarded_by(mut self, guard: &Guard) -> Self {
        self.guard = guard.clone();
        self
    }

    #[must_use]
    pub fn args(mut self, args: impl IntoIterator<Item = impl Into<OsString>>) -> Self {
        self.args.extend(args.into_iter().map(Into::into));
        self
    }

    /// `streams` are standard input, output and error.
    pub fn start(&self, ending: Ending, streams: [Stdio; 3]) -> io::Result<Group> {
        let mut launch = self.guard.command(&self.program, ending)?;
        let [stdin, stdout, stderr] = streams;
        launch
            .command()
            .args(&self.args)
            .envs(self.environment.vars())
            .current_dir(&self.cwd)
            .stdin(stdin)
            .stdout(stdout)
            .stderr(stderr);
        launch.spawn()
    }
}
