//! Budget of a session (S0 8.5, decisions 31 to 33).

use rust_decimal::Decimal;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Usd;

/// A cap and the spend so far. Reported spend is always counted; spend above the cap is shown as overshoot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SessionBudget {
    hard_cap_usd: Usd,
    warn_at_percent: u8,
    tokens_used: u64,
    estimated_cost_usd: Usd,
    /// Spend of earlier sessions of the chain, which share the cap (decision 33).
    #[serde(default)]
    carried_usd: Usd,
    warned: bool,
    /// The agent waits before a call that could exceed the remaining budget (decision 32).
    #[serde(default)]
    held: bool,
    /// Whether the owner allows spend that the agent does not report.
    #[serde(default)]
    allow_unmetered: bool,
    #[serde(default)]
    metering: Metering,
}

/// Whether the agent's spend is known (decision 32).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
enum Metering {
    /// The agent reports its cost, or tokens with a known price.
    #[default]
    Known,
    /// The agent reports neither.
    Unknown,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidBudget {
    #[error("the cap must be more than 0 dollars")]
    CapNotPositive,
    /// The warning threshold is not between 1 and 99.
    #[error("the warning threshold must be 1 to 99 percent")]
    WarnAtPercent,
    /// The cap is already spent (decision 32).
    #[error("the cap must be more than the {spent} dollars already spent")]
    CapBelowSpend { spent: Usd },
}

/// Thresholds that a spend crossed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct SpendEffect {
    /// The warning threshold was crossed for the first time.
    pub(crate) warning: bool,
    /// The cap was reached.
    pub(crate) exhausted: bool,
}

impl SessionBudget {
    /// Default of the warning threshold (S0 8.5).
    pub const DEFAULT_WARN_AT_PERCENT: u8 = 80;

    pub fn new(hard_cap_usd: Usd, warn_at_percent: u8) -> Result<Self, InvalidBudget> {
        if hard_cap_usd.is_zero() {
            return Err(InvalidBudget::CapNotPositive);
        }
        if !(1..=99).contains(&warn_at_percent) {
            return Err(InvalidBudget::WarnAtPercent);
        }
        Ok(Self {
            hard_cap_usd,
            warn_at_percent,
            tokens_used: 0,
            estimated_cost_usd: Usd::ZERO,
            carried_usd: Usd::ZERO,
            warned: false,
            held: false,
            allow_unmetered: false,
            metering: Metering::Known,
        })
    }

    #[must_use]
    pub const fn allowing_unmetered(mut self, allow: bool) -> Self {
        self.allow_unmetered = allow;
        self
    }

    /// Budget of a continuation: same cap and threshold, with the spend so far carried over.
    #[must_use]
    pub const fn continued(&self, carried_usd: Usd) -> Self {
        Self {
            hard_cap_usd: self.hard_cap_usd,
            warn_at_percent: self.warn_at_percent,
            tokens_used: 0,
            estimated_cost_usd: Usd::ZERO,
            carried_usd,
            warned: self.warned,
            held: false,
            allow_unmetered: self.allow_unmetered,
            metering: Metering::Known,
        }
    }

    pub const fn hard_cap_usd(&self) -> Usd {
        self.hard_cap_usd
    }

    /// In percent of the cap.
    pub const fn warn_at_percent(&self) -> u8 {
        self.warn_at_percent
    }

    pub const fn tokens_used(&self) -> u64 {
        self.tokens_used
    }

    /// Spend of this session; equals the total in its metrics.
    pub const fn estimated_cost_usd(&self) -> Usd {
        self.estimated_cost_usd
    }

    pub const fn carried_usd(&self) -> Usd {
        self.carried_usd
    }

    /// Spend that counts against the cap: of this session and earlier ones of the chain (decision 33).
    pub fn account_usd(&self) -> Usd {
        self.carried_usd + self.estimated_cost_usd
    }

    /// Whether the cap is reached, or the next call could exceed it. No more is spent until the cap is raised.
    pub fn exhausted(&self) -> bool {
        self.held || self.account_usd() >= self.hard_cap_usd
    }

    pub const fn allows_unmetered(&self) -> bool {
        self.allow_unmetered
    }

    /// Whether the agent's spend is unknown, so that the cap cannot be enforced.
    pub const fn unmetered(&self) -> bool {
        matches!(self.metering, Metering::Unknown)
    }

    /// Whether the spend is unknown and the owner has not allowed that.
    pub const fn refuses_unmetered(&self) -> bool {
        self.unmetered() && !self.allow_unmetered
    }

    /// Whether no more may be spent: [`Self::exhausted`] or [`Self::refuses_unmetered`].
    pub fn blocked(&self) -> bool {
        self.exhausted() || self.refuses_unmetered()
    }

    /// Records whether the agent's spend is unknown. Returns whether that changed.
    pub(crate) const fn set_unmetered(&mut self, unmetered: bool) -> bool {
        let news = self.unmetered() != unmetered;
        self.metering = if unmetered { Metering::Unknown } else { Metering::Known };
        news
    }

    /// Whether the next call may cost more than the rest of the budget.
    pub const fn held(&self) -> bool {
        self.held
    }

    /// Called when the next call could exceed the cap. Returns whether the budget was not exhausted before.
    pub(crate) fn hold(&mut self) -> bool {
        let news = !self.exhausted();
        self.held = true;
        news
    }

    /// Spend above the cap (decision 32).
    pub fn overshoot_usd(&self) -> Usd {
        self.account_usd().excess_over(self.hard_cap_usd)
    }

    pub fn remaining_usd(&self) -> Usd {
        self.hard_cap_usd.excess_over(self.account_usd())
    }

    pub fn percent_used(&self) -> Decimal {
        self.account_usd().percent_of(self.hard_cap_usd)
    }

    pub(crate) fn spend(&mut self, cost: Usd, tokens: u64) -> SpendEffect {
        let was_exhausted = self.exhausted();
        self.estimated_cost_usd += cost;
        self.tokens_used = self.tokens_used.saturating_add(tokens);
        self.effect(was_exhausted)
    }

    /// Sets the spend of earlier sessions of the chain. It never decreases.
    pub(crate) fn carry(&mut self, carried: Usd) -> SpendEffect {
        let was_exhausted = self.exhausted();
        self.carried_usd = self.carried_usd.max(carried);
        self.effect(was_exhausted)
    }

    fn effect(&mut self, was_exhausted: bool) -> SpendEffect {
        let warning = !self.warned && self.percent_used() >= Decimal::from(self.warn_at_percent);
        self.warned |= warning;
        SpendEffect { warning, exhausted: !was_exhausted && self.exhausted() }
    }

    /// Changes cap and threshold. The warning fires again if the new threshold is not reached yet.
    pub(crate) fn change(&mut self, cap: Usd, warn_at_percent: u8) -> Result<(), InvalidBudget> {
        Self::new(cap, warn_at_percent)?;
        if cap <= self.account_usd() {
            return Err(InvalidBudget::CapBelowSpend { spent: self.account_usd() });
        }
        // With a higher cap the agent checks again.
        self.held &= cap <= self.hard_cap_usd;
        self.hard_cap_usd = cap;
        self.warn_at_percent = warn_at_percent;
        self.warned = self.warned && self.percent_used() >= Decimal::from(warn_at_percent);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn usd(s: &str) -> Usd {
        s.parse().unwrap()
    }

    #[test]
    fn warns_once_and_reports_exhaustion_once() {
        let mut budget = SessionBudget::new(usd("1"), 80).unwrap();
        assert_eq!(budget.spend(usd("0.79"), 1), SpendEffect::default());
        assert_eq!(budget.spend(usd("0.01"), 1), SpendEffect { warning: true, exhausted: false });
        assert_eq!(budget.spend(usd("0.25"), 1), SpendEffect { warning: false, exhausted: true });
        assert_eq!(budget.spend(usd("0.05"), 1), SpendEffect::default());
        assert_eq!(budget.overshoot_usd(), usd("0.1"));
        assert_eq!(budget.remaining_usd(), Usd::ZERO);
    }

    #[test]
    fn a_raised_cap_warns_again_at_its_own_threshold() {
        let mut budget = SessionBudget::new(usd("1"), 80).unwrap();
        budget.spend(usd("1"), 0);
        assert_eq!(budget.change(usd("1"), 80), Err(InvalidBudget::CapBelowSpend { spent: usd("1") }));
        budget.change(usd("2"), 80).unwrap();
        assert!(!budget.exhausted());
        assert!(budget.spend(usd("0.6"), 0).warning);
    }

    #[test]
    fn invalid_budgets_are_refused() {
        assert_eq!(SessionBudget::new(Usd::ZERO, 80), Err(InvalidBudget::CapNotPositive));
        assert_eq!(SessionBudget::new(usd("1"), 100), Err(InvalidBudget::WarnAtPercent));
    }
}
