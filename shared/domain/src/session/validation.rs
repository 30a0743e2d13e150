//! Auto-continue (S0 8.5, 8.10; decision 36): the end of a turn takes effect only after its criteria were checked. If they are not
//! met, another turn follows.
//!
//! The facts that ended the turn are held until the check is done. They take effect when all criteria are met, when no further
//! continuation is allowed, or when the owner or a message intervenes. The rules that also involve the queue are in
//! [`crate::conversation`].

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::AgentSessionStatus as S;
use super::{AgentFact, AgentSession, LifecycleCommand, Operation, PendingCommand, SessionError, State};
use crate::decision::CancelReason;
use crate::output::SessionOutput;
use crate::value::{AutoContinueConfig, AutoContinueEnd, CriterionResult};
use crate::{CommandId, CommandRef, Deadlines, DomainContext, Events, SessionEvent, Timestamp};

/// State of a Running session without an open turn.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all_fields = "camelCase")]
pub(crate) enum BetweenTurns {
    /// The criteria of the last turn are being checked.
    Validating {
        /// Held facts, in order: the end of the turn, of the conversation, or both.
        ended: Vec<AgentFact>,
        /// Set once it was sent.
        #[serde(rename = "order")]
        command: Option<PendingCommand>,
    },
    /// The agent is about to receive a message to continue: the criteria are not met, or the last turn was lost with its process
    /// during a pause.
    Continuing,
}

fn is_conversation_end(fact: &AgentFact) -> bool {
    matches!(fact, AgentFact::SessionEnded { .. })
}

impl AgentSession {
    /// Whether the criteria of the last turn are being checked.
    pub const fn is_validating(&self) -> bool {
        matches!(self.delivery.between_turns(), Some(BetweenTurns::Validating { .. }))
    }

    pub(crate) const fn is_between_turns(&self) -> bool {
        self.delivery.between_turns().is_some()
    }

    pub(crate) const fn is_continuing(&self) -> bool {
        matches!(self.delivery.between_turns(), Some(BetweenTurns::Continuing))
    }

    /// Whether the check is due and was not requested yet.
    pub(crate) const fn is_unvalidated(&self) -> bool {
        matches!(self.delivery.between_turns(), Some(BetweenTurns::Validating { command: None, .. }))
    }

    const fn validation_command(&self) -> Option<&PendingCommand> {
        match self.delivery.between_turns() {
            Some(BetweenTurns::Validating { command: Some(command), .. }) => Some(command),
            _ => None,
        }
    }

    const fn validation_command_mut(&mut self) -> Option<&mut PendingCommand> {
        match self.delivery.between_turns_mut() {
            Some(BetweenTurns::Validating { command: Some(command), .. }) => Some(command),
            _ => None,
        }
    }

    /// Whether the end of the open turn has to be validated.
    pub(crate) fn validates(&self) -> bool {
        let status = self.status();
        self.auto_continue.as_ref().is_some_and(|auto| auto.is_enabled)
            && (status == S::Running || status.is_waiting())
            && self.is_live()
    }

    /// Holds the end of a turn until its validation. The end of the conversation may follow it.
    pub(crate) fn hold_end(&mut self, end: AgentFact, ctx: &DomainContext<'_>) -> Events {
        if let Some(BetweenTurns::Validating { ended, .. }) = self.delivery.between_turns_mut() {
            ended.push(end);
            return Vec::new();
        }
        self.delivery.close_turn();
        self.delivery.forget_injected(None);
        self.delivery.enter_between_turns(BetweenTurns::Validating { ended: vec![end], command: None });
        self.enter(State::Running);
        self.close_requests(CancelReason::TurnEnded, ctx.now)
    }

    /// Waits for a message to take the place of a turn that was lost with its process.
    pub(crate) fn replace_lost_turn(&mut self) {
        if self.status() == S::Running {
            self.delivery.enter_between_turns(BetweenTurns::Continuing);
        }
    }

    /// Whether the session waits for a message to continue with, and no turn has begun since, not even one whose start is deferred.
    pub(crate) fn awaits_continuation(&self) -> bool {
        self.is_continuing() && !self.delivery.is_turn_open_by_deferred()
    }

    /// Defers the held facts again because a pause was requested (decision 17). A session that waits for a message to continue with
    /// still waits for it after the resume.
    pub(crate) fn hand_back_end(&mut self) {
        if self.is_validating()
            && let Some(BetweenTurns::Validating { ended, .. }) = self.delivery.leave_between_turns()
        {
            self.delivery.defer_first(ended);
        }
    }

    /// The same for a request after which the agent does not continue.
    pub(crate) fn end_between_turns(&mut self) {
        self.hand_back_end();
        self.delivery.leave_between_turns();
    }

    fn release_end(&mut self, ctx: &mut DomainContext<'_>) -> Result<Events, SessionError> {
        let Some(BetweenTurns::Validating { ended, .. }) = self.delivery.leave_between_turns() else {
            return Ok(Vec::new());
        };
        let mut events = Vec::new();
        for fact in ended {
            events.extend(match fact {
                AgentFact::TurnCompleted { output, outcome, .. } => {
                    self.complete_turn(output, outcome, ctx)?
                }
                AgentFact::SessionEnded { is_error, reason, message, output } => {
                    self.end_conversation(is_error, &reason, message, output, ctx)?
                }
                _ => Vec::new(),
            });
        }
        Ok(events)
    }

    fn take_held_output(&mut self) -> Option<SessionOutput> {
        let Some(BetweenTurns::Validating { ended, .. }) = self.delivery.between_turns_mut() else {
            return None;
        };
        let mut last = None;
        for fact in ended {
            if let AgentFact::TurnCompleted { output, .. } | AgentFact::SessionEnded { output, .. } = fact {
                last = output.take().or(last);
            }
        }
        let staged = self.review.staged.take();
        last.or(staged)
    }

    /// Counts the turn and keeps its output for the turn that will be reviewed.
    pub(crate) fn count_held_turn(&mut self, ctx: &DomainContext<'_>) {
        if self.is_validating() {
            self.review.staged = self.take_held_output();
            self.delivery.leave_between_turns();
            self.spending.count_turn(ctx.now);
        }
    }

    /// Sends the command to check the criteria.
    pub(crate) fn order_validation(&mut self, ctx: &mut DomainContext<'_>) -> Events {
        let Some(command) = self.run_state.command(ctx) else { return Vec::new() };
        let Some(BetweenTurns::Validating { command: pending, .. }) = self.delivery.between_turns_mut()
        else {
            return Vec::new();
        };
        *pending = Some(PendingCommand {
            command_id: command.command_id,
            attempt: 1,
            sent_at: ctx.now,
            received_at: None,
            late: false,
            cancel_accepted_at: None,
        });
        vec![SessionEvent::ValidationRequested { command }]
    }

    pub(crate) fn validation_received(&mut self, command: CommandId, ctx: &DomainContext<'_>) {
        if let Some(pending) = self.validation_command_mut()
            && pending.command_id == command
        {
            pending.received_at.get_or_insert(ctx.now);
        }
    }

    /// Applies the results of a validation. The session becomes idle or continues.
    pub(crate) fn validated(
        &mut self,
        command: CommandId,
        results: &[CriterionResult],
        ctx: &mut DomainContext<'_>,
    ) -> Result<Events, SessionError> {
        if self.validation_command().is_none_or(|pending| pending.command_id != command) {
            return Err(SessionError::StaleAck);
        }
        let Some(auto) = &self.auto_continue else { return self.release_end(ctx) };
        if results.len() < auto.validation_criteria.len() {
            let reason = "The sidecar stopped the validation early.".to_owned();
            return self.stop_loop(AutoContinueEnd::ValidationUnavailable, Some(reason), ctx);
        }
        match AutoContinueConfig::failure(results) {
            None => {
                let mut events = vec![SessionEvent::ValidationPassed {}];
                events.extend(self.release_end(ctx)?);
                Ok(events)
            }
            Some(reason) if auto.may_continue() => Ok(self.continue_loop(reason, ctx)),
            Some(reason) => self.stop_loop(AutoContinueEnd::MaxContinuations, Some(reason), ctx),
        }
    }

    /// Handles a refused validation, for example by an older sidecar.
    pub(crate) fn validation_refused(
        &mut self,
        command: CommandId,
        ctx: &mut DomainContext<'_>,
    ) -> Result<Events, SessionError> {
        if self.validation_command().is_none_or(|pending| pending.command_id != command) {
            return Ok(Vec::new());
        }
        let reason = "The sidecar refused to check its criteria.".to_owned();
        self.stop_loop(AutoContinueEnd::ValidationUnavailable, Some(reason), ctx)
    }

    /// Continues because the criteria are not met. The output of the turn is kept for the turn that meets them.
    pub(crate) fn continue_loop(&mut self, reason: String, ctx: &mut DomainContext<'_>) -> Events {
        let over = matches!(self.delivery.between_turns(), Some(BetweenTurns::Validating { ended, .. })
            if ended.iter().any(is_conversation_end));
        self.count_held_turn(ctx);
        self.delivery.enter_between_turns(BetweenTurns::Continuing);
        let Some(auto) = &mut self.auto_continue else { return Vec::new() };
        auto.current_continuation_count += 1;
        let mut events = vec![SessionEvent::ValidationFailed {
            reason,
            continuation: auto.current_continuation_count,
            max_continuations: auto.max_continuations,
        }];
        if over {
            // The sidecar has no agent any more; a new run delivers the message.
            events.extend(self.order_stop(ctx));
        }
        events
    }

    /// Ends auto-continue without the criteria being met. After the last continuation the output can be viewed but not approved (S0
    /// 8.10).
    pub(crate) fn stop_loop(
        &mut self,
        cause: AutoContinueEnd,
        reason: Option<String>,
        ctx: &mut DomainContext<'_>,
    ) -> Result<Events, SessionError> {
        let continuations = self.auto_continue.as_ref().map_or(0, |auto| auto.current_continuation_count);
        let mut events = vec![SessionEvent::AutoContinueStopped { cause, reason, continuations }];
        let unmet = (cause == AutoContinueEnd::MaxContinuations).then(|| self.take_held_output());
        events.extend(self.release_end(ctx)?);
        if let Some(output) = unmet {
            // Keep the output for viewing, but not for approval.
            if let Some(output) = output {
                events.extend(self.keep_output(output, ctx));
            }
            self.record_review_cancelled(CancelReason::Superseded, ctx.now);
            self.review.end();
        }
        Ok(events)
    }

    /// Ends the turn without a validation, because the owner or a message intervened.
    pub(crate) fn abandon_validation(
        &mut self,
        why: &str,
        ctx: &mut DomainContext<'_>,
    ) -> Result<Events, SessionError> {
        if !self.is_validating() {
            return Ok(Vec::new());
        }
        let mut events = vec![SessionEvent::ValidationAbandoned { reason: why.to_owned() }];
        events.extend(self.release_end(ctx)?);
        Ok(events)
    }

    /// Becomes idle because the message to continue did not reach the agent.
    pub(crate) fn rest_between_turns(&mut self) -> Result<Events, SessionError> {
        self.transition(Operation::RecordTurnCompleted, State::Idle)?;
        self.delivery.leave_between_turns();
        let continuations = self.auto_continue.as_ref().map_or(0, |auto| auto.current_continuation_count);
        let cause = AutoContinueEnd::NotDelivered;
        Ok(vec![SessionEvent::AutoContinueStopped { cause, reason: None, continuations }])
    }

    /// Handles the death of the process between two turns: no turn failed (decision 17). A waiting message to continue starts a new
    /// run; the result of a pending validation stays unknown.
    pub(crate) fn died_between_turns(&mut self, ctx: &mut DomainContext<'_>) -> Result<Events, SessionError> {
        self.run_state.hibernate();
        if self.is_validating() {
            let reason = "The sidecar ended before it reported the result.".to_owned();
            return self.stop_loop(AutoContinueEnd::ValidationUnavailable, Some(reason), ctx);
        }
        self.transition(Operation::RecordTurnCompleted, State::Idle)?;
        self.delivery.leave_between_turns();
        Ok(Vec::new())
    }

    /// When the validation is late: first its `received`, then its result. The sidecar enforces the time limit of the criteria;
    /// this deadline adds a margin.
    pub(crate) fn validation_deadline(&self, limits: &Deadlines) -> Option<Timestamp> {
        let pending = self.validation_command()?;
        let most = self.auto_continue.as_ref().map_or(0, |auto| auto.validation_timeout_seconds);
        Some(match pending.received_at {
            None => self.run_state.counted_from(pending.sent_at) + limits.received_timeout,
            Some(received_at) => {
                self.run_state.counted_from(received_at) + Duration::from_secs(most) + limits.stop_timeout
            }
        })
    }

    /// Handles a late validation: if it was not received, it is sent once more, then the process is stopped (decision 12). If the
    /// result is missing, auto-continue ends.
    pub(crate) fn on_validation_deadline(
        &mut self,
        ctx: &mut DomainContext<'_>,
    ) -> Result<Events, SessionError> {
        let Some(run_id) = self.run_state.current_id() else { return Ok(Vec::new()) };
        let Some(pending) = self.validation_command_mut() else { return Ok(Vec::new()) };
        if pending.received_at.is_some() {
            let reason = "The sidecar did not report in time.".to_owned();
            return self.stop_loop(AutoContinueEnd::ValidationUnavailable, Some(reason), ctx);
        }
        if pending.attempt >= 2 {
            return Ok(self.order_kill(false, ctx));
        }
        pending.attempt += 1;
        pending.sent_at = ctx.now;
        let command = CommandRef { command_id: pending.command_id, run_id, attempt: pending.attempt };
        Ok(vec![SessionEvent::CommandReissued { kind: LifecycleCommand::Validate, command }])
    }
}
