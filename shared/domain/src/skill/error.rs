//! Why a skill refuses an operation. Each error has a stable code and a sentence that says what to do (decision 5).

use crate::value::InvalidDefinitions;
use crate::{AgentSessionId, AgentSkillId, MemoryPillId};

/// Why an operation was refused. The skill is unchanged.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SkillError {
    #[error(transparent)]
    Definitions(#[from] InvalidDefinitions),
    #[error("the skill has no {what} `{name}`")]
    NoSuchDefinition {
        /// `tool` or `subagent`.
        what: &'static str,
        name: String,
    },
    #[error("the skill has {max} active memory pills already; consolidate or dismiss some first")]
    TooManyPills { max: usize },
    /// The skill would exceed the size of an item.
    #[error("the skill is full: with its tools, subagents and active memory pills it may have {max_kib} KiB")]
    Full { max_kib: usize },
    /// Pills that do not exist or are not active.
    #[error("only active memory pills of this skill can be consolidated or dismissed; these are not: {}", list(.pill_ids))]
    PillsNotActive { pill_ids: Vec<MemoryPillId> },
    #[error("there are no active memory pills to consolidate")]
    NothingToConsolidate,
    /// Sessions can use active skills only.
    #[error("skill {skill_id} is deactivated; activate it first")]
    Inactive { skill_id: AgentSkillId },
    /// The configuration of the session would be too large to send to a sidecar.
    #[error(
        "the session's skills together are too large: prompts, tools and subagents may have {max_kib} KiB"
    )]
    TooLargeTogether { max_kib: usize },
    /// A skill can have one consolidation at a time.
    #[error("a consolidation is under way in session {session_id}; close or cancel that session first")]
    ConsolidationUnderWay {
        /// The session of the running consolidation.
        session_id: AgentSessionId,
    },
    #[error("session {session_id} does not consolidate this skill, or its consolidation is over")]
    NotConsolidating { session_id: AgentSessionId },
}

fn list(ids: &[MemoryPillId]) -> String {
    ids.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

impl SkillError {
    /// Stable error code (decision 5).
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Definitions(InvalidDefinitions::Duplicates { .. }) => "name-taken",
            Self::Definitions(InvalidDefinitions::TooMany { .. }) => "too-many-definitions",
            Self::NoSuchDefinition { .. } => "not-found",
            Self::TooManyPills { .. } => "too-many-pills",
            Self::Full { .. } => "skill-full",
            Self::PillsNotActive { .. } => "pill-not-active",
            Self::NothingToConsolidate => "nothing-to-consolidate",
            Self::Inactive { .. } => "skill-inactive",
            Self::TooLargeTogether { .. } => "configuration-too-large",
            Self::ConsolidationUnderWay { .. } => "consolidation-under-way",
            Self::NotConsolidating { .. } => "not-consolidating",
        }
    }
}
