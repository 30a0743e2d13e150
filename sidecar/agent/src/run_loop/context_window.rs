//! What is done when the context window fills up (S1 6.1, ruling 35).

use pilothouse_domain::value::ContextPolicy;

use super::call::NoAnswer;
use super::{End, RunLoop};
use crate::event::CompactionReason;
use crate::session::{SessionError, user_message};

/// Under the policy of handing off: how far that is.
#[derive(Debug, Default)]
pub(super) enum Window {
    /// There is room.
    #[default]
    Open,
    /// The agent was told, and may take this many turns yet.
    HandingOff(u32),
}

impl RunLoop {
    /// Whether the agent summarises its own conversation.
    pub(super) fn compacts(&self) -> bool {
        self.shared.config.context.policy == ContextPolicy::Compact
    }

    /// What was asked for by hand; it runs between turns, after what is under way, and an error is the asker's.
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
                Err(NoAnswer::Overflow(message)) => (Err(SessionError::Compaction(message)), None),
                Err(NoAnswer::End(End::Failed(error))) => (Err(SessionError::Compaction(error)), None),
                Err(NoAnswer::End(end)) => (Err(SessionError::Compaction(end.to_string())), Some(end)),
            };
            // Whoever asked may have gone.
            let _ = request.reply.send(reply);
            if let Some(end) = end {
                return Err(end);
            }
        }
    }

    /// Looks at the context window after a turn; whether the model has said everything still.
    pub(super) async fn after_turn(&mut self, ended: bool) -> Result<bool, End> {
        self.go_on()?;
        if let Window::HandingOff(left) = &mut self.window {
            *left = left.saturating_sub(1);
            return if ended || *left == 0 { Err(End::Exhausted) } else { Ok(false) };
        }
        if !self.passes_threshold() {
            return Ok(ended);
        }
        if self.compacts() && !ended {
            // The agent goes on meanwhile (S1 6.1).
            self.begin_background().await?;
            return Ok(false);
        }
        if self.compacts() {
            self.finish_background().await?;
            if !self.passes_threshold() {
                return Ok(ended);
            }
            // A summary that fails is tried again after the next turn; the conversation still fits.
            return match self.compact(CompactionReason::Threshold, None).await {
                Ok(_) | Err(NoAnswer::Overflow(_) | NoAnswer::End(End::Failed(_))) => Ok(ended),
                Err(NoAnswer::End(end)) => Err(end),
            };
        }
        let settings = &self.shared.config.context;
        let Some(prompt) = settings.handoff_prompt.as_deref().filter(|_| settings.handoff_turns > 0) else {
            return Err(End::Exhausted);
        };
        self.window = Window::HandingOff(settings.handoff_turns);
        self.shared.state().append(user_message(prompt, Vec::new()), &self.shared.events)?;
        Ok(false)
    }

    fn passes_threshold(&self) -> bool {
        self.is_fuller_than(u64::from(self.shared.config.context.threshold_percent))
    }

    /// Whether half of what was left at the threshold is used: then the next turn waits for the summary.
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
