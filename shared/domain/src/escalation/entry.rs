use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::effect::pattern::{ToolClassifications, is_pattern_name};
use crate::effect::{ActionKind, ToolGlob};
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
            is_pattern_name(name).then(|| Matches::Pattern(name.to_owned()))
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

    /// Whether the entry refers to a pattern that the project does not have.
    pub(super) fn names_no_pattern_of(&self, patterns: &ToolClassifications) -> bool {
        matches!(&self.matches, Matches::Pattern(name) if !patterns.has(name))
    }

    pub(super) fn matches_every_tool(&self) -> bool {
        matches!(&self.matches, Matches::Tools(glob) if glob.matches_everything())
    }

    /// Whether the entry can match something: its tool or pattern is among the known ones. Tools of MCP servers and globs are not
    /// known in advance.
    pub fn is_known(&self, tools: &[String], patterns: &ToolClassifications) -> bool {
        match &self.matches {
            Matches::Kinds(_) => true,
            Matches::Tools(glob) => {
                glob.has_wildcard()
                    || self.text.starts_with("mcp__")
                    || tools.iter().any(|tool| glob.matches(tool))
                    || patterns.find(&self.text).is_some_and(|found| !found.tool_pattern.matches_everything())
            }
            Matches::Pattern(name) => patterns.has(name),
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
