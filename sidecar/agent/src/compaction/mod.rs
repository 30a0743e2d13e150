//! Compaction: replaces the older part of a conversation with a summary (S1 6.1).

mod cut;
mod prompt;

use std::sync::Arc;

use self::cut::Cut;
use crate::conversation::{for_model, transcript};
use crate::message::{AgentMessage, user_message};
use crate::model::ModelRequest;
use crate::model::info::ModelInfo;
use crate::session::state::State;
use crate::session::status::CompactionResult;
use crate::tree::{EntryId, EntryKind, TreeError};

const SUMMARY_TOKENS: u64 = 8_192;

/// The part of a conversation that a summary replaces, with the conversation's state at that time.
pub(crate) struct Selection {
    old: Vec<Arc<AgentMessage>>,
    model: ModelInfo,
    tokens_before: u64,
    first_kept: Option<EntryId>,
    leaf: Option<EntryId>,
}

/// A planned compaction, with the conversation's state at that time.
pub(crate) struct Plan {
    pub(crate) request: ModelRequest,
    pub(crate) model: ModelInfo,
    pub(crate) tokens_before: u64,
    /// The first entry that stays. `None`: only entries after `leaf` stay.
    first_kept: Option<EntryId>,
    /// The last entry at the time of the plan.
    leaf: Option<EntryId>,
}

/// Selects the messages before the latest `keep_recent_tokens`. `None`: no message to summarise.
pub(crate) fn select(state: &mut State, keep_recent_tokens: u64) -> Option<Selection> {
    let tokens_before = state.context_tokens().value();
    // The kept part must leave room, or the next turn is compacted again.
    let keep = keep_recent_tokens.min(state.model.context_window / 4);
    let path = state.tree.path();
    let Cut { at, first_kept } = cut::cut(&path, keep);
    let old = old_messages(&state.tree.context().messages, &path, at);
    let (model, leaf) = (state.model.clone(), state.tree.leaf());
    (!old.is_empty()).then_some(Selection { old, model, tokens_before, first_kept, leaf })
}

/// Plans a compaction. All calls in it have results. Writes a transcript, so the caller must not hold the lock of the state.
pub(crate) fn plan(selection: Selection, instructions: Option<&str>) -> Plan {
    let Selection { old, model, tokens_before, first_kept, leaf } = selection;
    let max_output_tokens = SUMMARY_TOKENS.min(model.max_output_tokens);
    // Bytes that fit beside the summary, assuming the fewest bytes per token.
    let room = model.context_window.saturating_sub(max_output_tokens).saturating_mul(2);
    let text = transcript(&for_model(old), usize::try_from(room).unwrap_or(usize::MAX));
    let request = ModelRequest {
        provider: model.provider.clone(),
        model: model.id.clone(),
        system: prompt::SYSTEM.into(),
        messages: Arc::new(vec![Arc::new(user_message(&prompt::task(&text, instructions), Vec::new()))]),
        tools: Arc::default(),
        thinking: pilothouse_domain::value::ThinkingLevel::Off,
        max_output_tokens,
    };
    Plan { request, model, tokens_before, first_kept, leaf }
}

/// Replaces the planned range with a summary. Later messages stay.
pub(crate) fn apply(state: &mut State, plan: &Plan, summary: String) -> Result<CompactionResult, TreeError> {
    let &Plan { tokens_before, first_kept, leaf, .. } = plan;
    let since = || {
        let mut newest = state.tree.up().take_while(|entry| Some(entry.id) != leaf);
        // The usage of the summary is also recorded after that entry.
        let said = newest.by_ref().filter(|entry| matches!(entry.kind, EntryKind::Message { .. }));
        said.last().map(|entry| entry.id)
    };
    let first_kept = first_kept.or_else(since);
    let entry = state.tree.append_compaction(&summary, first_kept, tokens_before)?;
    let first_kept = first_kept.unwrap_or(entry).to_string();
    Ok(CompactionResult { summary, first_kept, tokens_before })
}

/// The context's messages before the entry at index `at` of the path. An earlier summary is the first of them.
fn old_messages(
    context: &[Arc<AgentMessage>],
    path: &[&crate::tree::Entry],
    at: usize,
) -> Vec<Arc<AgentMessage>> {
    let is_message = |entry: &&&crate::tree::Entry| matches!(entry.kind, EntryKind::Message { .. });
    let kept = path.iter().skip(at).filter(is_message).count();
    context.get(..context.len().saturating_sub(kept)).unwrap_or_default().to_vec()
}
