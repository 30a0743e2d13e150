//! How programs are started.

use std::ffi::{OsStr, OsString};
use std::io::{self, PipeReader, PipeWriter};
use std::os::fd::AsRawFd as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use nix::fcntl::{FcntlArg, FdFlag, fcntl};
use tokio::process::Command;

use super::guard::VERB;
use super::{AgentUser, Group};
use crate::workspace::Environment;

/// Who sees to it that a program ends with all that it started.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Guard {
    /// Nobody: it is a process group, which is killed as a whole when its handle is dropped. What leaves the group, and what runs
    /// when the agent itself is killed, runs on.
    #[default]
    GroupAlone,
    /// A program that has [`guard::run`](super::guard::run) under the verb [`guard::VERB`](super::guard::VERB).
    Program {
        /// Where it is.
        program: PathBuf,
        /// Who programs run as, when that is not who the agent runs as.
        user: Option<AgentUser>,
    },
}

/// How a program comes to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Ending {
    /// How long it may take to end by itself, asked to, when the agent is gone.
    pub grace: Duration,
    /// How long what it leaves behind may take when the program has ended.
    pub linger: Duration,
}

impl Guard {
    /// The program that runs, which has the verb; also when its file was replaced meanwhile.
    pub fn this_program() -> io::Result<Self> {
        let running = PathBuf::from("/proc/self/exe");
        Ok(Self::at(if running.exists() { running } else { std::env::current_exe()? }))
    }

    /// A program that has the verb.
    pub const fn at(program: PathBuf) -> Self {
        Self::Program { program, user: None }
    }

    /// With who programs run as, where that is not who the agent runs as.
    #[must_use]
    pub fn for_user(mut self, named: Option<AgentUser>) -> Self {
        if let Self::Program { user, .. } = &mut self {
            *user = named;
        }
        self
    }

    /// Who programs run as, when that is not who the agent runs as.
    pub const fn user(&self) -> Option<&AgentUser> {
        match self {
            Self::Program { user, .. } => user.as_ref(),
            Self::GroupAlone => None,
        }
    }

    /// A command that is guarded. Arguments, folder, environment and streams are set as on any other; but for the environment of
    /// this process, which it does not have.
    pub fn command(&self, program: impl AsRef<OsStr>, ending: Ending) -> io::Result<Launch> {
        let Self::Program { program: guard, user } = self else {
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
        for (option, time) in [("--grace", ending.grace), ("--linger", ending.linger)] {
            if !time.is_zero() {
                command.arg(option).arg(time.as_millis().to_string());
            }
        }
        command.arg("--").arg(program);
        Ok(Launch { command, leash: Some((hold, leash)), ending })
    }
}

/// A command that is about to be started.
#[derive(Debug)]
pub struct Launch {
    command: Command,
    /// The end that the guard watches, and the one whose end it watches for.
    leash: Option<(PipeReader, PipeWriter)>,
    ending: Ending,
}

/// Held while a leash can be inherited: by its guard, and by none that is started at the same time.
static STARTING: Mutex<()> = Mutex::new(());

impl Launch {
    /// What is started: arguments that are added go to the program itself.
    pub const fn command(&mut self) -> &mut Command {
        &mut self.command
    }

    /// Starts it.
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

/// What to start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Program {
    /// Who sees to its end.
    pub guard: Guard,
    /// The file, or its name on the `PATH` of its environment.
    pub program: OsString,
    /// Its arguments.
    pub args: Vec<OsString>,
    /// Where it runs.
    pub cwd: PathBuf,
    /// All that it has in its environment.
    pub environment: Environment,
}

impl Program {
    /// A program without arguments, guarded by nobody.
    pub fn new(program: impl Into<OsString>, cwd: &Path, environment: Environment) -> Self {
        Self {
            guard: Guard::default(),
            program: program.into(),
            args: Vec::new(),
            cwd: cwd.to_owned(),
            environment,
        }
    }

    /// With a guard.
    #[must_use]
    pub fn guarded_by(mut self, guard: &Guard) -> Self {
        self.guard = guard.clone();
        self
    }

    /// With more arguments.
    #[must_use]
    pub fn args(mut self, args: impl IntoIterator<Item = impl Into<OsString>>) -> Self {
        self.args.extend(args.into_iter().map(Into::into));
        self
    }

    /// Starts it, with these as its input, output and error output.
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
