//! Money and tokens (S0 8.4 `UpdateMetrics`, decisions 31 and 32) in whole cents: meters that only grow, sums of their increases,
//! and context windows that replace each other.

use std::collections::BTreeMap;

use pilothouse_domain::session::{AgentFact, UsageReport};
use pilothouse_domain::value::{ContextWindowSnapshot, TokenUsage};
use pilothouse_domain::{SessionEvent as E, SubAgentId, Usd};

use crate::scenario::{Scenario, usd};

/// Cents and input tokens.
type Amount = (u64, u64);

#[derive(Debug)]
#[allow(clippy::struct_excessive_bools)] // independent facts
pub(crate) struct Ledger {
    cap: u64,
    spent: u64,
    /// Latest totals of each meter and model. Subagents have their own meters.
    meters: BTreeMap<(Option<SubAgentId>, String, String), Amount>,
    by_model: BTreeMap<String, Amount>,
    by_subagent: BTreeMap<SubAgentId, u64>,
    /// Context windows of the main agent (`None`) and of each subagent.
    windows: BTreeMap<Option<SubAgentId>, ContextWindowSnapshot>,
    warned: bool,
    /// The agent waits before a call that could exceed the cap.
    held: bool,
    /// Whether this step has to publish a warning.
    warns: bool,
    exhausts: bool,
}

fn cents(amount: Usd) -> u64 {
    let text = amount.to_string();
    let (dollars, rest) = text.split_once('.').unwrap_or((&text, ""));
    format!("{dollars}{rest:0<2}").parse().unwrap()
}

fn dollars(cents: u64) -> Usd {
    usd(&format!("{}.{:02}", cents / 100, cents % 100))
}

impl Ledger {
    pub(crate) fn with_cap(cap: u64) -> Self {
        Self {
            cap,
            spent: 0,
            meters: BTreeMap::new(),
            by_model: BTreeMap::new(),
            by_subagent: BTreeMap::new(),
            windows: BTreeMap::new(),
            warned: false,
            held: false,
            warns: false,
            exhausts: false,
        }
    }

    pub(crate) const fn spent(&self) -> u64 {
        self.spent
    }

    pub(crate) const fn exhausted(&self) -> bool {
        self.held || self.spent >= self.cap
    }

    /// Usage counts in every status, and from runs that have ended.
    pub(crate) fn heard(&mut self, fact: &AgentFact) {
        if let AgentFact::Used(report) = fact {
            self.take(report);
        }
    }

    fn take(&mut self, report: &UsageReport) {
        let meter = (report.subagent.clone(), report.meter.to_string(), report.model.clone());
        let last = self.meters.entry(meter).or_default();
        let now = (cents(report.cost), report.tokens.input_tokens);
        let added = (now.0.saturating_sub(last.0), now.1.saturating_sub(last.1));
        *last = (last.0.max(now.0), last.1.max(now.1));
        let of_model = self.by_model.entry(report.model.clone()).or_default();
        *of_model = (of_model.0 + added.0, of_model.1 + added.1);
        if let Some(id) = &report.subagent {
            *self.by_subagent.entry(id.clone()).or_default() += added.0;
        }
        if let Some(window) = report.context_window {
            self.windows.insert(report.subagent.clone(), window);
        }
        let before = self.exhausted();
        self.spent += added.0;
        self.warns = !self.warned && self.spent * 100 >= self.cap * 80;
        self.warned |= self.warns;
        self.exhausts = !before && self.exhausted();
    }

    pub(crate) fn happened(&mut self, event: &E) {
        match event {
            E::BudgetWarning { .. } => assert!(std::mem::take(&mut self.warns), "a warning too many"),
            E::BudgetExhausted { needed_usd: Some(_), .. } => {
                assert!(
                    !self.exhausted(),
                    "a call over the remaining budget was reported although nothing is left"
                );
                self.held = true;
            }
            E::BudgetExhausted { .. } => assert!(std::mem::take(&mut self.exhausts), "exhausted twice"),
            E::BudgetChanged { cap_usd, .. } => {
                self.held &= cents(*cap_usd) <= self.cap;
                self.cap = cents(*cap_usd);
                self.warned &= self.spent * 100 >= self.cap * 80;
            }
            _ => {}
        }
    }

    pub(crate) fn compare(&self, scenario: &Scenario) {
        let session = &scenario.conv.session;
        let (budget, metrics) = (session.budget(), session.metrics());
        assert!(!self.warns && !self.exhausts, "a warning or an exhaustion was not announced");
        assert_eq!(metrics.usage.total_cost_usd(), dollars(self.spent), "the metrics' cost");
        assert_eq!(budget.estimated_cost_usd(), dollars(self.spent), "the budget's spend");
        assert_eq!(budget.exhausted(), self.exhausted());
        assert_eq!(budget.overshoot_usd(), dollars(self.spent.saturating_sub(self.cap)));
        let costs = metrics.usage.cost_usd_by_model();
        let by_model = metrics.usage.token_usage_by_model().iter().map(|(model, tokens)| {
            let cost = costs.get(model).copied().unwrap_or_default();
            (model.clone(), (cents(cost), tokens.input_tokens))
        });
        assert_eq!(by_model.collect::<BTreeMap<_, _>>(), self.by_model, "cost and tokens by model");
        assert_eq!(costs.len(), self.by_model.len(), "a model without tokens has a cost");
        assert_eq!(budget.tokens_used(), self.by_model.values().map(|(_, tokens)| tokens).sum::<u64>());
        // A window is the latest report, not a sum, and separate for each subagent.
        assert_eq!(metrics.context_window.as_ref(), self.windows.get(&None), "the parent's window");
        for (id, subagent) in &scenario.conv.subagents {
            assert_eq!(
                subagent.context_window.as_ref(),
                self.windows.get(&Some(id.clone())),
                "{id}'s window"
            );
            assert_eq!(
                cents(subagent.usage.total_cost_usd()),
                self.by_subagent.get(id).copied().unwrap_or_default()
            );
        }
    }

    pub(crate) fn window(tokens: u64, scenario: &Scenario) -> ContextWindowSnapshot {
        ContextWindowSnapshot {
            usage: TokenUsage { input_tokens: tokens, ..TokenUsage::default() },
            model_context_limit: 1000,
            recorded_at: scenario.now,
        }
    }
}
