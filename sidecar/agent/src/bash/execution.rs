//! Runs a command, and ends it with all its descendants.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::ExitStatusExt;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use super::output::{Output, Progress};
use super::{BashConfig, BashEnd, BashOutcome};
use crate::process::{Ending, ProcessHandle, Program};

/// How long a stopped command may clean up.
const TERMINATION: Duration = Duration::from_millis(500);
/// How long background processes of an ended command may write output.
const DRAIN: Duration = Duration::from_millis(250);

pub(super) struct Limits {
    /// `None`: that of the configuration.
    pub(super) time: Option<Duration>,
    /// Most bytes of a piece of progress.
    pub(super) piece: usize,
}

/// Runs a command until it ends, is cancelled or exceeds its time limit. No process of it runs afterwards. Emits output as it arrives, and
/// hands the running program to `started`.
pub(super) async fn execute(
    config: &BashConfig,
    command: &str,
    limits: Limits,
    cancelled: &CancellationToken,
    progress: &mpsc::UnboundedSender<String>,
    started: impl FnOnce(ProcessHandle) + Send,
) -> io::Result<BashOutcome> {
    let command = match &config.prefix {
        Some(prefix) => format!("{prefix}\n{command}"),
        None => command.to_owned(),
    };
    let program = Program::new(&config.shell, &config.cwd, config.environment.clone())
        .guarded_by(&config.guard)
        .args(["-c", &command]);
    // One pipe for both streams preserves their order.
    let (reader, writer) = io::pipe()?;
    let ending = Ending { linger: DRAIN, ..Ending::default() };
    let streams = [Stdio::null(), writer.try_clone()?.into(), writer.into()];
    let mut group = program.start(ending, streams)?;
    let handle = group.handle();
    started(handle.clone());
    let mut pipe = pipe::Receiver::from_owned_fd(OwnedFd::from(reader))?;

    let timeout = limits.time.or(config.timeout);
    let deadline = timeout.map(|timeout| Instant::now() + timeout);
    let mut output = Output::new(&config.output_dir, config.max_kept);
    let mut progress = Progress::new(progress, limits.piece);
    let mut buffer = vec![0; 16 * 1024];
    let mut open = true;
    let mut exited: Option<(ExitStatus, Instant)> = None;
    let mut stopped: Option<(BashEnd, Instant)> = None;
    let mut killed = false;
    while open || exited.is_none() {
        tokio::select! {
            biased;
            () = cancelled.cancelled(), if stopped.is_none() && exited.is_none() => {
                handle.terminate();
                stopped = Some((BashEnd::Cancelled, Instant::now() + TERMINATION));
            }
            () = at(deadline), if stopped.is_none() && exited.is_none() => {
                handle.terminate();
                let after = timeout.unwrap_or_default();
                stopped = Some((BashEnd::TimedOut(after), Instant::now() + TERMINATION));
            }
            () = at(stopped.map(|(_, kill)| kill)), if !killed => {
                handle.kill();
                killed = true;
            }
            status = group.wait(), if exited.is_none() => {
                exited = Some((status?, Instant::now() + DRAIN));
            }
            () = at(exited.map(|(_, end)| end)) => break,
            () = at(progress.due()) => progress.emit(false),
            read = pipe.read(&mut buffer), if open => match read {
                Ok(0) | Err(_) => {
                    open = false;
                    // A stopped command gets no time for leftovers.
                    handle.skip_linger();
                }
                Ok(count) => {
                    progress.push(&buffer[..count]);
                    output.push(&buffer[..count]).await;
                }
            },
        }
    }
    // Without a guard, this ends background processes.
    drop(group);
    progress.emit(true);
    let collected = output.finish().await;
    let end = match (stopped, exited) {
        (Some((end, _)), _) => end,
        (None, Some((status, _))) => match status.code() {
            Some(code) => BashEnd::Exited(code),
            None => BashEnd::Signalled(status.signal().unwrap_or_default()),
        },
        (None, None) => BashEnd::Cancelled,
    };
    Ok(BashOutcome {
        output: collected.text,
        lines: collected.lines,
        end,
        truncated: collected.truncated,
        whole: collected.whole.filter(|_| collected.truncated),
    })
}

/// `None` waits forever.
async fn at(then: Option<Instant>) {
    match then {
        Some(then) => sleep_until(then).await,
        None => std::future::pending().await,
    }
}
