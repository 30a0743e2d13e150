//! Usage and budget (S0 8.4 `UpdateMetrics`, decisions 31 to 33).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{
    AgentSession, AgentSessionStatus, MeterTotals, Operation, Quota, SessionError, SubAgentSession,
    UsageReport,
};
use crate::value::{SessionBudget, SessionMetrics, SpendEffect};
use crate::{Events, SessionEvent, Timestamp, Usd};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Spending {
    budget: SessionBudget,
    metrics: SessionMetrics,
    /// Running totals by meter and model.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    meters: BTreeMap<String, MeterTotals>,
    /// Set while the agent's subscription quota is used up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) quota: Option<Quota>,
}

/// A change of the budget. Missing fields stay as they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct BudgetChange {
    pub cap_usd: Option<Usd>,
    pub warn_at_percent: Option<u8>,
    /// Whether spend that the agent does not report is allowed.
    pub allow_unmetered: Option<bool>,
}

impl Spending {
    pub(super) fn new(budget: SessionBudget) -> Self {
        Self { budget, metrics: SessionMetrics::default(), meters: BTreeMap::new(), quota: None }
    }

    pub(super) const fn budget(&self) -> &SessionBudget {
        &self.budget
    }

    pub(super) const fn metrics(&self) -> &SessionMetrics {
        &self.metrics
    }

    pub(super) fn set_budget(&mut self, budget: SessionBudget) {
        self.budget = budget;
    }

    /// Counts a turn that ended.
    pub(super) const fn count_turn(&mut self, now: Timestamp) {
        self.metrics.turn_count += 1;
        self.metrics.last_turn_at = Some(now);
    }

    /// Adds the increase of a meter's running totals, and returns it. Usage of a subagent counts for the subagent as well.
    fn record(
        &mut self,
        report: &UsageReport,
        subagent: Option<&mut SubAgentSession>,
    ) -> (MeterTotals, Events) {
        let added = match subagent {
            Some(subagent) => subagent.record_usage(report),
            None => self.advance_meter(report),
        };
        self.metrics.usage.add(&report.model, added.cost, added.tokens);
        let effect = self.budget.spend(added.cost, added.tokens.total());
        let mut events = vec![SessionEvent::MetricsUpdated {
            total_cost_usd: self.metrics.usage.total_cost_usd(),
            context_window_usage_percent: self.metrics.context_window.map(|w| w.usage_percent().to_string()),
            turn_count: self.metrics.turn_count,
        }];
        events.extend(self.effect_events(effect));
        (added, events)
    }

    fn advance_meter(&mut self, report: &UsageReport) -> MeterTotals {
        if let Some(window) = report.context_window {
            self.metrics.context_window = Some(window);
        }
        let meter = self.meters.entry(format!("{}|{}", report.meter, report.model)).or_default();
        meter.advance(report.cost, report.tokens)
    }

    /// Sets the total that earlier sessions of the chain spent, if it is higher than the known one.
    fn carry(&mut self, carried_usd: Usd) -> Events {
        if carried_usd <= self.budget.carried_usd() {
            return Vec::new();
        }
        let effect = self.budget.carry(carried_usd);
        let mut events = vec![SessionEvent::ChainSpendCounted { carried_usd }];
        events.extend(self.effect_events(effect));
        events
    }

    fn effect_events(&self, effect: SpendEffect) -> Events {
        let (spent_usd, cap_usd) = (self.budget.account_usd(), self.budget.hard_cap_usd());
        let percent_used = || self.budget.percent_used().to_string();
        let warning = effect.warning.then(|| SessionEvent::BudgetWarning {
            spent_usd,
            cap_usd,
            percent_used: percent_used(),
        });
        let exhausted =
            SessionEvent::BudgetExhausted { spent_usd, cap_usd, needed_usd: None, left_usd: None };
        let exhausted = effect.exhausted.then_some(exhausted);
        warning.into_iter().chain(exhausted).collect()
    }

    /// Holds the budget before a call that it does not cover. `None` if it was held before.
    pub(super) fn hold(&mut self, needed_usd: Option<Usd>, left_usd: Option<Usd>) -> Option<SessionEvent> {
        let held = self.budget.hold();
        let (spent_usd, cap_usd) = (self.budget.account_usd(), self.budget.hard_cap_usd());
        held.then_some(SessionEvent::BudgetExhausted { spent_usd, cap_usd, needed_usd, left_usd })
    }

    pub(super) fn ensure_budget(&self) -> Result<(), SessionError> {
        if self.budget.refuses_unmetered() {
            Err(SessionError::Unmetered)
        } else if self.budget.exhausted() {
            Err(SessionError::BudgetExhausted { cap: self.budget.hard_cap_usd() })
        } else {
            Ok(())
        }
    }
}

impl AgentSession {
    /// Changes the cap. A higher cap ends the exhaustion; the owner resumes the session (decision 32).
    pub fn change_budget(&mut self, change: BudgetChange) -> Result<Events, SessionError> {
        self.check(Operation::ChangeBudget)?;
        let BudgetChange { cap_usd, warn_at_percent, allow_unmetered } = change;
        let allows = allow_unmetered.unwrap_or_else(|| self.budget().allows_unmetered());
        let mut budget = self.budget().clone().allowing_unmetered(allows);
        if allow_unmetered.is_none() && budget.refuses_unmetered() {
            // A cap cannot be enforced.
            return Err(SessionError::Unmetered);
        }
        if cap_usd.is_some() || warn_at_percent.is_some() {
            let cap = cap_usd.unwrap_or_else(|| budget.hard_cap_usd());
            budget.change(cap, warn_at_percent.unwrap_or_else(|| budget.warn_at_percent()))?;
        }
        let cap_usd = budget.hard_cap_usd();
        self.spending.set_budget(budget);
        self.touch_control();
        let mut events = vec![SessionEvent::BudgetChanged { cap_usd, allow_unmetered }];
        if self.status() == AgentSessionStatus::Queued && self.run().is_none() {
            // The session may have waited for its budget only.
            events.extend(self.run_state.slot_wanted().map(|cause| SessionEvent::SlotWanted { cause }));
        }
        Ok(events)
    }

    /// Adds the increase of a meter's running totals and replaces the context window, in every status. Usage of a subagent counts
    /// for the subagent and for the session. `of_run` is set if the current run reported it.
    pub(crate) fn update_metrics(
        &mut self,
        report: &UsageReport,
        subagent: Option<&mut SubAgentSession>,
        of_run: bool,
    ) -> Events {
        if subagent.is_none() {
            self.record_conversation(&report.meter);
        }
        let (added, mut events) = self.spending.record(report, subagent);
        if let Some(run) = self.run_state.current_mut().filter(|_| of_run) {
            run.spent_usd += added.cost;
        }
        if self.chain_id().is_some() && self.status().is_terminal() && !added.cost.is_zero() {
            events.push(SessionEvent::LateSpend { total_cost_usd: self.metrics().usage.total_cost_usd() });
        }
        events
    }

    /// Records whether the agent's spend is unknown.
    pub(crate) fn record_metering(&mut self, unmetered: bool) -> Events {
        if !self.spending.budget.set_unmetered(unmetered) {
            return Vec::new();
        }
        self.touch_control();
        let allowed = self.budget().allows_unmetered();
        if unmetered { vec![SessionEvent::SpendUnmetered { allowed }] } else { Vec::new() }
    }

    /// Whether the agent's spend is unknown; `None` until the agent has shown it.
    pub fn is_unmetered(&self) -> Option<bool> {
        let unmetered = self.budget().unmetered();
        (unmetered || !self.metrics().usage.total_cost_usd().is_zero()).then_some(unmetered)
    }

    /// Sets the total that earlier sessions of the chain spent (decision 33). Ignores a value that is not higher than the known
    /// one.
    pub fn carry_spend(&mut self, carried_usd: Usd) -> Events {
        self.spending.carry(carried_usd)
    }

    /// Whether a queued session cannot start because its budget is used up (decision 33).
    pub fn waits_for_budget(&self) -> bool {
        self.status() == AgentSessionStatus::Queued && self.run().is_none() && self.budget().blocked()
    }
}
