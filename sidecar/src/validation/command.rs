//! One command: run by a shell, with a limit, and ended with everything that it started.

use std::io::PipeReader;
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use pilothouse_domain::text::cut;
use tokio::io::AsyncReadExt as _;
use tokio::net::unix::pipe;
use tokio::time::{Instant, timeout, timeout_at};

use super::output::{Kept, excerpt};
use crate::process::{Group, Processes};

/// The most characters of its last line.
const MOST_LINE: usize = 200;
/// How long what it wrote is read after it has ended.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// How a command ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum How {
    Exited(i32),
    Signalled(i32),
    TookTooLong,
    NotRun(String),
}

/// How it ended, and what it printed.
#[derive(Debug)]
pub(super) struct Printed {
    pub(super) how: How,
    pub(super) text: String,
    pub(super) excerpt: String,
}

impl Printed {
    /// Its last line that is not empty: mostly the one that says what is wrong.
    pub(super) fn last_line(&self) -> Option<String> {
        let line = self.text.lines().map(str::trim).rfind(|line| !line.is_empty())?;
        Some(cut(line, MOST_LINE))
    }
}

/// Runs `command` in `folder` until it ends or `deadline` comes.
pub(super) async fn run(command: &str, folder: &Path, processes: &Processes, deadline: Instant) -> Printed {
    let started = start(command, folder, processes);
    let (mut group, mut pipe) = match started {
        Ok(started) => started,
        Err(error) => {
            let how = How::NotRun(error.to_string());
            return Printed { how, text: String::new(), excerpt: String::new() };
        }
    };
    let mut kept = Kept::default();
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
    // Whatever goes on ends here, and holds its output open no longer.
    drop(group);
    let _ = timeout(LAST_WORDS, read(&mut pipe, &mut kept)).await;
    let text = kept.text();
    let how = match ended {
        Err(_) => How::TookTooLong,
        Ok(Err(error)) => How::NotRun(error.to_string()),
        Ok(Ok(status)) => how(status),
    };
    Printed { how, excerpt: excerpt(&text), text }
}

/// As the agent's user, in the chosen environment: what it runs was written by the agent.
fn start(command: &str, folder: &Path, processes: &Processes) -> std::io::Result<(Group, pipe::Receiver)> {
    let (reader, writer): (PipeReader, _) = std::io::pipe()?;
    let mut guarded = processes.command("/bin/sh")?;
    guarded.command().arg("-c").arg(command).current_dir(folder);
    guarded.command().stdin(Stdio::null()).stdout(writer.try_clone()?).stderr(writer);
    let group = guarded.spawn()?;
    Ok((group, pipe::Receiver::from_owned_fd(reader.into())?))
}

/// Reads to the end. May be cancelled.
async fn read(pipe: &mut pipe::Receiver, kept: &mut Kept) {
    let mut buffer = vec![0; 8192];
    while let Ok(length @ 1..) = pipe.read(&mut buffer).await {
        kept.push(&buffer[..length]);
    }
}

/// A shell tells of a command that a signal ended by a code above 128.
fn how(status: ExitStatus) -> How {
    use std::os::unix::process::ExitStatusExt as _;
    match (status.code(), status.signal()) {
        (Some(code @ 129..=192), _) => How::Signalled(code - 128),
        (Some(code), _) => How::Exited(code),
        (None, signal) => How::Signalled(signal.unwrap_or_default()),
    }
}
