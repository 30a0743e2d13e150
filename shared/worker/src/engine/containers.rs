//! Runs sidecars in containers with `docker`, or with an engine that has the same command line.
//!
//! The engine's client is a child process of the worker, like a sidecar without a container. The run directory has the same
//! path inside and outside. Two things differ: the process id in the run lock belongs to the container's namespace, so the
//! worker signals through the engine; and the client may end before the container, which the worker then adopts. Draining
//! runs without a container.
//!
//! The agent of a container may be able to write to the run directory and to the home of its session. The worker therefore
//! keeps the engine elsewhere, mounts `launch.json` read-only, and follows no link in these folders.

use std::ffi::{OsStr, OsString};
use std::io;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use nix::sys::signal::Signal;
use nix::unistd::{getgid, getuid};
use pilothouse_domain::RunId;
use pilothouse_wire::launch::LaunchRequest;
use pilothouse_wire::secrets::VARIABLE;
use tokio::time::timeout;

pub use super::config::Containers;
use super::config::WorkerConfig;
use super::run_dir::RunDir;
use super::workspace;

/// Variables that an image sets itself.
const SET_BY_IMAGE: [&str; 3] = ["PATH", "HOME", "TMPDIR"];
/// How long the engine may take to kill the container of an ended run.
const ENDING: Duration = Duration::from_secs(10);

impl Containers {
    pub(crate) async fn is_available(&self) -> bool {
        let mut command = tokio::process::Command::new(&self.engine);
        command.arg("--version").output().await.is_ok_and(|output| output.status.success())
    }

    /// The command that runs a sidecar as the worker's user. Run directory, session home and working directory are mounted
    /// at the same paths. Variables are passed by name, so that their values do not appear among the arguments.
    pub(crate) fn command(
        &self,
        config: &WorkerConfig,
        request: &LaunchRequest,
        home: &Path,
        dir: &RunDir,
    ) -> io::Result<Command> {
        dir.record_engine(&self.engine)?;
        let log = dir.open_log()?;
        let mut command = Command::new(&self.engine);
        command
            .args(["run", "--rm", "--name", &name(request.run_id)])
            .args(["--label", &format!("pilothouse.run={}", request.run_id)])
            .args(["--label", &format!("pilothouse.session={}", request.session_id)])
            .args(["--user", &format!("{}:{}", getuid(), getgid())]);
        for folder in [dir.path(), home] {
            command.arg("--mount").arg(mount(folder, folder));
        }
        // `drain` trusts this file outside of the container. A mount point cannot be replaced or removed.
        let launch = dir.launch();
        command.arg("--mount").arg(format!("{},readonly", mount(&launch, &launch)));
        let needed = request.workspace.as_deref();
        let folder = Path::new(&request.working_directory);
        workspace::apply(&mut command, folder, needed, config.hidden_paths(), mount)?;
        command.arg("--workdir").arg(dir.path());
        let mut own_home = OsString::from("HOME=");
        own_home.push(home);
        command.arg("--env").arg(own_home);
        for (variable, _) in config.environment.iter() {
            if !SET_BY_IMAGE.iter().any(|name| variable == OsStr::new(name)) {
                command.arg("--env").arg(variable);
            }
        }
        if !request.secrets.is_empty() {
            command.arg("--env").arg(VARIABLE);
        }
        let image = needed.and_then(|needed| needed.base_image.as_ref()).unwrap_or(&self.image);
        command.args(&self.options).arg(image).arg("run").arg(dir.path());
        super::process::isolate(&mut command, config, dir, log)?;
        Ok(command)
    }
}

fn name(run: RunId) -> String {
    format!("pilothouse-{run}")
}

/// A bind mount as CSV fields.
fn mount(folder: &Path, inside: &Path) -> String {
    let field = |name: &str, path: &Path| {
        let field = format!("{name}={}", path.display());
        if field.contains([',', '"', '\n']) { format!("\"{}\"", field.replace('"', "\"\"")) } else { field }
    };
    format!("type=bind,{},{}", field("source", folder), field("target", inside))
}

/// Signals the container of a run. Returns whether the container exists.
pub(crate) async fn signal(engine: &Path, run: RunId, signal: Signal) -> io::Result<bool> {
    let mut kill = tokio::process::Command::new(engine);
    kill.args(["kill", "--signal", signal.as_str(), &name(run)]).kill_on_drop(true);
    let output = kill.output().await?;
    if !output.status.success() {
        let cause = String::from_utf8_lossy(&output.stderr);
        tracing::warn!(%run, %signal, cause = cause.trim(), "failed to signal a container");
    }
    Ok(output.status.success())
}

/// Kills the container of an ended run, if it still exists: the agent may have forged the files that show the end, and an exit
/// is not reported while a process of the run lives (decision 15).
pub(crate) async fn end(engine: &Path, run: RunId) {
    let mut kill = tokio::process::Command::new(engine);
    kill.args(["kill", "--signal", Signal::SIGKILL.as_str(), &name(run)]).kill_on_drop(true);
    match timeout(ENDING, kill.output()).await {
        Ok(Ok(output)) if output.status.success() => {
            tracing::warn!(%run, "killed a container that outlived its run");
        }
        Ok(Ok(_)) => {} // it does not exist any more
        Ok(Err(error)) => tracing::warn!(%run, %error, "failed to look for the container of an ended run"),
        Err(_) => {
            tracing::warn!(%run, "the engine did not answer whether the container of an ended run exists");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::mount;

    #[test]
    fn mount_option_is_csv() {
        assert_eq!(mount("/a b".as_ref(), "/a b".as_ref()), "type=bind,source=/a b,target=/a b");
        assert_eq!(
            mount("/a,\"b".as_ref(), "/a,\"b".as_ref()),
            "type=bind,\"source=/a,\"\"b\",\"target=/a,\"\"b\""
        );
    }
}
