//! Reacts to a context window that fills up (S1 6.1, decision 35).

use pilothouse_domain::value::ContextPolicy;

use super::call::ReplyError;
use super::{End, RunLoop};
use crate::event::{CompactionReason, SessionEvent};
use crate::message::user_message;
use crate::session::status::SessionError;

/// Progress under the handoff policy.
#[derive(Debug, Default)]
pub(super) enum Window {
    /// Below the threshold.
    #[default]
    Open,
    /// The agent was asked for its handoff. Its remaining turns.
    HandingOff(u32),
}

impl RunLoop {
    pub(super) fn compacts(&self) -> bool {
        self.shared.config.context.policy == ContextPolicy::Compact
    }

    /// Runs requested compactions between turns, after a background compaction. Their callers get the errors.
    pub(super) async fn requested_compactions(&mut self) -> Result<(), End> {
        loop {
            let next = {
                let mut state = self.shared.state();
                if state.compactions.is_empty() { None } else { Some(state.compactions.remove(0)) }
            };
            let Some(request) = next else { return Ok(()) };
            self.finish_background().await?;
            let compacted = self.compact(CompactionReason::Manual, request.instructions.as_deref()).await;
            let (reply, end) = match compacted {
                Ok(result) => (Ok(result), None),
                Err(ReplyError::Overflow(message) | ReplyError::RejectedContent(_, message)) => {
                    (Err(SessionError::Compaction(message)), None)
                }
                Err(ReplyError::End(End::Failed(error))) => (Err(SessionError::Compaction(error)), None),
                Err(ReplyError::End(end)) => (Err(SessionError::Compaction(end.to_string())), Some(end)),
            };
            // The caller may have ended.
            let _ = request.reply.send(reply);
            if let Some(end) = end {
                return Err(end);
            }
        }
    }

    /// Returns whether the model is still finished.
    pub(super) async fn after_turn(&mut self, ended: bool) -> Result<bool, End> {
        self.check_cancelled()?;
        if let Window::HandingOff(left) = &mut self.window {
            *left = left.saturating_sub(1);
            return if ended || *left == 0 { Err(End::Exhausted) } else { Ok(false) };
        }
        if !self.passes_threshold() {
            return Ok(ended);
        }
        if self.compacts() && !ended {
            // The compaction runs concurrently with the conversation (S1 6.1).
            self.begin_background().await?;
            return Ok(false);
        }
        if self.compacts() {
            self.finish_background().await?;
            if !self.passes_threshold() {
                return Ok(ended);
            }
            // If the summary fails, the conversation still fits, and the next turn tries again.
            return match self.compact(CompactionReason::Threshold, None).await {
                Err(ReplyError::End(end)) if !matches!(end, End::Failed(_)) => Err(end),
                _ => Ok(ended),
            };
        }
        let settings = &self.shared.config.context;
        let Some(prompt) = settings.handoff_prompt.as_deref().filter(|_| settings.handoff_turns > 0) else {
            return Err(End::Exhausted);
        };
        self.window = Window::HandingOff(settings.handoff_turns);
        self.shared.state().append(user_message(prompt, Vec::new()), &self.shared.events)?;
        self.shared.events.emit(SessionEvent::HandoffRequested);
        Ok(false)
    }

    fn passes_threshold(&self) -> bool {
        let budget = self.shared.config.context.budget_tokens;
        let is_over = |budget| self.shared.state().context_tokens().value() > budget;
        budget.is_some_and(is_over)
            || self.is_fuller_than(u64::from(self.shared.config.context.threshold_percent))
    }

    /// Whether half of the space above the threshold is used, so that the next turn must wait for the summary.
    pub(super) fn is_pressing(&self) -> bool {
        let threshold = u64::from(self.shared.config.context.threshold_percent).min(100);
        self.is_fuller_than(threshold + (100 - threshold) / 2)
    }

    fn is_fuller_than(&self, percent: u64) -> bool {
        let mut state = self.shared.state();
        let tokens = state.context_tokens().value();
        tokens.saturating_mul(100) > state.model.context_window.saturating_mul(percent)
    }
}
