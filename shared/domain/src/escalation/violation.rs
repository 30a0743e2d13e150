//! Violations of the format of an escalation protocol, with their paths.

use std::fmt;

use super::InvalidEntry;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProtocolViolation {
    #[error(transparent)]
    Entry(#[from] InvalidEntry),
    #[error("is neither a tool of the agent nor a pattern of the project")]
    UnknownName,
    #[error("must not match every tool")]
    EveryTool,
    #[error("must be a string")]
    NotAString,
    #[error("must be an object")]
    NotAnObject,
    #[error("must be a list")]
    NotAList,
    #[error("is not known")]
    UnknownField,
    #[error("must have at most {max} entries")]
    TooMany { max: usize },
    #[error("must have 1 to {max} characters")]
    Description { max: usize },
    #[error("must have a `field`, or the `type` and, or, not")]
    NeitherFieldNorGroup,
    #[error("must be one of confidence, blastRadius, trustScore, affectsMultipleWorkstreams")]
    Field,
    #[error("must be one of {expected}")]
    Op { expected: &'static str },
    #[error("must be {expected}")]
    Value { expected: &'static str },
    #[error("must be a list with at least one predicate")]
    NoRules,
    #[error("is nested deeper than {max} levels")]
    TooDeep { max: usize },
    #[error("has more than {max} parts")]
    TooLarge { max: usize },
}

/// Each with its path: `escalateWhen[0].predicate.op`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct Violations(pub Vec<(String, ProtocolViolation)>);

impl fmt::Display for Violations {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, (path, violation)) in self.0.iter().enumerate() {
            let separator = if at == 0 { "" } else { "; " };
            let space = if path.is_empty() { "" } else { " " };
            write!(f, "{separator}{path}{space}{violation}")?;
        }
        Ok(())
    }
}

/// Path of a value in a JSON document.
#[derive(Debug, Clone)]
pub(super) struct Path(String);

impl Path {
    pub(super) const fn root() -> Self {
        Self(String::new())
    }

    pub(super) fn field(&self, name: &str) -> Self {
        // Names of unknown fields come from the caller.
        let name = crate::text::cut(name, 80);
        if self.0.is_empty() { Self(name) } else { Self(format!("{}.{name}", self.0)) }
    }

    pub(super) fn index(&self, at: usize) -> Self {
        Self(format!("{}[{at}]", self.0))
    }

    /// Puts this path before the paths of `violations`.
    pub(super) fn around(&self, violations: Violations) -> impl Iterator<Item = (String, ProtocolViolation)> {
        violations.0.into_iter().map(|(path, violation)| {
            let path = if path.is_empty() { self.0.clone() } else { format!("{}.{path}", self.0) };
            (path, violation)
        })
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
