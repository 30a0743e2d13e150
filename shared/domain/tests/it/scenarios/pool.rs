//! The pool (decision 21).

use pilothouse_domain::pool::{Allocation, SessionPool};
use pilothouse_domain::{AgentSession, AgentSessionId, Deadlines, DomainContext, SessionEvent};
use uuid::Uuid;

use crate::scenario::{Ids, Scenario, ends};

/// Sessions of the same owner.
fn sessions(n: u128) -> Vec<AgentSession> {
    let session = Scenario::new().conv.session;
    let json = serde_json::to_value(&session).unwrap();
    let with = |id: u128| {
        let mut json = json.clone();
        json["id"] = serde_json::to_value(AgentSessionId::new(Uuid::from_u128(id))).unwrap();
        serde_json::from_value(json).unwrap()
    };
    (1..=n).map(with).collect()
}

fn allocate(
    pool: &mut SessionPool,
    session: &mut AgentSession,
    ids: &mut Ids,
) -> (Allocation, Vec<&'static str>) {
    let mut ctx = DomainContext::new(Scenario::new().now, Deadlines::default(), ids);
    let (allocation, events) = pool.allocate(session, &mut ctx).unwrap();
    (allocation, events.iter().map(SessionEvent::name).collect())
}

#[test]
fn session_queues_when_all_slots_are_taken() {
    let mut ids = Ids(100);
    let mut pool = SessionPool::default();
    pool.configure(1).unwrap();
    let [mut a, mut b, mut c] = <[_; 3]>::try_from(sessions(3)).unwrap();
    let (Allocation::Allocated(run), events) = allocate(&mut pool, &mut a, &mut ids) else {
        panic!("no slot")
    };
    assert_eq!(events, ["SessionRunRequestedEvent", "SessionAllocatedEvent"]);
    assert_eq!(allocate(&mut pool, &mut b, &mut ids), (Allocation::Waits, vec!["SessionPoolExhaustedEvent"]));
    assert_eq!(allocate(&mut pool, &mut b, &mut ids), (Allocation::Waits, vec![]));
    assert_eq!(allocate(&mut pool, &mut c, &mut ids).0, Allocation::Waits);
    assert_eq!(pool.next_waiting(), None);

    assert_eq!(pool.release(a.id(), run).len(), 1);
    assert_eq!(pool.release(a.id(), run).len(), 0, "a second release does nothing");
    assert_eq!(pool.next_waiting(), Some(b.id()));
    // Sessions in line keep their precedence.
    assert_eq!(allocate(&mut pool, &mut c, &mut ids).0, Allocation::Waits);
    assert!(matches!(allocate(&mut pool, &mut b, &mut ids).0, Allocation::Allocated(_)));
    assert_eq!(pool.leases().len(), 1);
    assert_eq!(pool.release(b.id(), run).len(), 0, "the lease of another run stays");
}

#[test]
fn lower_maximum_stops_nobody_and_higher_one_names_the_next() {
    let mut ids = Ids(100);
    let mut pool = SessionPool::default();
    pool.configure(2).unwrap();
    let [mut a, mut b, mut c] = <[_; 3]>::try_from(sessions(3)).unwrap();
    allocate(&mut pool, &mut a, &mut ids);
    allocate(&mut pool, &mut b, &mut ids);
    pool.configure(1).unwrap();
    assert_eq!((pool.active_count(), pool.can_allocate()), (2, false));
    allocate(&mut pool, &mut c, &mut ids);
    let events = pool.configure(3).unwrap();
    assert_eq!(events, [SessionEvent::PoolConfigured { max_count: 3, next: Some(c.id()) }]);
    assert!(pool.configure(0).is_err() && pool.configure(1001).is_err());
}

#[test]
fn session_that_needs_no_slot_leaves_the_queue() {
    let mut ids = Ids(100);
    let mut pool = SessionPool::default();
    pool.configure(1).unwrap();
    let [mut a, mut b] = <[_; 2]>::try_from(sessions(2)).unwrap();
    allocate(&mut pool, &mut a, &mut ids);
    allocate(&mut pool, &mut b, &mut ids);
    let mut ctx = DomainContext::new(Scenario::new().now, Deadlines::default(), &mut ids);
    b.request_cancel(false, &mut ctx).unwrap();
    assert_eq!(allocate(&mut pool, &mut b, &mut ids), (Allocation::NotWanted, vec![]));
    assert!(pool.waiting().is_empty() && !pool.stop_waiting(b.id()));
}

/// A retry waits for the end of its own earlier run; other sessions do not wait with it.
#[test]
fn retry_that_waits_for_its_old_run_blocks_nobody() {
    let mut scenario = Scenario::running().observes(ends(true)).when(|s| s.retry());
    scenario.pool.configure(2).unwrap();
    assert_eq!(scenario.pool.waiting().len(), 1);
    let mut ids = Ids(100);
    let mut other = sessions(1).remove(0);
    assert!(matches!(allocate(&mut scenario.pool, &mut other, &mut ids).0, Allocation::Allocated(_)));
    scenario
        .when(|s| s.die(true))
        .then_event("SessionRunRequestedEvent")
        .then(|s| (s.pool.leases().len(), s.pool.waiting().len()), &(2, 0));
}
