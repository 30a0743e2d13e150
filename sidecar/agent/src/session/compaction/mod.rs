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
use crate::tree::{Entry, EntryId, EntryKind, FileList, TreeError};

const SUMMARY_TOKENS: u64 = 8_192;

/// The part of a conversation that a summary replaces, with the conversation's state at that time.
pub(crate) struct Selection {
    conversation: String,
    /// The summary of the messages before `old`.
    previous: Option<String>,
    old: Vec<Arc<AgentMessage>>,
    files: FileList,
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
    files: FileList,
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
    let (previous, mut files) = last_summary(&path);
    let old = old_messages(&state.tree.context().messages, &path, at, previous.is_some());
    let summarised = path.get(cut::begin(&path)..at).unwrap_or_default();
    files.add(summarised.iter().filter_map(|entry| match &entry.kind {
        EntryKind::Message { message } => Some(&**message),
        _ => None,
    }));
    let (model, leaf) = (state.model.clone(), state.tree.leaf());
    (!old.is_empty() || previous.is_some()).then_some(Selection {
        conversation: state.tree.id().to_owned(),
        previous,
        old,
        files,
        model,
        tokens_before,
        first_kept,
        leaf,
    })
}

/// Plans a compaction. All calls in it have results. Writes a transcript, so the caller must not hold the lock of the state.
pub(crate) fn plan(selection: Selection, instructions: Option<&str>) -> Plan {
    let Selection { conversation, previous, old, files, model, tokens_before, first_kept, leaf } = selection;
    // The next compaction must be able to pass on the whole summary.
    let max_output_tokens = SUMMARY_TOKENS.min(model.max_output_tokens).min(model.context_window / 4);
    // Bytes that fit beside the summaries, assuming the fewest bytes per token.
    let room = model.context_window.saturating_sub(max_output_tokens).saturating_mul(2);
    let room = usize::try_from(room).unwrap_or(usize::MAX);
    let text = transcript(&for_model(old), room.saturating_sub(previous.as_deref().map_or(0, str::len)));
    let task = prompt::task(previous.as_deref(), &text, instructions);
    let request = ModelRequest {
        conversation,
        provider: model.provider.clone(),
        model: model.id.clone(),
        system: prompt::SYSTEM.into(),
        messages: Arc::new(vec![Arc::new(user_message(&task, Vec::new()))]),
        tools: Arc::default(),
        thinking: pilothouse_domain::value::ThinkingLevel::Off,
        max_output_tokens,
    };
    Plan { request, model, tokens_before, files, first_kept, leaf }
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
    let entry = state.tree.append_compaction(&summary, first_kept, tokens_before, plan.files.clone())?;
    let first_kept = first_kept.unwrap_or(entry).to_string();
    Ok(CompactionResult { summary, first_kept, tokens_before })
}

/// The last summary on a path, and the files of the messages that it replaced.
fn last_summary(path: &[&Entry]) -> (Option<String>, FileList) {
    let last = path.iter().rev().find_map(|entry| match &entry.kind {
        EntryKind::Compaction { summary, files, .. } => Some((Some(summary.clone()), files.clone())),
        _ => None,
    });
    last.unwrap_or_default()
}

/// The context's messages before the entry at index `at` of the path, without an earlier summary.
fn old_messages(
    context: &[Arc<AgentMessage>],
    path: &[&Entry],
    at: usize,
    summarised: bool,
) -> Vec<Arc<AgentMessage>> {
    let is_message = |entry: &&&Entry| matches!(entry.kind, EntryKind::Message { .. });
    let kept = path.iter().skip(at).filter(is_message).count();
    let old = usize::from(summarised)..context.len().saturating_sub(kept);
    context.get(old).unwrap_or_default().to_vec()
}
