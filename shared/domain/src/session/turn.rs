//! Turns, output, context and the end of the agent's conversation (S0 8.4, rulings 17 to 19).

use super::{
    AgentFact, AgentSession, AgentSessionStatus, InFlightStep, Operation, RecordedOutput, SessionError,
    State, Turn,
};
use crate::text::cut;
use crate::value::{FailureReason, SessionOutcome, SessionOutput, SessionTask, SessionTaskList};
use crate::{DomainEvent, Events, MessageId, Occasion, SessionChainId, TurnId};

impl AgentSession {
    /// A turn began: Idle, Interrupted or Running → Running (ruling 18).
    pub(crate) fn start_turn(
        &mut self,
        turn: TurnId,
        message: Option<MessageId>,
        cx: &mut Occasion<'_>,
    ) -> Result<Events, SessionError> {
        self.check(Operation::StartTurn)?;
        let mut events = self.abandon_validation("the agent went on by itself", cx)?;
        self.between_turns = None;
        self.transition(Operation::StartTurn, State::Running)?;
        self.quota = None;
        self.turn = Some(Turn { id: turn.clone(), started_at: cx.now });
        self.hibernated = false;
        if let Some(run) = &mut self.run {
            // An agent that works was told to begin.
            run.unheard_begin = None;
        }
        self.fruitless_runs = 0;
        // The agent has these, and its turn has begun.
        self.in_flight.retain(|m| Some(m.message_id) != message && m.step != InFlightStep::Injected);
        events.push(DomainEvent::TurnStarted { turn_id: turn, message_id: message });
        Ok(events)
    }

    /// A turn ended by itself: Idle, or Running while its criteria are checked (ruling 36).
    pub(crate) fn turn_ended(
        &mut self,
        turn: TurnId,
        output: Option<SessionOutput>,
        outcome: SessionOutcome,
        cx: &mut Occasion<'_>,
    ) -> Result<Events, SessionError> {
        let other = self.turn.as_ref().is_some_and(|open| open.id != turn);
        if other || self.is_between_turns() {
            // The turn was replaced before its end arrived, or had ended; the open one goes on.
            let status = self.status();
            return Err(SessionError::InvalidTransition {
                operation: Operation::RecordTurnCompleted,
                status,
            });
        }
        if outcome == SessionOutcome::ExecutionError {
            // Ruling 39.
            self.last_outcome = Some(outcome);
            let message = "The agent's turn ended in an error.".to_owned();
            return self.record_failure(FailureReason::AgentError, Some(message), cx);
        }
        let mut events = match outcome {
            SessionOutcome::BudgetExceeded => self.exceed_budget(None),
            _ => Vec::new(),
        };
        events.extend(if self.validates() {
            self.hold_end(AgentFact::TurnCompleted { turn, output, outcome })
        } else {
            self.complete_turn(output, outcome, cx)?
        });
        Ok(events)
    }

    /// The agent's conversation ended. Where criteria are checked, its sidecar is still needed (ruling 36).
    pub(crate) fn conversation_ended(
        &mut self,
        is_error: bool,
        reason: String,
        message: Option<String>,
        output: Option<SessionOutput>,
        cx: &mut Occasion<'_>,
    ) -> Result<Events, SessionError> {
        if self.is_continuing() {
            // No turn failed: the message to go on finds an agent again.
            return Ok(self.order_stop(cx));
        }
        if self.is_validating() || (!is_error && self.validates()) {
            return Ok(self.hold_end(AgentFact::SessionEnded { is_error, reason, message, output }));
        }
        self.end_conversation(is_error, &reason, message, output, cx)
    }

    /// `RecordTurnCompleted()` or, with output, `RecordOutput()`: → Idle.
    pub(crate) fn complete_turn(
        &mut self,
        output: Option<SessionOutput>,
        outcome: SessionOutcome,
        cx: &mut Occasion<'_>,
    ) -> Result<Events, SessionError> {
        let output = output.or_else(|| self.staged_output.clone());
        let operation =
            if output.is_some() { Operation::RecordOutput } else { Operation::RecordTurnCompleted };
        self.check(operation)?;
        let was_idle = self.status() == AgentSessionStatus::Idle;
        self.transition(operation, State::Idle)?;
        self.staged_output = None;
        let mut events = Vec::new();
        if !was_idle {
            self.turn = None;
            self.last_outcome = Some(outcome);
            self.unheard_answers.clear();
            self.in_flight.retain(|m| m.step != InFlightStep::Injected);
            self.metrics.turn_count += 1;
            self.metrics.last_turn_at = Some(cx.now);
            events.extend(self.close_all_requests());
        }
        if let Some(output) = output {
            events.push(self.record_output(output, cx));
        } else {
            events.push(DomainEvent::TurnCompleted {
                turn_count: self.metrics.turn_count,
                last_turn_at: cx.now,
                outcome,
            });
        }
        Ok(events)
    }

    pub(crate) fn record_output(&mut self, output: SessionOutput, cx: &mut Occasion<'_>) -> DomainEvent {
        let output_id = cx.output_id();
        let event = DomainEvent::OutputReady {
            output_id,
            files_changed: output.files_changed,
            tests_added: output.tests_added,
            all_tests_passing: output.all_tests_passing,
        };
        self.output = Some(RecordedOutput { output_id, recorded_at: cx.now, output });
        self.has_pending_review = true;
        event
    }

    /// Output through the agent API: takes effect at the turn's end, or at once when none is open (ruling 18).
    pub fn submit_output(
        &mut self,
        output: SessionOutput,
        cx: &mut Occasion<'_>,
    ) -> Result<Events, SessionError> {
        let status = self.status();
        if status == AgentSessionStatus::Idle {
            return self.complete_turn(Some(output), SessionOutcome::Completed, cx);
        }
        if status.is_terminal() || status == AgentSessionStatus::Queued {
            return Err(SessionError::InvalidTransition { operation: Operation::RecordOutput, status });
        }
        self.staged_output = Some(output);
        Ok(Vec::new())
    }

    /// The agent's conversation is over. It ends an open turn; its own reason is kept (ruling 19).
    pub(crate) fn end_conversation(
        &mut self,
        is_error: bool,
        reason: &str,
        message: Option<String>,
        output: Option<SessionOutput>,
        cx: &mut Occasion<'_>,
    ) -> Result<Events, SessionError> {
        if is_error && self.status() == AgentSessionStatus::Idle {
            // No turn failed: the next message finds an agent again.
            return Ok(self.order_stop(cx));
        }
        if is_error {
            self.last_outcome = Some(SessionOutcome::ExecutionError);
            let text = message.map_or_else(|| reason.to_owned(), |m| format!("{reason}: {m}"));
            return self.record_failure(FailureReason::AgentError, Some(cut(&text, 1000)), cx);
        }
        let open = self.turn.is_some() || self.status() != AgentSessionStatus::Idle;
        // The turn's end has often brought the same output: it is not recorded twice.
        let output =
            output.filter(|new| open || self.output.as_ref().is_none_or(|recorded| recorded.output != *new));
        let mut events = if open || output.is_some() || self.staged_output.is_some() {
            self.complete_turn(output, SessionOutcome::Completed, cx)?
        } else {
            Vec::new()
        };
        // Its sidecar has no agent any more, and could only refuse what comes: the next message wakes a new run, which
        // takes the conversation up again (ruling 22).
        events.extend(self.order_stop(cx));
        Ok(events)
    }

    /// Whether the turn had ended by itself when a request came: the latest that waits of turns is an end.
    pub(crate) fn deferred_turn_end(&self) -> bool {
        let of_turns = |fact: &AgentFact| match fact {
            AgentFact::TurnCompleted { .. } | AgentFact::SessionEnded { is_error: false, .. } => Some(true),
            AgentFact::TurnStarted { .. } => Some(false),
            _ => None,
        };
        self.deferred.iter().rev().find_map(of_turns).unwrap_or(false)
    }

    /// An interrupt closes what waits of its turn. Turns that had ended by themselves count (ruling 17); one that
    /// began after them is the one that was interrupted.
    pub(crate) fn apply_turn_end_of_interrupt(&mut self, cx: &mut Occasion<'_>) -> Events {
        let mut events = Vec::new();
        for fact in std::mem::take(&mut self.deferred) {
            match fact {
                AgentFact::QuestionAsked { request, .. } | AgentFact::PlanShown { request, .. } => {
                    events.push(DomainEvent::RequestClosed { request_id: request });
                }
                AgentFact::TurnStarted { turn, message } => {
                    // As when it had not waited: the agent has these, and their turn has begun.
                    self.in_flight
                        .retain(|m| Some(m.message_id) != message && m.step != InFlightStep::Injected);
                    events.push(DomainEvent::TurnStarted { turn_id: turn, message_id: message });
                }
                ended @ (AgentFact::TurnCompleted { .. }
                | AgentFact::SessionEnded { is_error: false, .. }) => {
                    let (output, outcome) = ended.end_of_turn();
                    self.last_outcome = Some(outcome);
                    self.metrics.turn_count += 1;
                    self.metrics.last_turn_at = Some(cx.now);
                    if let Some(output) = output.or_else(|| self.staged_output.take()) {
                        events.push(self.record_output(output, cx));
                    } else {
                        events.push(DomainEvent::TurnCompleted {
                            turn_count: self.metrics.turn_count,
                            last_turn_at: cx.now,
                            outcome,
                        });
                    }
                }
                other => self.deferred.push(other),
            }
        }
        self.turn = None;
        events
    }

    /// `RecordContextExhausted()`: Running → `ContextExhausted`.
    pub(crate) fn exhaust_context(&mut self, cx: &mut Occasion<'_>) -> Result<Events, SessionError> {
        self.transition(Operation::RecordContextExhausted, State::ContextExhausted)?;
        let chain_id = self.leave_for_good(cx);
        Ok(vec![DomainEvent::ContextExhausted { chain_id }])
    }

    /// `RecordVoluntaryHandoff(…)`: Running → `ContextExhausted`.
    pub(crate) fn hand_over(&mut self, reason: &str, cx: &mut Occasion<'_>) -> Result<Events, SessionError> {
        self.transition(Operation::RecordVoluntaryHandoff, State::ContextExhausted)?;
        let chain_id = self.leave_for_good(cx);
        Ok(vec![DomainEvent::VoluntaryHandoff { reason: cut(reason, 1000), chain_id }])
    }

    /// Returns the chain that it was part of before.
    fn leave_for_good(&mut self, cx: &mut Occasion<'_>) -> Option<SessionChainId> {
        self.count_held_turn(cx);
        self.between_turns = None;
        self.unheard_answers.clear();
        // S0 sets `CompletedAt` on Completed, Failed and Cancelled alone: the work goes on in another session.
        self.turn = None;
        self.cancel_accepted = false;
        self.reload = None;
        self.updated_at = cx.now;
        self.await_document(cx);
        let before = self.chain_id;
        // A consolidation that does not fit one context is given up with it; nobody goes on.
        if self.consolidates.is_none() {
            self.chain_id.get_or_insert_with(|| cx.chain_id());
        }
        before
    }

    /// `RecordContextNearingLimit(…)`: a warning, only while Running.
    pub(crate) fn near_context_limit(&mut self, usage_percent: &str) -> Result<Events, SessionError> {
        self.check(Operation::RecordContextNearingLimit)?;
        Ok(vec![DomainEvent::ContextNearingLimit {
            usage_percent: cut(usage_percent, 20),
            model_context_limit: self.metrics.context_window.map(|w| w.model_context_limit),
        }])
    }

    /// `UpdateSessionTaskList(…)`: replaces the snapshot.
    pub(crate) fn replace_tasks(&mut self, mut tasks: Vec<SessionTask>, cx: &Occasion<'_>) -> Events {
        tasks.truncate(SessionTaskList::MAX_TASKS);
        for task in &mut tasks {
            task.subject = cut(&task.subject, 500);
            task.id = cut(&task.id, 200);
            task.active_form = task.active_form.as_deref().map(|f| cut(f, 500));
            // A task that did not change keeps its time.
            let before = self.task_list.iter().flat_map(|list| &list.tasks).find(|old| old.id == task.id);
            task.updated_at = match before {
                Some(old) if old.status == task.status && old.subject == task.subject => old.updated_at,
                _ => cx.now,
            };
        }
        let list = SessionTaskList { tasks, last_updated_at: cx.now };
        let event =
            DomainEvent::TaskListUpdated { task_count: list.tasks.len(), completed_count: list.completed() };
        self.task_list = Some(list);
        vec![event]
    }
}
