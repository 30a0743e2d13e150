//! Built-in models of the major vendors with their list prices. A configuration overrides them.
//!
//! Checked on 22 November 2026 against the vendors' own pages for Claude Opus 4.5 and 5, Sonnet 4.5 and 5, Haiku 4.5,
//! GPT-5.1 and GPT-5 mini (`platform.claude.com/docs/en/models/{model}/overview`,
//! `developers.openai.com/api/docs/models/{model}`; without the cache prices of Sonnet 4.5 and Haiku 4.5, which follow
//! the same rule). The values of GPT-5 come from pages of other models, those of GPT-4.1 from resellers, which agree.
//! Retired models are not listed; Claude Opus 4.5 is available until 24 November 2026, Sonnet 4.5 until the 30th.
//! Claude Haiku 5.5, GPT-5.4 and later, whose price depends on the length of the prompt, are missing.
//!
//! The models of the agent `qwen` have prices only: no provider of this table offers them. Their prices rise with the length of
//! the prompt. They are those of Alibaba Cloud Model Studio, international (Singapore), as `models.dev` lists them
//! (`providers/alibaba/models`, commit `0654d77`, which names `alibabacloud.com/help/en/model-studio/model-pricing` of
//! 26 August 2026); the vendor's page itself was not compared. Its prices for mainland China are lower. Qwen 3.7 Max and
//! 3.8 are missing, because no international price was found.
//!
//! The first model of a provider is its default.

use super::info::ModelInfo;
use super::price::{Price, Tier};

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

const fn tier(above: u64, mills: [i64; 4]) -> Tier {
    Tier { above, mills }
}

/// Prices of models that no provider of this table offers.
const QWEN: &[(&str, [i64; 4], &[Tier])] = &[
    (
        "qwen3-coder-plus",
        [1_000, 5_000, 200, 1_250],
        &[
            tier(32_000, [1_800, 9_000, 360, 2_250]),
            tier(128_000, [3_000, 15_000, 600, 3_750]),
            tier(256_000, [6_000, 60_000, 1_200, 7_500]),
        ],
    ),
    (
        "qwen3-coder-flash",
        [300, 1_500, 60, 375],
        &[
            tier(32_000, [500, 2_500, 100, 625]),
            tier(128_000, [800, 4_000, 160, 1_000]),
            tier(256_000, [1_600, 9_600, 320, 2_000]),
        ],
    ),
    (
        "qwen3-max",
        [1_200, 6_000, 240, 1_500],
        &[tier(32_000, [2_400, 12_000, 480, 3_000]), tier(128_000, [3_000, 15_000, 600, 3_750])],
    ),
    ("qwen3.5-plus", [400, 2_400, 40, 500], &[tier(256_000, [500, 3_000, 50, 625])]),
    ("qwen3.6-plus", [500, 3_000, 50, 625], &[tier(256_000, [2_000, 6_000, 200, 2_500])]),
    ("qwen3.7-plus", [400, 1_600, 80, 500], &[tier(256_000, [1_200, 4_800, 240, 1_500])]),
];

/// The price of a model in [`QWEN`].
pub(super) fn price(id: &str) -> Option<Price> {
    let (_, mills, tiers) = QWEN.iter().find(|(known, ..)| *known == id)?;
    Some(Price::mills(*mills).with_tiers(tiers))
}

/// Empty if the provider is not one of the vendors.
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
    fn tiers_rise_with_the_length_of_the_prompt() {
        for (id, base, tiers) in QWEN {
            let mut before = (0, *base);
            for tier in *tiers {
                assert!(tier.above > before.0 && tier.mills[0] > before.1[0], "{id}");
                assert!(tier.mills[1] > before.1[1], "{id}");
                before = (tier.above, tier.mills);
            }
            let [input, _, read, write] = *base;
            assert_eq!((write * 4, input % read), (input * 5, 0), "{id}");
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
