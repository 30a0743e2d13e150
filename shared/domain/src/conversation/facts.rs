//! Effects of the agent's facts (decisions 11, 15, 17).

use super::Conversation;
use crate::session::AgentSessionStatus as S;
use crate::session::{AgentFact, RunPhase, SessionError, SubAgentSession};
use crate::text::cut;
use crate::value::{FailureReason, MessageSource, ToolCallStatus};
use crate::{DomainContext, Events, SessionEvent, SubAgentId, ToolCallId};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FactResult {
    pub events: Events,
    pub outcome: FactOutcome,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FactOutcome {
    Applied,
    /// The fact waits until a pending request is resolved (decision 17).
    Deferred,
    /// The fact changed nothing. The journal records the reason: `stale-ack`, `stale-run` or a sentence.
    Ignored(String),
}

impl Conversation {
    /// Begins the turn of an agent that was resumed in a new process, in place of the turn that it lost.
    const CONTINUE: &str = "You were paused, and your process was started anew. Continue with your work.";

    /// Applies a fact of the current run. A fact is never dropped (decision 17): it is applied, deferred, or recorded with the
    /// reason why it changed nothing. The caller runs [`Self::settle`] afterwards.
    pub fn observe(
        &mut self,
        fact: AgentFact,
        api_key_hash: &str,
        ctx: &mut DomainContext<'_>,
    ) -> FactResult {
        if self.is_before_retry() {
            return self.reprocess(fact, ctx);
        }
        self.session.record_activity(ctx);
        let after_stop = self.is_after_stop(&fact);
        let mut events = match &fact {
            // The agent has the message, even if starting the turn is refused.
            AgentFact::TurnStarted { message: Some(id), .. } => self.injected(*id, ctx),
            _ => Vec::new(),
        };
        if let Some(what) = after_stop {
            return self.after_stop(what, fact, events, api_key_hash, ctx);
        }
        if self.session.is_end_of_latest_turn(&fact) {
            // Do this even if the turn's end is deferred: these calls get no result any more.
            events.extend(self.session.end_open_tools());
        }
        if fact.waits_for_requests() && self.must_wait(&fact) {
            let outcome = match self.session.defer(fact) {
                Ok(()) => FactOutcome::Deferred,
                Err(request) => {
                    events.extend(self.deny(*request, ctx));
                    FactOutcome::Ignored("too many requests are deferred already; it was denied".to_owned())
                }
            };
            return FactResult { events, outcome };
        }
        let outcome = match self.apply(fact, api_key_hash, ctx) {
            Ok(more) => {
                events.extend(more);
                FactOutcome::Applied
            }
            Err(refusal) => FactOutcome::Ignored(Self::reason(&refusal)),
        };
        FactResult { events, outcome }
    }

    /// Denies a request that cannot be deferred.
    fn deny(&mut self, request: AgentFact, ctx: &mut DomainContext<'_>) -> Events {
        match request {
            AgentFact::QuestionAsked { request, questions, approval, .. } => {
                self.session.deny(request, &questions, approval.as_ref(), ctx)
            }
            AgentFact::PlanShown { request, .. } => self.session.deny_plan(request, ctx),
            _ => Vec::new(),
        }
    }

    fn after_stop(
        &mut self,
        what: &str,
        fact: AgentFact,
        mut events: Events,
        api_key_hash: &str,
        ctx: &mut DomainContext<'_>,
    ) -> FactResult {
        events.extend(self.session.record_activity_after_stop(what, ctx));
        // Apply the fact, but do not let an unrequested turn undo the stop.
        if !matches!(fact, AgentFact::TurnStarted { .. })
            && let Ok(more) = self.apply(fact, api_key_hash, ctx)
        {
            events.extend(more);
        }
        FactResult { events, outcome: FactOutcome::Ignored("after-stop".to_owned()) }
    }

    /// The reason for the journal why a fact changed nothing.
    pub(super) fn reason(refusal: &SessionError) -> String {
        match refusal {
            SessionError::StaleAck => "stale-ack".to_owned(),
            SessionError::InvalidTransition { operation, status } => {
                format!("{operation} does not apply while {status}")
            }
            other => other.to_string(),
        }
    }

    /// Applies a fact of a run that has ended: usage, messages and results count; the status does not change (decision 11).
    pub fn reprocess(&mut self, fact: AgentFact, ctx: &mut DomainContext<'_>) -> FactResult {
        self.session.record_activity(ctx);
        let counts =
            matches!(fact, AgentFact::Used(_) | AgentFact::Said { .. } | AgentFact::ToolEnded { .. });
        let events = match fact {
            AgentFact::Used(report) => self.record_usage(&report, false, ctx),
            AgentFact::DeliverablesReported(counts) if self.session.run().is_none() => {
                self.session.record_deliverables(counts)
            }
            AgentFact::HandoffWritten(document) if self.session.status() == S::ContextExhausted => {
                self.session.record_handoff(*document, ctx)
            }
            // The current run may use the id of a call again.
            AgentFact::ToolEnded { call, .. } if self.session.open_tool_call(&call).is_none() => {
                self.session.close_tool(&call);
                Vec::new()
            }
            // If the message was sent again, the run that has it now decides.
            AgentFact::MessageInjected(id) | AgentFact::TurnStarted { message: Some(id), .. }
                if self.session.in_flight().iter().all(|m| m.message_id != id) =>
            {
                self.delivered(id, ctx)
            }
            _ => Vec::new(),
        };
        let outcome = if counts || !events.is_empty() {
            FactOutcome::Applied
        } else {
            FactOutcome::Ignored("stale-run".to_owned())
        };
        FactResult { events, outcome }
    }

    /// Whether the session was retried while its failed run is still being stopped. Facts of that run are late.
    fn is_before_retry(&self) -> bool {
        self.session.status() == S::Queued
            && self.session.run().is_some_and(|run| matches!(run.phase, RunPhase::Ending { .. }))
    }

    /// Whether a request is pending or the session is paused. Facts that change the status are deferred then.
    pub(super) fn is_in_between(&self) -> bool {
        let status = self.session.status();
        status.is_intermediate() || status == S::Paused
    }

    fn must_wait(&self, fact: &AgentFact) -> bool {
        if self.session.has_deferred() {
            // Keep facts in order.
            return true;
        }
        // A paused agent can fail (S0 8.4). Everything else that it reports waits for the resume.
        let failed = matches!(fact, AgentFact::SessionEnded { is_error: true, .. });
        self.is_in_between() && !(failed && self.session.status() == S::Paused)
    }

    /// Describes a new message, tool call or turn of an agent that had confirmed its stop (decision 15).
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

    pub(super) fn apply(
        &mut self,
        fact: AgentFact,
        api_key_hash: &str,
        ctx: &mut DomainContext<'_>,
    ) -> Result<Events, SessionError> {
        let session = &mut self.session;
        Ok(match fact {
            AgentFact::SidecarReady(capabilities) => {
                session.sidecar_ready(capabilities, api_key_hash, ctx)?
            }
            AgentFact::TurnStarted { turn, message } => session.start_turn(turn, message, ctx)?,
            AgentFact::TurnCompleted { turn, output, outcome } => {
                session.turn_ended(turn, output, outcome, ctx)?
            }
            // The agent's conversation is over, so no handoff document will come.
            AgentFact::SessionEnded { .. } if session.status() == S::ContextExhausted => {
                session.stop_awaiting_document();
                Vec::new()
            }
            AgentFact::SessionEnded { is_error, reason, message, output } => {
                session.conversation_ended(is_error, reason, message, output, ctx)?
            }
            AgentFact::QuestionAsked { request, questions, approval, proposal, timeout } => {
                session.ask(request, questions, (approval, proposal), timeout.as_deref(), ctx)?
            }
            AgentFact::SettingsReported(settings) => session.record_settings(settings),
            AgentFact::ConversationsReported(conversations) => session.record_conversations(conversations),
            AgentFact::BudgetExceeded { needed, left } => session.exceed_budget(needed, left),
            AgentFact::QuotaExceeded { message, reset_at } => {
                session.exceed_quota(message.as_deref(), reset_at, ctx)
            }
            AgentFact::ModelUnavailable { message, retry_at } => {
                session.lose_model(message.as_deref(), retry_at, ctx)
            }
            AgentFact::DeliverablesReported(counts) => session.record_deliverables(counts),
            AgentFact::PlanModeEntered => session.enter_plan_mode(ctx),
            AgentFact::PlanShown { request, content, timeout } => {
                session.show_plan(request, content, timeout.as_deref(), ctx)?
            }
            AgentFact::TasksReplaced(tasks) => session.replace_tasks(tasks, ctx),
            AgentFact::Used(report) => self.record_usage(&report, true, ctx),
            AgentFact::ContextNearingLimit { usage_percent } => session.near_context_limit(&usage_percent)?,
            AgentFact::ContextExhausted => session.exhaust_context(ctx)?,
            AgentFact::HandoffWritten(document) => session.record_handoff(*document, ctx),
            AgentFact::HandedOver { reason } => session.hand_over(&reason, ctx)?,
            AgentFact::Said { subagent } => vec![SessionEvent::MessageRecorded { sub_agent_id: subagent }],
            AgentFact::ToolStarted { call, name, subagent } => {
                session.open_tool(call.clone(), &name, subagent.clone());
                vec![SessionEvent::ToolCallStarted {
                    tool_call_id: call,
                    tool_name: name,
                    sub_agent_id: subagent,
                }]
            }
            AgentFact::ToolEnded { call, is_error, subagent } => {
                self.tool_ended(&call, is_error, subagent, ctx)
            }
            AgentFact::SubAgentStarted { subagent, model, objective, call } => {
                let event =
                    SessionEvent::SubAgentStarted { sub_agent_id: subagent.clone(), model_id: model.clone() };
                self.subagents
                    .entry(subagent.clone())
                    .or_insert_with(|| SubAgentSession::start(subagent, model, &objective, ctx.now))
                    .started_by(call);
                vec![event]
            }
            AgentFact::SubAgentEnded { subagent, failure } => {
                let ended = self
                    .subagents
                    .entry(subagent.clone())
                    .or_insert_with(|| SubAgentSession::start(subagent.clone(), None, "", ctx.now))
                    .end(failure.is_some(), ctx.now);
                match (ended, failure) {
                    (false, _) => Vec::new(),
                    (true, None) => vec![SessionEvent::SubAgentCompleted { sub_agent_id: subagent }],
                    (true, Some(_)) => vec![SessionEvent::SubAgentFailed {
                        sub_agent_id: subagent,
                        failure_reason: FailureReason::AgentError,
                    }],
                }
            }
            AgentFact::CommandReceived(command) => {
                session.command_received(command, ctx);
                Vec::new()
            }
            AgentFact::CommandDone(kind, command) => session.command_done(kind, command, ctx)?,
            AgentFact::CommandRefused { command, code, message } => {
                self.refused(command, &code, &message, ctx)?
            }
            AgentFact::Validated { command, results } => {
                let mut events = session.validated(command, &results, ctx)?;
                events.extend(self.continue_loop(&events, ctx));
                events
            }
            AgentFact::MessageInjecting(id) => {
                session.message_injecting(id);
                Vec::new()
            }
            AgentFact::MessageInjected(id) => self.injected(id, ctx),
            AgentFact::TurnLost => self.continue_lost_turn(ctx),
            AgentFact::Noted => Vec::new(),
        })
    }

    /// Records the result of a tool call. The first result of a call counts (S0 8.5); a further one only closes a request that the
    /// agent opened for the call meanwhile.
    fn tool_ended(
        &mut self,
        call: &ToolCallId,
        is_error: bool,
        subagent: Option<SubAgentId>,
        ctx: &DomainContext<'_>,
    ) -> Events {
        let mut events = Events::new();
        let is_first = !self.session.has_tool_result(call);
        let open = self.session.close_tool(call);
        if is_first {
            let status = if is_error { ToolCallStatus::Error } else { ToolCallStatus::Success };
            events.push(SessionEvent::ToolCallCompleted {
                tool_call_id: call.clone(),
                tool_name: open.map(|open| open.name),
                status,
                sub_agent_id: subagent,
            });
        }
        events.extend(self.session.close_request_of(call, ctx.now));
        events
    }

    /// Lets a resumed agent go on whose process ended during the pause. An open request does so with its answer.
    fn continue_lost_turn(&mut self, ctx: &mut DomainContext<'_>) -> Events {
        if self.session.status().is_waiting() {
            return Vec::new();
        }
        self.session.replace_lost_turn();
        self.enqueue_internal(MessageSource::System, Self::CONTINUE, None, ctx)
    }

    /// Records usage. A subagent whose start was not observed still gets its own meters.
    fn record_usage(
        &mut self,
        report: &crate::session::UsageReport,
        of_run: bool,
        ctx: &DomainContext<'_>,
    ) -> Events {
        let subagent = report.subagent.as_ref().map(|id| {
            self.subagents.entry(id.clone()).or_insert_with(|| {
                SubAgentSession::start(id.clone(), Some(report.model.clone()), "", ctx.now)
            })
        });
        self.session.update_metrics(report, subagent, of_run)
    }

    /// Handles a refused command: a message returns to the queue, becomes uncertain or is dropped; a request
    /// reverts to the status before it.
    fn refused(
        &mut self,
        command: crate::CommandId,
        code: &str,
        message: &str,
        ctx: &mut DomainContext<'_>,
    ) -> Result<Events, SessionError> {
        let mut events = vec![SessionEvent::CommandRefused {
            command_id: command,
            code: cut(code, 50),
            message: cut(message, 500),
        }];
        if let Some(id) = self.session.take_in_flight_of(command) {
            if self.queue.is_injection(id) {
                events.extend(self.injection_refused(id, code));
            } else if code == "turn-over" {
                events.extend(self.drop_message(id, "turn-over"));
            } else if code == "delivery-uncertain" {
                events.extend(self.mark_uncertain(id));
            } else {
                events.extend(self.return_message(id, code));
                events.extend(if code == "no-agent" {
                    // A sidecar without an agent cannot deliver messages: stop it, and let a new run deliver the message.
                    self.session.order_stop(ctx)
                } else {
                    self.queue.hold()
                });
            }
        } else {
            if let Some(answer) = self.session.refuse_answer(command, code) {
                events.push(SessionEvent::AnswerReturned { request_id: answer.request_id });
                events.extend(self.enqueue_internal(MessageSource::User, &answer.text, None, ctx));
            }
            events.extend(self.session.adjustment_refused(command, code));
            events.extend(self.session.validation_refused(command, ctx)?);
            events.extend(self.session.request_refused(command, ctx)?);
        }
        Ok(events)
    }
}
