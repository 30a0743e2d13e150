//! Plausible token counts.

use crate::{
    prompt::Prompt,
    script::{Step, Tokens},
};

const BYTES_A_TOKEN: usize = 4;
/// Tokens at the end of the last message, which are never cached.
const UNCACHED: u64 = 4;

/// Estimated tokens of a text.
pub(crate) fn of_text(text: &str) -> u64 {
    of_bytes(text.len())
}

/// Estimated tokens of this many bytes.
pub(crate) fn of_bytes(bytes: usize) -> u64 {
    u64::try_from(bytes.div_ceil(BYTES_A_TOKEN)).unwrap_or(u64::MAX)
}

/// As scripted, or estimated from the sizes of request and answer. `cached` is the number of tokens of the conversation
/// in earlier requests.
pub(crate) fn usage(step: &Step, prompt: &Prompt, cached: u64) -> Tokens {
    if let Some(given) = step.usage {
        return given;
    }
    let said = [&step.text, &step.thinking].into_iter().flatten().map(|text| of_text(text)).sum::<u64>();
    let called = step.tools.iter().map(|tool| 8 + of_text(&tool.input.to_string())).sum::<u64>();
    let output = (said + called).max(1);
    let all = of_bytes(prompt.bytes).max(1);
    if !prompt.caches {
        return Tokens { input: all, output, ..Tokens::default() };
    }
    let input = all.min(UNCACHED);
    let cache_read = cached.min(all - input);
    Tokens { input, output, cache_read, cache_write: all - input - cache_read }
}
