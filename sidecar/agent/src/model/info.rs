//! The description of a model: its limits and its price.

use super::price::Price;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelInfo {
    pub provider: String,
    pub id: String,
    /// Limit for input and output tokens together.
    pub context_window: u64,
    /// Limit for output tokens.
    pub max_output_tokens: u64,
    /// `None` if unknown.
    pub price: Option<Price>,
    /// Whether the model can think before it answers.
    pub thinking: bool,
}

impl ModelInfo {
    /// `provider/id`, as [`ModelRegistry::resolve`](super::registry::ModelRegistry::resolve) accepts it.
    pub fn name(&self) -> String {
        format!("{}/{}", self.provider, self.id)
    }
}
