//! A program and whatever it starts.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use tokio::io::AsyncWriteExt;
use tokio::process::{Child, ChildStdin, Command};
use tokio_util::task::AbortOnDropHandle;

use super::guard;
use crate::workspace::Environment;

/// Waits for a line before it becomes the program: the line comes when the guard knows of the group. An agent that dies
/// before that leaves nothing.
const LAUNCH: &str = r#"IFS= read -r _ || exit 125; exec "$@""#;
/// The same for a program that is given no input.
const LAUNCH_WITHOUT_INPUT: &str = r#"IFS= read -r _ || exit 125; exec "$@" </dev/null"#;

/// What to start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Program {
    /// What goes before it: a program that starts it as another user, say.
    pub prefix: Vec<OsString>,
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
    /// A program without arguments.
    pub fn new(program: impl Into<OsString>, cwd: &Path, environment: Environment) -> Self {
        Self {
            prefix: Vec::new(),
            program: program.into(),
            args: Vec::new(),
            cwd: cwd.to_owned(),
            environment,
        }
    }

    /// With something before it.
    #[must_use]
    pub fn prefix(mut self, prefix: &[OsString]) -> Self {
        self.prefix = prefix.to_vec();
        self
    }

    /// With more arguments.
    #[must_use]
    pub fn args(mut self, args: impl IntoIterator<Item = impl Into<OsString>>) -> Self {
        self.args.extend(args.into_iter().map(Into::into));
        self
    }
}

/// A program that runs, and whatever it starts that stays in its process group. All of it is killed when this is
/// dropped, and when this process dies.
#[derive(Debug)]
pub struct Group {
    child: Child,
    id: Pid,
}

impl Group {
    /// Starts a program without input, that writes where it is told to.
    pub async fn start(program: &Program, stdout: Stdio, stderr: Stdio) -> io::Result<Self> {
        let (group, _stdin) = Self::launch(LAUNCH_WITHOUT_INPUT, program, stdout, stderr).await?;
        Ok(group)
    }

    /// Starts a program that is spoken to: the other end of its input.
    pub async fn start_with_input(
        program: &Program,
        stdout: Stdio,
        stderr: Stdio,
    ) -> io::Result<(Self, ChildStdin)> {
        Self::launch(LAUNCH, program, stdout, stderr).await
    }

    async fn launch(
        script: &str,
        program: &Program,
        stdout: Stdio,
        stderr: Stdio,
    ) -> io::Result<(Self, ChildStdin)> {
        let mut child = Command::new("/bin/sh")
            .args(["-c", script, "launch"])
            .args(&program.prefix)
            .arg(&program.program)
            .args(&program.args)
            .env_clear()
            .envs(program.environment.vars())
            .current_dir(&program.cwd)
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(stdout)
            .stderr(stderr)
            .kill_on_drop(true)
            .spawn()?;
        let id = child
            .id()
            .and_then(|id| i32::try_from(id).ok())
            .ok_or_else(|| io::Error::other("a process without an id"))?;
        let stdin = child.stdin.take();
        let group = Self { child, id: Pid::from_raw(id) };
        let mut stdin = stdin.ok_or_else(|| io::Error::other("a process without input"))?;
        guard::watch(id)?;
        stdin.write_all(b"\n").await?;
        stdin.flush().await?;
        Ok((group, stdin))
    }

    /// The group's id, which is its first process's.
    pub fn id(&self) -> i32 {
        self.id.as_raw()
    }

    /// Waits until the program itself ends. What it started may go on.
    pub async fn wait(&mut self) -> io::Result<ExitStatus> {
        self.child.wait().await
    }

    /// What the program writes, when that was asked for.
    pub fn take_stdout(&mut self) -> Option<tokio::process::ChildStdout> {
        self.child.stdout.take()
    }

    /// What it complains about, when that was asked for.
    pub fn take_stderr(&mut self) -> Option<tokio::process::ChildStderr> {
        self.child.stderr.take()
    }

    /// Ends what the program started when the program itself ends (it may hold its output open), and all of it when the
    /// handle is dropped.
    pub(crate) fn end_with_program(mut self) -> AbortOnDropHandle<()> {
        AbortOnDropHandle::new(tokio::spawn(async move {
            _ = self.child.wait().await;
        }))
    }

    /// Asks all of it to end.
    pub fn terminate(&self) {
        _ = killpg(self.id, Signal::SIGTERM);
    }

    /// Ends all of it.
    pub fn kill(&self) {
        _ = killpg(self.id, Signal::SIGKILL);
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.kill();
        guard::forget(self.id.as_raw());
    }
}
