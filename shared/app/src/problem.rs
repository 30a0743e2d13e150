//! Errors as RFC 9457 problem documents (decision 5).

use axum::Json;
use axum::response::{IntoResponse, Response};
use http::{HeaderValue, StatusCode, header};
use pilothouse_api::decisions::DecisionOutcome;
use pilothouse_api::{ProblemDocument, Violation};
use pilothouse_broker::QueueError as BrokerError;
use pilothouse_domain::RateExceeded;
use pilothouse_domain::artifact::ArtifactError;
use pilothouse_domain::brake::BrakeError;
use pilothouse_domain::chain::ChainError;
use pilothouse_domain::coherence::CoherenceError;
use pilothouse_domain::conversation::EnqueueError;
use pilothouse_domain::decision::{DecisionStatus, ResolvedBy};
use pilothouse_domain::pool::PoolError;
use pilothouse_domain::project::ProjectError;
use pilothouse_domain::queue::QueueError;
use pilothouse_domain::session::SessionError;
use pilothouse_domain::skill::SkillError;
use pilothouse_domain::template::TemplateError;
use pilothouse_domain::tick::TickError;
use pilothouse_domain::value::{AllowedModels, ModelField, ModelNotAllowed};
use pilothouse_runtime::{AtCapacity, LaunchError, StopError};
use pilothouse_store::blob::BlobError;
use pilothouse_store::{CommitError, StoreError, is_disk_full};

use crate::integrations::PublishError;

/// The `Retry-After` in seconds of a request that was refused because the disk is full.
const RETRY_ON_A_FULL_DISK: u64 = 5;

/// Why a request was refused or failed. Nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum Problem {
    /// Lists all violations.
    #[error("the request is not valid")]
    Invalid(Vec<Violation>),
    /// The object does not exist or belongs to another owner.
    #[error("{0}")]
    NotFound(String),
    #[error("{0}")]
    Unauthenticated(&'static str),
    /// The server cannot confine agents and serves only its first owner.
    #[error(
        "this server cannot confine agents and serves only its first owner; its operator can start it with --unconfined to serve you, too"
    )]
    OwnerNotServed,
    /// A browser sent the request for another site, or with a name that is not one of this server.
    #[error("{0}")]
    ForeignOrigin(&'static str),
    #[error(transparent)]
    Session(#[from] SessionError),
    /// The session has a cap, but the spend of its agent cannot be measured (decision 32).
    #[error(
        "an earlier session with this adapter, model and options showed that the spend of its agent cannot be measured, so that no cap can be enforced; start it with `allowUnmetered` (`pilothouse run --allow-unmetered`), also once after you have named the price of its model in the file of PILOTHOUSE_MODELS"
    )]
    UnmeteredStart,
    /// The operator or the template does not allow the model.
    #[error("the model {0}")]
    ModelNotAllowed(#[from] ModelNotAllowed),
    #[error(transparent)]
    Queue(#[from] QueueError),
    #[error(transparent)]
    Pool(#[from] PoolError),
    /// The brake refuses the request.
    #[error(transparent)]
    Brake(#[from] BrakeError),
    /// The template refuses the request.
    #[error(transparent)]
    Template(#[from] TemplateError),
    #[error(transparent)]
    Chain(#[from] ChainError),
    #[error(transparent)]
    Skill(#[from] SkillError),
    /// The project refuses the request.
    #[error(transparent)]
    Project(#[from] ProjectError),
    /// The clock of the project refuses the request.
    #[error(transparent)]
    Tick(#[from] TickError),
    /// The artifact, or the scope of an agent, refuses the request.
    #[error(transparent)]
    Artifact(#[from] ArtifactError),
    /// The coherence issue, or the scope of an agent, refuses the request.
    #[error(transparent)]
    Coherence(#[from] CoherenceError),
    /// The turn that the message refers to has ended (decision 30).
    #[error("the turn that the message was meant for is over; nothing was sent")]
    TurnOver,
    /// `If-Match` requires another version.
    #[error("this was changed since you read it; read it again and decide on the new state")]
    PreconditionFailed,
    /// An idempotency key or a message id was used before for a different request.
    #[error("this key was used before for another request; use a new key for a new request")]
    IdempotencyMismatch,
    /// The decision is over: resolved, expired or cancelled.
    #[error("{}", over(.0))]
    DecisionOver(DecisionOutcome),
    /// The rate limit is exceeded.
    #[error(transparent)]
    RateLimited(#[from] RateExceeded),
    #[error("another one has this name; choose a different one")]
    NameTaken,
    #[error("others are changing this at the same time; try again")]
    VersionConflict,
    /// The worker has claimed runs that have not ended.
    #[error(
        "this worker has {runs} runs that are not over; end their sessions first, or remove it with `lost=true` if its machine is gone"
    )]
    WorkerHasRuns {
        /// Claimed runs that have not ended.
        runs: usize,
    },
    #[error("the body is larger than {limit} bytes")]
    TooLarge {
        /// In bytes.
        limit: usize,
    },
    #[error("the body did not arrive in time, or not as a whole; send it again")]
    BodyIncomplete,
    #[error(transparent)]
    AtCapacity(#[from] AtCapacity),
    #[error("this address does not take that method")]
    MethodNotAllowed,
    /// The disk of the server is full, or nearly full for a request that does not stop work.
    #[error("the disk of the server is full; nothing was changed; free space on it and repeat the request")]
    StorageFull,
    #[error("the server failed to process the request; try again, and report the failure if it persists")]
    Internal(#[source] Box<dyn std::error::Error + Send + Sync>),
}

impl Problem {
    /// Creates an internal failure, or [`Self::StorageFull`] if the cause is a full disk.
    pub fn internal(cause: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        let cause = cause.into();
        if is_disk_full(cause.as_ref()) { Self::StorageFull } else { Self::Internal(cause) }
    }

    pub fn invalid(field: &str, message: impl std::fmt::Display) -> Self {
        Self::Invalid(vec![Violation { field: field.to_owned(), message: message.to_string() }])
    }

    /// The object does not exist, or belongs to another owner.
    pub fn no(what: &str) -> Self {
        Self::NotFound(format!("there is no such {what}"))
    }

    /// The skill does not exist, or belongs to another owner.
    pub fn no_skill() -> Self {
        Self::NotFound("there is no such skill".to_owned())
    }

    /// The project does not exist, or belongs to another owner.
    pub fn no_project() -> Self {
        Self::NotFound("there is no such project".to_owned())
    }

    /// The agent does not exist, or belongs to another owner.
    pub fn no_agent() -> Self {
        Self::NotFound("there is no such agent".to_owned())
    }

    /// The artifact does not exist, or belongs to another owner or project.
    pub fn no_artifact() -> Self {
        Self::NotFound("there is no such artifact".to_owned())
    }

    /// The coherence issue does not exist, or belongs to another owner.
    pub fn no_coherence_issue() -> Self {
        Self::NotFound("there is no such coherence issue".to_owned())
    }

    /// The session does not exist, or belongs to another owner.
    pub fn no_session() -> Self {
        Self::NotFound("there is no such session".to_owned())
    }

    /// The decision does not exist, or belongs to another owner.
    pub fn no_decision() -> Self {
        Self::NotFound("there is no such decision".to_owned())
    }

    /// Whether a retry of the same request may succeed later: after a write conflict or a failure of an engine.
    pub fn is_transient(&self) -> bool {
        match self {
            Self::VersionConflict | Self::StorageFull | Self::Pool(PoolError::WaitingListFull { .. }) => true,
            Self::Internal(cause) => match cause.downcast_ref::<StoreError>() {
                Some(StoreError::Table(error)) => error.is_transient(),
                Some(_) => false,
                None => {
                    cause.is::<BlobError>()
                        || cause.is::<PublishError>()
                        || matches!(cause.downcast_ref(), Some(BrokerError::Engine(_)))
                        || matches!(
                            cause.downcast_ref(),
                            Some(LaunchError::Unreachable(_) | LaunchError::SessionBusy { .. })
                        )
                        || matches!(
                            cause.downcast_ref(),
                            Some(StopError::Unreachable { .. } | StopError::Unverified { .. })
                        )
                }
            },
            _ => false,
        }
    }

    pub const fn code(&self) -> &'static str {
        match self {
            Self::Invalid(_) | Self::ModelNotAllowed(_) | Self::Pool(PoolError::InvalidMaximum { .. }) => {
                "validation-failed"
            }
            Self::NotFound(_) => "not-found",
            Self::Unauthenticated(_) => "unauthenticated",
            Self::OwnerNotServed => "owner-not-served",
            Self::ForeignOrigin(_) => "foreign-origin",
            Self::Session(error) => error.code(),
            Self::UnmeteredStart => SessionError::Unmetered.code(),
            Self::Queue(error) => error.code(),
            Self::Skill(error) => error.code(),
            Self::Pool(PoolError::WaitingListFull { .. }) => "pool-line-full",
            Self::Brake(error) => error.code(),
            Self::Template(error) => error.code(),
            Self::Project(error) => error.code(),
            Self::Tick(error) => error.code(),
            Self::Chain(error) => error.code(),
            Self::Artifact(error) => error.code(),
            Self::Coherence(error) => error.code(),
            Self::TurnOver => "turn-over",
            Self::PreconditionFailed => "precondition-failed",
            Self::IdempotencyMismatch => "idempotency-mismatch",
            Self::DecisionOver(_) => "decision-over",
            Self::RateLimited(_) => "rate-limited",
            Self::NameTaken => "name-taken",
            Self::VersionConflict => "version-conflict",
            Self::WorkerHasRuns { .. } => "worker-has-runs",
            Self::TooLarge { .. } => "too-large",
            Self::BodyIncomplete => "body-incomplete",
            Self::AtCapacity(_) => "server-at-capacity",
            Self::MethodNotAllowed => "method-not-allowed",
            Self::StorageFull => "storage-full",
            Self::Internal(_) => "internal",
        }
    }

    pub fn status(&self) -> StatusCode {
        match self {
            Self::Invalid(_)
            | Self::Pool(PoolError::InvalidMaximum { .. })
            | Self::Session(
                SessionError::InvalidBudget(_)
                | SessionError::AnswersMissing { .. }
                | SessionError::RationaleMissing
                | SessionError::ModelNotAllowed(_),
            )
            | Self::ModelNotAllowed(_)
            | Self::Template(
                TemplateError::AutoContinue(_)
                | TemplateError::Tools(_)
                | TemplateError::Model(_)
                | TemplateError::TooLarge { .. },
            )
            | Self::Project(
                ProjectError::TooMany { .. }
                | ProjectError::DuplicateWorkstream(_)
                | ProjectError::TooLarge { .. }
                | ProjectError::Ticks(_)
                | ProjectError::Trust(_),
            )
            | Self::Tick(TickError::Interval | TickError::Advance) => StatusCode::UNPROCESSABLE_ENTITY,
            Self::NotFound(_)
            | Self::Queue(QueueError::NotFound(_))
            | Self::Template(
                TemplateError::NoSuchTool | TemplateError::NoSuchRule | TemplateError::NoSuchSkill,
            )
            | Self::Session(SessionError::SkillNotEnabled)
            | Self::Skill(SkillError::NoSuchDefinition { .. }) => StatusCode::NOT_FOUND,
            Self::Unauthenticated(_) => StatusCode::UNAUTHORIZED,
            Self::OwnerNotServed
            | Self::ForeignOrigin(_)
            | Self::Coherence(CoherenceError::OutsideScope { .. })
            | Self::Artifact(ArtifactError::NotReadable { .. } | ArtifactError::NotWritable { .. }) => {
                StatusCode::FORBIDDEN
            }
            Self::Session(_)
            | Self::UnmeteredStart
            | Self::Queue(_)
            | Self::Skill(_)
            | Self::Pool(PoolError::WaitingListFull { .. })
            | Self::Brake(_)
            | Self::Template(_)
            | Self::Project(_)
            | Self::Tick(TickError::NotManual)
            | Self::Chain(_)
            | Self::Artifact(_)
            | Self::Coherence(_)
            | Self::TurnOver
            | Self::IdempotencyMismatch
            | Self::DecisionOver(_)
            | Self::NameTaken
            | Self::WorkerHasRuns { .. }
            | Self::VersionConflict => StatusCode::CONFLICT,
            Self::RateLimited(_) => StatusCode::TOO_MANY_REQUESTS,
            Self::PreconditionFailed => StatusCode::PRECONDITION_FAILED,
            Self::TooLarge { .. } => StatusCode::PAYLOAD_TOO_LARGE,
            Self::BodyIncomplete => StatusCode::REQUEST_TIMEOUT,
            Self::AtCapacity(_) => StatusCode::SERVICE_UNAVAILABLE,
            Self::MethodNotAllowed => StatusCode::METHOD_NOT_ALLOWED,
            Self::StorageFull => StatusCode::INSUFFICIENT_STORAGE,
            Self::Internal(_) => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }

    pub fn document(&self) -> ProblemDocument {
        let violations = match self {
            Self::Invalid(violations) => violations.clone(),
            Self::Session(error @ SessionError::InvalidBudget(_)) => {
                vec![Violation { field: "capUsd".to_owned(), message: error.to_string() }]
            }
            Self::Session(error @ (SessionError::AnswersMissing { .. } | SessionError::RationaleMissing)) => {
                vec![Violation { field: "answers".to_owned(), message: error.to_string() }]
            }
            Self::Template(error @ TemplateError::AutoContinue(_)) => {
                vec![Violation { field: "defaultAutoContinueConfig".to_owned(), message: error.to_string() }]
            }
            Self::ModelNotAllowed(error)
            | Self::Session(SessionError::ModelNotAllowed(error))
            | Self::Template(TemplateError::Model(error)) => {
                let field = match error.field {
                    ModelField::Model => "modelId".to_owned(),
                    ModelField::Fallback => format!("adapterOptions.{}", AllowedModels::FALLBACK),
                };
                vec![Violation { field, message: error.to_string() }]
            }
            Self::Template(error @ TemplateError::Tools(_)) => {
                vec![Violation { field: "customToolDefinitions".to_owned(), message: error.to_string() }]
            }
            Self::Pool(error @ PoolError::InvalidMaximum { .. }) => {
                vec![Violation { field: "maxConcurrentSessions".to_owned(), message: error.to_string() }]
            }
            Self::Tick(error @ TickError::Advance) => {
                vec![Violation { field: "ticks".to_owned(), message: error.to_string() }]
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
            decision: match self {
                Self::DecisionOver(outcome) => Some(outcome.clone()),
                _ => None,
            },
        }
    }
}

/// Who or what ended a decision, and when.
fn over(outcome: &DecisionOutcome) -> String {
    let at = outcome.ended_at.map(|at| format!(" at {at}")).unwrap_or_default();
    let by = match &outcome.resolved_by {
        Some(ResolvedBy::Owner { id }) => format!(" by {id}"),
        Some(ResolvedBy::OrphanPolicy) => " by the policy for orphaned decisions".to_owned(),
        Some(ResolvedBy::RecoveryPolicy) => " by the policy for crash recovery".to_owned(),
        Some(ResolvedBy::Timeout { .. }) => " by the timeout policy of the project".to_owned(),
        Some(ResolvedBy::DefaultAnswer) => " by the default answer of the session".to_owned(),
        None => String::new(),
    };
    match outcome.state {
        DecisionStatus::Expired => format!("nobody decided in time; the decision expired{at}"),
        DecisionStatus::Cancelled => format!("the decision was cancelled{at}"),
        DecisionStatus::Pending
        | DecisionStatus::Suspended
        | DecisionStatus::Orphaned
        | DecisionStatus::Resolving
        | DecisionStatus::Resolved
        | DecisionStatus::AutoResolved => {
            format!("the decision was resolved{by}{at}")
        }
    }
}

/// Capitalizes the first letter and adds a full stop.
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
            CommitError::Conflict | CommitError::ResponseExists => Self::VersionConflict,
            CommitError::MessageExists => Self::IdempotencyMismatch,
            CommitError::NameTaken => Self::NameTaken,
            CommitError::Store(error) => error.into(),
        }
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        if let Self::Internal(cause) = &self {
            // Internal causes are logged once, here, with all their sources.
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
        if matches!(self, Self::StorageFull) {
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(RETRY_ON_A_FULL_DISK));
        }
        let after = match &self {
            Self::RateLimited(exceeded) => Some(exceeded.after),
            Self::AtCapacity(full) => Some(full.retry_after),
            _ => None,
        };
        if let Some(after) = after {
            // The header counts whole seconds. Rounded up, so that a retry is not too early.
            let seconds = u64::try_from(after.as_millis().div_ceil(1000)).unwrap_or(u64::MAX);
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        response
    }
}
