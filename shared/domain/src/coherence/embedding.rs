//! The vector of a text, as an embedding model makes it.

use rust_decimal::prelude::ToPrimitive as _;
use serde::{Deserialize, Serialize};

/// The direction of a text. Each dimension is kept in a byte, which changes similarities by less than a hundredth.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Embedding(Vec<i8>);

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum InvalidEmbedding {
    #[error("an embedding has from 1 to {} dimensions", Embedding::MAX_DIMENSIONS)]
    Dimensions,
    #[error("an embedding has finite numbers, and not only zeros")]
    Values,
}

/// Why texts are compared by the lexical engine, although the server is configured with an embedding model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum EmbeddingFailure {
    /// The model could not be reached in time, or its response was not valid.
    Unavailable,
    /// The model refused the request.
    Refused,
    /// The spending cap of the project is reached.
    SpendingCap,
}

crate::names::named!(EmbeddingFailure {
    Unavailable => "unavailable",
    Refused => "refused",
    SpendingCap => "spending_cap",
});

impl Embedding {
    pub const MAX_DIMENSIONS: usize = 8192;
    const LARGEST: f64 = 127.0;

    /// Scales the values, so that the largest one fits in a byte.
    pub fn new(values: &[f64]) -> Result<Self, InvalidEmbedding> {
        if !(1..=Self::MAX_DIMENSIONS).contains(&values.len()) {
            return Err(InvalidEmbedding::Dimensions);
        }
        let largest = values.iter().fold(0.0_f64, |largest, value| largest.max(value.abs()));
        if largest <= 0.0 || !values.iter().all(|value| value.is_finite()) {
            return Err(InvalidEmbedding::Values);
        }
        let levels = values.iter().map(|value| (value / largest * Self::LARGEST).round().to_i8());
        levels.collect::<Option<_>>().map(Self).ok_or(InvalidEmbedding::Values)
    }

    /// A stored embedding.
    pub fn of_bytes(bytes: &[u8]) -> Result<Self, InvalidEmbedding> {
        if !(1..=Self::MAX_DIMENSIONS).contains(&bytes.len()) {
            return Err(InvalidEmbedding::Dimensions);
        }
        if bytes.iter().all(|byte| *byte == 0) {
            return Err(InvalidEmbedding::Values);
        }
        Ok(Self(bytes.iter().map(|byte| byte.cast_signed()).collect()))
    }

    pub fn dimensions(&self) -> usize {
        self.0.len()
    }

    /// A byte for each dimension.
    pub fn bytes(&self) -> Vec<u8> {
        self.0.iter().map(|level| level.cast_unsigned()).collect()
    }

    /// Cosine, not below 0: 1 for the same direction. `None` if the dimensions differ, because another model made one of the vectors.
    pub fn similarity(&self, other: &Self) -> Option<f64> {
        if self.0.len() != other.0.len() {
            return None;
        }
        // At most 8192 * 127 * 127, which fits.
        let (mut product, mut one, mut two) = (0_i32, 0_i32, 0_i32);
        for (a, b) in self.0.iter().zip(&other.0) {
            let (a, b) = (i32::from(*a), i32::from(*b));
            product += a * b;
            one += a * a;
            two += b * b;
        }
        let lengths = (f64::from(one) * f64::from(two)).sqrt();
        Some((f64::from(product) / lengths).clamp(0.0, 1.0))
    }
}
