use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::effect::ActionKind;
use crate::string_value::string_value;

/// An entry: the name of an action kind, a pattern of tool names, or `pattern:NAME` for a classification pattern of the project.
///
/// `write` means `create` and `update`, and `edit` means `update`, as in S2's examples.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ListEntry {
    text: String,
    matches: Matches,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Matches {
    Kinds(&'static [ActionKind]),
    Tools(ToolGlob),
    /// Name of a pattern.
    Pattern(String),
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{given}` is none of an action kind ({}), a pattern of tool names, or `pattern:NAME`",
    ActionKind::ALL.map(|kind| kind.to_string()).join(", ")
)]
pub struct InvalidEntry {
    /// Shortened.
    pub given: String,
}

impl ListEntry {
    const PATTERN_PREFIX: &'static str = "pattern:";

    pub fn parse(text: impl Into<String>) -> Result<Self, InvalidEntry> {
        let text = text.into();
        let matches = if let Some(kinds) = kinds_named(&text) {
            Some(Matches::Kinds(kinds))
        } else if let Some(name) = text.strip_prefix(Self::PATTERN_PREFIX) {
            is_name(name).then(|| Matches::Pattern(name.to_owned()))
        } else {
            ToolGlob::parse(&text).ok().map(Matches::Tools)
        };
        match matches {
            Some(matches) => Ok(Self { text, matches }),
            None => Err(InvalidEntry { given: crate::text::cut(&text, 80) }),
        }
    }

    pub fn kind(kind: ActionKind) -> Self {
        let at = ActionKind::ALL.iter().position(|one| *one == kind).unwrap_or_default();
        Self { text: kind.to_string(), matches: Matches::Kinds(&ActionKind::ALL[at..=at]) }
    }

    pub fn as_str(&self) -> &str {
        &self.text
    }

    pub(super) fn names_kind(&self, kind: ActionKind) -> bool {
        matches!(self.matches, Matches::Kinds(kinds) if kinds.contains(&kind))
    }

    /// Whether the entry names the tool or a pattern that matched the call.
    pub(super) fn names_call(&self, tool: &str, patterns: &[String]) -> bool {
        match &self.matches {
            Matches::Kinds(_) => false,
            Matches::Tools(glob) => glob.matches(tool),
            Matches::Pattern(name) => patterns.contains(name),
        }
    }

    pub(super) fn matches_every_tool(&self) -> bool {
        matches!(&self.matches, Matches::Tools(glob) if glob.matches_everything())
    }

    /// Whether the entry can match something: its tool or pattern is among the known ones. Tools of MCP servers and globs are not
    /// known in advance.
    pub fn is_known(&self, tools: &[String], patterns: &[String]) -> bool {
        match &self.matches {
            Matches::Kinds(_) => true,
            Matches::Tools(glob) => {
                glob.has_wildcard()
                    || self.text.starts_with("mcp__")
                    || tools.iter().any(|tool| glob.matches(tool))
            }
            Matches::Pattern(name) => patterns.contains(name),
        }
    }
}

string_value!(ListEntry.text, InvalidEntry, Self::parse);

impl FromStr for ListEntry {
    type Err = InvalidEntry;
    fn from_str(text: &str) -> Result<Self, InvalidEntry> {
        Self::parse(text)
    }
}

fn kinds_named(text: &str) -> Option<&'static [ActionKind]> {
    match text {
        "write" => Some(&[ActionKind::Create, ActionKind::Update]),
        "edit" => Some(&[ActionKind::Update]),
        _ => {
            let at = ActionKind::ALL.iter().position(|kind| kind.to_string() == text)?;
            ActionKind::ALL.get(at..=at)
        }
    }
}

fn is_name(name: &str) -> bool {
    (1..=100).contains(&name.len()) && name.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c))
}

/// A pattern of tool names: `*` matches any characters, `?` one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ToolGlob(String);

impl ToolGlob {
    pub fn parse(text: &str) -> Result<Self, InvalidEntry> {
        let valid = |c: char| c.is_ascii_alphanumeric() || "-_.:/*?".contains(c);
        if (1..=100).contains(&text.len()) && text.chars().all(valid) {
            Ok(Self(text.to_owned()))
        } else {
            Err(InvalidEntry { given: crate::text::cut(text, 80) })
        }
    }

    pub fn matches(&self, tool: &str) -> bool {
        glob_matches(&self.0, tool)
    }

    fn has_wildcard(&self) -> bool {
        self.0.contains(['*', '?'])
    }

    fn matches_everything(&self) -> bool {
        self.0.chars().all(|c| c == '*' || c == '?')
    }
}

string_value!(ToolGlob.0, InvalidEntry, |text: String| Self::parse(&text));

/// Matches `text` against a pattern with `*` and `?`, in time proportional to the product of the lengths.
pub(super) fn glob_matches(pattern: &str, text: &str) -> bool {
    let (pattern, text): (Vec<char>, Vec<char>) = (pattern.chars().collect(), text.chars().collect());
    let (mut p, mut t) = (0, 0);
    // Where to continue if the text after the last `*` does not match.
    let mut retry: Option<(usize, usize)> = None;
    while t < text.len() {
        match pattern.get(p) {
            Some('*') => {
                retry = Some((p, t));
                p += 1;
            }
            Some(c) if *c == '?' || *c == text[t] => {
                p += 1;
                t += 1;
            }
            _ => {
                let Some((star, from)) = retry else { return false };
                retry = Some((star, from + 1));
                p = star + 1;
                t = from + 1;
            }
        }
    }
    pattern[p..].iter().all(|c| *c == '*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn globs_match_whole_names() {
        for (glob, tool, expected) in [
            ("Bash", "Bash", true),
            ("Bash", "BashOutput", false),
            ("mcp__*__create_*", "mcp__github__create_issue", true),
            ("mcp__*__create_*", "mcp__github__list_issues", false),
            ("?rite", "Write", true),
            ("*", "", true),
            ("a*b*c", "aXbYbZc", true),
            ("a*b*c", "aXbYbZ", false),
        ] {
            assert_eq!(glob_matches(glob, tool), expected, "{glob} {tool}");
        }
    }
}
