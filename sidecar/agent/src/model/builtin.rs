//! Built-in models of the major vendors with their list prices. A configuration overrides them.
//!
//! Checked on 22 November 2026 against the vendors' own pages for Claude Opus 4.5 and 5, Sonnet 4.5 and 5, Haiku 4.5,
//! GPT-5.1 and GPT-5 mini (`platform.claude.com/docs/en/models/{model}/overview`,
//! `developers.openai.com/api/docs/models/{model}`; for Sonnet 4.5 and Haiku 4.5 without the cache prices, which
//! follow the same rule). The values of GPT-5 come from pages of other models, those of GPT-4.1 from resellers, which
//! agree. Retired models are not listed; Claude Opus 4.5 is available until 24 November 2026, Sonnet 4.5 until the
//! 30th. Models whose price depends on the length of the prompt (Claude Haiku 5.5, GPT-5.4 and later) are missing,
//! because a row has only one price.
//!
//! The first model of a provider is its default.

use super::price::Price;
use super::registry::ModelInfo;

struct Row {
    id: &'static str,
    context_window: u64,
    max_output: u64,
    /// Thousandths of a dollar per million tokens: input, output, read from a cache, written to a cache.
    mills: [i64; 4],
    thinking: bool,
}

const fn row(id: &'static str, context_window: u64, max_output: u64, mills: [i64; 4], thinking: bool) -> Row {
    Row { id, context_window, max_output, mills, thinking }
}

const ANTHROPIC: &[Row] = &[
    row("claude-opus-5", 1_000_000, 128_000, [5_000, 25_000, 500, 6_250], true),
    row("claude-sonnet-5", 1_000_000, 128_000, [2_000, 10_000, 200, 2_500], true),
    row("claude-opus-4-5", 200_000, 64_000, [5_000, 25_000, 500, 6_250], true),
    row("claude-sonnet-4-5", 200_000, 64_000, [3_000, 15_000, 300, 3_750], true),
    row("claude-haiku-4-5", 200_000, 64_000, [1_000, 5_000, 100, 1_250], true),
];

// OpenAI charges no extra for writing to its cache.
const OPENAI: &[Row] = &[
    row("gpt-5.1", 400_000, 128_000, [1_250, 10_000, 125, 1_250], true),
    row("gpt-5", 400_000, 128_000, [1_250, 10_000, 125, 1_250], true),
    row("gpt-5-mini", 400_000, 128_000, [250, 2_000, 25, 250], true),
    row("gpt-4.1", 1_047_576, 32_768, [2_000, 8_000, 500, 2_000], false),
    row("gpt-4.1-mini", 1_047_576, 32_768, [400, 1_600, 100, 400], false),
];

/// The models of a provider with this name. Empty if it is not one of the vendors.
pub(super) fn models(provider: &str) -> Vec<ModelInfo> {
    let rows = match provider {
        "anthropic" => ANTHROPIC,
        "openai" => OPENAI,
        _ => &[],
    };
    let model = |row: &Row| ModelInfo {
        provider: provider.into(),
        id: row.id.into(),
        context_window: row.context_window,
        max_output_tokens: row.max_output,
        price: Some(Price::mills(row.mills)),
        thinking: row.thinking,
    };
    rows.iter().map(model).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prices_follow_the_rules_of_the_providers() {
        for row in ANTHROPIC {
            let [input, output, read, write] = row.mills;
            assert_eq!((output, read * 10, write * 4), (input * 5, input, input * 5), "{}", row.id);
        }
        for row in OPENAI {
            let [input, output, read, write] = row.mills;
            let cached = if row.id.starts_with("gpt-5") { 10 } else { 4 };
            assert_eq!((read * cached, write), (input, input), "{}", row.id);
            assert!(output > input && row.max_output < row.context_window, "{}", row.id);
        }
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
