//! Sidecars in containers of an engine on this machine, `docker` or one with the same command line.
//!
//! The engine's client is the worker's child as a sidecar's process would be, and what a run keeps is in the same
//! directory, under the same path inside and outside. Only two things differ: a process id that stands in the lock is one
//! of the container's own and means nothing here, so signals go through the engine; and the client may end before the
//! container, which is adopted then. Draining needs no agent and no container.

use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use nix::sys::signal::Signal;
use nix::unistd::{getgid, getuid};
use pilothouse_domain::RunId;
use pilothouse_wire::launch::LaunchRequest;

use crate::config::WorkerConfig;
use crate::run_dir::RunDir;

/// What sidecars have of this machine's environment and containers have of their own.
const OF_THE_IMAGE: [&str; 3] = ["PATH", "HOME", "TMPDIR"];

/// The containers that a worker runs sidecars in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Containers {
    /// The engine's program: `docker`, `podman`.
    pub engine: PathBuf,
    /// The image. Its entry point is a `pilothouse-sidecar`.
    pub image: String,
    /// More options of the engine's `run`, an argument each: networks, volumes, limits.
    pub options: Vec<String>,
}

impl Containers {
    /// Whether the engine's program is there and says its version.
    pub(crate) async fn answers(&self) -> bool {
        let mut asked = tokio::process::Command::new(&self.engine);
        asked.arg("--version").output().await.is_ok_and(|said| said.status.success())
    }

    /// The command that runs a sidecar: with the run's directory, the session's home and the working directory where they
    /// are here, as the worker's user. Values of variables are taken from the client's environment, so that none can
    /// be read from its arguments.
    pub(crate) fn command(
        &self,
        config: &WorkerConfig,
        request: &LaunchRequest,
        home: &Path,
        dir: &RunDir,
    ) -> io::Result<Command> {
        dir.note_engine(&self.engine)?;
        let log = dir.open_log()?;
        let mut command = Command::new(&self.engine);
        command
            .args(["run", "--rm", "--name", &name(request.run_id)])
            .args(["--label", &format!("pilothouse.run={}", request.run_id)])
            .args(["--label", &format!("pilothouse.session={}", request.session_id)])
            .args(["--user", &format!("{}:{}", getuid(), getgid())]);
        for folder in [dir.path(), home, Path::new(&request.working_directory)] {
            command.arg("--mount").arg(mount(folder));
        }
        command.arg("--workdir").arg(dir.path());
        let mut own_home = OsString::from("HOME=");
        own_home.push(home);
        command.arg("--env").arg(own_home);
        for (variable, _) in config.environment.iter() {
            if !OF_THE_IMAGE.iter().any(|own| variable == OsStr::new(own)) {
                command.arg("--env").arg(variable);
            }
        }
        command.args(&self.options).arg(&self.image).arg("run").arg(dir.path());
        crate::process::apart(&mut command, config, dir, log)?;
        Ok(command)
    }
}

/// What the container of a run is called.
fn name(run: RunId) -> String {
    format!("pilothouse-{run}")
}

/// A folder that stands at the same place inside. The engine reads fields of CSV.
fn mount(folder: &Path) -> String {
    let field = |name: &str| {
        let field = format!("{name}={}", folder.display());
        if field.contains([',', '"', '\n']) { format!("\"{}\"", field.replace('"', "\"\"")) } else { field }
    };
    format!("type=bind,{},{}", field("source"), field("target"))
}

/// Sends a signal to the container of a run. Whether there was one: it may not be there yet, or no more.
pub(crate) async fn signal(engine: &Path, run: RunId, signal: Signal) -> io::Result<bool> {
    let mut kill = tokio::process::Command::new(engine);
    kill.args(["kill", "--signal", signal.as_str(), &name(run)]).kill_on_drop(true);
    let said = kill.output().await?;
    if !said.status.success() {
        let cause = String::from_utf8_lossy(&said.stderr);
        tracing::warn!(%run, %signal, cause = cause.trim(), "a container cannot be signalled");
    }
    Ok(said.status.success())
}

#[cfg(test)]
mod tests {
    use super::mount;

    #[test]
    fn a_mount_is_fields_of_csv() {
        assert_eq!(mount("/a b".as_ref()), "type=bind,source=/a b,target=/a b");
        assert_eq!(mount("/a,\"b".as_ref()), "type=bind,\"source=/a,\"\"b\",\"target=/a,\"\"b\"");
    }
}
