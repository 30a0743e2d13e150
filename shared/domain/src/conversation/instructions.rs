//! Instructions of the owner that are not messages: for a retry, and for a summary of the conversation.

use super::Conversation;
use crate::escalation::{InputGuardrail, TripSubject};
use crate::session::{SessionError, judge_input};
use crate::text::Feedback;
use crate::value::Adjustment;
use crate::{DomainContext, Events};

impl Conversation {
    /// Retries a failed session (decision 24). Its agent receives the instruction and, in a new conversation, the objective once more.
    ///
    /// # Errors
    /// Those of [`crate::AgentSession::retry`]; [`SessionError::InputBlocked`] if a guardrail of the brief refuses a text.
    pub fn retry_guarded(
        &mut self,
        instruction: Option<Feedback>,
        fresh: bool,
        guardrails: &[InputGuardrail],
        ctx: &DomainContext<'_>,
    ) -> Result<Events, SessionError> {
        self.session.check_retry()?;
        let mut tripped = Events::new();
        if fresh {
            let objective = self.session.objective().as_str();
            tripped.extend(judge_input(guardrails, TripSubject::Objective, objective)?);
        }
        tripped.extend(judge_instruction(instruction.as_ref(), guardrails)?);
        let mut events = self.session.retry(instruction, fresh, ctx)?;
        events.extend(tripped);
        Ok(events)
    }

    /// Requests a summary of the conversation. The agent receives the instructions with the request.
    ///
    /// # Errors
    /// Those of [`crate::AgentSession::adjust`]; [`SessionError::InputBlocked`] if a guardrail of the brief refuses the instructions.
    pub fn compact_guarded(
        &mut self,
        instructions: Option<&Feedback>,
        guardrails: &[InputGuardrail],
        ctx: &mut DomainContext<'_>,
    ) -> Result<Events, SessionError> {
        let compact =
            [Adjustment::Compact { instructions: instructions.map(|text| text.as_str().to_owned()) }];
        self.session.check_adjust(&compact)?;
        let tripped = judge_instruction(instructions, guardrails)?;
        let mut events = self.session.adjust(&compact, ctx)?;
        events.extend(tripped);
        Ok(events)
    }
}

fn judge_instruction(
    instruction: Option<&Feedback>,
    guardrails: &[InputGuardrail],
) -> Result<Events, SessionError> {
    let Some(instruction) = instruction else { return Ok(Events::new()) };
    Ok(judge_input(guardrails, TripSubject::Instruction, instruction.as_str())?)
}
