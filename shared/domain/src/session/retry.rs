//! Retrying a failed session, and how the agent of a run begins (S0 8.4; decisions 22, 24).

use serde::{Deserialize, Serialize};

use super::{AgentSession, Operation, RunCause, SessionError, State};
use crate::text::Feedback;
use crate::{DomainContext, Events, SessionEvent};

/// The latest retry of a session (decision 24).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Retry {
    /// Includes this retry.
    pub(super) count: u32,
    /// Instruction for the next run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    instruction: Option<Feedback>,
    /// Whether the next run starts a new conversation.
    fresh: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Opening {
    /// Whether to continue the conversation of an earlier run.
    pub resume_conversation: bool,
    /// Prompt of the first turn; `None` to wait for a message.
    pub prompt: Option<String>,
}

impl AgentSession {
    pub fn check_retry(&self) -> Result<(), SessionError> {
        self.check(Operation::Retry)?;
        if let Some(continuation) = self.chain.continuation() {
            return Err(SessionError::Continued { continuation });
        }
        self.spending.ensure_budget()?;
        if self.retry_count() >= self.definition.settings.max_retries {
            return Err(SessionError::RetriesExhausted { max: self.definition.settings.max_retries });
        }
        Ok(())
    }

    /// Failed → Queued (S0 8.4 `Retry`). Keeps the spend and clears the failure (decision 24).
    pub fn retry(
        &mut self,
        instruction: Option<Feedback>,
        fresh: bool,
        ctx: &DomainContext<'_>,
    ) -> Result<Events, SessionError> {
        self.check_retry()?;
        self.transition(Operation::Retry, State::Queued)?;
        let count = self.retry_count() + 1;
        self.retry = Some(Retry { count, instruction: instruction.clone(), fresh });
        self.completed_at = None;
        self.review.forget_outputs();
        self.requests.forget();
        self.delivery.forget_deferred();
        self.run_state.wake();
        self.run_state.was_fruitful();
        self.spending.quota = None;
        self.forget_full_disk();
        // A kill that did not end the session has no effect on the next run.
        self.kill = None;
        if let Some(auto) = &mut self.auto_continue {
            auto.current_continuation_count = 0;
        }
        self.run_state.request_slot(RunCause::Retry);
        self.updated_at = ctx.now;
        Ok(vec![SessionEvent::Retried { retry_count: count, additional_instruction: instruction }])
    }

    /// How the agent of the current run begins (decisions 22, 24).
    pub fn opening(&self) -> Opening {
        let objective = self.definition.objective.as_str();
        match (self.run_state.current().map(|run| run.cause), &self.retry) {
            (Some(RunCause::Wake), _) => Opening { resume_conversation: true, prompt: None },
            (Some(RunCause::Retry), Some(Retry { instruction, fresh: false, .. })) => Opening {
                resume_conversation: true,
                prompt: Some(
                    instruction.as_ref().map_or("Go on with your work.", Feedback::as_str).to_owned(),
                ),
            },
            (Some(RunCause::Retry), Some(Retry { instruction: Some(instruction), fresh: true, .. })) => {
                Opening { resume_conversation: false, prompt: Some(format!("{objective}\n\n{instruction}")) }
            }
            _ => Opening { resume_conversation: false, prompt: Some(objective.to_owned()) },
        }
    }
}
