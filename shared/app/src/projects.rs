//! Reads that several functions share: projects of an owner with their agents, the open decisions, and journals of sessions.

use futures_util::future::try_join_all;
use pilothouse_api::projects::{AgentView, SpendingView};
use pilothouse_domain::brake::BrakeScope;
use pilothouse_domain::decision::Decision;
use pilothouse_domain::journal::JournalEntry;
use pilothouse_domain::{
    AgentSession, AgentSessionId, Project, ProjectAccount, ProjectAgent, ProjectAgentId, ProjectId, UserId,
};
use pilothouse_store::LoadedAggregate;

use crate::App;
use crate::http::Problem;

/// The most agents that are read at the same time.
pub const CONCURRENT_READS: usize = 16;
/// How many pages of an owner's inbox are searched for decisions of projects.
const DECISION_PAGES: usize = 5;
const DECISIONS: usize = 200;

impl App {
    /// The agents of a project with their current sessions, oldest first. An agent is read before its session: if it moves to another
    /// session meanwhile, its journal says so.
    ///
    /// # Errors
    /// [`Problem`] when the store fails.
    pub async fn agents_of(
        &self,
        project: &Project,
    ) -> Result<Vec<(LoadedAggregate<ProjectAgent>, AgentSession)>, Problem> {
        let ids: Vec<_> = project.agents().keys().copied().collect();
        let mut agents = Vec::with_capacity(ids.len());
        for some in ids.chunks(CONCURRENT_READS) {
            let some = try_join_all(some.iter().map(|id| self.agent_with_session(project.owner_id(), *id)));
            agents.extend(some.await?.into_iter().flatten());
        }
        Ok(agents)
    }

    async fn agent_with_session(
        &self,
        owner: &UserId,
        id: ProjectAgentId,
    ) -> Result<Option<(LoadedAggregate<ProjectAgent>, AgentSession)>, Problem> {
        let Some(agent) = self.store.aggregate::<ProjectAgent>(owner, id).await? else { return Ok(None) };
        let session = self.store.session(agent.value.current_session_id()).await?;
        Ok(session.map(|session| (agent, session)))
    }

    /// Passes the first 1,000 decisions of an owner's inbox to `each`, in their order. Returns whether the inbox has more.
    ///
    /// # Errors
    /// [`Problem`] when the store fails.
    pub async fn first_open_decisions(
        &self,
        owner: &UserId,
        mut each: impl FnMut(Decision),
    ) -> Result<bool, Problem> {
        let mut after = None;
        for _ in 0..DECISION_PAGES {
            let listing = self.store.open_decisions(owner, DECISIONS, after).await?;
            listing.items.into_iter().for_each(&mut each);
            after = listing.next;
            if after.is_none() {
                break;
            }
        }
        Ok(after.is_some())
    }

    /// Finds the last entry of a session's journal up to which `is_before` holds, by binary search; 0 if there is none. Expired entries
    /// count as earlier.
    ///
    /// # Errors
    /// [`Problem`] when the store fails.
    pub async fn last_entry_while(
        &self,
        session: &AgentSession,
        is_before: impl Fn(&JournalEntry) -> bool,
    ) -> Result<u64, Problem> {
        let (mut low, mut high) = (0, session.journal_sequence());
        // `is_before` holds up to `low`. It does not hold after `high`, or there are no entries.
        while low < high {
            let middle = low + (high - low) / 2;
            match self.store.journal(session.id(), middle, 1).await?.first() {
                Some(entry) if is_before(entry) => low = entry.sequence,
                _ => high = middle,
            }
        }
        Ok(low)
    }

    /// Loads the project that a request names, or the owner's only project (decision 71).
    ///
    /// # Errors
    /// [`Problem::Invalid`] when the owner has no such project, or does not name one of several.
    pub async fn chosen_project(
        &self,
        owner: &UserId,
        id: Option<ProjectId>,
    ) -> Result<LoadedAggregate<Project>, Problem> {
        let id = match id {
            Some(id) => id,
            None => self.only_project(owner).await?,
        };
        let project = self.store.aggregate::<Project>(owner, id).await?;
        project.ok_or_else(|| Problem::invalid("projectId", "there is no such project"))
    }

    async fn only_project(&self, owner: &UserId) -> Result<ProjectId, Problem> {
        let projects = self.store.list_aggregates::<Project>(owner, false, 2, None).await?.items;
        match &projects[..] {
            [project] => Ok(project.id()),
            [] => Err(Problem::invalid("projectId", "you have no project; create one first")),
            _ => Err(Problem::invalid("projectId", "is required, because you have several projects")),
        }
    }

    /// What the agents of a project have drawn from its spending cap; `None` without a cap.
    ///
    /// # Errors
    /// [`Problem`] when the store fails.
    pub async fn spending(&self, project: &Project) -> Result<Option<SpendingView>, Problem> {
        if project.definition().spending_cap.is_none() {
            return Ok(None);
        }
        let Some(account) = self.store.any_aggregate::<ProjectAccount>(project.id()).await? else {
            return Ok(None);
        };
        let brakes = self.store.brakes(project.owner_id()).await?;
        Ok(Some(SpendingView::of(&account.value, |id| brakes.has(id))))
    }

    /// Refuses the start of an agent in a project whose spending cap is reached.
    ///
    /// # Errors
    /// [`pilothouse_domain::project::ProjectError::SpendingCapReached`].
    pub async fn ensure_covers_start(&self, project: &Project) -> Result<(), Problem> {
        let Some(cap) = project.definition().spending_cap else { return Ok(()) };
        match self.store.any_aggregate::<ProjectAccount>(project.id()).await? {
            Some(account) => Ok(account.value.ensure_covers_start(cap)?),
            None => Ok(()),
        }
    }

    /// Loads an agent of `owner` with its current session.
    ///
    /// # Errors
    /// [`Problem::NotFound`] when the agent does not exist or belongs to another owner.
    pub async fn agent_view(&self, owner: &UserId, id: ProjectAgentId) -> Result<AgentView, Problem> {
        let agent = self.store.aggregate::<ProjectAgent>(owner, id).await?.ok_or_else(Problem::no_agent)?;
        let session = self.session_of(owner, agent.value.current_session_id()).await?;
        Ok(AgentView::of(&agent.value, &session, agent.version))
    }
}

/// Whether a brake may stop an agent of the project. `has_session` says whether the project has the session of a brake on one.
pub fn brake_concerns(
    scope: &BrakeScope,
    project: &Project,
    has_session: impl Fn(AgentSessionId) -> bool,
) -> bool {
    match scope {
        BrakeScope::All {} => true,
        BrakeScope::Project { project_id } | BrakeScope::Workstream { project_id, .. } => {
            *project_id == project.id()
        }
        BrakeScope::Agent { agent_id } => project.agents().contains_key(agent_id),
        BrakeScope::Session { session_id } => has_session(*session_id),
    }
}
