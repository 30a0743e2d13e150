//! Why a project refuses an operation. Each error has a stable code and a sentence that says what to do (decision 5).

use crate::Usd;
use crate::text::WorkstreamId;
use crate::tick::TickError;
use crate::trust::InvalidCalibration;

/// Why an operation was refused. The project is unchanged.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProjectError {
    #[error("a project may have at most {max} {what}")]
    TooMany { what: &'static str, max: usize },
    #[error("two workstreams have the id `{0}`; ids of workstreams are unique in a project")]
    DuplicateWorkstream(WorkstreamId),
    #[error("agents of the project own workstream `{0}`; remove them first, or keep the workstream")]
    WorkstreamInUse(WorkstreamId),
    #[error("the project has no workstream `{0}`; add it first, or choose one of the project")]
    NoSuchWorkstream(WorkstreamId),
    #[error("the project is archived; restore it first")]
    Archived,
    /// The project would exceed the size of an item.
    #[error("the project is too large: it may have {max_kib} KiB, with its workstreams and policies")]
    TooLarge { max_kib: usize },
    #[error("the spending cap of the project, {cap} dollars, is reached; raise the cap first")]
    SpendingCapReached { cap: Usd },
    #[error(transparent)]
    Ticks(#[from] TickError),
    #[error("trust: {}", sentences(.0))]
    Trust(Vec<InvalidCalibration>),
}

fn sentences(violations: &[InvalidCalibration]) -> String {
    violations.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

impl ProjectError {
    /// Stable error code (decision 5).
    pub const fn code(&self) -> &'static str {
        match self {
            Self::TooMany { .. } => "too-many-parts",
            Self::DuplicateWorkstream(_) => "name-taken",
            Self::WorkstreamInUse(_) => "workstream-in-use",
            Self::NoSuchWorkstream(_) => "no-such-workstream",
            Self::Archived => "project-archived",
            Self::TooLarge { .. } => "project-too-large",
            Self::SpendingCapReached { .. } => "spending-cap-reached",
            Self::Ticks(error) => error.code(),
            Self::Trust(_) => "validation-failed",
        }
    }

    pub(super) const fn check_count(what: &'static str, count: usize, max: usize) -> Result<(), Self> {
        if count > max { Err(Self::TooMany { what, max }) } else { Ok(()) }
    }
}
