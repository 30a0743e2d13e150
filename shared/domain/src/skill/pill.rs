//! The `MemoryPill` entity (S0 8.4): something that an agent learned while it worked with a skill.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::text::MemoryPillContent;
use crate::{AgentSessionId, AgentSkillId, MemoryPillId, Timestamp};

/// Kind of learning (S0 8.5).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum MemoryPillCategory {
    /// Something that went wrong.
    Mistake,
    /// Something that helps.
    Tip,
    /// A rule to follow.
    Guideline,
    /// A recurring solution.
    Pattern,
    /// A convention of the project or team.
    Convention,
}

crate::names::named!(MemoryPillCategory {
    Mistake => "Mistake",
    Tip => "Tip",
    Guideline => "Guideline",
    Pattern => "Pattern",
    Convention => "Convention",
});

/// Status of a memory pill (S0 8.5).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub enum MemoryPillStatus {
    /// The pill can be consolidated or dismissed.
    Active,
    /// The pill was merged into the skill's instructions. Final.
    Consolidated,
    /// The owner discarded the pill. Final.
    Dismissed,
}

crate::names::named!(MemoryPillStatus {
    Active => "Active",
    Consolidated => "Consolidated",
    Dismissed => "Dismissed",
});

impl MemoryPillStatus {
    /// Group under which the records of pills with this status are listed.
    pub const fn group(self) -> &'static str {
        match self {
            Self::Active => "PILL-ACTIVE",
            Self::Consolidated => "PILL-CONSOLIDATED",
            Self::Dismissed => "PILL-DISMISSED",
        }
    }
}

/// Something that an agent learned (S0 8.4).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MemoryPill {
    pub id: MemoryPillId,
    /// The skill that keeps the pill.
    pub skill_id: AgentSkillId,
    /// The session that recorded it.
    pub session_id: AgentSessionId,
    pub content: MemoryPillContent,
    pub category: MemoryPillCategory,
    pub status: MemoryPillStatus,
    pub created_at: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub consolidated_at: Option<Timestamp>,
}

impl MemoryPill {
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

    /// Marks the pill dismissed. Only active pills are in a skill, so its status needs no check.
    pub(super) fn dismissed(self) -> Self {
        Self { status: MemoryPillStatus::Dismissed, ..self }
    }

    pub(super) fn consolidated(self, at: Timestamp) -> Self {
        Self { status: MemoryPillStatus::Consolidated, consolidated_at: Some(at), ..self }
    }
}
