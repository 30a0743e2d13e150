//! What was logged, for a person who looks for what went wrong in a test.

use std::path::PathBuf;

use async_trait::async_trait;

use crate::processes;

/// How many lines of a log are shown.
const LINES: usize = 60;

/// Knows the logs of a control plane.
#[async_trait]
pub trait Witness: Send + Sync {
    /// What was logged about a session, a text for each log.
    async fn logs(&self, session: &str) -> Vec<String>;

    /// Why requests failed on the side of a control plane whose engines an emulator plays: it stands still for seconds at
    /// times, longer than their clients try. `None` where a failure is ours.
    async fn failures(&self) -> Option<String> {
        None
    }
}

/// Logs that stand in files.
pub struct LogFiles {
    /// The process that has sidecars: its name, and the file of its log.
    pub process: (&'static str, PathBuf),
    /// The data folder that its runs are in.
    pub data: PathBuf,
}

#[async_trait]
impl Witness for LogFiles {
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

/// The end of a log.
pub fn tail(log: &str) -> String {
    let lines: Vec<_> = log.lines().collect();
    lines[lines.len().saturating_sub(LINES)..].join("\n")
}
