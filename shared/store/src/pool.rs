//! The pool of an owner (decision 21): a guard item with the maximum, the leases and the brakes (decision 72), and items for every waiting session.
//!
//! The guard knows whether the line may contain sessions. A session that joins the line writes its own items, and checks the guard
//! instead of writing it while no slot is free, so that joins do not conflict with each other. Every other change that a
//! concurrent join could invalidate writes the guard:
//!
//! - While no slot is free, a join requires an unchanged guard. The change that frees a slot writes the guard, so the join is
//!   committed before that change and found by the reaction that follows it, or it fails and decides again.
//! - While a slot is free, a join writes the guard. A decision that the line is empty, or that no session in it can start, therefore
//!   fails if a session joins meanwhile.
//!
//! A slot counts as free only if no brake stops all sessions. The release of a brake writes the guard like a change that frees a slot.
//!
//! Leaving the line deletes the items of the session without the guard: it invalidates no decision for longer than the reaction
//! that follows a join.

use std::collections::{BTreeMap, BTreeSet};

use pilothouse_domain::brake::PoolBrake;
use pilothouse_domain::pool::{Lease, SessionPool, Waiting};
use pilothouse_domain::session::RunCause;
use pilothouse_domain::value::ProjectMembership;
use pilothouse_domain::{AgentSession, AgentSessionId, BrakeId, Timestamp, UserId};
use serde::{Deserialize, Serialize};

use crate::commit::{Commit, LoadedConversation, Purpose, body, guarded, item};
use crate::error::StoreError;
use crate::layout;
use crate::repository::{Store, read_shared};
use crate::table::{Condition, Query, SortRange, Write};

/// How much of the waiting line to load.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LineScope {
    /// For releasing a slot.
    Nothing,
    /// If a slot is free, the sessions up to the first one that can start. For allocating the slot.
    Head,
    /// For views, and for sessions that may have to join.
    Whole,
}

const PAGE: usize = 250;
const HEAD_PAGE: usize = 5;
/// Most reads of a pool until its guard does not change meanwhile.
const SNAPSHOT_TRIES: usize = 4;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct PoolGuard {
    max_concurrent_sessions: u32,
    leases: BTreeMap<AgentSessionId, Lease>,
    /// Whether the line may contain sessions. If not, it is empty.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    has_waiting: bool,
    /// The brakes in force (decision 72). Sessions that they stop receive no slot.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    brakes: Vec<PoolBrake>,
}

impl PoolGuard {
    fn of(pool: &SessionPool, has_waiting: bool) -> Self {
        Self {
            max_concurrent_sessions: pool.max_concurrent_sessions(),
            leases: pool.leases().clone(),
            has_waiting,
            brakes: pool.brakes().to_vec(),
        }
    }

    /// Whether a session could receive a slot now. A brake on all sessions makes every slot count as taken.
    fn has_free_slot(&self) -> bool {
        self.leases.len() < self.max_concurrent_sessions as usize
            && !self.brakes.iter().any(PoolBrake::stops_all)
    }

    /// Whether a session in line may receive a slot: no earlier run holds one, and no brake stops it.
    fn admits(&self, entry: &LineEntry) -> bool {
        let stops = |brake: &PoolBrake| brake.stops(entry.session_id, entry.project.as_ref());
        !self.leases.contains_key(&entry.session_id) && !self.brakes.iter().any(stops)
    }

    fn has_slots_of(&self, pool: &SessionPool) -> bool {
        self.max_concurrent_sessions == pool.max_concurrent_sessions()
            && self.leases == *pool.leases()
            && self.brakes == pool.brakes()
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct LineEntry {
    session_id: AgentSessionId,
    cause: RunCause,
    since: Timestamp,
    /// Number of the place that the session occupies. Places limit the length of the line; their numbers have no order.
    place: u16,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    project: Option<ProjectMembership>,
}

impl LineEntry {
    fn new(waiting: &Waiting, place: u16) -> Self {
        let Waiting { session_id, cause, since, project } = waiting.clone();
        Self { session_id, cause, since, place, project }
    }

    fn waiting(&self) -> Waiting {
        let Self { session_id, cause, since, project, .. } = self.clone();
        Waiting { session_id, cause, since, project }
    }
}

/// A loaded pool with its previous state, from which the commit finds its changes.
#[derive(Debug, Clone, PartialEq)]
pub struct LoadedPool {
    /// Its line contains the loaded sessions only.
    pub value: SessionPool,
    /// Version of the guard; 0 if there is none yet. Joining and leaving the line may leave it unchanged.
    pub version: u64,
    guard_before: PoolGuard,
    line_before: Vec<LineEntry>,
    /// Whether the whole line was loaded, after the guard.
    has_whole_line: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum GuardWrite {
    Put,
    Check,
    Nothing,
}

impl LoadedPool {
    pub fn next_version(&self) -> u64 {
        self.version + u64::from(self.guard_write() == GuardWrite::Put)
    }

    /// The sessions that left the line, and those that joined it. The others keep their order, and new ones are at the end.
    fn line_changes(&self) -> (Vec<LineEntry>, &[Waiting]) {
        let mut joined = self.value.waiting();
        let mut left = Vec::new();
        for entry in &self.line_before {
            match joined.split_first() {
                Some((first, rest)) if *first == entry.waiting() => joined = rest,
                _ => left.push(entry.clone()),
            }
        }
        (left, joined)
    }

    fn guard(&self, joins: bool) -> PoolGuard {
        let before = &self.guard_before;
        // While a slot is free, a concurrent join makes the commit of this guard fail.
        let has_waiting = if self.has_whole_line && before.has_free_slot() {
            !self.value.waiting().is_empty()
        } else {
            before.has_waiting || joins
        };
        PoolGuard::of(&self.value, has_waiting)
    }

    fn guard_write(&self) -> GuardWrite {
        let before = &self.guard_before;
        let (left, joined) = self.line_changes();
        let is_line_unchanged = left.is_empty() && joined.is_empty();
        if is_line_unchanged || !before.has_slots_of(&self.value) {
            GuardWrite::Put
        } else if joined.is_empty() {
            GuardWrite::Nothing
        } else if before.has_waiting && !before.has_free_slot() {
            GuardWrite::Check
        } else {
            GuardWrite::Put
        }
    }

    /// A place that is not occupied. The search begins at a number that differs between sessions, so that
    /// concurrent joins rarely find the same one.
    fn free_place(occupied: &BTreeSet<u16>, session: AgentSessionId) -> u16 {
        let places = u16::try_from(SessionPool::MAX_WAITING).unwrap_or(u16::MAX);
        let [.., high, low] = *session.uuid().as_bytes();
        let first = u16::from_be_bytes([high, low]) % places;
        (first..places).chain(0..first).find(|place| !occupied.contains(place)).unwrap_or(first)
    }
}

/// The brakes of an owner that are in force.
#[derive(Debug, Clone, PartialEq)]
pub struct OwnerBrakes {
    brakes: Vec<PoolBrake>,
    /// Version of the pool's guard.
    version: u64,
}

impl OwnerBrakes {
    pub fn iter(&self) -> impl Iterator<Item = &PoolBrake> {
        self.brakes.iter()
    }

    /// Whether a brake is in force.
    pub fn has(&self, id: BrakeId) -> bool {
        self.brakes.iter().any(|brake| brake.id == id)
    }

    /// The first brake that stops `session`.
    pub fn on(&self, session: &AgentSession) -> Option<&PoolBrake> {
        self.brakes.iter().find(|brake| brake.stops(session.id(), session.project()))
    }
}

impl Store {
    /// The pool of an owner with its whole line; a default one if there is none yet.
    pub async fn pool(&self, owner: &UserId) -> Result<LoadedPool, StoreError> {
        self.pool_with(owner, LineScope::Whole).await
    }

    /// Like [`Self::pool`], with this part of the line.
    pub async fn pool_with(&self, owner: &UserId, scope: LineScope) -> Result<LoadedPool, StoreError> {
        let default = || PoolGuard::of(&SessionPool::default(), false);
        let (guard, version) = match self.load_shared::<PoolGuard>(&layout::pool(owner)).await? {
            Some(loaded) => (loaded.value, loaded.version),
            None => (default(), 0),
        };
        let (line, has_whole_line) = match scope {
            _ if !guard.has_waiting => (Vec::new(), true),
            LineScope::Nothing => (Vec::new(), false),
            LineScope::Head if !guard.has_free_slot() => (Vec::new(), false),
            LineScope::Head => {
                let can_start = |entry: &LineEntry| guard.admits(entry);
                self.line_until(owner, HEAD_PAGE, can_start).await?
            }
            LineScope::Whole => self.line_until(owner, PAGE, |_| false).await?,
        };
        let waiting = line.iter().map(LineEntry::waiting).collect();
        let value = SessionPool::from_parts(
            guard.max_concurrent_sessions,
            guard.leases.clone(),
            waiting,
            guard.brakes.clone(),
        );
        Ok(LoadedPool { value, version, guard_before: guard, line_before: line, has_whole_line })
    }

    /// The brakes of an owner that are in force.
    pub async fn brakes(&self, owner: &UserId) -> Result<OwnerBrakes, StoreError> {
        let guard = self.load_shared::<PoolGuard>(&layout::pool(owner)).await?;
        let (brakes, version) = guard.map(|guard| (guard.value.brakes, guard.version)).unwrap_or_default();
        Ok(OwnerBrakes { brakes, version })
    }

    /// The pool of an owner with its whole line, as both were at one moment. A commit needs no snapshot, because it checks the
    /// version of the guard.
    pub async fn pool_snapshot(&self, owner: &UserId) -> Result<LoadedPool, StoreError> {
        let mut pool = self.pool(owner).await?;
        for _ in 0..SNAPSHOT_TRIES {
            if !pool.guard_before.has_waiting {
                break;
            }
            let guard = self.table.get(&layout::pool(owner)).await?;
            if guard.is_none_or(|guard| guard.version == pool.version) {
                break;
            }
            pool = self.pool(owner).await?;
        }
        Ok(pool)
    }

    /// The line page by page, up to the page with a session that `is_enough` accepts. Also returns whether that is the whole line.
    async fn line_until(
        &self,
        owner: &UserId,
        limit: usize,
        is_enough: impl Fn(&LineEntry) -> bool + Send,
    ) -> Result<(Vec<LineEntry>, bool), StoreError> {
        let mut query =
            Query::new(layout::pool_partition(owner), SortRange::Prefix(layout::POOL_LINE.to_owned()), limit);
        let mut line: Vec<LineEntry> = Vec::new();
        loop {
            let page = self.table.query_shared(&query).await?;
            for item in page.items {
                line.push(read_shared(item)?);
            }
            if page.next.is_none() {
                return Ok((line, true));
            }
            if line.iter().any(&is_enough) {
                return Ok((line, false));
            }
            query.after = page.next;
        }
    }
}

impl Commit {
    /// Adds the changes of a pool.
    pub fn pool(&mut self, owner: &UserId, pool: &LoadedPool) -> Result<(), StoreError> {
        let (left, joined) = pool.line_changes();
        for LineEntry { session_id, since, place, .. } in left {
            // A session leaves once, so that it is not given two runs.
            let key = layout::pool_line(owner, since, session_id);
            self.push(Write::Delete(key, Condition::Version(1)), Purpose::Guard);
            self.push(Write::Delete(layout::pool_place(owner, place), Condition::Always), Purpose::Record);
        }
        debug_assert!(pool.has_whole_line || joined.is_empty(), "a session joins a line that was not loaded");
        let mut occupied: BTreeSet<u16> = pool.line_before.iter().map(|entry| entry.place).collect();
        for waiting in joined {
            let place = LoadedPool::free_place(&occupied, waiting.session_id);
            occupied.insert(place);
            let entry = LineEntry::new(waiting, place);
            let key = layout::pool_line(owner, waiting.since, waiting.session_id);
            self.push(guarded(item(key, "waiting", body(&entry)?), 0), Purpose::Guard);
            let place = item(layout::pool_place(owner, place), "waiting-place", "{}".to_owned());
            self.push(guarded(place, 0), Purpose::Guard);
        }
        match pool.guard_write() {
            GuardWrite::Put => {
                let row = item(layout::pool(owner), "pool", body(&pool.guard(!joined.is_empty()))?);
                self.push(guarded(row, pool.version), Purpose::Guard);
            }
            GuardWrite::Check => {
                let unchanged = Condition::Version(pool.version);
                self.push(Write::Check(layout::pool(owner), unchanged), Purpose::Guard);
            }
            GuardWrite::Nothing => {}
        }
        Ok(())
    }

    /// Requires that no brake of the owner was released since they were loaded.
    pub fn unchanged_brakes(&mut self, owner: &UserId, brakes: &OwnerBrakes) {
        self.push(Write::Check(layout::pool(owner), Condition::Version(brakes.version)), Purpose::Guard);
    }

    /// Requires that a session did not change since it was loaded.
    pub fn unchanged_session(&mut self, loaded: &LoadedConversation) {
        let key = layout::session(loaded.conversation.session.id());
        self.push(Write::Check(key, Condition::Version(loaded.session_version)), Purpose::Guard);
    }
}
