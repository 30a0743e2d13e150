//! The injections of an agent, delivered and undelivered, and the time of the next one.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::content::{InjectionKind, KnownItems};
use super::policy::{ContextInjectionPolicy, InjectionPriority, InjectionReason};
use crate::{AgentSessionId, MessageId, Timestamp};

/// When an injection may be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Timing {
    Now,
    /// The cooldown lasts until then.
    Later(Timestamp),
    /// The agent received the most injections of an hour.
    Dropped,
}

/// The undelivered injections of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InjectionSlot {
    Empty,
    /// One is pending. Another one may have been sent before it.
    Waiting,
    /// One was sent, and none is pending.
    InFlight,
}

/// An injection that the session of the agent accepted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SentInjection {
    pub message_id: MessageId,
    pub session_id: AgentSessionId,
    pub snapshot_version: u64,
    pub estimated_tokens: u64,
    pub priority: InjectionPriority,
    pub reasons: Vec<InjectionReason>,
    /// When the brief that it contains had changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub brief_of: Option<Timestamp>,
    /// The items that the agent has after its delivery.
    pub known: KnownItems,
    pub at: Timestamp,
}

/// A delivered injection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeliveredInjection {
    pub message_id: MessageId,
    pub session_id: AgentSessionId,
    pub snapshot_version: u64,
    pub estimated_tokens: u64,
    pub priority: InjectionPriority,
    pub brief_of: Option<Timestamp>,
}

/// Reasons that wait for the end of the cooldown.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct PostponedInjection {
    kind: InjectionKind,
    reasons: Vec<InjectionReason>,
    until: Timestamp,
}

/// The knowledge that the conversation of a session contains.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Known {
    session_id: AgentSessionId,
    items: KnownItems,
}

/// The injections of one agent. It is stored apart from the agent, because no event of another session writes the agent.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct InjectionLedger {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    known: Option<Known>,
    /// Accepted by the session and not known to be delivered, oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    undelivered: Vec<SentInjection>,
    /// Deliveries of the last hour.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    delivered_at: Vec<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    postponed: Option<PostponedInjection>,
    /// When the working agent is checked next.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    check_at: Option<Timestamp>,
    /// When the current interval of periodic updates began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    refreshed_at: Option<Timestamp>,
    /// The journals that the agent may read, when it last received knowledge: the sum of their sequences.
    #[serde(default)]
    position: u64,
}

impl InjectionLedger {
    /// Undelivered injections that are kept: a sent one, a pending one, and one whose delivery was not processed yet.
    const MAX_UNDELIVERED: usize = 3;
    /// Reasons that an injection names.
    const MAX_REASONS: usize = 5;
    const HOUR: Duration = Duration::from_hours(1);

    /// The time at which an injection may be sent. A pending one is replaced at any time, because it has cost nothing.
    pub fn timing(
        &self,
        priority: InjectionPriority,
        policy: &ContextInjectionPolicy,
        slot: InjectionSlot,
        now: Timestamp,
    ) -> Timing {
        if priority == InjectionPriority::Required || slot == InjectionSlot::Waiting {
            return Timing::Now;
        }
        let sending =
            self.undelivered.last().filter(|_| slot == InjectionSlot::InFlight).map(|latest| latest.at);
        let recent = self.delivered_at.iter().chain(&sending).filter(|at| now.since(**at) < Self::HOUR);
        if recent.count() >= policy.max_injections_per_hour as usize {
            return Timing::Dropped;
        }
        let latest = self.delivered_at.iter().copied().chain(sending).max();
        match latest.map(|at| at + policy.cooldown()) {
            Some(until) if until > now => Timing::Later(until),
            _ => Timing::Now,
        }
    }

    /// The items that the conversation of `session` contains.
    pub fn known_in(&self, session: AgentSessionId) -> Option<&KnownItems> {
        self.known.as_ref().filter(|known| known.session_id == session).map(|known| &known.items)
    }

    /// Whether the latest undelivered injection for `session` contains all of `known`, with the brief of `brief_of`.
    pub fn is_undelivered(
        &self,
        session: AgentSessionId,
        known: &KnownItems,
        brief_of: Option<Timestamp>,
    ) -> bool {
        self.undelivered.last().is_some_and(|latest| {
            latest.session_id == session && latest.known == *known && latest.brief_of >= brief_of
        })
    }

    /// The reasons of an injection that replaces the pending one, `replaced`.
    pub fn reasons_with(&self, replaced: Option<MessageId>, new: &[InjectionReason]) -> Vec<InjectionReason> {
        let before = self.undelivered.iter().filter(|it| Some(it.message_id) == replaced);
        let mut reasons: Vec<_> = before.flat_map(|it| it.reasons.clone()).collect();
        add_reasons(&mut reasons, new, Self::MAX_REASONS);
        reasons
    }

    /// Records an injection that the session accepted in place of `replaced`.
    pub fn record_sent(&mut self, sent: SentInjection, replaced: Option<MessageId>, position: u64) {
        self.undelivered.retain(|it| Some(it.message_id) != replaced && it.session_id == sent.session_id);
        if self.undelivered.len() == Self::MAX_UNDELIVERED {
            self.undelivered.remove(0);
        }
        self.position = position;
        self.postponed = None;
        self.undelivered.push(sent);
    }

    /// Records that the agent has an injection. `None` if it was recorded before, or a later one was.
    pub fn record_delivered(&mut self, id: MessageId, now: Timestamp) -> Option<DeliveredInjection> {
        let at = self.undelivered.iter().position(|it| it.message_id == id)?;
        let delivered = self.undelivered.drain(..=at).next_back()?;
        self.delivered_at.retain(|at| now.since(*at) < Self::HOUR);
        self.delivered_at.push(now);
        self.known = Some(Known { session_id: delivered.session_id, items: delivered.known });
        Some(DeliveredInjection {
            message_id: id,
            session_id: delivered.session_id,
            snapshot_version: delivered.snapshot_version,
            estimated_tokens: delivered.estimated_tokens,
            priority: delivered.priority,
            brief_of: delivered.brief_of,
        })
    }

    /// Records that an injection was lost. The items of the agent are then unknown, so that the next injection contains all. Returns
    /// whether anything changed.
    pub fn record_lost(&mut self, id: MessageId) -> bool {
        let Some(at) = self.undelivered.iter().position(|it| it.message_id == id) else { return false };
        self.undelivered.remove(at);
        self.known = None;
        true
    }

    /// Keeps reasons until the cooldown is over.
    pub fn postpone(&mut self, kind: InjectionKind, new: &[InjectionReason], until: Timestamp) {
        let waiting = self.postponed.get_or_insert(PostponedInjection { kind, reasons: Vec::new(), until });
        add_reasons(&mut waiting.reasons, new, Self::MAX_REASONS);
        waiting.until = waiting.until.min(until);
        if kind == InjectionKind::All {
            waiting.kind = kind;
        }
    }

    /// Whether the agent is checked while it works.
    pub const fn has_checks(&self) -> bool {
        self.check_at.is_some()
    }

    /// Starts the checks of an agent that works. Returns whether anything changed.
    pub fn start_checks(&mut self, policy: &ContextInjectionPolicy, now: Timestamp) -> bool {
        let Some(interval) = policy.check_interval().filter(|_| self.check_at.is_none()) else {
            return false;
        };
        self.check_at = Some(now + interval);
        self.refreshed_at = Some(now);
        true
    }

    /// The time at which [`Self::take_due`] returns reasons.
    pub fn due_at(&self) -> Option<Timestamp> {
        self.postponed.as_ref().map(|it| it.until).into_iter().chain(self.check_at).min()
    }

    /// Takes the reasons that are due at `now`: postponed ones, and those that a check of a working agent finds (`position` is present).
    /// The checks of a resting agent end until it works again.
    pub fn take_due(
        &mut self,
        policy: &ContextInjectionPolicy,
        position: Option<u64>,
        now: Timestamp,
    ) -> Option<(InjectionKind, Vec<InjectionReason>)> {
        let postponed = if self.postponed.as_ref().is_some_and(|it| it.until <= now) {
            self.postponed.take()
        } else {
            None
        };
        let mut due = postponed.map(|it| (it.kind, it.reasons));
        if self.check_at.is_none_or(|at| at > now) {
            return due;
        }
        self.check_at = position.and(policy.check_interval()).map(|interval| now + interval);
        let Some(position) = position else { return due };
        let interval = policy.periodic_interval();
        let is_periodic = interval.is_some_and(|it| self.refreshed_at.is_none_or(|at| at + it <= now));
        let missed = position.abs_diff(self.position);
        let is_stale = policy.staleness_threshold.is_some_and(|threshold| missed >= u64::from(threshold));
        let reason = if is_periodic {
            self.refreshed_at = Some(now);
            InjectionReason::Periodic {}
        } else if is_stale {
            InjectionReason::Stale {}
        } else {
            return due;
        };
        let (kind, reasons) = due.get_or_insert((InjectionKind::All, Vec::new()));
        *kind = InjectionKind::All;
        add_reasons(reasons, &[reason], Self::MAX_REASONS);
        due
    }
}

/// Adds reasons that are not known yet; the oldest of too many are dropped.
fn add_reasons(reasons: &mut Vec<InjectionReason>, new: &[InjectionReason], max: usize) {
    for reason in new {
        if !reasons.contains(reason) {
            reasons.push(reason.clone());
        }
    }
    let excess = reasons.len().saturating_sub(max);
    reasons.drain(..excess);
}
