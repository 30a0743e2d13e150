//! The end of a run: what it means for the session (decisions 12, 14, 17).

use super::{
    AgentFact, AgentSession, AgentSessionStatus, CheckpointCause, Operation, PendingCommand, RunCause,
    RunPhase, SessionError, State,
};
use crate::text::cut;
use crate::value::{Disk, FailureReason};
use crate::{DomainContext, Events, RunId, SessionEvent};

/// What is known about the end of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunEnd {
    /// Its process is gone, and all that its sidecar spooled was received.
    Drained,
    /// Its process is gone. Its sidecar may have spooled more than was received.
    Undrained,
    /// The owner declared its machine lost; the end of its process was not observed (decision 13).
    Lost,
}

impl AgentSession {
    /// Ends a run whose process was not seen to end: frees its slot, recognises late envelopes, and orders the runtime to kill the
    /// process in case it lives.
    pub(super) fn record_process_dead(
        &mut self,
        run: RunId,
        why: &str,
        ctx: &mut DomainContext<'_>,
    ) -> Result<Events, SessionError> {
        let mut events = self.order_kill(false, ctx);
        events.extend(self.record_run_ended(run, RunEnd::Undrained, Some(why.to_owned()), ctx)?);
        Ok(events)
    }

    /// Ends the current run because its process is gone (decisions 12, 14). Does nothing for another run. The caller handles
    /// messages in flight.
    pub fn record_run_ended(
        &mut self,
        run_id: RunId,
        end: RunEnd,
        detail: Option<String>,
        ctx: &mut DomainContext<'_>,
    ) -> Result<Events, SessionError> {
        use AgentSessionStatus as S;
        let end_uncertain = end == RunEnd::Lost;
        let Some(run) = self.run_state.end(run_id, end_uncertain, ctx.now) else { return Ok(Vec::new()) };
        self.touch_control();

        let fulfils = matches!(run.phase, RunPhase::Ending { fulfils_request: true, .. });
        let ordered = matches!(run.phase, RunPhase::Ending { .. });
        let unasked = self.pending_command().is_some_and(|outstanding| outstanding.attempt == 0);
        let launching = run.phase == RunPhase::Launching || run.begin.is_none();
        if self.full_disk.is_some_and(|full| full.disk == Disk::Worker) {
            self.forget_full_disk();
        }
        self.stop_awaiting_document();
        let mut events = self.end_open_tools();
        let message = || {
            let detail = detail.as_deref().unwrap_or("no reason was given");
            Some(cut(&format!("The sidecar's process ended: {detail}"), 1000))
        };
        match self.status() {
            S::Cancelling => {
                self.record_stop(false);
                events.extend(self.confirm_cancelled(ctx)?);
            }
            // The interrupt was requested while the sidecar was already being stopped, so it was never sent.
            S::Interrupting if fulfils || (ordered && unasked) => {
                let turn_over = self.delivery.is_turn_end_deferred();
                events.extend(self.confirm_interrupted(turn_over)?);
                events.extend(self.apply_turn_end_of_interrupt(ctx));
                self.run_state.hibernate();
            }
            S::Pausing if fulfils || (ordered && self.is_held()) => {
                let pending = self.open_decision_ids();
                self.make_checkpoint(CheckpointCause::Pause, pending, ctx.now);
                events.extend(self.confirm_paused()?);
                self.run_state.hibernate();
            }
            // The resume was requested while the run was being stopped and was never sent: the next run resumes.
            S::Resuming if ordered && unasked => self.run_state.hibernate(),
            S::Resuming if fulfils => {
                self.transition(Operation::AbandonResume, State::Paused)?;
                events.push(SessionEvent::ResumeAbandoned {});
                self.run_state.hibernate();
            }
            // This is the run before the retry, which was ordered to stop.
            S::Queued if ordered => {}
            S::Queued => {
                events.extend(self.fail(
                    Operation::FailLaunch,
                    FailureReason::InfrastructureError,
                    message(),
                    ctx,
                )?);
            }
            status if status.survives_its_process() => {
                if launching && run.cause == RunCause::Wake && !ordered {
                    events.extend(self.fail(
                        Operation::FailLaunch,
                        FailureReason::InfrastructureError,
                        message(),
                        ctx,
                    )?);
                } else {
                    self.check(Operation::Hibernate)?;
                    self.run_state.hibernate();
                }
            }
            S::Running | S::Interrupting | S::Pausing | S::Resuming => {
                events.extend(self.died_at_work(end, message(), ctx)?);
            }
            _ => {}
        }
        events.extend(self.reloaded_by_end_of_run());
        events.extend(self.adjustments_of_ended_run());
        if !self.run_state.is_hibernated() {
            self.delivery.close_turn();
        } else if matches!(self.status(), S::Paused | S::Resuming) {
            events.extend(self.delivery.lose_turn());
        }
        events.push(SessionEvent::RunEnded { run_id, status: self.status(), detail, end_uncertain });
        events.extend(self.resume_without_agent(ctx)?);
        Ok(events)
    }

    /// Handles the death of the process while Running or under a request. Facts from before the death count first (decision 17): a
    /// turn that had ended did not fail, and the agent's own reason is kept (decision 19). Otherwise decision 14 applies. A
    /// cancellation that waits is carried out in each case: its owner wants no failure that can be recovered from.
    fn died_at_work(
        &mut self,
        end: RunEnd,
        message: Option<String>,
        ctx: &mut DomainContext<'_>,
    ) -> Result<Events, SessionError> {
        use AgentSessionStatus as S;
        if self.cancel_accepted {
            let turn_over = self.status() == S::Interrupting && self.delivery.is_turn_end_deferred();
            // The output of a turn that was over counts. The cancellation follows in the same commit.
            return if turn_over { self.interrupt_ended_turn(ctx) } else { self.cancel_without_process(ctx) };
        }
        let own_reason = |fact: &AgentFact| matches!(fact, AgentFact::SessionEnded { is_error: true, .. });
        if let Some(AgentFact::SessionEnded { reason, message, output, .. }) =
            self.delivery.take_deferred(own_reason)
        {
            return self.end_conversation(true, &reason, message, output, ctx);
        }
        if end == RunEnd::Drained && self.is_resume_unreceived() {
            return self.resume_in_next_run(ctx);
        }
        if self.status() == S::Running && self.is_between_turns() {
            return self.died_between_turns(ctx);
        }
        if self.status() == S::Running && self.requests.has_unacknowledged_answers() {
            // The agent never received the answer that it waited for. The answer is sent as a message (decisions 12, 26).
            self.transition(Operation::AnswerHibernated, State::Idle)?;
            self.delivery.close_turn();
            self.run_state.hibernate();
            return Ok(Vec::new());
        }
        if !self.delivery.is_turn_end_deferred()
            && !self.awaits_continuation()
            && !self.requests.has_unacknowledged_answers()
        {
            return self.fail(Operation::RecordFailure, FailureReason::InfrastructureError, message, ctx);
        }
        let mut events = Vec::new();
        match self.status() {
            S::Interrupting => return self.interrupt_ended_turn(ctx),
            S::Resuming => {
                self.transition(Operation::AbandonResume, State::Paused)?;
                events.push(SessionEvent::ResumeAbandoned {});
            }
            S::Pausing => events.extend(self.confirm_paused()?),
            _ => {
                return self.fail(Operation::RecordFailure, FailureReason::InfrastructureError, message, ctx);
            }
        }
        self.run_state.hibernate();
        Ok(events)
    }

    /// Interrupting → Idle: the turn had ended before its process.
    fn interrupt_ended_turn(&mut self, ctx: &mut DomainContext<'_>) -> Result<Events, SessionError> {
        let mut events = self.confirm_interrupted(true)?;
        events.extend(self.apply_turn_end_of_interrupt(ctx));
        self.run_state.hibernate();
        Ok(events)
    }

    /// Whether the resume was sent to the run and its sidecar has not stored it.
    fn is_resume_unreceived(&self) -> bool {
        let sent = |command: &PendingCommand| command.attempt > 0 && command.received_at.is_none();
        self.status() == AgentSessionStatus::Resuming && self.pending_command().is_some_and(sent)
    }

    /// The process ended before the agent could work again, so nothing was lost that its end during the pause would have kept: the
    /// next run resumes (decision 14).
    fn resume_in_next_run(&mut self, ctx: &mut DomainContext<'_>) -> Result<Events, SessionError> {
        if !self.is_held() {
            let failed = self.run_was_fruitless("the agent resumed", ctx)?;
            if !failed.is_empty() {
                return Ok(failed);
            }
        }
        // With another id, so that no late acknowledgement of the run that ended confirms it.
        let next = PendingCommand::new(None, ctx);
        if let Some(outstanding) = self.state.pending_command_mut() {
            *outstanding = next;
        }
        self.run_state.hibernate();
        Ok(Vec::new())
    }

    /// Counts a run that ended before what it was started for (`before` names that). After several in a row the session fails,
    /// because another run would fail the same way.
    pub(crate) fn run_was_fruitless(
        &mut self,
        before: &str,
        ctx: &DomainContext<'_>,
    ) -> Result<Events, SessionError> {
        let Some((runs, reason)) = self.run_state.count_fruitless(Self::MAX_FRUITLESS_RUNS) else {
            return Ok(Vec::new());
        };
        let because = reason.map_or_else(String::new, |why| format!(" The last one said: {why}"));
        let message = format!("{runs} sidecars in a row ended before {before}.{because}");
        self.fail(Operation::FailLaunch, FailureReason::InfrastructureError, Some(cut(&message, 1000)), ctx)
    }
}
