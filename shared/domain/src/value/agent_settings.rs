//! Settings that an agent reports about itself (S1 5).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::ThinkingLevel;
use crate::text::cut;

/// Model and thinking level of an agent, and the models that it can switch to.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AgentSettings {
    pub model_id: String,
    /// Thinking level, if the adapter knows it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thinking_level: Option<ThinkingLevel>,
    /// Models that the agent can switch to, in cycling order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub available_models: Vec<String>,
}

impl AgentSettings {
    /// Most models that are kept; they are part of the session's item.
    pub const MAX_MODELS: usize = 100;
    /// Most characters of a model's name.
    pub const MAX_NAME: usize = 200;

    /// Cuts the settings to their limits (decision 6).
    #[must_use]
    pub fn fitted(mut self) -> Self {
        self.model_id = cut(&self.model_id, Self::MAX_NAME);
        // A shortened name would not identify the model.
        self.available_models.retain(|model| !model.is_empty() && model.chars().count() <= Self::MAX_NAME);
        self.available_models.truncate(Self::MAX_MODELS);
        self
    }

    /// The next model in `direction`; `None` if there is no other.
    pub fn cycled(&self, direction: super::CycleDirection) -> Option<&str> {
        let models = &self.available_models;
        let at = models.iter().position(|model| *model == self.model_id);
        let next = match (direction, at) {
            (_, Some(_)) if models.len() < 2 => return None,
            (super::CycleDirection::Forward, Some(at)) => (at + 1) % models.len(),
            (super::CycleDirection::Backward, Some(at)) => (at + models.len() - 1) % models.len(),
            (_, None) => 0,
        };
        models.get(next).map(String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::CycleDirection as Direction;

    fn settings(model: &str, available: &[&str]) -> AgentSettings {
        AgentSettings {
            model_id: model.to_owned(),
            thinking_level: None,
            available_models: available.iter().map(ToString::to_string).collect(),
        }
    }

    #[test]
    fn models_cycle_in_both_directions() {
        let three = ["a", "b", "c"];
        assert_eq!(settings("c", &three).cycled(Direction::Forward), Some("a"));
        assert_eq!(settings("a", &three).cycled(Direction::Backward), Some("c"));
        assert_eq!(settings("x", &three).cycled(Direction::Forward), Some("a"));
        assert_eq!(settings("a", &["a"]).cycled(Direction::Forward), None);
        assert_eq!(settings("a", &[]).cycled(Direction::Backward), None);
    }

    #[test]
    fn oversized_model_names_are_dropped_or_cut() {
        let long = "m".repeat(300);
        let fitted = settings(&long, &[&long, "", "a"]).fitted();
        assert_eq!(fitted.available_models, ["a"]);
        assert_eq!(fitted.model_id.chars().count(), AgentSettings::MAX_NAME);
    }
}
