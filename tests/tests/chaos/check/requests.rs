//! A successful request took effect once, however often it was sent; a refused request had no effect.

use std::collections::BTreeMap;

use pilothouse_domain::SessionEvent;
use pilothouse_domain::journal::Cause;

use super::Findings;
use super::world::{Session, World};
use crate::owner::Asked;

/// These functions can succeed without a change and without a journal entry.
const MAY_CHANGE_NOTHING: [&str; 6] = [
    "sessions-interrupt",
    "sessions-cancel",
    "messages-edit",
    "messages-release",
    "messages-cancel",
    "messages-promote",
];

/// Functions that start a session.
pub(crate) const START: [&str; 2] = ["sessions-start", "agents-spawn"];

/// Compares the journal entries caused by owners with the responses to their requests.
pub(super) fn each_happened_once(world: &World, asked: &[Asked], found: &mut Findings<'_>) {
    for session in &world.sessions {
        let mut entries: BTreeMap<&str, Vec<u64>> = BTreeMap::new();
        for entry in &session.journal {
            // The test itself configures the pool.
            if let Cause::Owner { function } = &entry.cause
                && function != "pool-configure"
            {
                entries.entry(function).or_default().push(entry.sequence);
            }
        }
        let id = session.id();
        let mut answered: BTreeMap<&str, usize> = BTreeMap::new();
        for one in asked.iter().filter(|one| one.session == id && one.status < 300) {
            *answered.entry(one.function).or_default() += 1;
        }
        for function in
            entries.keys().chain(answered.keys()).copied().collect::<std::collections::BTreeSet<_>>()
        {
            let happened = entries.get(function).map_or(0, Vec::len);
            let said = answered.get(function).copied().unwrap_or(0);
            let fits =
                if MAY_CHANGE_NOTHING.contains(&function) { happened <= said } else { happened == said };
            if !fits {
                let what = format!(
                    "{function}: {said} succeeded, {happened} in the journal at {:?}",
                    entries.get(function)
                );
                found.session(
                    session,
                    entries.get(function).and_then(|all| all.last().copied()),
                    "the journal and the responses disagree on how often a request succeeded",
                    &what,
                );
            }
        }
        caps(session, asked, found);
    }
    starts(world, asked, found);
}

/// Each accepted cap was set once. No two requests set the same cap.
fn caps(session: &Session, asked: &[Asked], found: &mut Findings<'_>) {
    let id = session.id();
    for one in asked.iter().filter(|one| one.function == "sessions-budget" && one.session == id) {
        let cap: pilothouse_domain::Usd = one.body["capUsd"].as_str().unwrap().parse().unwrap();
        let places: Vec<u64> = session
            .events()
            .filter(
                |(_, event)| matches!(event, SessionEvent::BudgetChanged { cap_usd, .. } if *cap_usd == cap),
            )
            .map(|(place, _)| place)
            .collect();
        if places.len() != usize::from(one.status < 300) {
            found.session(
                session,
                places.last().copied(),
                "a cap was not set once for each acceptance",
                &format!("{cap:?} answered {}, set at {places:?}", one.status),
            );
        }
    }
}

/// Each accepted start, and no other request, created one session. Names are unique.
fn starts(world: &World, asked: &[Asked], found: &mut Findings<'_>) {
    let mut names: BTreeMap<String, Vec<&Session>> = BTreeMap::new();
    for session in &world.sessions {
        names.entry(session.session.name().to_string()).or_default().push(session);
    }
    for one in asked.iter().filter(|one| START.contains(&one.function)) {
        let name = one.body["name"].as_str().unwrap();
        let made = names.remove(name).unwrap_or_default();
        let wanted = usize::from(one.status < 300);
        if made.len() != wanted || made.iter().any(|session| session.id() != one.session) {
            let ids: Vec<_> = made.iter().map(|session| session.id()).collect();
            found.other(
                &one.session,
                "a start did not create exactly one session",
                format!("{name} answered {}, made {ids:?}", one.status),
            );
        }
    }
    for (name, sessions) in names {
        found.session(sessions[0], Some(1), "a session without a start request", &name);
    }
}
