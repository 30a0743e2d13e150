//! Creating and changing aggregates of an owner beside sessions: chains, skills, templates. What [`crate::change`] is for
//! sessions, this is for them: ownership, `If-Match`, `Idempotency-Key`, the journal entry, the bounded retry.

use pilothouse_domain::journal::Cause;
use pilothouse_domain::{Events, Occasion, OwnedAggregate, OwnedEntry, UserId};
use pilothouse_store::{Commit, CommitError, LoadedOwned, Store, layout};

use crate::api::Page;
use crate::app::{App, FreshIds, METRICS};
use crate::change::{Answer, Call};
use crate::edge::{PageRequest, Problem};
use crate::records::paging::Scope;
use crate::trace;

/// How often a lost race is run again before the caller is told.
const TRIES: u32 = 24;
/// Pages of the index that one request reads, at most.
const READS: usize = 5;

impl App {
    /// Creates an aggregate. `make` may run several times; `show` gets it with its version.
    ///
    /// # Errors
    /// What `make` refuses; [`Problem::NameTaken`] when another of the owner has its name.
    pub async fn create_owned<A: OwnedAggregate>(
        &self,
        call: &Call,
        mut make: impl FnMut(&mut Occasion<'_>) -> Result<(A, Events), Problem>,
        show: impl Fn(&A, u64) -> Result<Answer, Problem>,
    ) -> Result<Answer, Problem> {
        for attempt in 0..TRIES {
            if let Some(answer) = call.earlier_answer(&self.store).await? {
                return Ok(answer);
            }
            let mut ids = FreshIds;
            let (aggregate, events) = make(&mut self.occasion(&mut ids))?;
            let loaded = LoadedOwned::new(aggregate);
            let answer = show(&loaded.value, loaded.next_version())?;
            if let Some(answer) = self.commit_owned(call, &loaded, events, answer).await? {
                return Ok(answer);
            }
            tokio::time::sleep(Store::backoff(attempt, rand::random())).await;
        }
        Err(Problem::VersionConflict)
    }

    /// Changes an aggregate by one domain call. `decide` may run several times: it must depend on its arguments alone.
    ///
    /// # Errors
    /// What `decide` refuses; [`Problem::NotFound`] when it is not there or another owner's.
    pub async fn change_owned<A: OwnedAggregate>(
        &self,
        call: &Call,
        id: A::Id,
        mut decide: impl FnMut(&mut A, &mut Occasion<'_>) -> Result<Events, Problem>,
        show: impl Fn(&A, u64) -> Result<Answer, Problem>,
    ) -> Result<Answer, Problem> {
        for attempt in 0..TRIES {
            if let Some(answer) = call.earlier_answer(&self.store).await? {
                return Ok(answer);
            }
            let mut loaded = self.owned_of::<A>(call, id).await?;
            call.check(loaded.version)?;
            let mut ids = FreshIds;
            let events = match decide(&mut loaded.value, &mut self.occasion(&mut ids)) {
                Ok(events) => events,
                // The same request, sent twice at once: the first one may be why this one is refused.
                Err(refusal) => return call.earlier_answer(&self.store).await?.ok_or(refusal),
            };
            if events.is_empty() && !call.has_key() {
                return show(&loaded.value, loaded.version);
            }
            let answer = show(&loaded.value, loaded.next_version())?;
            if let Some(answer) = self.commit_owned(call, &loaded, events, answer).await? {
                return Ok(answer);
            }
            tokio::time::sleep(Store::backoff(attempt, rand::random())).await;
        }
        Err(Problem::VersionConflict)
    }

    /// An aggregate of the caller's.
    ///
    /// # Errors
    /// [`Problem::NotFound`] when it is not there or another owner's.
    pub async fn owned_of<A: OwnedAggregate>(
        &self,
        call: &Call,
        id: A::Id,
    ) -> Result<LoadedOwned<A>, Problem> {
        let loaded = self.store.owned::<A>(&call.owner, id).await?;
        loaded.ok_or_else(|| Problem::NotFound(format!("there is no such {}", A::KIND)))
    }

    /// A page of the owner's aggregates of one kind that `keep` keeps. It may be short although there are more: a rare
    /// filter costs a bounded amount a request.
    ///
    /// # Errors
    /// The cursor is of another list or filter.
    pub async fn page_of_owned<A: OwnedAggregate, V>(
        &self,
        owner: &UserId,
        page: &PageRequest,
        filter: &str,
        descending: bool,
        keep: impl Fn(&A) -> bool,
        view: impl Fn(&A) -> V,
    ) -> Result<Page<V>, Problem> {
        let scope = Scope::new(A::KIND, layout::owned_partition(owner, A::KIND)).filtered(filter);
        let mut after = scope.decode(page)?;
        let mut items = Vec::new();
        for _ in 0..READS {
            // Never past the page, so that the position is that of the last one that was looked at.
            let wanted = page.limit - items.len();
            let listing = self.store.list_owned::<A>(owner, descending, wanted, after).await?;
            items.extend(listing.items.iter().filter(|it| keep(it)).map(&view));
            after = listing.next;
            if after.is_none() || items.len() >= page.limit {
                break;
            }
        }
        Ok(Page { items, next_cursor: after.map(|position| scope.encode(&position)) })
    }

    /// Commits one aggregate with the answer. None when another change came first.
    async fn commit_owned<A: OwnedAggregate>(
        &self,
        call: &Call,
        loaded: &LoadedOwned<A>,
        events: Events,
        answer: Answer,
    ) -> Result<Option<Answer>, Problem> {
        let mut commit = Commit::new();
        self.record_owned(&mut commit, loaded, Cause::Owner { function: call.function.to_owned() }, events)?;
        call.keep_answer(&mut commit, &answer, self)?;
        match self.store.commit(commit).await {
            Ok(()) => {
                tracing::trace!(target: METRICS, commands = 1_u64);
                Ok(Some(answer))
            }
            Err(CommitError::Conflict | CommitError::AnswerExists) => {
                tracing::trace!(target: METRICS, conflicts = 1_u64);
                Ok(None)
            }
            // The same request, sent twice at once, takes the name from itself.
            Err(CommitError::NameTaken) => {
                let earlier = call.earlier_answer(&self.store).await?;
                earlier.map(Some).ok_or(Problem::NameTaken)
            }
            Err(other) => Err(other.into()),
        }
    }

    /// Puts a changed aggregate into a commit, with one journal entry for `events`.
    ///
    /// # Errors
    /// [`Problem::Internal`] when it cannot be written as JSON.
    pub fn record_owned<A: OwnedAggregate>(
        &self,
        commit: &mut Commit,
        loaded: &LoadedOwned<A>,
        cause: Cause,
        events: Events,
    ) -> Result<(), Problem> {
        let mut ids = FreshIds;
        let mut cx = self.occasion(&mut ids);
        let entry = OwnedEntry {
            id: cx.event_id(),
            kind: A::KIND.to_owned(),
            aggregate_id: loaded.value.id().to_string(),
            owner_id: loaded.value.owner_id().clone(),
            sequence: loaded.next_version(),
            at: cx.now,
            cause,
            events,
            traceparent: trace::here(),
        };
        Ok(commit.owned(loaded, &entry)?)
    }
}
