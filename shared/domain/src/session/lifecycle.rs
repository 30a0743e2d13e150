//! The life of a session: created, started, interrupted, paused, resumed, cancelled, failed, retried, closed,
//! approved, rejected (S0 8.4).
//!
//! Interrupt, pause, resume and cancel are two-phase (S3): a request moves to an intermediate status and orders a
//! command; the sidecar's `done` confirms.

use std::collections::BTreeMap;

use super::{
    AgentSession, AgentSessionStatus, Failure, LifecycleCommand, Operation, Outstanding, RetryOrder, Run,
    RunCause, RunPhase, SessionError, SessionSettings, State,
};
use crate::text::{Feedback, ModelId, Objective, SessionName, WorkingDirectory};
use crate::value::{AutoContinueConfig, ExecutionMode, FailureReason, SessionBudget, SessionMetrics};
use crate::{
    AgentSessionId, AgentTemplateId, CommandId, CommandRef, DomainEvent, Events, Occasion, OutputId, RunId,
    StopMode, Usd, UserId,
};

/// What a session is created from (S0 8.7 `StartAgentSessionCommand`).
#[derive(Debug, Clone, PartialEq)]
pub struct NewSession {
    /// Its id.
    pub id: AgentSessionId,
    /// Its owner.
    pub owner_id: UserId,
    /// Its template.
    pub template_id: Option<AgentTemplateId>,
    /// Its name; none: made from the objective.
    pub name: Option<SessionName>,
    /// Where its agent runs.
    pub working_directory: WorkingDirectory,
    /// What its agent is to do.
    pub objective: Objective,
    /// Its model.
    pub model_id: ModelId,
    /// Its money.
    pub budget: SessionBudget,
    /// When it goes on by itself.
    pub auto_continue: Option<AutoContinueConfig>,
    /// What S0 leaves open.
    pub settings: SessionSettings,
}

impl AgentSession {
    /// A new session, Queued.
    pub fn create(new: NewSession, cx: &Occasion<'_>) -> (Self, Events) {
        let name = new.name.unwrap_or_else(|| SessionName::from_objective(&new.objective));
        let created = DomainEvent::SessionCreated {
            objective: new.objective.as_str().to_owned(),
            model_id: new.model_id.as_str().to_owned(),
        };
        let session = Self {
            id: new.id,
            owner_id: new.owner_id,
            template_id: new.template_id,
            chain_id: None,
            name,
            working_directory: new.working_directory,
            objective: new.objective,
            model_id: new.model_id,
            enabled_skill_ids: Vec::new(),
            execution_mode: ExecutionMode::Standalone,
            settings: new.settings,
            state: State::Queued,
            hibernated: false,
            budget: new.budget,
            metrics: SessionMetrics::default(),
            meters: BTreeMap::new(),
            auto_continue: new
                .auto_continue
                .map(|auto| AutoContinueConfig { current_continuation_count: 0, ..auto }),
            task_list: None,
            plan: None,
            api_key_hash: None,
            output: None,
            has_pending_review: false,
            staged_output: None,
            retry_count: 0,
            retry: None,
            started_at: None,
            completed_at: None,
            created_at: cx.now,
            updated_at: cx.now,
            run: None,
            runs: 0,
            past_runs: Vec::new(),
            slot_wanted: Some(RunCause::Start),
            turn: None,
            pending_requests: Vec::new(),
            in_flight: Vec::new(),
            deferred: Vec::new(),
            cancel_accepted: false,
            after_stop: None,
            fruitless_runs: 0,
            reload: None,
            config_changed: false,
            consolidates: None,
            open_tool_calls: BTreeMap::new(),
            between_turns: None,
            unheard_answers: Vec::new(),
            pending_adjustments: Vec::new(),
            agent_settings: None,
            model_follows: false,
            quota: None,
            last_outcome: None,
            deliverables: None,
            handoff_document: None,
            document_awaited_until: None,
            continues: None,
            continuation: None,
            control_version: 1,
            journal_sequence: 0,
        };
        (session, vec![created])
    }

    /// How it came to run, where that is not by itself. For a session that was just created.
    pub const fn runs_as(&mut self, mode: ExecutionMode) {
        self.execution_mode = mode;
    }

    /// Mints the run that a slot was found for (ruling 7). Nothing happens when none is wanted any more.
    pub fn mint_run(&mut self, cx: &mut Occasion<'_>) -> Option<(RunId, Events)> {
        if self.run.is_some() {
            return None;
        }
        let cause = self.slot_wanted()?;
        self.slot_wanted = None;
        self.runs += 1;
        let id = cx.run_id();
        self.run = Some(Run {
            id,
            ordinal: self.runs,
            cause,
            phase: RunPhase::Launching,
            requested_at: cx.now,
            unplaced_at: None,
            silent_at: cx.now + cx.deadlines.launched,
            begin: None,
            unheard_begin: None,
            capabilities: None,
            spent_usd: Usd::ZERO,
            allowance_told: None,
            inbox: super::Inbox::default(),
        });
        self.touch_control();
        Some((id, vec![DomainEvent::RunRequested { run_id: id, ordinal: self.runs, cause }]))
    }

    /// `Start(apiKey)`: the agent begins. The key's hash is set once and stays until a retry (ruling 8).
    pub(crate) fn start(&mut self, api_key_hash: &str, cx: &Occasion<'_>) -> Result<Events, SessionError> {
        self.transition(Operation::Start, State::Running)?;
        self.started_at.get_or_insert(cx.now);
        self.api_key_hash = Some(api_key_hash.to_owned());
        Ok(vec![DomainEvent::SessionStarted {
            working_directory: self.working_directory.as_str().to_owned(),
            objective: self.objective.as_str().to_owned(),
            model_id: self.model_id.as_str().to_owned(),
        }])
    }

    pub(super) fn outstanding_for(command: Option<CommandRef>, cx: &mut Occasion<'_>) -> Outstanding {
        Outstanding {
            command_id: command.map_or_else(|| cx.command_id(), |c| c.command_id),
            attempt: command.map_or(0, |c| c.attempt),
            sent_at: cx.now,
            received_at: None,
            late: false,
        }
    }

    /// `RequestInterrupt()`: Running → Interrupting. While the agent waits it closes what the agent waits for
    /// (ruling 26).
    pub fn request_interrupt(&mut self, cx: &mut Occasion<'_>) -> Result<Events, SessionError> {
        self.check(Operation::RequestInterrupt)?;
        let command = self.command(cx);
        let outstanding = Self::outstanding_for(command, cx);
        self.transition(Operation::RequestInterrupt, State::Interrupting { outstanding })?;
        self.hand_back_end();
        self.unheard_answers.clear();
        let mut events = vec![DomainEvent::InterruptRequested { command }];
        events.extend(self.close_all_requests());
        if self.run.is_none() {
            // Hibernated: there is no process to ask.
            events.extend(self.confirm_interrupted(false)?);
            self.hibernated = true;
        }
        Ok(events)
    }

    /// `ConfirmInterrupted()`: Interrupting → Interrupted; → Idle when the turn had ended by itself (ruling 17).
    pub fn confirm_interrupted(&mut self, turn_over: bool) -> Result<Events, SessionError> {
        if turn_over {
            self.transition(Operation::ConfirmInterruptedTurnOver, State::Idle)?;
        } else {
            self.transition(Operation::ConfirmInterrupted, State::Interrupted)?;
            self.turn = None;
            self.between_turns = None;
        }
        let mut events = vec![DomainEvent::Interrupted {}];
        events.extend(self.close_all_requests());
        Ok(events)
    }

    /// `RequestPause()`: Running → Pausing.
    pub fn request_pause(&mut self, cx: &mut Occasion<'_>) -> Result<Events, SessionError> {
        self.check(Operation::RequestPause)?;
        if self.capabilities().is_some_and(|can| !can.pause) {
            return Err(SessionError::NotCapable { what: "pause; interrupt it instead" });
        }
        let command = self.command(cx);
        let outstanding = Self::outstanding_for(command, cx);
        self.transition(Operation::RequestPause, State::Pausing { outstanding })?;
        self.hand_back_end();
        Ok(vec![DomainEvent::PauseRequested { command }])
    }

    /// `ConfirmPaused()`: Pausing → Paused.
    pub fn confirm_paused(&mut self) -> Result<Events, SessionError> {
        self.transition(Operation::ConfirmPaused, State::Paused)?;
        Ok(vec![DomainEvent::Paused {}])
    }

    /// `RequestResume()`: Paused → Resuming. A hibernated session waits for its run first (ruling 22).
    pub fn request_resume(&mut self, cx: &mut Occasion<'_>) -> Result<Events, SessionError> {
        self.check(Operation::RequestResume)?;
        self.ensure_budget()?;
        let command = self.command(cx);
        let outstanding = Self::outstanding_for(command, cx);
        self.transition(Operation::RequestResume, State::Resuming { outstanding })?;
        // The agent tells again if it still holds.
        self.quota = None;
        Ok(vec![DomainEvent::ResumeRequested { command }])
    }

    /// `ConfirmResumed()`: Resuming → Running.
    pub fn confirm_resumed(&mut self) -> Result<Events, SessionError> {
        self.transition(Operation::ConfirmResumed, State::Running)?;
        Ok(vec![DomainEvent::Resumed {}])
    }

    /// `RequestCancel()`. In an intermediate status it is accepted and carried out when that resolves; with
    /// `force` the runtime ends the process at once (ruling 16). Without a live sidecar it confirms at once.
    pub fn request_cancel(&mut self, force: bool, cx: &mut Occasion<'_>) -> Result<Events, SessionError> {
        let status = self.status();
        let mut events = Vec::new();
        if status.is_intermediate() {
            if status != AgentSessionStatus::Cancelling && !self.cancel_accepted {
                self.cancel_accepted = true;
                self.touch_control();
                events.push(DomainEvent::CancelAccepted {});
            }
        } else {
            self.check(Operation::RequestCancel)?;
            let command = self.command(cx);
            let outstanding = Self::outstanding_for(command, cx);
            self.transition(Operation::RequestCancel, State::Cancelling { outstanding })?;
            self.hand_back_end();
            self.slot_wanted = None;
            self.reload = None;
            events.push(DomainEvent::CancelRequested { command });
            events.extend(self.close_all_requests());
            // No agent began: there is nothing to wait for. A run that is being ended already resolves this.
            if self.run.as_ref().is_none_or(|run| run.begin.is_none()) {
                events.extend(self.confirm_cancelled(cx)?);
            }
        }
        if force {
            events.extend(self.order_kill(true, cx));
        }
        Ok(events)
    }

    /// `ConfirmCancelled()`: Cancelling → Cancelled.
    pub fn confirm_cancelled(&mut self, cx: &Occasion<'_>) -> Result<Events, SessionError> {
        self.transition(Operation::ConfirmCancelled, State::Cancelled)?;
        self.end(cx);
        Ok(vec![DomainEvent::Cancelled {}])
    }

    /// `ApproveOutput()`: Idle with output → Completed. Names the output that was looked at (ruling 18).
    pub fn approve_output(&mut self, output: OutputId, cx: &Occasion<'_>) -> Result<Events, SessionError> {
        let commit_sha = self.reviewed(Operation::ApproveOutput, output)?;
        self.transition(Operation::ApproveOutput, State::Completed)?;
        self.has_pending_review = false;
        self.end(cx);
        Ok(vec![DomainEvent::Approved { output_id: output, commit_sha }])
    }

    /// `RejectOutput(reason)`: Idle with output → Failed, `VerificationFailed` (ruling 24).
    pub fn reject_output(
        &mut self,
        output: OutputId,
        reason: Option<Feedback>,
        cx: &Occasion<'_>,
    ) -> Result<Events, SessionError> {
        self.reviewed(Operation::RejectOutput, output)?;
        let failure = Failure {
            reason: FailureReason::VerificationFailed,
            message: reason.as_ref().map(|r| r.as_str().to_owned()),
        };
        self.transition(Operation::RejectOutput, State::Failed { failure: failure.clone() })?;
        self.has_pending_review = false;
        self.end(cx);
        Ok(vec![
            DomainEvent::Rejected { output_id: output, reason },
            DomainEvent::Failed { failure_reason: failure.reason, message: failure.message },
        ])
    }

    fn reviewed(
        &self,
        operation: Operation,
        named: OutputId,
    ) -> Result<Option<crate::value::CommitSha>, SessionError> {
        self.check(operation)?;
        self.ensure_no_turn_starting()?;
        match &self.output {
            Some(recorded) if self.has_pending_review => {
                if recorded.output_id == named {
                    Ok(recorded.output.commit_sha.clone())
                } else {
                    Err(SessionError::OutputChanged)
                }
            }
            _ => Err(SessionError::NothingToReview),
        }
    }

    /// `Close()`: Idle without output → Completed.
    pub fn close(&mut self, cx: &Occasion<'_>) -> Result<Events, SessionError> {
        self.check(Operation::Close)?;
        self.ensure_no_turn_starting()?;
        if self.has_pending_review {
            return Err(SessionError::ReviewPending);
        }
        self.transition(Operation::Close, State::Completed)?;
        self.end(cx);
        Ok(vec![DomainEvent::Closed {}])
    }

    /// `RecordFailure(reason, message)`.
    pub fn record_failure(
        &mut self,
        reason: FailureReason,
        message: Option<String>,
        cx: &Occasion<'_>,
    ) -> Result<Events, SessionError> {
        self.fail(Operation::RecordFailure, reason, message, cx)
    }

    pub(crate) fn fail(
        &mut self,
        operation: Operation,
        reason: FailureReason,
        message: Option<String>,
        cx: &Occasion<'_>,
    ) -> Result<Events, SessionError> {
        self.transition(operation, State::Failed { failure: Failure { reason, message: message.clone() } })?;
        self.end(cx);
        let mut events = vec![DomainEvent::Failed { failure_reason: reason, message }];
        events.extend(self.close_all_requests());
        Ok(events)
    }

    /// `Retry(instruction)`: Failed → Queued. Keeps spend; clears what failed (ruling 24).
    pub fn retry(
        &mut self,
        instruction: Option<Feedback>,
        fresh: bool,
        cx: &Occasion<'_>,
    ) -> Result<Events, SessionError> {
        self.check(Operation::Retry)?;
        if let Some(continuation) = self.continuation {
            return Err(SessionError::Continued { continuation });
        }
        self.ensure_budget()?;
        if self.retry_count >= self.settings.max_retries {
            return Err(SessionError::RetriesExhausted { max: self.settings.max_retries });
        }
        self.transition(Operation::Retry, State::Queued)?;
        self.retry_count += 1;
        self.retry = Some(RetryOrder { instruction: instruction.clone(), fresh });
        self.completed_at = None;
        self.output = None;
        self.staged_output = None;
        self.has_pending_review = false;
        self.pending_requests.clear();
        self.deferred.clear();
        self.hibernated = false;
        self.fruitless_runs = 0;
        self.quota = None;
        if let Some(auto) = &mut self.auto_continue {
            auto.current_continuation_count = 0;
        }
        self.slot_wanted = Some(RunCause::Retry);
        self.updated_at = cx.now;
        Ok(vec![DomainEvent::Retried { retry_count: self.retry_count, additional_instruction: instruction }])
    }

    /// Changes the cap. A raised cap lifts exhaustion; the owner resumes by themselves (ruling 32).
    pub fn change_budget(&mut self, cap: Usd, warn_at_percent: Option<u8>) -> Result<Events, SessionError> {
        self.check(Operation::ChangeBudget)?;
        self.budget.change(cap, warn_at_percent.unwrap_or_else(|| self.budget.warn_at_percent()))?;
        self.touch_control();
        let mut events = vec![DomainEvent::BudgetChanged { cap_usd: cap }];
        if self.status() == AgentSessionStatus::Queued && self.run.is_none() {
            // It may have waited for nothing else.
            events.extend(self.slot_wanted.map(|cause| DomainEvent::SlotWanted { cause }));
        }
        Ok(events)
    }

    /// What every end has in common.
    fn end(&mut self, cx: &Occasion<'_>) {
        self.completed_at.get_or_insert(cx.now);
        self.turn = None;
        self.slot_wanted = None;
        self.cancel_accepted = false;
        self.reload = None;
        self.hibernated = false;
        self.between_turns = None;
        self.unheard_answers.clear();
        self.quota = None;
        // What was asked of its sidecar is settled with the end of that; nothing else is asked any more.
        self.pending_adjustments.retain(|pending| pending.order.attempt > 0);
    }

    /// Orders the end of the run of a session that needs it no more; nothing when that was done or there is none.
    pub(crate) fn order_stop(&mut self, cx: &mut Occasion<'_>) -> Events {
        let Some(run) = &mut self.run else { return Vec::new() };
        let mode = match run.phase {
            RunPhase::Ending { .. } => return Vec::new(),
            RunPhase::Live => StopMode::Graceful,
            // No sidecar reads commands yet.
            RunPhase::Launching => StopMode::Kill,
        };
        run.phase =
            RunPhase::Ending { since: cx.now, killed: mode == StopMode::Kill, fulfils_request: false };
        let command = CommandRef { command_id: cx.command_id(), run_id: run.id, attempt: 1 };
        vec![DomainEvent::RunStopOrdered { command, mode }]
    }

    /// Orders the runtime to end the process at once; nothing when that was done or there is no run.
    pub(crate) fn order_kill(&mut self, fulfils: bool, cx: &mut Occasion<'_>) -> Events {
        let Some(run) = &mut self.run else { return Vec::new() };
        let (since, fulfilled) = match run.phase {
            RunPhase::Ending { killed: true, .. } => return Vec::new(),
            RunPhase::Ending { since, fulfils_request, .. } => (since, fulfils_request),
            RunPhase::Launching | RunPhase::Live => (cx.now, false),
        };
        run.phase = RunPhase::Ending { since, killed: true, fulfils_request: fulfils || fulfilled };
        // Its end takes a moment to be seen, also where its last word is long ago.
        run.silent_at = run.silent_at.max(cx.now + cx.deadlines.stopped);
        let command = CommandRef { command_id: cx.command_id(), run_id: run.id, attempt: 1 };
        vec![DomainEvent::RunStopOrdered { command, mode: StopMode::Kill }]
    }

    /// A lifecycle command was carried out. Only the outstanding command of the current run confirms (ruling 11).
    pub(crate) fn command_done(
        &mut self,
        kind: LifecycleCommand,
        command: CommandId,
        cx: &mut Occasion<'_>,
    ) -> Result<Events, SessionError> {
        use AgentSessionStatus as S;
        match (kind, self.status()) {
            // The stop that follows a terminal status has nothing left to confirm.
            (LifecycleCommand::Begin | LifecycleCommand::Answer | LifecycleCommand::Validate, _) => {
                return Ok(Vec::new());
            }
            (LifecycleCommand::Reload, _) => return self.reload_done(command),
            (LifecycleCommand::Adjust, _) => return self.adjustment_done(command),
            (LifecycleCommand::Stop, status) if status.is_terminal() => return Ok(Vec::new()),
            // Nor has the stop of a run that is not needed while its session rests.
            (LifecycleCommand::Stop, status) if status.survives_its_process() && !self.is_live() => {
                return Ok(Vec::new());
            }
            _ => {}
        }
        if self.outstanding().is_none_or(|o| o.command_id != command) {
            return Err(SessionError::StaleAck);
        }
        match (kind, self.status()) {
            (LifecycleCommand::Interrupt, S::Interrupting) => {
                let turn_over = self.deferred_turn_end();
                let mut events = self.confirm_interrupted(turn_over)?;
                events.extend(self.apply_turn_end_of_interrupt(cx));
                Ok(events)
            }
            (LifecycleCommand::Pause, S::Pausing) => self.confirm_paused(),
            (LifecycleCommand::Resume, S::Resuming) => self.confirm_resumed(),
            (LifecycleCommand::Stop, S::Cancelling) => self.confirm_cancelled(cx),
            _ => Err(SessionError::StaleAck),
        }
    }

    /// The sidecar has the outstanding command in its spool.
    pub(crate) fn command_received(&mut self, command: CommandId, cx: &Occasion<'_>) {
        if let Some(outstanding) = self.state.outstanding_mut()
            && outstanding.command_id == command
        {
            outstanding.received_at.get_or_insert(cx.now);
        }
        self.reload_received(command, cx.now);
        self.adjustment_received(command, cx.now);
        if let Some(run) = self.run.as_mut().filter(|run| run.begin == Some(command)) {
            run.unheard_begin = None;
        }
        if let Some(message) = self.in_flight.iter_mut().find(|m| m.command_id == command) {
            message.received = true;
        }
        self.answer_heard(command);
        self.validation_received(command, cx);
    }
}

/// What the agent is told to begin with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Opening {
    /// Whether an earlier run's conversation is taken up.
    pub resume_conversation: bool,
    /// What opens the first turn; none: it waits for a message.
    pub prompt: Option<String>,
}

impl AgentSession {
    /// What the agent of the current run is told to begin with (rulings 22, 24).
    pub fn opening(&self) -> Opening {
        let objective = self.objective.as_str();
        match (self.run.as_ref().map(|run| run.cause), &self.retry) {
            (Some(RunCause::Wake), _) => Opening { resume_conversation: true, prompt: None },
            (Some(RunCause::Retry), Some(RetryOrder { instruction, fresh: false })) => Opening {
                resume_conversation: true,
                prompt: Some(
                    instruction.as_ref().map_or("Go on with your work.", Feedback::as_str).to_owned(),
                ),
            },
            (Some(RunCause::Retry), Some(RetryOrder { instruction: Some(instruction), fresh: true })) => {
                Opening { resume_conversation: false, prompt: Some(format!("{objective}\n\n{instruction}")) }
            }
            _ => Opening { resume_conversation: false, prompt: Some(objective.to_owned()) },
        }
    }
}
