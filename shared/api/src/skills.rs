//! Skills in the API (S0 8.7 `AgentSkillDto`, `AgentSkillSummaryDto`).

use pilothouse_domain::skill::{Consolidation, MemoryPill};
use pilothouse_domain::value::{McpToolDefinition, SkillSubAgentDefinition};
use pilothouse_domain::{AgentSessionId, AgentSkill, AgentSkillId, MemoryPillId, Timestamp, UserId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A skill with its definitions and memory pills.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SkillView {
    /// The id of the skill.
    pub id: AgentSkillId,
    /// The owner of the skill.
    pub owner_id: UserId,
    /// The name of the skill.
    pub name: String,
    /// A description of the skill.
    pub description: String,
    /// The instructions for the agent.
    pub instructions: String,
    /// The version of the instructions, which starts at 1 and increases with each consolidation.
    pub version: u32,
    /// Whether the skill can be enabled on sessions.
    pub is_active: bool,
    /// The tools that the skill defines.
    pub tool_definitions: Vec<McpToolDefinition>,
    /// The subagents that the skill defines.
    pub sub_agent_definitions: Vec<SkillSubAgentDefinition>,
    /// The Active memory pills, newest first. The response to `GET` also has the latest 100 of each other status; all are listed at
    /// `…/memory-pills`.
    pub memory_pills: Vec<MemoryPill>,
    /// The consolidation in progress, with the agent's proposal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub consolidation: Option<Consolidation>,
    /// When the skill was created.
    pub created_at: Timestamp,
    /// When the skill last changed.
    pub updated_at: Timestamp,
    /// Increases with every change; also the `ETag`.
    pub revision: u64,
}

/// A skill in a list.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SkillSummary {
    /// The id of the skill.
    pub id: AgentSkillId,
    /// The name of the skill.
    pub name: String,
    /// A description of the skill.
    pub description: String,
    /// The version of the instructions, which starts at 1 and increases with each consolidation.
    pub version: u32,
    /// Whether the skill can be enabled on sessions.
    pub is_active: bool,
    /// The number of tools that the skill defines.
    pub tool_count: usize,
    /// The number of subagents that the skill defines.
    pub sub_agent_count: usize,
    /// The number of Active memory pills.
    pub active_pill_count: usize,
    /// The session that consolidates the skill.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub consolidation_session_id: Option<AgentSessionId>,
    /// When the skill last changed.
    pub updated_at: Timestamp,
}

/// The response to recording a memory pill.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RecordedPill {
    /// The id of the new memory pill.
    pub pill_id: MemoryPillId,
}

/// The response to proposing a consolidation, which is stored with the skill.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProposedConsolidation {
    /// The skill that is consolidated.
    pub skill_id: AgentSkillId,
    /// The number of memory pills that the proposed instructions incorporate.
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
