//! Exact amounts in US dollars (decision 4): decimals, written as strings in JSON, never floats.

use std::fmt;
use std::ops::{Add, AddAssign};
use std::str::FromStr;

use rust_decimal::Decimal;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A non-negative amount of US dollars with up to 12 decimals.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Usd(Decimal);

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidUsd {
    #[error("`{0}` is not an amount of dollars like \"2.50\"")]
    NotANumber(String),
    #[error("an amount of dollars must not be negative")]
    Negative,
    /// Above [`Usd::LIMIT`].
    #[error("an amount of dollars must be at most 1000000000")]
    TooLarge,
}

impl Usd {
    pub const ZERO: Self = Self(Decimal::ZERO);
    pub const LIMIT: Decimal = Decimal::from_parts(1_000_000_000, 0, 0, false, 0);
    const SCALE: u32 = 12;

    /// Rounds `value` to 12 decimals.
    pub fn new(value: Decimal) -> Result<Self, InvalidUsd> {
        if value.is_sign_negative() && !value.is_zero() {
            Err(InvalidUsd::Negative)
        } else if value > Self::LIMIT {
            Err(InvalidUsd::TooLarge)
        } else {
            Ok(Self(value.round_dp(Self::SCALE).normalize()))
        }
    }

    pub const fn whole(dollars: u16) -> Self {
        Self(Decimal::from_parts(dollars as u32, 0, 0, false, 0))
    }

    pub fn is_zero(self) -> bool {
        self.0.is_zero()
    }

    /// The part of `self` above `other`; zero if there is none.
    #[must_use]
    pub fn excess_over(self, other: Self) -> Self {
        Self((self.0 - other.0).max(Decimal::ZERO).normalize())
    }

    /// `self` divided by `parts`; all of it if `parts` is zero.
    #[must_use]
    pub fn part(self, parts: u32) -> Self {
        Self((self.0 / Decimal::from(parts.max(1))).round_dp(Self::SCALE).normalize())
    }

    /// The price of `count` units, of which a million cost `self`.
    #[must_use]
    pub fn of_million(self, count: u64) -> Self {
        let price = self.0.saturating_mul(Decimal::from(count)) / Decimal::from(1_000_000);
        Self(price.round_dp(Self::SCALE).min(Self::LIMIT).normalize())
    }

    /// `self` as a percentage of `whole`, rounded to two decimals; 0 if `whole` is zero.
    pub fn percent_of(self, whole: Self) -> Decimal {
        if whole.is_zero() {
            Decimal::ZERO
        } else {
            (self.0 * Decimal::ONE_HUNDRED / whole.0).round_dp(2).normalize()
        }
    }

    pub const fn as_decimal(self) -> Decimal {
        self.0
    }
}

impl Add for Usd {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        // Sums of spend saturate at the limit.
        Self(self.0.saturating_add(other.0).min(Self::LIMIT).normalize())
    }
}

impl AddAssign for Usd {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl std::iter::Sum for Usd {
    fn sum<I: Iterator<Item = Self>>(iter: I) -> Self {
        iter.fold(Self::ZERO, Add::add)
    }
}

impl FromStr for Usd {
    type Err = InvalidUsd;
    fn from_str(s: &str) -> Result<Self, InvalidUsd> {
        let value = Decimal::from_str(s)
            .or_else(|_| Decimal::from_scientific(s))
            .map_err(|_| InvalidUsd::NotANumber(s.chars().take(40).collect()))?;
        Self::new(value)
    }
}

impl TryFrom<String> for Usd {
    type Error = InvalidUsd;
    fn try_from(s: String) -> Result<Self, InvalidUsd> {
        s.parse()
    }
}

impl From<Usd> for String {
    fn from(usd: Usd) -> Self {
        usd.to_string()
    }
}

impl fmt::Display for Usd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for Usd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "${}", self.0)
    }
}

impl JsonSchema for Usd {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Usd".into()
    }
    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({
            "type": "string", "pattern": r"^[0-9]+(\.[0-9]{1,12})?$",
            "description": "US dollars, exact, as a string"
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn money_is_exact_where_floats_are_not() {
        let sum: Usd = ["0.1", "0.2"].iter().map(|s| s.parse::<Usd>().unwrap()).sum();
        assert_eq!(sum.to_string(), "0.3");
    }

    #[test]
    fn money_parses_the_output_of_runtimes() {
        assert_eq!("8.4861e-2".parse::<Usd>().unwrap().to_string(), "0.084861");
        assert_eq!("5.00".parse::<Usd>().unwrap().to_string(), "5");
    }

    #[test]
    fn money_refuses_negative_and_absurd_amounts() {
        assert_eq!("-0.01".parse::<Usd>(), Err(InvalidUsd::Negative));
        assert_eq!("1000000001".parse::<Usd>(), Err(InvalidUsd::TooLarge));
        assert!("five".parse::<Usd>().is_err());
    }
}
