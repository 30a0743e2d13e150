//! Confidence of a classification: a number between 0 and 1 with three decimals, kept as an integer.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A confidence from 0 to 1 (S2), in thousandths. JSON has it as a number, rounded to three decimals.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Confidence(u16);

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("must be a number from 0 to 1")]
pub struct InvalidConfidence;

impl Confidence {
    pub const NONE: Self = Self(0);
    pub const FULL: Self = Self(1000);

    pub const fn from_thousandths(thousandths: u16) -> Result<Self, InvalidConfidence> {
        if thousandths > Self::FULL.0 { Err(InvalidConfidence) } else { Ok(Self(thousandths)) }
    }

    /// Percentages in tables of the program. Values above 100 count as 100.
    pub const fn percent(percent: u8) -> Self {
        Self(if percent > 100 { 1000 } else { percent as u16 * 10 })
    }

    pub const fn thousandths(self) -> u16 {
        self.0
    }
}

impl TryFrom<f64> for Confidence {
    type Error = InvalidConfidence;

    fn try_from(number: f64) -> Result<Self, InvalidConfidence> {
        if !(0.0..=1.0).contains(&number) {
            return Err(InvalidConfidence);
        }
        // The product is between 0 and 1000.
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        let thousandths = (number * 1000.0).round() as u16;
        Ok(Self(thousandths))
    }
}

impl fmt::Display for Confidence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:03}", self.0 / 1000, self.0 % 1000)
    }
}

impl Serialize for Confidence {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_f64(f64::from(self.0) / 1000.0)
    }
}

impl<'de> Deserialize<'de> for Confidence {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let number = f64::deserialize(deserializer)?;
        Self::try_from(number).map_err(serde::de::Error::custom)
    }
}

impl JsonSchema for Confidence {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Confidence".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({ "type": "number", "minimum": 0, "maximum": 1 })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn every_value_survives_json() {
        for thousandths in 0..=1000 {
            let confidence = Confidence::from_thousandths(thousandths).unwrap();
            let text = serde_json::to_string(&confidence).unwrap();
            assert_eq!(serde_json::from_str::<Confidence>(&text).unwrap(), confidence, "{text}");
        }
        assert_eq!(serde_json::to_string(&Confidence::percent(80)).unwrap(), "0.8");
    }

    #[test]
    fn numbers_outside_0_to_1_are_refused() {
        for text in ["-0.1", "1.0004", "2", "1e9", "\"0.5\"", "null"] {
            assert!(serde_json::from_str::<Confidence>(text).is_err(), "{text}");
        }
        assert_eq!(Confidence::try_from(f64::NAN), Err(InvalidConfidence));
        assert_eq!(Confidence::from_thousandths(1001), Err(InvalidConfidence));
    }

    #[test]
    fn integers_are_numbers_too() {
        assert_eq!(serde_json::from_str::<Confidence>("1").unwrap(), Confidence::FULL);
        assert_eq!(serde_json::from_str::<Confidence>("0.5714285").unwrap().to_string(), "0.571");
    }
}
