//! `adapterOptions` of the native agent.

use std::collections::BTreeMap;
use std::time::Duration;

use pilothouse_agent::session::{RetryPolicy, SteeringMode};
use pilothouse_domain::value::ThinkingLevel;
use pilothouse_wire::command::AgentSessionConfig;
use serde::Deserialize;
use serde_json::Value;

use crate::adapter::AdapterError;
use crate::kit::agent_env;

/// The options of the native agent. All are optional.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(super) struct Options {
    /// Initial thinking level of a new conversation.
    pub thinking_level: ThinkingLevel,
    /// What steering does to the remaining tool calls (decision 40).
    pub steering_mode: Steering,
    /// Most model calls of a turn.
    pub max_turns: Option<u32>,
    /// Fill level of the context window, in percent, that triggers a compaction or handoff.
    pub context_limit_percent: u8,
    /// Most retries of a failed model call.
    pub max_retries: Option<u32>,
    /// Minutes during which a failed model call is retried.
    pub retry_for_minutes: u64,
    /// Milliseconds before the first retry, doubled before each further one.
    pub retry_delay_ms: u64,
    /// A line that is prepended to every command of the user (S1 7).
    pub shell_prefix: Option<String>,
    /// Whether the output of running commands is published.
    pub stream_output: bool,
    /// Further variables of the agent's commands and programs.
    pub env: BTreeMap<String, String>,
    /// MCP servers by name, in addition to those of the template and skills.
    pub mcp_servers: BTreeMap<String, McpServer>,
    /// Whether the servers of `.mcp.json` in the working directory are used. Default: unless the session restricts or
    /// governs the agent's tools.
    pub project_mcp_servers: Option<bool>,
    /// Programs that extend the agent, in the order in which they are called (S1 8).
    pub extensions: Vec<ExtensionProgram>,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(untagged)]
pub(super) enum McpServer {
    Program(ServerProgram),
    Http(Address),
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ServerProgram {
    pub command: String,
    #[serde(default)]
    pub args: Vec<String>,
    /// Additional variables. Their values are redacted as secrets.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Address {
    pub url: String,
    /// Additional headers of each request. Their values are redacted as secrets.
    #[serde(default)]
    pub headers: BTreeMap<String, String>,
}

/// An extension of `adapterOptions.extensions` (`docs/agent-extensions.md`).
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct ExtensionProgram {
    pub name: String,
    pub command: String,
    #[serde(default)]
    pub args: Vec<String>,
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// Whether tools are blocked while the extension cannot decide on them.
    #[serde(default)]
    pub required: bool,
}

/// Configuration form of [`SteeringMode`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Steering {
    #[default]
    Skip,
    Finish,
}

impl From<Steering> for SteeringMode {
    fn from(steering: Steering) -> Self {
        match steering {
            Steering::Skip => Self::Skip,
            Steering::Finish => Self::Finish,
        }
    }
}

impl Default for Options {
    fn default() -> Self {
        let retry = RetryPolicy::default();
        Self {
            thinking_level: ThinkingLevel::default(),
            steering_mode: Steering::default(),
            max_turns: None,
            context_limit_percent: 90,
            max_retries: retry.max_retries,
            retry_for_minutes: retry.patience.as_secs() / 60,
            retry_delay_ms: u64::try_from(retry.base_delay.as_millis()).unwrap_or(u64::MAX),
            shell_prefix: None,
            stream_output: true,
            env: BTreeMap::new(),
            mcp_servers: BTreeMap::new(),
            project_mcp_servers: None,
            extensions: Vec::new(),
        }
    }
}

impl Options {
    pub(super) fn read(options: &Value) -> Result<Self, AdapterError> {
        if options.is_null() {
            return Ok(Self::default());
        }
        let invalid = |error: String| AdapterError::Configuration(format!("adapterOptions: {error}"));
        let mut options = Self::deserialize(options).map_err(|e| invalid(e.to_string()))?;
        options.env = agent_env::resolved(std::mem::take(&mut options.env), agent_env::own_variable)
            .map_err(invalid)?;
        Ok(options)
    }

    /// Whether the servers of `.mcp.json` are used. Their tools need no permission.
    pub(super) fn uses_project_servers(&self, config: &AgentSessionConfig, governed: bool) -> bool {
        self.project_mcp_servers.unwrap_or(config.allowed_tools.is_empty() && !governed)
    }

    pub(super) fn retry(&self) -> RetryPolicy {
        RetryPolicy {
            base_delay: Duration::from_millis(self.retry_delay_ms),
            max_retries: self.max_retries,
            patience: Duration::from_secs(self.retry_for_minutes.saturating_mul(60)),
            ..RetryPolicy::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn options_are_optional_and_misspelt_ones_are_named() {
        assert_eq!(Options::read(&Value::Null).unwrap(), Options::default());
        let some = Options::read(&json!({ "thinkingLevel": "high", "steeringMode": "finish" })).unwrap();
        assert_eq!((some.thinking_level, some.steering_mode), (ThinkingLevel::High, Steering::Finish));
        let wrong = Options::read(&json!({ "thinkingLevl": "high" })).unwrap_err().to_string();
        assert!(wrong.contains("thinkingLevl"), "{wrong}");
    }
}
