//! The description of a model: its limits and its price.

use pilothouse_domain::value::ThinkingLevel;

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
    /// Whether the model sees images.
    pub vision: bool,
    /// Whether the model can think before it answers.
    pub thinking: bool,
    /// The levels of thinking that the model accepts, besides none.
    pub lowest_thinking: ThinkingLevel,
    pub highest_thinking: ThinkingLevel,
    /// Whether the limits of the model are unknown, so that defaults apply.
    pub limits_assumed: bool,
}

impl ModelInfo {
    /// `provider/id`, as [`ModelRegistry::resolve`](super::registry::ModelRegistry::resolve) accepts it.
    pub fn name(&self) -> String {
        format!("{}/{}", self.provider, self.id)
    }

    /// The level that the model accepts instead of this one.
    pub fn level(&self, level: ThinkingLevel) -> ThinkingLevel {
        match level {
            _ if !self.thinking => ThinkingLevel::Off,
            ThinkingLevel::Off => ThinkingLevel::Off,
            level => level.max(self.lowest_thinking).min(self.highest_thinking),
        }
    }
}
