//! Settings of a session that S0 does not define (decision 20).

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::text::AdapterName;
use crate::value::{ContextPolicy, ThinkingLevel};

/// Settings of a session that S0 does not define, with their defaults (decision 20).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SessionSettings {
    /// Adapter that drives the agent. Default: `script`.
    pub adapter: AdapterName,
    /// Options that only the adapter interprets. Default: none.
    pub adapter_options: serde_json::Value,
    /// Tools that the agent may use. Default: the adapter's own.
    pub allowed_tools: Vec<String>,
    /// Labels for the owner's use, at most 20. Default: none.
    pub labels: BTreeMap<String, String>,
    /// Whether leaving plan mode needs the owner's approval. Default: yes.
    pub plan_approval_required: bool,
    /// Seconds until an unanswered question or plan times out (decision 26). Default: 24 hours.
    pub request_timeout_seconds: u64,
    /// Answer to a question that times out. Default: none, and the session fails.
    pub default_answer: Option<String>,
    /// Context usage in percent at which the owner is warned. Default: 85.
    pub context_warn_at_percent: u8,
    /// Action when the context window fills up (decision 35). Default: hand the work over to a new session.
    #[serde(default)]
    pub context_policy: ContextPolicy,
    /// How often a failed session can be retried. Default: 3 (S0 8.4).
    pub max_retries: u32,
    /// Seconds without activity after which a resting or waiting session hibernates (decision 22); 0 disables hibernation. Default:
    /// 15 minutes.
    #[serde(default = "SessionSettings::default_idle_timeout")]
    pub idle_timeout_seconds: u64,
    /// The same for a paused session. Default: one hour.
    #[serde(default = "SessionSettings::default_paused_timeout")]
    pub paused_timeout_seconds: u64,
    /// Thinking level of the agent (S1 5). Default: the adapter's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thinking_level: Option<ThinkingLevel>,
}

impl SessionSettings {
    const fn default_idle_timeout() -> u64 {
        15 * 60
    }

    const fn default_paused_timeout() -> u64 {
        60 * 60
    }
}

impl Default for SessionSettings {
    fn default() -> Self {
        Self {
            adapter: AdapterName::script(),
            adapter_options: serde_json::Value::Null,
            allowed_tools: Vec::new(),
            labels: BTreeMap::new(),
            plan_approval_required: true,
            request_timeout_seconds: 24 * 60 * 60,
            default_answer: None,
            context_warn_at_percent: 85,
            context_policy: ContextPolicy::default(),
            max_retries: 3,
            idle_timeout_seconds: Self::default_idle_timeout(),
            paused_timeout_seconds: Self::default_paused_timeout(),
            thinking_level: None,
        }
    }
}
