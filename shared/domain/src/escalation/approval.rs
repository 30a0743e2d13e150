//! The tool call that a permission is asked for (S2 `ToolApprovalEvent`).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::engine::DecidingRule;
use super::tool_call::ToolCall;
use crate::VerdictId;
use crate::effect::{Effect, Effects};

/// A tool call that waits for permission. The permission is a question to the owner; two of its answers allow and deny the call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ToolApproval {
    /// Name of the tool.
    pub tool_name: String,
    /// Input of the tool as JSON text. Long inputs are cut; `inputBlob` names the whole text.
    pub input: String,
    /// The blob with the whole input as JSON text, if `input` may be cut.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input_blob: Option<String>,
    /// The answer that allows this call once.
    pub allow: String,
    /// The answer that denies the call without a reason. Other text denies it with that reason.
    pub deny: String,
    /// The verdict of the control plane that requires the permission. Absent if the agent itself asks for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verdict: Option<Box<AskedVerdict>>,
    /// Whether the call can be made with another input.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub modifiable: bool,
}

/// Why a tool call of a project's agent needs a person (decision 75).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AskedVerdict {
    /// Id of the verdict in the decision log.
    pub verdict_id: VerdictId,
    /// The tool that the verdict is about.
    pub tool: String,
    /// The rule that decided.
    pub rule: DecidingRule,
    /// The effect that the rule applied to.
    pub effect: Effect,
    /// What the call does.
    pub effects: Effects,
    /// Hash of the arguments as JSON with sorted keys: SHA-256 in hex.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input_hash: Option<String>,
    /// Whether an approval must give a reason (S2, `requiresRationale`).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub requires_rationale: bool,
}

impl ToolApproval {
    /// Most characters of the tool's name.
    pub const MAX_TOOL: usize = ToolCall::MAX_NAME;
    /// Most characters of the input.
    pub const MAX_INPUT: usize = 1500;

    /// The answer that denies the call. The reason follows the word for no, so that a reason like `yes` does not allow the call.
    pub fn denial(&self, reason: Option<&str>) -> String {
        reason.map_or_else(|| self.deny.clone(), |reason| format!("{}: {reason}", self.deny))
    }

    /// Whether an answer allows the call. Spaces around it do not count, for the sidecar neither.
    pub fn is_allowed_by(&self, answer: &str) -> bool {
        answer.trim().eq_ignore_ascii_case(self.allow.trim())
    }

    /// Whether a person who allows the call must give a reason.
    pub fn requires_rationale(&self) -> bool {
        self.verdict.as_ref().is_some_and(|verdict| verdict.requires_rationale)
    }

    /// The reason of an answer that [`Self::denial`] made.
    pub fn reason_of<'a>(&self, answer: &'a str) -> Option<&'a str> {
        answer.strip_prefix(&self.deny)?.strip_prefix(": ")
    }
}
