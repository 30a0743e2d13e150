//! Why a template refuses an operation. Each error has a stable code and a sentence that says what to do (decision 5).

use crate::text::ToolName;
use crate::value::{InvalidAutoContinue, InvalidDefinitions, ModelNotAllowed};

/// The template is unchanged.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TemplateError {
    /// A deactivated template cannot start sessions (S0 8.4).
    #[error("the template is deactivated; activate it first")]
    Inactive,
    #[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
    AutoContinue(Vec<InvalidAutoContinue>),
    /// Too many tools, or duplicate names (S0 8.4).
    #[error(transparent)]
    Tools(#[from] InvalidDefinitions),
    /// The model of the template, or that of its options, is not one of its allowed models.
    #[error(transparent)]
    Model(#[from] ModelNotAllowed),
    #[error("a template has at most {max} {what}; remove one first")]
    TooMany {
        /// Kind of entry.
        what: &'static str,
        max: usize,
    },
    #[error("the {what} must be at most {max} bytes in all; shorten the prompt, the options or the tools")]
    TooLarge {
        what: &'static str,
        /// As JSON.
        max: usize,
    },
    /// Names of tools are unique within a template (S0 8.4).
    #[error("the template has a tool `{0}` already; remove it first")]
    ToolExists(ToolName),
    /// Ids of rules are unique within a template (S0 8.4).
    #[error("the template has this rule already")]
    RuleExists,
    #[error("the template has no such tool")]
    NoSuchTool,
    #[error("the template has no such rule")]
    NoSuchRule,
    #[error("the template does not have this skill among its defaults")]
    NoSuchSkill,
}

impl TemplateError {
    /// Stable error code (decision 5).
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Inactive => "template-inactive",
            Self::AutoContinue(_) | Self::Tools(_) | Self::Model(_) => "validation-failed",
            Self::TooMany { .. } => "template-full",
            Self::TooLarge { .. } => "template-too-large",
            Self::ToolExists(_) => "tool-exists",
            Self::RuleExists => "rule-exists",
            Self::NoSuchTool | Self::NoSuchRule | Self::NoSuchSkill => "not-found",
        }
    }
}
