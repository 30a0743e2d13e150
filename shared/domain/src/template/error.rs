//! Why a template refuses (ruling 5: each has a stable code and a sentence that says what to do).

use crate::text::ToolName;
use crate::value::{InvalidAutoContinue, InvalidDefinitions};

/// A refusal. The template is unchanged.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TemplateError {
    /// No session starts from a deactivated template (S0 8.4).
    #[error("the template is deactivated; activate it first")]
    Inactive,
    /// The default auto-continue configuration cannot be.
    #[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
    AutoContinue(Vec<InvalidAutoContinue>),
    /// The custom tools cannot be: a name twice, or too many (S0 8.4).
    #[error(transparent)]
    Tools(#[from] InvalidDefinitions),
    /// There are as many as there may be.
    #[error("a template has at most {max} {what}; remove one first")]
    TooMany {
        /// Of what.
        what: &'static str,
        /// How many at most.
        max: usize,
    },
    /// All of it together is more than is kept.
    #[error("the {what} must be at most {max} bytes in all; shorten the prompt, the options or the tools")]
    TooLarge {
        /// Of what.
        what: &'static str,
        /// The most bytes, as JSON.
        max: usize,
    },
    /// Names of tools are unique within a template (S0 8.4).
    #[error("the template has a tool `{0}` already; remove it first")]
    ToolExists(ToolName),
    /// Ids of rules are unique within a template (S0 8.4).
    #[error("the template has this rule already")]
    RuleExists,
    /// There is no such tool.
    #[error("the template has no such tool")]
    NoSuchTool,
    /// There is no such rule.
    #[error("the template has no such rule")]
    NoSuchRule,
    /// The skill is none of the defaults.
    #[error("the template does not have this skill among its defaults")]
    NoSuchSkill,
}

impl TemplateError {
    /// The stable code (ruling 5).
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Inactive => "template-inactive",
            Self::AutoContinue(_) | Self::Tools(_) => "validation-failed",
            Self::TooMany { .. } => "template-full",
            Self::TooLarge { .. } => "template-too-large",
            Self::ToolExists(_) => "tool-exists",
            Self::RuleExists => "rule-exists",
            Self::NoSuchTool | Self::NoSuchRule | Self::NoSuchSkill => "not-found",
        }
    }
}
