//! Logs for the messages of failed tests.

use std::path::PathBuf;

use async_trait::async_trait;

use crate::processes;

/// The number of lines shown of each log.
const LINES: usize = 60;

/// A source of logs of a control plane.
#[async_trait]
pub trait LogCapture: Send + Sync {
    /// The logs about a session, one text for each log.
    async fn logs(&self, session: &str) -> Vec<String>;

    /// Failures of an emulated engine, which at times stalls for longer than its clients retry. `None` for failures of the control plane.
    async fn failures(&self) -> Option<String> {
        None
    }
}

pub struct LogFiles {
    /// The name and the log file of the process that starts sidecars.
    pub process: (&'static str, PathBuf),
    /// The data folder with the runs.
    pub data: PathBuf,
}

#[async_trait]
impl LogCapture for LogFiles {
    async fn logs(&self, session: &str) -> Vec<String> {
        let read = |path| std::fs::read_to_string(path).unwrap_or_default();
        let (name, path) = &self.process;
        let mut logs = vec![format!("{name}:\n{}", tail(&read(path.clone())))];
        let own = processes::run_folders(&self.data)
            .into_iter()
            .filter(|folder| read(folder.join("launch.json")).contains(session));
        logs.extend(
            own.map(|folder| format!("{}:\n{}", folder.display(), tail(&read(folder.join("sidecar.log"))))),
        );
        logs
    }
}

pub fn tail(log: &str) -> String {
    let lines: Vec<_> = log.lines().collect();
    lines[lines.len().saturating_sub(LINES)..].join("\n")
}
