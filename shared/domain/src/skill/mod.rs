//! The `AgentSkill` aggregate (S0 8.4): instructions, tools and subagents for sessions, and what agents learned with them.
//!
//! The aggregate holds what is live: its Active pills. A pill that is consolidated or dismissed leaves it and stays as a
//! record of its own, so that the aggregate does not grow without bound.
//!
//! | file | what it holds |
//! |---|---|
//! | [`pill`] | the `MemoryPill` entity |
//! | `consolidation` | folding pills into the instructions, by the owner's agent |
//! | `error` | refusals |

mod consolidation;
mod error;
pub mod pill;

use serde::{Deserialize, Serialize};

pub use consolidation::{Consolidation, Proposal};
pub use error::SkillError;
pub use pill::{MemoryPill, MemoryPillCategory, MemoryPillStatus};

use crate::owned::{Departed, OwnedAggregate};
use crate::text::{MemoryPillContent, SkillDescription, SkillInstructions, SkillName};
use crate::value::{McpToolDefinition, SkillSubAgentDefinition, check_names, check_tools};
use crate::{AgentSessionId, AgentSkillId, DomainEvent, Events, MemoryPillId, Occasion, Timestamp, UserId};

/// A skill (S0 8.4).
///
/// Methods that can be refused return a [`SkillError`] and then have changed nothing. The same wish twice changes nothing
/// the second time and gives no event.
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
    /// The Active ones, oldest first.
    active_pills: Vec<MemoryPill>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    consolidation: Option<Consolidation>,
    is_active: bool,
    created_at: Timestamp,
    updated_at: Timestamp,
    /// Pills that left in this change; the commit writes a record of each.
    #[serde(skip)]
    settled: Vec<MemoryPill>,
}

/// What a skill is created from (S0 8.7 `CreateAgentSkillCommand`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewSkill {
    /// Its id.
    pub id: AgentSkillId,
    /// Its owner.
    pub owner_id: UserId,
    /// Its name; that no other skill of its owner has it is the commit's to see.
    pub name: SkillName,
    /// What it is for.
    pub description: SkillDescription,
    /// What it tells the agent; may be empty at first.
    pub instructions: SkillInstructions,
    /// Its tools.
    pub tool_definitions: Vec<McpToolDefinition>,
    /// Its subagents.
    pub sub_agent_definitions: Vec<SkillSubAgentDefinition>,
}

/// Read access.
impl AgentSkill {
    /// Its id.
    pub const fn id(&self) -> AgentSkillId {
        self.id
    }

    /// Its owner.
    pub const fn owner_id(&self) -> &UserId {
        &self.owner_id
    }

    /// Its name.
    pub const fn name(&self) -> &SkillName {
        &self.name
    }

    /// What it is for.
    pub const fn description(&self) -> &SkillDescription {
        &self.description
    }

    /// What it tells the agent.
    pub const fn instructions(&self) -> &SkillInstructions {
        &self.instructions
    }

    /// Counts its consolidations, from 1.
    pub const fn version(&self) -> u32 {
        self.version
    }

    /// Its tools.
    pub fn tool_definitions(&self) -> &[McpToolDefinition] {
        &self.tool_definitions
    }

    /// Its subagents.
    pub fn sub_agent_definitions(&self) -> &[SkillSubAgentDefinition] {
        &self.sub_agent_definitions
    }

    /// Its Active pills, oldest first.
    pub fn active_pills(&self) -> &[MemoryPill] {
        &self.active_pills
    }

    /// The consolidation under way.
    pub const fn consolidation(&self) -> Option<&Consolidation> {
        self.consolidation.as_ref()
    }

    /// Whether sessions may be given it.
    pub const fn is_active(&self) -> bool {
        self.is_active
    }

    /// When it was created.
    pub const fn created_at(&self) -> Timestamp {
        self.created_at
    }

    /// When it last changed.
    pub const fn updated_at(&self) -> Timestamp {
        self.updated_at
    }

    /// Pills that left the aggregate since it was loaded, with the status that they ended in.
    pub fn settled_pills(&self) -> &[MemoryPill] {
        &self.settled
    }
}

impl AgentSkill {
    /// The most Active pills. One transaction settles them all, each as a record of its own.
    pub const MAX_ACTIVE_PILLS: usize = 80;
    /// The most bytes of the aggregate as JSON. It is one item, far below what an item may have, and what an agent is told
    /// of it, its pills included, fits one command.
    pub const MAX_BYTES: usize = 128 * 1024;

    /// `Create(…)`: a new skill, active, version 1.
    pub fn create(new: NewSkill, cx: &Occasion<'_>) -> Result<(Self, Events), SkillError> {
        check_tools(&new.tool_definitions)?;
        check_sub_agents(&new.sub_agent_definitions)?;
        let event = DomainEvent::SkillCreated { name: new.name.clone() };
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
            created_at: cx.now,
            updated_at: cx.now,
            settled: Vec::new(),
        };
        skill.ensure_fits()?;
        Ok((skill, vec![event]))
    }

    /// Changes name and description (S0 8.7 `UpdateAgentSkillCommand`); what is not given stays.
    pub fn update(
        &mut self,
        name: Option<SkillName>,
        description: Option<SkillDescription>,
        cx: &Occasion<'_>,
    ) -> Result<Events, SkillError> {
        self.change(cx, |skill| {
            skill.name = name.unwrap_or_else(|| skill.name.clone());
            skill.description = description.unwrap_or_else(|| skill.description.clone());
            Ok(DomainEvent::SkillUpdated {})
        })
    }

    /// `UpdateInstructions(instructions, incrementVersion)`. Only a consolidation moves the version; the owner's own edit
    /// does not, and is refused while a consolidation is under way, which would overwrite it.
    pub fn update_instructions(
        &mut self,
        instructions: SkillInstructions,
        increment_version: bool,
        cx: &Occasion<'_>,
    ) -> Result<Events, SkillError> {
        if instructions == self.instructions && !increment_version {
            return Ok(Vec::new());
        }
        if let (Some(consolidation), false) = (&self.consolidation, increment_version) {
            return Err(SkillError::ConsolidationUnderWay { session_id: consolidation.session_id });
        }
        self.change(cx, |skill| {
            skill.instructions = instructions;
            skill.version += u32::from(increment_version);
            Ok(DomainEvent::SkillInstructionsUpdated { new_version: skill.version })
        })
    }

    /// `AddToolDefinition(tool)`.
    pub fn add_tool_definition(
        &mut self,
        tool: McpToolDefinition,
        cx: &Occasion<'_>,
    ) -> Result<Events, SkillError> {
        if self.tool_definitions.contains(&tool) {
            return Ok(Vec::new());
        }
        self.change(cx, |skill| {
            skill.tool_definitions.push(tool);
            check_tools(&skill.tool_definitions)?;
            Ok(DomainEvent::SkillUpdated {})
        })
    }

    /// `RemoveToolDefinition(toolName)`.
    pub fn remove_tool_definition(&mut self, name: &str, cx: &Occasion<'_>) -> Result<Events, SkillError> {
        self.change(cx, |skill| {
            let at = skill.tool_definitions.iter().position(|tool| tool.name.as_str() == name);
            let at =
                at.ok_or_else(|| SkillError::NoSuchDefinition { what: "tool", name: name.to_owned() })?;
            skill.tool_definitions.remove(at);
            Ok(DomainEvent::SkillUpdated {})
        })
    }

    /// `AddSubAgentDefinition(def)`.
    pub fn add_sub_agent_definition(
        &mut self,
        definition: SkillSubAgentDefinition,
        cx: &Occasion<'_>,
    ) -> Result<Events, SkillError> {
        if self.sub_agent_definitions.contains(&definition) {
            return Ok(Vec::new());
        }
        self.change(cx, |skill| {
            skill.sub_agent_definitions.push(definition);
            check_sub_agents(&skill.sub_agent_definitions)?;
            Ok(DomainEvent::SkillUpdated {})
        })
    }

    /// `RemoveSubAgentDefinition(name)`.
    pub fn remove_sub_agent_definition(
        &mut self,
        name: &str,
        cx: &Occasion<'_>,
    ) -> Result<Events, SkillError> {
        self.change(cx, |skill| {
            let at = skill.sub_agent_definitions.iter().position(|agent| agent.name.as_str() == name);
            let at =
                at.ok_or_else(|| SkillError::NoSuchDefinition { what: "subagent", name: name.to_owned() })?;
            skill.sub_agent_definitions.remove(at);
            Ok(DomainEvent::SkillUpdated {})
        })
    }

    /// `RecordMemoryPill(sessionId, content, category)`: keeps what an agent learned.
    pub fn record_memory_pill(
        &mut self,
        session_id: AgentSessionId,
        content: MemoryPillContent,
        category: MemoryPillCategory,
        cx: &mut Occasion<'_>,
    ) -> Result<(MemoryPillId, Events), SkillError> {
        let pill_id = MemoryPillId::new(cx.uuid());
        let pill = MemoryPill::record(pill_id, self.id, session_id, content, category, cx.now);
        let events = self.change(cx, |skill| {
            skill.active_pills.push(pill);
            if skill.active_pills.len() > Self::MAX_ACTIVE_PILLS {
                return Err(SkillError::TooManyPills { max: Self::MAX_ACTIVE_PILLS });
            }
            Ok(DomainEvent::MemoryPillRecorded { skill_id: skill.id, pill_id, session_id, category })
        })?;
        Ok((pill_id, events))
    }

    /// `DismissMemoryPill(pillId)`: discards an Active pill.
    pub fn dismiss_memory_pill(
        &mut self,
        pill: MemoryPillId,
        cx: &Occasion<'_>,
    ) -> Result<Events, SkillError> {
        self.change(cx, |skill| {
            let dismissed = skill.take_pill(pill)?.dismissed();
            skill.settled.push(dismissed);
            Ok(DomainEvent::MemoryPillDismissed { pill_id: pill })
        })
    }

    /// `Deactivate()`: no session is given it from now on; those that have it keep it.
    pub fn deactivate(&mut self, cx: &Occasion<'_>) -> Events {
        self.set_active(false, cx, DomainEvent::SkillDeactivated {})
    }

    /// `Activate()`.
    pub fn activate(&mut self, cx: &Occasion<'_>) -> Events {
        self.set_active(true, cx, DomainEvent::SkillActivated {})
    }

    fn set_active(&mut self, active: bool, cx: &Occasion<'_>, event: DomainEvent) -> Events {
        if self.is_active == active {
            return Vec::new();
        }
        self.is_active = active;
        self.updated_at = cx.now;
        vec![event]
    }

    /// Takes an Active pill out.
    fn take_pill(&mut self, id: MemoryPillId) -> Result<MemoryPill, SkillError> {
        let at = self.active_pills.iter().position(|pill| pill.id == id);
        Ok(self.active_pills.remove(at.ok_or_else(|| SkillError::PillsNotActive { pill_ids: vec![id] })?))
    }

    /// Makes a change to a copy and keeps it when it was allowed, fits and changed something.
    fn change(
        &mut self,
        cx: &Occasion<'_>,
        make: impl FnOnce(&mut Self) -> Result<DomainEvent, SkillError>,
    ) -> Result<Events, SkillError> {
        let mut changed = self.clone();
        let event = make(&mut changed)?;
        if changed == *self {
            return Ok(Vec::new());
        }
        changed.updated_at = cx.now;
        changed.ensure_fits()?;
        *self = changed;
        Ok(vec![event])
    }

    /// The aggregate is one item: what would make it too large for that is refused.
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

impl OwnedAggregate for AgentSkill {
    type Id = AgentSkillId;

    const KIND: &'static str = "skill";

    fn id(&self) -> AgentSkillId {
        self.id
    }

    fn owner_id(&self) -> &UserId {
        &self.owner_id
    }

    /// By name, without regard to capitals.
    fn listing_sort(&self) -> String {
        format!("{}#{}", self.name.as_str().to_lowercase(), self.id)
    }

    fn unique_name(&self) -> Option<&str> {
        Some(self.name.as_str())
    }

    fn departed(&self) -> Vec<Departed> {
        let record = |pill: &MemoryPill| Departed {
            group: pill.status.group(),
            id: pill.id.to_string(),
            value: serde_json::to_value(pill).unwrap_or_default(),
        };
        self.settled.iter().map(record).collect()
    }
}
