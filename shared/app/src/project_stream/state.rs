//! The state of a project, and its place in the stream.

use pilothouse_api::brakes::BrakeSummary;
use pilothouse_api::decisions::DecisionView;
use pilothouse_api::project_stream::{
    AgentHandle, ProjectPosition, ProjectState, SessionPosition, TrustScore,
};
use pilothouse_api::projects::ProjectView;
use pilothouse_api::trust::TickView;
use pilothouse_domain::brake::BrakeScope;
use pilothouse_domain::decision::DecisionStatus;
use pilothouse_domain::value::ProjectMembership;
use pilothouse_domain::{AgentSessionId, Brake, Project, ProjectAgentId, ProjectId, UserId};

use crate::App;
use crate::problem::Problem;
use crate::projects::brake_concerns;

impl App {
    /// The state of a project of `owner`, with the position in its stream from which all later changes follow.
    ///
    /// # Errors
    /// [`Problem::NotFound`] if the owner has no such project.
    pub async fn project_state(
        &self,
        owner: &UserId,
        id: ProjectId,
    ) -> Result<(ProjectState, ProjectPosition), Problem> {
        self.store.aggregate::<Project>(owner, id).await?.ok_or_else(Problem::no_project)?;
        let time = self.project_time(id).await?.ok_or_else(Problem::no_project)?;
        let (project, now) = (&time.project.value, self.now());
        let (clock, definition) = (time.clock(now)?, project.definition());
        let tick = clock.at(now);
        let mut position = ProjectPosition::new(id, time.project.version);
        let (mut active_agents, mut trust_scores) = (Vec::new(), Vec::new());
        for (agent, session) in self.agents_of(project).await? {
            let (agent, version) = (&agent.value, agent.version);
            position.agents.insert(agent.id(), version);
            let sequence = session.journal_sequence();
            position.sessions.insert(session.id(), SessionPosition { agent: agent.id(), sequence });
            active_agents.push(AgentHandle::of(agent, &session));
            let score = agent.trust_under(&definition.trust, tick).score(tick, &definition.trust);
            trust_scores.push(TrustScore { agent_id: agent.id(), score: score.rounded() });
        }
        let mut brakes = Vec::new();
        let in_force = self.store.brakes(owner).await?;
        for brake in in_force.iter() {
            if concerns(&brake.scope, project, &position)
                && let Some(loaded) = self.store.aggregate::<Brake>(owner, brake.id).await?
            {
                position.brakes.insert(brake.id, loaded.version);
                brakes.push(BrakeSummary::of(&loaded.value));
            }
        }
        let (pending_decisions, more_decisions) = self.pending_decisions_of(owner, id).await?;
        let spending = self.spending(project).await?;
        let state = ProjectState {
            control_mode: project.control_mode().mode(),
            control_mode_revision: project.control_mode().revision(),
            project: ProjectView { spending, ..ProjectView::of(project, time.project.version) },
            active_agents,
            trust_scores,
            pending_decisions,
            more_decisions,
            brakes,
            tick: TickView::of(id, &clock, now),
        };
        Ok((state, position))
    }

    /// The pending decisions of a project, and whether there may be more.
    async fn pending_decisions_of(
        &self,
        owner: &UserId,
        id: ProjectId,
    ) -> Result<(Vec<DecisionView>, bool), Problem> {
        let mut pending = Vec::new();
        let has_more = self.first_open_decisions(owner, |decision| {
            if decision.status() == DecisionStatus::Pending && decision.project_id() == Some(id) {
                pending.push(DecisionView::of(&decision));
            }
        });
        let has_more = has_more.await?;
        Ok((pending, has_more))
    }
}

/// Whether a brake may stop an agent of the project.
pub(super) fn concerns(scope: &BrakeScope, project: &Project, position: &ProjectPosition) -> bool {
    brake_concerns(scope, project, |session| position.sessions.contains_key(&session))
}

/// The agents of the project with a session that `is_affected`.
pub(super) fn agents_where(
    project: &Project,
    position: &ProjectPosition,
    is_affected: impl Fn(AgentSessionId, &ProjectMembership) -> bool,
) -> Vec<ProjectAgentId> {
    let affected = |agent_id: ProjectAgentId| {
        let workstream = project.agents().get(&agent_id)?.clone();
        let of = ProjectMembership { project_id: project.id(), agent_id, workstream };
        let mut sessions = position.sessions.iter().filter(|(_, at)| at.agent == agent_id);
        sessions.any(|(session, _)| is_affected(*session, &of)).then_some(agent_id)
    };
    project.agents().keys().copied().filter_map(affected).collect()
}
