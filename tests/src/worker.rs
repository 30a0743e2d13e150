//! A separate worker process with its data folder.

use std::fs::OpenOptions;
use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use tempfile::TempDir;

use crate::processes::{self, Sidecar};
use crate::programs;

const END: Duration = Duration::from_secs(30);

/// A real `pilothouse worker` with its own data folder. Dropping it kills the worker and then its sidecars.
pub struct WorkerProcess {
    folder: TempDir,
    id: String,
    url: String,
    token: String,
    args: Vec<String>,
    child: Option<Child>,
}

impl WorkerProcess {
    /// Starts a worker for the control plane at `url`, and waits until it is registered.
    pub fn start(url: &str, token: String, id: &str, args: &[&str]) -> Self {
        let folder = tempfile::Builder::new().prefix("pilothouse-worker-").tempdir().unwrap();
        let args = args.iter().map(|arg| (*arg).to_owned()).collect();
        let mut worker = Self { folder, id: id.to_owned(), url: url.to_owned(), token, args, child: None };
        worker.restart();
        worker
    }

    /// Restarts the worker with the same data, and waits until it is registered.
    pub fn restart(&mut self) {
        self.kill9();
        let log = OpenOptions::new().create(true).append(true).open(self.log_path()).unwrap();
        let mut child = Command::new(programs::pilothouse())
            .args(["--json", "worker", "--url", &self.url, "--id", &self.id, "--data"])
            .arg(self.folder.path())
            .args(&self.args)
            .env("PILOTHOUSE_TOKEN", &self.token)
            .env("PILOTHOUSE_SIDECAR", programs::sidecar())
            .env("PILOTHOUSE_UNCONFINED", (!programs::confines_agents()).to_string())
            .env("PILOTHOUSE_LOG", std::env::var("PILOTHOUSE_LOG").unwrap_or_else(|_| "info".into()))
            .env("NO_COLOR", "1")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(log)
            .spawn()
            .unwrap();
        let mut said = String::new();
        let read = BufReader::new(child.stdout.take().unwrap()).read_line(&mut said);
        self.child = Some(child);
        let registered = read.is_ok() && serde_json::from_str::<Value>(&said).is_ok();
        assert!(registered, "the worker did not start: {said}\n{}", self.log());
    }

    /// The sidecars continue.
    pub fn kill9(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// Suspends the worker and all its sidecars (SIGSTOP), as if the machine slept.
    pub fn suspend_machine(&self) {
        self.signal(Signal::SIGSTOP);
        self.sidecars().iter().for_each(Sidecar::freeze);
    }

    /// Continues what [`Self::suspend_machine`] suspended.
    pub fn resume_machine(&self) {
        self.sidecars().iter().for_each(Sidecar::thaw);
        self.signal(Signal::SIGCONT);
    }

    fn signal(&self, signal: Signal) {
        let child = self.child.as_ref().expect("the worker runs");
        let pid = Pid::from_raw(i32::try_from(child.id()).expect("a process id"));
        kill(pid, signal).expect("a child that was not waited for can be signalled");
    }

    /// Returns whether the exit was successful.
    pub fn terminate(&mut self) -> bool {
        if self.child.is_some() {
            self.signal(Signal::SIGTERM);
        }
        let Some(mut child) = self.child.take() else { return false };
        let give_up = Instant::now() + END;
        loop {
            match child.try_wait().unwrap() {
                Some(status) => return status.success(),
                None if Instant::now() < give_up => std::thread::sleep(Duration::from_millis(10)),
                None => {
                    let _ = child.kill();
                    let _ = child.wait();
                    panic!("the worker does not exit:\n{}", self.log());
                }
            }
        }
    }

    pub fn data(&self) -> PathBuf {
        self.folder.path().join("workers").join(&self.id)
    }

    pub fn sidecars(&self) -> Vec<Sidecar> {
        processes::alive(&self.data())
    }

    pub fn log(&self) -> String {
        std::fs::read_to_string(self.log_path()).unwrap_or_default()
    }

    pub fn log_path(&self) -> PathBuf {
        self.folder.path().join("worker.log")
    }
}

impl Drop for WorkerProcess {
    fn drop(&mut self) {
        self.kill9();
        processes::kill_all(&self.data());
    }
}
