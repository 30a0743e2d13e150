//! Colours, where a terminal shows them.

use std::io::IsTerminal;

/// A colour or weight.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Paint {
    /// As it is.
    Plain,
    /// Stands out.
    Bold,
    /// Steps back.
    Dim,
    /// It went well.
    Green,
    /// It wants attention.
    Yellow,
    /// It went wrong.
    Red,
    /// It is under way.
    Cyan,
}

/// Whether to use colours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Style {
    colour: bool,
}

impl Style {
    /// Without colours.
    pub const PLAIN: Self = Self { colour: false };
    /// With colours.
    pub const COLOUR: Self = Self { colour: true };

    /// Colours if `stream` is a terminal and nothing in the environment is against it (<https://no-color.org>).
    pub fn for_stream(stream: &impl IsTerminal) -> Self {
        let unwanted = std::env::var_os("NO_COLOR").is_some_and(|v| !v.is_empty())
            || std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        Self { colour: stream.is_terminal() && !unwanted }
    }

    /// Text in a colour.
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

    /// Text that stands out.
    pub fn bold(self, text: &str) -> String {
        self.paint(Paint::Bold, text)
    }

    /// Text that steps back.
    pub fn dim(self, text: &str) -> String {
        self.paint(Paint::Dim, text)
    }
}

#[cfg(test)]
mod tests {
    use super::{Paint, Style};

    #[test]
    fn paints_only_where_colours_are_wanted() {
        assert_eq!(Style::COLOUR.paint(Paint::Red, "no"), "\x1b[31mno\x1b[0m");
        assert_eq!(Style::COLOUR.paint(Paint::Red, ""), "");
        assert_eq!(Style::PLAIN.paint(Paint::Red, "no"), "no");
    }
}
