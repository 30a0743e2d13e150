//! `adapterOptions` of the native agent.

use std::collections::BTreeMap;
use std::time::Duration;

use pilothouse_agent::session::{RetryPolicy, SteeringMode};
use pilothouse_domain::value::ThinkingLevel;
use serde::Deserialize;
use serde_json::Value;

use crate::adapter::AdapterError;

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
    /// Retries of a failed model call.
    pub max_retries: u32,
    /// Milliseconds before the first retry, doubled before each further one.
    pub retry_delay_ms: u64,
    /// A line that is prepended to every command of the user (S1 7.1).
    pub shell_prefix: Option<String>,
    /// Whether the output of running commands is published.
    pub stream_output: bool,
    /// MCP servers by name, in addition to those of the template and skills.
    pub mcp_servers: BTreeMap<String, McpServer>,
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
            retry_delay_ms: u64::try_from(retry.base_delay.as_millis()).unwrap_or(u64::MAX),
            shell_prefix: None,
            stream_output: true,
            mcp_servers: BTreeMap::new(),
            extensions: Vec::new(),
        }
    }
}

impl Options {
    pub(super) fn read(options: &Value) -> Result<Self, AdapterError> {
        if options.is_null() {
            return Ok(Self::default());
        }
        Self::deserialize(options).map_err(|e| AdapterError::Configuration(format!("adapterOptions: {e}")))
    }

    pub(super) fn retry(&self) -> RetryPolicy {
        RetryPolicy {
            base_delay: Duration::from_millis(self.retry_delay_ms),
            max_retries: self.max_retries,
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
