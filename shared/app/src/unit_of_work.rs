//! Every change of the state is a unit of work: load under versions, decide, commit, and after a lost race load and decide again.
//!
//! | entry | use |
//! |---|---|
//! | [`UnitOfWork::run`] | one commit. Messages to send afterwards are the value of the [`Decision`] |
//! | [`UnitOfWork::run_command`] | the same for a command, with its idempotency record |
//! | [`RetryPolicy::retry`] | a step that makes several commits |
//!
//! The steps that stay on it, and why:
//!
//! | step | reason |
//! |---|---|
//! | the intake of a batch of events, and the quarantine of an event | the entries may exceed one transaction; bodies are loaded while earlier events are applied |
//! | due deadlines of a session | parked events are committed first; the runtime is asked, and a probe is sent, between the commits |
//! | the removal of a worker | the runs of a lost worker are reported and released one by one before the worker is removed |
//! | subscriptions and closings of stream connections | the store writes their items itself, without a [`Commit`] |
//!
//! Entries that depend on nothing that was loaded are committed without a unit of work, because a repetition replaces them: those of the
//! decision log, the terms of the search index, and the recommendations that coherence compares. A lost race for the statistics of the
//! index fails the message, which is then processed again. An entry about a refused objective is written once; the repetition of the request
//! finds it.
//!
//! An item of a listing has one attempt ([`RetryPolicy::ONCE`]): the read notifications, the launches that a heartbeat offers to its
//! worker, and the unclaimed runs of a removed worker.

use std::time::Duration;

use pilothouse_domain::{Deadlines, DomainContext, IdSource, Timestamp};
use pilothouse_store::table::Turn;
use pilothouse_store::{Clock, Commit, CommitError, Store};

use crate::problem::Problem;
use crate::{App, FreshIds, METRICS};

/// How often a change is attempted while it loses races.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetryPolicy {
    attempts: u32,
}

impl RetryPolicy {
    /// A command whose caller waits for the response.
    pub const COMMAND: Self = Self { attempts: 100 };
    /// An owner's stop, which must not fail because of lost races (decision 16).
    pub const STOP: Self = Self { attempts: 400 };
    /// Work that comes again after the last attempt: messages of queues, deadlines, heartbeats.
    pub const EVENT: Self = Self { attempts: 100 };
    /// An item of a listing: after a lost race the caller goes to the next item, because the winner has done the work or a later
    /// listing finds the item again.
    pub const ONCE: Self = Self { attempts: 1 };

    /// Runs `step` until it loses no race. The error after the last attempt is that of its lost race.
    pub async fn retry<T, E: LostRace, F: Future<Output = Result<T, E>>>(
        self,
        mut step: impl FnMut() -> F,
    ) -> Result<T, E> {
        let mut attempts = Attempts::new(self);
        loop {
            if let Some(result) = attempts.finish(step().await).await {
                return result;
            }
        }
    }
}

/// The attempts of a change.
pub(crate) struct Attempts {
    policy: RetryPolicy,
    made: u32,
    /// The turn of the change at the item for which it lost a race.
    turn: Option<Turn>,
}

impl Attempts {
    pub(crate) const fn new(policy: RetryPolicy) -> Self {
        Self { policy, made: 0, turn: None }
    }

    /// Commits. After a lost race it waits for the turn of this change, if another attempt follows.
    pub(crate) async fn commit(&mut self, store: &Store, commit: Commit) -> Result<(), CommitError> {
        if self.made + 1 >= self.policy.attempts {
            return store.commit(commit).await;
        }
        store.commit_in_turn(commit, &mut self.turn).await
    }

    /// Returns a final result. After a lost race, pauses before the next attempt, unless it is the turn of this change.
    pub(crate) async fn finish<T, E: LostRace>(&mut self, result: Result<T, E>) -> Option<Result<T, E>> {
        self.made += 1;
        if !result.as_ref().is_err_and(LostRace::is_lost_race) {
            return Some(result);
        }
        tracing::trace!(target: METRICS, conflicts = 1_u64);
        if self.made >= self.policy.attempts {
            return Some(result);
        }
        if self.turn.is_none() {
            tokio::time::sleep(pause_after(self.made, rand::random())).await;
        }
        None
    }
}

/// The pause after a lost race: a random part of 1 ms, doubled for each attempt up to 128 ms. `jitter` is between 0 and 1.
fn pause_after(attempt: u32, jitter: f64) -> Duration {
    Duration::from_millis(1 << attempt.saturating_sub(1).min(7)).mul_f64(jitter.clamp(0.0, 1.0))
}

/// An error that may mean that a commit lost a race.
pub trait LostRace {
    /// Whether the state was changed concurrently, so that another attempt may succeed.
    fn is_lost_race(&self) -> bool;
}

impl LostRace for Problem {
    fn is_lost_race(&self) -> bool {
        matches!(self, Self::VersionConflict)
    }
}

/// The outcome of a decision, with the value for the caller: the response, or the messages that follow the commit.
pub enum Decision<T> {
    Commit(Commit, T),
    Unchanged(T),
}

impl From<Option<Commit>> for Decision<()> {
    fn from(commit: Option<Commit>) -> Self {
        commit.map_or(Self::Unchanged(()), |commit| Self::Commit(commit, ()))
    }
}

/// Runs units of work on a store.
#[derive(Clone, Copy)]
pub struct UnitOfWork<'a> {
    pub(crate) store: &'a Store,
    clock: &'a Clock,
    deadlines: Deadlines,
}

impl App {
    pub fn unit_of_work(&self) -> UnitOfWork<'_> {
        UnitOfWork::new(&self.store, &self.clock, self.deadlines)
    }
}

impl<'a> UnitOfWork<'a> {
    pub const fn new(store: &'a Store, clock: &'a Clock, deadlines: Deadlines) -> Self {
        Self { store, clock, deadlines }
    }

    /// Loads, decides and commits. `load` reads everything that `decide` needs. `decide` depends only on its arguments.
    ///
    /// Each attempt gets fresh ids: a commit whose outcome was lost may have succeeded, and then the next attempt may decide on
    /// another aggregate, which must not receive the same ids.
    ///
    pub async fn run<S, T, E, F>(
        self,
        policy: RetryPolicy,
        mut load: impl FnMut() -> F,
        mut decide: impl FnMut(S, &mut DomainContext<'_>) -> Result<Decision<T>, E>,
    ) -> Result<T, E>
    where
        E: LostRace + From<CommitError>,
        F: Future<Output = Result<S, E>>,
    {
        let mut attempts = Attempts::new(policy);
        loop {
            let attempt = async {
                let state = load().await?;
                let decision = decide(state, &mut self.context(&mut FreshIds))?;
                match decision {
                    Decision::Unchanged(value) => Ok(value),
                    Decision::Commit(commit, value) => {
                        attempts.commit(self.store, commit).await?;
                        Ok(value)
                    }
                }
            };
            let result = attempt.await;
            if let Some(result) = attempts.finish(result).await {
                return result;
            }
        }
    }

    pub(crate) fn now(self) -> Timestamp {
        (self.clock)()
    }

    pub(crate) fn context(self, ids: &mut dyn IdSource) -> DomainContext<'_> {
        DomainContext::new(self.now(), self.deadlines, ids)
    }
}

#[cfg(test)]
mod tests {
    use std::future::ready;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};

    use async_trait::async_trait;
    use pilothouse_domain::{AgentSessionId, RunId};
    use pilothouse_store::table::{Item, Key, Page, Query, Table, TableError, Write};
    use uuid::Uuid;

    use super::*;

    /// Fakes a table at which each commit loses a race. It counts the changes that wait for their turn.
    #[derive(Default)]
    struct LostRaces(AtomicU32);

    #[async_trait]
    impl Table for LostRaces {
        async fn get(&self, _: &Key) -> Result<Option<Item>, TableError> {
            Ok(None)
        }

        async fn query(&self, _: &Query) -> Result<Page, TableError> {
            Ok(Page::default())
        }

        async fn transact(&self, _: Vec<Write>) -> Result<(), TableError> {
            Err(TableError::ConditionFailed { writes: vec![0] })
        }

        async fn put_all(&self, _: Vec<Item>) -> Result<(), TableError> {
            Ok(())
        }

        async fn turn(&self, _: &Key) -> Option<Turn> {
            self.0.fetch_add(1, Ordering::SeqCst);
            None
        }
    }

    #[test]
    fn pauses_double_up_to_128_ms() {
        let longest: Vec<_> =
            [1, 2, 3, 8, 9, 400].map(|attempt| pause_after(attempt, 1.0).as_millis()).into();
        assert_eq!(longest, [1, 2, 4, 128, 128, 128]);
        assert_eq!(pause_after(400, 0.0), Duration::ZERO);
    }

    #[tokio::test(start_paused = true)]
    async fn attempts_are_bounded_and_end_with_the_conflict() {
        for policy in [RetryPolicy::COMMAND, RetryPolicy::STOP, RetryPolicy::EVENT, RetryPolicy::ONCE] {
            let mut attempts = 0;
            let step = || {
                attempts += 1;
                ready(Err::<(), _>(Problem::VersionConflict))
            };
            let lost = policy.retry(step).await;
            assert!(matches!(lost, Err(Problem::VersionConflict)), "{lost:?}");
            assert_eq!(attempts, policy.attempts);
        }
    }

    /// An agent that reports many events changes the version constantly (decision 16).
    #[tokio::test(start_paused = true)]
    async fn stop_outlasts_the_races_that_end_a_command() {
        for (policy, succeeds) in [(RetryPolicy::STOP, true), (RetryPolicy::COMMAND, false)] {
            let mut attempts = 0;
            let step = || {
                attempts += 1;
                ready(if attempts > 300 { Ok(()) } else { Err(Problem::VersionConflict) })
            };
            assert_eq!(policy.retry(step).await.is_ok(), succeeds, "{policy:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn change_waits_for_its_turn_only_before_another_attempt() {
        for policy in [RetryPolicy::ONCE, RetryPolicy::COMMAND] {
            let table = Arc::new(LostRaces::default());
            let store = Store::new(table.clone());
            let clock: Clock = Arc::new(|| Timestamp::from_millis(0));
            let decide = |(), _: &mut DomainContext<'_>| {
                let mut commit = Commit::new();
                commit.unpark(AgentSessionId::new(Uuid::nil()), RunId::new(Uuid::nil()), 1);
                Ok(Decision::Commit(commit, ()))
            };
            let work = UnitOfWork::new(&store, &clock, Deadlines::default());
            let lost = work.run(policy, || ready(Ok::<_, Problem>(())), decide).await;
            assert!(matches!(lost, Err(Problem::VersionConflict)), "{lost:?}");
            assert_eq!(table.0.load(Ordering::SeqCst), policy.attempts - 1);
        }
    }

    #[tokio::test]
    async fn empty_commit_sends_nothing_to_the_table() {
        let store = Store::new(Arc::new(LostRaces::default()));
        store.commit(Commit::new()).await.unwrap();
    }

    #[tokio::test]
    async fn other_errors_are_not_retried() {
        let mut attempts = 0;
        let step = || {
            attempts += 1;
            ready(Err::<(), _>(Problem::NameTaken))
        };
        let refused = RetryPolicy::COMMAND.retry(step).await;
        assert!(matches!(refused, Err(Problem::NameTaken)), "{refused:?}");
        assert_eq!(attempts, 1);
    }
}
