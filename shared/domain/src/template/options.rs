//! Options that a start request and its template may leave open.

use serde::{Deserialize, Serialize};

use crate::text::AnswerText;
use crate::value::ContextPolicy;

/// Options of a session that may be left open (decision 20). A start request takes missing ones from its template, and
/// both from the defaults of [`SessionSettings`](crate::session::SessionSettings).
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SessionOptions {
    /// Whether leaving plan mode needs the owner's approval.
    pub plan_approval_required: Option<bool>,
    /// Seconds until an unanswered question or plan times out (decision 26).
    pub request_timeout_seconds: Option<u64>,
    /// Answer to a question that times out. Without one, the session fails.
    pub default_answer: Option<AnswerText>,
    /// Context usage in percent at which the owner is warned (S0 design note "`ContextExhausted` detection threshold").
    pub context_warn_at_percent: Option<u8>,
    /// Action when the context window fills up (decision 35).
    #[serde(default)]
    pub context_policy: Option<ContextPolicy>,
    /// Seconds without activity after which a session hibernates (decision 22).
    #[serde(default)]
    pub idle_timeout_seconds: Option<u64>,
    /// The same for a paused session.
    #[serde(default)]
    pub paused_timeout_seconds: Option<u64>,
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
        }
    }
}
