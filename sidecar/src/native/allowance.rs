//! The price of a model call against the spending limit of the run (decision 32).

use pilothouse_agent::governor::ModelCall;
use pilothouse_wire::RawEvent;

use super::usage::dollars;
use crate::kit::allowance::{self, Allowance};

/// The event for a call whose worst-case price exceeds the rest of the cap. `None` if the price is unknown.
pub(super) fn exceeded_by(allowance: &Allowance, call: &ModelCall) -> Option<RawEvent> {
    let (left, needed) = (allowance.left(dollars(call.spent_usd))?, dollars(call.worst_case_usd?));
    (needed > left).then(|| allowance::exceeded(Some(needed), left))
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

    fn exceeded(needed: &str, left: &str) -> RawEvent {
        RawEvent::BudgetExceeded { needed_usd: needed.into(), left_usd: left.into() }
    }

    #[test]
    fn call_is_held_when_its_worst_case_exceeds_the_allowance() {
        let allowance = Allowance::new(Some("1")).unwrap().after("5".parse().unwrap());
        assert_eq!(exceeded_by(&allowance, &call(Some("0.4"), "5.6")), None, "exactly the remaining amount");
        assert_eq!(exceeded_by(&allowance, &call(Some("0.41"), "5.60")), Some(exceeded("0.41", "0.4")));
        assert_eq!(
            exceeded_by(&allowance, &call(Some("0.1"), "7")),
            Some(exceeded("0.1", "0")),
            "never less than nothing"
        );
        assert_eq!(exceeded_by(&allowance, &call(None, "7")), None);
    }

    #[test]
    fn every_call_passes_without_a_cap() {
        let allowance = Allowance::new(None).unwrap();
        assert_eq!(exceeded_by(&allowance, &call(Some("1000"), "0")), None);
    }
}
