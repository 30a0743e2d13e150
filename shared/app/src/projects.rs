//! Projects of an owner, and views of their agents.

use pilothouse_api::projects::{AgentView, SpendingView};
use pilothouse_domain::output_schema::OutputSchema;
use pilothouse_domain::value::ProjectMembership;
use pilothouse_domain::{Project, ProjectAccount, ProjectAgent, ProjectAgentId, ProjectId, UserId};
use pilothouse_store::LoadedAggregate;

use crate::App;
use crate::http::Problem;

impl App {
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

    /// The schema that the result of a session has to match; `None` without a project, or if the brief has none.
    ///
    /// # Errors
    /// [`Problem`] when the store fails.
    pub async fn output_schema(
        &self,
        owner: &UserId,
        project: Option<&ProjectMembership>,
    ) -> Result<Option<OutputSchema>, Problem> {
        let Some(membership) = project else { return Ok(None) };
        let agent = self.store.aggregate::<ProjectAgent>(owner, membership.agent_id).await?;
        Ok(agent.and_then(|agent| agent.value.brief().output_schema.clone()))
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
