//! Emergency brakes (decision 72): nothing starts under a brake, and nothing acts after it confirmed its stop.

use std::collections::BTreeSet;

use pilothouse_domain::journal::{Cause, JournalEntry};
use pilothouse_domain::{BrakeId, SessionEvent, Timestamp};

use super::Findings;
use super::world::{Session, World};
use crate::script::AFTER_STOP;

/// Events of an agent that works.
const ACTS: [&str; 6] =
    ["turn_started", "assistant_message", "tool_use", "tool_result", "subagent_started", "question_asked"];

/// While a brake holds the session, no run starts, and an agent that was paused does nothing. Each hold is released once.
pub(super) fn nothing_starts_or_acts(session: &Session, found: &mut Findings<'_>) {
    let mut held: BTreeSet<BrakeId> = BTreeSet::new();
    let mut paused = false;
    for entry in &session.journal {
        if paused && acts(entry) {
            found.session(
                session,
                Some(entry.sequence),
                "an agent acted after it confirmed the stop of a brake",
                "",
            );
        }
        for event in &entry.events {
            let wrong = match event {
                SessionEvent::Held { brake_id, .. } if !held.insert(*brake_id) => {
                    "a brake holds the session twice"
                }
                SessionEvent::HoldReleased { brake_id } if !held.remove(brake_id) => {
                    "a hold was released that was not there"
                }
                SessionEvent::RunRequested { .. } if !held.is_empty() => "a run started under a brake",
                SessionEvent::Paused {} => {
                    paused = !held.is_empty();
                    continue;
                }
                SessionEvent::HoldReleased { .. } => {
                    paused &= !held.is_empty();
                    continue;
                }
                // The end of a session is also the end of its holds.
                SessionEvent::Failed { .. }
                | SessionEvent::Cancelled { .. }
                | SessionEvent::Approved { .. }
                | SessionEvent::Closed { .. }
                | SessionEvent::ContextExhausted { .. } => {
                    (paused, held) = (false, BTreeSet::new());
                    continue;
                }
                _ => continue,
            };
            found.session(session, Some(entry.sequence), wrong, &format!("{event:?}"));
        }
    }
    if !held.is_empty() {
        found.session(session, None, "the session is still held", &format!("{held:?}"));
    }
}

/// Whether the agent worked. What a script says to break its stop is not held against the brake, which ends its process.
fn acts(entry: &JournalEntry) -> bool {
    let Cause::Agent { body, .. } = &entry.cause else { return false };
    let kind = body["type"].as_str().unwrap_or_default();
    ACTS.contains(&kind) && body["content"]["text"] != AFTER_STOP
}

pub(super) fn none_is_left(world: &World, found: &mut Findings<'_>) {
    for brake in world.brakes.iter().filter(|brake| brake.released().is_none()) {
        found.other(&brake.id().to_string(), "a brake is still in force", format!("{brake:?}"));
    }
    for brake in world.pool.brakes() {
        found.other(&brake.id.to_string(), "the pool still has a brake", format!("{brake:?}"));
    }
}

/// Also no run of a session without a hold. The time of a run is that of its id, which does not depend on the clock that the test moves.
pub(super) fn no_run_starts_under_a_brake_on_all(
    world: &World,
    braked: &[(Timestamp, Timestamp)],
    found: &mut Findings<'_>,
) {
    for session in &world.sessions {
        for (place, event) in session.events() {
            let SessionEvent::RunRequested { run_id, .. } = event else { continue };
            let (seconds, nanos) = run_id.uuid().get_timestamp().unwrap().to_unix();
            let at =
                Timestamp::from_millis(i64::try_from(seconds * 1000 + u64::from(nanos) / 1_000_000).unwrap());
            if let Some((from, to)) = braked.iter().find(|(from, to)| *from < at && at < *to) {
                let what = format!("run {run_id} of {at}, brake from {from} to {to}");
                found.session(session, Some(place), "a run started under a brake on all sessions", &what);
            }
        }
    }
}
