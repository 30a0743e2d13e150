//! The money of one session (S0 8.5, rulings 31 to 33).

use rust_decimal::Decimal;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Usd;

/// A cap and what was spent of it. Spend is never refused once reported: what passes the cap shows as overshoot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SessionBudget {
    hard_cap_usd: Usd,
    warn_at_percent: u8,
    tokens_used: u64,
    estimated_cost_usd: Usd,
    /// What earlier sessions of the chain spent: a chain has one account (ruling 33).
    #[serde(default)]
    carried_usd: Usd,
    warned: bool,
    /// The agent holds before a call that could pass what is left (ruling 32).
    #[serde(default)]
    held: bool,
}

/// A budget that cannot be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidBudget {
    /// No money at all.
    #[error("the cap must be more than 0 dollars")]
    CapNotPositive,
    /// A warning threshold outside 1 to 99.
    #[error("the warning threshold must be 1 to 99 percent")]
    WarnAtPercent,
    /// A cap that is already spent (ruling 32).
    #[error("the cap must be more than the {spent} dollars already spent")]
    CapBelowSpend {
        /// What was spent.
        spent: Usd,
    },
}

/// What spending changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct SpendEffect {
    /// The warning threshold was reached, now and for the first time.
    pub(crate) warning: bool,
    /// The cap was reached, now and not before.
    pub(crate) exhausted: bool,
}

impl SessionBudget {
    /// The warning threshold when none is given (S0 8.5).
    pub const DEFAULT_WARN_AT_PERCENT: u8 = 80;

    /// A budget of which nothing is spent.
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
        })
    }

    /// The budget of the session that goes on with the work: cap and threshold stand, and what was spent is spent.
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
        }
    }

    /// The cap.
    pub const fn hard_cap_usd(&self) -> Usd {
        self.hard_cap_usd
    }

    /// The warning threshold in percent of the cap.
    pub const fn warn_at_percent(&self) -> u8 {
        self.warn_at_percent
    }

    /// Tokens spent.
    pub const fn tokens_used(&self) -> u64 {
        self.tokens_used
    }

    /// Money spent by this session; the same value as the metrics' total.
    pub const fn estimated_cost_usd(&self) -> Usd {
        self.estimated_cost_usd
    }

    /// Money spent by the sessions before it in its chain.
    pub const fn carried_usd(&self) -> Usd {
        self.carried_usd
    }

    /// Money spent of the cap, by this session and those before it (ruling 33).
    pub fn account_usd(&self) -> Usd {
        self.carried_usd + self.estimated_cost_usd
    }

    /// Whether the cap is reached, or the next call could pass it: nothing is spent any more until it is raised.
    pub fn exhausted(&self) -> bool {
        self.held || self.account_usd() >= self.hard_cap_usd
    }

    /// Whether less is left than the next call may cost.
    pub const fn held(&self) -> bool {
        self.held
    }

    /// The next call could pass the cap. Whether that is news.
    pub(crate) fn hold(&mut self) -> bool {
        let news = !self.exhausted();
        self.held = true;
        news
    }

    /// Spend above the cap (ruling 32).
    pub fn overshoot_usd(&self) -> Usd {
        self.account_usd().excess_over(self.hard_cap_usd)
    }

    /// What is left of the cap.
    pub fn remaining_usd(&self) -> Usd {
        self.hard_cap_usd.excess_over(self.account_usd())
    }

    /// Spend in percent of the cap.
    pub fn percent_used(&self) -> Decimal {
        self.account_usd().percent_of(self.hard_cap_usd)
    }

    /// Counts spend.
    pub(crate) fn spend(&mut self, cost: Usd, tokens: u64) -> SpendEffect {
        let was_exhausted = self.exhausted();
        self.estimated_cost_usd += cost;
        self.tokens_used = self.tokens_used.saturating_add(tokens);
        self.effect(was_exhausted)
    }

    /// Takes what the sessions before it spent, all in all; it never shrinks.
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

    /// Replaces cap and threshold; the warning fires again when the new threshold is not reached yet.
    pub(crate) fn change(&mut self, cap: Usd, warn_at_percent: u8) -> Result<(), InvalidBudget> {
        Self::new(cap, warn_at_percent)?;
        if cap <= self.account_usd() {
            return Err(InvalidBudget::CapBelowSpend { spent: self.account_usd() });
        }
        // With a higher cap the agent looks again.
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
    fn refuses_what_cannot_be() {
        assert_eq!(SessionBudget::new(Usd::ZERO, 80), Err(InvalidBudget::CapNotPositive));
        assert_eq!(SessionBudget::new(usd("1"), 100), Err(InvalidBudget::WarnAtPercent));
    }
}
