//! Defaults for sessions that are started from a template.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::session::SessionOptions;
use crate::text::{AdapterName, ModelId, SystemPrompt, TemplateDescription, TemplateName, is_name};
use crate::value::{AllowedModels, AutoContinueConfig, ExecutionMode, SessionBudget};

/// Fields of a template that are set as a whole (S0 8.7 `CreateAgentTemplateCommand`, `UpdateAgentTemplateCommand`).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TemplateContent {
    pub name: TemplateName,
    pub description: Option<TemplateDescription>,
    pub model_id: ModelId,
    /// Models that a session may use instead. The template's own is one of them.
    #[serde(default, skip_serializing_if = "AllowedModels::is_unlimited")]
    pub allowed_models: AllowedModels,
    /// Base instructions, placed before those of skills.
    pub system_prompt: Option<SystemPrompt>,
    pub allowed_tools: AllowedTools,
    /// Budget of each session.
    pub default_budget: SessionBudget,
    pub default_auto_continue_config: Option<AutoContinueConfig>,
    pub execution_mode: ExecutionMode,
    /// Adapter that drives the agent; `None` for the default (decision 20).
    pub adapter: Option<AdapterName>,
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub adapter_options: Value,
    /// Fields of the brief of each agent that starts from the template, in the form of a request.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub brief_defaults: Map<String, Value>,
    /// Options of each session; missing ones have the defaults.
    #[serde(flatten)]
    pub options: SessionOptions,
}

/// Names of the tools that an agent may use: 1 to 200, without duplicates.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "Vec<String>", into = "Vec<String>")]
pub struct AllowedTools(Vec<String>);

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidTools {
    #[error("must have 1 to {max} entries")]
    Count { max: usize },
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
            if !is_name(name, 200) {
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
