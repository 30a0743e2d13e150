//! Compaction: replaces the older part of a conversation with a summary (S1 6.1).

mod cut;
mod prompt;

use std::sync::Arc;

use self::cut::Cut;
use crate::conversation::{for_model, transcript};
use crate::event::{CompactionReason, SessionEvent};
use crate::governor::CallPurpose;
use crate::message::{AgentMessage, AssistantMessage};
use crate::model::ModelRequest;
use crate::model::registry::ModelInfo;
use crate::run_loop::{AnswerError, End, RunLoop};
use crate::session::{CompactionResult, user_message};
use crate::tree::{EntryId, EntryKind};

/// Most tokens of a summary.
const SUMMARY_TOKENS: u64 = 8_192;

/// A planned compaction, with the conversation's state at that time.
pub(crate) struct Plan {
    /// The request for the summary.
    pub(crate) request: ModelRequest,
    /// The model that writes the summary.
    pub(crate) model: ModelInfo,
    /// Tokens in the context.
    pub(crate) tokens_before: u64,
    /// The first entry that stays. `None`: only entries after `leaf` stay.
    first_kept: Option<EntryId>,
    /// The last entry at the time of the plan.
    leaf: Option<EntryId>,
}

impl RunLoop {
    /// Compacts the conversation and emits the events. If it fails, the conversation is unchanged.
    pub(crate) async fn compact(
        &self,
        reason: CompactionReason,
        instructions: Option<&str>,
    ) -> Result<CompactionResult, AnswerError> {
        let tokens_before = self.shared.state().context_tokens().value();
        self.shared.events.emit(SessionEvent::CompactionStart { reason });
        let result = self.summarise(instructions).await;
        self.emit_compaction_end(reason, tokens_before, &result);
        result
    }

    pub(crate) fn emit_compaction_end(
        &self,
        reason: CompactionReason,
        tokens_before: u64,
        result: &Result<CompactionResult, AnswerError>,
    ) {
        let reported = match result {
            Ok(result) => Ok(result.summary.clone()),
            Err(AnswerError::Overflow(message) | AnswerError::End(End::Failed(message))) => {
                Err(message.clone())
            }
            Err(AnswerError::End(end)) => Err(end.to_string()),
        };
        self.shared.events.emit(SessionEvent::CompactionEnd { reason, tokens_before, result: reported });
    }

    async fn summarise(&self, instructions: Option<&str>) -> Result<CompactionResult, AnswerError> {
        let plan = self.plan(instructions)?;
        let answer = self.ask(plan.request.clone(), &plan.model, CallPurpose::Compaction).await?;
        let summary = self.paid(&answer, &plan.model)?;
        Ok(self.apply(&plan, summary)?)
    }

    /// Plans a compaction. All calls in it have results.
    pub(crate) fn plan(&self, instructions: Option<&str>) -> Result<Plan, End> {
        let mut state = self.shared.state();
        let tokens_before = state.context_tokens().value();
        // The kept part must leave room, or the next turn is compacted again.
        let keep = self.shared.config.context.keep_recent_tokens.min(state.model.context_window / 4);
        let path = state.tree.path();
        let Cut { at, first_kept } = cut::cut(&path, keep);
        let old = old_messages(&state.tree.context().messages, &path, at);
        let (model, leaf) = (state.model.clone(), state.tree.leaf());
        drop(state);
        if old.is_empty() {
            return Err(End::Failed("there is nothing to summarise yet".into()));
        }
        let max_output_tokens = SUMMARY_TOKENS.min(model.max_output_tokens);
        // Bytes that fit next to the summary, assuming the fewest bytes per token.
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
        Ok(Plan { request, model, tokens_before, first_kept, leaf })
    }

    /// Extracts the summary from an answer. The answer is charged even if it has none.
    pub(crate) fn paid(&self, answer: &AssistantMessage, model: &ModelInfo) -> Result<String, AnswerError> {
        let mut state = self.shared.state();
        state.append_usage(model, &answer.usage, false, &self.shared.events).map_err(End::from)?;
        let summary = answer.text().trim().to_owned();
        if summary.is_empty() {
            return Err(End::Failed("the model gave no summary".into()).into());
        }
        Ok(summary)
    }

    /// Inserts a summary in place of the planned range. Messages since then are unchanged.
    pub(crate) fn apply(&self, plan: &Plan, summary: String) -> Result<CompactionResult, End> {
        let &Plan { tokens_before, first_kept, leaf, .. } = plan;
        let mut state = self.shared.state();
        let since = || {
            let mut newest = state.tree.up().take_while(|entry| Some(entry.id) != leaf);
            // The usage of the summary itself is also recorded after that entry.
            let said = newest.by_ref().filter(|entry| matches!(entry.kind, EntryKind::Message { .. }));
            said.last().map(|entry| entry.id)
        };
        let first_kept = first_kept.or_else(since);
        let appended = state.tree.append_compaction(&summary, first_kept, tokens_before);
        let entry = appended.map_err(|error| End::Failed(error.to_string()))?;
        let first_kept = first_kept.unwrap_or(entry).to_string();
        Ok(CompactionResult { summary, first_kept, tokens_before })
    }
}

/// The context's messages before the entry at index `at` of the path. The summary of an earlier compaction is the
/// first of them.
fn old_messages(
    context: &[Arc<AgentMessage>],
    path: &[&crate::tree::Entry],
    at: usize,
) -> Vec<Arc<AgentMessage>> {
    let is_message = |entry: &&&crate::tree::Entry| matches!(entry.kind, EntryKind::Message { .. });
    let kept = path.iter().skip(at).filter(is_message).count();
    context.get(..context.len().saturating_sub(kept)).unwrap_or_default().to_vec()
}
