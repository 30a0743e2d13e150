//! Every change of the state is a unit of work: load under versions, decide, commit, and after a lost race load and decide again.
//!
//! A step that commits several times, or sends a message between two commits, repeats itself with [`RetryPolicy::retry`].

use std::time::Duration;

use pilothouse_domain::{DomainContext, IdSource};
use pilothouse_store::{Commit, CommitError};
use uuid::Uuid;

use crate::command::{CommandContext, CommandResponse};
use crate::http::Problem;
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

    /// Runs `step` until it loses no race. The error after the last attempt is that of its lost race.
    pub async fn retry<T, E: LostRace, F: Future<Output = Result<T, E>>>(
        self,
        mut step: impl FnMut() -> F,
    ) -> Result<T, E> {
        let mut attempts = Attempts { policy: self, made: 0 };
        loop {
            if let Some(result) = attempts.finish(step().await).await {
                return result;
            }
        }
    }
}

struct Attempts {
    policy: RetryPolicy,
    made: u32,
}

impl Attempts {
    /// Returns a final result. After a lost race, pauses before the next attempt.
    async fn finish<T, E: LostRace>(&mut self, result: Result<T, E>) -> Option<Result<T, E>> {
        self.made += 1;
        if !result.as_ref().is_err_and(LostRace::is_lost_race) {
            return Some(result);
        }
        tracing::trace!(target: METRICS, conflicts = 1_u64);
        if self.made >= self.policy.attempts {
            return Some(result);
        }
        tokio::time::sleep(pause_after(self.made, rand::random())).await;
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

/// The outcome of a decision, with the value for the caller.
pub enum Decision<T> {
    /// The writes of one transaction.
    Commit(Commit, T),
    /// Nothing changes.
    Unchanged(T),
}

/// Runs units of work on the state of an app.
#[derive(Clone, Copy)]
pub struct UnitOfWork<'a> {
    app: &'a App,
}

impl App {
    /// The unit of work of this app's state.
    pub const fn unit_of_work(&self) -> UnitOfWork<'_> {
        UnitOfWork { app: self }
    }
}

impl UnitOfWork<'_> {
    /// Loads, decides and commits. `load` reads everything that `decide` needs. `decide` depends only on its arguments; its context
    /// gives the same ids in each attempt.
    ///
    /// # Errors
    /// Those of `load` and `decide`, and [`Problem::VersionConflict`] after the last attempt.
    pub async fn run<S, T, F: Future<Output = Result<S, Problem>>>(
        self,
        policy: RetryPolicy,
        mut load: impl FnMut() -> F,
        mut decide: impl FnMut(S, &mut DomainContext<'_>) -> Result<Decision<T>, Problem>,
    ) -> Result<T, Problem> {
        let mut ids = RepeatedIds::default();
        let mut attempts = Attempts { policy, made: 0 };
        loop {
            let attempt = async {
                let state = load().await?;
                match decide(state, &mut self.context(&mut ids))? {
                    Decision::Unchanged(value) => Ok(value),
                    Decision::Commit(commit, value) => {
                        self.app.store.commit(commit).await?;
                        Ok(value)
                    }
                }
            };
            if let Some(result) = attempts.finish(attempt.await).await {
                return result;
            }
        }
    }

    /// Runs a command. Its response is stored in the same transaction, also if nothing changes. A request that was answered before
    /// gets the stored response: it is read first, and again after a refusal, because a concurrent duplicate of the request may be
    /// the reason for it.
    ///
    /// # Errors
    /// Those of `load` and `decide`, and [`Problem::VersionConflict`] after the last attempt.
    pub async fn run_command<S, F: Future<Output = Result<S, Problem>>>(
        self,
        command: &CommandContext,
        mut load: impl FnMut() -> F,
        mut decide: impl FnMut(S, &mut DomainContext<'_>) -> Result<Decision<CommandResponse>, Problem>,
    ) -> Result<CommandResponse, Problem> {
        let store = &self.app.store;
        let mut ids = RepeatedIds::default();
        let mut attempts = Attempts { policy: command.retry_policy(), made: 0 };
        let (mut may_be_stored, mut may_show_soon) = (true, command.has_idempotency_key());
        loop {
            let attempt = async {
                if std::mem::take(&mut may_be_stored)
                    && let Some(response) = command.earlier_response(store).await?
                {
                    return Ok(response);
                }
                let decided = match load().await {
                    Ok(state) => decide(state, &mut self.context(&mut ids)),
                    Err(refusal) => Err(refusal),
                };
                let (mut commit, response) = match decided {
                    Ok(Decision::Commit(commit, response)) => (commit, response),
                    Ok(Decision::Unchanged(response)) if !command.has_idempotency_key() => {
                        return Ok(response);
                    }
                    Ok(Decision::Unchanged(response)) => (Commit::new(), response),
                    Err(refusal) => return command.earlier_response(store).await?.ok_or(refusal),
                };
                command.store_response(&mut commit, &response, self.app)?;
                match store.commit(commit).await {
                    Ok(()) => {
                        tracing::trace!(target: METRICS, commands = 1_u64);
                        Ok(response)
                    }
                    Err(CommitError::ResponseExists) => {
                        may_be_stored = true;
                        Err(Problem::VersionConflict)
                    }
                    Err(refusal @ (CommitError::NameTaken | CommitError::MessageExists)) => {
                        match command.earlier_response(store).await? {
                            Some(response) => Ok(response),
                            // The items of a transaction become visible one by one. The duplicate that took the name may be about
                            // to show its response.
                            None if std::mem::take(&mut may_show_soon) => Err(Problem::VersionConflict),
                            None => Err(refusal.into()),
                        }
                    }
                    Err(other) => Err(other.into()),
                }
            };
            if let Some(result) = attempts.finish(attempt.await).await {
                return result;
            }
        }
    }

    fn context(self, ids: &mut RepeatedIds) -> DomainContext<'_> {
        ids.used = 0;
        DomainContext::new(self.app.now(), self.app.deadlines, ids)
    }
}

/// Fresh ids for the first attempt, and the same ids for all others: a caller never sees an id of which nothing was committed.
#[derive(Default)]
struct RepeatedIds {
    minted: Vec<Uuid>,
    used: usize,
}

impl IdSource for RepeatedIds {
    fn fresh(&mut self) -> Uuid {
        if self.used == self.minted.len() {
            self.minted.push(FreshIds.fresh());
        }
        self.used += 1;
        self.minted[self.used - 1]
    }
}

#[cfg(test)]
mod tests {
    use std::future::ready;

    use super::*;

    #[test]
    fn pauses_double_up_to_128_ms() {
        let longest: Vec<_> =
            [1, 2, 3, 8, 9, 400].map(|attempt| pause_after(attempt, 1.0).as_millis()).into();
        assert_eq!(longest, [1, 2, 4, 128, 128, 128]);
        assert_eq!(pause_after(400, 0.0), Duration::ZERO);
    }

    #[test]
    fn every_attempt_gets_the_same_ids() {
        let mut ids = RepeatedIds::default();
        let first = [ids.fresh(), ids.fresh()];
        ids.used = 0;
        let second = [ids.fresh(), ids.fresh(), ids.fresh()];
        assert_eq!(first, second[..2]);
        assert!(!first.contains(&second[2]) && first[0] != first[1]);
    }

    #[tokio::test(start_paused = true)]
    async fn attempts_are_bounded_and_end_with_the_conflict() {
        for policy in [RetryPolicy::COMMAND, RetryPolicy::STOP, RetryPolicy::EVENT] {
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
