//! A plan that is used up, and calls that the budget does not cover (S4; rulings 32, 39): the agent holds, and the session
//! pauses until it can go on with the same turn.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{AgentSession, AgentSessionStatus};
use crate::text::cut;
use crate::{Deadlines, DomainEvent, Events, Occasion, Timestamp, Usd};

/// The plan that pays for the agent is used up.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Quota {
    /// The runtime's own words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// When the session goes on by itself, where the runtime said; none: its owner resumes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reset_at: Option<Timestamp>,
    /// When the agent told of it.
    pub told_at: Timestamp,
    /// Whether the session was paused for it. One that its owner had paused is not resumed by the clock.
    pub paused_for_it: bool,
}

/// Why a session is Paused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum PausedReason {
    /// Its owner paused it.
    Owner,
    /// Nothing is left to spend, or less than the next call may cost (ruling 32).
    BudgetExhausted,
    /// The plan that pays for the agent is used up (ruling 39).
    QuotaExceeded,
}

impl AgentSession {
    /// The plan is used up; the pause is ordered by what follows from it, where the session is Running.
    pub(crate) fn exceed_quota(
        &mut self,
        message: Option<&str>,
        reset_at: Option<Timestamp>,
        cx: &Occasion<'_>,
    ) -> Events {
        let message = message.map(|message| cut(message, 500));
        let paused_for_it = self.quota.as_ref().is_some_and(|quota| quota.paused_for_it);
        self.quota = Some(Quota { message: message.clone(), reset_at, told_at: cx.now, paused_for_it });
        self.touch_control();
        vec![DomainEvent::QuotaExceeded { message, reset_at }]
    }

    /// Whether a Running session is to be paused for its quota. Asked once: then it is.
    pub(crate) fn pauses_for_quota(&mut self) -> bool {
        match &mut self.quota {
            Some(quota) if !quota.paused_for_it => {
                quota.paused_for_it = true;
                true
            }
            _ => false,
        }
    }

    /// When it goes on by itself. Not at once, whatever the runtime says: its clock is not ours (ruling 13).
    pub(super) fn quota_due(&self, limits: &Deadlines) -> Option<Timestamp> {
        let quota = self.quota.as_ref().filter(|quota| quota.paused_for_it)?;
        let paused = self.status() == AgentSessionStatus::Paused;
        quota.reset_at.filter(|_| paused).map(|at| at.max(quota.told_at + limits.received))
    }

    /// The reset time has come: the session is resumed, as its owner would. Where nothing is left to spend it stays Paused,
    /// and is its owner's to resume.
    pub(super) fn on_quota_reset(&mut self, cx: &mut Occasion<'_>) -> Events {
        let mut events = vec![DomainEvent::QuotaReset {}];
        match self.request_resume(cx) {
            Ok(resumed) => events.extend(resumed),
            Err(_) => self.quota = None,
        }
        events
    }

    /// The agent holds before a call that the budget does not cover: nothing more is spent until the cap is raised
    /// (ruling 32). It looks again by itself when it is told what it may spend now.
    pub(crate) fn exceed_budget(&mut self, needed_usd: Option<Usd>) -> Events {
        if self.is_allowance_under_way() || !self.budget.hold() {
            return Vec::new();
        }
        self.touch_control();
        let (spent_usd, cap_usd) = (self.budget.account_usd(), self.budget.hard_cap_usd());
        vec![DomainEvent::BudgetExhausted { spent_usd, cap_usd, needed_usd }]
    }

    /// The plan that is used up, while that stands in the way.
    pub const fn quota(&self) -> Option<&Quota> {
        self.quota.as_ref()
    }

    /// Why it is Paused, or is about to be.
    pub fn paused_reason(&self) -> Option<PausedReason> {
        if !matches!(self.status(), AgentSessionStatus::Pausing | AgentSessionStatus::Paused) {
            return None;
        }
        Some(if self.quota.as_ref().is_some_and(|quota| quota.paused_for_it) {
            PausedReason::QuotaExceeded
        } else if self.budget.exhausted() {
            PausedReason::BudgetExhausted
        } else {
            PausedReason::Owner
        })
    }
}
