//! Skills over the API (S0 8.7 `AgentSkillDto`, `AgentSkillSummaryDto`).

use pilothouse_domain::skill::{Consolidation, MemoryPill};
use pilothouse_domain::value::{McpToolDefinition, SkillSubAgentDefinition};
use pilothouse_domain::{AgentSessionId, AgentSkill, AgentSkillId, MemoryPillId, Timestamp, UserId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A skill in full.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SkillView {
    /// Its id.
    pub id: AgentSkillId,
    /// Its owner.
    pub owner_id: UserId,
    /// Its name.
    pub name: String,
    /// What it is for.
    pub description: String,
    /// What it tells the agent.
    pub instructions: String,
    /// Counts its consolidations, from 1.
    pub version: u32,
    /// Whether sessions may be given it.
    pub is_active: bool,
    /// Its tools.
    pub tool_definitions: Vec<McpToolDefinition>,
    /// Its subagents.
    pub sub_agent_definitions: Vec<SkillSubAgentDefinition>,
    /// Its Active memory pills, newest first; all others are listed at `…/memory-pills`.
    pub memory_pills: Vec<MemoryPill>,
    /// The consolidation under way, with what its agent proposes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub consolidation: Option<Consolidation>,
    /// When it was created.
    pub created_at: Timestamp,
    /// When it last changed.
    pub updated_at: Timestamp,
    /// Counts every change; also its `ETag`.
    pub revision: u64,
}

/// A skill in a list.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SkillSummary {
    /// Its id.
    pub id: AgentSkillId,
    /// Its name.
    pub name: String,
    /// What it is for.
    pub description: String,
    /// Counts its consolidations, from 1.
    pub version: u32,
    /// Whether sessions may be given it.
    pub is_active: bool,
    /// Tools that it brings along.
    pub tool_count: usize,
    /// Subagents that it brings along.
    pub sub_agent_count: usize,
    /// Memory pills to consolidate or dismiss.
    pub active_pill_count: usize,
    /// The session that consolidates it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub consolidation_session_id: Option<AgentSessionId>,
    /// When it last changed.
    pub updated_at: Timestamp,
}

/// A memory pill that was recorded.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RecordedPill {
    /// Its id.
    pub pill_id: MemoryPillId,
}

/// A proposal that stands with the skill.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProposedConsolidation {
    /// The skill.
    pub skill_id: AgentSkillId,
    /// Pills that its new instructions hold.
    pub pill_count: usize,
}

impl SkillView {
    /// The view of a skill.
    pub fn of(skill: &AgentSkill, revision: u64) -> Self {
        Self {
            id: skill.id(),
            owner_id: skill.owner_id().clone(),
            name: skill.name().to_string(),
            description: skill.description().to_string(),
            instructions: skill.instructions().to_string(),
            version: skill.version(),
            is_active: skill.is_active(),
            tool_definitions: skill.tool_definitions().to_vec(),
            sub_agent_definitions: skill.sub_agent_definitions().to_vec(),
            memory_pills: skill.active_pills().iter().rev().cloned().collect(),
            consolidation: skill.consolidation().cloned(),
            created_at: skill.created_at(),
            updated_at: skill.updated_at(),
            revision,
        }
    }
}

impl SkillSummary {
    /// The summary of a skill.
    pub fn of(skill: &AgentSkill) -> Self {
        Self {
            id: skill.id(),
            name: skill.name().to_string(),
            description: skill.description().to_string(),
            version: skill.version(),
            is_active: skill.is_active(),
            tool_count: skill.tool_definitions().len(),
            sub_agent_count: skill.sub_agent_definitions().len(),
            active_pill_count: skill.active_pills().len(),
            consolidation_session_id: skill.consolidation().map(|c| c.session_id),
            updated_at: skill.updated_at(),
        }
    }
}
