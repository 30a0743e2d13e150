//! A summary takes the place of the older part of a conversation (S1 6.1).

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
use crate::run_loop::{End, NoAnswer, RunLoop};
use crate::session::{CompactionResult, user_message};
use crate::tree::{EntryId, EntryKind};

/// Tokens that a summary takes at most.
const SUMMARY_TOKENS: u64 = 8_192;

/// What is summarised, as it stood when that was decided.
pub(crate) struct Plan {
    /// Asks for the summary.
    pub(crate) request: ModelRequest,
    /// The model that writes it.
    pub(crate) model: ModelInfo,
    /// Tokens in the context.
    pub(crate) tokens_before: u64,
    /// The first entry that stays as it is; none: what comes after `leaf`.
    first_kept: Option<EntryId>,
    /// The last entry that there was.
    leaf: Option<EntryId>,
}

impl RunLoop {
    /// Summarises what is older than the recent messages, and tells of it. What fails leaves the conversation as it was.
    pub(crate) async fn compact(
        &self,
        reason: CompactionReason,
        instructions: Option<&str>,
    ) -> Result<CompactionResult, NoAnswer> {
        let tokens_before = self.shared.state().context_tokens().value();
        self.shared.events.emit(SessionEvent::CompactionStart { reason });
        let result = self.summarise(instructions).await;
        self.told_of_compaction(reason, tokens_before, &result);
        result
    }

    /// Tells what came of a summary.
    pub(crate) fn told_of_compaction(
        &self,
        reason: CompactionReason,
        tokens_before: u64,
        result: &Result<CompactionResult, NoAnswer>,
    ) {
        let told = match result {
            Ok(result) => Ok(result.summary.clone()),
            Err(NoAnswer::Overflow(message) | NoAnswer::End(End::Failed(message))) => Err(message.clone()),
            Err(NoAnswer::End(end)) => Err(end.to_string()),
        };
        self.shared.events.emit(SessionEvent::CompactionEnd { reason, tokens_before, result: told });
    }

    async fn summarise(&self, instructions: Option<&str>) -> Result<CompactionResult, NoAnswer> {
        let plan = self.plan(instructions)?;
        let answer = self.ask(plan.request.clone(), &plan.model, CallPurpose::Compaction).await?;
        let summary = self.paid(&answer, &plan.model)?;
        Ok(self.apply(plan, summary)?)
    }

    /// What is to be summarised now: each call of it has its result.
    pub(crate) fn plan(&self, instructions: Option<&str>) -> Result<Plan, End> {
        let mut state = self.shared.state();
        let tokens_before = state.context_tokens().value();
        // What is kept must leave room, or the next turn is compacted again.
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
        Ok(Plan { request, model, tokens_before, first_kept, leaf })
    }

    /// The summary of an answer, which is paid for whatever it says.
    pub(crate) fn paid(&self, answer: &AssistantMessage, model: &ModelInfo) -> Result<String, NoAnswer> {
        let mut state = self.shared.state();
        state.append_usage(model, &answer.usage, false, &self.shared.events).map_err(End::from)?;
        let summary = answer.text().trim().to_owned();
        if summary.is_empty() {
            return Err(End::Failed("the model gave no summary".into()).into());
        }
        Ok(summary)
    }

    /// Puts a summary in the place of what was planned. What was said since then stays as it is.
    pub(crate) fn apply(&self, plan: Plan, summary: String) -> Result<CompactionResult, End> {
        let Plan { tokens_before, first_kept, leaf, .. } = plan;
        let mut state = self.shared.state();
        let since = || {
            let mut newest = state.tree.up().take_while(|entry| Some(entry.id) != leaf);
            // The price of the summary itself stands there, too.
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
