//! Life cycle operations with two phases (S3): interrupt, pause, resume and cancel. A request enters an intermediate status and sends
//! a command; the sidecar's `done` confirms it. Start and failure are here as well (S0 8.4).

use super::{
    AgentSession, AgentSessionStatus, CheckpointCause, Failure, Hold, Operation, PendingCommand,
    SessionError, State,
};
use crate::decision::CancelReason;
use crate::value::FailureReason;
use crate::{DomainContext, Events, SessionEvent};

impl AgentSession {
    /// Starts the agent (S0 8.4 `Start`). The hash of the API key is set here and stays until a retry (decision 8).
    pub(crate) fn start(
        &mut self,
        api_key_hash: &str,
        ctx: &DomainContext<'_>,
    ) -> Result<Events, SessionError> {
        self.transition(Operation::Start, State::Running)?;
        self.started_at.get_or_insert(ctx.now);
        self.api_key_hash = Some(api_key_hash.to_owned());
        Ok(vec![SessionEvent::Started {
            working_directory: self.definition.working_directory.as_str().to_owned(),
            objective: self.definition.objective.as_str().to_owned(),
            model_id: self.definition.model_id.as_str().to_owned(),
            enabled_skill_ids: self.enabled_skill_ids().to_vec(),
            execution_mode: Some(self.execution_mode()),
        }])
    }

    /// Running → Interrupting (S0 8.4 `RequestInterrupt`). Open requests of the agent are closed (decision 26).
    pub fn request_interrupt(&mut self, ctx: &mut DomainContext<'_>) -> Result<Events, SessionError> {
        self.check(Operation::RequestInterrupt)?;
        let command = self.run_state.command(ctx);
        let outstanding = PendingCommand::new(command, ctx);
        self.transition(Operation::RequestInterrupt, State::Interrupting { outstanding })?;
        self.end_between_turns();
        self.forget_answers();
        let mut events = vec![SessionEvent::InterruptRequested { command }];
        events.extend(self.close_requests(CancelReason::Interrupted, ctx.now));
        if self.run_state.current().is_none() {
            // Hibernated: there is no process to interrupt.
            events.extend(self.confirm_interrupted(false)?);
            self.run_state.hibernate();
        }
        Ok(events)
    }

    /// Interrupting → Interrupted, or → Idle if the turn had already ended (S0 8.4 `ConfirmInterrupted`; decision 17).
    pub fn confirm_interrupted(&mut self, turn_over: bool) -> Result<Events, SessionError> {
        if turn_over {
            self.transition(Operation::ConfirmInterruptedTurnOver, State::Idle)?;
        } else {
            self.transition(Operation::ConfirmInterrupted, State::Interrupted)?;
            self.delivery.end_turns();
        }
        let mut events = vec![SessionEvent::Interrupted {}];
        events.extend(self.end_open_tools());
        events.extend(self.requests.close_all());
        Ok(events)
    }

    /// Running → Pausing (S0 8.4 `RequestPause`). A session that a brake paused stays Paused after the release. If an agent of
    /// a project cannot pause, its process is ended instead (S2, "Capability-gated lifecycle semantics"; decision 94).
    pub fn request_pause(&mut self, ctx: &mut DomainContext<'_>) -> Result<Events, SessionError> {
        if self.keep_held() {
            return Ok(vec![SessionEvent::HoldKept {}]);
        }
        self.check(Operation::RequestPause)?;
        let can_pause = self.capabilities().is_none_or(|can| can.pause);
        if !can_pause && self.project().is_none() {
            return Err(SessionError::NotCapable { what: "pause; interrupt it instead" });
        }
        let command = if can_pause { self.run_state.command(ctx) } else { None };
        let outstanding = PendingCommand::new(command, ctx);
        self.transition(Operation::RequestPause, State::Pausing { outstanding })?;
        self.hand_back_end();
        let mut events = vec![SessionEvent::PauseRequested { command }];
        if !can_pause {
            events.extend(self.run_state.order_stop(true, ctx));
        }
        Ok(events)
    }

    /// Pausing → Paused (S0 8.4 `ConfirmPaused`).
    pub fn confirm_paused(&mut self) -> Result<Events, SessionError> {
        self.transition(Operation::ConfirmPaused, State::Paused)?;
        Ok(vec![SessionEvent::Paused {}])
    }

    /// Paused → Resuming (S0 8.4 `RequestResume`). A hibernated session first waits for a run (decision 22).
    pub fn request_resume(&mut self, ctx: &mut DomainContext<'_>) -> Result<Events, SessionError> {
        self.check(Operation::RequestResume)?;
        self.ensure_not_held()?;
        self.spending.ensure_budget()?;
        let command = self.run_state.command(ctx);
        let outstanding = PendingCommand::new(command, ctx);
        self.transition(Operation::RequestResume, State::Resuming { outstanding })?;
        // The agent reports again if it still waits.
        self.spending.quota = None;
        self.forget_full_disk();
        let mut events = vec![SessionEvent::ResumeRequested { command }];
        events.extend(self.resume_without_agent(ctx)?);
        Ok(events)
    }

    /// Confirms the resume of a hibernated session whose agent waits for its owner: the answer starts the next run. A brake that holds
    /// the session abandons the resume instead.
    pub(super) fn resume_without_agent(&mut self, ctx: &DomainContext<'_>) -> Result<Events, SessionError> {
        let resumes = self.status() == AgentSessionStatus::Resuming && self.hibernated();
        if !resumes || self.is_held() || self.requests.pending().is_empty() {
            return Ok(Vec::new());
        }
        self.confirm_resumed(ctx)
    }

    /// Resuming → Running (S0 8.4 `ConfirmResumed`), or the waiting status of a request that a brake kept open.
    pub fn confirm_resumed(&mut self, ctx: &DomainContext<'_>) -> Result<Events, SessionError> {
        self.transition(Operation::ConfirmResumed, State::Running)?;
        if !self.requests.pending().is_empty() {
            self.rest_by_requests();
            self.restart_request_deadlines(ctx);
        }
        Ok(vec![SessionEvent::Resumed {}])
    }

    /// Whether the resume was not sent: its run does not exist yet, is being launched or is being stopped.
    pub(crate) fn is_resume_unsent(&self) -> bool {
        self.status() == AgentSessionStatus::Resuming
            && !self.is_live()
            && self.pending_command().is_some_and(|command| command.attempt == 0)
    }

    /// Returns to Paused because there is no budget or slot to resume with (decisions 22, 32).
    pub(crate) fn abandon_resume(&mut self) -> Result<Events, SessionError> {
        self.transition(Operation::AbandonResume, State::Paused)?;
        self.run_state.withdraw_slot_request();
        Ok(vec![SessionEvent::ResumeAbandoned {}])
    }

    /// Cancels the session (S0 8.4 `RequestCancel`). In an intermediate status the cancellation waits until that resolves. If that
    /// takes longer than a stop may take, the process is ended, which resolves the status. `force` makes the runtime kill the process
    /// at once (decision 16). If no agent has started, the cancellation is confirmed at once.
    pub fn request_cancel(
        &mut self,
        force: bool,
        ctx: &mut DomainContext<'_>,
    ) -> Result<Events, SessionError> {
        let status = self.status();
        let mut events = Vec::new();
        if status.is_intermediate() {
            if status != AgentSessionStatus::Cancelling && !self.cancel_accepted {
                self.cancel_accepted = true;
                if self.waits_patiently()
                    && let Some(outstanding) = self.state.pending_command_mut()
                {
                    outstanding.cancel_accepted_at = Some(ctx.now);
                }
                self.touch_control();
                events.push(SessionEvent::CancelAccepted {});
            }
        } else {
            self.check(Operation::RequestCancel)?;
            events.extend(self.begin_cancel(ctx));
            // No agent has started, so there is nothing to wait for.
            if self.run_state.current().is_none_or(|run| run.begin.is_none()) {
                self.record_stop(true);
                events.extend(self.confirm_cancelled(ctx)?);
            }
        }
        if force {
            self.record_enforcement();
            events.extend(self.order_kill(true, ctx));
        }
        Ok(events)
    }

    fn begin_cancel(&mut self, ctx: &mut DomainContext<'_>) -> Events {
        let command = self.run_state.command(ctx);
        let outstanding = PendingCommand::new(command, ctx);
        self.enter(State::Cancelling { outstanding });
        self.end_between_turns();
        self.run_state.withdraw_slot_request();
        self.configuration.drop_reload();
        let mut events = vec![SessionEvent::CancelRequested { command }];
        self.prepare_stop();
        events.extend(self.close_requests(CancelReason::SessionCancelled, ctx.now));
        events
    }

    /// Carries out an accepted cancellation, because the process that had to resolve the earlier request is gone (decision 16).
    pub(super) fn cancel_without_process(
        &mut self,
        ctx: &mut DomainContext<'_>,
    ) -> Result<Events, SessionError> {
        let mut events = self.begin_cancel(ctx);
        self.record_stop(false);
        events.extend(self.confirm_cancelled(ctx)?);
        Ok(events)
    }

    /// Cancelling → Cancelled (S0 8.4 `ConfirmCancelled`).
    pub fn confirm_cancelled(&mut self, ctx: &DomainContext<'_>) -> Result<Events, SessionError> {
        self.transition(Operation::ConfirmCancelled, State::Cancelled)?;
        self.end(ctx);
        Ok(vec![SessionEvent::Cancelled {}])
    }

    /// → Failed (S0 8.4 `RecordFailure`).
    pub fn record_failure(
        &mut self,
        reason: FailureReason,
        message: Option<String>,
        ctx: &DomainContext<'_>,
    ) -> Result<Events, SessionError> {
        self.fail(Operation::RecordFailure, reason, message, ctx)
    }

    pub(crate) fn fail(
        &mut self,
        operation: Operation,
        reason: FailureReason,
        message: Option<String>,
        ctx: &DomainContext<'_>,
    ) -> Result<Events, SessionError> {
        let pending = self.open_decision_ids();
        self.transition(operation, State::Failed { failure: Failure { reason, message: message.clone() } })?;
        if reason.is_crash() {
            self.make_checkpoint(CheckpointCause::CrashRecovery, pending, ctx.now);
        }
        self.end(ctx);
        let mut events = vec![SessionEvent::Failed { failure_reason: reason, message }];
        events.extend(self.close_requests(CancelReason::SessionFailed, ctx.now));
        Ok(events)
    }

    pub(super) fn end(&mut self, ctx: &DomainContext<'_>) {
        self.completed_at.get_or_insert(ctx.now);
        self.grants.clear();
        self.delivery.end_turns();
        self.run_state.withdraw_slot_request();
        self.cancel_accepted = false;
        self.hold = Hold::default();
        self.drop_restart();
        self.configuration.drop_reload();
        self.run_state.wake();
        self.forget_answers();
        self.record_review_cancelled(self.end_reason(), ctx.now);
        self.spending.quota = None;
        self.forget_full_disk();
        // Adjustments that were sent are settled when the sidecar ends; the others are dropped.
        self.adjustments.drop_unsent();
    }
}
