//! `pilothouse shim`.

use std::time::Duration;

use clap::{Args, Subcommand};
use pilothouse_shim::check::{Checked, Verdict, check};

use crate::context::{write, write_json};
use crate::error::CliError;
use crate::exit::Exit;
use crate::globals::Globals;
use crate::output;
use crate::output::style::Style;

/// Check programs that drive agents of other SDKs (`--adapter shim`).
#[derive(Debug, Subcommand)]
pub enum Shim {
    /// Run a shim through the protocol, and print the result of each step
    Check(Check),
}

/// Run a shim through the protocol.
///
/// All tool calls of its agent are allowed. Needs no server.
#[derive(Debug, Args)]
pub struct Check {
    /// The task of the agent
    #[arg(long, value_name = "TEXT", default_value = "Say hello, and stop.")]
    pub task: String,
    /// The time limit of the start and of each turn, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=3600))]
    pub limit: u64,
    /// The program of the shim, and its arguments
    #[arg(value_name = "COMMAND", required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    pub command: Vec<String>,
}

impl Shim {
    pub(super) async fn run(self, globals: &Globals) -> Result<Exit, CliError> {
        let Self::Check(Check { task, limit, command }) = self;
        let Some((program, arguments)) = command.split_first() else {
            return Err(CliError::Usage("name the program of the shim".to_owned()));
        };
        let checked = Checked {
            program: program.clone(),
            arguments: arguments.to_vec(),
            task,
            limit: Duration::from_secs(limit),
        };
        let findings = Box::pin(check(&checked)).await;
        if globals.json {
            write_json(&findings)?;
        } else {
            write(&output::shim::findings(&findings, Style::for_stream(&std::io::stdout())))?;
        }
        let has_failed = findings.iter().any(|finding| matches!(finding.verdict, Verdict::Failed { .. }));
        Ok(if has_failed { Exit::Failed } else { Exit::Done })
    }
}
