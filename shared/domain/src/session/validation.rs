//! Going on by itself (S0 8.5, 8.10; ruling 36): a turn of a session that auto-continues ends only when its criteria were
//! checked, and the next one follows by itself as long as they are not met.
//!
//! What the agent told of the end of its turn is held until then, and takes effect as it would have: when all criteria are
//! met, when the loop may not go on, and as soon as somebody else has the word. The rules that speak of the queue too stand
//! with the conversation.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{
    AgentFact, AgentSession, AgentSessionStatus as S, InFlightStep, LifecycleCommand, Operation, Outstanding,
    SessionError, State,
};
use crate::value::{AutoContinueConfig, AutoContinueEnd, CriterionResult, SessionOutput};
use crate::{CommandId, CommandRef, Deadlines, DomainEvent, Events, Occasion, Timestamp};

/// Running, and no turn is open.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all_fields = "camelCase")]
pub(crate) enum BetweenTurns {
    /// The criteria of the turn that ended are checked.
    Validating {
        /// What the agent told of that end, in order: the end of its turn, of its conversation, or both.
        ended: Vec<AgentFact>,
        /// The command, once it was sent.
        order: Option<Outstanding>,
    },
    /// They are not met, and the agent is being told to go on.
    Continuing,
}

fn is_conversation_end(fact: &AgentFact) -> bool {
    matches!(fact, AgentFact::SessionEnded { .. })
}

impl AgentSession {
    /// Whether the criteria of the turn that ended are being checked.
    pub const fn is_validating(&self) -> bool {
        matches!(self.between_turns, Some(BetweenTurns::Validating { .. }))
    }

    pub(crate) const fn is_between_turns(&self) -> bool {
        self.between_turns.is_some()
    }

    pub(crate) const fn is_continuing(&self) -> bool {
        matches!(self.between_turns, Some(BetweenTurns::Continuing))
    }

    /// The criteria are to be checked and nobody was told to.
    pub(crate) const fn is_unvalidated(&self) -> bool {
        matches!(self.between_turns, Some(BetweenTurns::Validating { order: None, .. }))
    }

    const fn validation_order(&self) -> Option<&Outstanding> {
        match &self.between_turns {
            Some(BetweenTurns::Validating { order: Some(order), .. }) => Some(order),
            _ => None,
        }
    }

    const fn validation_order_mut(&mut self) -> Option<&mut Outstanding> {
        match &mut self.between_turns {
            Some(BetweenTurns::Validating { order: Some(order), .. }) => Some(order),
            _ => None,
        }
    }

    /// Whether the end of the open turn waits for a validation.
    pub(crate) fn validates(&self) -> bool {
        let status = self.status();
        self.auto_continue.as_ref().is_some_and(|auto| auto.is_enabled)
            && (status == S::Running || status.is_waiting())
            && self.is_live()
    }

    /// The turn is over, and what it brought waits for the validation. An end of the conversation may follow it.
    pub(crate) fn hold_end(&mut self, end: AgentFact) -> Events {
        if let Some(BetweenTurns::Validating { ended, .. }) = &mut self.between_turns {
            ended.push(end);
            return Vec::new();
        }
        self.turn = None;
        self.in_flight.retain(|m| m.step != InFlightStep::Injected);
        self.between_turns = Some(BetweenTurns::Validating { ended: vec![end], order: None });
        self.enter(State::Running);
        self.close_all_requests()
    }

    /// A request takes the word from the loop: what was held waits as if it had just been told (ruling 17).
    pub(crate) fn hand_back_end(&mut self) {
        if let Some(BetweenTurns::Validating { ended, .. }) = self.between_turns.take() {
            self.deferred.splice(0..0, ended);
        }
    }

    /// What was held takes effect.
    fn release_end(&mut self, cx: &mut Occasion<'_>) -> Result<Events, SessionError> {
        let Some(BetweenTurns::Validating { ended, .. }) = self.between_turns.take() else {
            return Ok(Vec::new());
        };
        let mut events = Vec::new();
        for fact in ended {
            events.extend(match fact {
                AgentFact::TurnCompleted { output, outcome, .. } => {
                    self.complete_turn(output, outcome, cx)?
                }
                AgentFact::SessionEnded { is_error, reason, message, output } => {
                    self.end_conversation(is_error, &reason, message, output, cx)?
                }
                _ => Vec::new(),
            });
        }
        Ok(events)
    }

    fn take_held_output(&mut self) -> Option<SessionOutput> {
        let Some(BetweenTurns::Validating { ended, .. }) = &mut self.between_turns else { return None };
        let mut last = None;
        for fact in ended {
            if let AgentFact::TurnCompleted { output, .. } | AgentFact::SessionEnded { output, .. } = fact {
                last = output.take().or(last);
            }
        }
        let staged = self.staged_output.take();
        last.or(staged)
    }

    /// The turn counts; what it brought waits for the end of one that is to be reviewed.
    pub(crate) fn count_held_turn(&mut self, cx: &Occasion<'_>) {
        if self.is_validating() {
            self.staged_output = self.take_held_output();
            self.between_turns = None;
            self.metrics.turn_count += 1;
            self.metrics.last_turn_at = Some(cx.now);
        }
    }

    /// Orders the validation.
    pub(crate) fn order_validation(&mut self, cx: &mut Occasion<'_>) -> Events {
        let Some(command) = self.command(cx) else { return Vec::new() };
        let Some(BetweenTurns::Validating { order, .. }) = &mut self.between_turns else { return Vec::new() };
        *order = Some(Outstanding {
            command_id: command.command_id,
            attempt: 1,
            sent_at: cx.now,
            received_at: None,
            late: false,
        });
        vec![DomainEvent::ValidationRequested { command }]
    }

    pub(crate) fn validation_received(&mut self, command: CommandId, cx: &Occasion<'_>) {
        if let Some(order) = self.validation_order_mut()
            && order.command_id == command
        {
            order.received_at.get_or_insert(cx.now);
        }
    }

    /// The sidecar has checked the criteria. Afterwards the session rests, or is continuing.
    pub(crate) fn validated(
        &mut self,
        command: CommandId,
        results: &[CriterionResult],
        cx: &mut Occasion<'_>,
    ) -> Result<Events, SessionError> {
        if self.validation_order().is_none_or(|order| order.command_id != command) {
            return Err(SessionError::StaleAck);
        }
        let Some(auto) = &self.auto_continue else { return self.release_end(cx) };
        if results.len() < auto.validation_criteria.len() {
            let reason = "The sidecar broke the validation off.".to_owned();
            return self.stop_loop(AutoContinueEnd::ValidationUnavailable, Some(reason), cx);
        }
        match AutoContinueConfig::failure(results) {
            None => {
                let mut events = vec![DomainEvent::ValidationPassed {}];
                events.extend(self.release_end(cx)?);
                Ok(events)
            }
            Some(reason) if auto.may_continue() => Ok(self.go_on(reason, cx)),
            Some(reason) => self.stop_loop(AutoContinueEnd::MaxContinuations, Some(reason), cx),
        }
    }

    /// The sidecar will not check the criteria: one that is older does not know how.
    pub(crate) fn validation_refused(
        &mut self,
        command: CommandId,
        cx: &mut Occasion<'_>,
    ) -> Result<Events, SessionError> {
        if self.validation_order().is_none_or(|order| order.command_id != command) {
            return Ok(Vec::new());
        }
        let reason = "The sidecar refused to check its criteria.".to_owned();
        self.stop_loop(AutoContinueEnd::ValidationUnavailable, Some(reason), cx)
    }

    /// Not met, and it may go on once more: what the turn brought waits for the one that meets the criteria.
    fn go_on(&mut self, reason: String, cx: &mut Occasion<'_>) -> Events {
        let over = matches!(&self.between_turns, Some(BetweenTurns::Validating { ended, .. })
            if ended.iter().any(is_conversation_end));
        self.count_held_turn(cx);
        self.between_turns = Some(BetweenTurns::Continuing);
        let Some(auto) = &mut self.auto_continue else { return Vec::new() };
        auto.current_continuation_count += 1;
        let mut events = vec![DomainEvent::ValidationFailed {
            reason,
            continuation: auto.current_continuation_count,
            max_continuations: auto.max_continuations,
        }];
        if over {
            // A sidecar without an agent: the message goes to a new run.
            events.extend(self.order_stop(cx));
        }
        events
    }

    /// The loop ends without the criteria being met. After the last continuation nothing is to be approved: the owner
    /// looks at what there is (S0 8.10).
    pub(crate) fn stop_loop(
        &mut self,
        cause: AutoContinueEnd,
        reason: Option<String>,
        cx: &mut Occasion<'_>,
    ) -> Result<Events, SessionError> {
        let continuations = self.auto_continue.as_ref().map_or(0, |auto| auto.current_continuation_count);
        let mut events = vec![DomainEvent::AutoContinueStopped { cause, reason, continuations }];
        let unmet = (cause == AutoContinueEnd::MaxContinuations).then(|| self.take_held_output());
        events.extend(self.release_end(cx)?);
        if let Some(output) = unmet {
            // It is there to be looked at, and not to be approved.
            let _ = output.map(|output| self.record_output(output, cx));
            self.has_pending_review = false;
        }
        Ok(events)
    }

    /// Somebody else has the word: the turn ends as it would have without a validation.
    pub(crate) fn abandon_validation(
        &mut self,
        why: &str,
        cx: &mut Occasion<'_>,
    ) -> Result<Events, SessionError> {
        if !self.is_validating() {
            return Ok(Vec::new());
        }
        let mut events = vec![DomainEvent::ValidationAbandoned { reason: why.to_owned() }];
        events.extend(self.release_end(cx)?);
        Ok(events)
    }

    /// The agent was not given the message to go on: the session rests.
    pub(crate) fn rest_between_turns(&mut self) -> Result<Events, SessionError> {
        self.transition(Operation::RecordTurnCompleted, State::Idle)?;
        self.between_turns = None;
        let continuations = self.auto_continue.as_ref().map_or(0, |auto| auto.current_continuation_count);
        let cause = AutoContinueEnd::NotDelivered;
        Ok(vec![DomainEvent::AutoContinueStopped { cause, reason: None, continuations }])
    }

    /// The process died between two turns: no turn failed with it (ruling 17). A message to go on waits, and wakes the
    /// session; of a validation nobody knows the outcome.
    pub(crate) fn died_between_turns(&mut self, cx: &mut Occasion<'_>) -> Result<Events, SessionError> {
        self.hibernated = true;
        if self.is_validating() {
            let reason = "The sidecar ended before it had reported.".to_owned();
            return self.stop_loop(AutoContinueEnd::ValidationUnavailable, Some(reason), cx);
        }
        self.transition(Operation::RecordTurnCompleted, State::Idle)?;
        self.between_turns = None;
        Ok(Vec::new())
    }

    /// When the validation is looked after next: its `received`, then its end. The sidecar keeps the limit of the criteria
    /// itself; here is what it may take on top of that.
    pub(crate) fn validation_due(&self, limits: &Deadlines) -> Option<Timestamp> {
        let order = self.validation_order()?;
        let most = self.auto_continue.as_ref().map_or(0, |auto| auto.validation_timeout_seconds);
        Some(match order.received_at {
            None => order.sent_at + limits.received,
            Some(received_at) => received_at + Duration::from_secs(most) + limits.stopped,
        })
    }

    /// No `received`: once more, then the process is stopped (ruling 12). No result: the loop ends.
    pub(crate) fn on_validation_due(&mut self, cx: &mut Occasion<'_>) -> Result<Events, SessionError> {
        let Some(run_id) = self.run.as_ref().map(|run| run.id) else { return Ok(Vec::new()) };
        let Some(order) = self.validation_order_mut() else { return Ok(Vec::new()) };
        if order.received_at.is_some() {
            let reason = "The sidecar did not report in time.".to_owned();
            return self.stop_loop(AutoContinueEnd::ValidationUnavailable, Some(reason), cx);
        }
        if order.attempt >= 2 {
            return Ok(self.order_kill(false, cx));
        }
        order.attempt += 1;
        order.sent_at = cx.now;
        let command = CommandRef { command_id: order.command_id, run_id, attempt: order.attempt };
        Ok(vec![DomainEvent::CommandReissued { kind: LifecycleCommand::Validate, command }])
    }
}
