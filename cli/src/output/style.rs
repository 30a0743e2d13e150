//! Colours on terminals that support them.

use std::io::IsTerminal;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Paint {
    Plain,
    Bold,
    Dim,
    /// For success.
    Green,
    /// For states that need attention.
    Yellow,
    /// For errors.
    Red,
    /// For work in progress.
    Cyan,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Style {
    colour: bool,
}

impl Style {
    pub const PLAIN: Self = Self { colour: false };
    pub const COLOUR: Self = Self { colour: true };

    /// Colours if `stream` is a terminal and the environment does not disable them (<https://no-color.org>).
    pub fn for_stream(stream: &impl IsTerminal) -> Self {
        let unwanted = std::env::var_os("NO_COLOR").is_some_and(|v| !v.is_empty())
            || std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        Self { colour: stream.is_terminal() && !unwanted }
    }

    pub fn paint(self, paint: Paint, text: &str) -> String {
        let code = match paint {
            Paint::Plain => return text.to_owned(),
            Paint::Bold => "1",
            Paint::Dim => "2",
            Paint::Green => "32",
            Paint::Yellow => "33",
            Paint::Red => "31",
            Paint::Cyan => "36",
        };
        if self.colour && !text.is_empty() { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }

    pub fn bold(self, text: &str) -> String {
        self.paint(Paint::Bold, text)
    }

    pub fn dim(self, text: &str) -> String {
        self.paint(Paint::Dim, text)
    }
}

#[cfg(test)]
mod tests {
    use super::{Paint, Style};

    #[test]
    fn colours_are_used_only_when_enabled() {
        assert_eq!(Style::COLOUR.paint(Paint::Red, "no"), "\x1b[31mno\x1b[0m");
        assert_eq!(Style::COLOUR.paint(Paint::Red, ""), "");
        assert_eq!(Style::PLAIN.paint(Paint::Red, "no"), "no");
    }
}
