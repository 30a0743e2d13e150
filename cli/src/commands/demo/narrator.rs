//! The output of the demo.

use crate::context::write;
use crate::error::CliError;
use crate::output::style::{Paint, Style};
use crate::output::text::{indented, prefixed};

/// Prints the steps of the demo to standard output.
#[derive(Debug)]
pub(super) struct Narrator {
    pub(super) style: Style,
    step: u32,
}

impl Narrator {
    pub(super) fn new() -> Self {
        Self { style: Style::for_stream(&std::io::stdout()), step: 0 }
    }

    /// Begins a step.
    pub(super) fn step(&mut self, title: &str) -> Result<(), CliError> {
        self.step += 1;
        write(&format!("\n{}\n", self.style.bold(&format!("{}. {title}", self.step))))
    }

    /// Prints the command that a person would type.
    pub(super) fn command(&self, command: &str) -> Result<(), CliError> {
        write(&format!("   {} {}\n", self.style.dim("$"), self.style.paint(Paint::Cyan, command)))
    }

    /// Prints the result of a command.
    pub(super) fn confirm(&self, what: &str) -> Result<(), CliError> {
        write(&format!("   {} {what}\n", self.style.paint(Paint::Green, "✓")))
    }

    /// Prints the output of a command. The output modules have already removed control characters.
    pub(super) fn output(text: &str) -> Result<(), CliError> {
        write(&prefixed(text, "   "))
    }

    /// Prints a line of a live stream.
    pub(super) fn live(&self, who: &str, text: &str) -> Result<(), CliError> {
        let margin = self.style.dim(&format!("   {who:<8}│"));
        write(&prefixed(text, &margin))
    }

    /// Prints a note.
    pub(super) fn note(&self, text: &str) -> Result<(), CliError> {
        write(&self.style.dim(&indented(text, "   ")))
    }
}
