use super::{AgentSchedule, ClassificationRule, EventPriority, MatchPattern, TemplateContent};
use crate::text::{Classification, EventField};
use crate::value::McpToolDefinition;
use crate::{AgentSkillId, AgentTemplateId, ClassificationRuleId, DomainContext, UserId};

/// Input for creating a template (S0 8.7 `CreateAgentTemplateCommand`).
#[derive(Debug, Clone, PartialEq)]
pub struct NewTemplate {
    pub id: AgentTemplateId,
    pub owner_id: UserId,
    pub content: TemplateContent,
    pub custom_tool_definitions: Vec<McpToolDefinition>,
    /// In order.
    pub default_skill_ids: Vec<AgentSkillId>,
    pub classification_rules: Vec<NewRule>,
    /// When the template starts sessions automatically.
    pub schedule: Option<AgentSchedule>,
}

/// A classification rule without an id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewRule {
    pub match_field: EventField,
    pub match_pattern: MatchPattern,
    pub classify_as: Classification,
    pub min_priority: Option<EventPriority>,
}

impl NewRule {
    /// Adds a fresh id.
    pub fn with_id(self, ctx: &mut DomainContext<'_>) -> ClassificationRule {
        ClassificationRule {
            id: ClassificationRuleId::new(ctx.uuid()),
            match_field: self.match_field,
            match_pattern: self.match_pattern,
            classify_as: self.classify_as,
            min_priority: self.min_priority,
        }
    }
}
