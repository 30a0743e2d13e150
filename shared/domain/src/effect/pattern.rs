//! Patterns for the names of tools, with the effects that a project gives them (S2, `ToolRiskClassification`).

use std::cmp::Reverse;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{ActionKind, BlastRadius, Confidence, Effect, Severity, ToolGlob};

/// The effect of all tools that match a pattern. `name` and `actionKind` are additions to S2.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ToolClassification {
    /// Entries `pattern:NAME` of an escalation protocol refer to it.
    pub name: String,
    pub tool_pattern: ToolGlob,
    pub action_kind: ActionKind,
    pub default_severity: Severity,
    pub default_blast_radius: BlastRadius,
    pub default_confidence: Confidence,
    /// Whether an approval must give a reason.
    #[serde(default)]
    pub requires_rationale: bool,
}

impl ToolClassification {
    pub const fn effect(&self) -> Effect {
        Effect {
            action_kind: self.action_kind,
            severity: self.default_severity,
            blast_radius: self.default_blast_radius,
            confidence: self.default_confidence,
        }
    }
}

/// The patterns of a project. One tool can match several: the most specific counts.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(try_from = "Vec<ToolClassification>", into = "Vec<ToolClassification>")]
pub struct ToolClassifications(Vec<ToolClassification>);

/// Why patterns do not form a registry.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PatternViolation {
    #[error("must have at most {max} patterns, but has {actual}")]
    TooMany { max: usize, actual: usize },
    #[error("the name of pattern {index} must have 1 to 100 letters, digits, `-`, `_` or `.`")]
    Name { index: usize },
    #[error("patterns {first} and {second} have the same name or match the same tools")]
    Repeated { first: usize, second: usize },
    /// A kind that changes something, with a blast radius that never asks.
    #[error("pattern {index}: `{kind}` has at least the blast radius `small`")]
    TooSmall { index: usize, kind: ActionKind },
}

/// All violations of a list of patterns.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
pub struct InvalidPatterns(pub Vec<PatternViolation>);

impl ToolClassifications {
    /// Most patterns of a project.
    pub const MAX: usize = 200;

    /// Accepts a list of patterns, or names every violation.
    pub fn new(patterns: Vec<ToolClassification>) -> Result<Self, InvalidPatterns> {
        let mut violations = Vec::new();
        if patterns.len() > Self::MAX {
            violations.push(PatternViolation::TooMany { max: Self::MAX, actual: patterns.len() });
        }
        for (index, pattern) in patterns.iter().enumerate().take(Self::MAX) {
            if !is_pattern_name(&pattern.name) {
                violations.push(PatternViolation::Name { index });
            }
            let is_same = |other: &ToolClassification| {
                other.tool_pattern == pattern.tool_pattern || other.name == pattern.name
            };
            if let Some(first) = patterns.iter().position(is_same).filter(|first| *first < index) {
                violations.push(PatternViolation::Repeated { first, second: index });
            }
            let kind = pattern.action_kind;
            if matches!(kind, ActionKind::Delete | ActionKind::Deploy)
                && pattern.default_blast_radius == BlastRadius::Trivial
            {
                violations.push(PatternViolation::TooSmall { index, kind });
            }
        }
        if violations.is_empty() { Ok(Self(patterns)) } else { Err(InvalidPatterns(violations)) }
    }

    /// The most specific pattern that the tool matches. Of equally specific ones, the first.
    pub fn find(&self, tool: &str) -> Option<&ToolClassification> {
        // `max_by_key` returns the last of equal elements.
        let matching = self.0.iter().rev().filter(|entry| entry.tool_pattern.matches(tool));
        matching.max_by_key(|entry| specificity(&entry.tool_pattern.to_string()))
    }

    pub fn has(&self, name: &str) -> bool {
        self.0.iter().any(|pattern| pattern.name == name)
    }

    pub fn as_slice(&self) -> &[ToolClassification] {
        &self.0
    }
}

/// Orders patterns: without wildcards first, then by literal characters, then by fewer `*`.
fn specificity(pattern: &str) -> (bool, usize, Reverse<usize>) {
    let stars = pattern.chars().filter(|c| *c == '*').count();
    let wildcards = pattern.chars().filter(|c| matches!(c, '*' | '?')).count();
    (wildcards == 0, pattern.chars().count() - wildcards, Reverse(stars))
}

pub(crate) fn is_pattern_name(name: &str) -> bool {
    (1..=100).contains(&name.len()) && name.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c))
}

impl TryFrom<Vec<ToolClassification>> for ToolClassifications {
    type Error = InvalidPatterns;
    fn try_from(patterns: Vec<ToolClassification>) -> Result<Self, InvalidPatterns> {
        Self::new(patterns)
    }
}

impl From<ToolClassifications> for Vec<ToolClassification> {
    fn from(patterns: ToolClassifications) -> Self {
        patterns.0
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn entry(pattern: &str, radius: BlastRadius) -> ToolClassification {
        ToolClassification {
            name: format!("n-{}", pattern.replace(['*', '?'], ".")),
            tool_pattern: ToolGlob::parse(pattern).unwrap(),
            action_kind: ActionKind::Update,
            default_severity: Severity::Low,
            default_blast_radius: radius,
            default_confidence: Confidence::percent(80),
            requires_rationale: false,
        }
    }

    #[test]
    fn the_most_specific_pattern_wins() {
        let patterns = ToolClassifications::new(vec![
            entry("*", BlastRadius::Large),
            entry("get_*", BlastRadius::Small),
            entry("get_balance", BlastRadius::Trivial),
            entry("*_balance", BlastRadius::Medium),
        ])
        .unwrap();
        let found = |tool: &str| patterns.find(tool).unwrap().tool_pattern.to_string();
        assert_eq!(found("get_balance"), "get_balance");
        assert_eq!(found("get_iban"), "get_*");
        assert_eq!(found("my_balance"), "*_balance");
        assert_eq!(found("other"), "*");
    }

    #[test]
    fn every_violation_of_patterns_is_named() {
        let mut deploy = entry("deploy", BlastRadius::Trivial);
        deploy.action_kind = ActionKind::Deploy;
        let mut nameless = entry("b", BlastRadius::Small);
        nameless.name = "b c".to_owned();
        let patterns = vec![entry("a", BlastRadius::Small), deploy, entry("a", BlastRadius::Large), nameless];
        let kind = ActionKind::Deploy;
        assert_eq!(
            ToolClassifications::new(patterns).unwrap_err().0,
            [
                PatternViolation::TooSmall { index: 1, kind },
                PatternViolation::Repeated { first: 0, second: 2 },
                PatternViolation::Name { index: 3 },
            ]
        );
    }
}
