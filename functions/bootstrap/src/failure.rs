//! What an invocation fails with, as Lambda is told.

use lambda_runtime::Diagnostic;
use pilothouse_functions::edge::Problem;
use pilothouse_functions::intake::chain;

/// Why an invocation failed. Answers to callers, refusals included, are none of these.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The event is not what triggers the function.
    #[error("the event is no {expected}")]
    Event {
        /// What triggers the function.
        expected: &'static str,
        /// What is wrong with it.
        #[source]
        source: serde_json::Error,
    },
    /// Nothing says which function the event is for.
    #[error("the event is for none of the functions, and _HANDLER names none")]
    UnknownEvent,
    /// The function is deployed without something that it needs.
    #[error("{0} is not part of this deployment")]
    NotDeployed(&'static str),
    /// The answer cannot be sent.
    #[error("the answer cannot be sent")]
    Answer(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The function failed.
    #[error(transparent)]
    Function(#[from] Problem),
    /// The function panicked. The environment lives on.
    #[error("the function panicked: {0}")]
    Panic(String),
}

impl Failure {
    /// A name that alarms and filters can rely on.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Event { .. } => "Pilothouse.Event",
            Self::UnknownEvent => "Pilothouse.UnknownEvent",
            Self::NotDeployed(_) => "Pilothouse.NotDeployed",
            Self::Answer(_) => "Pilothouse.Answer",
            Self::Function(_) => "Pilothouse.Function",
            Self::Panic(_) => "Pilothouse.Panic",
        }
    }
}

impl From<Failure> for Diagnostic {
    fn from(failure: Failure) -> Self {
        Self { error_type: failure.name().to_owned(), error_message: chain(&failure) }
    }
}
