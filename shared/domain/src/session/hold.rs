//! The hold of emergency brakes (S2 "Emergency Brake", decision 72): stops a session in each status, and resumes it when the last
//! brake is released.
//!
//! | status | effect |
//! |---|---|
//! | Running, waiting | the agent is paused. Without the capability, its process is ended and the session is Paused and hibernated |
//! | intermediate | the status resolves first; then the hold applies, in the same commit |
//! | Queued, Idle, Interrupted, Paused | the status stays. A process that is being launched is ended |
//!
//! A brake with the behaviour `kill` ends the process in every status. Requests of the agent stay open and do not time out.

use serde::{Deserialize, Serialize};

use super::{AgentSession, AgentSessionStatus, Operation, PendingCommand, RunPhase, SessionError, State};
use crate::brake::{BrakeBehavior, HoldStage};
use crate::{BrakeId, DomainContext, Events, SessionEvent, Timestamp};

/// A brake that holds a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HeldBy {
    pub brake_id: BrakeId,
    pub behavior: BrakeBehavior,
    pub since: Timestamp,
}

/// The brakes that hold a session.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Hold {
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    held_by: Vec<HeldBy>,
    /// Whether the hold stopped a session that worked, which its release resumes.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    resumes: bool,
    /// Whether the process had to be ended because the session did not stop in time. Kept after the release, until the next hold.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    escalated: bool,
    /// Since when open requests do not time out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    requests_stopped_at: Option<Timestamp>,
}

impl Hold {
    pub(super) fn is_default(&self) -> bool {
        *self == Self::default()
    }

    /// When the latest brake took hold.
    pub(super) fn since(&self) -> Option<Timestamp> {
        self.held_by.iter().map(|held| held.since).max()
    }

    /// Whether the session resumes when the last brake is released.
    pub(super) const fn resumes(&self) -> bool {
        self.resumes
    }

    fn kills(&self) -> bool {
        self.held_by.iter().any(|held| held.behavior == BrakeBehavior::Kill)
    }
}

/// Read access.
impl AgentSession {
    pub fn held_by(&self) -> &[HeldBy] {
        &self.hold.held_by
    }

    pub const fn is_held(&self) -> bool {
        !self.hold.held_by.is_empty()
    }

    /// How far the session has come in stopping for `brake`. A session that ended is confirmed when its process is gone.
    pub fn hold_stage(&self, brake: BrakeId) -> HoldStage {
        if !self.status().is_terminal() && !self.hold.held_by.iter().any(|held| held.brake_id == brake) {
            return HoldStage::Requested;
        }
        if self.is_quiet() {
            return HoldStage::Confirmed;
        }
        let received = self.pending_command().is_some_and(|command| command.received_at.is_some());
        match self.run_state.current() {
            Some(run) if run.unreachable.is_some() => HoldStage::Unreachable,
            Some(_) if self.hold.escalated => HoldStage::Escalated,
            _ if received => HoldStage::Acknowledged,
            _ => HoldStage::Requested,
        }
    }

    /// Whether the process had to be ended because the session did not stop in time.
    pub const fn hold_escalated(&self) -> bool {
        self.hold.escalated
    }

    /// Whether no agent acts: no process, or one that confirmed its stop or has no work.
    fn is_quiet(&self) -> bool {
        use AgentSessionStatus as S;
        let Some(run) = self.run_state.current() else { return !self.status().is_intermediate() };
        let kills = self.hold.kills() || self.status().is_terminal();
        let is_busy = !self.delivery.in_flight().is_empty() || self.is_adjusting() || self.reload().is_some();
        match self.status() {
            _ if kills || run.phase == RunPhase::Launching => false,
            S::Paused => self.run_state.after_stop.is_none(),
            S::Interrupted => !is_busy && self.run_state.after_stop.is_none(),
            S::Idle => !is_busy && run.unreachable.is_none(),
            _ => false,
        }
    }

    pub(super) fn ensure_not_held(&self) -> Result<(), SessionError> {
        match self.hold.held_by.first() {
            Some(held) => Err(SessionError::Braked { brake_id: held.brake_id }),
            None => Ok(()),
        }
    }
}

impl AgentSession {
    /// Puts the hold of a brake on the session. [`Conversation::settle`](crate::conversation::Conversation::settle) applies it.
    /// Repeating it changes nothing.
    pub fn hold(
        &mut self,
        brake_id: BrakeId,
        behavior: BrakeBehavior,
        ctx: &DomainContext<'_>,
    ) -> Result<Events, SessionError> {
        self.check(Operation::Hold)?;
        if self.hold.held_by.iter().any(|held| held.brake_id == brake_id) {
            return Ok(Vec::new());
        }
        self.hold.escalated &= self.is_held();
        self.hold.held_by.push(HeldBy { brake_id, behavior, since: ctx.now });
        if !self.requests.pending().is_empty() {
            self.hold.requests_stopped_at.get_or_insert(ctx.now);
        }
        self.record_open_requests();
        self.touch_control();
        Ok(vec![SessionEvent::Held { brake_id, behavior }])
    }

    /// Takes the hold of a brake off the session. `settle` resumes it when no other brake holds it.
    pub fn release_hold(&mut self, brake_id: BrakeId, ctx: &DomainContext<'_>) -> Events {
        let before = self.hold.held_by.len();
        self.hold.held_by.retain(|held| held.brake_id != brake_id);
        if self.hold.held_by.len() == before {
            return Vec::new();
        }
        self.record_open_requests();
        self.touch_control();
        let mut events = vec![SessionEvent::HoldReleased { brake_id }];
        if !self.is_held() {
            if self.status().is_waiting() {
                self.restart_request_deadlines(ctx);
            }
            // The session may have lost its place in line.
            events.extend(self.slot_wanted().map(|cause| SessionEvent::SlotWanted { cause }));
        }
        events
    }

    /// Stops a session that has no stop to confirm: an exhausted one, whose agent still writes its handoff document.
    pub fn stop_for_brake(&mut self) {
        self.stop_awaiting_document();
    }

    /// Extends open requests by the time in which they could not be answered.
    pub(super) fn restart_request_deadlines(&mut self, ctx: &DomainContext<'_>) {
        if let Some(from) = self.hold.requests_stopped_at.take() {
            self.requests.extend(ctx.now, ctx.now.since(from));
            self.requests.restart_timeouts(ctx.now);
            self.record_open_requests();
        }
    }

    /// Records that the owner stops a session that a brake stopped. Returns whether there is anything to record.
    pub(super) fn keep_held(&mut self) -> bool {
        let stopped = matches!(self.status(), AgentSessionStatus::Pausing | AgentSessionStatus::Paused);
        if !self.hold.resumes || !stopped {
            return false;
        }
        self.hold.resumes = false;
        self.touch_control();
        true
    }

    /// Ends the process because a command was not received or carried out (decision 12).
    pub(super) fn enforce_stop(&mut self, ctx: &mut DomainContext<'_>) -> Events {
        let mut events = Vec::new();
        if self.is_held() && !self.hold.escalated {
            self.hold.escalated = true;
            events.push(SessionEvent::HoldEscalated {});
        }
        events.extend(self.order_kill(true, ctx));
        events
    }

    /// Applies the hold, or resumes the session after its release. Returns no events if there is nothing to do.
    pub(crate) fn apply_hold(&mut self, ctx: &mut DomainContext<'_>) -> Result<Events, SessionError> {
        use AgentSessionStatus as S;
        if !self.is_held() && self.is_restarting() {
            return Ok(Events::new());
        }
        if !self.is_held() {
            return self.resume_after_hold(ctx);
        }
        let phase = self.run_state.current().map(|run| run.phase);
        match self.status() {
            S::Resuming if self.is_resume_unsent() => {
                self.hold.resumes = true;
                return self.abandon_resume();
            }
            S::Resuming => self.hold.resumes = true,
            S::Running => return self.hold_agent(ctx),
            S::WaitingForInput | S::WaitingForApproval if phase.is_some() => return self.hold_agent(ctx),
            _ => {}
        }
        let status = self.status();
        match phase {
            Some(RunPhase::Launching) => {
                let cause = self.run_state.current().map(|run| run.cause);
                let mut events = self.order_kill(false, ctx);
                if let Some(cause) = cause.filter(|_| status == S::Queued) {
                    self.run_state.request_slot(cause);
                    events.push(SessionEvent::SlotWanted { cause });
                }
                Ok(events)
            }
            // The agent acted after an earlier stop.
            Some(RunPhase::Live) if self.run_state.after_stop.is_some() => Ok(self.enforce_stop(ctx)),
            Some(_) if self.hold.kills() && status != S::Cancelling => {
                Ok(self.order_kill(status.is_intermediate(), ctx))
            }
            _ => Ok(Vec::new()),
        }
    }

    /// Running or waiting → Pausing. Open requests stay open.
    pub(super) fn hold_agent(&mut self, ctx: &mut DomainContext<'_>) -> Result<Events, SessionError> {
        self.check(Operation::Hold)?;
        let pauses = !self.hold.kills() && self.is_live() && self.capabilities().is_none_or(|can| can.pause);
        let command = if pauses { self.run_state.command(ctx) } else { None };
        let outstanding = PendingCommand::new(command, ctx);
        if !self.requests.pending().is_empty() {
            self.hold.requests_stopped_at.get_or_insert(ctx.now);
        }
        self.transition(Operation::Hold, State::Pausing { outstanding })?;
        self.hold.resumes = true;
        self.hand_back_end();
        let mut events = vec![SessionEvent::PauseRequested { command }];
        if command.is_none() {
            events.extend(self.order_kill(true, ctx));
        }
        Ok(events)
    }

    /// Resumes what the hold stopped. If that is refused, because the budget is used up, the owner has to resume the session.
    fn resume_after_hold(&mut self, ctx: &mut DomainContext<'_>) -> Result<Events, SessionError> {
        if !self.hold.resumes || self.status().is_intermediate() {
            return Ok(Vec::new());
        }
        self.hold.resumes = false;
        if self.status() != AgentSessionStatus::Paused {
            return Ok(Vec::new());
        }
        match self.request_resume(ctx) {
            Err(SessionError::BudgetExhausted { .. } | SessionError::Unmetered) => Ok(Vec::new()),
            resumed => resumed,
        }
    }
}
