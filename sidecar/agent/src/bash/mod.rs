//! Commands in a shell: the agent's `bash` tool, and the user's `!` and `!!` (S1 7, ruling 41).

mod output;
mod runner;
#[cfg(test)]
mod tests;

use std::path::PathBuf;
use std::time::Duration;

use crate::message::BashExecution;
use crate::process::Guard;
use crate::tool::text::{MAX_BYTES, MAX_LINES};
use crate::workspace::Environment;

pub use self::runner::BashRunner;

/// How commands run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BashConfig {
    /// The shell; it takes `-c COMMAND`.
    pub shell: PathBuf,
    /// Who sees to it that nothing of a command runs on, and who it runs as.
    pub guard: Guard,
    /// Put before each command, as lines of their own: aliases, say (S1 7).
    pub prefix: Option<String>,
    /// Where commands run.
    pub cwd: PathBuf,
    /// All that they have in their environment.
    pub environment: Environment,
    /// How long a command may take that does not say; none for as long as it wants.
    pub timeout: Option<Duration>,
    /// Where the whole of an output is kept that is too long to show.
    pub output_dir: PathBuf,
    /// The most bytes of an output that are kept there.
    pub max_kept: u64,
}

impl BashConfig {
    /// `/bin/bash`, or `/bin/sh` where there is none; ten minutes; 64 MiB of an output.
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

/// What came of a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BashOutcome {
    /// What it wrote, both streams as they came; the end of it when that is long.
    pub output: String,
    /// Lines of all that it wrote.
    pub lines: u64,
    /// How it ended.
    pub end: BashEnd,
    /// Whether `output` is not the whole.
    pub truncated: bool,
    /// Where the whole is, when it is not.
    pub whole: Option<PathBuf>,
}

/// How a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BashEnd {
    /// By itself, with this code.
    Exited(i32),
    /// A signal ended it, and not one of ours.
    Signalled(i32),
    /// It took too long and was killed.
    TimedOut(Duration),
    /// It was cut off and was killed.
    Cancelled,
}

impl BashOutcome {
    /// What a model gets to see.
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
        let end = match self.end {
            BashEnd::Exited(0) => return text,
            BashEnd::Exited(code) => format!("The command exited with code {code}."),
            BashEnd::Signalled(signal) => format!("Signal {signal} ended the command."),
            BashEnd::TimedOut(after) => format!("The command was stopped after {} seconds.", after.as_secs()),
            BashEnd::Cancelled => "The command was stopped.".to_owned(),
        };
        format!("{text}\n\n{end}")
    }

    /// Whether it failed.
    pub fn is_error(&self) -> bool {
        self.end != BashEnd::Exited(0)
    }

    /// As the session tree keeps a user's command (S1 7).
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
    /// The command, without its marks.
    pub command: String,
    /// Whether the model does not get to see it.
    pub exclude_from_context: bool,
}

impl UserCommand {
    /// `!command` and `!!command` (ruling 41); none for anything else.
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
