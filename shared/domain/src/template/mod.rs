//! The `AgentTemplate` aggregate (S0 8.4): what sessions are started from, by hand, by the clock and by events.
//!
//! | file | what it holds |
//! |---|---|
//! | `content` | the fields that are set as a whole |
//! | [`cron`], [`zone`], `schedule` | when a template starts a session by itself |
//! | `rule` | how events from outside are classified |
//! | `order` | from what a start says, and what its template says, to a session |

mod content;
pub mod cron;
mod error;
mod order;
mod rule;
mod schedule;
pub mod zone;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use content::{AllowedTools, InvalidTools, TemplateContent};
pub use error::TemplateError;
pub use order::{OrderedSession, SessionOrder};
pub use rule::{ClassificationRule, Classified, EventFields, EventPriority, InvalidPattern, MatchPattern};
pub use schedule::{AgentSchedule, Scheduled, ScheduledLaunch, ScheduledRun};

use crate::composition::{Composition, TemplatePart, compose};
use crate::text::{Classification, EventField, SystemPrompt};
use crate::value::{ContextPolicy, McpToolDefinition, check_tools};
use crate::{
    AgentSessionId, AgentSkillId, AgentTemplateId, ClassificationRuleId, DomainEvent, Events, Occasion,
    OwnedAggregate, Timestamp, UserId,
};

/// A template (S0 8.4).
///
/// Every change goes through a method. Methods that can be refused return a [`TemplateError`] and then have changed
/// nothing. What is so already is no change and brings no event.
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

/// What a template is made of (S0 8.7 `CreateAgentTemplateCommand`).
#[derive(Debug, Clone, PartialEq)]
pub struct NewTemplate {
    /// Its id.
    pub id: AgentTemplateId,
    /// Its owner.
    pub owner_id: UserId,
    /// Its fields.
    pub content: TemplateContent,
    /// Tools of MCP servers that its sessions get.
    pub custom_tool_definitions: Vec<McpToolDefinition>,
    /// Skills that are enabled for its sessions, in order.
    pub default_skill_ids: Vec<AgentSkillId>,
    /// Rules for events, in order.
    pub classification_rules: Vec<NewRule>,
    /// When it starts a session by itself.
    pub schedule: Option<AgentSchedule>,
}

/// A rule without an id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewRule {
    /// Which field of the event.
    pub match_field: EventField,
    /// What the field must look like.
    pub match_pattern: MatchPattern,
    /// What the event is then.
    pub classify_as: Classification,
    /// How urgent it is at least.
    pub min_priority: Option<EventPriority>,
}

impl NewRule {
    /// The rule with a fresh id.
    pub fn with_id(self, cx: &mut Occasion<'_>) -> ClassificationRule {
        ClassificationRule {
            id: ClassificationRuleId::new(cx.uuid()),
            match_field: self.match_field,
            match_pattern: self.match_pattern,
            classify_as: self.classify_as,
            min_priority: self.min_priority,
        }
    }
}

/// A part of a template that changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum TemplateSection {
    /// Its fields.
    Content,
    /// The skills of its sessions.
    DefaultSkills,
    /// Its rules for events.
    ClassificationRules,
    /// The tools that it brings.
    CustomTools,
    /// When it starts a session by itself.
    Schedule,
}

/// Why a time that a schedule named started nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ScheduleSkip {
    /// The template is deactivated. Its schedule rests until it is activated.
    Deactivated,
    /// Too many sessions wait for a slot of the pool.
    PoolLineFull,
}

/// A time that is due.
#[derive(Debug, Clone, PartialEq)]
pub struct DueRun<'a> {
    /// The time that the schedule named.
    pub scheduled_for: Timestamp,
    /// What is started.
    pub launch: &'a ScheduledLaunch,
}

impl AgentTemplate {
    /// The most default skills.
    pub const MAX_SKILLS: usize = 20;
    /// The most classification rules.
    pub const MAX_RULES: usize = 100;
    /// The most bytes of a template as JSON: it is one item of the table.
    pub const MAX_BYTES: usize = 256 * 1024;
    /// The most bytes of what it gives to a composition: skills have to fit beside it.
    pub const MAX_COMPOSED_BYTES: usize = Composition::MAX_BYTES / 3 * 2;

    /// A new template, active (S0 8.4 `Create`).
    pub fn create(new: NewTemplate, cx: &mut Occasion<'_>) -> Result<(Self, Events), TemplateError> {
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
            classification_rules: new.classification_rules.into_iter().map(|rule| rule.with_id(cx)).collect(),
            scheduled: new.schedule.map(|schedule| Scheduled::new(schedule, cx.now)),
            is_active: true,
            created_at: cx.now,
            updated_at: cx.now,
        };
        template.check()?;
        let created = DomainEvent::TemplateCreated { name: template.content.name.as_str().to_owned() };
        Ok((template, vec![created]))
    }

    /// Replaces the fields that are set as a whole (S0 8.7 `UpdateAgentTemplateCommand`).
    pub fn update(&mut self, content: TemplateContent, cx: &Occasion<'_>) -> Result<Events, TemplateError> {
        if content == self.content {
            return Ok(Events::new());
        }
        self.change(TemplateSection::Content, cx, |it| {
            it.content = content;
            Ok(())
        })
    }

    /// Enables a skill for its sessions, after the others (S0 8.4 `AddDefaultSkill`).
    pub fn add_default_skill(
        &mut self,
        id: AgentSkillId,
        cx: &Occasion<'_>,
    ) -> Result<Events, TemplateError> {
        if self.default_skill_ids.contains(&id) {
            return Ok(Events::new());
        }
        self.change(TemplateSection::DefaultSkills, cx, |it| {
            it.default_skill_ids.push(id);
            Ok(())
        })
    }

    /// Enables a skill for its sessions no more (S0 8.4 `RemoveDefaultSkill`).
    pub fn remove_default_skill(
        &mut self,
        id: AgentSkillId,
        cx: &Occasion<'_>,
    ) -> Result<Events, TemplateError> {
        self.change(TemplateSection::DefaultSkills, cx, |it| {
            removed(&mut it.default_skill_ids, |skill| *skill == id).ok_or(TemplateError::NoSuchSkill)
        })
    }

    /// Adds a rule, after the others (S0 8.4 `AddClassificationRule`).
    pub fn add_classification_rule(
        &mut self,
        rule: ClassificationRule,
        cx: &Occasion<'_>,
    ) -> Result<Events, TemplateError> {
        self.change(TemplateSection::ClassificationRules, cx, |it| {
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
        cx: &Occasion<'_>,
    ) -> Result<Events, TemplateError> {
        self.change(TemplateSection::ClassificationRules, cx, |it| {
            removed(&mut it.classification_rules, |rule| rule.id == id).ok_or(TemplateError::NoSuchRule)
        })
    }

    /// Adds a tool of an MCP server (S0 8.4 `AddCustomToolDefinition`).
    pub fn add_custom_tool_definition(
        &mut self,
        tool: McpToolDefinition,
        cx: &Occasion<'_>,
    ) -> Result<Events, TemplateError> {
        if self.custom_tool_definitions.contains(&tool) {
            return Ok(Events::new());
        }
        self.change(TemplateSection::CustomTools, cx, |it| {
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
        cx: &Occasion<'_>,
    ) -> Result<Events, TemplateError> {
        self.change(TemplateSection::CustomTools, cx, |it| {
            removed(&mut it.custom_tool_definitions, |tool| tool.name.as_str() == name)
                .ok_or(TemplateError::NoSuchTool)
        })
    }

    /// Sets or clears the schedule (S0 8.4 `UpdateSchedule`). Times count from now on.
    pub fn update_schedule(
        &mut self,
        schedule: Option<AgentSchedule>,
        cx: &Occasion<'_>,
    ) -> Result<Events, TemplateError> {
        if schedule.as_ref() == self.schedule() {
            return Ok(Events::new());
        }
        self.change(TemplateSection::Schedule, cx, |it| {
            it.scheduled = schedule.map(|schedule| Scheduled::new(schedule, cx.now));
            Ok(())
        })
    }

    /// No session starts from it any more (S0 8.4 `Deactivate`). Sessions that run go on.
    pub fn deactivate(&mut self, cx: &Occasion<'_>) -> Events {
        if !self.is_active {
            return Events::new();
        }
        self.is_active = false;
        self.updated_at = cx.now;
        vec![DomainEvent::TemplateDeactivated {}]
    }

    /// Sessions start from it again (S0 8.4 `Activate`). Times of its schedule that came meanwhile stay missed.
    pub fn activate(&mut self, cx: &Occasion<'_>) -> Events {
        if self.is_active {
            return Events::new();
        }
        self.is_active = true;
        self.updated_at = cx.now;
        if let Some(scheduled) = &mut self.scheduled
            && scheduled.next_run_at.is_none_or(|at| at <= cx.now)
        {
            scheduled.wind(cx.now);
        }
        vec![DomainEvent::TemplateActivated {}]
    }

    /// Refuses while it is deactivated (S0 8.4: a deactivated template cannot be used to create new sessions).
    pub const fn check_usable(&self) -> Result<(), TemplateError> {
        if self.is_active { Ok(()) } else { Err(TemplateError::Inactive) }
    }

    /// What the first rule that fits makes of an event; none: no rule fits.
    pub fn classify(&self, event: &EventFields) -> Option<Classified<'_>> {
        self.classification_rules.iter().find_map(|rule| rule.classify(event))
    }

    /// What its schedule has due at `now`: the latest that was not carried out. However many times were missed, they are
    /// one.
    pub fn due_run(&self, now: Timestamp) -> Option<DueRun<'_>> {
        let scheduled = self.scheduled.as_ref()?;
        let scheduled_for = scheduled.next_run_at.filter(|at| *at <= now)?;
        Some(DueRun { scheduled_for, launch: &scheduled.schedule.launch })
    }

    /// What was due has started `session`. Nothing when nothing was due.
    pub fn record_run(&mut self, session: AgentSessionId, cx: &Occasion<'_>) -> Events {
        let Some((scheduled_for, next_run_at)) = self.pass(Some(session), true, cx) else {
            return Events::new();
        };
        vec![DomainEvent::TemplateScheduleRan { scheduled_for, session_id: session, next_run_at }]
    }

    /// What was due starts nothing. Nothing when nothing was due.
    pub fn record_skip(&mut self, reason: ScheduleSkip, cx: &Occasion<'_>) -> Events {
        let goes_on = match reason {
            ScheduleSkip::Deactivated => false,
            ScheduleSkip::PoolLineFull => true,
        };
        let Some((scheduled_for, next_run_at)) = self.pass(None, goes_on, cx) else { return Events::new() };
        vec![DomainEvent::TemplateScheduleSkipped { scheduled_for, reason, next_run_at }]
    }

    fn pass(
        &mut self,
        session_id: Option<AgentSessionId>,
        goes_on: bool,
        cx: &Occasion<'_>,
    ) -> Option<(Timestamp, Option<Timestamp>)> {
        let scheduled_for = self.due_run(cx.now)?.scheduled_for;
        let scheduled = self.scheduled.as_mut()?;
        scheduled.last_run = Some(ScheduledRun { scheduled_for, at: cx.now, session_id });
        scheduled.next_run_at = None;
        if goes_on {
            scheduled.wind(cx.now);
        }
        Some((scheduled_for, scheduled.next_run_at))
    }

    /// Makes a change on a copy, and keeps it when it keeps the limits.
    fn change(
        &mut self,
        part: TemplateSection,
        cx: &Occasion<'_>,
        decide: impl FnOnce(&mut Self) -> Result<(), TemplateError>,
    ) -> Result<Events, TemplateError> {
        let mut changed = self.clone();
        decide(&mut changed)?;
        changed.check()?;
        changed.updated_at = cx.now;
        *self = changed;
        Ok(vec![DomainEvent::TemplateUpdated { part }])
    }

    fn check(&self) -> Result<(), TemplateError> {
        if let Some(config) = &self.content.default_auto_continue_config {
            config.check().map_err(TemplateError::AutoContinue)?;
        }
        check_tools(&self.custom_tool_definitions)?;
        at_most("default skills", self.default_skill_ids.len(), Self::MAX_SKILLS)?;
        at_most("classification rules", self.classification_rules.len(), Self::MAX_RULES)?;
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

/// What a template gives to the composition of its sessions (S0 design note "Skill composition semantics").
impl<'a> From<&'a AgentTemplate> for TemplatePart<'a> {
    fn from(template: &'a AgentTemplate) -> Self {
        Self {
            system_prompt: template.content.system_prompt.as_ref().map(SystemPrompt::as_str),
            allowed_tools: template.content.allowed_tools.as_slice(),
            custom_tools: &template.custom_tool_definitions,
        }
    }
}

const fn at_most(what: &'static str, count: usize, max: usize) -> Result<(), TemplateError> {
    if count > max { Err(TemplateError::TooMany { what, max }) } else { Ok(()) }
}

/// Removes the first that fits; none: there is none.
fn removed<T>(list: &mut Vec<T>, fits: impl FnMut(&T) -> bool) -> Option<()> {
    let at = list.iter().position(fits)?;
    list.remove(at);
    Some(())
}

/// Read access.
impl AgentTemplate {
    /// Its id.
    pub const fn id(&self) -> AgentTemplateId {
        self.id
    }

    /// Its owner.
    pub const fn owner_id(&self) -> &UserId {
        &self.owner_id
    }

    /// The fields that are set as a whole.
    pub const fn content(&self) -> &TemplateContent {
        &self.content
    }

    /// Tools of MCP servers that its sessions get.
    pub fn custom_tool_definitions(&self) -> &[McpToolDefinition] {
        &self.custom_tool_definitions
    }

    /// Skills that are enabled for its sessions, in order.
    pub fn default_skill_ids(&self) -> &[AgentSkillId] {
        &self.default_skill_ids
    }

    /// Rules for events, in order.
    pub fn classification_rules(&self) -> &[ClassificationRule] {
        &self.classification_rules
    }

    /// When it starts a session by itself.
    pub fn schedule(&self) -> Option<&AgentSchedule> {
        self.scheduled.as_ref().map(|scheduled| &scheduled.schedule)
    }

    /// Its schedule with where it stands.
    pub const fn scheduled(&self) -> Option<&Scheduled> {
        self.scheduled.as_ref()
    }

    /// Whether sessions start from it.
    pub const fn is_active(&self) -> bool {
        self.is_active
    }

    /// When it was made.
    pub const fn created_at(&self) -> Timestamp {
        self.created_at
    }

    /// When it was last changed. What its schedule does is no change of it.
    pub const fn updated_at(&self) -> Timestamp {
        self.updated_at
    }
}

impl OwnedAggregate for AgentTemplate {
    type Id = AgentTemplateId;
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
