//! Patterns of tool names.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::string_value::string_value;

/// A pattern of tool names: `*` matches any characters, `?` one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
#[schemars(with = "String")]
pub struct ToolGlob(String);

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{given}` must have 1 to 100 letters, digits and `-_.:/*?`")]
pub struct InvalidToolGlob {
    /// Shortened.
    pub given: String,
}

impl ToolGlob {
    pub fn parse(text: &str) -> Result<Self, InvalidToolGlob> {
        let valid = |c: char| c.is_ascii_alphanumeric() || "-_.:/*?".contains(c);
        if (1..=100).contains(&text.len()) && text.chars().all(valid) {
            Ok(Self(text.to_owned()))
        } else {
            Err(InvalidToolGlob { given: crate::text::cut(text, 80) })
        }
    }

    pub fn matches(&self, tool: &str) -> bool {
        glob_matches(&self.0, tool)
    }

    pub(crate) fn has_wildcard(&self) -> bool {
        self.0.contains(['*', '?'])
    }

    pub(crate) fn matches_everything(&self) -> bool {
        self.0.chars().all(|c| c == '*' || c == '?')
    }
}

string_value!(ToolGlob.0, InvalidToolGlob, |text: String| Self::parse(&text));

/// Matches `text` against a pattern with `*` and `?`, in time proportional to the product of the lengths.
pub(crate) fn glob_matches(pattern: &str, text: &str) -> bool {
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
