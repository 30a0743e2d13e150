//! The spending limit of a run (decision 32).

use pilothouse_domain::Usd;
use pilothouse_domain::money::InvalidUsd;
use pilothouse_wire::RawEvent;

use crate::adapter::{AdapterError, Refusal};

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the allowance is not an amount of dollars: {0}")]
pub(crate) struct InvalidAllowance(#[from] InvalidUsd);

impl From<InvalidAllowance> for AdapterError {
    fn from(e: InvalidAllowance) -> Self {
        Self::Configuration(e.to_string())
    }
}

impl InvalidAllowance {
    pub(crate) fn refusal(&self) -> Refusal {
        Refusal::invalid(self.to_string())
    }
}

/// The cap of a run. It counts from the beginning of the run, even if the agent loses its conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Allowance {
    cap: Option<Usd>,
    /// Cost of the conversation before the run.
    spent_before: Usd,
    /// Cost of the run in conversations that were lost.
    lost: Usd,
}

impl Allowance {
    /// In US dollars. `None`: no cap.
    pub(crate) fn new(cap: Option<&str>) -> Result<Self, InvalidAllowance> {
        let mut allowance = Self::default();
        allowance.set(cap)?;
        Ok(allowance)
    }

    /// Sets the cost of the conversation before the run.
    pub(crate) const fn after(self, spent_before: Usd) -> Self {
        Self { spent_before, ..self }
    }

    pub(crate) fn set(&mut self, cap: Option<&str>) -> Result<(), InvalidAllowance> {
        self.cap = cap.map(str::parse).transpose()?;
        Ok(())
    }

    pub(crate) const fn is_limited(&self) -> bool {
        self.cap.is_some()
    }

    /// The rest of the cap when the conversation has cost `spent`; never negative. `None` without a cap.
    pub(crate) fn left(&self, spent: Usd) -> Option<Usd> {
        self.cap.map(|cap| cap.excess_over(self.lost + spent.excess_over(self.spent_before)))
    }

    /// Continues in another conversation, whose cost counts from `spent_before`, after one with the cost `spent`.
    pub(crate) fn carry_over(&mut self, spent: Usd, spent_before: Usd) {
        self.lost += spent.excess_over(self.spent_before);
        self.spent_before = spent_before;
    }
}

/// The event of an agent that is held for its allowance. `needed`: the price of its next call, if known.
pub(crate) fn exceeded(needed: Option<Usd>, left: Usd) -> RawEvent {
    let needed_usd = needed.map_or_else(String::new, |needed| needed.to_string());
    RawEvent::BudgetExceeded { needed_usd, left_usd: left.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn usd(text: &str) -> Usd {
        text.parse().unwrap()
    }

    #[test]
    fn rest_of_an_allowance_excludes_earlier_runs() {
        let mut allowance = Allowance::new(Some("1")).unwrap().after(usd("5"));
        assert_eq!(allowance.left(usd("5.6")), Some(usd("0.4")));
        assert_eq!(allowance.left(usd("7")), Some(Usd::ZERO), "never less than nothing");
        allowance.carry_over(usd("5.6"), Usd::ZERO);
        assert_eq!(allowance.left(usd("0.1")), Some(usd("0.3")));
        allowance.set(Some("2")).unwrap();
        assert_eq!(
            allowance.left(usd("0.1")),
            Some(usd("1.3")),
            "a changed cap counts from the beginning of the run"
        );
    }

    #[test]
    fn invalid_cap_changes_nothing() {
        let mut allowance = Allowance::new(None).unwrap();
        assert!(allowance.set(Some("-1")).is_err() && allowance.set(Some("x")).is_err());
        assert_eq!((allowance.left(usd("7")), allowance.is_limited()), (None, false));
    }
}
