//! Exhausted quotas, unavailable models and model calls beyond the budget (S4; decisions 32, 39, 93). The agent waits, and the session
//! pauses until the same turn can continue.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{AgentSession, AgentSessionStatus};
use crate::text::cut;
use crate::{Deadlines, DomainContext, Events, SessionEvent, Timestamp, Usd};

/// Records that the agent's subscription quota is used up, or that its model does not answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Quota {
    /// Message of the runtime.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// When the session resumes automatically; `null` if the runtime did not report it and the owner has to resume the session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reset_at: Option<Timestamp>,
    /// When the agent reported it.
    #[serde(rename = "toldAt")]
    pub reported_at: Timestamp,
    /// Whether the session was paused for its quota. If the owner paused it, the clock does not resume it.
    pub paused_for_it: bool,
    /// Whether the model does not answer, although the quota is not used up.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub outage: bool,
}

/// Why a session is Paused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum PausedReason {
    /// The owner paused the session.
    Owner,
    /// An emergency brake paused the session.
    Brake,
    /// The process of the agent restarts under a changed control mode.
    Restart,
    /// The budget is used up, or cannot cover the next model call (decision 32).
    BudgetExhausted,
    /// The agent does not report its cost, and the owner has not allowed that (decision 32).
    Unmetered,
    /// The agent's subscription quota is used up (decision 39).
    QuotaExceeded,
    /// The model of the agent does not answer, and the agent has given up its retries.
    ModelUnavailable,
    /// The server's disk is nearly full. The session resumes when there is space.
    DiskFull,
}

impl AgentSession {
    /// Records an exhausted quota. [`Conversation::settle`](crate::conversation::Conversation::settle) pauses the session.
    pub(crate) fn exceed_quota(
        &mut self,
        message: Option<&str>,
        reset_at: Option<Timestamp>,
        ctx: &DomainContext<'_>,
    ) -> Events {
        let message = self.wait_for_model(message, reset_at, false, ctx);
        vec![SessionEvent::QuotaExceeded { message, reset_at }]
    }

    /// Records that the model does not answer. The session pauses as for an exhausted quota.
    pub(crate) fn lose_model(
        &mut self,
        message: Option<&str>,
        retry_at: Option<Timestamp>,
        ctx: &DomainContext<'_>,
    ) -> Events {
        let message = self.wait_for_model(message, retry_at, true, ctx);
        vec![SessionEvent::ModelUnavailable { message, retry_at }]
    }

    fn wait_for_model(
        &mut self,
        message: Option<&str>,
        reset_at: Option<Timestamp>,
        outage: bool,
        ctx: &DomainContext<'_>,
    ) -> Option<String> {
        let message = message.map(|message| cut(message, 500));
        let paused_for_it = self.spending.quota.as_ref().is_some_and(|quota| quota.paused_for_it);
        self.spending.quota =
            Some(Quota { message: message.clone(), reset_at, reported_at: ctx.now, paused_for_it, outage });
        self.touch_control();
        message
    }

    /// Whether to pause a running session for its quota. Returns true only once.
    pub(crate) fn pauses_for_quota(&mut self) -> bool {
        match &mut self.spending.quota {
            Some(quota) if !quota.paused_for_it => {
                quota.paused_for_it = true;
                true
            }
            _ => false,
        }
    }

    /// When the session resumes automatically. Not immediately, because the clock of the runtime may differ (decision 13).
    pub(super) fn quota_deadline(&self, limits: &Deadlines) -> Option<Timestamp> {
        let quota = self.spending.quota.as_ref().filter(|quota| quota.paused_for_it)?;
        let paused = self.status() == AgentSessionStatus::Paused;
        quota.reset_at.filter(|_| paused).map(|at| at.max(quota.reported_at + limits.received_timeout))
    }

    /// Resumes the session at the reset time. If that is refused because the budget is used up, the owner has to resume it.
    pub(super) fn on_quota_reset(&mut self, ctx: &mut DomainContext<'_>) -> Events {
        let outage = self.spending.quota.as_ref().is_some_and(|quota| quota.outage);
        let mut events = if outage { Vec::new() } else { vec![SessionEvent::QuotaReset {}] };
        match self.request_resume(ctx) {
            Ok(resumed) => events.extend(resumed),
            Err(_) => self.spending.quota = None,
        }
        events
    }

    /// The agent waits before a call that the budget does not cover, so no more is spent until the cap is raised (decision 32). It
    /// checks again when it receives a new allowance.
    pub(crate) fn exceed_budget(&mut self, needed_usd: Option<Usd>, left_usd: Option<Usd>) -> Events {
        if self.is_allowance_under_way() {
            return Vec::new();
        }
        let Some(exhausted) = self.spending.hold(needed_usd, left_usd) else { return Vec::new() };
        self.touch_control();
        vec![exhausted]
    }

    /// The exhausted quota, while it keeps the session from working.
    pub const fn quota(&self) -> Option<&Quota> {
        self.spending.quota.as_ref()
    }

    pub fn paused_reason(&self) -> Option<PausedReason> {
        if !matches!(self.status(), AgentSessionStatus::Pausing | AgentSessionStatus::Paused) {
            return None;
        }
        Some(if self.hold.resumes() && self.is_restarting() && !self.is_held() {
            PausedReason::Restart
        } else if self.hold.resumes() {
            PausedReason::Brake
        } else if self.is_paused_for_disk() {
            PausedReason::DiskFull
        } else if let Some(quota) = self.spending.quota.as_ref().filter(|quota| quota.paused_for_it) {
            if quota.outage { PausedReason::ModelUnavailable } else { PausedReason::QuotaExceeded }
        } else if self.budget().refuses_unmetered() {
            PausedReason::Unmetered
        } else if self.budget().exhausted() {
            PausedReason::BudgetExhausted
        } else {
            PausedReason::Owner
        })
    }
}
