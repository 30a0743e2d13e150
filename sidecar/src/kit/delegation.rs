//! Checks work that an agent delegates against the policy of its brief (decision 92).

use pilothouse_domain::project_agent::{Delegation, DelegationPolicy};
use serde_json::Value;

use super::json::text;

/// Tools of Claude Code that start a subagent.
pub(crate) const SUBAGENT_TOOLS: [&str; 2] = ["Task", "Agent"];
/// The subagent of a call that names none.
const GENERAL: &str = "general-purpose";

/// The name of the subagent that a call of Claude Code starts; `None` if it starts none.
pub(crate) fn called_subagent<'a>(tool: &str, arguments: &'a Value) -> Option<&'a str> {
    SUBAGENT_TOOLS.contains(&tool).then(|| text(arguments, "subagent_type").unwrap_or(GENERAL))
}

/// Why the policy does not allow a delegation, as a sentence for the agent. Without a policy, everything is allowed.
pub(crate) fn denial(policy: Option<&DelegationPolicy>, delegation: Delegation<'_>) -> Option<String> {
    Some(policy?.check_delegation(delegation).err()?.to_string())
}
