//! The models of the makers that everybody uses, with list prices. Configuration goes over it.

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
    row("claude-opus-4-5", 200_000, 64_000, [5_000, 25_000, 500, 6_250], true),
    row("claude-sonnet-4-5", 200_000, 64_000, [3_000, 15_000, 300, 3_750], true),
    row("claude-haiku-4-5", 200_000, 64_000, [1_000, 5_000, 100, 1_250], true),
    row("claude-opus-4-1", 200_000, 32_000, [15_000, 75_000, 1_500, 18_750], true),
    row("claude-sonnet-4-0", 200_000, 64_000, [3_000, 15_000, 300, 3_750], true),
];

// OpenAI does not charge for writing to its cache beyond reading.
const OPENAI: &[Row] = &[
    row("gpt-5.1", 400_000, 128_000, [1_250, 10_000, 125, 1_250], true),
    row("gpt-5", 400_000, 128_000, [1_250, 10_000, 125, 1_250], true),
    row("gpt-5-mini", 400_000, 128_000, [250, 2_000, 25, 250], true),
    row("gpt-4.1", 1_047_576, 32_768, [2_000, 8_000, 500, 2_000], false),
    row("gpt-4.1-mini", 1_047_576, 32_768, [400, 1_600, 100, 400], false),
];

/// The models of the provider with this name; none, when it is not one of their makers.
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
