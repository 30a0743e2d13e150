//! Numbers with three decimals, kept as integers: trust points, factors and rates.
//!
//! JSON has them as numbers, as S2 does. No arithmetic uses floating point, so a replayed history gives the same scores.

use std::fmt;
use std::str::FromStr;

use rust_decimal::Decimal;
use rust_decimal::prelude::ToPrimitive;
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("must be a number from {min} to {max} with at most three decimals")]
pub struct InvalidNumber {
    pub min: i32,
    pub max: i32,
}

macro_rules! thousandths {
    ($($(#[$doc:meta])* $name:ident: $min:literal ..= $max:literal;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(i32);

        impl $name {
            const INVALID: InvalidNumber = InvalidNumber { min: $min, max: $max };

            pub const fn from_thousandths(thousandths: i32) -> Result<Self, InvalidNumber> {
                if thousandths < $min * 1000 || thousandths > $max * 1000 {
                    Err(Self::INVALID)
                } else {
                    Ok(Self(thousandths))
                }
            }

            /// Constants of the program and results of calculations. Values out of range become the nearest limit.
            pub const fn clamped(thousandths: i64) -> Self {
                if thousandths < $min * 1000 {
                    Self($min * 1000)
                } else if thousandths > $max * 1000 {
                    Self($max * 1000)
                } else {
                    #[allow(clippy::cast_possible_truncation)]
                    Self(thousandths as i32)
                }
            }

            pub const fn thousandths(self) -> i32 {
                self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&Decimal::new(self.0.into(), 3).normalize(), f)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($name), "({})"), self)
            }
        }

        impl FromStr for $name {
            type Err = InvalidNumber;

            fn from_str(text: &str) -> Result<Self, InvalidNumber> {
                let number = Decimal::from_str(text).or_else(|_| Decimal::from_scientific(text));
                let thousandths = number
                    .ok()
                    .and_then(|number| number.checked_mul(Decimal::ONE_THOUSAND))
                    .filter(|thousandths| thousandths.fract().is_zero())
                    .and_then(|thousandths| thousandths.to_i32());
                thousandths.ok_or(Self::INVALID).and_then(Self::from_thousandths)
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                // The text of a number with three decimals is always a JSON number.
                let number: serde_json::Number = self.to_string().parse().map_err(serde::ser::Error::custom)?;
                number.serialize(serializer)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let number = serde_json::Number::deserialize(deserializer)?;
                number.to_string().parse().map_err(serde::de::Error::custom)
            }
        }

        impl JsonSchema for $name {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($name).into()
            }
            fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                schemars::json_schema!({ "type": "number", "minimum": $min, "maximum": $max })
            }
        }
    )*};
}

thousandths! {
    /// Points of trust: a score, a change of a score, or a limit of scores.
    Points: -1000..=1000;
    /// A multiplier of points.
    Factor: 0..=100;
    /// A share, such as the share of approved decisions.
    Rate: 0..=1;
}

impl Points {
    pub const ZERO: Self = Self(0);
    /// The largest score that a configuration can allow.
    pub const MAX_SCORE: Self = Self::whole(100);

    pub const fn whole(points: i16) -> Self {
        Self::clamped(points as i64 * 1000)
    }

    /// The score as people read it: whole points, rounded half away from zero.
    pub const fn rounded(self) -> i32 {
        (self.0 + if self.0 < 0 { -500 } else { 500 }) / 1000
    }

    #[must_use]
    pub fn plus(self, change: Self) -> Self {
        Self::clamped(i64::from(self.0) + i64::from(change.0))
    }
}

impl Factor {
    pub const ONE: Self = Self(1000);

    pub const fn percent(percent: u16) -> Self {
        Self::clamped(percent as i64 * 10)
    }
}

impl Rate {
    pub const ZERO: Self = Self(0);
    pub const ONE: Self = Self(1000);

    pub const fn percent(percent: u8) -> Self {
        Self::clamped(percent as i64 * 10)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn numbers_keep_three_decimals_in_json() {
        let score: Points = serde_json::from_str("61.317").unwrap();
        assert_eq!(score.thousandths(), 61_317);
        for text in ["61.317", "-0.5", "50", "0.01", "100", "0"] {
            let points: Points = serde_json::from_str(text).unwrap();
            assert_eq!(
                (serde_json::to_string(&points).unwrap().as_str(), points.to_string().as_str()),
                (text, text)
            );
        }
        assert_eq!(serde_json::from_str::<Factor>("1e-3").unwrap().thousandths(), 1);
    }

    #[test]
    fn every_score_survives_json() {
        for thousandths in 0..=100_000 {
            let points = Points::from_thousandths(thousandths).unwrap();
            let text = serde_json::to_string(&points).unwrap();
            assert_eq!(serde_json::from_str::<Points>(&text).unwrap(), points, "{text}");
        }
    }

    #[test]
    fn a_fourth_decimal_or_a_value_out_of_range_is_refused() {
        for text in ["0.0001", "1.5", "-0.1", "\"0.5\"", "null"] {
            assert!(serde_json::from_str::<Rate>(text).is_err(), "{text}");
        }
        let error = serde_json::from_str::<Points>("1000.001").unwrap_err().to_string();
        assert_eq!(error, "must be a number from -1000 to 1000 with at most three decimals");
    }

    #[test]
    fn scores_are_rounded_for_display_only() {
        let rounded = |thousandths| Points::from_thousandths(thousandths).unwrap().rounded();
        assert_eq!([rounded(61_317), rounded(61_500), rounded(-500), rounded(0)], [61, 62, -1, 0]);
    }
}
