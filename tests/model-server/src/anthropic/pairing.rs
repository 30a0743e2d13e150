//! Pairing rules of Anthropic: calls with their results, and calls with the preceding thoughts.

use std::collections::BTreeSet;

use super::{
    CALL, THOUGHT,
    turns::{Block, Merged},
};
use crate::prompt::InvalidRequest;

/// Checks that each call has its result at the start of the next message, and each result its call in the previous
/// message.
pub(super) fn pairing(turns: &[Merged<'_>]) -> Result<(), InvalidRequest> {
    let ids = |turn: &Merged<'_>, kind: &str, field: &str| -> Vec<String> {
        let blocks = turn.content.iter().filter(|block| block.block["type"] == kind);
        blocks.map(|block| block.block[field].as_str().unwrap_or_default().to_owned()).collect()
    };
    let mut called = BTreeSet::new();
    for (index, turn) in turns.iter().enumerate() {
        let place = turn.place;
        let calls = ids(turn, "tool_use", "id");
        for id in &calls {
            if !called.insert(id.clone()) {
                return Err(InvalidRequest::invalid(format!(
                    "messages.{place}: `tool_use` ids must be unique"
                )));
            }
        }
        if turn.role == "assistant" && !calls.is_empty() {
            let answered: BTreeSet<_> = turns.get(index + 1).map_or_else(BTreeSet::new, |next| {
                let results = next.content.iter().take_while(|block| block.block["type"] == "tool_result");
                results.filter_map(|block| block.block["tool_use_id"].as_str().map(str::to_owned)).collect()
            });
            let open: Vec<_> = calls.iter().filter(|id| !answered.contains(*id)).cloned().collect();
            if !open.is_empty() {
                let words = format!(
                    "messages.{place}: `tool_use` ids were found without `tool_result` blocks immediately after: {}. Each \
                     `tool_use` block must have a corresponding `tool_result` block in the next message.",
                    open.join(", ")
                );
                return Err(InvalidRequest::invalid(words));
            }
        }
        let before =
            index.checked_sub(1).map(|before| ids(&turns[before], "tool_use", "id")).unwrap_or_default();
        let mut seen = BTreeSet::new();
        for block in turn.content.iter().filter(|block| block.block["type"] == "tool_result") {
            let id = block.block["tool_use_id"].as_str().unwrap_or_default();
            if !before.iter().any(|call| call == id) {
                let words = format!(
                    "{}: unexpected `tool_use_id` found in `tool_result` blocks: {id}. Each `tool_result` block must have \
                     a corresponding `tool_use` block in the previous message.",
                    block.place
                );
                return Err(InvalidRequest::invalid(words));
            }
            if !seen.insert(id) {
                let words = format!(
                    "{}: each `tool_use` must have a single result. Found multiple `tool_result` blocks with id: {id}",
                    block.place
                );
                return Err(InvalidRequest::invalid(words));
            }
        }
    }
    Ok(())
}

/// Checks that clients return the thoughts before the latest calls.
pub(super) fn thought(turns: &[Merged<'_>]) -> Result<(), InvalidRequest> {
    let Some(last) = turns.iter().rfind(|turn| turn.role == "assistant") else { return Ok(()) };
    let thought = format!("{CALL}{THOUGHT}");
    let with_thought =
        |block: &Block<'_>| block.block["id"].as_str().is_some_and(|id| id.starts_with(&thought));
    let is_thought =
        |block: &Block<'_>| matches!(block.block["type"].as_str(), Some("thinking" | "redacted_thinking"));
    let answered =
        turns.last().is_some_and(|turn| turn.content.iter().any(|b| b.block["type"] == "tool_result"));
    if answered && last.content.iter().any(with_thought) && !last.content.iter().any(is_thought) {
        let found = last.content.first().and_then(|block| block.block["type"].as_str()).unwrap_or_default();
        let words = format!(
            "messages.{}.content.0.type: Expected `thinking` or `redacted_thinking`, but found `{found}`. When `thinking` is \
             enabled, a final `assistant` message must start with a thinking block (preceeding the lastmost set of `tool_use` \
             and `tool_result` blocks).",
            last.place
        );
        return Err(InvalidRequest::invalid(words));
    }
    Ok(())
}
