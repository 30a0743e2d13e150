//! Usage and budget (S0 8.4 `UpdateMetrics`, rulings 31 and 32).

use super::{AgentSession, AgentSessionStatus, MeterTotals, SubAgentSession, UsageReport};
use crate::value::SpendEffect;
use crate::{DomainEvent, Events, Usd};

impl AgentSession {
    /// The most models that are listed by name; usage of more is counted under `other`.
    const MAX_MODELS: usize = 50;

    /// `UpdateMetrics(…)`: adds what the meter's running totals add, and replaces the context window. Counts in every
    /// status. A subagent has its own meters and window; what it adds counts here too. `of_run`: the current run tells it.
    pub(crate) fn update_metrics(
        &mut self,
        report: &UsageReport,
        subagent: Option<&mut SubAgentSession>,
        of_run: bool,
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

        if let Some(run) = self.run.as_mut().filter(|_| of_run) {
            run.spent_usd += added.cost;
        }
        let effect = self.budget.spend(added.cost, added.tokens.total());
        let mut events = vec![DomainEvent::MetricsUpdated {
            total_cost_usd: self.metrics.total_cost_usd,
            context_window_usage_percent: self.metrics.context_window.map(|w| w.usage_percent().to_string()),
            turn_count: self.metrics.turn_count,
        }];
        events.extend(self.spend_events(effect));
        if self.chain_id.is_some() && self.status().is_terminal() && !added.cost.is_zero() {
            events.push(DomainEvent::LateSpend { total_cost_usd: self.metrics.total_cost_usd });
        }
        events
    }

    fn spend_events(&self, effect: SpendEffect) -> Events {
        let (spent_usd, cap_usd) = (self.budget.account_usd(), self.budget.hard_cap_usd());
        let percent_used = || self.budget.percent_used().to_string();
        let warning = effect.warning.then(|| DomainEvent::BudgetWarning {
            spent_usd,
            cap_usd,
            percent_used: percent_used(),
        });
        let exhausted = DomainEvent::BudgetExhausted { spent_usd, cap_usd, needed_usd: None };
        let exhausted = effect.exhausted.then_some(exhausted);
        warning.into_iter().chain(exhausted).collect()
    }

    /// Takes what the sessions before it in its chain spent, all in all (ruling 33). Nothing when it knows.
    pub fn carry_spend(&mut self, carried_usd: Usd) -> Events {
        if carried_usd <= self.budget.carried_usd() {
            return Vec::new();
        }
        let effect = self.budget.carry(carried_usd);
        let mut events = vec![DomainEvent::ChainSpendCounted { carried_usd }];
        events.extend(self.spend_events(effect));
        events
    }

    /// It is Queued and not even its launch can be paid for (ruling 33).
    pub fn waits_for_budget(&self) -> bool {
        self.status() == AgentSessionStatus::Queued && self.run.is_none() && self.budget.exhausted()
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
