//! Commands that run beside the calls of a turn, such as a server that the agent starts and then uses. None outlives the work of the
//! agent, so that a confirmed stop holds for them, too (decision 15).

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::{Instant, sleep, timeout_at};
use tokio_util::sync::CancellationToken;

use super::execution::{Limits, execute};
use super::{BashConfig, BashEnd, BashOutcome};
use crate::output_text::{MAX_BYTES, tail};
use crate::process::ProcessHandle;

/// Most commands that run at once.
const MAX_RUNNING: usize = 8;
/// The time limit of a command without one of its own.
const MAX_TIME: Duration = Duration::from_hours(24);
/// Interval between checks whether processes are stopped.
const CHECK: Duration = Duration::from_millis(5);
/// How long processes may take to stop for a pause.
const STOP_LIMIT: Duration = Duration::from_secs(2);

/// The background commands of an agent. Clones share them.
#[derive(Debug, Clone, Default)]
pub struct BackgroundCommands(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    /// The number of the latest command.
    latest: u32,
    commands: BTreeMap<u32, Arc<Command>>,
}

#[derive(Debug)]
struct Command {
    cancelled: CancellationToken,
    process: ProcessHandle,
    news: watch::Sender<News>,
}

/// What was not read yet.
#[derive(Debug, Clone, Default)]
struct News {
    output: String,
    /// Whether `output` lacks its beginning.
    is_cut: bool,
    end: Option<Result<End, String>>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct End {
    end: BashEnd,
    /// File with the complete output, if it is long.
    whole: Option<PathBuf>,
}

/// The number is none of a command that runs or has unread output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "There is no background command {0}. It was never started, its end was read already, or it was stopped when your work was interrupted."
)]
pub struct UnknownCommand(pub u32);

/// Output since the reading before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reading {
    pub output: String,
    pub is_cut: bool,
    /// `None` while the command runs. The error is a sentence.
    pub end: Option<Result<BashEnd, String>>,
    /// File with the complete output, if the command has ended and its output is long.
    pub whole: Option<PathBuf>,
}

impl BackgroundCommands {
    /// Starts a command and returns its number. The error is a sentence.
    pub async fn start(
        &self,
        config: &BashConfig,
        command: &str,
        timeout: Option<Duration>,
    ) -> Result<u32, String> {
        if self.state().commands.values().filter(|command| command.runs()).count() >= MAX_RUNNING {
            return Err(format!("{MAX_RUNNING} background commands are running; stop one first"));
        }
        let (news, cancelled) = (watch::Sender::new(News::default()), CancellationToken::new());
        let (started, process) = oneshot::channel();
        let work =
            run(config.clone(), command.to_owned(), timeout, (cancelled.clone(), news.clone(), started));
        let failed = tokio::spawn(work);
        let Ok(process) = process.await else {
            let error = failed.await.err().map(|error| error.to_string());
            let reported = news.borrow().end.clone().and_then(Result::err);
            return Err(reported.or(error).unwrap_or_else(|| "the command could not be run".to_owned()));
        };
        let mut state = self.state();
        state.latest += 1;
        let number = state.latest;
        state.commands.insert(number, Arc::new(Command { cancelled, process, news }));
        Ok(number)
    }

    /// Reads the lines that a command wrote since the last reading. Waits up to `wait` for one, or for the end.
    pub async fn read(
        &self,
        number: u32,
        wait: Duration,
        cancelled: &CancellationToken,
    ) -> Result<Reading, UnknownCommand> {
        let command = self.command(number)?;
        let has_news = |news: &News| news.output.contains('\n') || news.end.is_some();
        let mut news = command.news.subscribe();
        let waits = cancelled.run_until_cancelled(timeout_at(Instant::now() + wait, news.wait_for(has_news)));
        _ = waits.await;
        Ok(self.take(number, &command))
    }

    /// Ends a command with its descendants.
    pub async fn stop(&self, number: u32) -> Result<Reading, UnknownCommand> {
        let command = self.command(number)?;
        command.stop().await;
        Ok(self.take(number, &command))
    }

    /// Ends all commands. None of their processes runs afterwards.
    pub async fn stop_all(&self) {
        let commands = std::mem::take(&mut self.state().commands);
        for command in commands.values() {
            command.cancelled.cancel();
        }
        for command in commands.values() {
            command.stop().await;
        }
    }

    /// Stops all processes until [`Self::resume`]. Returns whether all are stopped.
    pub async fn pause(&self) -> bool {
        let processes: Vec<_> = self.running().collect();
        let deadline = Instant::now() + STOP_LIMIT;
        for process in &processes {
            process.pause();
        }
        while !processes.iter().all(ProcessHandle::is_stopped) {
            if Instant::now() >= deadline {
                return false;
            }
            sleep(CHECK).await;
        }
        true
    }

    pub fn resume(&self) {
        for process in self.running() {
            process.resume();
        }
    }

    fn running(&self) -> impl Iterator<Item = ProcessHandle> {
        let commands: Vec<_> = self.state().commands.values().cloned().collect();
        commands.into_iter().filter(|command| command.runs()).map(|command| command.process.clone())
    }

    fn command(&self, number: u32) -> Result<Arc<Command>, UnknownCommand> {
        self.state().commands.get(&number).cloned().ok_or(UnknownCommand(number))
    }

    /// Takes the news. A command whose end was read is forgotten.
    fn take(&self, number: u32, command: &Command) -> Reading {
        let mut taken = News::default();
        command.news.send_modify(|news| taken = news.take());
        let (end, whole) = match taken.end {
            None => (None, None),
            Some(end) => {
                self.state().commands.remove(&number);
                let whole = end.as_ref().ok().and_then(|end| end.whole.clone());
                (Some(end.map(|end| end.end)), whole)
            }
        };
        Reading { output: taken.output, is_cut: taken.is_cut, end, whole }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Command {
    fn drop(&mut self) {
        self.cancelled.cancel();
    }
}

impl Command {
    fn runs(&self) -> bool {
        self.news.borrow().end.is_none()
    }

    async fn stop(&self) {
        self.cancelled.cancel();
        // A stopped process acts on signals only when it continues.
        self.process.resume();
        // An error means that the sender is gone, and `self` has one.
        _ = self.news.subscribe().wait_for(|news| news.end.is_some()).await;
    }
}

impl News {
    /// Takes the complete lines; at the end also the rest. The rest of a line can be the rest of a secret, which is redacted as a whole.
    fn take(&mut self) -> Self {
        let lines = self.output.rfind('\n').map_or(0, |at| at + 1);
        let rest = self.output.split_off(if self.end.is_some() { self.output.len() } else { lines });
        let output = std::mem::replace(&mut self.output, rest);
        Self { output, is_cut: std::mem::take(&mut self.is_cut), end: self.end.clone() }
    }

    fn add(&mut self, chunk: &str) {
        self.output.push_str(chunk);
        if self.output.len() > 2 * MAX_BYTES {
            let shown = tail(&self.output).len();
            self.output.drain(..self.output.len() - shown);
            self.is_cut = true;
        }
    }
}

/// Runs a command to its end.
async fn run(
    config: BashConfig,
    command: String,
    timeout: Option<Duration>,
    (cancelled, news, started): (CancellationToken, watch::Sender<News>, oneshot::Sender<ProcessHandle>),
) {
    let (progress, mut chunks) = mpsc::unbounded_channel();
    // What is dropped of a piece is then too long for a reading, too.
    let limits = Limits { time: Some(timeout.unwrap_or(MAX_TIME)), piece: 2 * MAX_BYTES };
    // The receiver waits for it.
    let on_start = |process: ProcessHandle| _ = started.send(process);
    let running = execute(&config, &command, limits, &cancelled, &progress, on_start);
    tokio::pin!(running);
    let outcome = loop {
        tokio::select! {
            biased;
            Some(chunk) = chunks.recv() => news.send_modify(|news| news.add(&chunk)),
            outcome = &mut running => break outcome,
        }
    };
    while let Ok(chunk) = chunks.try_recv() {
        news.send_modify(|news| news.add(&chunk));
    }
    let end = outcome
        .map(|BashOutcome { end, whole, .. }| End { end, whole })
        .map_err(|error| format!("the command could not be run: {error}"));
    news.send_modify(|news| news.end = Some(end));
}

impl Reading {
    /// The text for the model.
    pub fn text(&self) -> String {
        let output = self.output.trim_end_matches('\n');
        let shown = tail(output);
        let mut text = if shown.trim().is_empty() { "(no new output)".to_owned() } else { shown.to_owned() };
        if self.is_cut || shown.len() < output.len() {
            text = format!("[Earlier output was left out.]\n{text}");
        }
        if let Some(whole) = &self.whole {
            text = format!("{text}\n\n[The whole output is in {}.]", whole.display());
        }
        let end = match &self.end {
            None => "The command is running.".to_owned(),
            Some(Ok(end)) => end.sentence(),
            Some(Err(error)) => error.clone(),
        };
        format!("{text}\n\n{end}")
    }

    pub fn is_error(&self) -> bool {
        !matches!(self.end, None | Some(Ok(BashEnd::Exited(0) | BashEnd::Cancelled)))
    }
}
