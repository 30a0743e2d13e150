//! The `SessionPool` (S0 8.12, decision 21): limits how many runs an owner has at once, and queues sessions beyond that.

mod brakes;

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::brake::PoolBrake;
use crate::session::RunCause;
use crate::value::ProjectMembership;
use crate::{AgentSession, AgentSessionId, DomainContext, Events, RunId, SessionEvent, Timestamp};

/// A slot that a run holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Lease {
    /// The run that holds the slot.
    pub run_id: RunId,
    /// When the run received the slot.
    pub since: Timestamp,
    /// Whose session it is, so that a brake need not read the sessions.
    #[serde(default, skip_serializing_if = "LeaseHolder::is_unknown")]
    pub holder: LeaseHolder,
}

/// Whose session holds a slot.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum LeaseHolder {
    /// The lease was stored before leases named their holders.
    #[default]
    Unknown,
    /// A session that belongs to no project.
    Standalone,
    /// The agent of a project.
    Agent(ProjectMembership),
}

impl LeaseHolder {
    fn of(session: &AgentSession) -> Self {
        session.project().cloned().map_or(Self::Standalone, Self::Agent)
    }

    pub const fn is_unknown(&self) -> bool {
        matches!(self, Self::Unknown)
    }

    pub const fn agent(&self) -> Option<&ProjectMembership> {
        match self {
            Self::Agent(membership) => Some(membership),
            Self::Unknown | Self::Standalone => None,
        }
    }
}

/// A session that waits for a slot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Waiting {
    /// Id of the session.
    pub session_id: AgentSessionId,
    /// Why the session needs a run.
    pub cause: RunCause,
    /// When the session started to wait.
    pub since: Timestamp,
    /// The agent of a project that the session belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project: Option<ProjectMembership>,
}

/// The slots of one owner.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SessionPool {
    max_concurrent_sessions: u32,
    leases: BTreeMap<AgentSessionId, Lease>,
    waiting: Vec<Waiting>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    brakes: Vec<PoolBrake>,
}

/// The pool is unchanged.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PoolError {
    #[error("maxConcurrentSessions must be 1 to {max}")]
    InvalidMaximum { max: u32 },
    #[error("{max} sessions wait for a slot already; cancel some, or raise the pool's maximum")]
    WaitingListFull { max: usize },
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Allocation {
    Allocated(RunId),
    Waits,
    /// The session does not need a run.
    NotWanted,
}

impl Default for SessionPool {
    fn default() -> Self {
        Self {
            max_concurrent_sessions: Self::DEFAULT_MAX,
            leases: BTreeMap::new(),
            waiting: Vec::new(),
            brakes: Vec::new(),
        }
    }
}

impl SessionPool {
    /// Number of slots of an owner who did not configure one (S0 8.5).
    pub const DEFAULT_MAX: u32 = 20;
    pub const MAX_SLOTS: u32 = 1000;
    pub const MAX_WAITING: usize = 1000;
    /// Most brakes in force of one owner.
    pub const MAX_BRAKES: usize = 20;
    /// The same with the brakes of spending caps, which must not fail because of the owner's.
    pub const MAX_BRAKES_WITH_SYSTEM: usize = 220;

    /// A stored pool. `waiting` may lack sessions that the next operation does not concern.
    pub const fn from_parts(
        max_concurrent_sessions: u32,
        leases: BTreeMap<AgentSessionId, Lease>,
        waiting: Vec<Waiting>,
        brakes: Vec<PoolBrake>,
    ) -> Self {
        Self { max_concurrent_sessions, leases, waiting, brakes }
    }

    /// The brakes in force.
    pub fn brakes(&self) -> &[PoolBrake] {
        &self.brakes
    }

    /// The first brake that stops `session`.
    pub fn brake_on(&self, session: &AgentSession) -> Option<&PoolBrake> {
        self.brakes.iter().find(|brake| brake.stops(session.id(), session.project()))
    }

    pub const fn max_concurrent_sessions(&self) -> u32 {
        self.max_concurrent_sessions
    }

    pub fn active_count(&self) -> usize {
        self.leases.len()
    }

    pub const fn leases(&self) -> &BTreeMap<AgentSessionId, Lease> {
        &self.leases
    }

    /// The sessions with a slot whose leases do not tell to which agent they belong.
    pub fn unknown_holders(&self) -> BTreeSet<AgentSessionId> {
        self.leases.iter().filter(|(_, lease)| lease.holder.is_unknown()).map(|(id, _)| *id).collect()
    }

    /// Oldest first.
    pub fn waiting(&self) -> &[Waiting] {
        &self.waiting
    }

    /// Whether a slot is free (S0 8.12 `CanAllocateAsync`).
    pub fn can_allocate(&self) -> bool {
        self.leases.len() < self.max_concurrent_sessions as usize
    }

    /// The next session in line, if a slot is free. Sessions whose previous run still holds a slot, and those that a brake stops,
    /// are skipped.
    pub fn next_waiting(&self) -> Option<AgentSessionId> {
        self.first_startable().filter(|_| self.can_allocate())
    }

    fn first_startable(&self) -> Option<AgentSessionId> {
        let stops = |brake: &PoolBrake, w: &Waiting| brake.stops(w.session_id, w.project.as_ref());
        let can_start = |w: &&Waiting| {
            !self.leases.contains_key(&w.session_id) && !self.brakes.iter().any(|brake| stops(brake, w))
        };
        self.waiting.iter().find(can_start).map(|w| w.session_id)
    }

    /// Gives `session` a slot and a new run, or a place in line. Sessions already in line keep their precedence.
    pub fn allocate(
        &mut self,
        session: &mut AgentSession,
        ctx: &mut DomainContext<'_>,
    ) -> Result<(Allocation, Events), PoolError> {
        let id = session.id();
        let brake = self.brake_on(session).map(|brake| brake.id);
        // A session that a brake stops keeps its place in line.
        let cause = if brake.is_some() { session.requested_slot() } else { session.slot_wanted() };
        let Some(cause) = cause else {
            self.waiting.retain(|w| w.session_id != id);
            return Ok((Allocation::NotWanted, Vec::new()));
        };
        let first = self.first_startable().is_none_or(|able| able == id);
        if brake.is_some()
            || !self.can_allocate()
            || !first
            || self.leases.contains_key(&id)
            || session.run().is_some()
        {
            if self.waiting.iter().any(|w| w.session_id == id) {
                return Ok((Allocation::Waits, Vec::new()));
            }
            if self.waiting.len() >= Self::MAX_WAITING {
                return Err(PoolError::WaitingListFull { max: Self::MAX_WAITING });
            }
            let project = session.project().cloned();
            self.waiting.push(Waiting { session_id: id, cause, since: ctx.now, project });
            let event = match brake {
                Some(brake_id) => SessionEvent::StartBraked { brake_id },
                None => SessionEvent::PoolExhausted {
                    current_count: self.leases.len(),
                    max_count: self.max_concurrent_sessions,
                },
            };
            return Ok((Allocation::Waits, vec![event]));
        }
        self.waiting.retain(|w| w.session_id != id);
        let Some((run_id, mut events)) = session.mint_run(ctx) else {
            return Ok((Allocation::NotWanted, Vec::new()));
        };
        self.leases.insert(id, Lease { run_id, since: ctx.now, holder: LeaseHolder::of(session) });
        events.push(SessionEvent::SlotAllocated {
            active_count: self.leases.len(),
            max_count: self.max_concurrent_sessions,
        });
        Ok((Allocation::Allocated(run_id), events))
    }

    /// Extends the brakes on a session to the one that continues its work.
    pub fn follow(&mut self, from: AgentSessionId, to: AgentSessionId) {
        self.brakes.iter_mut().for_each(|brake| brake.follow(from, to));
    }

    /// Moves the slot of a session that hands over, and whose run is over, to its continuation (decision 21). If that session holds
    /// no slot, a brake stops it, or `to` needs none yet, this is an ordinary allocation.
    pub fn transfer(
        &mut self,
        from: AgentSessionId,
        to: &mut AgentSession,
        ctx: &mut DomainContext<'_>,
    ) -> Result<(Allocation, Events), PoolError> {
        let held = self.leases.remove(&from).is_some();
        self.follow(from, to.id());
        let passes = held && self.brake_on(to).is_none();
        match to.slot_wanted().filter(|_| passes).and_then(|_| to.mint_run(ctx)) {
            Some((run_id, mut events)) => {
                self.leases.insert(to.id(), Lease { run_id, since: ctx.now, holder: LeaseHolder::of(to) });
                events.push(SessionEvent::SlotAllocated {
                    active_count: self.leases.len(),
                    max_count: self.max_concurrent_sessions,
                });
                Ok((Allocation::Allocated(run_id), events))
            }
            None => self.allocate(to, ctx),
        }
    }

    /// Frees the slot that `run` holds (S0 8.12 `ReleaseAsync`). Does nothing if the run holds none.
    pub fn release(&mut self, session: AgentSessionId, run: RunId) -> Events {
        match self.leases.get(&session) {
            Some(lease) if lease.run_id == run => {
                self.leases.remove(&session);
                vec![SessionEvent::SlotReleased {
                    active_count: self.leases.len(),
                    max_count: self.max_concurrent_sessions,
                }]
            }
            _ => Vec::new(),
        }
    }

    /// Returns whether the session was in the line.
    pub fn stop_waiting(&mut self, session: AgentSessionId) -> bool {
        let before = self.waiting.len();
        self.waiting.retain(|w| w.session_id != session);
        before != self.waiting.len()
    }

    /// Changes the number of slots. Lowering it stops no run (decision 21).
    pub fn configure(&mut self, max_concurrent_sessions: u32) -> Result<Events, PoolError> {
        if !(1..=Self::MAX_SLOTS).contains(&max_concurrent_sessions) {
            return Err(PoolError::InvalidMaximum { max: Self::MAX_SLOTS });
        }
        self.max_concurrent_sessions = max_concurrent_sessions;
        Ok(vec![SessionEvent::PoolConfigured {
            max_count: max_concurrent_sessions,
            next: self.next_waiting(),
        }])
    }
}
