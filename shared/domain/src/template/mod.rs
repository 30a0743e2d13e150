//! The `AgentTemplate` aggregate (S0 8.4). Sessions are started from templates by their owner, by a schedule, or by an event.
//!
//! | module | contents |
//! |---|---|
//! | `content` | the fields that are set as a whole |
//! | [`cron`], [`zone`], `schedule` | schedules |
//! | `rule` | classification of external events |
//! | `session_spec` | combines a start request with its template to a session |

mod content;
pub mod cron;
mod error;
mod event;
mod new;
mod rule;
mod schedule;
mod session_spec;
pub mod zone;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use content::{AllowedTools, InvalidTools, TemplateContent};
pub use error::TemplateError;
pub use event::{ScheduleSkip, TemplateEvent};
pub use new::{NewRule, NewTemplate};
pub use rule::{ClassificationRule, Classified, EventFields, EventPriority, InvalidPattern, MatchPattern};
pub use schedule::{AgentSchedule, DueRun, Scheduled, ScheduledLaunch, ScheduledRun};
pub use session_spec::{IncompleteSpec, ResolvedSession, SessionSpec};

use crate::composition::{Composition, TemplatePart, compose};
use crate::text::SystemPrompt;
use crate::value::{ContextPolicy, McpToolDefinition, check_tools};
use crate::{
    AgentSkillId, AgentTemplateId, Aggregate, ClassificationRuleId, DomainContext, Timestamp, UserId,
};

/// A template (S0 8.4).
///
/// A method that returns a [`TemplateError`] has changed nothing. Repeating an operation changes nothing and returns no event.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AgentTemplate {
    id: AgentTemplateId,
    owner_id: UserId,
    content: TemplateContent,
    custom_tool_definitions: Vec<McpToolDefinition>,
    default_skill_ids: Vec<AgentSkillId>,
    classification_rules: Vec<ClassificationRule>,
    scheduled: Option<Scheduled>,
    is_active: bool,
    created_at: Timestamp,
    updated_at: Timestamp,
}

/// Part of a template that changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum TemplateSection {
    /// The fields that are set as a whole.
    Content,
    /// The skills of its sessions.
    DefaultSkills,
    /// The classification rules for events.
    ClassificationRules,
    /// The tools of MCP servers.
    CustomTools,
    /// The schedule.
    Schedule,
}

impl AgentTemplate {
    pub const MAX_SKILLS: usize = 20;

    pub const MAX_RULES: usize = 100;

    /// Most bytes of a template as JSON; it is stored as a single item.
    pub const MAX_BYTES: usize = 256 * 1024;

    /// Most bytes of its contribution to a composition, so that skills fit as well.
    pub const MAX_COMPOSED_BYTES: usize = Composition::MAX_BYTES / 3 * 2;

    /// Creates an active template (S0 8.4 `Create`).
    pub fn create(
        new: NewTemplate,
        ctx: &mut DomainContext<'_>,
    ) -> Result<(Self, Vec<TemplateEvent>), TemplateError> {
        let mut skills = Vec::new();
        for skill in new.default_skill_ids {
            if !skills.contains(&skill) {
                skills.push(skill);
            }
        }
        let template = Self {
            id: new.id,
            owner_id: new.owner_id,
            content: new.content,
            custom_tool_definitions: new.custom_tool_definitions,
            default_skill_ids: skills,
            classification_rules: new
                .classification_rules
                .into_iter()
                .map(|rule| rule.with_id(ctx))
                .collect(),
            scheduled: new.schedule.map(|schedule| Scheduled::new(schedule, ctx.now)),
            is_active: true,
            created_at: ctx.now,
            updated_at: ctx.now,
        };
        template.check()?;
        let created = TemplateEvent::Created { name: template.content.name.as_str().to_owned() };
        Ok((template, vec![created]))
    }

    /// Replaces the fields that are set as a whole (S0 8.7 `UpdateAgentTemplateCommand`).
    pub fn update(
        &mut self,
        content: TemplateContent,
        ctx: &DomainContext<'_>,
    ) -> Result<Vec<TemplateEvent>, TemplateError> {
        if content == self.content {
            return Ok(Vec::new());
        }
        self.change(TemplateSection::Content, ctx, |it| {
            it.content = content;
            Ok(())
        })
    }

    /// Adds a skill to those of its sessions, as the last (S0 8.4 `AddDefaultSkill`).
    pub fn add_default_skill(
        &mut self,
        id: AgentSkillId,
        ctx: &DomainContext<'_>,
    ) -> Result<Vec<TemplateEvent>, TemplateError> {
        if self.default_skill_ids.contains(&id) {
            return Ok(Vec::new());
        }
        self.change(TemplateSection::DefaultSkills, ctx, |it| {
            it.default_skill_ids.push(id);
            Ok(())
        })
    }

    /// Removes a skill from those of its sessions (S0 8.4 `RemoveDefaultSkill`).
    pub fn remove_default_skill(
        &mut self,
        id: AgentSkillId,
        ctx: &DomainContext<'_>,
    ) -> Result<Vec<TemplateEvent>, TemplateError> {
        self.change(TemplateSection::DefaultSkills, ctx, |it| {
            removed(&mut it.default_skill_ids, |skill| *skill == id).ok_or(TemplateError::NoSuchSkill)
        })
    }

    /// Adds a rule as the last (S0 8.4 `AddClassificationRule`).
    pub fn add_classification_rule(
        &mut self,
        rule: ClassificationRule,
        ctx: &DomainContext<'_>,
    ) -> Result<Vec<TemplateEvent>, TemplateError> {
        self.change(TemplateSection::ClassificationRules, ctx, |it| {
            if it.classification_rules.iter().any(|known| known.id == rule.id) {
                return Err(TemplateError::RuleExists);
            }
            it.classification_rules.push(rule);
            Ok(())
        })
    }

    /// Removes a rule (S0 8.4 `RemoveClassificationRule`).
    pub fn remove_classification_rule(
        &mut self,
        id: ClassificationRuleId,
        ctx: &DomainContext<'_>,
    ) -> Result<Vec<TemplateEvent>, TemplateError> {
        self.change(TemplateSection::ClassificationRules, ctx, |it| {
            removed(&mut it.classification_rules, |rule| rule.id == id).ok_or(TemplateError::NoSuchRule)
        })
    }

    /// Adds a tool of an MCP server (S0 8.4 `AddCustomToolDefinition`).
    pub fn add_custom_tool_definition(
        &mut self,
        tool: McpToolDefinition,
        ctx: &DomainContext<'_>,
    ) -> Result<Vec<TemplateEvent>, TemplateError> {
        if self.custom_tool_definitions.contains(&tool) {
            return Ok(Vec::new());
        }
        self.change(TemplateSection::CustomTools, ctx, |it| {
            if it.custom_tool_definitions.iter().any(|known| known.name == tool.name) {
                return Err(TemplateError::ToolExists(tool.name));
            }
            it.custom_tool_definitions.push(tool);
            Ok(())
        })
    }

    /// Removes a tool (S0 8.4 `RemoveCustomToolDefinition`).
    pub fn remove_custom_tool_definition(
        &mut self,
        name: &str,
        ctx: &DomainContext<'_>,
    ) -> Result<Vec<TemplateEvent>, TemplateError> {
        self.change(TemplateSection::CustomTools, ctx, |it| {
            removed(&mut it.custom_tool_definitions, |tool| tool.name.as_str() == name)
                .ok_or(TemplateError::NoSuchTool)
        })
    }

    /// Deactivates the template: no sessions start from it (S0 8.4 `Deactivate`). Running sessions continue.
    pub fn deactivate(&mut self, ctx: &DomainContext<'_>) -> Vec<TemplateEvent> {
        if !self.is_active {
            return Vec::new();
        }
        self.is_active = false;
        self.updated_at = ctx.now;
        vec![TemplateEvent::Deactivated {}]
    }

    /// Activates the template again (S0 8.4 `Activate`). Times of its schedule that passed meanwhile stay missed.
    pub fn activate(&mut self, ctx: &DomainContext<'_>) -> Vec<TemplateEvent> {
        if self.is_active {
            return Vec::new();
        }
        self.is_active = true;
        self.updated_at = ctx.now;
        if let Some(scheduled) = &mut self.scheduled
            && scheduled.next_run_at.is_none_or(|at| at <= ctx.now)
        {
            scheduled.set_next_run(ctx.now);
        }
        vec![TemplateEvent::Activated {}]
    }

    /// Refuses a deactivated template, which cannot start sessions (S0 8.4).
    pub const fn check_usable(&self) -> Result<(), TemplateError> {
        if self.is_active { Ok(()) } else { Err(TemplateError::Inactive) }
    }

    /// Classifies an event by the first rule that matches.
    pub fn classify(&self, event: &EventFields) -> Option<Classified<'_>> {
        self.classification_rules.iter().find_map(|rule| rule.classify(event))
    }

    /// Applies a change to a copy, and keeps the copy if it is within the limits.
    fn change(
        &mut self,
        part: TemplateSection,
        ctx: &DomainContext<'_>,
        decide: impl FnOnce(&mut Self) -> Result<(), TemplateError>,
    ) -> Result<Vec<TemplateEvent>, TemplateError> {
        let mut changed = self.clone();
        decide(&mut changed)?;
        changed.check()?;
        changed.updated_at = ctx.now;
        *self = changed;
        Ok(vec![TemplateEvent::Updated { part }])
    }

    fn check(&self) -> Result<(), TemplateError> {
        if let Some(config) = &self.content.default_auto_continue_config {
            config.check().map_err(TemplateError::AutoContinue)?;
        }
        self.content.allowed_models.check(&self.content.model_id)?;
        self.content.allowed_models.check_options(&self.content.adapter_options)?;
        check_tools(&self.custom_tool_definitions)?;
        check_count("default skills", self.default_skill_ids.len(), Self::MAX_SKILLS)?;
        check_count("classification rules", self.classification_rules.len(), Self::MAX_RULES)?;
        let bytes = serde_json::to_vec(self).map_or(usize::MAX, |json| json.len());
        if bytes > Self::MAX_BYTES {
            return Err(TemplateError::TooLarge { what: "template", max: Self::MAX_BYTES });
        }
        if compose(Some(self.into()), &[], &[], ContextPolicy::Handoff).bytes() > Self::MAX_COMPOSED_BYTES {
            return Err(TemplateError::TooLarge { what: "prompt and tools", max: Self::MAX_COMPOSED_BYTES });
        }
        Ok(())
    }
}

/// Contribution of a template to the configuration of its sessions (S0 design note "Skill composition semantics").
impl<'a> From<&'a AgentTemplate> for TemplatePart<'a> {
    fn from(template: &'a AgentTemplate) -> Self {
        Self {
            brief: None,
            system_prompt: template.content.system_prompt.as_ref().map(SystemPrompt::as_str),
            allowed_tools: template.content.allowed_tools.as_slice(),
            custom_tools: &template.custom_tool_definitions,
        }
    }
}

const fn check_count(what: &'static str, count: usize, max: usize) -> Result<(), TemplateError> {
    if count > max { Err(TemplateError::TooMany { what, max }) } else { Ok(()) }
}

/// Removes the first matching entry; `None` if there is none.
fn removed<T>(list: &mut Vec<T>, fits: impl FnMut(&T) -> bool) -> Option<()> {
    let at = list.iter().position(fits)?;
    list.remove(at);
    Some(())
}

impl AgentTemplate {
    pub const fn id(&self) -> AgentTemplateId {
        self.id
    }

    pub const fn owner_id(&self) -> &UserId {
        &self.owner_id
    }

    pub const fn content(&self) -> &TemplateContent {
        &self.content
    }

    pub fn custom_tool_definitions(&self) -> &[McpToolDefinition] {
        &self.custom_tool_definitions
    }

    /// In order.
    pub fn default_skill_ids(&self) -> &[AgentSkillId] {
        &self.default_skill_ids
    }

    /// In order.
    pub fn classification_rules(&self) -> &[ClassificationRule] {
        &self.classification_rules
    }

    pub fn schedule(&self) -> Option<&AgentSchedule> {
        self.scheduled.as_ref().map(|scheduled| &scheduled.schedule)
    }

    pub const fn scheduled(&self) -> Option<&Scheduled> {
        self.scheduled.as_ref()
    }

    pub const fn is_active(&self) -> bool {
        self.is_active
    }

    pub const fn created_at(&self) -> Timestamp {
        self.created_at
    }

    /// When the template was last changed. Runs of its schedule do not count.
    pub const fn updated_at(&self) -> Timestamp {
        self.updated_at
    }
}

impl Aggregate for AgentTemplate {
    type Id = AgentTemplateId;
    type Event = TemplateEvent;
    const KIND: &'static str = "template";

    fn id(&self) -> AgentTemplateId {
        self.id
    }

    fn owner_id(&self) -> &UserId {
        &self.owner_id
    }

    fn due_at(&self) -> Option<Timestamp> {
        self.scheduled.as_ref()?.next_run_at
    }
}
