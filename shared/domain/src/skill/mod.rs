//! The `AgentSkill` aggregate (S0 8.4): instructions, tools and subagents for sessions, with the memory pills that agents record.
//!
//! The aggregate contains active pills only. A pill that is consolidated or dismissed becomes a separate record, so that the
//! aggregate stays small.
//!
//! | module | contents |
//! |---|---|
//! | [`pill`] | the `MemoryPill` entity |
//! | `consolidation` | merging pills into the instructions |
//! | `error` | refusals |

mod consolidation;
mod error;
mod event;
pub mod pill;

use serde::{Deserialize, Serialize};

pub use consolidation::{Consolidation, Proposal};
pub use error::SkillError;
pub use event::SkillEvent;
pub use pill::{MemoryPill, MemoryPillCategory, MemoryPillStatus};

use crate::aggregate::{Aggregate, ArchivedPart};
use crate::text::{MemoryPillContent, SkillDescription, SkillInstructions, SkillName};
use crate::value::{McpToolDefinition, SkillSubAgentDefinition, check_names, check_tools};
use crate::{AgentSessionId, AgentSkillId, DomainContext, MemoryPillId, Timestamp, UserId};

/// A skill (S0 8.4).
///
/// A method that returns a [`SkillError`] has changed nothing. Repeating an operation changes nothing and returns no event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AgentSkill {
    id: AgentSkillId,
    owner_id: UserId,
    name: SkillName,
    description: SkillDescription,
    instructions: SkillInstructions,
    version: u32,
    tool_definitions: Vec<McpToolDefinition>,
    sub_agent_definitions: Vec<SkillSubAgentDefinition>,
    /// Active pills, oldest first.
    active_pills: Vec<MemoryPill>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    consolidation: Option<Consolidation>,
    is_active: bool,
    created_at: Timestamp,
    updated_at: Timestamp,
    /// Pills that left in this change; the commit stores a record of each.
    #[serde(skip)]
    settled: Vec<MemoryPill>,
}

/// Input for creating a skill (S0 8.7 `CreateAgentSkillCommand`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewSkill {
    pub id: AgentSkillId,
    pub owner_id: UserId,
    /// Unique among the owner's skills; the commit checks that.
    pub name: SkillName,
    pub description: SkillDescription,
    pub instructions: SkillInstructions,
    pub tool_definitions: Vec<McpToolDefinition>,
    pub sub_agent_definitions: Vec<SkillSubAgentDefinition>,
}

impl AgentSkill {
    pub const fn id(&self) -> AgentSkillId {
        self.id
    }

    pub const fn owner_id(&self) -> &UserId {
        &self.owner_id
    }

    pub const fn name(&self) -> &SkillName {
        &self.name
    }

    pub const fn description(&self) -> &SkillDescription {
        &self.description
    }

    pub const fn instructions(&self) -> &SkillInstructions {
        &self.instructions
    }

    /// Number of consolidations plus 1.
    pub const fn version(&self) -> u32 {
        self.version
    }

    pub fn tool_definitions(&self) -> &[McpToolDefinition] {
        &self.tool_definitions
    }

    pub fn sub_agent_definitions(&self) -> &[SkillSubAgentDefinition] {
        &self.sub_agent_definitions
    }

    /// Oldest first.
    pub fn active_pills(&self) -> &[MemoryPill] {
        &self.active_pills
    }

    pub const fn consolidation(&self) -> Option<&Consolidation> {
        self.consolidation.as_ref()
    }

    pub const fn is_active(&self) -> bool {
        self.is_active
    }

    pub const fn created_at(&self) -> Timestamp {
        self.created_at
    }

    pub const fn updated_at(&self) -> Timestamp {
        self.updated_at
    }

    /// Pills that left the aggregate since it was loaded, with their final status.
    pub fn settled_pills(&self) -> &[MemoryPill] {
        &self.settled
    }
}

impl AgentSkill {
    /// Most active pills. A single transaction stores the records of all of them.
    pub const MAX_ACTIVE_PILLS: usize = 80;
    /// Most bytes of the aggregate as JSON. It is stored as a single item and has to fit into one command together with its pills.
    pub const MAX_BYTES: usize = 128 * 1024;

    /// Creates an active skill with version 1.
    pub fn create(new: NewSkill, ctx: &DomainContext<'_>) -> Result<(Self, Vec<SkillEvent>), SkillError> {
        check_tools(&new.tool_definitions)?;
        check_sub_agents(&new.sub_agent_definitions)?;
        let event = SkillEvent::Created { name: new.name.clone() };
        let skill = Self {
            id: new.id,
            owner_id: new.owner_id,
            name: new.name,
            description: new.description,
            instructions: new.instructions,
            version: 1,
            tool_definitions: new.tool_definitions,
            sub_agent_definitions: new.sub_agent_definitions,
            active_pills: Vec::new(),
            consolidation: None,
            is_active: true,
            created_at: ctx.now,
            updated_at: ctx.now,
            settled: Vec::new(),
        };
        skill.ensure_fits()?;
        Ok((skill, vec![event]))
    }

    /// Changes name and description (S0 8.7 `UpdateAgentSkillCommand`). Missing values stay as they are.
    pub fn update(
        &mut self,
        name: Option<SkillName>,
        description: Option<SkillDescription>,
        ctx: &DomainContext<'_>,
    ) -> Result<Vec<SkillEvent>, SkillError> {
        self.change(ctx, |skill| {
            skill.name = name.unwrap_or_else(|| skill.name.clone());
            skill.description = description.unwrap_or_else(|| skill.description.clone());
            Ok(SkillEvent::Updated {})
        })
    }

    /// Replaces the instructions (S0 8.4 `UpdateInstructions`). Only a consolidation increments the version. An edit of the owner
    /// is refused during a consolidation, which would overwrite it.
    pub fn update_instructions(
        &mut self,
        instructions: SkillInstructions,
        increment_version: bool,
        ctx: &DomainContext<'_>,
    ) -> Result<Vec<SkillEvent>, SkillError> {
        if instructions == self.instructions && !increment_version {
            return Ok(Vec::new());
        }
        if let (Some(consolidation), false) = (&self.consolidation, increment_version) {
            return Err(SkillError::ConsolidationUnderWay { session_id: consolidation.session_id });
        }
        self.change(ctx, |skill| {
            skill.instructions = instructions;
            skill.version += u32::from(increment_version);
            Ok(SkillEvent::InstructionsUpdated { new_version: skill.version })
        })
    }

    pub fn add_tool_definition(
        &mut self,
        tool: McpToolDefinition,
        ctx: &DomainContext<'_>,
    ) -> Result<Vec<SkillEvent>, SkillError> {
        if self.tool_definitions.contains(&tool) {
            return Ok(Vec::new());
        }
        self.change(ctx, |skill| {
            skill.tool_definitions.push(tool);
            check_tools(&skill.tool_definitions)?;
            Ok(SkillEvent::Updated {})
        })
    }

    pub fn remove_tool_definition(
        &mut self,
        name: &str,
        ctx: &DomainContext<'_>,
    ) -> Result<Vec<SkillEvent>, SkillError> {
        self.change(ctx, |skill| {
            let at = skill.tool_definitions.iter().position(|tool| tool.name.as_str() == name);
            let at =
                at.ok_or_else(|| SkillError::NoSuchDefinition { what: "tool", name: name.to_owned() })?;
            skill.tool_definitions.remove(at);
            Ok(SkillEvent::Updated {})
        })
    }

    pub fn add_sub_agent_definition(
        &mut self,
        definition: SkillSubAgentDefinition,
        ctx: &DomainContext<'_>,
    ) -> Result<Vec<SkillEvent>, SkillError> {
        if self.sub_agent_definitions.contains(&definition) {
            return Ok(Vec::new());
        }
        self.change(ctx, |skill| {
            skill.sub_agent_definitions.push(definition);
            check_sub_agents(&skill.sub_agent_definitions)?;
            Ok(SkillEvent::Updated {})
        })
    }

    pub fn remove_sub_agent_definition(
        &mut self,
        name: &str,
        ctx: &DomainContext<'_>,
    ) -> Result<Vec<SkillEvent>, SkillError> {
        self.change(ctx, |skill| {
            let at = skill.sub_agent_definitions.iter().position(|agent| agent.name.as_str() == name);
            let at =
                at.ok_or_else(|| SkillError::NoSuchDefinition { what: "subagent", name: name.to_owned() })?;
            skill.sub_agent_definitions.remove(at);
            Ok(SkillEvent::Updated {})
        })
    }

    /// Records what an agent learned (S0 8.4 `RecordMemoryPill`).
    pub fn record_memory_pill(
        &mut self,
        session_id: AgentSessionId,
        content: MemoryPillContent,
        category: MemoryPillCategory,
        ctx: &mut DomainContext<'_>,
    ) -> Result<(MemoryPillId, Vec<SkillEvent>), SkillError> {
        let pill_id = MemoryPillId::new(ctx.uuid());
        let pill = MemoryPill::record(pill_id, self.id, session_id, content, category, ctx.now);
        let events = self.change(ctx, |skill| {
            skill.active_pills.push(pill);
            if skill.active_pills.len() > Self::MAX_ACTIVE_PILLS {
                return Err(SkillError::TooManyPills { max: Self::MAX_ACTIVE_PILLS });
            }
            Ok(SkillEvent::MemoryPillRecorded { skill_id: skill.id, pill_id, session_id, category })
        })?;
        Ok((pill_id, events))
    }

    /// Discards an active pill (S0 8.4 `DismissMemoryPill`).
    pub fn dismiss_memory_pill(
        &mut self,
        pill: MemoryPillId,
        ctx: &DomainContext<'_>,
    ) -> Result<Vec<SkillEvent>, SkillError> {
        self.change(ctx, |skill| {
            let dismissed = skill.take_pill(pill)?.dismissed();
            skill.settled.push(dismissed);
            Ok(SkillEvent::MemoryPillDismissed { pill_id: pill })
        })
    }

    /// Deactivates the skill (S0 8.4 `Deactivate`). Sessions that already use it keep it.
    pub fn deactivate(&mut self, ctx: &DomainContext<'_>) -> Vec<SkillEvent> {
        self.set_active(false, ctx, SkillEvent::Deactivated {})
    }

    pub fn activate(&mut self, ctx: &DomainContext<'_>) -> Vec<SkillEvent> {
        self.set_active(true, ctx, SkillEvent::Activated {})
    }

    fn set_active(&mut self, active: bool, ctx: &DomainContext<'_>, event: SkillEvent) -> Vec<SkillEvent> {
        if self.is_active == active {
            return Vec::new();
        }
        self.is_active = active;
        self.updated_at = ctx.now;
        vec![event]
    }

    fn take_pill(&mut self, id: MemoryPillId) -> Result<MemoryPill, SkillError> {
        let at = self.active_pills.iter().position(|pill| pill.id == id);
        Ok(self.active_pills.remove(at.ok_or_else(|| SkillError::PillsNotActive { pill_ids: vec![id] })?))
    }

    /// Applies a change to a copy, and keeps the copy if the change is valid and changed something.
    fn change(
        &mut self,
        ctx: &DomainContext<'_>,
        make: impl FnOnce(&mut Self) -> Result<SkillEvent, SkillError>,
    ) -> Result<Vec<SkillEvent>, SkillError> {
        let mut changed = self.clone();
        let event = make(&mut changed)?;
        if changed == *self {
            return Ok(Vec::new());
        }
        changed.updated_at = ctx.now;
        changed.ensure_fits()?;
        *self = changed;
        Ok(vec![event])
    }

    /// Refuses an aggregate that is too large for a single item.
    fn ensure_fits(&self) -> Result<(), SkillError> {
        let bytes = serde_json::to_vec(self).map_or(usize::MAX, |json| json.len());
        if bytes > Self::MAX_BYTES {
            return Err(SkillError::Full { max_kib: Self::MAX_BYTES / 1024 });
        }
        Ok(())
    }
}

fn check_sub_agents(agents: &[SkillSubAgentDefinition]) -> Result<(), SkillError> {
    let names = agents.iter().map(|agent| agent.name.as_str());
    check_names("subagent", SkillSubAgentDefinition::MAX_SUB_AGENTS, names)?;
    Ok(agents.iter().try_for_each(SkillSubAgentDefinition::check)?)
}

impl Aggregate for AgentSkill {
    type Id = AgentSkillId;
    type Event = SkillEvent;

    const KIND: &'static str = "skill";

    fn id(&self) -> AgentSkillId {
        self.id
    }

    fn owner_id(&self) -> &UserId {
        &self.owner_id
    }

    /// Case-insensitive by name.
    fn listing_sort(&self) -> String {
        format!("{}#{}", self.name.as_str().to_lowercase(), self.id)
    }

    fn unique_name(&self) -> Option<&str> {
        Some(self.name.as_str())
    }

    fn archived_parts(&self) -> Vec<ArchivedPart> {
        let record = |pill: &MemoryPill| ArchivedPart {
            group: pill.status.group(),
            id: pill.id.to_string(),
            value: serde_json::to_value(pill).unwrap_or_default(),
        };
        self.settled.iter().map(record).collect()
    }
}
