//! The spending limit of a run (decision 32).

use pilothouse_agent::governor::ModelCall;
use pilothouse_domain::Usd;
use pilothouse_wire::RawEvent;
use rust_decimal::Decimal;

/// The cap of a run, and what its conversation had spent before the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Allowance {
    cap: Option<Decimal>,
    spent_before: Decimal,
}

/// A call that could exceed the cap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Exceeded {
    needed: Decimal,
    left: Decimal,
}

impl Exceeded {
    pub(super) fn event(self) -> RawEvent {
        RawEvent::BudgetExceeded {
            needed_usd: self.needed.normalize().to_string(),
            left_usd: self.left.normalize().to_string(),
        }
    }
}

impl Allowance {
    /// Parses the cap in US dollars. `None`: no cap.
    pub(super) fn new(cap: Option<&str>, spent_before: Decimal) -> Result<Self, String> {
        Ok(Self { cap: Self::parse(cap)?, spent_before })
    }

    /// Changes the cap of the run.
    pub(super) fn set(&mut self, cap: Option<&str>) -> Result<(), String> {
        self.cap = Self::parse(cap)?;
        Ok(())
    }

    fn parse(cap: Option<&str>) -> Result<Option<Decimal>, String> {
        let cap = cap.map(|cap| cap.parse::<Usd>().map_err(|e| format!("the allowance {e}")));
        Ok(cap.transpose()?.map(Usd::as_decimal))
    }

    /// Whether the worst-case price of a call exceeds what is left. A call without a known price is let through.
    pub(super) fn exceeded_by(&self, call: &ModelCall) -> Option<Exceeded> {
        let (cap, needed) = (self.cap?, call.worst_case_usd?);
        let left = (cap - (call.spent_usd - self.spent_before)).max(Decimal::ZERO);
        (needed > left).then_some(Exceeded { needed, left })
    }
}

#[cfg(test)]
mod tests {
    use pilothouse_agent::governor::CallPurpose;

    use super::*;

    fn call(worst: Option<&str>, spent: &str) -> ModelCall {
        ModelCall {
            provider: "p".into(),
            model: "m".into(),
            purpose: CallPurpose::Turn,
            input_tokens: 0,
            max_output_tokens: 0,
            worst_case_usd: worst.map(|usd| usd.parse().unwrap()),
            spent_usd: spent.parse().unwrap(),
        }
    }

    #[test]
    fn call_is_held_when_its_worst_case_exceeds_the_allowance() {
        let allowance = Allowance::new(Some("1"), "5".parse().unwrap()).unwrap();
        assert_eq!(allowance.exceeded_by(&call(Some("0.4"), "5.6")), None, "exactly the remaining amount");
        let exceeded = allowance.exceeded_by(&call(Some("0.41"), "5.60")).unwrap();
        let event = RawEvent::BudgetExceeded { needed_usd: "0.41".into(), left_usd: "0.4".into() };
        assert_eq!(exceeded.event(), event);
        let over = allowance.exceeded_by(&call(Some("0.1"), "7")).unwrap();
        assert!(over.left.is_zero(), "never less than nothing");
        assert_eq!(allowance.exceeded_by(&call(None, "7")), None);
    }

    #[test]
    fn every_call_passes_without_a_cap_and_invalid_caps_fail() {
        let mut allowance = Allowance::new(None, Decimal::ZERO).unwrap();
        assert_eq!(allowance.exceeded_by(&call(Some("1000"), "0")), None);
        assert!(allowance.set(Some("-1")).is_err() && allowance.set(Some("x")).is_err());
        assert_eq!(allowance.exceeded_by(&call(Some("1000"), "0")), None);
    }
}
