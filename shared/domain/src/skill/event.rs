//! Events of a skill (S0 8.6).

use super::MemoryPillCategory;
use crate::event::aggregate_events;
use crate::text::SkillName;
use crate::{AgentSessionId, AgentSkillId, MemoryPillId};

aggregate_events! {
    /// Something that happened to a skill.
    pub enum SkillEvent {
        /// A skill was created.
        Created = "AgentSkillCreatedEvent" { name: SkillName },
        /// A skill's name, description, tools or subagents changed.
        Updated = "AgentSkillUpdatedEvent" {},
        /// A skill's instructions were changed.
        InstructionsUpdated = "AgentSkillInstructionsUpdatedEvent" { new_version: u32 },
        /// A skill was deactivated: sessions can no longer use it.
        Deactivated = "AgentSkillDeactivatedEvent" {},
        /// A skill was activated again.
        Activated = "AgentSkillActivatedEvent" {},
        /// An agent recorded a memory pill. The journal of its session has the same event.
        MemoryPillRecorded = "MemoryPillRecordedEvent" {
            /// The skill that keeps the pill.
            skill_id: AgentSkillId,
            pill_id: MemoryPillId,
            /// The session that recorded the pill.
            session_id: AgentSessionId,
            category: MemoryPillCategory,
        },
        /// A memory pill was dismissed.
        MemoryPillDismissed = "MemoryPillDismissedEvent" { pill_id: MemoryPillId },
        /// A session started to consolidate the memory pills of a skill.
        ConsolidationStarted = "SkillConsolidationStartedEvent" {
            session_id: AgentSessionId,
            /// Number of pills that the session received.
            pill_count: usize,
        },
        /// The agent of a consolidation proposed new instructions. The journal of its session has the same event.
        ConsolidationProposed = "SkillConsolidationProposedEvent" {
            session_id: AgentSessionId,
            /// Number of pills that the new instructions contain.
            pill_count: usize,
        },
        /// A consolidation ended without a change.
        ConsolidationAbandoned = "SkillConsolidationAbandonedEvent" {
            session_id: AgentSessionId,
            reason: String,
        },
        /// Memory pills were merged into a skill's instructions.
        Consolidated = "SkillConsolidatedEvent" {
            new_version: u32,
            /// Number of merged pills.
            consolidated_pill_count: usize,
        },
    }
}
