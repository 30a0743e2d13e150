//! Creates and changes aggregates other than sessions: chains, skills, templates. Like [`crate::command`] for sessions, it handles
//! ownership, `If-Match`, `Idempotency-Key` and the journal entry.

use std::sync::OnceLock;

use pilothouse_api::Page;
use pilothouse_domain::journal::{AggregateJournalEntry, Cause};
use pilothouse_domain::{Aggregate, DomainContext, UserId};
use pilothouse_store::{Commit, LoadedAggregate, layout};

use crate::command::{CommandContext, CommandResponse};
use crate::http::PageRequest;
use crate::paging::Scope;
use crate::problem::Problem;
use crate::trace;
use crate::unit_of_work::Decision;
use crate::{App, FreshIds};

impl App {
    /// Creates an aggregate. `make` may run several times. `show` receives the aggregate with its version.
    /// Fails with [`Problem::NameTaken`] when another aggregate of the owner has the name.
    pub async fn create_aggregate<A: Aggregate>(
        &self,
        command: &CommandContext,
        mut make: impl FnMut(&mut DomainContext<'_>) -> Result<(A, Vec<A::Event>), Problem>,
        show: impl Fn(&A, u64) -> Result<CommandResponse, Problem>,
    ) -> Result<CommandResponse, Problem> {
        let id = OnceLock::new();
        // A conflict may also mean that the last attempt was committed: all attempts create the aggregate under the same id.
        let load = async || match id.get() {
            Some(id) => Ok(self.store.aggregate::<A>(&command.owner, *id).await?),
            None => Ok(None),
        };
        let decide = |committed: Option<LoadedAggregate<A>>, ctx: &mut DomainContext<'_>| {
            if let Some(LoadedAggregate { value, version, .. }) = committed {
                return Ok(Decision::Unchanged(show(&value, version)?));
            }
            let (aggregate, events) = make(ctx)?;
            id.get_or_init(|| aggregate.id());
            self.decide_on_aggregate(command, &LoadedAggregate::new(aggregate), events, &show)
        };
        self.unit_of_work().run_command(command, load, decide).await
    }

    /// Changes an aggregate by one domain call. `decide` may run several times, so it must depend only on its arguments.
    /// Fails with [`Problem::NotFound`] when the aggregate does not exist or belongs to another owner.
    pub async fn change_aggregate<A: Aggregate>(
        &self,
        command: &CommandContext,
        id: A::Id,
        mut decide: impl FnMut(&mut A, &mut DomainContext<'_>) -> Result<Vec<A::Event>, Problem>,
        show: impl Fn(&A, u64) -> Result<CommandResponse, Problem>,
    ) -> Result<CommandResponse, Problem> {
        let load = async || self.load_aggregate::<A>(command, id).await;
        let decide = |mut loaded: LoadedAggregate<A>, ctx: &mut DomainContext<'_>| {
            command.check_version(loaded.version)?;
            let events = decide(&mut loaded.value, ctx)?;
            self.decide_on_aggregate(command, &loaded, events, &show)
        };
        self.unit_of_work().run_command(command, load, decide).await
    }

    fn decide_on_aggregate<A: Aggregate>(
        &self,
        command: &CommandContext,
        loaded: &LoadedAggregate<A>,
        events: Vec<A::Event>,
        show: impl Fn(&A, u64) -> Result<CommandResponse, Problem>,
    ) -> Result<Decision<CommandResponse>, Problem> {
        if events.is_empty() {
            return Ok(Decision::Unchanged(show(&loaded.value, loaded.version)?));
        }
        let response = show(&loaded.value, loaded.next_version())?;
        let mut commit = Commit::new();
        self.record_aggregate(&mut commit, loaded, command.cause(), events)?;
        Ok(Decision::Commit(commit, response))
    }

    /// Fails with [`Problem::NotFound`] when the aggregate does not exist or belongs to another owner.
    pub async fn load_aggregate<A: Aggregate>(
        &self,
        command: &CommandContext,
        id: A::Id,
    ) -> Result<LoadedAggregate<A>, Problem> {
        let loaded = self.store.aggregate::<A>(&command.owner, id).await?;
        loaded.ok_or_else(|| Problem::NotFound(format!("there is no such {}", A::KIND)))
    }

    /// Returns a page of the owner's aggregates of one kind that `keep` accepts. The page may be short although more follow,
    /// because the number of reads per request is bounded. Fails if the cursor belongs to another list or filter.
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
        let read = |limit, after| self.store.list_aggregates::<A>(owner, descending, limit, after);
        scope.read(page, read, |it| keep(&it).then(|| view(&it))).await
    }

    /// Adds a changed aggregate to a commit, with one journal entry for `events`.
    pub fn record_aggregate<A: Aggregate>(
        &self,
        commit: &mut Commit,
        loaded: &LoadedAggregate<A>,
        cause: Cause,
        events: Vec<A::Event>,
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
