//! Runs one command in a shell with a time limit, and ends it with all its descendants.

use std::io::PipeReader;
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use pilothouse_domain::text::cut;
use tokio::io::AsyncReadExt as _;
use tokio::net::unix::pipe;
use tokio::time::{Instant, timeout, timeout_at};

use super::output::{BoundedOutput, excerpt};
use crate::process::{Group, Processes};
use crate::redaction::Redactor;

/// In characters.
const MAX_LINE: usize = 200;
/// How long to read the output after the command has ended.
const LAST_WORDS: Duration = Duration::from_secs(2);

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum CommandEnd {
    Exited(i32),
    Signalled(i32),
    TookTooLong,
    NotRun(String),
}

#[derive(Debug)]
pub(super) struct CommandOutput {
    pub(super) command_end: CommandEnd,
    /// Without secrets, like `excerpt`.
    pub(super) text: String,
    pub(super) excerpt: String,
}

impl CommandOutput {
    /// Without empty lines. It usually contains the error.
    pub(super) fn last_line(&self) -> Option<String> {
        let line = self.text.lines().map(str::trim).rfind(|line| !line.is_empty())?;
        Some(cut(line, MAX_LINE))
    }
}

/// Runs `command` in `folder` until it ends or `deadline` passes.
pub(super) async fn run(
    command: &str,
    folder: &Path,
    processes: &Processes,
    redactor: &Redactor,
    deadline: Instant,
) -> CommandOutput {
    let started = start(command, folder, processes);
    let (mut group, mut pipe) = match started {
        Ok(started) => started,
        Err(error) => {
            let command_end = CommandEnd::NotRun(error.to_string());
            return CommandOutput { command_end, text: String::new(), excerpt: String::new() };
        }
    };
    let mut kept = BoundedOutput::without_secrets(redactor.clone());
    let ended = {
        let reading = read(&mut pipe, &mut kept);
        tokio::pin!(reading);
        let waiting = timeout_at(deadline, group.wait());
        tokio::pin!(waiting);
        let mut open = true;
        loop {
            tokio::select! {
                ended = &mut waiting => break ended,
                () = &mut reading, if open => open = false,
            }
        }
    };
    // Ends remaining processes, which would keep the output open.
    drop(group);
    let _ = timeout(LAST_WORDS, read(&mut pipe, &mut kept)).await;
    let text = kept.text();
    let command_end = match ended {
        Err(_) => CommandEnd::TookTooLong,
        Ok(Err(error)) => CommandEnd::NotRun(error.to_string()),
        Ok(Ok(status)) => command_end(status),
    };
    CommandOutput { command_end, excerpt: excerpt(&text), text }
}

/// Uses the agent's user and the selected environment, because the agent wrote the executed code.
fn start(command: &str, folder: &Path, processes: &Processes) -> std::io::Result<(Group, pipe::Receiver)> {
    let (reader, writer): (PipeReader, _) = std::io::pipe()?;
    let mut guarded = processes.command("/bin/sh")?;
    guarded.command().arg("-c").arg(command).current_dir(folder);
    guarded.command().stdin(Stdio::null()).stdout(writer.try_clone()?).stderr(writer);
    let group = guarded.spawn()?;
    Ok((group, pipe::Receiver::from_owned_fd(reader.into())?))
}

/// Reads to the end. Cancel-safe.
async fn read(pipe: &mut pipe::Receiver, kept: &mut BoundedOutput) {
    let mut buffer = vec![0; 8192];
    while let Ok(length @ 1..) = pipe.read(&mut buffer).await {
        kept.push(&buffer[..length]);
    }
}

/// A shell reports a command that was killed by a signal with an exit code above 128.
fn command_end(status: ExitStatus) -> CommandEnd {
    use std::os::unix::process::ExitStatusExt as _;
    match (status.code(), status.signal()) {
        (Some(code @ 129..=192), _) => CommandEnd::Signalled(code - 128),
        (Some(code), _) => CommandEnd::Exited(code),
        (None, signal) => CommandEnd::Signalled(signal.unwrap_or_default()),
    }
}
