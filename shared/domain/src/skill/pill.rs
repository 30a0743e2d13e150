//! The `MemoryPill` entity (S0 8.4): what an agent learned while it worked with a skill.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::text::MemoryPillContent;
use crate::{AgentSessionId, AgentSkillId, MemoryPillId, Timestamp};

/// What kind of learning a pill is (S0 8.5).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum MemoryPillCategory {
    /// Something that went wrong.
    Mistake,
    /// Something that helps.
    Tip,
    /// A rule to follow.
    Guideline,
    /// A solution that comes back.
    Pattern,
    /// How things are done here.
    Convention,
}

/// Where a pill stands (S0 8.5).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub enum MemoryPillStatus {
    /// It may be consolidated or dismissed.
    Active,
    /// It was folded into the skill's instructions; terminal.
    Consolidated,
    /// Its owner discarded it; terminal.
    Dismissed,
}

impl MemoryPillStatus {
    /// What the records of pills in this status are listed under.
    pub const fn group(self) -> &'static str {
        match self {
            Self::Active => "PILL-ACTIVE",
            Self::Consolidated => "PILL-CONSOLIDATED",
            Self::Dismissed => "PILL-DISMISSED",
        }
    }
}

/// What an agent learned (S0 8.4).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MemoryPill {
    /// Its id.
    pub id: MemoryPillId,
    /// The skill that keeps it.
    pub skill_id: AgentSkillId,
    /// The session that recorded it.
    pub session_id: AgentSessionId,
    /// What was learned.
    pub content: MemoryPillContent,
    /// What kind of learning it is.
    pub category: MemoryPillCategory,
    /// Where it stands.
    pub status: MemoryPillStatus,
    /// When it was recorded.
    pub created_at: Timestamp,
    /// When it was consolidated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub consolidated_at: Option<Timestamp>,
}

impl MemoryPill {
    /// A new pill, Active.
    pub(super) const fn record(
        id: MemoryPillId,
        skill_id: AgentSkillId,
        session_id: AgentSessionId,
        content: MemoryPillContent,
        category: MemoryPillCategory,
        created_at: Timestamp,
    ) -> Self {
        let status = MemoryPillStatus::Active;
        Self { id, skill_id, session_id, content, category, status, created_at, consolidated_at: None }
    }

    /// Discarded; only Active pills are asked, which alone stand in a skill.
    pub(super) fn dismissed(self) -> Self {
        Self { status: MemoryPillStatus::Dismissed, ..self }
    }

    /// Folded into the instructions.
    pub(super) fn consolidated(self, at: Timestamp) -> Self {
        Self { status: MemoryPillStatus::Consolidated, consolidated_at: Some(at), ..self }
    }
}
