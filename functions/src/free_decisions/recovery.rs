//! The recovery of an agent of a project after a crash (S2, "Crash recovery"): a retry of its session, or a new session. Neither passes a
//! brake: both wait for a slot of the pool. Like a retry by hand, both need room for a sidecar, except a new session that waits.

use std::sync::Arc;

use pilothouse_app::App;
use pilothouse_app::http::Problem;
use pilothouse_app::session_start::StartRoom;
use pilothouse_domain::decision::{Decision, Recovery, Resolution};
use pilothouse_domain::journal::Cause;
use pilothouse_domain::pool::Allocation;
use pilothouse_domain::project::ProjectError;
use pilothouse_domain::{DomainContext, Project, ProjectAgent, SessionChain};
use pilothouse_store::{Commit, LoadedAggregate, LoadedConversation, LoadedPool, WorkerKey};

#[derive(Debug, Clone)]
pub(super) struct RecoveryState {
    failed: LoadedConversation,
    /// The chain of the session.
    chain: Option<LoadedAggregate<SessionChain>>,
    agent: LoadedAggregate<ProjectAgent>,
    project: LoadedAggregate<Project>,
    /// Whether the spending cap of the project refuses another session.
    is_spent: bool,
    pool: LoadedPool,
    /// The worker that has the folders of the session.
    home: Option<WorkerKey>,
    /// The room for the sidecar of the next run, which is reserved once it is known that a run follows.
    room: Arc<StartRoom>,
}

impl RecoveryState {
    pub(super) async fn load(app: &App, decision: &Decision, room: Arc<StartRoom>) -> Result<Self, Problem> {
        let missing = || Problem::internal("the session or the agent of a decision is missing");
        let (session, membership) =
            decision.session_id().zip(decision.project.as_ref()).ok_or_else(missing)?;
        let agent = app.store.any_aggregate::<ProjectAgent>(membership.agent_id).await?;
        let project = app.store.any_aggregate::<Project>(membership.project_id).await?;
        let failed = app.store.conversation(session).await?;
        let ((agent, project), failed) = agent.zip(project).zip(failed).ok_or_else(missing)?;
        let chain = match failed.conversation.session.chain_id() {
            Some(id) => app.store.any_aggregate::<SessionChain>(id).await?,
            None => None,
        };
        let is_spent = match app.ensure_covers_start(&project.value).await {
            Ok(()) => false,
            Err(Problem::Project(_)) => true,
            Err(other) => return Err(other),
        };
        let pool = app.store.pool(&decision.owner_id).await?;
        let home = app.store.session_worker(session).await?;
        Ok(Self { failed, chain, agent, project, is_spent, pool, home, room })
    }

    pub(super) fn recover(
        self,
        app: &App,
        cause: &Cause,
        resolution: &Resolution,
        commit: &mut Commit,
        ctx: &mut DomainContext<'_>,
    ) -> Result<(), Problem> {
        let Resolution::ChooseOption { chosen_option_id, .. } = resolution else {
            return Err(Problem::internal("a recovery without a choice"));
        };
        match Recovery::of_option(chosen_option_id) {
            Some(Recovery::Resume) => self.resume(app, cause, commit, ctx),
            Some(Recovery::Restart) => self.restart(app, cause, commit, ctx),
            Some(Recovery::Abandon) => Ok(()),
            None => Err(Problem::internal(format!("{chosen_option_id} is no recovery"))),
        }
    }

    fn resume(
        mut self,
        app: &App,
        cause: &Cause,
        commit: &mut Commit,
        ctx: &mut DomainContext<'_>,
    ) -> Result<(), Problem> {
        self.project.value.ensure_open()?;
        let retried = self.failed.conversation.session.retry(None, false, ctx)?;
        self.room.reserve(app)?;
        let events = app.with_consequences(&mut self.failed.conversation, retried, ctx);
        app.record(commit, &mut self.failed, cause.clone(), events)
    }

    fn restart(
        mut self,
        app: &App,
        cause: &Cause,
        commit: &mut Commit,
        ctx: &mut DomainContext<'_>,
    ) -> Result<(), Problem> {
        self.project.value.ensure_open()?;
        if let Some(cap) = self.project.value.definition().spending_cap.filter(|_| self.is_spent) {
            return Err(ProjectError::SpendingCapReached { cap: cap.usd() }.into());
        }
        let guardrails = self.agent.value.brief().input_guardrails();
        let mut restart = self.failed.conversation.restart(guardrails, ctx)?;
        let failed = &self.failed.conversation.session;
        if let Some(mut chain) = self.chain.filter(|chain| chain.value.continues_with_restart_of(failed)) {
            let of_chain = chain.value.admit_restart(&mut restart, failed, ctx)?;
            app.record_aggregate(commit, &chain, cause.clone(), of_chain)?;
        }
        let mut new = LoadedConversation::new(restart.new);
        let (before, id) = (self.failed.conversation.session.id(), new.conversation.session.id());
        self.pool.value.follow(before, id);
        let (allocation, allocated) = self.pool.value.allocate(&mut new.conversation.session, ctx)?;
        if allocation != Allocation::Waits {
            self.room.reserve(app)?;
        }
        let mut of_new = app.with_consequences(&mut new.conversation, restart.of_new, ctx);
        of_new.extend(allocated);
        let of_agent = self.agent.value.continue_in(id, ctx);
        app.record(commit, &mut self.failed, cause.clone(), restart.of_failed)?;
        app.record(commit, &mut new, cause.clone(), of_new)?;
        app.record_aggregate(commit, &self.agent, cause.clone(), of_agent)?;
        commit.pool(self.agent.value.owner_id(), &self.pool)?;
        if let Some(worker) = self.home {
            // The new session works in the directory on that worker (decision 23).
            commit.record_session_worker(id, &worker)?;
        }
        Ok(())
    }
}
