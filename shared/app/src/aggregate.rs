//! Creates and changes aggregates other than sessions: chains, skills, templates. Like [`crate::command`] for sessions, it handles
//! ownership, `If-Match`, `Idempotency-Key`, the journal entry and the bounded retry.

use pilothouse_api::Page;
use pilothouse_domain::journal::Cause;
use pilothouse_domain::{Aggregate, AggregateJournalEntry, DomainContext, Events, UserId};
use pilothouse_store::{Commit, CommitError, LoadedAggregate, Store, layout};

use crate::command::{CommandContext, CommandResponse};
use crate::http::{PageRequest, Problem};
use crate::paging::Scope;
use crate::trace;
use crate::{App, FreshIds, METRICS};

/// The maximum number of attempts after a write conflict.
const TRIES: u32 = 24;
/// The most pages of the index that one request reads.
const READS: usize = 5;

impl App {
    /// Creates an aggregate. `make` may run several times. `show` receives the aggregate with its version.
    ///
    /// # Errors
    /// The error of `make`, or [`Problem::NameTaken`] when another aggregate of the owner has the name.
    pub async fn create_aggregate<A: Aggregate>(
        &self,
        command: &CommandContext,
        mut make: impl FnMut(&mut DomainContext<'_>) -> Result<(A, Events), Problem>,
        show: impl Fn(&A, u64) -> Result<CommandResponse, Problem>,
    ) -> Result<CommandResponse, Problem> {
        for attempt in 0..TRIES {
            if let Some(answer) = command.earlier_response(&self.store).await? {
                return Ok(answer);
            }
            let mut ids = FreshIds;
            let (aggregate, events) = make(&mut self.domain_context(&mut ids))?;
            let loaded = LoadedAggregate::new(aggregate);
            let answer = show(&loaded.value, loaded.next_version())?;
            if let Some(answer) = self.commit_aggregate(command, &loaded, events, answer).await? {
                return Ok(answer);
            }
            tokio::time::sleep(Store::backoff(attempt, rand::random())).await;
        }
        Err(Problem::VersionConflict)
    }

    /// Changes an aggregate by one domain call. `decide` may run several times, so it must depend only on its arguments.
    ///
    /// # Errors
    /// The error of `decide`, or [`Problem::NotFound`] when the aggregate does not exist or belongs to another owner.
    pub async fn change_aggregate<A: Aggregate>(
        &self,
        command: &CommandContext,
        id: A::Id,
        mut decide: impl FnMut(&mut A, &mut DomainContext<'_>) -> Result<Events, Problem>,
        show: impl Fn(&A, u64) -> Result<CommandResponse, Problem>,
    ) -> Result<CommandResponse, Problem> {
        for attempt in 0..TRIES {
            if let Some(answer) = command.earlier_response(&self.store).await? {
                return Ok(answer);
            }
            let mut loaded = self.load_aggregate::<A>(command, id).await?;
            command.check_version(loaded.version)?;
            let mut ids = FreshIds;
            let events = match decide(&mut loaded.value, &mut self.domain_context(&mut ids)) {
                Ok(events) => events,
                // A concurrent duplicate of the request may be the reason for the refusal.
                Err(refusal) => return command.earlier_response(&self.store).await?.ok_or(refusal),
            };
            if events.is_empty() && !command.has_idempotency_key() {
                return show(&loaded.value, loaded.version);
            }
            let answer = show(&loaded.value, loaded.next_version())?;
            if let Some(answer) = self.commit_aggregate(command, &loaded, events, answer).await? {
                return Ok(answer);
            }
            tokio::time::sleep(Store::backoff(attempt, rand::random())).await;
        }
        Err(Problem::VersionConflict)
    }

    /// Loads an aggregate of the caller.
    ///
    /// # Errors
    /// [`Problem::NotFound`] when the aggregate does not exist or belongs to another owner.
    pub async fn load_aggregate<A: Aggregate>(
        &self,
        command: &CommandContext,
        id: A::Id,
    ) -> Result<LoadedAggregate<A>, Problem> {
        let loaded = self.store.aggregate::<A>(&command.owner, id).await?;
        loaded.ok_or_else(|| Problem::NotFound(format!("there is no such {}", A::KIND)))
    }

    /// Returns a page of the owner's aggregates of one kind that `keep` accepts. The page may be short although more follow,
    /// because the number of reads per request is bounded.
    ///
    /// # Errors
    /// The cursor belongs to another list or filter.
    pub async fn page_of_aggregates<A: Aggregate, V>(
        &self,
        owner: &UserId,
        page: &PageRequest,
        filter: &str,
        descending: bool,
        keep: impl Fn(&A) -> bool,
        view: impl Fn(&A) -> V,
    ) -> Result<Page<V>, Problem> {
        let scope = Scope::new(A::KIND, layout::aggregate_partition(owner, A::KIND)).filtered(filter);
        let mut after = scope.decode(page)?;
        let mut items = Vec::new();
        for _ in 0..READS {
            // Never more than fit on the page, so that the cursor is the position of the last item that was examined.
            let wanted = page.limit - items.len();
            let listing = self.store.list_aggregates::<A>(owner, descending, wanted, after).await?;
            items.extend(listing.items.iter().filter(|it| keep(it)).map(&view));
            after = listing.next;
            if after.is_none() || items.len() >= page.limit {
                break;
            }
        }
        Ok(Page { items, next_cursor: after.map(|position| scope.encode(&position)) })
    }

    /// Commits an aggregate with its response. Returns `None` after a write conflict.
    async fn commit_aggregate<A: Aggregate>(
        &self,
        command: &CommandContext,
        loaded: &LoadedAggregate<A>,
        events: Events,
        answer: CommandResponse,
    ) -> Result<Option<CommandResponse>, Problem> {
        let mut commit = Commit::new();
        self.record_aggregate(
            &mut commit,
            loaded,
            Cause::Owner { function: command.function.to_owned() },
            events,
        )?;
        command.store_response(&mut commit, &answer, self)?;
        match self.store.commit(commit).await {
            Ok(()) => {
                tracing::trace!(target: METRICS, commands = 1_u64);
                Ok(Some(answer))
            }
            Err(CommitError::Conflict | CommitError::ResponseExists) => {
                tracing::trace!(target: METRICS, conflicts = 1_u64);
                Ok(None)
            }
            // A concurrent duplicate of the request may have taken the name.
            Err(CommitError::NameTaken) => {
                let earlier = command.earlier_response(&self.store).await?;
                earlier.map(Some).ok_or(Problem::NameTaken)
            }
            Err(other) => Err(other.into()),
        }
    }

    /// Adds a changed aggregate to a commit, with one journal entry for `events`.
    ///
    /// # Errors
    /// [`Problem::Internal`] when it cannot be serialized to JSON.
    pub fn record_aggregate<A: Aggregate>(
        &self,
        commit: &mut Commit,
        loaded: &LoadedAggregate<A>,
        cause: Cause,
        events: Events,
    ) -> Result<(), Problem> {
        let mut ids = FreshIds;
        let mut ctx = self.domain_context(&mut ids);
        let entry = AggregateJournalEntry {
            id: ctx.event_id(),
            kind: A::KIND.to_owned(),
            aggregate_id: loaded.value.id().to_string(),
            owner_id: loaded.value.owner_id().clone(),
            sequence: loaded.next_version(),
            at: ctx.now,
            cause,
            events,
            traceparent: trace::here(),
        };
        Ok(commit.aggregate(loaded, &entry)?)
    }
}
