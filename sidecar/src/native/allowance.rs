//! The price of a model call against the spending limit of the run (decision 32).

use pilothouse_agent::governor::ModelCall;
use pilothouse_wire::RawEvent;

use super::usage::dollars;
use crate::kit::allowance::{self, Allowance};

/// The part of a call that the rest of the cap covers.
#[derive(Debug, PartialEq)]
pub(super) enum Coverage {
    Whole,
    /// With at most this many output tokens.
    Part(u64),
    /// Too little for a useful reply.
    Nothing(Box<RawEvent>),
}

/// A call whose price is unknown passes.
pub(super) fn coverage(allowance: &Allowance, call: &ModelCall) -> Coverage {
    let (Some(left), Some(worst)) = (allowance.left(dollars(call.spent_usd)), call.worst_case_usd) else {
        return Coverage::Whole;
    };
    if dollars(worst) <= left {
        return Coverage::Whole;
    }
    match call.affordable_output(left.as_decimal()) {
        Some(tokens) => Coverage::Part(tokens),
        None => Coverage::Nothing(Box::new(allowance::exceeded(call.least_usd().map(dollars), left))),
    }
}

#[cfg(test)]
mod tests {
    use pilothouse_agent::governor::CallPurpose;
    use pilothouse_agent::model::price::Price;

    use super::*;

    /// A dollar for each thousand tokens.
    fn call(purpose: CallPurpose, output: u64, spent: &str) -> ModelCall {
        let usd = "1000".parse().unwrap();
        let price = Price { input: usd, output: usd, cache_read: usd, cache_write: usd, tiers: &[] };
        ModelCall {
            provider: "p".into(),
            model: "m".into(),
            purpose,
            input_tokens: 1_000,
            max_output_tokens: output,
            worst_case_usd: Some(price.worst_case(1_000, output)),
            price: Some(price),
            spent_usd: spent.parse().unwrap(),
        }
    }

    fn nothing(needed: &str, left: &str) -> Coverage {
        let (needed_usd, left_usd) = (needed.into(), left.into());
        Coverage::Nothing(Box::new(RawEvent::BudgetExceeded { needed_usd, left_usd }))
    }

    #[test]
    fn small_rest_shortens_the_reply_until_it_is_useless() {
        let allowance = Allowance::new(Some("10")).unwrap().after("5".parse().unwrap());
        let of = |call: &ModelCall| coverage(&allowance, call);
        let turn = |output, spent| call(CallPurpose::Turn, output, spent);
        assert_eq!(of(&turn(9_000, "5")), Coverage::Whole, "exactly the remaining amount");
        assert_eq!(of(&turn(9_001, "5")), Coverage::Part(9_000));
        assert_eq!(of(&turn(100_000, "12.976")), Coverage::Part(1_024));
        assert_eq!(of(&turn(100_000, "12.977")), nothing("2.024", "2.023"));
        assert_eq!(of(&turn(500, "14")), nothing("1.5", "1"), "a short reply is not shortened");
        assert_eq!(of(&turn(500, "17")), nothing("1.5", "0"), "never less than nothing");
        let summary = call(CallPurpose::Compaction, 9_001, "5");
        assert_eq!(of(&summary), nothing("10.001", "10"), "a summary must be whole");
        let unknown = ModelCall { worst_case_usd: None, price: None, ..turn(1, "17") };
        assert_eq!(of(&unknown), Coverage::Whole);
    }

    #[test]
    fn every_call_passes_without_a_cap() {
        let allowance = Allowance::new(None).unwrap();
        assert_eq!(coverage(&allowance, &call(CallPurpose::Turn, 1_000_000, "0")), Coverage::Whole);
    }
}
