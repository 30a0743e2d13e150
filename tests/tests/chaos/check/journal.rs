//! Journals are complete, and contain every spooled event once.

use std::collections::BTreeMap;

use pilothouse_domain::journal::Cause;
use pilothouse_domain::session::AgentSessionStatus;
use pilothouse_domain::{Deadlines, RunId, SessionEvent, Timestamp};

use super::Findings;
use super::world::Session;
use crate::rounds::DEADLINE_DIVISOR;

/// Sequence numbers count from 1 without gaps to the session's count; entry ids are unique.
pub(super) fn whole(session: &Session, found: &mut Findings<'_>) {
    for (at, entry) in session.journal.iter().enumerate() {
        if entry.sequence != at as u64 + 1 {
            found.session(
                session,
                Some(entry.sequence),
                "the journal has a gap",
                &format!("place {} holds {}", at + 1, entry.sequence),
            );
            return;
        }
    }
    if session.session.journal_sequence() != session.journal.len() as u64 {
        let counted =
            format!("{} entries, counted as {}", session.journal.len(), session.session.journal_sequence());
        found.session(session, None, "the end of the journal is missing", &counted);
    }
    let mut ids: Vec<_> = session.journal.iter().map(|entry| entry.id).collect();
    ids.sort_unstable();
    ids.dedup();
    if ids.len() != session.journal.len() {
        found.session(session, None, "two entries of the journal have one id", "");
    }
}

/// No status is intermediate, and none requires a process that does not exist.
pub(super) fn resting(session: &Session, found: &mut Findings<'_>) {
    let status = session.session.status();
    let at_work = status == AgentSessionStatus::Running || status.is_waiting();
    if status.is_intermediate() || session.session.cancel_accepted() {
        found.session(session, None, "the status is intermediate", "");
    }
    if at_work && session.session.run().is_none() && !session.session.hibernated() {
        found.session(session, None, "the status says that an agent works, but there is no run", "");
    }
}

/// Each sequence of each spool is the cause of one entry, or was abandoned because the sidecar could not send it: its script never sends
/// it, or the machine stalled while it was requested. A stall shorter than the interval between two requests must not cost an event
/// (decision 9).
pub(super) fn every_spooled_event_once(session: &Session, found: &mut Findings<'_>) {
    let mut applied: BTreeMap<(RunId, u64), Vec<u64>> = BTreeMap::new();
    let mut lost: Vec<(RunId, u64, u64, u64)> = Vec::new();
    let mut asked: Vec<(RunId, u64, u64, Timestamp)> = Vec::new();
    let mut current = None;
    for entry in &session.journal {
        if let Cause::Agent { run_id, sequence: Some(sequence), .. } = &entry.cause {
            applied.entry((*run_id, *sequence)).or_default().push(entry.sequence);
        }
        for event in &entry.events {
            match event {
                SessionEvent::RunRequested { run_id, .. } => current = Some(*run_id),
                SessionEvent::EventsLost { from_sequence, to_sequence } => {
                    lost.extend(current.map(|run| (run, *from_sequence, *to_sequence, entry.sequence)));
                }
                SessionEvent::ReplayRequested { command, from_sequence, to_sequence } => {
                    asked.push((command.run_id, *from_sequence, *to_sequence, entry.at));
                }
                _ => {}
            }
        }
    }
    for spool in &session.spools {
        for (at, spooled) in spool.entries.iter().enumerate() {
            let sequence = spooled.sequence;
            let what = format!(
                "event {sequence} of {} in the spool of run {}: {}",
                spool.entries.len(),
                spool.run,
                spooled.body
            );
            if sequence != at as u64 + 1 {
                found.session(session, None, "the spool has a gap", &what);
                break;
            }
            let given_up =
                lost.iter().find(|(run, from, to, _)| *run == spool.run && (*from..=*to).contains(&sequence));
            match (applied.remove(&(spool.run, sequence)).as_deref(), given_up) {
                (Some([_]), None) | (None, Some(_)) if spooled.never_sent == given_up.is_some() => {}
                // Withheld at the end of a spool, where no later event reveals that it is missing.
                (None, None)
                    if spooled.never_sent && spool.entries[at..].iter().all(|later| later.never_sent) => {}
                (None, None) => {
                    // Where the event would be: after the last earlier event of this run.
                    let place = session.journal.iter().rev().find(|e| matches!(&e.cause, Cause::Agent { run_id, sequence: Some(s), .. } if *run_id == spool.run && *s < sequence));
                    let what = format!("{what}; sent: {}", spooled.sent);
                    found.session(
                        session,
                        place.map(|entry| entry.sequence),
                        "a spooled event is lost",
                        &what,
                    );
                }
                (None, Some((.., place)))
                    if stood_still(session, &asked, spool.run, sequence, *place, found) =>
                {
                    found.stalled += 1;
                }
                (None | Some([_]), Some((_, _, _, place))) => {
                    found.session(
                        session,
                        Some(*place),
                        "an event was abandoned although its sidecar could send it",
                        &what,
                    );
                }
                (Some(places), _) => {
                    found.session(
                        session,
                        places.get(1).or(places.first()).copied(),
                        "a spooled event counts more than once",
                        &format!("{what} at {places:?}"),
                    );
                }
            }
        }
    }
    for ((run, sequence), places) in applied {
        if session.removed.contains(&run) {
            continue;
        }
        let what = format!("event {sequence} of run {run} at {places:?}");
        found.session(
            session,
            places.first().copied(),
            "the journal contains an event that no sidecar spooled",
            &what,
        );
    }
}

/// Whether the machine stalled for at least the interval of two requests, between the first request for an event and its abandonment.
fn stood_still(
    session: &Session,
    asked: &[(RunId, u64, u64, Timestamp)],
    run: RunId,
    sequence: u64,
    place: u64,
    found: &Findings<'_>,
) -> bool {
    let first = asked.iter().find(|(of, from, to, _)| *of == run && (*from..=*to).contains(&sequence));
    let given_up = session.journal.iter().find(|entry| entry.sequence == place);
    let (Some((.., first)), Some(given_up)) = (first, given_up) else { return false };
    found.stalls.between(*first, given_up.at)
        >= Deadlines::default().shortened(DEADLINE_DIVISOR).replay_interval
}
