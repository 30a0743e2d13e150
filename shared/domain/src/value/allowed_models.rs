//! The models that sessions may use, as an operator or a template limits them.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::text::{ModelId, cut};

/// Ids of models. An id that ends with `*` allows all ids that begin like it. An empty list allows every model.
///
/// The id `default` allows the model that the adapter chooses.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "Vec<String>", into = "Vec<String>")]
#[schemars(with = "Vec<String>")]
pub struct AllowedModels(Vec<ModelId>);

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidModels {
    #[error("must have at most {max} entries")]
    Count { max: usize },
    #[error("`{0}` is not the id of a model (1 to 200 characters, with `*` at the end only)")]
    Id(String),
    #[error("`{0}` occurs twice")]
    Duplicate(String),
}

/// The field that names a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ModelField {
    /// The model of a session, template or brief.
    Model,
    /// [`AllowedModels::FALLBACK`] in the options of an adapter.
    Fallback,
}

/// A model that is not among the allowed ones.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("must be {allowed}, not `{model}`")]
pub struct ModelNotAllowed {
    pub model: String,
    pub field: ModelField,
    pub allowed: AllowedModels,
}

impl AllowedModels {
    /// Most ids.
    pub const MAX: usize = 50;
    /// The option of Claude Code that names the model for the time when the first one is overloaded.
    pub const FALLBACK: &'static str = "fallbackModel";

    /// Accepts at most [`Self::MAX`] unique ids.
    pub fn new(ids: Vec<String>) -> Result<Self, InvalidModels> {
        if ids.len() > Self::MAX {
            return Err(InvalidModels::Count { max: Self::MAX });
        }
        let mut allowed = Vec::with_capacity(ids.len());
        for text in ids {
            let invalid = || InvalidModels::Id(text.chars().take(80).collect());
            let id = ModelId::parse(&text).map_err(|_| invalid())?;
            let begin = id.as_str().strip_suffix('*').unwrap_or(id.as_str());
            if begin.contains('*') {
                return Err(invalid());
            }
            if allowed.contains(&id) {
                return Err(InvalidModels::Duplicate(id.to_string()));
            }
            allowed.push(id);
        }
        Ok(Self(allowed))
    }

    /// Whether no id is listed, so that every model is allowed.
    pub const fn is_unlimited(&self) -> bool {
        self.0.is_empty()
    }

    pub fn check(&self, model: &ModelId) -> Result<(), ModelNotAllowed> {
        self.check_id(model.as_str(), ModelField::Model)
    }

    /// Checks the model that the options of an adapter name as [`Self::FALLBACK`]: one id, or several with commas.
    pub fn check_options(&self, adapter_options: &Value) -> Result<(), ModelNotAllowed> {
        let named = adapter_options.get(Self::FALLBACK).and_then(Value::as_str).unwrap_or_default();
        let mut ids = named.split(',').map(str::trim).filter(|id| !id.is_empty());
        ids.try_for_each(|id| self.check_id(id, ModelField::Fallback))
    }

    fn check_id(&self, model: &str, field: ModelField) -> Result<(), ModelNotAllowed> {
        let is_named = |id: &ModelId| match id.as_str().strip_suffix('*') {
            Some(begin) => model.starts_with(begin),
            None => id.as_str() == model,
        };
        if self.is_unlimited() || self.0.iter().any(is_named) {
            return Ok(());
        }
        Err(ModelNotAllowed { model: cut(model, ModelId::MAX), field, allowed: self.clone() })
    }
}

impl fmt::Display for AllowedModels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ids: Vec<_> = self.0.iter().map(|id| format!("`{id}`")).collect();
        match ids.split_last() {
            None => f.write_str("any model"),
            Some((last, [])) => f.write_str(last),
            Some((last, others)) => write!(f, "{} or {last}", others.join(", ")),
        }
    }
}

impl TryFrom<Vec<String>> for AllowedModels {
    type Error = InvalidModels;
    fn try_from(ids: Vec<String>) -> Result<Self, InvalidModels> {
        Self::new(ids)
    }
}

impl From<AllowedModels> for Vec<String> {
    fn from(models: AllowedModels) -> Self {
        models.0.into_iter().map(Into::into).collect()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn allowed(ids: &[&str]) -> Result<AllowedModels, InvalidModels> {
        AllowedModels::new(ids.iter().map(ToString::to_string).collect())
    }

    fn check(ids: &[&str], model: &str) -> Result<(), String> {
        allowed(ids).unwrap().check(&ModelId::parse(model).unwrap()).map_err(|error| error.to_string())
    }

    #[test]
    fn only_listed_models_and_their_beginnings_are_allowed() {
        let ids = ["claude-haiku-*", "gpt-5", "default"];
        for model in ["claude-haiku-4-5", "claude-haiku-", "gpt-5", "default"] {
            assert_eq!(check(&ids, model), Ok(()));
        }
        for model in ["claude-opus-4-5", "gpt-5-mini", "Default", "*"] {
            let sentence = format!("must be `claude-haiku-*`, `gpt-5` or `default`, not `{model}`");
            assert_eq!(check(&ids, model), Err(sentence));
        }
    }

    #[test]
    fn fallback_model_is_an_allowed_one() {
        let check = |ids: &[&str], options: Value| allowed(ids).unwrap().check_options(&options);
        let fallback = |model: &str| json!({ "fallbackModel": model });
        let ids = ["claude-haiku-*", "gpt-5"];
        for model in ["claude-haiku-4-5", "gpt-5", "gpt-5, claude-haiku-4-5", ""] {
            assert_eq!(check(&ids, fallback(model)), Ok(()), "{model}");
        }
        for (models, wrong) in [("opus", "opus"), ("claude-haiku-4-5,opus", "opus"), ("default", "default")] {
            let refused = check(&ids, fallback(models)).unwrap_err();
            assert_eq!((refused.model.as_str(), refused.field), (wrong, ModelField::Fallback));
        }
        for options in [json!({}), Value::Null, json!({ "fallbackModel": null })] {
            assert_eq!(check(&ids, options), Ok(()));
        }
        assert_eq!(check(&[], fallback("anything")), Ok(()));
    }

    #[test]
    fn without_a_list_every_model_is_allowed() {
        assert!(allowed(&[]).unwrap().is_unlimited());
        assert_eq!(check(&[], "anything"), Ok(()));
        assert_eq!(check(&["*"], "anything"), Ok(()));
    }

    #[test]
    fn ids_are_unique_and_have_a_star_at_the_end_only() {
        assert_eq!(allowed(&["a", "a"]), Err(InvalidModels::Duplicate("a".into())));
        for id in ["", "a*b", "a**", "*a", "a\nb"] {
            assert_eq!(allowed(&[id]), Err(InvalidModels::Id(id.into())));
        }
        let many: Vec<_> = (0..=AllowedModels::MAX).map(|n| n.to_string()).collect();
        assert_eq!(AllowedModels::new(many), Err(InvalidModels::Count { max: AllowedModels::MAX }));
    }
}
