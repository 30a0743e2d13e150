//! Invariants at the end: compares the stored data with the spools and the responses.

mod brakes;
mod journal;
mod messages;
mod money;
mod pool;
mod requests;
mod resumes;
mod world;

use std::fmt;
use std::path::Path;

use crate::owner::Ledger;
use crate::rounds::Rounds;
use crate::stalls::Stalls;
pub(crate) use requests::START;
use world::World;

#[derive(Debug)]
pub(crate) struct Violation {
    session: String,
    round: Option<(usize, String)>,
    what: String,
    evidence: String,
}

impl Violation {
    /// A violation that belongs to no known round.
    pub(crate) fn of(session: &str, what: &str, evidence: String) -> Self {
        Self { session: session.to_owned(), round: None, what: what.to_owned(), evidence }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.round {
            Some((round, strike)) => write!(f, "round {round} (killed: {strike}), ")?,
            None => write!(f, "after the rounds, ")?,
        }
        write!(f, "{}: {}\n{}", self.session, self.what, self.evidence)
    }
}

pub(crate) struct Findings<'a> {
    history: &'a Rounds,
    stalls: &'a Stalls,
    /// Events that were abandoned during a stall.
    stalled: usize,
    all: Vec<Violation>,
}

impl Findings<'_> {
    /// Includes the journal around `place`, whose entry determines the round.
    fn session(&mut self, session: &world::Session, place: Option<u64>, what: &str, evidence: &str) {
        let shown = session.excerpt(place, |at| self.history.at(at));
        let entry = place.and_then(|place| session.journal.iter().find(|entry| entry.sequence == place));
        let round = entry
            .map(|entry| self.history.at(entry.at))
            .map(|round| (round, self.history.strike(round).to_owned()));
        let evidence = format!("{evidence}\n{}\n{shown}", session.state());
        self.all.push(Violation { session: session.id(), round, what: what.to_owned(), evidence });
    }

    /// Records a violation that belongs to no session.
    fn other(&mut self, whose: &str, what: &str, evidence: String) {
        self.all.push(Violation::of(whose, what, evidence));
    }
}

/// Which sessions may have failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Failures {
    Any,
    /// Only those whose sidecar was killed while its agent worked.
    OfKilledSidecars,
}

/// The data folder must not be in use. Also returns counts of the checked data.
pub(crate) async fn check(
    data: &Path,
    ledger: &Ledger,
    history: &Rounds,
    stalls: &Stalls,
    failures: Failures,
) -> (String, Vec<Violation>) {
    let world = World::load(data).await;
    let mut found = Findings { history, stalls, stalled: 0, all: Vec::new() };
    for (session, what, evidence) in ledger.wrong() {
        found.other(&session, &what, evidence);
    }
    for session in &world.sessions {
        journal::whole(session, &mut found);
        journal::resting(session, &mut found);
        journal::every_spooled_event_once(session, &mut found);
        messages::each_has_one_fate(session, &ledger.asked(), &mut found);
        messages::none_reaches_the_agent_twice(session, &ledger.asked(), &mut found);
        messages::none_waits_in_vain(session, &mut found);
        money::adds_up(session, &mut found);
        brakes::nothing_starts_or_acts(session, &mut found);
        resumes::none_fails_unreceived(session, &mut found);
        if failures == Failures::OfKilledSidecars {
            resumes::only_killed_sidecars_fail(session, &mut found);
        }
    }
    brakes::none_is_left(&world, &mut found);
    brakes::no_run_starts_under_a_brake_on_all(&world, &ledger.braked(), &mut found);
    pool::leases_are_the_runs(&world, &mut found);
    pool::nothing_is_left_in_the_broker(&world, &mut found);
    requests::each_happened_once(&world, &ledger.asked(), &mut found);
    let facts = format!("{}, {} events abandoned during a stall", world.summary(), found.stalled);
    (facts, found.all)
}
