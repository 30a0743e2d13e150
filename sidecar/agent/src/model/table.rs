//! Models of the major vendors with their limits and list prices. A configuration overrides them. The first model of a provider is its
//! default.

use pilothouse_domain::value::ThinkingLevel;
use pilothouse_model_table::{ModelRow, rows};

use super::info::ModelInfo;

fn info(row: &'static ModelRow) -> ModelInfo {
    ModelInfo {
        provider: row.provider.into(),
        id: row.id.into(),
        context_window: row.context_window,
        max_output_tokens: row.max_output,
        price: row.price(),
        vision: row.can('v'),
        thinking: row.can('t'),
        lowest_thinking: if row.can('m') { ThinkingLevel::Minimal } else { ThinkingLevel::Low },
        highest_thinking: if row.can('x') { ThinkingLevel::Max } else { ThinkingLevel::High },
        limits_assumed: false,
    }
}

/// Empty if the table does not have the provider.
pub(super) fn models(provider: &str) -> Vec<ModelInfo> {
    rows().iter().filter(|row| row.provider == provider).map(info).collect()
}

/// A model by its vendor and its id there, as gateways name it. They write versions with a point.
pub(super) fn of_vendor(vendor: &str, id: &str) -> Option<ModelInfo> {
    const NAMES: [(&str, &str); 5] = [
        ("google", "gemini"),
        ("x-ai", "xai"),
        ("mistralai", "mistral"),
        ("moonshotai", "moonshot"),
        ("qwen", "alibaba"),
    ];
    let provider = NAMES.iter().find(|(name, _)| *name == vendor).map_or(vendor, |(_, provider)| provider);
    let (id, dashed) = (id.split(':').next().unwrap_or(id), id.replace('.', "-"));
    let named = |row: &&'static ModelRow| row.provider == provider && (row.id == id || row.id == dashed);
    rows().iter().find(named).map(info)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gateways_name_models_by_their_vendor() {
        let model = of_vendor("anthropic", "claude-opus-4.5").unwrap();
        assert_eq!((model.id.as_str(), model.context_window), ("claude-opus-4-5", 200_000));
        assert!(of_vendor("google", "gemini-2.5-pro").unwrap().vision);
        assert_eq!(of_vendor("nobody", "x"), None);
    }

    #[test]
    fn retired_models_are_not_offered() {
        let offered: Vec<String> = models("anthropic").into_iter().map(|model| model.id).collect();
        assert!(
            !offered.iter().any(|id| id == "claude-sonnet-4-0" || id == "claude-opus-4-1"),
            "{offered:?}"
        );
    }
}
