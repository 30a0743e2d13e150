//! `pilothouse completions`.

use clap::Args;
use clap_complete::Shell;

use crate::context::write;
use crate::error::CliError;
use crate::exit::Exit;

/// Print shell completions.
///
/// For bash: pilothouse completions bash > ~/.local/share/bash-completion/completions/pilothouse
#[derive(Debug, Args)]
pub struct Completions {
    /// The shell
    pub shell: Shell,
}

impl Completions {
    pub(super) fn run(self, program: &mut clap::Command) -> Result<Exit, CliError> {
        // Buffered, because the generator panics if the reader of standard output is gone.
        let mut script = Vec::new();
        clap_complete::generate(self.shell, program, "pilothouse", &mut script);
        write(&String::from_utf8_lossy(&script))?;
        Ok(Exit::Done)
    }
}
