//! Defaults for sessions that are started from a template.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::text::{AdapterName, AnswerText, ModelId, SystemPrompt, TemplateDescription, TemplateName};
use crate::value::{AutoContinueConfig, ContextPolicy, ExecutionMode, SessionBudget};

/// Fields of a template that are set as a whole (S0 8.7 `CreateAgentTemplateCommand`, `UpdateAgentTemplateCommand`).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TemplateContent {
    pub name: TemplateName,
    pub description: Option<TemplateDescription>,
    pub model_id: ModelId,
    /// Base instructions, placed before those of skills.
    pub system_prompt: Option<SystemPrompt>,
    /// Tools that the agent may use.
    pub allowed_tools: AllowedTools,
    /// Budget of each session.
    pub default_budget: SessionBudget,
    /// Auto-continue configuration of each session.
    pub default_auto_continue_config: Option<AutoContinueConfig>,
    /// Whether leaving plan mode needs the owner's approval.
    pub plan_approval_required: bool,
    /// Execution mode of the sessions.
    pub execution_mode: ExecutionMode,
    /// Adapter that drives the agent; `None` for the default (decision 20).
    pub adapter: Option<AdapterName>,
    /// Options that only the adapter interprets.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub adapter_options: Value,
    /// Seconds until an unanswered question or plan times out; `None` for the default (decision 26).
    pub request_timeout_seconds: Option<u64>,
    /// Answer to a question that times out; `None` lets the session fail.
    pub default_answer: Option<AnswerText>,
    /// Context usage in percent at which the owner is warned; `None` for the default (S0 design note "`ContextExhausted` detection
    /// threshold").
    pub context_warn_at_percent: Option<u8>,
    /// Action when the context window fills up; `None` for the default (decision 35).
    #[serde(default)]
    pub context_policy: Option<ContextPolicy>,
    /// Seconds without activity after which a session hibernates; `None` for the default (decision 22).
    #[serde(default)]
    pub idle_timeout_seconds: Option<u64>,
    /// The same for a paused session.
    #[serde(default)]
    pub paused_timeout_seconds: Option<u64>,
}

/// Names of the tools that an agent may use: 1 to 200, without duplicates.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "Vec<String>", into = "Vec<String>")]
pub struct AllowedTools(Vec<String>);

/// Why a list of tools is invalid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidTools {
    #[error("must have 1 to {max} entries")]
    Count { max: usize },
    /// Not the name of a tool.
    #[error("`{0}` is not the name of a tool (1 to 200 characters)")]
    Name(String),
    #[error("`{0}` occurs twice")]
    Duplicate(String),
}

impl AllowedTools {
    pub const MAX: usize = 200;

    /// Accepts 1 to 200 unique names of 1 to 200 characters.
    pub fn new(names: Vec<String>) -> Result<Self, InvalidTools> {
        if !(1..=Self::MAX).contains(&names.len()) {
            return Err(InvalidTools::Count { max: Self::MAX });
        }
        let mut seen = BTreeSet::new();
        for name in &names {
            let fits =
                !name.trim().is_empty() && name.chars().count() <= 200 && !name.chars().any(char::is_control);
            if !fits {
                return Err(InvalidTools::Name(name.chars().take(80).collect()));
            }
            if !seen.insert(name) {
                return Err(InvalidTools::Duplicate(name.clone()));
            }
        }
        Ok(Self(names))
    }

    pub fn as_slice(&self) -> &[String] {
        &self.0
    }
}

impl TryFrom<Vec<String>> for AllowedTools {
    type Error = InvalidTools;
    fn try_from(names: Vec<String>) -> Result<Self, InvalidTools> {
        Self::new(names)
    }
}

impl From<AllowedTools> for Vec<String> {
    fn from(tools: AllowedTools) -> Self {
        tools.0
    }
}
