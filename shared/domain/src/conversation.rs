//! A session with its queue: the unit that is loaded, changed and committed together.
//!
//! Session and queue are two aggregates of one life, and most rules of delivery speak of both (rulings 28 to 30). This
//! is where those rules stand: what follows from a change ([`Conversation::settle`]), what an agent's fact does
//! ([`Conversation::observe`]), and what becomes of messages when a run ends.

use std::collections::BTreeMap;

use crate::queue::{QueueError, SessionMessage, SessionMessageQueue};
use crate::session::{
    AgentFact, AgentSession, AgentSessionStatus as S, Decision, InFlight, InFlightStep, OpenToolCall,
    Operation, ProcessState, RunCause, RunPhase, SessionError, SubAgentSession,
};
use crate::text::{MessageContent, cut};
use crate::value::{
    Answer, AutoContinueEnd, FailureReason, MessagePriority, MessageSource, MessageStatus, ToolCallStatus,
};
use crate::{
    CommandRef, DomainEvent, Events, MessageId, Occasion, RunId, SubAgentId, Timestamp, ToolCallId, TurnId,
};

/// A session, its queue, and the subagents that a change is about.
#[derive(Debug, Clone, PartialEq)]
pub struct Conversation {
    /// The session.
    pub session: AgentSession,
    /// What waits to be said to its agent.
    pub queue: SessionMessageQueue,
    /// Subagents as far as they were loaded or began in this change.
    pub subagents: BTreeMap<SubAgentId, SubAgentSession>,
    /// Messages that left the queue in this change; they stay as records.
    pub closed_messages: Vec<SessionMessage>,
}

/// What became of a fact.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Observed {
    /// What happened.
    pub events: Events,
    /// What it was.
    pub outcome: Outcome,
}

/// How a fact was taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// It counted.
    Applied,
    /// It waits for the request that is under way (ruling 17).
    Deferred,
    /// It changed nothing; the reason is recorded: `stale-ack`, `stale-run`, `Idle: …`.
    Ignored(String),
}

/// What a message is sent as.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewMessage {
    /// Its id.
    pub message_id: MessageId,
    /// What it says.
    pub content: MessageContent,
    /// How urgent it is.
    pub priority: MessagePriority,
    /// Who says it.
    pub source: MessageSource,
    /// The turn that it is meant for.
    pub expected_turn_id: Option<TurnId>,
}

impl NewMessage {
    fn pending(self, created_at: Timestamp) -> SessionMessage {
        SessionMessage {
            message_id: self.message_id,
            content: self.content,
            priority: self.priority,
            status: MessageStatus::Pending,
            source: self.source,
            expected_turn_id: self.expected_turn_id,
            sent: false,
            delivery_uncertain: false,
            created_at,
            delivered_at: None,
        }
    }
}

/// Why a message was not taken.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EnqueueError {
    /// The session takes none.
    #[error(transparent)]
    Session(#[from] SessionError),
    /// The queue takes none.
    #[error(transparent)]
    Queue(#[from] QueueError),
    /// The turn that it was meant for is over (ruling 30).
    #[error("the turn that the message was meant for is over; nothing was sent")]
    TurnOver,
}

impl Conversation {
    /// The most messages that are sent and unacknowledged at once.
    const MAX_IN_FLIGHT: usize = 16;

    /// A conversation of a session and its queue.
    pub const fn new(session: AgentSession, queue: SessionMessageQueue) -> Self {
        Self { session, queue, subagents: BTreeMap::new(), closed_messages: Vec::new() }
    }

    /// `Enqueue(…)` (S0 8.7): checks the session's status in the same change (ruling 28).
    pub fn enqueue(&mut self, new: NewMessage, cx: &Occasion<'_>) -> Result<Events, EnqueueError> {
        // A message that is known needs no second look: the queue compares them (ruling 28).
        if self.queue.get(new.message_id).is_none() {
            self.session.check(Operation::AcceptMessage)?;
            if let Some(expected) = &new.expected_turn_id
                && self.session.turn().is_none_or(|turn| turn.id != *expected)
            {
                return Err(EnqueueError::TurnOver);
            }
        }
        Ok(self.queue.enqueue(new.pending(cx.now))?)
    }

    /// Cancels a pending message.
    pub fn cancel_message(&mut self, id: MessageId) -> Result<Events, QueueError> {
        let (message, events) = self.queue.cancel(id)?;
        self.closed_messages.push(message);
        Ok(events)
    }

    /// Cancels everything that was not sent.
    pub fn clear_queue(&mut self) -> Events {
        let (gone, events) = self.queue.clear();
        self.closed_messages.extend(gone);
        events
    }

    /// Answers a question. Without a sidecar the answer goes as a message (ruling 26).
    pub fn answer(
        &mut self,
        id: &ToolCallId,
        answers: Vec<Answer>,
        cx: &mut Occasion<'_>,
    ) -> Result<Events, SessionError> {
        let mut events = self.session.answer(id, answers, cx)?;
        events.extend(self.send_unheard_answers(&events, cx));
        Ok(events)
    }

    fn send_unheard_answers(&mut self, events: &Events, cx: &mut Occasion<'_>) -> Events {
        let mut more = Vec::new();
        for event in events {
            let decision = match event {
                DomainEvent::InputReceived { answers, command: None, .. } => {
                    Decision::Answered(answers.clone())
                }
                DomainEvent::PlanApproved { command: None, .. } => Decision::Approved,
                DomainEvent::PlanRejected { command: None, feedback, .. } => {
                    Decision::Rejected(feedback.clone())
                }
                _ => continue,
            };
            more.extend(self.say(MessageSource::User, &decision.as_message(), None, cx));
        }
        more
    }

    /// Approves a plan.
    pub fn approve_plan(&mut self, id: &ToolCallId, cx: &mut Occasion<'_>) -> Result<Events, SessionError> {
        let mut events = self.session.approve_plan(id, cx)?;
        events.extend(self.send_unheard_answers(&events, cx));
        Ok(events)
    }

    /// Rejects a plan.
    pub fn reject_plan(
        &mut self,
        id: &ToolCallId,
        feedback: crate::text::Feedback,
        cx: &mut Occasion<'_>,
    ) -> Result<Events, SessionError> {
        let mut events = self.session.reject_plan(id, feedback, cx)?;
        events.extend(self.send_unheard_answers(&events, cx));
        Ok(events)
    }

    /// Puts a message of Pilothouse's own making in the queue. An ended session takes none; that is no error, as nobody
    /// waits for it.
    fn say(
        &mut self,
        source: MessageSource,
        text: &str,
        expected_turn_id: Option<TurnId>,
        cx: &mut Occasion<'_>,
    ) -> Events {
        let Ok(content) = MessageContent::parse(cut(text, MessageContent::MAX)) else { return Vec::new() };
        let message_id = cx.message_id();
        let new = NewMessage {
            message_id,
            content,
            priority: MessagePriority::Immediate,
            source,
            expected_turn_id,
        };
        // An exhausted session's queue goes to whoever goes on with its work.
        let handed_on = self.session.status() == S::ContextExhausted && self.session.continuation().is_none();
        if !handed_on && self.session.check(Operation::AcceptMessage).is_err() {
            return Vec::new();
        }
        self.queue.take(new.pending(cx.now))
    }

    /// Says a long text of Pilothouse's own at once, in as many messages as it takes.
    pub(crate) fn say_all(&mut self, text: &str, cx: &mut Occasion<'_>) -> Events {
        let letters: Vec<char> = text.chars().collect();
        let parts = letters.chunks(MessageContent::MAX).map(|part| part.iter().collect::<String>());
        parts.flat_map(|part| self.say(MessageSource::System, &part, None, cx)).collect()
    }

    /// Takes a fact of the current run. It is never discarded (ruling 17): it counts, waits, or is recorded with the
    /// reason why it changed nothing. [`Self::settle`] follows each.
    pub fn observe(&mut self, fact: AgentFact, api_key_hash: &str, cx: &mut Occasion<'_>) -> Observed {
        if self.is_before_retry() {
            return self.observe_late(fact, cx);
        }
        self.session.updated_at_moves(cx);
        let after_stop = self.is_after_stop(&fact);
        let mut events = match &fact {
            // The message is with the agent, whatever becomes of the turn.
            AgentFact::TurnStarted { message: Some(id), .. } => self.injected(*id, cx),
            _ => Vec::new(),
        };
        if let Some(what) = after_stop {
            return self.after_stop(what, fact, events, api_key_hash, cx);
        }
        if fact.waits_for_requests() && self.must_wait(&fact) {
            let outcome = if self.session.deferred_len() < AgentSession::MAX_DEFERRED {
                self.session.defer(fact);
                Outcome::Deferred
            } else {
                Outcome::Ignored("too many facts wait already".to_owned())
            };
            return Observed { events, outcome };
        }
        let outcome = match self.apply(fact, api_key_hash, cx) {
            Ok(more) => {
                events.extend(more);
                Outcome::Applied
            }
            Err(refusal) => Outcome::Ignored(Self::reason(&refusal)),
        };
        Observed { events, outcome }
    }

    fn after_stop(
        &mut self,
        what: &str,
        fact: AgentFact,
        mut events: Events,
        api_key_hash: &str,
        cx: &mut Occasion<'_>,
    ) -> Observed {
        events.extend(self.session.acted_after_stop(what, cx));
        // It is kept. A turn that nobody asked for does not undo the stop.
        if !matches!(fact, AgentFact::TurnStarted { .. })
            && let Ok(more) = self.apply(fact, api_key_hash, cx)
        {
            events.extend(more);
        }
        Observed { events, outcome: Outcome::Ignored("after-stop".to_owned()) }
    }

    /// Why a fact changed nothing, for the journal.
    fn reason(refusal: &SessionError) -> String {
        match refusal {
            SessionError::StaleAck => "stale-ack".to_owned(),
            SessionError::InvalidTransition { operation, status } => {
                format!("{operation:?} does not apply while {status}")
            }
            other => other.to_string(),
        }
    }

    /// Facts of a run that is over: usage, messages and results count; nothing moves the status (ruling 11).
    pub fn observe_late(&mut self, fact: AgentFact, cx: &mut Occasion<'_>) -> Observed {
        self.session.updated_at_moves(cx);
        let counts =
            matches!(fact, AgentFact::Used(_) | AgentFact::Said { .. } | AgentFact::ToolEnded { .. });
        let events = match fact {
            AgentFact::Used(report) => self.record_usage(&report, false, cx),
            AgentFact::DeliverablesTold(counts) if self.session.run().is_none() => {
                self.session.record_deliverables(counts)
            }
            AgentFact::HandoffWritten(document) if self.session.status() == S::ContextExhausted => {
                self.session.record_handoff(*document, cx)
            }
            // One that was sent again is settled by the run that has it now.
            AgentFact::MessageInjected(id) | AgentFact::TurnStarted { message: Some(id), .. }
                if self.session.in_flight().iter().all(|m| m.message_id != id) =>
            {
                self.delivered(id, cx)
            }
            _ => Vec::new(),
        };
        let outcome = if counts || !events.is_empty() {
            Outcome::Applied
        } else {
            Outcome::Ignored("stale-run".to_owned())
        };
        Observed { events, outcome }
    }

    /// The session was retried while the run that failed is still being ended: what it tells is late.
    fn is_before_retry(&self) -> bool {
        self.session.status() == S::Queued
            && self.session.run().is_some_and(|run| matches!(run.phase, RunPhase::Ending { .. }))
    }

    /// A request is under way, or the session is suspended: facts that move the status wait.
    fn is_in_between(&self) -> bool {
        let status = self.session.status();
        status.is_intermediate() || status == S::Paused
    }

    fn must_wait(&self, fact: &AgentFact) -> bool {
        if self.session.deferred_len() > 0 {
            // Order is kept.
            return true;
        }
        // A suspended agent that fails has failed (S0 8.4); everything else that it tells waits for the resume.
        let failed = matches!(fact, AgentFact::SessionEnded { is_error: true, .. });
        self.is_in_between() && !(failed && self.session.status() == S::Paused)
    }

    /// A new message, tool start or turn of an agent that confirmed to have stopped (ruling 15).
    fn is_after_stop(&self, fact: &AgentFact) -> Option<&'static str> {
        if !matches!(self.session.status(), S::Interrupted | S::Paused | S::Cancelled) {
            return None;
        }
        match fact {
            AgentFact::Said { .. } => Some("a message"),
            AgentFact::ToolStarted { .. } => Some("a tool call"),
            AgentFact::TurnStarted { message, .. } => {
                let expected = self.session.status() == S::Interrupted
                    && message.is_some_and(|id| self.session.in_flight().iter().any(|m| m.message_id == id));
                (!expected).then_some("a turn")
            }
            _ => None,
        }
    }

    fn apply(
        &mut self,
        fact: AgentFact,
        api_key_hash: &str,
        cx: &mut Occasion<'_>,
    ) -> Result<Events, SessionError> {
        let session = &mut self.session;
        Ok(match fact {
            AgentFact::SidecarReady(capabilities) => session.sidecar_ready(capabilities, api_key_hash, cx)?,
            AgentFact::TurnStarted { turn, message } => session.start_turn(turn, message, cx)?,
            AgentFact::TurnCompleted { turn, output, outcome } => {
                session.turn_ended(turn, output, outcome, cx)?
            }
            // Its last words were said: whoever goes on has what there is.
            AgentFact::SessionEnded { .. } if session.status() == S::ContextExhausted => {
                session.await_no_document();
                Vec::new()
            }
            AgentFact::SessionEnded { is_error, reason, message, output } => {
                session.conversation_ended(is_error, reason, message, output, cx)?
            }
            AgentFact::QuestionAsked { request, questions } => session.ask(request, questions, cx)?,
            AgentFact::SettingsTold(settings) => session.record_settings(settings),
            AgentFact::BudgetExceeded { needed } => session.exceed_budget(needed),
            AgentFact::QuotaExceeded { message, reset_at } => {
                session.exceed_quota(message.as_deref(), reset_at, cx)
            }
            AgentFact::DeliverablesTold(counts) => session.record_deliverables(counts),
            AgentFact::PlanModeEntered => session.enter_plan_mode(cx),
            AgentFact::PlanShown { request, content } => session.show_plan(request, content, cx)?,
            AgentFact::TasksReplaced(tasks) => session.replace_tasks(tasks, cx),
            AgentFact::Used(report) => self.record_usage(&report, true, cx),
            AgentFact::ContextNearingLimit { usage_percent } => session.near_context_limit(&usage_percent)?,
            AgentFact::ContextExhausted => session.exhaust_context(cx)?,
            AgentFact::HandoffWritten(document) => session.record_handoff(*document, cx),
            AgentFact::HandedOver { reason } => session.hand_over(&reason, cx)?,
            AgentFact::Said { subagent } => vec![DomainEvent::MessageRecorded { sub_agent_id: subagent }],
            AgentFact::ToolStarted { call, name, subagent } => {
                session.open_tool(call.clone(), &name);
                vec![DomainEvent::ToolCallStarted {
                    tool_call_id: call,
                    tool_name: name,
                    sub_agent_id: subagent,
                }]
            }
            AgentFact::ToolEnded { call, is_error, subagent } => {
                let open = session.close_tool(&call);
                let status = if is_error { ToolCallStatus::Error } else { ToolCallStatus::Success };
                let mut events = vec![DomainEvent::ToolCallCompleted {
                    tool_call_id: call.clone(),
                    tool_name: open.map(|open| open.name),
                    status,
                    sub_agent_id: subagent,
                }];
                events.extend(session.close_request_of(&call));
                events
            }
            AgentFact::SubAgentStarted { subagent, model, objective } => {
                let event =
                    DomainEvent::SubAgentStarted { sub_agent_id: subagent.clone(), model_id: model.clone() };
                self.subagents
                    .entry(subagent.clone())
                    .or_insert_with(|| SubAgentSession::start(subagent, model, &objective, cx.now));
                vec![event]
            }
            AgentFact::SubAgentEnded { subagent, failure } => {
                let ended = self
                    .subagents
                    .entry(subagent.clone())
                    .or_insert_with(|| SubAgentSession::start(subagent.clone(), None, "", cx.now))
                    .end(failure.is_some(), cx.now);
                match (ended, failure) {
                    (false, _) => Vec::new(),
                    (true, None) => vec![DomainEvent::SubAgentCompleted { sub_agent_id: subagent }],
                    (true, Some(_)) => vec![DomainEvent::SubAgentFailed {
                        sub_agent_id: subagent,
                        failure_reason: FailureReason::AgentError,
                    }],
                }
            }
            AgentFact::CommandReceived(command) => {
                session.command_received(command, cx);
                Vec::new()
            }
            AgentFact::CommandDone(kind, command) => session.command_done(kind, command, cx)?,
            AgentFact::CommandRefused { command, code, message } => {
                self.refused(command, &code, &message, cx)?
            }
            AgentFact::Validated { command, results } => {
                let mut events = session.validated(command, &results, cx)?;
                events.extend(self.go_on(&events, cx));
                events
            }
            AgentFact::MessageInjecting(id) => {
                session.message_injecting(id);
                Vec::new()
            }
            AgentFact::MessageInjected(id) => self.injected(id, cx),
            AgentFact::Noted => Vec::new(),
        })
    }

    /// Tells the agent what is not met (S0 8.10).
    fn go_on(&mut self, events: &Events, cx: &mut Occasion<'_>) -> Events {
        let reason = events.iter().find_map(|event| match event {
            DomainEvent::ValidationFailed { reason, .. } => Some(reason),
            _ => None,
        });
        let Some(reason) = reason else { return Vec::new() };
        let text = format!("Validation failed: {reason}. Continue working.");
        self.say(MessageSource::System, &text, None, cx)
    }

    /// What follows between two turns (ruling 36): a message goes first, then the criteria are checked; and a session that
    /// was to go on does not wait for a message that nobody sends.
    fn settle_between_turns(&mut self, cx: &mut Occasion<'_>) -> Events {
        let session = &mut self.session;
        if session.is_validating() && session.budget().exhausted() {
            return session.stop_loop(AutoContinueEnd::BudgetExhausted, None, cx).unwrap_or_default();
        }
        let next = self.queue.next_pending().is_some();
        if session.is_validating() && next {
            return session.abandon_validation("a message goes first", cx).unwrap_or_default();
        }
        if session.is_unvalidated() && session.in_flight().iter().any(|m| m.step != InFlightStep::Injected) {
            // Said into the turn that ended: it may begin the next one, or come back.
            return Vec::new();
        }
        if session.is_unvalidated() {
            let reason = || Some("Its sidecar is being ended.".to_owned());
            return if session.is_live() {
                session.order_validation(cx)
            } else {
                let cause = AutoContinueEnd::ValidationUnavailable;
                session.stop_loop(cause, reason(), cx).unwrap_or_default()
            };
        }
        if session.is_continuing() && session.is_live() && session.in_flight().is_empty() && !next {
            return session.rest_between_turns().unwrap_or_default();
        }
        Vec::new()
    }

    /// A subagent that was not seen to start has its own meters all the same.
    fn record_usage(
        &mut self,
        report: &crate::session::UsageReport,
        of_run: bool,
        cx: &Occasion<'_>,
    ) -> Events {
        let subagent = report.subagent.as_ref().map(|id| {
            self.subagents
                .entry(id.clone())
                .or_insert_with(|| SubAgentSession::start(id.clone(), Some(report.model.clone()), "", cx.now))
        });
        self.session.update_metrics(report, subagent, of_run)
    }

    /// The agent has the message; what it is to start has perhaps not begun yet.
    fn injected(&mut self, id: MessageId, cx: &Occasion<'_>) -> Events {
        self.session.message_injected(id);
        self.delivered(id, cx)
    }

    fn delivered(&mut self, id: MessageId, cx: &Occasion<'_>) -> Events {
        match self.queue.mark_delivered(id, cx.now) {
            Some((message, events)) => {
                self.closed_messages.push(message);
                events
            }
            None => Vec::new(),
        }
    }

    /// The sidecar will not do it. A message goes back or is over; a lifecycle request ends where it came from.
    fn refused(
        &mut self,
        command: crate::CommandId,
        code: &str,
        message: &str,
        cx: &mut Occasion<'_>,
    ) -> Result<Events, SessionError> {
        let mut events = vec![DomainEvent::CommandRefused {
            command_id: command,
            code: cut(code, 50),
            message: cut(message, 500),
        }];
        if let Some(id) = self.session.take_in_flight_of(command) {
            if code == "turn-over" {
                events.extend(self.drop_message(id, "turn-over"));
            } else {
                events.extend(self.queue.put_back(id, code));
                events.extend(if code == "no-agent" {
                    // A sidecar without an agent is of no more use: a new run takes the message.
                    self.session.order_stop(cx)
                } else {
                    self.queue.hold()
                });
            }
        } else {
            self.session.answer_heard(command);
            events.extend(self.session.adjustment_refused(command, code));
            events.extend(self.session.validation_refused(command, cx)?);
            events.extend(self.session.request_refused(command, cx)?);
        }
        Ok(events)
    }

    fn drop_message(&mut self, id: MessageId, reason: &str) -> Events {
        let Some((gone, events)) = self.queue.drop_message(id, Some(reason)) else { return Vec::new() };
        self.closed_messages.push(gone);
        events
    }

    /// The process of a run is gone. What was sent and not taken waits again, if everything that the sidecar had to
    /// tell was heard (`drained`); what may have reached the agent is uncertain (ruling 30).
    pub fn run_ended(
        &mut self,
        run: RunId,
        drained: bool,
        detail: Option<String>,
        cx: &mut Occasion<'_>,
    ) -> Result<Events, SessionError> {
        let mut events = self.session.record_run_ended(run, detail, cx)?;
        if events.is_empty() {
            return Ok(events);
        }
        events.extend(self.leave_run(run, drained, cx)?);
        Ok(events)
    }

    /// What becomes of messages and subagents when their run is over.
    fn leave_run(
        &mut self,
        run: RunId,
        drained: bool,
        cx: &mut Occasion<'_>,
    ) -> Result<Events, SessionError> {
        let mut events = Vec::new();
        for sent in self.session.take_in_flight(run) {
            events.extend(match (sent.step, drained) {
                (InFlightStep::Sent, true) => self.queue.put_back(sent.message_id, "run-ended"),
                (InFlightStep::Injected, _) => Vec::new(),
                (InFlightStep::Injecting, _) | (InFlightStep::Sent, false) => {
                    self.queue.mark_uncertain(sent.message_id)
                }
            });
        }
        for (request_id, decision) in self.session.take_unheard_answers() {
            events.push(DomainEvent::AnswerReturned { request_id });
            events.extend(self.say(MessageSource::User, &decision.as_message(), None, cx));
        }
        for subagent in self.subagents.values_mut() {
            if subagent.end(true, cx.now) {
                events.push(DomainEvent::SubAgentFailed {
                    sub_agent_id: subagent.id.clone(),
                    failure_reason: FailureReason::InfrastructureError,
                });
            }
        }
        if matches!(self.session.status(), S::Idle | S::Interrupted) && self.queue.next_pending().is_some() {
            events.extend(self.session.run_was_fruitless(cx)?);
        }
        Ok(events)
    }

    /// Carries out what is due ([`AgentSession::on_due`]).
    pub fn on_due(
        &mut self,
        process: ProcessState,
        heard_at: Option<Timestamp>,
        cx: &mut Occasion<'_>,
    ) -> Result<Events, SessionError> {
        let run = self.session.run().map(|run| run.id);
        let mut events = self.session.on_due(process, heard_at, cx)?;
        if let Some(run) = run
            && self.session.run().is_none()
        {
            // Counted as dead without a word from the runtime: what was sent may have arrived.
            events.extend(self.leave_run(run, false, cx)?);
        }
        events.extend(self.send_unheard_answers(&events.clone(), cx));
        Ok(events)
    }

    /// What follows from a change, before it is committed: facts that waited, a cancellation that waited, the pause at
    /// the cap, messages that can go out, a run that is wanted or not wanted any more. `before` are the events of the
    /// change. Idempotent: with nothing before it, a second time does nothing.
    pub fn settle(&mut self, before: &Events, cx: &mut Occasion<'_>) -> Events {
        let mut events = Vec::new();
        for event in before {
            match event {
                DomainEvent::BudgetWarning { spent_usd, cap_usd, percent_used } => {
                    let text = format!(
                        "Budget notice: {percent_used}% of {cap_usd} dollars are spent ({spent_usd}). Wrap up."
                    );
                    // Said into the turn that spends. With no turn open it would begin one, and spend more.
                    let turn = self.session.turn().map(|turn| turn.id.clone());
                    if turn.is_some() || self.session.status() == S::Running {
                        events.extend(self.say(MessageSource::System, &text, turn, cx));
                    }
                }
                // From the request on: what its owner sends after it is not held.
                DomainEvent::InterruptRequested { .. } => events.extend(self.queue.hold_at_interrupt()),
                _ => {}
            }
        }
        // Each round resolves at least one thing; the bound is a belt.
        for _ in 0..256 {
            let round = self.settle_once(cx);
            if round.is_empty() {
                break;
            }
            events.extend(round);
        }
        events
    }

    fn settle_once(&mut self, cx: &mut Occasion<'_>) -> Events {
        let status = self.session.status();
        if status.is_terminal() {
            return self.settle_end(cx);
        }
        if status == S::Resuming && self.session.cancel_accepted() && self.session.run().is_none() {
            // It waits for a slot: there is no sidecar to wait for, and what ends anyway needs none.
            return self.session.abandon_resume().unwrap_or_default();
        }
        if !status.is_intermediate() && self.session.cancel_accepted() {
            self.session.clear_cancel_accepted();
            return self.session.request_cancel(false, cx).unwrap_or_default();
        }
        if !self.is_in_between() {
            while let Some(fact) = self.session.next_deferred() {
                let name = fact.name();
                let events = match self.apply(fact, "", cx) {
                    Ok(events) => events,
                    Err(refusal) => vec![Self::ignored(name, Self::reason(&refusal))],
                };
                if !events.is_empty() {
                    return events;
                }
            }
            if let Some(id) = self.queue.too_late_for(self.session.turn().map(|turn| &turn.id)) {
                return self.drop_message(id, "turn-over");
            }
            if status == S::Running {
                let events = self.settle_between_turns(cx);
                if !events.is_empty() {
                    return events;
                }
            }
        }
        if let Some(told) = self.session.tell_allowance(cx) {
            return vec![told];
        }
        if status == S::Running && self.session.pauses_for_quota() {
            return self.hold_back(cx);
        }
        if self.session.budget().exhausted() {
            match status {
                S::Running => {
                    return self.hold_back(cx);
                }
                // Spend that came late: no run is taken for what could only pause again.
                S::Resuming if self.session.run().is_none() => {
                    return self.session.abandon_resume().unwrap_or_default();
                }
                _ => {}
            }
        }
        let mut events = self.dispatch(cx);
        if events.is_empty() {
            events = self.want_run();
        }
        events
    }

    /// Suspends a Running session by itself; one whose agent cannot be suspended is interrupted.
    fn hold_back(&mut self, cx: &mut Occasion<'_>) -> Events {
        let session = &mut self.session;
        session.request_pause(cx).or_else(|_| session.request_interrupt(cx)).unwrap_or_default()
    }

    /// What a terminal status leaves behind.
    fn settle_end(&mut self, cx: &mut Occasion<'_>) -> Events {
        let status = self.session.status();
        let mut events = Vec::new();
        while let Some(fact) = self.session.next_deferred() {
            if matches!(fact, AgentFact::SessionEnded { .. }) {
                self.session.await_no_document();
            }
            events.push(Self::ignored(fact.name(), format!("the session is {status}")));
        }
        if matches!(status, S::Completed | S::Cancelled) {
            let (gone, ended) = self.queue.end();
            self.closed_messages.extend(gone);
            self.session.forget_in_flight();
            events.extend(ended);
        }
        if !self.session.awaits_document() {
            events.extend(self.session.order_stop(cx));
        }
        events
    }

    fn ignored(fact: &str, reason: String) -> DomainEvent {
        DomainEvent::FactIgnored { fact: fact.to_owned(), reason }
    }

    /// Sends what may be sent now (ruling 29).
    fn dispatch(&mut self, cx: &mut Occasion<'_>) -> Events {
        let session = &self.session;
        if !session.is_live()
            || session.budget().exhausted()
            || session.in_flight().len() >= Self::MAX_IN_FLIGHT
        {
            return Vec::new();
        }
        let next = match session.status() {
            S::Running => self.queue.next_immediate(),
            // One at a time: its turn has to begin before the next is sent.
            // A reload comes first: a turn begins with the whole of a configuration.
            S::Idle | S::Interrupted if session.in_flight().is_empty() && session.reload().is_none() => {
                self.queue.next_pending()
            }
            _ => None,
        };
        let (Some(message), Some(run)) = (next, session.run()) else { return Vec::new() };
        let message_id = message.message_id;
        let command = CommandRef { command_id: cx.command_id(), run_id: run.id, attempt: 1 };
        self.queue.mark_sent(message_id);
        self.session.sent(InFlight {
            message_id,
            run_id: command.run_id,
            command_id: command.command_id,
            step: InFlightStep::Sent,
            attempt: 1,
            sent_at: cx.now,
            received: false,
        });
        vec![DomainEvent::MessageDispatched { message_id, command }]
    }

    /// A hibernated session that has something to do wants a run (ruling 22).
    fn want_run(&mut self) -> Events {
        let session = &mut self.session;
        let has_work = match session.status() {
            S::Idle | S::Interrupted => {
                let message = self.queue.next_pending().is_some() && !session.budget().exhausted();
                message || session.wants_agent_to_adjust()
            }
            S::Resuming => true,
            _ => false,
        };
        if !has_work && session.slot_wanted() == Some(RunCause::Wake) {
            // Its place in line is void; the pool drops it when its turn comes.
            session.want_no_slot();
        }
        if !has_work || session.run().is_some() || session.slot_wanted().is_some() {
            return Vec::new();
        }
        session.want_slot(RunCause::Wake);
        vec![DomainEvent::SlotWanted { cause: RunCause::Wake }]
    }
}

/// The small steps of delivery that the session itself keeps.
impl AgentSession {
    /// The most facts that wait for a request.
    const MAX_DEFERRED: usize = 12;

    fn updated_at_moves(&mut self, cx: &Occasion<'_>) {
        self.updated_at = cx.now;
    }

    fn deferred_len(&self) -> usize {
        self.deferred.len()
    }

    fn defer(&mut self, fact: AgentFact) {
        self.deferred.push(fact);
    }

    fn next_deferred(&mut self) -> Option<AgentFact> {
        if self.deferred.is_empty() { None } else { Some(self.deferred.remove(0)) }
    }

    fn clear_cancel_accepted(&mut self) {
        self.cancel_accepted = false;
    }

    fn in_flight(&self) -> &[InFlight] {
        &self.in_flight
    }

    fn sent(&mut self, message: InFlight) {
        self.in_flight.push(message);
    }

    fn message_injecting(&mut self, id: MessageId) {
        if let Some(sent) =
            self.in_flight.iter_mut().find(|m| m.message_id == id && m.step == InFlightStep::Sent)
        {
            sent.step = InFlightStep::Injecting;
        }
    }

    fn message_injected(&mut self, id: MessageId) {
        // In an open turn the agent has it and that is that; otherwise its turn is about to begin.
        let running = (self.status() == S::Running && !self.is_between_turns())
            || (self.turn().is_some() && !self.deferred_turn_end());
        self.in_flight.retain_mut(|m| {
            if m.message_id != id {
                return true;
            }
            m.step = InFlightStep::Injected;
            !running
        });
    }

    fn take_in_flight_of(&mut self, command: crate::CommandId) -> Option<MessageId> {
        let at = self.in_flight.iter().position(|m| m.command_id == command)?;
        Some(self.in_flight.remove(at).message_id)
    }

    fn take_in_flight(&mut self, run: RunId) -> Vec<InFlight> {
        let (gone, kept) = std::mem::take(&mut self.in_flight).into_iter().partition(|m| m.run_id == run);
        self.in_flight = kept;
        gone
    }

    fn forget_in_flight(&mut self) {
        self.in_flight.clear();
    }

    fn want_no_slot(&mut self) {
        self.slot_wanted = None;
    }

    fn want_slot(&mut self, cause: RunCause) {
        self.slot_wanted = Some(cause);
    }

    fn open_tool(&mut self, call: ToolCallId, name: &str) {
        if self.open_tool_calls.len() >= Self::MAX_OPEN_TOOL_CALLS
            && let Some(oldest) =
                self.open_tool_calls.iter().min_by_key(|(_, c)| c.journal_sequence).map(|(id, _)| id.clone())
        {
            self.open_tool_calls.remove(&oldest);
        }
        // The entry that records this is the next one.
        let open = OpenToolCall { name: cut(name, 200), journal_sequence: self.journal_sequence + 1 };
        self.open_tool_calls.insert(call, open);
    }

    fn close_tool(&mut self, call: &ToolCallId) -> Option<OpenToolCall> {
        self.open_tool_calls.remove(call)
    }
}
