//! The errors of an invocation, as reported to Lambda.

use lambda_runtime::Diagnostic;
use pilothouse_app::error_chain;
use pilothouse_app::http::Problem;

/// Why an invocation failed. Responses to callers, including error responses, are not failures.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The event does not match the trigger of the function.
    #[error("failed to parse the event (expected: {expected})")]
    Event {
        expected: &'static str,
        #[source]
        source: serde_json::Error,
    },
    #[error("the event matches no function, and _HANDLER names none")]
    UnknownEvent,
    /// The function is deployed without something that it needs.
    #[error("{0} is not part of this deployment")]
    NotDeployed(&'static str),
    #[error("failed to send the response")]
    Response(#[source] Box<dyn std::error::Error + Send + Sync>),
    #[error(transparent)]
    Function(#[from] Problem),
    /// The function panicked. The environment remains usable.
    #[error("the function panicked: {0}")]
    Panic(String),
}

impl Failure {
    /// A stable name for alarms and filters.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Event { .. } => "Pilothouse.Event",
            Self::UnknownEvent => "Pilothouse.UnknownEvent",
            Self::NotDeployed(_) => "Pilothouse.NotDeployed",
            Self::Response(_) => "Pilothouse.Answer",
            Self::Function(_) => "Pilothouse.Function",
            Self::Panic(_) => "Pilothouse.Panic",
        }
    }
}

impl From<Failure> for Diagnostic {
    fn from(failure: Failure) -> Self {
        Self { error_type: failure.name().to_owned(), error_message: error_chain(&failure) }
    }
}
