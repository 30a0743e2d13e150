//! Slots of the pool, and leftovers in the broker.

use std::collections::BTreeMap;

use super::Findings;
use super::world::World;

/// Runs and leases correspond, no session waits while a slot is free, and every session that needs a slot is in the queue.
pub(super) fn leases_are_the_runs(world: &World, found: &mut Findings<'_>) {
    let runs: BTreeMap<_, _> =
        world.sessions.iter().filter_map(|s| Some((s.session.id(), s.session.run()?.id))).collect();
    let leases: BTreeMap<_, _> =
        world.pool.leases().iter().map(|(session, lease)| (*session, lease.run_id)).collect();
    for session in &world.sessions {
        let id = session.session.id();
        let (run, lease) = (runs.get(&id), leases.get(&id));
        if run != lease {
            found.session(
                session,
                None,
                "the lease does not match the run",
                &format!("run {run:?}, lease {lease:?}"),
            );
        }
        let waits = world.pool.waiting().iter().any(|waiting| waiting.session_id == id);
        if session.session.slot_wanted().is_some() && run.is_none() && !waits {
            found.session(session, None, "the session needs a slot and is not in the queue", "");
        }
    }
    for (session, run) in leases {
        if world.sessions.iter().all(|s| s.session.id() != session) {
            found.other(&session.to_string(), "a lease of an unknown session", run.to_string());
        }
    }
    if let Some(next) = world.pool.next_waiting() {
        let what = format!("{:?}", world.pool);
        found.other(&next.to_string(), "the session waits although a slot is free", what);
    }
}

/// No queue of an ended run, undelivered message, dead letter, or parked envelope exists.
pub(super) fn nothing_is_left_in_the_broker(world: &World, found: &mut Findings<'_>) {
    let live: Vec<String> =
        world.sessions.iter().filter_map(|s| s.session.run()).map(|run| run.id.to_string()).collect();
    for queue in &world.queues {
        if !live.iter().any(|run| queue.as_str().contains(run)) {
            let run = queue.as_str().trim_start_matches("commands-").trim_end_matches(".fifo");
            let of =
                world.sessions.iter().find(|s| s.spools.iter().any(|spool| spool.run.to_string() == run));
            match of {
                Some(session) => {
                    found.session(session, None, "the queue of an ended run remains", queue.as_str());
                }
                None => found.other(queue.as_str(), "the queue of an ended run remains", String::new()),
            }
        }
    }
    for letter in &world.dead_letters {
        found.other(&letter.group, "a dead letter remains", format!("{}: {}", letter.cause, letter.body));
    }
    for (name, depth) in &world.depths {
        // The server was killed at rest: the latest heartbeat of each live run may have just arrived.
        let beats = if *name == "events" { live.len() as u64 } else { 0 };
        if depth.visible + depth.in_flight > beats {
            found.other(name, "messages remain in a queue although nothing is pending", format!("{depth:?}"));
        }
    }
    for key in &world.unrelayed {
        found.other(key, "the relay's position is before a journal entry", String::new());
    }
    for key in &world.parked {
        let session = world.sessions.iter().find(|s| key.contains(&s.id()));
        match session {
            Some(session) => found.session(session, None, "a parked envelope remains", key),
            None => found.other(key, "a parked envelope remains", String::new()),
        }
    }
}
