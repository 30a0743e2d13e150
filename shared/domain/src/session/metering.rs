//! Usage and budget (S0 8.4 `UpdateMetrics`, rulings 31 and 32).

use super::{AgentSession, MeterTotals, SubAgentSession, UsageReport};
use crate::{DomainEvent, Events};

impl AgentSession {
    /// The most models that are listed by name; usage of more is counted under `other`.
    const MAX_MODELS: usize = 50;

    /// `UpdateMetrics(…)`: adds what the meter's running totals add, and replaces the context window. Counts in every
    /// status. A subagent has its own meters and window; what it adds counts here too.
    pub(crate) fn update_metrics(
        &mut self,
        report: &UsageReport,
        subagent: Option<&mut SubAgentSession>,
    ) -> Events {
        let added = match subagent {
            Some(subagent) => subagent.record_usage(report),
            None => self.advance_meter(report),
        };
        self.metrics.total_cost_usd += added.cost;
        let by_model = &mut self.metrics.token_usage_by_model;
        let known = by_model.contains_key(&report.model) || by_model.len() < Self::MAX_MODELS;
        let sum = by_model.entry(if known { report.model.clone() } else { "other".to_owned() }).or_default();
        *sum = sum.plus(added.tokens);

        let effect = self.budget.spend(added.cost, added.tokens.total());
        let mut events = vec![DomainEvent::MetricsUpdated {
            total_cost_usd: self.metrics.total_cost_usd,
            context_window_usage_percent: self.metrics.context_window.map(|w| w.usage_percent().to_string()),
            turn_count: self.metrics.turn_count,
        }];
        if effect.warning {
            events.push(DomainEvent::BudgetWarning {
                spent_usd: self.budget.estimated_cost_usd(),
                cap_usd: self.budget.hard_cap_usd(),
                percent_used: self.budget.percent_used().to_string(),
            });
        }
        if effect.exhausted {
            events.push(DomainEvent::BudgetExhausted {
                spent_usd: self.budget.estimated_cost_usd(),
                cap_usd: self.budget.hard_cap_usd(),
            });
        }
        events
    }

    fn advance_meter(&mut self, report: &UsageReport) -> MeterTotals {
        if let Some(window) = report.context_window {
            self.metrics.context_window = Some(window);
        }
        self.meters
            .entry(format!("{}|{}", report.meter, report.model))
            .or_default()
            .advance(report.cost, report.tokens)
    }
}
