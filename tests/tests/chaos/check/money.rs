//! Budgets are exact: the totals equal those computed from the spools (decision 31).

use std::collections::BTreeMap;

use pilothouse_domain::Usd;

use super::Findings;
use super::world::Session;

/// The session's total, its budget, and the sum of the largest running totals of all meters are equal, and so are the token counts.
pub(super) fn adds_up(session: &Session, found: &mut Findings<'_>) {
    let mut meters: BTreeMap<String, (Usd, BTreeMap<String, u64>)> = BTreeMap::new();
    for spooled in session.spooled().filter(|s| s.body["type"] == "usage_update") {
        let body = &spooled.body;
        let meter = meters
            .entry(format!("{}|{}|{}", body["meterId"], body["modelId"], body["subagentId"]))
            .or_default();
        meter.0 = meter.0.max(body["costUsd"].as_str().unwrap().parse().unwrap());
        for (kind, count) in body["tokenUsage"].as_object().into_iter().flatten() {
            let most = meter.1.entry(kind.clone()).or_default();
            *most = (*most).max(count.as_u64().unwrap_or(0));
        }
    }
    let dollars: Usd = meters.values().map(|(cost, _)| *cost).sum();
    let tokens: u64 = meters.values().flat_map(|(_, tokens)| tokens.values()).sum();
    let (metrics, budget) = (session.session.metrics(), session.session.budget());
    let stands = (
        metrics.usage.total_cost_usd(),
        budget.estimated_cost_usd(),
        metrics.usage.total_tokens(),
        budget.tokens_used(),
    );
    if stands != (dollars, dollars, tokens, tokens) {
        let what = format!(
            "reported: {dollars:?}, {tokens} tokens; metrics {:?}, budget {:?}, {} and {} tokens\n{meters:?}",
            stands.0, stands.1, stands.2, stands.3
        );
        found.session(session, None, "the money does not add up", &what);
    }
}
