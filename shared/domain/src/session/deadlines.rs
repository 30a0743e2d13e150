//! Deadlines of a session (decision 12): the next one, and the effect of its expiry.

use super::{
    Absence, AgentSession, LifecycleCommand, Observation, PendingCommand, ProcessState, RunPhase,
    SessionError, State,
};
use crate::{CommandRef, Deadlines, DomainContext, Events, SessionEvent, Timestamp};

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum DeadlineKind {
    Received,
    /// A command was not carried out.
    Done,
    /// The sidecar of a run did not become ready.
    Launch,
    /// Nothing was received from a run.
    Silence,
    /// Envelopes are missing.
    Replay,
    /// `begin` was not received.
    Begin,
    Message,
    /// A request of the agent was not answered.
    Request,
    /// A run that was ordered to stop has not ended.
    Stop,
    /// The handoff document is missing.
    Document,
    /// A reload was not acknowledged.
    Reload,
    /// An answer or decision was not received.
    Answer,
    /// A validation was not received or its result is missing.
    Validation,
    /// The session was inactive for its idle timeout.
    Hibernation,
    /// An adjustment was not acknowledged.
    Adjustment,
    /// The agent's quota resets.
    Quota,
    /// The server's disk may have space again.
    Disk,
    /// The grace period of a kill is over.
    Kill,
}

impl DeadlineKind {
    /// Whether handling the deadline needs the state of the process.
    pub const fn needs_process_state(self) -> bool {
        !matches!(self, Self::Request | Self::Document | Self::Quota | Self::Disk)
    }
}

impl AgentSession {
    /// The next deadline. While the run is unreachable, only the check for its silence applies (decision 13).
    pub fn next_deadline(&self, limits: &Deadlines) -> Option<(Timestamp, DeadlineKind)> {
        if let Some(run) = self.run_state.current().filter(|run| run.unreachable.is_some()) {
            return Some((run.silent_at, DeadlineKind::Silence));
        }
        let mut due = Vec::new();
        if let Some(outstanding) = self.pending_command()
            && self.is_live()
        {
            match outstanding.received_at {
                None => due.push((
                    self.run_state.counted_from(outstanding.sent_at) + limits.received_timeout,
                    DeadlineKind::Received,
                )),
                Some(received) => {
                    let since =
                        self.run_state.counted_from(self.completion_awaited_since(outstanding, received));
                    due.push((since + self.completion_timeout(limits), DeadlineKind::Done));
                }
            }
        }
        if let Some(run) = self.run_state.current() {
            match run.phase {
                RunPhase::Launching => {
                    let since = self.run_state.counted_from(run.unplaced_at.unwrap_or(run.requested_at));
                    due.push((since + limits.launch_timeout, DeadlineKind::Launch));
                }
                RunPhase::Ending { since, killed: false, .. } => {
                    due.push((self.run_state.counted_from(since) + limits.stop_timeout, DeadlineKind::Stop));
                    due.push((run.silent_at, DeadlineKind::Silence));
                }
                RunPhase::Live | RunPhase::Ending { killed: true, .. } => {
                    due.push((run.silent_at, DeadlineKind::Silence));
                }
            }
            if let Some(gap) = run.inbox.gap() {
                due.push((gap.due_at, DeadlineKind::Replay));
            }
        }
        if self.is_live() {
            let unheard = |sent_at| self.run_state.counted_from(sent_at) + limits.received_timeout;
            due.extend(self.unheard_begin().map(|sent_at| (unheard(sent_at), DeadlineKind::Begin)));
            due.extend(
                self.delivery.oldest_unacknowledged().map(|m| (unheard(m.sent_at), DeadlineKind::Message)),
            );
            due.extend(
                self.requests
                    .oldest_unacknowledged_at()
                    .map(|sent_at| (unheard(sent_at), DeadlineKind::Answer)),
            );
            due.extend(self.validation_deadline(limits).map(|at| (at, DeadlineKind::Validation)));
            due.extend(self.hibernation_deadline(limits).map(|at| (at, DeadlineKind::Hibernation)));
            due.extend(self.adjustment_deadline(limits).map(|at| (at, DeadlineKind::Adjustment)));
        }
        due.extend(self.kill_deadline().map(|at| (at, DeadlineKind::Kill)));
        due.extend(self.document_deadline().map(|until| (until, DeadlineKind::Document)));
        if !self.is_held() {
            due.extend(self.quota_deadline(limits).map(|at| (at, DeadlineKind::Quota)));
            due.extend(self.disk_deadline().map(|at| (at, DeadlineKind::Disk)));
        }
        due.extend(self.reload_deadline(limits).map(|at| (at, DeadlineKind::Reload)));
        if self.status().is_waiting() && !self.is_held() {
            let expiring = self.requests.pending().iter().filter_map(|request| request.expires_at);
            due.extend(expiring.map(|at| (at, DeadlineKind::Request)));
        }
        due.into_iter().min()
    }

    fn unheard_begin(&self) -> Option<Timestamp> {
        self.run_state.current().and_then(|run| run.unheard_begin).map(|(_, sent_at)| sent_at)
    }

    fn completion_timeout(&self, limits: &Deadlines) -> std::time::Duration {
        if self.waits_patiently() && !self.must_stop() { limits.pause_timeout } else { limits.stop_timeout }
    }

    /// Since when the session waits for the pending command to be carried out: since its latest attempt or, if that is later, since a
    /// brake or a cancellation shortened the limit.
    fn completion_awaited_since(&self, outstanding: &PendingCommand, received: Timestamp) -> Timestamp {
        let asked = received.max(outstanding.sent_at);
        let shortened = self.hold.since().into_iter().chain(outstanding.cancel_accepted_at).min();
        shortened.map_or(asked, |since| asked.max(since))
    }

    /// Whether a late command only notifies the owner.
    pub(super) const fn waits_patiently(&self) -> bool {
        matches!(self.state, State::Pausing { .. } | State::Resuming { .. })
    }

    /// Whether a brake or an accepted cancellation waits for the pending command, so that a late command ends the process.
    const fn must_stop(&self) -> bool {
        self.is_held() || self.cancel_accepted
    }

    /// The command that the status waits for.
    pub(super) const fn pending_command_kind(&self) -> Option<LifecycleCommand> {
        match self.state {
            State::Interrupting { .. } => Some(LifecycleCommand::Interrupt),
            State::Pausing { .. } => Some(LifecycleCommand::Pause),
            State::Resuming { .. } => Some(LifecycleCommand::Resume),
            State::Cancelling { .. } => Some(LifecycleCommand::Stop),
            _ => None,
        }
    }

    /// Handles the deadlines that have expired.
    pub fn on_deadline(
        &mut self,
        observed: &Observation,
        ctx: &mut DomainContext<'_>,
    ) -> Result<Events, SessionError> {
        let process = observed.process;
        let mut events = Vec::new();
        if let Some(absence) = observed.absence
            && !self.run_state.restarted_deadlines_at(absence.until)
        {
            self.restart_deadlines(absence, ctx);
        }
        // Each step moves its own deadline, so the loop ends. The bound only guards against a bug.
        for step in 0..16 {
            let Some((at, due)) = self.next_deadline(&ctx.deadlines) else { break };
            if at > ctx.now {
                break;
            }
            // These decide on the state of the process, which was queried for the first step only. Parked envelopes must also be
            // applied before a run ends.
            if step > 0
                && matches!(
                    due,
                    DeadlineKind::Received
                        | DeadlineKind::Silence
                        | DeadlineKind::Launch
                        | DeadlineKind::Reload
                        | DeadlineKind::Disk
                )
            {
                break;
            }
            // The ticks are read only if a request is due first.
            if step > 0
                && due == DeadlineKind::Request
                && observed.ticks.is_none()
                && self.project().is_some()
            {
                break;
            }
            // Decide nothing about a run whose state is unknown: it is heard again or marked unreachable first. A launch with a
            // lease is given up in time.
            if process == ProcessState::Unreachable {
                let leased = self.run_state.current().is_some_and(|run| run.lease_ms.is_some());
                match due {
                    DeadlineKind::Launch if !leased => {
                        events.extend(self.suspect(process, ctx));
                        continue;
                    }
                    DeadlineKind::Launch | DeadlineKind::Silence => {}
                    due if due.needs_process_state() => {
                        self.restart_deadlines(Absence { from: ctx.now, until: ctx.now }, ctx);
                        continue;
                    }
                    _ => {}
                }
            }
            events.extend(match due {
                DeadlineKind::Received => self.on_unreceived_command(process, ctx),
                DeadlineKind::Done => self.on_unfinished_command(ctx),
                DeadlineKind::Launch => self.on_launch_timeout(process, ctx)?,
                DeadlineKind::Silence => self.on_silence(observed, ctx)?,
                DeadlineKind::Replay => self.on_replay_deadline(process, ctx),
                DeadlineKind::Begin => self.on_unacknowledged_begin(ctx),
                DeadlineKind::Message => self.on_unacknowledged_message(ctx),
                DeadlineKind::Request => self.expire_requests(observed.ticks, ctx)?,
                DeadlineKind::Stop => self.order_kill(false, ctx),
                DeadlineKind::Document => {
                    self.stop_awaiting_document();
                    Vec::new()
                }
                DeadlineKind::Reload => self.on_reload_deadline(process, ctx),
                DeadlineKind::Answer => self.on_unacknowledged_answer(ctx),
                DeadlineKind::Validation => self.on_validation_deadline(ctx)?,
                DeadlineKind::Hibernation => self.hibernate(ctx)?,
                DeadlineKind::Adjustment => self.on_adjustment_deadline(ctx),
                DeadlineKind::Quota => self.on_quota_reset(ctx),
                DeadlineKind::Disk => self.on_disk_deadline(ctx),
                DeadlineKind::Kill => self.on_kill_deadline(ctx),
            });
        }
        Ok(events)
    }

    /// A command was not received (decision 12). If the process is alive, send the command once more, then stop the process. If it
    /// is dead, wait for the report of its end, which arrives after the rest of its spool is published (decision 14).
    fn on_unreceived_command(&mut self, process: ProcessState, ctx: &mut DomainContext<'_>) -> Events {
        let Some(run_id) = self.run_state.current_id() else { return Vec::new() };
        let kind = self.pending_command_kind();
        let Some(outstanding) = self.state.pending_command_mut() else { return Vec::new() };
        if process == ProcessState::Dead {
            // If the report never comes, the silence ends the run (decision 13).
            outstanding.sent_at = ctx.now;
            return Vec::new();
        }
        if outstanding.attempt >= 2 {
            return self.enforce_stop(ctx);
        }
        outstanding.attempt += 1;
        outstanding.sent_at = ctx.now;
        let command = CommandRef { command_id: outstanding.command_id, run_id, attempt: outstanding.attempt };
        kind.map(|kind| SessionEvent::CommandReissued { kind, command }).into_iter().collect()
    }

    /// `begin` was not received: send it once more, then stop the process (decision 12).
    fn on_unacknowledged_begin(&mut self, ctx: &mut DomainContext<'_>) -> Events {
        let Some(run) = self.run_state.current_mut() else { return Vec::new() };
        let (Some(command_id), Some((attempt, _))) = (run.begin, run.unheard_begin) else {
            return Vec::new();
        };
        if attempt >= 2 {
            run.unheard_begin = None;
            return self.order_kill(false, ctx);
        }
        run.unheard_begin = Some((attempt + 1, ctx.now));
        let command = CommandRef { command_id, run_id: run.id, attempt: attempt + 1 };
        vec![SessionEvent::CommandReissued { kind: LifecycleCommand::Begin, command }]
    }

    /// A message was not received: send it once more, then stop the process (decision 12). The end of the run settles the message.
    fn on_unacknowledged_message(&mut self, ctx: &mut DomainContext<'_>) -> Events {
        if self.delivery.oldest_unacknowledged().is_none() {
            return Vec::new();
        }
        match self.delivery.resend_unacknowledged(ctx.now) {
            Some(resent) => vec![resent],
            None => self.order_kill(false, ctx),
        }
    }

    /// A command was not carried out in time (decision 12). For interrupt and stop, and while a brake holds the session or a
    /// cancellation waits, stop the process. For pause and resume, notify the owner and send the command once more, in case the
    /// acknowledgement was lost (decision 10).
    fn on_unfinished_command(&mut self, ctx: &mut DomainContext<'_>) -> Events {
        let Some(kind) = self.pending_command_kind() else { return Vec::new() };
        if self.must_stop() || !self.waits_patiently() {
            if self.cancel_accepted {
                self.record_enforcement();
            }
            return self.enforce_stop(ctx);
        }
        let Some(run_id) = self.run_state.current_id() else { return Vec::new() };
        let Some(outstanding) = self.state.pending_command_mut() else { return Vec::new() };
        outstanding.attempt = outstanding.attempt.saturating_add(1);
        outstanding.sent_at = ctx.now;
        let command = CommandRef { command_id: outstanding.command_id, run_id, attempt: outstanding.attempt };
        let was_late = std::mem::replace(&mut outstanding.late, true);
        let late = (!was_late).then_some(SessionEvent::CommandLate { kind });
        late.into_iter().chain([SessionEvent::CommandReissued { kind, command }]).collect()
    }

    /// Restarts deadlines after a period in which they did not count.
    pub(super) fn restart_deadlines(&mut self, stopped: Absence, ctx: &DomainContext<'_>) {
        self.run_state.restart_deadlines(stopped.until);
        self.requests.extend(stopped.until, stopped.until.since(stopped.from));
        self.record_open_requests();
        if let Some(run) = self.run_state.current_mut() {
            run.inbox.postpone(stopped.until.max(ctx.now) + ctx.deadlines.replay_interval);
        }
    }
}
