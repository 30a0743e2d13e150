//! The `SessionPool` (S0 8.12, ruling 21): how many runs an owner may have at once, who has a slot, who waits.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::session::RunCause;
use crate::{AgentSession, AgentSessionId, DomainEvent, Events, Occasion, RunId, Timestamp};

/// A slot that a run holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Lease {
    /// The run.
    pub run_id: RunId,
    /// Since when.
    pub since: Timestamp,
}

/// A session that waits for a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Waiting {
    /// The session.
    pub session_id: AgentSessionId,
    /// What for.
    pub cause: RunCause,
    /// Since when.
    pub since: Timestamp,
}

/// The pool of one owner.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SessionPool {
    max_concurrent_sessions: u32,
    leases: BTreeMap<AgentSessionId, Lease>,
    waiting: Vec<Waiting>,
}

/// A refusal. The pool is unchanged.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PoolError {
    /// Not a number of slots.
    #[error("maxConcurrentSessions must be 1 to {max}")]
    InvalidMaximum {
        /// The most slots.
        max: u32,
    },
    /// Too many sessions wait.
    #[error("{max} sessions wait for a slot already; cancel some, or raise the pool's maximum")]
    LineFull {
        /// The most that wait.
        max: usize,
    },
}

/// Whether a session got its slot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Allocation {
    /// It did; its run is minted.
    Allocated(RunId),
    /// It waits in line.
    Waits,
    /// It wants none.
    NotWanted,
}

impl Default for SessionPool {
    fn default() -> Self {
        Self { max_concurrent_sessions: Self::DEFAULT_MAX, leases: BTreeMap::new(), waiting: Vec::new() }
    }
}

impl SessionPool {
    /// Slots when nothing else is said (S0 8.5).
    pub const DEFAULT_MAX: u32 = 20;
    /// The most slots of one owner.
    pub const MAX_SLOTS: u32 = 1000;
    /// The most sessions that wait: the pool is one item.
    pub const MAX_WAITING: usize = 1000;

    /// Slots there are.
    pub const fn max_concurrent_sessions(&self) -> u32 {
        self.max_concurrent_sessions
    }

    /// Slots in use.
    pub fn active_count(&self) -> usize {
        self.leases.len()
    }

    /// Who has a slot.
    pub const fn leases(&self) -> &BTreeMap<AgentSessionId, Lease> {
        &self.leases
    }

    /// Who waits, first come first.
    pub fn waiting(&self) -> &[Waiting] {
        &self.waiting
    }

    /// Whether a slot is free (S0 8.12 `CanAllocateAsync`).
    pub fn can_allocate(&self) -> bool {
        self.leases.len() < self.max_concurrent_sessions as usize
    }

    /// Who is next, when a slot is free. Who waits for the end of its own earlier run holds nobody up.
    pub fn next_in_line(&self) -> Option<AgentSessionId> {
        self.first_able().filter(|_| self.can_allocate())
    }

    fn first_able(&self) -> Option<AgentSessionId> {
        self.waiting.iter().map(|w| w.session_id).find(|id| !self.leases.contains_key(id))
    }

    /// Gives `session` the slot and the run that it wants, or a place in line. Who is in line is not overtaken.
    pub fn allocate(
        &mut self,
        session: &mut AgentSession,
        cx: &mut Occasion<'_>,
    ) -> Result<(Allocation, Events), PoolError> {
        let id = session.id();
        let Some(cause) = session.slot_wanted() else {
            self.waiting.retain(|w| w.session_id != id);
            return Ok((Allocation::NotWanted, Vec::new()));
        };
        let first = self.first_able().is_none_or(|able| able == id);
        if !self.can_allocate() || !first || self.leases.contains_key(&id) || session.run().is_some() {
            if self.waiting.iter().any(|w| w.session_id == id) {
                return Ok((Allocation::Waits, Vec::new()));
            }
            if self.waiting.len() >= Self::MAX_WAITING {
                return Err(PoolError::LineFull { max: Self::MAX_WAITING });
            }
            self.waiting.push(Waiting { session_id: id, cause, since: cx.now });
            let event = DomainEvent::PoolExhausted {
                current_count: self.leases.len(),
                max_count: self.max_concurrent_sessions,
            };
            return Ok((Allocation::Waits, vec![event]));
        }
        self.waiting.retain(|w| w.session_id != id);
        let Some((run_id, mut events)) = session.mint_run(cx) else {
            return Ok((Allocation::NotWanted, Vec::new()));
        };
        self.leases.insert(id, Lease { run_id, since: cx.now });
        events.push(DomainEvent::SlotAllocated {
            active_count: self.leases.len(),
            max_count: self.max_concurrent_sessions,
        });
        Ok((Allocation::Allocated(run_id), events))
    }

    /// Gives the slot of a session that hands over, and whose run is over, to the one that goes on (ruling 21). Where it
    /// has none any more, or the other wants none yet, this is an allocation like any other.
    pub fn transfer(
        &mut self,
        from: AgentSessionId,
        to: &mut AgentSession,
        cx: &mut Occasion<'_>,
    ) -> Result<(Allocation, Events), PoolError> {
        let held = self.leases.remove(&from).is_some();
        match to.slot_wanted().filter(|_| held).and_then(|_| to.mint_run(cx)) {
            Some((run_id, mut events)) => {
                self.leases.insert(to.id(), Lease { run_id, since: cx.now });
                events.push(DomainEvent::SlotAllocated {
                    active_count: self.leases.len(),
                    max_count: self.max_concurrent_sessions,
                });
                Ok((Allocation::Allocated(run_id), events))
            }
            None => self.allocate(to, cx),
        }
    }

    /// Frees the slot that `run` holds (S0 8.12 `ReleaseAsync`). Nothing when it holds none: a second release is none.
    pub fn release(&mut self, session: AgentSessionId, run: RunId) -> Events {
        match self.leases.get(&session) {
            Some(lease) if lease.run_id == run => {
                self.leases.remove(&session);
                vec![DomainEvent::SlotReleased {
                    active_count: self.leases.len(),
                    max_count: self.max_concurrent_sessions,
                }]
            }
            _ => Vec::new(),
        }
    }

    /// A session that wants no slot any more leaves the line.
    pub fn leave_line(&mut self, session: AgentSessionId) -> bool {
        let before = self.waiting.len();
        self.waiting.retain(|w| w.session_id != session);
        before != self.waiting.len()
    }

    /// Changes the number of slots. Lowering it stops nobody (ruling 21).
    pub fn configure(&mut self, max_concurrent_sessions: u32) -> Result<Events, PoolError> {
        if !(1..=Self::MAX_SLOTS).contains(&max_concurrent_sessions) {
            return Err(PoolError::InvalidMaximum { max: Self::MAX_SLOTS });
        }
        self.max_concurrent_sessions = max_concurrent_sessions;
        Ok(vec![DomainEvent::PoolConfigured {
            max_count: max_concurrent_sessions,
            next: self.next_in_line(),
        }])
    }
}
