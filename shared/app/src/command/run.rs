//! Runs a command as one unit of work, with its idempotency record.

use std::future::ready;

use pilothouse_domain::{DomainContext, IdSource};
use pilothouse_store::{Commit, CommitError};
use uuid::Uuid;

use super::context::CommandContext;
use super::response::CommandResponse;
use crate::problem::Problem;
use crate::unit_of_work::{Attempts, Decision, UnitOfWork};
use crate::{FreshIds, METRICS};

impl UnitOfWork<'_> {
    /// Runs a command. Its response is stored in the same transaction, also if nothing changes. A request that was answered before
    /// gets the stored response: it is read first, and again after a refusal, because a concurrent duplicate of the request may be
    /// the reason for it. Each attempt gets the same ids: if a commit whose outcome was lost has succeeded, the next attempt finds
    /// what it created, and a caller never sees an id of which nothing was committed.
    pub async fn run_command<S, F: Future<Output = Result<S, Problem>>>(
        self,
        command: &CommandContext,
        load: impl FnMut() -> F,
        decide: impl FnMut(S, &mut DomainContext<'_>) -> Result<Decision<CommandResponse>, Problem>,
    ) -> Result<CommandResponse, Problem> {
        self.run_command_storing(command, load, decide, || ready(Ok(()))).await
    }

    /// Like [`Self::run_command`]. `store_blobs` runs before each attempt to commit, so a refused command stores nothing, and the commit
    /// refers to contents that exist.
    pub async fn run_command_storing<S, F, B>(
        self,
        command: &CommandContext,
        mut load: impl FnMut() -> F,
        mut decide: impl FnMut(S, &mut DomainContext<'_>) -> Result<Decision<CommandResponse>, Problem>,
        mut store_blobs: impl FnMut() -> B,
    ) -> Result<CommandResponse, Problem>
    where
        F: Future<Output = Result<S, Problem>>,
        B: Future<Output = Result<(), Problem>>,
    {
        let store = self.store;
        let mut ids = RepeatedIds::default();
        let mut attempts = Attempts::new(command.retry_policy());
        let (mut may_be_stored, mut may_show_soon) = (true, command.has_idempotency_key());
        loop {
            let attempt = async {
                if std::mem::take(&mut may_be_stored)
                    && let Some(response) = command.earlier_response(store).await?
                {
                    return Ok(response);
                }
                let decided = match load().await {
                    Ok(state) => decide(state, &mut self.context(ids.again())),
                    Err(refusal) => Err(refusal),
                };
                let (mut commit, response) = match decided {
                    Ok(Decision::Commit(commit, response)) => {
                        store_blobs().await?;
                        (commit, response)
                    }
                    Ok(Decision::Unchanged(response)) if !command.has_idempotency_key() => {
                        return Ok(response);
                    }
                    Ok(Decision::Unchanged(response)) => (Commit::new(), response),
                    Err(refusal) => return command.earlier_response(store).await?.ok_or(refusal),
                };
                command.store_response(&mut commit, &response, self.now())?;
                match attempts.commit(store, commit).await {
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
            let result = attempt.await;
            if let Some(result) = attempts.finish(result).await {
                return result;
            }
        }
    }
}

/// Fresh ids for the first attempt, and the same ids for all others.
#[derive(Default)]
struct RepeatedIds {
    minted: Vec<Uuid>,
    used: usize,
}

impl RepeatedIds {
    /// The ids from the first one.
    const fn again(&mut self) -> &mut Self {
        self.used = 0;
        self
    }
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

#[test]
fn every_attempt_gets_the_same_ids() {
    let mut ids = RepeatedIds::default();
    let first = [ids.fresh(), ids.fresh()];
    ids.again();
    let second = [ids.fresh(), ids.fresh(), ids.fresh()];
    assert_eq!(first, second[..2]);
    assert!(!first.contains(&second[2]) && first[0] != first[1]);
}
