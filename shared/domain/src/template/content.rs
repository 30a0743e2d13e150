//! What sessions that are started from a template get, where their start says nothing else.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::text::{AdapterName, AnswerText, ModelId, SystemPrompt, TemplateDescription, TemplateName};
use crate::value::{AutoContinueConfig, ContextPolicy, ExecutionMode, SessionBudget};

/// The fields of a template that are set as a whole (S0 8.7 `CreateAgentTemplateCommand`, `UpdateAgentTemplateCommand`).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TemplateContent {
    /// Its name.
    pub name: TemplateName,
    /// What it is for.
    pub description: Option<TemplateDescription>,
    /// The model of its sessions.
    pub model_id: ModelId,
    /// Base instructions, before those of skills.
    pub system_prompt: Option<SystemPrompt>,
    /// The tools that the agent may use.
    pub allowed_tools: AllowedTools,
    /// The money of a session.
    pub default_budget: SessionBudget,
    /// When a session goes on by itself.
    pub default_auto_continue_config: Option<AutoContinueConfig>,
    /// Whether leaving plan mode waits for the owner.
    pub plan_approval_required: bool,
    /// How its sessions come to run.
    pub execution_mode: ExecutionMode,
    /// The adapter that drives the agent; none: the default one (ruling 20).
    pub adapter: Option<AdapterName>,
    /// What the adapter alone understands.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub adapter_options: Value,
    /// Seconds that a question or a plan may wait; none: the default (ruling 26).
    pub request_timeout_seconds: Option<u64>,
    /// The answer that stands in when nobody answers in time; none: the session fails.
    pub default_answer: Option<AnswerText>,
    /// How full the context window may get before a warning, in percent; none: the default (S0, design note
    /// `ContextExhausted` detection threshold).
    pub context_warn_at_percent: Option<u8>,
    /// What is done when the context window fills up; none: the default (ruling 35).
    #[serde(default)]
    pub context_policy: Option<ContextPolicy>,
    /// Seconds of quiet after which a session hibernates; none: the default (ruling 22).
    #[serde(default)]
    pub idle_timeout_seconds: Option<u64>,
    /// The same while it is Paused.
    #[serde(default)]
    pub paused_timeout_seconds: Option<u64>,
}

/// The names of the tools that an agent may use: 1 to 200 of them, each once.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "Vec<String>", into = "Vec<String>")]
pub struct AllowedTools(Vec<String>);

/// What is no list of tools.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidTools {
    /// None, or too many.
    #[error("must have 1 to {max} entries")]
    Count {
        /// The most tools.
        max: usize,
    },
    /// Not a name.
    #[error("`{0}` is not the name of a tool (1 to 200 characters)")]
    Name(String),
    /// The same one again.
    #[error("`{0}` is there twice")]
    Twice(String),
}

impl AllowedTools {
    /// The most tools.
    pub const MAX: usize = 200;

    /// Takes 1 to 200 names of 1 to 200 characters, each once.
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
                return Err(InvalidTools::Twice(name.clone()));
            }
        }
        Ok(Self(names))
    }

    /// The names.
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
