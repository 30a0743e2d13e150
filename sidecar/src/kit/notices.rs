//! Notices: events that inform the owner.

use pilothouse_wire::RawEvent;
use pilothouse_wire::command::AgentSessionConfig;
use serde_json::{Value, json};

pub(crate) fn notice(name: &str, summary: impl Into<String>) -> RawEvent {
    RawEvent::Notice { name: name.to_owned(), summary: summary.into(), detail: None }
}

/// The notice for subagents that the adapter cannot offer to its agent, if the configuration has any.
pub(crate) fn sub_agents_left_out(config: &AgentSessionConfig, why: &str) -> Option<RawEvent> {
    let names: Vec<_> = config.sub_agents.iter().map(|agent| agent.name.as_str()).collect();
    (!names.is_empty())
        .then(|| notice("sub_agents_left_out", format!("{why}; skipped: {}", names.join(", "))))
}

/// The notice for limits of the brief's session policy that the adapter cannot apply, if there are any. `applied` has the fields that it
/// applies.
pub(crate) fn limits_left_out(config: &AgentSessionConfig, applied: &[&str], why: &str) -> Option<RawEvent> {
    let policy = config.policies.session_policy?;
    let limits = [
        ("maxTurns", policy.max_turns.is_some()),
        ("contextBudgetTokens", policy.context_budget_tokens.is_some()),
        ("historyN", policy.recent_turns().is_some()),
    ];
    let set = limits.into_iter().filter(|(field, is_set)| *is_set && !applied.contains(field));
    let left_out: Vec<_> = set.map(|(field, _)| field).collect();
    (!left_out.is_empty())
        .then(|| notice("session_policy_left_out", format!("{why}; skipped: {}", left_out.join(", "))))
}

pub(crate) fn detailed_notice(name: &str, summary: impl Into<String>, detail: Value) -> RawEvent {
    RawEvent::Notice { name: name.to_owned(), summary: summary.into(), detail: Some(detail) }
}

/// An error that the agent reports. `detail` has `severity`, `category` and `recoverable`.
pub(crate) fn agent_error(message: &str, detail: Value) -> RawEvent {
    detailed_notice("agent_error", message, detail)
}

/// A guardrail of the agent's SDK.
pub(crate) fn guardrail(name: &str, tripped: bool, message: &str, level: Option<&str>) -> RawEvent {
    let mut detail = json!({ "name": name, "tripped": tripped });
    if let Some(level) = level {
        detail["level"] = level.into();
    }
    let how = if tripped { "stopped" } else { "passed" };
    detailed_notice("guardrail", format!("guardrail {name} {how}: {message}"), detail)
}

/// Makes an arbitrary word usable as part of a notice's name.
pub(crate) fn name_part(word: &str, limit: usize) -> String {
    word.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).take(limit).collect()
}
