//! Refusals and failures as RFC 9457 problem documents (ruling 5).

use axum::Json;
use axum::response::{IntoResponse, Response};
use http::{HeaderValue, StatusCode, header};
use pilothouse_broker::QueueError as BrokerError;
use pilothouse_domain::RateExceeded;
use pilothouse_domain::chain::ChainError;
use pilothouse_domain::conversation::EnqueueError;
use pilothouse_domain::pool::PoolError;
use pilothouse_domain::queue::QueueError;
use pilothouse_domain::session::SessionError;
use pilothouse_domain::skill::SkillError;
use pilothouse_domain::template::TemplateError;
use pilothouse_runtime::{LaunchError, StopError};
use pilothouse_store::blob::BlobError;
use pilothouse_store::{CommitError, StoreError};

use crate::api::{ProblemDocument, Violation};
use crate::outside::NotTold;

/// Why a request was not carried out. Nothing has changed.
#[derive(Debug, thiserror::Error)]
pub enum Problem {
    /// The input is wrong; everything that is wrong with it.
    #[error("the request is not valid")]
    Invalid(Vec<Violation>),
    /// There is no such thing, or it is another owner's.
    #[error("{0}")]
    NotFound(String),
    /// The caller is not who may do this.
    #[error("{0}")]
    Unauthenticated(&'static str),
    /// The session refuses.
    #[error(transparent)]
    Session(#[from] SessionError),
    /// The queue refuses.
    #[error(transparent)]
    Queue(#[from] QueueError),
    /// The pool refuses.
    #[error(transparent)]
    Pool(#[from] PoolError),
    /// The template refuses.
    #[error(transparent)]
    Template(#[from] TemplateError),
    /// The chain refuses.
    #[error(transparent)]
    Chain(#[from] ChainError),
    /// The skill refuses.
    #[error(transparent)]
    Skill(#[from] SkillError),
    /// The turn that a message was meant for is over (ruling 30).
    #[error("the turn that the message was meant for is over; nothing was sent")]
    TurnOver,
    /// `If-Match` names another version.
    #[error("this was changed since you read it; read it again and decide on the new state")]
    PreconditionFailed,
    /// An idempotency key, or a message id, was used before for something else.
    #[error("this key was used before for another request; use a new key for a new request")]
    IdempotencyMismatch,
    /// More calls than a key may make.
    #[error(transparent)]
    RateLimited(#[from] RateExceeded),
    /// Another one of the owner's has this name.
    #[error("another one has this name; choose a different one")]
    NameTaken,
    /// Others changed it again and again in the meantime.
    #[error("others are changing this at the same time; try again")]
    VersionConflict,
    /// More than a body may have.
    #[error("the body is larger than {limit} bytes")]
    TooLarge {
        /// The most bytes.
        limit: usize,
    },
    /// The path is known, the method is not.
    #[error("this address does not take that method")]
    MethodNotAllowed,
    /// Something failed that the caller cannot help.
    #[error("something failed on our side; try again, and tell us if it goes on")]
    Internal(#[source] Box<dyn std::error::Error + Send + Sync>),
}

impl Problem {
    /// Something failed that the caller cannot help.
    pub fn internal(cause: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Self::Internal(cause.into())
    }

    /// One violation.
    pub fn invalid(field: &str, message: impl std::fmt::Display) -> Self {
        Self::Invalid(vec![Violation { field: field.to_owned(), message: message.to_string() }])
    }

    /// The session is not there, or not the caller's.
    pub fn no_session() -> Self {
        Self::NotFound("there is no such session".to_owned())
    }

    /// Whether the same may work later without anything being changed: others were in the way, or an engine failed.
    pub fn is_transient(&self) -> bool {
        match self {
            Self::VersionConflict | Self::Pool(PoolError::LineFull { .. }) => true,
            Self::Internal(cause) => match cause.downcast_ref::<StoreError>() {
                Some(StoreError::Table(error)) => error.is_transient(),
                Some(_) => false,
                None => {
                    cause.is::<BlobError>()
                        || cause.is::<NotTold>()
                        || matches!(cause.downcast_ref(), Some(BrokerError::Engine(_)))
                        || matches!(cause.downcast_ref(), Some(LaunchError::Unreachable(_)))
                        || matches!(cause.downcast_ref(), Some(StopError::Unreachable { .. }))
                }
            },
            _ => false,
        }
    }

    /// The stable code.
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Invalid(_) | Self::Pool(PoolError::InvalidMaximum { .. }) => "validation-failed",
            Self::NotFound(_) => "not-found",
            Self::Unauthenticated(_) => "unauthenticated",
            Self::Session(error) => error.code(),
            Self::Queue(error) => error.code(),
            Self::Skill(error) => error.code(),
            Self::Pool(PoolError::LineFull { .. }) => "pool-line-full",
            Self::Template(error) => error.code(),
            Self::Chain(error) => error.code(),
            Self::TurnOver => "turn-over",
            Self::PreconditionFailed => "precondition-failed",
            Self::IdempotencyMismatch => "idempotency-mismatch",
            Self::RateLimited(_) => "rate-limited",
            Self::NameTaken => "name-taken",
            Self::VersionConflict => "version-conflict",
            Self::TooLarge { .. } => "too-large",
            Self::MethodNotAllowed => "method-not-allowed",
            Self::Internal(_) => "internal",
        }
    }

    /// The HTTP status.
    pub fn status(&self) -> StatusCode {
        match self {
            Self::Invalid(_)
            | Self::Pool(PoolError::InvalidMaximum { .. })
            | Self::Session(SessionError::InvalidBudget(_) | SessionError::AnswersMissing { .. }) => {
                StatusCode::UNPROCESSABLE_ENTITY
            }
            Self::Template(
                TemplateError::AutoContinue(_) | TemplateError::Tools(_) | TemplateError::TooLarge { .. },
            ) => StatusCode::UNPROCESSABLE_ENTITY,
            Self::NotFound(_)
            | Self::Queue(QueueError::NotFound(_))
            | Self::Template(
                TemplateError::NoSuchTool | TemplateError::NoSuchRule | TemplateError::NoSuchSkill,
            )
            | Self::Session(SessionError::SkillNotEnabled)
            | Self::Skill(SkillError::NoSuchDefinition { .. }) => StatusCode::NOT_FOUND,
            Self::Unauthenticated(_) => StatusCode::UNAUTHORIZED,
            Self::Session(_)
            | Self::Queue(_)
            | Self::Skill(_)
            | Self::Pool(PoolError::LineFull { .. })
            | Self::Template(_)
            | Self::Chain(_)
            | Self::TurnOver
            | Self::IdempotencyMismatch
            | Self::NameTaken
            | Self::VersionConflict => StatusCode::CONFLICT,
            Self::RateLimited(_) => StatusCode::TOO_MANY_REQUESTS,
            Self::PreconditionFailed => StatusCode::PRECONDITION_FAILED,
            Self::TooLarge { .. } => StatusCode::PAYLOAD_TOO_LARGE,
            Self::MethodNotAllowed => StatusCode::METHOD_NOT_ALLOWED,
            Self::Internal(_) => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }

    /// The document.
    pub fn document(&self) -> ProblemDocument {
        let violations = match self {
            Self::Invalid(violations) => violations.clone(),
            Self::Session(error @ SessionError::InvalidBudget(_)) => {
                vec![Violation { field: "capUsd".to_owned(), message: error.to_string() }]
            }
            Self::Session(error @ SessionError::AnswersMissing { .. }) => {
                vec![Violation { field: "answers".to_owned(), message: error.to_string() }]
            }
            Self::Template(error @ TemplateError::AutoContinue(_)) => {
                vec![Violation { field: "defaultAutoContinueConfig".to_owned(), message: error.to_string() }]
            }
            Self::Template(error @ TemplateError::Tools(_)) => {
                vec![Violation { field: "customToolDefinitions".to_owned(), message: error.to_string() }]
            }
            Self::Pool(error @ PoolError::InvalidMaximum { .. }) => {
                vec![Violation { field: "maxConcurrentSessions".to_owned(), message: error.to_string() }]
            }
            _ => Vec::new(),
        };
        let status = self.status();
        ProblemDocument {
            kind: format!("https://pilothouse.dev/problems/{}", self.code()),
            title: status.canonical_reason().unwrap_or("Problem").to_owned(),
            status: status.as_u16(),
            code: self.code().to_owned(),
            detail: sentence(&self.to_string()),
            violations,
            continuation: match self {
                Self::Session(SessionError::Continued { continuation }) => Some(*continuation),
                _ => None,
            },
        }
    }
}

/// Begins with a capital and ends with a full stop.
fn sentence(text: &str) -> String {
    let mut chars = text.chars();
    let first = chars.next().map(|c| c.to_uppercase().to_string()).unwrap_or_default();
    let end = if text.ends_with(['.', '!', '?']) { "" } else { "." };
    format!("{first}{}{end}", chars.as_str())
}

impl From<EnqueueError> for Problem {
    fn from(error: EnqueueError) -> Self {
        match error {
            EnqueueError::Session(error) => error.into(),
            EnqueueError::Queue(error) => error.into(),
            EnqueueError::TurnOver => Self::TurnOver,
        }
    }
}

impl From<StoreError> for Problem {
    fn from(error: StoreError) -> Self {
        Self::internal(error)
    }
}

impl From<CommitError> for Problem {
    fn from(error: CommitError) -> Self {
        match error {
            CommitError::Conflict | CommitError::AnswerExists => Self::VersionConflict,
            CommitError::MessageExists => Self::IdempotencyMismatch,
            CommitError::NameTaken => Self::NameTaken,
            CommitError::Store(error) => error.into(),
        }
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        if let Self::Internal(cause) = &self {
            // The boundary: the cause is logged here, once, with everything under it.
            let mut chain = cause.to_string();
            let mut source = cause.source();
            while let Some(cause) = source {
                chain = format!("{chain}: {cause}");
                source = cause.source();
            }
            tracing::error!(cause = %chain, "a request failed");
        }
        let mut response = (self.status(), Json(self.document())).into_response();
        response
            .headers_mut()
            .insert(header::CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        if matches!(self, Self::Unauthenticated(_)) {
            response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        if let Self::RateLimited(exceeded) = &self {
            // Whole seconds, as the header counts them; never too early.
            let seconds = u64::try_from(exceeded.after.as_millis().div_ceil(1000)).unwrap_or(u64::MAX);
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        response
    }
}
