//! A summary takes the place of the older part of a conversation (S1 6.1).

mod cut;
mod prompt;

use std::sync::Arc;

use self::cut::Cut;
use crate::conversation::{for_model, transcript};
use crate::event::{CompactionReason, SessionEvent};
use crate::governor::CallPurpose;
use crate::message::AgentMessage;
use crate::model::ModelRequest;
use crate::run_loop::{End, NoAnswer, RunLoop};
use crate::session::{CompactionResult, user_message};
use crate::tree::EntryKind;

/// Tokens that a summary takes at most.
const SUMMARY_TOKENS: u64 = 8_192;

impl RunLoop {
    /// Summarises what is older than the recent messages, and tells of it. What fails leaves the conversation as it was.
    pub(crate) async fn compact(
        &self,
        reason: CompactionReason,
        instructions: Option<&str>,
    ) -> Result<CompactionResult, NoAnswer> {
        let tokens_before = self.shared.state().context_tokens().value();
        self.shared.events.emit(SessionEvent::CompactionStart { reason });
        let result = self.summarise(instructions, tokens_before).await;
        let told = match &result {
            Ok(result) => Ok(result.summary.clone()),
            Err(NoAnswer::Overflow(message) | NoAnswer::End(End::Failed(message))) => Err(message.clone()),
            Err(NoAnswer::End(end)) => Err(end.to_string()),
        };
        self.shared.events.emit(SessionEvent::CompactionEnd { reason, tokens_before, result: told });
        result
    }

    async fn summarise(
        &self,
        instructions: Option<&str>,
        tokens_before: u64,
    ) -> Result<CompactionResult, NoAnswer> {
        let (old, first_kept, model) = {
            let state = self.shared.state();
            // What is kept must leave room, or the next turn is compacted again.
            let keep = self.shared.config.context.keep_recent_tokens.min(state.model.context_window / 4);
            let path = state.tree.path();
            let Cut { at, first_kept } = cut::cut(&path, keep);
            (old_messages(&state.tree.context().messages, &path, at), first_kept, state.model.clone())
        };
        if old.is_empty() {
            return Err(End::Failed("there is nothing to summarise yet".into()).into());
        }
        let max_output_tokens = SUMMARY_TOKENS.min(model.max_output_tokens);
        // Bytes that fit beside the summary, at the fewest bytes that a token has.
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
        let answer = self.ask(request, &model, CallPurpose::Compaction).await?;
        let mut state = self.shared.state();
        state.append_usage(&model, &answer.usage, false, &self.shared.events).map_err(End::from)?;
        let summary = answer.text().trim().to_owned();
        if summary.is_empty() {
            return Err(End::Failed("the model gave no summary".into()).into());
        }
        let appended = state.tree.append_compaction(&summary, first_kept, tokens_before);
        let entry = appended.map_err(|error| End::Failed(error.to_string()))?;
        let first_kept = first_kept.unwrap_or(entry).to_string();
        Ok(CompactionResult { summary, first_kept, tokens_before })
    }
}

/// The messages in the context that stand before the entry at `at` of the path. The summary of an earlier compaction
/// is the first of them.
fn old_messages(
    context: &[Arc<AgentMessage>],
    path: &[&crate::tree::Entry],
    at: usize,
) -> Vec<Arc<AgentMessage>> {
    let is_message = |entry: &&&crate::tree::Entry| matches!(entry.kind, EntryKind::Message { .. });
    let kept = path.iter().skip(at).filter(is_message).count();
    context.get(..context.len().saturating_sub(kept)).unwrap_or_default().to_vec()
}
