//! A worker process that stands elsewhere, with its data.

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

/// How long a worker may take to end when it is asked to.
const END: Duration = Duration::from_secs(30);

/// A real `pilothouse worker`, with a data folder of its own. Dropped, it is killed, and its sidecars after it.
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

    /// Starts it again on the same data, and waits until it is registered.
    pub fn restart(&mut self) {
        self.kill9();
        let log = OpenOptions::new().create(true).append(true).open(self.log_path()).unwrap();
        let mut child = Command::new(programs::pilothouse())
            .args(["--json", "worker", "--url", &self.url, "--id", &self.id, "--data"])
            .arg(self.folder.path())
            .args(&self.args)
            .env("PILOTHOUSE_TOKEN", &self.token)
            .env("PILOTHOUSE_SIDECAR", programs::sidecar())
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

    /// Ends the worker at once, as a power cut would. Its sidecars go on.
    pub fn kill9(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// Asks it to end, and waits until it has. Whether it ended well.
    pub fn terminate(&mut self) -> bool {
        let Some(mut child) = self.child.take() else { return false };
        let pid = Pid::from_raw(i32::try_from(child.id()).expect("a process id"));
        kill(pid, Signal::SIGTERM).expect("a child that was not waited for can be signalled");
        let give_up = Instant::now() + END;
        loop {
            match child.try_wait().unwrap() {
                Some(status) => return status.success(),
                None if Instant::now() < give_up => std::thread::sleep(Duration::from_millis(10)),
                None => {
                    let _ = child.kill();
                    let _ = child.wait();
                    panic!("the worker does not end:\n{}", self.log());
                }
            }
        }
    }

    /// Where its runs are kept.
    pub fn data(&self) -> PathBuf {
        self.folder.path().join("workers").join(&self.id)
    }

    /// The sidecars that are alive.
    pub fn sidecars(&self) -> Vec<Sidecar> {
        processes::alive(&self.data())
    }

    /// What it logged.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.log_path()).unwrap_or_default()
    }

    /// Where it logs to.
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
