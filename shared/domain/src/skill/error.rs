//! Why a skill refuses (ruling 5: each has a stable code and a sentence that says what to do).

use crate::value::InvalidDefinitions;
use crate::{AgentSessionId, AgentSkillId, MemoryPillId};

/// A refusal. The skill is unchanged.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SkillError {
    /// Tools or subagents that cannot stand side by side.
    #[error(transparent)]
    Definitions(#[from] InvalidDefinitions),
    /// There is no such tool or subagent.
    #[error("the skill has no {what} `{name}`")]
    NoSuchDefinition {
        /// `tool` or `subagent`.
        what: &'static str,
        /// The name.
        name: String,
    },
    /// As many pills as a skill keeps.
    #[error("the skill has {max} active memory pills already; consolidate or dismiss some first")]
    TooManyPills {
        /// The most Active pills.
        max: usize,
    },
    /// It would not fit its item any more.
    #[error("the skill is full: with its tools, subagents and active memory pills it may have {max_kib} KiB")]
    Full {
        /// The most KiB.
        max_kib: usize,
    },
    /// Pills that are not there, or are consolidated or dismissed already.
    #[error("only active memory pills of this skill can be consolidated or dismissed; these are not: {}", list(.pill_ids))]
    PillsNotActive {
        /// Which.
        pill_ids: Vec<MemoryPillId>,
    },
    /// No pills to fold in.
    #[error("there are no active memory pills to consolidate")]
    NothingToConsolidate,
    /// Sessions are given active skills alone.
    #[error("skill {skill_id} is deactivated; activate it first")]
    Inactive {
        /// The skill.
        skill_id: AgentSkillId,
    },
    /// A session's skills make a configuration that no sidecar can be sent.
    #[error(
        "the session's skills together are too large: prompts, tools and subagents may have {max_kib} KiB"
    )]
    TooLargeTogether {
        /// The most KiB.
        max_kib: usize,
    },
    /// One at a time.
    #[error("a consolidation is under way in session {session_id}; close or cancel that session first")]
    ConsolidationUnderWay {
        /// Its session.
        session_id: AgentSessionId,
    },
    /// A proposal of a session that does not consolidate this skill.
    #[error("session {session_id} does not consolidate this skill, or its consolidation is over")]
    NotConsolidating {
        /// The session.
        session_id: AgentSessionId,
    },
}

fn list(ids: &[MemoryPillId]) -> String {
    ids.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

impl SkillError {
    /// The stable code (ruling 5).
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
