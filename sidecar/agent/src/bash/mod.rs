//! Shell commands: the agent's `bash` tool, and the user's `!` and `!!` (S1 7, decision 41).

mod background;
mod execution;
mod output;
mod runner;
#[cfg(test)]
mod tests;

use std::path::PathBuf;
use std::time::Duration;

use crate::message::BashExecution;
use crate::output_text::{MAX_BYTES, MAX_LINES};
use crate::process::Guard;
use crate::workspace::Environment;

pub use self::background::{BackgroundCommands, Reading, UnknownCommand};
pub use self::runner::BashRunner;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BashConfig {
    /// Path of a shell that accepts `-c COMMAND`.
    pub shell: PathBuf,
    /// Ends commands with their descendants, and selects the user.
    pub guard: Guard,
    /// Lines to put before each command, for example aliases (S1 7).
    pub prefix: Option<String>,
    pub cwd: PathBuf,
    /// The complete environment.
    pub environment: Environment,
    /// Default time limit. `None`: no limit.
    pub timeout: Option<Duration>,
    /// Folder for complete outputs that are too long to show.
    pub output_dir: PathBuf,
    /// Most bytes of an output to keep there.
    pub max_kept: u64,
}

impl BashConfig {
    /// Defaults: `/bin/bash`, or `/bin/sh` if there is none; ten minutes; 64 MiB per output.
    pub fn new(cwd: impl Into<PathBuf>, environment: Environment, output_dir: impl Into<PathBuf>) -> Self {
        let bash = PathBuf::from("/bin/bash");
        Self {
            shell: if bash.exists() { bash } else { "/bin/sh".into() },
            guard: Guard::default(),
            prefix: None,
            cwd: cwd.into(),
            environment,
            timeout: Some(Duration::from_mins(10)),
            output_dir: output_dir.into(),
            max_kept: 64 * 1024 * 1024,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BashOutcome {
    /// Both streams in the order of writing. If the output is long, only its end.
    pub output: String,
    pub lines: u64,
    pub end: BashEnd,
    /// Whether `output` is incomplete.
    pub truncated: bool,
    /// File with the complete output, if `output` is incomplete.
    pub whole: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BashEnd {
    /// On its own, with this exit code.
    Exited(i32),
    /// By a signal that did not come from the agent.
    Signalled(i32),
    /// It exceeded this time limit and was killed.
    TimedOut(Duration),
    /// It was cancelled and killed.
    Cancelled,
}

impl BashEnd {
    fn sentence(self) -> String {
        match self {
            Self::Exited(code) => format!("The command exited with code {code}."),
            Self::Signalled(signal) => format!("Signal {signal} ended the command."),
            Self::TimedOut(after) => format!("The command was stopped after {} seconds.", after.as_secs()),
            Self::Cancelled => "The command was stopped.".to_owned(),
        }
    }
}

impl BashOutcome {
    /// The text for the model.
    pub fn text(&self) -> String {
        let mut text = if self.output.is_empty() { "(no output)".to_owned() } else { self.output.clone() };
        if self.truncated {
            let shown = self.output.lines().count();
            let whole = match &self.whole {
                Some(path) => format!("the whole output is in {}", path.display()),
                None => "the whole output could not be kept".to_owned(),
            };
            text = format!(
                "{text}\n\n[The last {shown} of {} lines, at most {MAX_LINES} lines and {} KB; {whole}]",
                self.lines,
                MAX_BYTES / 1024
            );
        }
        if self.end == BashEnd::Exited(0) { text } else { format!("{text}\n\n{}", self.end.sentence()) }
    }

    pub fn is_error(&self) -> bool {
        self.end != BashEnd::Exited(0)
    }

    /// As the session tree stores a user's command (S1 7).
    pub fn into_execution(
        self,
        command: UserCommand,
        timestamp: pilothouse_domain::Timestamp,
    ) -> BashExecution {
        BashExecution {
            command: command.command,
            exit_code: match self.end {
                BashEnd::Exited(code) => Some(code),
                BashEnd::Signalled(_) | BashEnd::TimedOut(_) | BashEnd::Cancelled => None,
            },
            cancelled: matches!(self.end, BashEnd::TimedOut(_) | BashEnd::Cancelled),
            truncated: self.truncated,
            output: self.output,
            exclude_from_context: command.exclude_from_context,
            timestamp,
        }
    }
}

/// A command that a user typed into the conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UserCommand {
    /// The command without its `!` or `!!`.
    pub command: String,
    /// Whether the command is hidden from the model (`!!`).
    pub exclude_from_context: bool,
}

impl UserCommand {
    /// `!command` and `!!command` (decision 41). `None` for other text.
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        let rest = text.strip_prefix('!')?;
        let (command, exclude_from_context) = match rest.strip_prefix('!') {
            Some(command) => (command, true),
            None => (rest, false),
        };
        let command = command.trim();
        (!command.is_empty()).then(|| Self { command: command.to_owned(), exclude_from_context })
    }
}
