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

/// Matches the whole of `text` against a pattern with `*` and `?`. The time grows with the sum of the lengths. Only a part between two `*`
/// that has a `?` may take time in proportion to their product.
pub(crate) fn glob_matches(pattern: &str, text: &str) -> bool {
    let Some((first, rest)) = pattern.split_once('*') else {
        return end_of_prefix(pattern, text) == Some(text.len());
    };
    let Some(begin) = end_of_prefix(first, text) else { return false };
    let (middle, last) = rest.rsplit_once('*').unwrap_or(("", rest));
    let mut left = &text[begin..];
    for part in middle.split('*') {
        // The first occurrence leaves the most text for the other parts.
        let Some(end) = end_of_first(part, left) else { return false };
        left = &left[end..];
    }
    is_suffix(last, left)
}

fn is_one(expected: char, found: Option<char>) -> bool {
    found.is_some_and(|found| expected == '?' || expected == found)
}

/// Where a part without `*` ends if `text` begins with it.
fn end_of_prefix(part: &str, text: &str) -> Option<usize> {
    let mut rest = text.chars();
    let is_prefix = part.chars().all(|expected| is_one(expected, rest.next()));
    is_prefix.then(|| text.len() - rest.as_str().len())
}

fn is_suffix(part: &str, text: &str) -> bool {
    let mut rest = text.chars().rev();
    part.chars().rev().all(|expected| is_one(expected, rest.next()))
}

/// Where the first occurrence of a part without `*` ends.
fn end_of_first(part: &str, text: &str) -> Option<usize> {
    if part.contains('?') {
        let end = |(at, _): (usize, char)| end_of_prefix(part, &text[at..]).map(|end| at + end);
        text.char_indices().find_map(end)
    } else {
        text.find(part).map(|at| at + part.len())
    }
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
            ("a*a", "a", false),
            ("*ü?ü*", "xüüäüx", true),
            ("??", "ä", false),
        ] {
            assert_eq!(glob_matches(glob, tool), expected, "{glob} {tool}");
        }
    }

    /// All texts of at most four of these characters.
    fn texts(characters: &[char]) -> Vec<String> {
        let mut all = vec![String::new()];
        let mut last = all.clone();
        for _ in 0..4 {
            let longer = |text: &String| characters.iter().map(|c| format!("{text}{c}")).collect::<Vec<_>>();
            last = last.iter().flat_map(longer).collect();
            all.extend(last.iter().cloned());
        }
        all
    }

    /// Tries every length of text for each `*`.
    fn matches_by_definition(pattern: &[char], text: &[char]) -> bool {
        match pattern.split_first() {
            None => text.is_empty(),
            Some(('*', rest)) => (0..=text.len()).any(|at| matches_by_definition(rest, &text[at..])),
            Some((expected, rest)) => text.split_first().is_some_and(|(found, left)| {
                (*expected == '?' || expected == found) && matches_by_definition(rest, left)
            }),
        }
    }

    #[test]
    fn short_globs_match_by_their_definition() {
        let characters = |text: &String| text.chars().collect::<Vec<_>>();
        let texts_to_match = texts(&['a', 'ü']);
        for glob in texts(&['a', 'ü', '*', '?']) {
            for text in &texts_to_match {
                let expected = matches_by_definition(&characters(&glob), &characters(text));
                assert_eq!(glob_matches(&glob, text), expected, "{glob} {text}");
            }
        }
    }
}
