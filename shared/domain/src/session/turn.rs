//! Turns and the end of the agent's conversation (S0 8.4, decisions 17 to 19).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{AgentFact, AgentSession, AgentSessionStatus, Operation, SessionError, State};
use crate::decision::CancelReason;
use crate::output::SessionOutput;
use crate::text::cut;
use crate::value::{FailureReason, SessionOutcome};
use crate::{DomainContext, Events, MessageId, SessionEvent, Timestamp, TurnId};

/// The turn that is running.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Turn {
    /// Id of the turn, chosen by the agent.
    pub id: TurnId,
    /// When the turn began.
    pub started_at: Timestamp,
}

impl AgentSession {
    /// Records the start of a turn: Idle, Interrupted or Running → Running (decision 18).
    pub(crate) fn start_turn(
        &mut self,
        turn: TurnId,
        message: Option<MessageId>,
        ctx: &mut DomainContext<'_>,
    ) -> Result<Events, SessionError> {
        self.check(Operation::StartTurn)?;
        let mut events = self.abandon_validation("the agent started another turn", ctx)?;
        self.delivery.leave_between_turns();
        self.transition(Operation::StartTurn, State::Running)?;
        self.spending.quota = None;
        self.delivery.open_turn(Turn { id: turn.clone(), started_at: ctx.now });
        self.run_state.wake();
        if let Some(run) = self.run_state.current_mut() {
            // An agent that works has received `begin`.
            run.unheard_begin = None;
        }
        self.run_state.was_fruitful();
        // The agent has these messages, and its turn has started.
        self.delivery.forget_injected(message);
        events.push(SessionEvent::TurnStarted { turn_id: turn, message_id: message });
        Ok(events)
    }

    /// Records the end of a turn: → Idle, or Running while its criteria are checked (decision 36).
    pub(crate) fn turn_ended(
        &mut self,
        turn: TurnId,
        output: Option<SessionOutput>,
        outcome: SessionOutcome,
        ctx: &mut DomainContext<'_>,
    ) -> Result<Events, SessionError> {
        let other = self.delivery.turn().is_some_and(|open| open.id != turn);
        if other || self.is_between_turns() {
            // The turn was replaced or had already ended; the open one continues.
            let status = self.status();
            return Err(SessionError::InvalidTransition {
                operation: Operation::RecordTurnCompleted,
                status,
            });
        }
        if outcome == SessionOutcome::ExecutionError {
            // A turn that ends in an error fails the session (decision 39).
            self.review.last_outcome = Some(outcome);
            let message = "The agent's turn ended in an error.".to_owned();
            return self.record_failure(FailureReason::AgentError, Some(message), ctx);
        }
        // With `BudgetExceeded` the agent refers to the cap that it knew. The cap may have been raised since, so only the recorded
        // spend decides whether the budget is used up.
        if self.validates() {
            return Ok(self.hold_end(AgentFact::TurnCompleted { turn, output, outcome }, ctx));
        }
        self.complete_turn(output, outcome, ctx)
    }

    /// Records the end of the agent's conversation. If criteria are checked, the sidecar is still needed (decision 36).
    pub(crate) fn conversation_ended(
        &mut self,
        is_error: bool,
        reason: String,
        message: Option<String>,
        output: Option<SessionOutput>,
        ctx: &mut DomainContext<'_>,
    ) -> Result<Events, SessionError> {
        if self.is_continuing() {
            // No turn failed: a new run delivers the message to continue.
            return Ok(self.order_stop(ctx));
        }
        if self.is_validating() || (!is_error && self.validates()) {
            return Ok(self.hold_end(AgentFact::SessionEnded { is_error, reason, message, output }, ctx));
        }
        self.end_conversation(is_error, &reason, message, output, ctx)
    }

    /// Completes a turn, with or without output: → Idle (S0 8.4 `RecordTurnCompleted`, `RecordOutput`).
    pub(crate) fn complete_turn(
        &mut self,
        output: Option<SessionOutput>,
        outcome: SessionOutcome,
        ctx: &mut DomainContext<'_>,
    ) -> Result<Events, SessionError> {
        let mut output = output.or_else(|| self.review.staged.clone());
        let operation =
            if output.is_some() { Operation::RecordOutput } else { Operation::RecordTurnCompleted };
        self.check(operation)?;
        let was_idle = self.status() == AgentSessionStatus::Idle;
        self.transition(operation, State::Idle)?;
        self.review.staged = None;
        let returned = output.as_ref().and_then(|output| self.return_output_by_message(output));
        output = output.filter(|_| returned.is_none());
        let mut events = returned.unwrap_or_default();
        if !was_idle {
            self.delivery.close_turn();
            self.review.last_outcome = Some(outcome);
            self.forget_answers();
            self.delivery.forget_injected(None);
            self.spending.count_turn(ctx.now);
            events.extend(self.close_requests(CancelReason::TurnEnded, ctx.now));
        }
        if !was_idle {
            events.extend(self.report_missing(Self::NO_CONTEXT_USAGE));
        }
        if let Some(output) = output {
            events.extend(self.record_output(output, ctx));
        } else {
            events.push(SessionEvent::TurnCompleted {
                turn_count: self.metrics().turn_count,
                last_turn_at: ctx.now,
                outcome,
            });
        }
        Ok(events)
    }

    /// Ends the agent's conversation and its open turn, and keeps the agent's reason (decision 19).
    pub(crate) fn end_conversation(
        &mut self,
        is_error: bool,
        reason: &str,
        message: Option<String>,
        output: Option<SessionOutput>,
        ctx: &mut DomainContext<'_>,
    ) -> Result<Events, SessionError> {
        if is_error && self.status() == AgentSessionStatus::Idle {
            // No turn failed: a new run delivers the next message.
            self.run_state.explain_fruitless(message.unwrap_or_else(|| reason.to_owned()));
            return Ok(self.order_stop(ctx));
        }
        if is_error {
            self.review.last_outcome = Some(SessionOutcome::ExecutionError);
            let text = message.map_or_else(|| reason.to_owned(), |m| format!("{reason}: {m}"));
            return self.record_failure(FailureReason::AgentError, Some(cut(&text, 1000)), ctx);
        }
        let open = self.delivery.turn().is_some() || self.status() != AgentSessionStatus::Idle;
        // The end of the turn often contains the same output; do not record it twice.
        let output =
            output.filter(|new| open || self.review.output().is_none_or(|recorded| recorded.output != *new));
        let mut events = if open || output.is_some() || self.review.staged.is_some() {
            self.complete_turn(output, SessionOutcome::Completed, ctx)?
        } else {
            Vec::new()
        };
        // A sidecar without an agent could only refuse commands. The next message starts a new run, which continues the
        // conversation (decision 22).
        events.extend(self.order_stop(ctx));
        Ok(events)
    }

    /// Applies the end of the turn when an interrupt is confirmed. Turns that ended before the interrupt count (decision 17); a
    /// turn that started after them is the interrupted one.
    pub(crate) fn apply_turn_end_of_interrupt(&mut self, ctx: &mut DomainContext<'_>) -> Events {
        let (mut events, mut kept) = (Vec::new(), Vec::new());
        for fact in self.delivery.take_all_deferred() {
            match fact {
                AgentFact::QuestionAsked { request, .. } | AgentFact::PlanShown { request, .. } => {
                    events.push(SessionEvent::RequestClosed { request_id: request });
                }
                AgentFact::TurnStarted { turn, message } => {
                    // As without deferral: the agent has these messages, and their turn has started.
                    self.delivery.forget_injected(message);
                    events.push(SessionEvent::TurnStarted { turn_id: turn, message_id: message });
                }
                ended @ (AgentFact::TurnCompleted { .. }
                | AgentFact::SessionEnded { is_error: false, .. }) => {
                    let (output, outcome) = ended.end_of_turn();
                    self.review.last_outcome = Some(outcome);
                    self.spending.count_turn(ctx.now);
                    if let Some(output) = output.or_else(|| self.review.staged.take()) {
                        events.extend(self.record_output(output, ctx));
                    } else {
                        events.push(SessionEvent::TurnCompleted {
                            turn_count: self.metrics().turn_count,
                            last_turn_at: ctx.now,
                            outcome,
                        });
                    }
                }
                other => kept.push(other),
            }
        }
        self.delivery.defer_first(kept);
        self.delivery.close_turn();
        events
    }
}
