//! Compares the pool with the simplest possible pool (S0 8.12, decision 21): a set of sessions with a slot, and a line.

use std::collections::BTreeMap;

use pilothouse_domain::brake::{Brake, BrakeBehavior, BrakeScope, ReleasedBy};
use pilothouse_domain::pool::{Allocation, SessionPool};
use pilothouse_domain::session::{RunEnd, SessionSettings};
use pilothouse_domain::value::FailureReason;
use pilothouse_domain::{
    AgentSession, AgentSessionId, Deadlines, DomainContext, RunId, SessionEvent as E, Timestamp,
};
use proptest::prelude::*;
use proptest::test_runner::{Config, RngSeed, TestRunner};
use uuid::Uuid;

use crate::scenario::{Ids, Scenario, new_brake, settings};

const SESSIONS: usize = 4;

#[derive(Debug, Clone, Copy)]
enum Step {
    /// Requests the slot that the session needs.
    Allocate(usize),
    /// Ends the run; the report of its end arrives twice.
    End(usize),
    /// Fails the session while its run is still alive, and retries it.
    FailAndRetry(usize),
    /// Cancels the session and replaces it with a new one.
    Replace(usize),
    Configure(u32),
    /// Releases a slot for a run that has none.
    ReleaseOther(usize),
    /// Pulls or releases a brake on the session, or on all.
    Brake(Option<usize>),
}

fn step() -> impl Strategy<Value = Step> {
    let who = 0..SESSIONS;
    prop_oneof![
        4 => who.clone().prop_map(Step::Allocate),
        3 => who.clone().prop_map(Step::End),
        2 => who.clone().prop_map(Step::FailAndRetry),
        1 => who.clone().prop_map(Step::Replace),
        1 => (1..4u32).prop_map(Step::Configure),
        1 => who.clone().prop_map(Step::ReleaseOther),
        1 => prop::option::of(who).prop_map(Step::Brake),
    ]
}

struct Owner {
    sessions: Vec<AgentSession>,
    pool: SessionPool,
    ids: Ids,
    now: Timestamp,
    slots: BTreeMap<AgentSessionId, RunId>,
    line: Vec<AgentSessionId>,
    max: usize,
    /// The brakes in force, with the session that each stops; `None` for all.
    brakes: Vec<(Brake, Option<AgentSessionId>)>,
    pulled: u8,
}

impl Owner {
    fn new() -> Self {
        let scenario = Scenario::new();
        let mut owner = Self {
            sessions: Vec::new(),
            pool: SessionPool::default(),
            ids: Ids(1000),
            now: scenario.now,
            slots: BTreeMap::new(),
            line: Vec::new(),
            max: 2,
            brakes: Vec::new(),
            pulled: 0,
        };
        owner.pool.configure(2).unwrap();
        owner.sessions = (0..SESSIONS).map(|_| owner.session()).collect();
        owner
    }

    fn session(&mut self) -> AgentSession {
        let settings = SessionSettings { max_retries: 1000, ..settings() };
        let mut json = serde_json::to_value(Scenario::with(settings).conv.session).unwrap();
        self.ids.0 += 1;
        json["id"] = serde_json::to_value(AgentSessionId::new(Uuid::from_u128(self.ids.0))).unwrap();
        serde_json::from_value(json).unwrap()
    }

    fn is_braked(&self, id: AgentSessionId) -> bool {
        self.brakes.iter().any(|(_, stopped)| stopped.is_none_or(|stopped| stopped == id))
    }

    fn brake(&mut self, who: Option<usize>) {
        let stopped = who.map(|who| self.sessions[who].id());
        if let Some(at) = self.brakes.iter().position(|(_, other)| *other == stopped) {
            let (mut brake, _) = self.brakes.remove(at);
            brake.release(ReleasedBy::Owner, &mut self.pool, self.now).unwrap();
            return;
        }
        let scope = stopped.map_or(BrakeScope::All {}, |session_id| BrakeScope::Session { session_id });
        self.pulled += 1;
        let new = new_brake(self.pulled, scope, BrakeBehavior::Pause);
        self.brakes.push((Brake::pull(new, &mut self.pool, self.now).unwrap().0, stopped));
    }

    fn first_startable(&self) -> Option<AgentSessionId> {
        self.line.iter().copied().find(|id| !self.slots.contains_key(id) && !self.is_braked(*id))
    }

    fn step(&mut self, step: Step) {
        if let Step::Brake(who) = step {
            self.brake(who);
            return self.check();
        }
        let braked: Vec<_> = self.sessions.iter().map(|session| self.is_braked(session.id())).collect();
        let max_count = u32::try_from(self.max).unwrap();
        let mut ctx = DomainContext::new(self.now, Deadlines::default(), &mut self.ids);
        match step {
            Step::Brake(_) => {}
            Step::Allocate(who) => {
                let session = &mut self.sessions[who];
                let (id, wants) = (session.id(), session.slot_wanted().is_some());
                let (allocation, events) = self.pool.allocate(session, &mut ctx).unwrap();
                let free = self.slots.len() < self.max && !self.slots.contains_key(&id) && !braked[who];
                let first = self.first_startable().is_none_or(|able| able == id);
                if !wants {
                    assert_eq!(allocation, Allocation::NotWanted);
                    self.line.retain(|other| *other != id);
                } else if free && first {
                    let Allocation::Allocated(run) = allocation else { panic!("{id} gets no slot") };
                    self.line.retain(|other| *other != id);
                    self.slots.insert(id, run);
                    let allocated = E::SlotAllocated { active_count: self.slots.len(), max_count };
                    assert!(events.contains(&allocated), "{events:?}");
                } else {
                    assert_eq!(allocation, Allocation::Waits);
                    let news = !self.line.contains(&id);
                    let reports_waiting = |e: &E| match e {
                        E::PoolExhausted { .. } => {
                            assert_eq!(*e, E::PoolExhausted { current_count: self.slots.len(), max_count });
                            !braked[who]
                        }
                        E::StartBraked { .. } => braked[who],
                        _ => false,
                    };
                    assert_eq!(events.iter().any(reports_waiting), news);
                    self.line.extend(news.then_some(id));
                }
            }
            Step::End(who) => {
                let session = &mut self.sessions[who];
                let Some(run) = session.run().map(|run| run.id) else { return };
                session.record_run_ended(run, RunEnd::Drained, None, &mut ctx).unwrap();
                let events = self.pool.release(session.id(), run);
                assert_eq!(self.pool.release(session.id(), run), Vec::new(), "a second release does nothing");
                assert_eq!(self.slots.remove(&session.id()), Some(run));
                assert_eq!(events, [E::SlotReleased { active_count: self.slots.len(), max_count }]);
            }
            Step::FailAndRetry(who) => {
                let session = &mut self.sessions[who];
                let _ = session.record_failure(FailureReason::AgentError, None, &ctx);
                session.retry(None, false, &ctx).unwrap();
            }
            Step::Replace(who) => {
                if let Some(run) = self.sessions[who].run().map(|run| run.id) {
                    self.pool.release(self.sessions[who].id(), run);
                }
                let id = self.sessions[who].id();
                assert_eq!(self.pool.stop_waiting(id), self.line.contains(&id));
                self.line.retain(|other| *other != id);
                self.slots.remove(&id);
                self.sessions[who] = self.session();
            }
            Step::Configure(max) => {
                self.max = max as usize;
                let next = if self.slots.len() < self.max { self.first_startable() } else { None };
                let events = self.pool.configure(max).unwrap();
                assert_eq!(events, vec![E::PoolConfigured { max_count: max, next }]);
            }
            Step::ReleaseOther(who) => {
                let other = RunId::new(Uuid::from_u128(1));
                assert_eq!(self.pool.release(self.sessions[who].id(), other), Vec::new());
            }
        }
        self.check();
    }

    fn check(&self) {
        let leases = self.pool.leases().iter().map(|(id, lease)| (*id, lease.run_id));
        assert_eq!(leases.collect::<BTreeMap<_, _>>(), self.slots, "who has a slot");
        let runs = self.sessions.iter().filter_map(|s| s.run().map(|run| (s.id(), run.id)));
        assert_eq!(runs.collect::<BTreeMap<_, _>>(), self.slots, "a slot is held by a run, and by each");
        let line: Vec<_> = self.pool.waiting().iter().map(|w| w.session_id).collect();
        assert_eq!(line, self.line, "the line");
        let next = if self.slots.len() < self.max { self.first_startable() } else { None };
        assert_eq!(self.pool.next_waiting(), next, "who is next");
        assert_eq!(self.pool.can_allocate(), self.slots.len() < self.max);
    }
}

#[test]
fn pool_matches_the_reference_model() {
    let config =
        Config { cases: 500, failure_persistence: None, rng_seed: RngSeed::Fixed(8_12), ..Config::default() };
    let result = TestRunner::new(config).run(&prop::collection::vec(step(), 1..60), |steps| {
        let mut owner = Owner::new();
        for step in steps {
            owner.step(step);
        }
        Ok(())
    });
    if let Err(failure) = result {
        panic!("{failure}");
    }
}
