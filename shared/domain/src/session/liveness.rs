//! Nothing hangs (rulings 12 to 15): readiness and death of runs, deadlines, and activity after a stop.

use super::{
    AfterStop, AgentFact, AgentSession, AgentSessionStatus, InFlight, InFlightStep, LifecycleCommand,
    Operation, PastRun, RunCause, RunPhase, SessionError, State,
};
use crate::text::cut;
use crate::value::{Capabilities, FailureReason};
use crate::{CommandId, CommandRef, Deadlines, DomainEvent, Events, Occasion, RunId, Timestamp};

/// What the runtime says of a run's process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProcessState {
    /// It runs.
    Alive,
    /// It does not.
    Dead,
    /// It does not yet: there is no place for it.
    Waiting,
    /// The runtime does not know.
    Unknown,
}

/// What is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Due {
    /// No `received` for a command.
    Received,
    /// No `done` for a command.
    Done,
    /// No sidecar for a run.
    Launch,
    /// Nothing was heard of a run.
    Silence,
    /// Missing envelopes.
    Replay,
    /// No `received` for `begin`.
    Begin,
    /// No `received` for a message.
    Message,
    /// A request of the agent.
    Request,
    /// A run that was told to end.
    Stop,
    /// No handoff document.
    Document,
    /// The acknowledgement of a reload.
    Reload,
    /// No `received` for an answer or a decision.
    Answer,
    /// No `received` for a validation, or no result of it.
    Validation,
    /// Nothing was heard of the session for its idle time.
    Hibernation,
    /// No `received` or no `done` for a change of how the agent works.
    Adjustment,
    /// The plan that pays for the agent can be used again.
    Quota,
}

impl AgentSession {
    /// What is due next, and when. The clock looks again then.
    pub fn next_due(&self, limits: &Deadlines) -> Option<(Timestamp, Due)> {
        let mut due = Vec::new();
        if let Some(outstanding) = self.outstanding()
            && self.is_live()
        {
            match outstanding.received_at {
                None => due.push((outstanding.sent_at + limits.received, Due::Received)),
                // Counted anew when it was sent once more.
                Some(received) => {
                    due.push((received.max(outstanding.sent_at) + self.done_limit(limits), Due::Done));
                }
            }
        }
        if let Some(run) = &self.run {
            match run.phase {
                RunPhase::Launching => {
                    let since = run.unplaced_at.unwrap_or(run.requested_at);
                    due.push((since + limits.launched, Due::Launch));
                }
                RunPhase::Ending { since, killed: false, .. } => {
                    due.push((since + limits.stopped, Due::Stop));
                }
                RunPhase::Live | RunPhase::Ending { killed: true, .. } => {
                    due.push((run.silent_at, Due::Silence));
                }
            }
            if let Some(gap) = run.inbox.gap() {
                due.push((gap.due_at, Due::Replay));
            }
        }
        if self.is_live() {
            due.extend(self.unheard_begin().map(|sent_at| (sent_at + limits.received, Due::Begin)));
            due.extend(
                self.unheard_message().map(|at| (self.in_flight[at].sent_at + limits.received, Due::Message)),
            );
            due.extend(self.unheard_answer_since().map(|sent_at| (sent_at + limits.received, Due::Answer)));
            due.extend(self.validation_due(limits).map(|at| (at, Due::Validation)));
            due.extend(self.hibernation_due(limits).map(|at| (at, Due::Hibernation)));
            due.extend(self.adjustment_due(limits).map(|at| (at, Due::Adjustment)));
        }
        due.extend(self.document_awaited_until.map(|until| (until, Due::Document)));
        due.extend(self.quota_due(limits).map(|at| (at, Due::Quota)));
        due.extend(self.reload_due(limits).map(|at| (at, Due::Reload)));
        due.extend(self.pending_requests.iter().map(|r| (r.expires_at, Due::Request)));
        due.into_iter().min()
    }

    fn unheard_begin(&self) -> Option<Timestamp> {
        self.run.as_ref().and_then(|run| run.unheard_begin).map(|(_, sent_at)| sent_at)
    }

    /// The place of the message that has waited longest for its `received`.
    fn unheard_message(&self) -> Option<usize> {
        let unheard = |m: &&InFlight| !m.received && m.step == InFlightStep::Sent;
        let oldest = self.in_flight.iter().filter(unheard).min_by_key(|m| m.sent_at)?.message_id;
        self.in_flight.iter().position(|m| m.message_id == oldest)
    }

    fn done_limit(&self, limits: &Deadlines) -> std::time::Duration {
        match self.status() {
            AgentSessionStatus::Pausing | AgentSessionStatus::Resuming => limits.suspended,
            _ => limits.stopped,
        }
    }

    /// The lifecycle command that the status waits for.
    const fn outstanding_kind(&self) -> Option<LifecycleCommand> {
        match self.state {
            State::Interrupting { .. } => Some(LifecycleCommand::Interrupt),
            State::Pausing { .. } => Some(LifecycleCommand::Pause),
            State::Resuming { .. } => Some(LifecycleCommand::Resume),
            State::Cancelling { .. } => Some(LifecycleCommand::Stop),
            _ => None,
        }
    }

    /// Carries out what is due. `process` is what the runtime says now; `heard_at` is the last receipt of a
    /// heartbeat, which is kept apart from the aggregate.
    pub fn on_due(
        &mut self,
        process: ProcessState,
        heard_at: Option<Timestamp>,
        cx: &mut Occasion<'_>,
    ) -> Result<Events, SessionError> {
        let mut events = Vec::new();
        // Each step moves its own due time on, so this ends; the bound is a belt.
        for step in 0..16 {
            let Some((at, due)) = self.next_due(&cx.deadlines) else { break };
            if at > cx.now {
                break;
            }
            // Whether the run is dead is asked anew, for this alone: what was asked for another step does not tell, and
            // what is parked has to count before the end does.
            if step > 0 && matches!(due, Due::Received | Due::Silence | Due::Launch | Due::Reload) {
                break;
            }
            events.extend(match due {
                Due::Received => self.on_unreceived(process, cx),
                Due::Done => self.on_undone(cx),
                Due::Launch => self.on_unlaunched(process, cx)?,
                Due::Silence => self.on_silence(process, heard_at, cx)?,
                Due::Replay => self.on_missing(process, cx),
                Due::Begin => self.on_unheard_begin(cx),
                Due::Message => self.on_unheard_message(cx),
                Due::Request => self.expire_requests(cx)?,
                Due::Stop => self.order_kill(false, cx),
                Due::Document => {
                    self.await_no_document();
                    Vec::new()
                }
                Due::Reload => self.on_reload_due(process, cx),
                Due::Answer => self.on_unheard_answer(cx),
                Due::Validation => self.on_validation_due(cx)?,
                Due::Hibernation => self.hibernate(cx)?,
                Due::Adjustment => self.on_adjustment_due(cx),
                Due::Quota => self.on_quota_reset(cx),
            });
        }
        Ok(events)
    }

    /// No `received` in time: alive → once more, then the process is stopped (ruling 12). Dead → ruling 14, with the word
    /// of the run's end: the runtime has seen it, and says so once what the spool still holds is published. A run that
    /// counted as over before would give that up.
    fn on_unreceived(&mut self, process: ProcessState, cx: &mut Occasion<'_>) -> Events {
        let Some(run_id) = self.run.as_ref().map(|run| run.id) else { return Vec::new() };
        let kind = self.outstanding_kind();
        let Some(outstanding) = self.state.outstanding_mut() else { return Vec::new() };
        if process == ProcessState::Dead {
            // If that word never comes, the silence ends the run (ruling 13).
            outstanding.sent_at = cx.now;
            return Vec::new();
        }
        if outstanding.attempt >= 2 {
            return self.order_kill(true, cx);
        }
        outstanding.attempt += 1;
        outstanding.sent_at = cx.now;
        let command = CommandRef { command_id: outstanding.command_id, run_id, attempt: outstanding.attempt };
        kind.map(|kind| DomainEvent::CommandReissued { kind, command }).into_iter().collect()
    }

    /// No `received` for `begin`: once more, then the process is stopped (ruling 12).
    fn on_unheard_begin(&mut self, cx: &mut Occasion<'_>) -> Events {
        let Some(run) = &mut self.run else { return Vec::new() };
        let (Some(command_id), Some((attempt, _))) = (run.begin, run.unheard_begin) else {
            return Vec::new();
        };
        if attempt >= 2 {
            run.unheard_begin = None;
            return self.order_kill(false, cx);
        }
        run.unheard_begin = Some((attempt + 1, cx.now));
        let command = CommandRef { command_id, run_id: run.id, attempt: attempt + 1 };
        vec![DomainEvent::CommandReissued { kind: LifecycleCommand::Begin, command }]
    }

    /// No `received` for a message: once more, then the process is stopped (ruling 12). What becomes of the message is
    /// settled when the run ends.
    fn on_unheard_message(&mut self, cx: &mut Occasion<'_>) -> Events {
        let Some(message) = self.unheard_message().and_then(|at| self.in_flight.get_mut(at)) else {
            return Vec::new();
        };
        if message.attempt >= 2 {
            return self.order_kill(false, cx);
        }
        message.attempt += 1;
        message.sent_at = cx.now;
        let command =
            CommandRef { command_id: message.command_id, run_id: message.run_id, attempt: message.attempt };
        vec![DomainEvent::MessageDispatched { message_id: message.message_id, command }]
    }

    /// No `done` in time: interrupt and stop end the process; pause and resume only notify (ruling 12), and are sent once
    /// more: a sidecar that did it, and whose word of it was lost, says it again (ruling 10).
    fn on_undone(&mut self, cx: &mut Occasion<'_>) -> Events {
        let Some(kind) = self.outstanding_kind() else { return Vec::new() };
        if !matches!(kind, LifecycleCommand::Pause | LifecycleCommand::Resume) {
            return self.order_kill(true, cx);
        }
        let Some(run_id) = self.run.as_ref().map(|run| run.id) else { return Vec::new() };
        let Some(outstanding) = self.state.outstanding_mut() else { return Vec::new() };
        outstanding.attempt = outstanding.attempt.saturating_add(1);
        outstanding.sent_at = cx.now;
        let command = CommandRef { command_id: outstanding.command_id, run_id, attempt: outstanding.attempt };
        let told = std::mem::replace(&mut outstanding.late, true);
        let late = (!told).then_some(DomainEvent::CommandLate { kind });
        late.into_iter().chain([DomainEvent::CommandReissued { kind, command }]).collect()
    }

    /// No sidecar in time: Failed (ruling 12); unless there is no place for it, then it waits (ruling 23). One that found a
    /// place has its time from then on.
    fn on_unlaunched(
        &mut self,
        process: ProcessState,
        cx: &mut Occasion<'_>,
    ) -> Result<Events, SessionError> {
        let wanted = !self.status().is_terminal() && self.status() != AgentSessionStatus::Cancelling;
        if let Some(run) = self.run.as_mut().filter(|_| wanted) {
            if process == ProcessState::Waiting {
                run.unplaced_at = Some(cx.now);
                return Ok(Vec::new());
            }
            if run.unplaced_at.take().is_some() && process == ProcessState::Alive {
                run.requested_at = cx.now;
                return Ok(Vec::new());
            }
        }
        let mut events = if self.status().is_terminal() {
            Vec::new()
        } else {
            let message = "The sidecar did not get ready in time.".to_owned();
            if self.status() == AgentSessionStatus::Cancelling {
                self.confirm_cancelled(cx)?
            } else {
                self.fail(Operation::FailLaunch, FailureReason::InfrastructureError, Some(message), cx)?
            }
        };
        events.extend(self.order_kill(false, cx));
        Ok(events)
    }

    /// Nothing was received for too long: the run counts as dead (ruling 13). A process that the runtime still
    /// sees is killed first, so that a confirmed state never lies about a living process (ruling 15); one that it saw
    /// end may still have its spool published, and gets that time once.
    fn on_silence(
        &mut self,
        process: ProcessState,
        heard_at: Option<Timestamp>,
        cx: &mut Occasion<'_>,
    ) -> Result<Events, SessionError> {
        let Some(run) = &mut self.run else { return Ok(Vec::new()) };
        if let Some(heard_at) = heard_at
            && heard_at + cx.deadlines.silent > cx.now
        {
            run.silent_at = heard_at + cx.deadlines.silent;
            return Ok(Vec::new());
        }
        let run_id = run.id;
        if !run.silence_is_death(process) {
            run.silent_at = cx.now + cx.deadlines.silent;
            run.phase = match run.phase {
                // Told before: told again.
                RunPhase::Ending { since, fulfils_request, .. } => {
                    RunPhase::Ending { since, killed: false, fulfils_request }
                }
                other => other,
            };
            return Ok(self.order_kill(false, cx));
        }
        self.record_process_dead(run_id, "Nothing was heard from the sidecar for too long.", cx)
    }

    /// Missing envelopes: asked for again, or given up (ruling 9). What is given up is applied by the caller, which
    /// finds the parked envelopes.
    fn on_missing(&mut self, process: ProcessState, cx: &mut Occasion<'_>) -> Events {
        let Some(run) = &mut self.run else { return Vec::new() };
        if process == ProcessState::Dead {
            // Nobody is left to be asked. What the spool still holds comes before the word of the run's end, which
            // closes what is missing then.
            run.inbox.postpone(cx.now + cx.deadlines.replayed);
            return Vec::new();
        }
        if run.inbox.gap().is_some_and(|gap| gap.requests < Deadlines::REPLAY_REQUESTS) {
            self.ask_for_missing(cx)
        } else {
            self.close_gap()
        }
    }

    /// Asks the sidecar for the envelopes that are missing.
    pub fn ask_for_missing(&mut self, cx: &mut Occasion<'_>) -> Events {
        let Some(run) = &mut self.run else { return Vec::new() };
        let Some((from_sequence, to_sequence)) = run.inbox.missing() else { return Vec::new() };
        run.inbox.asked(cx.now + cx.deadlines.replayed);
        let command = CommandRef { command_id: cx.command_id(), run_id: run.id, attempt: 1 };
        vec![DomainEvent::ReplayRequested { command, from_sequence, to_sequence }]
    }

    /// Gives missing envelopes up (ruling 9). The caller applies what is parked behind them.
    pub fn close_gap(&mut self) -> Events {
        let Some(run) = &mut self.run else { return Vec::new() };
        let Some((from_sequence, to_sequence)) = run.inbox.skip_missing() else { return Vec::new() };
        vec![DomainEvent::EventsLost { from_sequence, to_sequence }]
    }

    /// Something was received from the current run.
    pub fn heard(&mut self, cx: &Occasion<'_>) {
        if let Some(run) = &mut self.run {
            run.silent_at = cx.now + cx.deadlines.silent;
        }
    }

    /// The sidecar of the current run is up: the agent begins (ruling 7). A session that was cancelled meanwhile
    /// has its run ended instead. Told again, it is what this agent can do, of all that its adapter can.
    pub(crate) fn sidecar_ready(
        &mut self,
        capabilities: Capabilities,
        api_key_hash: &str,
        cx: &mut Occasion<'_>,
    ) -> Result<Events, SessionError> {
        let Some(run) = &mut self.run else { return Ok(Vec::new()) };
        if run.phase != RunPhase::Launching {
            run.capabilities = Some(capabilities);
            return Ok(Vec::new());
        }
        let command = CommandRef { command_id: cx.command_id(), run_id: run.id, attempt: 1 };
        run.phase = RunPhase::Live;
        run.capabilities = Some(capabilities);
        run.begin = Some(command.command_id);
        run.unheard_begin = Some((1, cx.now));
        run.silent_at = cx.now + cx.deadlines.silent;
        let mut events = Vec::new();
        match self.status() {
            AgentSessionStatus::Queued => events.extend(self.start(api_key_hash, cx)?),
            status if status.is_terminal() => {}
            _ => {
                self.hibernated = false;
                self.config_changed = false;
                self.touch_control();
            }
        }
        if !self.status().is_terminal() {
            events.push(DomainEvent::RunReady { command });
        }
        // What waited for a sidecar is sent after `begin`.
        if let Some(outstanding) = self.state.outstanding_mut()
            && outstanding.attempt == 0
        {
            outstanding.attempt = 1;
            outstanding.sent_at = cx.now;
            let command =
                CommandRef { command_id: outstanding.command_id, run_id: command.run_id, attempt: 1 };
            if let Some(kind) = self.outstanding_kind() {
                events.push(DomainEvent::CommandReissued { kind, command });
            }
        }
        let allowance = self.allowance_usd();
        if let Some(run) = &mut self.run {
            // `begin` says it.
            run.allowance_told = allowance;
        }
        events.extend(self.send_waiting_adjustments(cx));
        Ok(events)
    }

    /// A run counts as dead although its process was not seen to end: its slot is freed, late envelopes are
    /// recognised, and the runtime is told to make sure.
    fn record_process_dead(
        &mut self,
        run: RunId,
        why: &str,
        cx: &mut Occasion<'_>,
    ) -> Result<Events, SessionError> {
        let mut events = self.order_kill(false, cx);
        events.extend(self.record_run_ended(run, Some(why.to_owned()), cx)?);
        Ok(events)
    }

    /// The process of a run is gone (ruling 14; the fulfilment of ruling 12). Nothing happens when it is not the
    /// current run. What was in flight is the caller's to settle: the queue stands beside the session.
    pub fn record_run_ended(
        &mut self,
        run_id: RunId,
        detail: Option<String>,
        cx: &mut Occasion<'_>,
    ) -> Result<Events, SessionError> {
        use AgentSessionStatus as S;
        let Some(run) = self.run.take_if(|run| run.id == run_id) else { return Ok(Vec::new()) };
        self.past_runs.push(PastRun {
            id: run.id,
            ordinal: run.ordinal,
            next_sequence: run.inbox.next(),
            ended_at: Some(cx.now),
        });
        let excess = self.past_runs.len().saturating_sub(Self::MAX_PAST_RUNS);
        self.past_runs.drain(..excess);
        self.touch_control();

        let fulfils = matches!(run.phase, RunPhase::Ending { fulfils_request: true, .. });
        let ordered = matches!(run.phase, RunPhase::Ending { .. });
        let unasked = self.outstanding().is_some_and(|outstanding| outstanding.attempt == 0);
        let launching = run.phase == RunPhase::Launching || run.begin.is_none();
        // What a stopped agent did, and what it was told, ended with it.
        self.after_stop = None;
        self.await_no_document();
        let mut events = Vec::new();
        let calls: Vec<_> = std::mem::take(&mut self.open_tool_calls).into_iter().collect();
        events.extend(calls.into_iter().map(|(tool_call_id, call)| DomainEvent::ToolCallCompleted {
            tool_call_id,
            tool_name: Some(call.name),
            status: crate::value::ToolCallStatus::Error,
            sub_agent_id: None,
        }));
        let message = || {
            let detail = detail.as_deref().unwrap_or("no reason was given");
            Some(cut(&format!("The sidecar's process ended: {detail}"), 1000))
        };
        match self.status() {
            S::Cancelling => events.extend(self.confirm_cancelled(cx)?),
            // One that was asked for while the sidecar was being stopped anyway was never sent.
            S::Interrupting if fulfils || (ordered && unasked) => {
                let turn_over = self.deferred_turn_end();
                events.extend(self.confirm_interrupted(turn_over)?);
                events.extend(self.apply_turn_end_of_interrupt(cx));
                self.hibernated = true;
            }
            S::Pausing if fulfils => {
                events.extend(self.confirm_paused()?);
                self.hibernated = true;
            }
            // The resume came while the run was being ended, and was never asked of it: the next run takes it up.
            S::Resuming if ordered && unasked => self.hibernated = true,
            S::Resuming if fulfils => {
                self.transition(Operation::AbandonResume, State::Paused)?;
                events.push(DomainEvent::ResumeAbandoned {});
                self.hibernated = true;
            }
            // The run before the retry, which was told to end.
            S::Queued if ordered => {}
            S::Queued => {
                events.extend(self.fail(
                    Operation::FailLaunch,
                    FailureReason::InfrastructureError,
                    message(),
                    cx,
                )?);
            }
            status if status.survives_its_process() => {
                if launching && run.cause == RunCause::Wake && !ordered {
                    events.extend(self.fail(
                        Operation::FailLaunch,
                        FailureReason::InfrastructureError,
                        message(),
                        cx,
                    )?);
                } else {
                    self.check(Operation::Hibernate)?;
                    self.hibernated = true;
                }
            }
            S::Running | S::Interrupting | S::Pausing | S::Resuming => {
                events.extend(self.died_at_work(message(), cx)?);
            }
            _ => {}
        }
        events.extend(self.reloaded_by_end_of_run());
        events.extend(self.adjustments_of_ended_run());
        if !self.hibernated {
            self.turn = None;
        }
        events.push(DomainEvent::RunEnded { run_id, status: self.status(), detail });
        Ok(events)
    }

    /// The process died in Running or under a request. What the agent had told before it died counts first (ruling
    /// 17): a turn that had ended did not fail, and an agent's own reason is kept (ruling 19). Else ruling 14.
    fn died_at_work(
        &mut self,
        message: Option<String>,
        cx: &mut Occasion<'_>,
    ) -> Result<Events, SessionError> {
        use AgentSessionStatus as S;
        let own_reason = self
            .deferred
            .iter()
            .position(|fact| matches!(fact, AgentFact::SessionEnded { is_error: true, .. }));
        if let Some(AgentFact::SessionEnded { reason, message, output, .. }) =
            own_reason.map(|at| self.deferred.remove(at))
        {
            return self.end_conversation(true, &reason, message, output, cx);
        }
        if self.status() == S::Running && self.is_between_turns() {
            return self.died_between_turns(cx);
        }
        if self.status() == S::Running && !self.unheard_answers.is_empty() {
            // The agent never had the answer that it waited for, which goes as a message (rulings 12, 26).
            self.transition(Operation::AnswerHibernated, State::Idle)?;
            self.turn = None;
            self.hibernated = true;
            return Ok(Vec::new());
        }
        if !self.deferred_turn_end() && !self.is_continuing() && self.unheard_answers.is_empty() {
            return self.fail(Operation::RecordFailure, FailureReason::InfrastructureError, message, cx);
        }
        let mut events = Vec::new();
        match self.status() {
            S::Interrupting => {
                events.extend(self.confirm_interrupted(true)?);
                events.extend(self.apply_turn_end_of_interrupt(cx));
            }
            S::Resuming => {
                self.transition(Operation::AbandonResume, State::Paused)?;
                events.push(DomainEvent::ResumeAbandoned {});
            }
            S::Pausing => events.extend(self.confirm_paused()?),
            _ => return self.fail(Operation::RecordFailure, FailureReason::InfrastructureError, message, cx),
        }
        self.hibernated = true;
        Ok(events)
    }

    /// A run ended without a turn although a message waited. After some in a row the session fails: something kills
    /// its sidecars, and waking it once more would go on for ever.
    pub(crate) fn run_was_fruitless(&mut self, cx: &Occasion<'_>) -> Result<Events, SessionError> {
        self.fruitless_runs = self.fruitless_runs.saturating_add(1);
        if self.fruitless_runs < Self::MAX_FRUITLESS_RUNS {
            return Ok(Vec::new());
        }
        let message = format!(
            "{} sidecars in a row ended before the agent took the message that waits.",
            self.fruitless_runs
        );
        self.fail(Operation::FailLaunch, FailureReason::InfrastructureError, Some(message), cx)
    }

    /// Nothing is left to resume with: the session stays suspended (rulings 22, 32).
    pub(crate) fn abandon_resume(&mut self) -> Result<Events, SessionError> {
        self.transition(Operation::AbandonResume, State::Paused)?;
        self.slot_wanted = None;
        Ok(vec![DomainEvent::ResumeAbandoned {}])
    }

    /// The sidecar refused a lifecycle request: the session is where it was before. A refused stop is enforced.
    pub(crate) fn request_refused(
        &mut self,
        command: CommandId,
        cx: &mut Occasion<'_>,
    ) -> Result<Events, SessionError> {
        if self.reload_refused(command) || self.outstanding().is_none_or(|o| o.command_id != command) {
            return Ok(Vec::new());
        }
        match self.status() {
            // Its turn, or its agent, had ended before it was suspended: there is nothing to resume but that end.
            AgentSessionStatus::Resuming if self.deferred_turn_end() => self.confirm_resumed(),
            AgentSessionStatus::Resuming => {
                self.transition(Operation::AbandonResume, State::Paused)?;
                Ok(vec![DomainEvent::ResumeAbandoned {}])
            }
            // An agent that will not stop is stopped by the runtime, which fulfils the request (ruling 12).
            _ => Ok(self.order_kill(true, cx)),
        }
    }

    /// A stopped agent acted (ruling 15): the first time the command goes out once more, then the process is ended.
    pub(crate) fn acted_after_stop(&mut self, what: &str, cx: &mut Occasion<'_>) -> Events {
        let kind = match self.status() {
            AgentSessionStatus::Interrupted => LifecycleCommand::Interrupt,
            AgentSessionStatus::Paused => LifecycleCommand::Pause,
            _ => LifecycleCommand::Stop,
        };
        match self.after_stop {
            None => {
                self.after_stop = Some(AfterStop::Reasserted);
                let mut events = vec![DomainEvent::AfterStopActivity { what: what.to_owned() }];
                events.extend(self.command(cx).map(|command| DomainEvent::CommandReissued { kind, command }));
                events
            }
            Some(AfterStop::Reasserted) => {
                self.after_stop = Some(AfterStop::Killed);
                let mut events = vec![DomainEvent::AfterStopActivity { what: what.to_owned() }];
                events.extend(self.order_kill(false, cx));
                events
            }
            Some(AfterStop::Killed) => Vec::new(),
        }
    }
}
