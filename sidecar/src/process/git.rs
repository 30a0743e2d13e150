//! Git in the working directory of an agent, as the agent's user.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use tokio::io::AsyncReadExt;

use super::Processes;

const LIMIT: Duration = Duration::from_secs(10);
/// In bytes.
const MAX_OUTPUT: u64 = 4 * 1024 * 1024;

/// The output of a command. `None` if it fails.
pub async fn git(processes: &Processes, folder: &Path, arguments: &[&str]) -> Option<String> {
    let mut command = processes.command("git").ok()?;
    // Prevents git from running programs that the repository configures.
    let quiet = ["-c", "core.fsmonitor=false", "-c", "core.quotePath=false", "--no-optional-locks"];
    command.command().args(quiet).args(arguments).current_dir(folder);
    command.command().stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut group = command.spawn().ok()?;
    let stdout = group.stdout()?;
    let output = tokio::time::timeout(LIMIT, async {
        let mut output = String::new();
        stdout.take(MAX_OUTPUT).read_to_string(&mut output).await.ok()?;
        group.wait().await.ok()?.success().then_some(output)
    });
    output.await.ok()?
}

/// The branch, the number of changed files and the last commits, as a text. `None` outside of a repository.
pub async fn state(processes: &Processes, folder: &Path) -> Option<String> {
    let status = git(processes, folder, &["status", "--porcelain=v1", "--branch"]).await?;
    let mut lines = status.lines();
    let branch = lines.next()?.trim_start_matches("## ");
    let branch = branch.split("...").next().unwrap_or(branch);
    let changed = lines.count();
    let log = git(processes, folder, &["log", "-3", "--oneline"]).await.unwrap_or_default();
    let commits = log.trim();
    let commits = if commits.is_empty() { String::new() } else { format!(" The last commits:\n{commits}") };
    Some(format!("It is in a git repository, on {branch}, with {changed} changed files.{commits}"))
}
