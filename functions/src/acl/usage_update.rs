//! `usage_update`: running totals, which become increments, and the current context window (S0 8.3, decision 31).

use pilothouse_domain::session::{AgentFact, UsageReport};
use pilothouse_domain::text::cut;
use pilothouse_domain::value::ContextWindowSnapshot;
use pilothouse_domain::{Timestamp, Usd};
use pilothouse_wire::event::UsageUpdate;

use super::Mapping;

/// Maps to `UpdateSessionMetricsCommand`. A cost that cannot be parsed counts as zero; the tokens still count. The line has the figures
/// of the session, which only `SessionMetricsUpdatedEvent` knows.
pub fn map(usage: &UsageUpdate, now: Timestamp) -> Mapping {
    let context_window = usage.context_window.map(|window| ContextWindowSnapshot {
        usage: window.usage,
        model_context_limit: window.model_context_limit.max(1),
        recorded_at: now,
    });
    let report = UsageReport {
        meter: usage.meter_id.clone(),
        model: cut(&usage.model_id, 200),
        subagent: usage.subagent_id.clone(),
        cost: usage.cost_usd.parse().unwrap_or(Usd::ZERO),
        tokens: usage.token_usage,
        context_window,
    };
    let subagent = report.subagent.clone();
    Mapping::to(AgentFact::Used(report)).about(subagent)
}
