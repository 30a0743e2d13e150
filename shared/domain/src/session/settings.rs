//! Settings of a session that S0 does not define (decision 20), and the options that set them.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::text::{AdapterName, AnswerText};
use crate::value::{AllowedModels, ContextPolicy, ThinkingLevel};

/// Options that a start request and its template may leave open. A start request takes missing options from its template, and both
/// from the defaults of [`SessionSettings`].
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SessionOptions {
    /// See [`AgentOptions::plan_approval_required`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub plan_approval_required: Option<bool>,
    /// See [`SessionSettings::request_timeout_seconds`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request_timeout_seconds: Option<u64>,
    /// See [`SessionSettings::default_answer`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default_answer: Option<AnswerText>,
    /// See [`AgentOptions::context_warn_at_percent`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context_warn_at_percent: Option<u8>,
    /// See [`AgentOptions::context_policy`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context_policy: Option<ContextPolicy>,
    /// See [`SessionSettings::idle_timeout_seconds`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idle_timeout_seconds: Option<u64>,
    /// See [`SessionSettings::paused_timeout_seconds`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub paused_timeout_seconds: Option<u64>,
    /// See [`SessionSettings::max_retries`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_retries: Option<u32>,
}

impl SessionOptions {
    /// Takes missing options from `base`.
    #[must_use]
    pub fn or(self, base: &Self) -> Self {
        Self {
            plan_approval_required: self.plan_approval_required.or(base.plan_approval_required),
            request_timeout_seconds: self.request_timeout_seconds.or(base.request_timeout_seconds),
            default_answer: self.default_answer.or_else(|| base.default_answer.clone()),
            context_warn_at_percent: self.context_warn_at_percent.or(base.context_warn_at_percent),
            context_policy: self.context_policy.or(base.context_policy),
            idle_timeout_seconds: self.idle_timeout_seconds.or(base.idle_timeout_seconds),
            paused_timeout_seconds: self.paused_timeout_seconds.or(base.paused_timeout_seconds),
            max_retries: self.max_retries.or(base.max_retries),
        }
    }
}

/// The options that the sidecar applies to the agent. They are part of its configuration.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AgentOptions {
    /// Whether leaving plan mode needs the owner's approval.
    pub plan_approval_required: bool,
    /// Context usage in percent at which the sidecar warns.
    pub context_warn_at_percent: u8,
    /// Action when the context window fills up (decision 35).
    #[serde(default)]
    pub context_policy: ContextPolicy,
}

impl Default for AgentOptions {
    fn default() -> Self {
        Self {
            plan_approval_required: true,
            context_warn_at_percent: 85,
            context_policy: ContextPolicy::default(),
        }
    }
}

/// Settings of a session that S0 does not define, with their defaults (decision 20).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SessionSettings {
    /// Adapter that drives the agent.
    pub adapter: AdapterName,
    /// Options that only the adapter interprets. Default: none.
    pub adapter_options: serde_json::Value,
    /// Tools that the agent may use. Default: the adapter's own.
    pub allowed_tools: Vec<String>,
    /// Models that the owner may choose. Default: all.
    #[serde(default, skip_serializing_if = "AllowedModels::is_unlimited")]
    pub allowed_models: AllowedModels,
    /// Labels for the owner's use, at most 20. Default: none.
    pub labels: BTreeMap<String, String>,
    #[serde(flatten)]
    pub agent: AgentOptions,
    /// Seconds until an unanswered question or plan times out (decision 26). Default: 24 hours.
    pub request_timeout_seconds: u64,
    /// Answer to a question that times out. Default: none, and the session fails.
    pub default_answer: Option<String>,
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
    /// Largest value of [`Self::max_retries`].
    pub const MAX_RETRIES: u32 = 100;

    const fn default_idle_timeout() -> u64 {
        15 * 60
    }

    const fn default_paused_timeout() -> u64 {
        60 * 60
    }
}

impl SessionSettings {
    /// The defaults of a session that `adapter` drives.
    pub fn new(adapter: AdapterName) -> Self {
        Self {
            adapter,
            adapter_options: serde_json::Value::Null,
            allowed_tools: Vec::new(),
            allowed_models: AllowedModels::default(),
            labels: BTreeMap::new(),
            agent: AgentOptions::default(),
            request_timeout_seconds: 24 * 60 * 60,
            default_answer: None,
            max_retries: 3,
            idle_timeout_seconds: Self::default_idle_timeout(),
            paused_timeout_seconds: Self::default_paused_timeout(),
            thinking_level: None,
        }
    }

    /// The defaults, except where `options` say otherwise.
    pub fn with_options(adapter: AdapterName, options: SessionOptions) -> Self {
        let usual = Self::new(adapter);
        let agent = AgentOptions {
            plan_approval_required: options
                .plan_approval_required
                .unwrap_or(usual.agent.plan_approval_required),
            context_warn_at_percent: options
                .context_warn_at_percent
                .unwrap_or(usual.agent.context_warn_at_percent),
            context_policy: options.context_policy.unwrap_or(usual.agent.context_policy),
        };
        Self {
            agent,
            request_timeout_seconds: options.request_timeout_seconds.unwrap_or(usual.request_timeout_seconds),
            default_answer: options.default_answer.map(Into::into),
            idle_timeout_seconds: options.idle_timeout_seconds.unwrap_or(usual.idle_timeout_seconds),
            paused_timeout_seconds: options.paused_timeout_seconds.unwrap_or(usual.paused_timeout_seconds),
            max_retries: options.max_retries.unwrap_or(usual.max_retries),
            ..usual
        }
    }
}
