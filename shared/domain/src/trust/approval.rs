//! How often people approve the actions of an agent, and how certain that is.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Rate;

/// Verdicts of people on the actions of one kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ApprovalCounts {
    pub approved: u32,
    pub decided: u32,
}

/// A 95 % Wilson interval. The ends are rounded outwards.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ApprovalInterval {
    pub lower: Rate,
    pub upper: Rate,
}

/// Millionths in one.
const ONE: u128 = 1_000_000;
/// The square of 1.959964, the 97.5th percentile of the normal distribution, in millionths.
const Z_SQUARED: u128 = 3_841_459;

impl ApprovalCounts {
    pub(super) fn count(&mut self, approved: bool) {
        // A full counter keeps its rate.
        if self.decided < u32::MAX {
            self.decided += 1;
            self.approved += u32::from(approved);
        }
    }

    /// The 95 % Wilson interval of the approval rate, with integers only. Without verdicts it is 0 to 1.
    ///
    /// With `k` of `n` approved, the ends are `(k + z²/2 ± √(z²·(k·(n−k)/n + z²/4))) / (n + z²)`.
    pub fn interval(self) -> ApprovalInterval {
        let n = u128::from(self.decided);
        if n == 0 {
            return ApprovalInterval { lower: Rate::ZERO, upper: Rate::ONE };
        }
        let k = u128::from(self.approved.min(self.decided));
        let variance = k * (n - k) * ONE / n + Z_SQUARED / 4;
        // The factors are in millionths, so the root is as well. Rounded up, it widens the interval.
        let margin = (Z_SQUARED * variance).isqrt() + 1;
        let (centre, total) = (k * ONE + Z_SQUARED / 2, n * ONE + Z_SQUARED);
        let thousandths = |share: u128| i64::try_from(share).unwrap_or(i64::MAX);
        ApprovalInterval {
            lower: Rate::clamped(thousandths(centre.saturating_sub(margin) * 1000 / total)),
            upper: Rate::clamped(thousandths(((centre + margin) * 1000).div_ceil(total))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn interval(approved: u32, decided: u32) -> (i32, i32) {
        let interval = ApprovalCounts { approved, decided }.interval();
        (interval.lower.thousandths(), interval.upper.thousandths())
    }

    /// Reference values: `statsmodels.stats.proportion.proportion_confint(k, n, method="wilson")`.
    #[test]
    fn intervals_match_published_values() {
        // 0.438503 to 1; 0.987357 to 1; 0.236593 to 0.763407; 0 to 0.277533; 0.689296 to 0.849987
        assert_eq!(interval(3, 3), (438, 1000));
        assert_eq!(interval(300, 300), (987, 1000));
        assert_eq!(interval(5, 10), (236, 764));
        assert_eq!(interval(0, 10), (0, 278));
        assert_eq!(interval(78, 100), (689, 850));
    }

    #[test]
    fn without_verdicts_every_rate_is_possible() {
        assert_eq!(interval(0, 0), (0, 1000));
    }

    #[test]
    fn more_verdicts_narrow_the_interval() {
        let widths: Vec<_> = [1, 10, 100, 1000, u32::MAX]
            .map(|n| interval(n / 2, n))
            .iter()
            .map(|(lower, upper)| upper - lower)
            .collect();
        assert!(widths.windows(2).all(|pair| pair[0] > pair[1]), "{widths:?}");
    }
}
