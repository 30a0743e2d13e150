//! Autonomy that an agent of a project proposes: a person grants or declines it (decision 68).

use pilothouse_app::App;
use pilothouse_app::http::Problem;
use pilothouse_domain::decision::{Decision, Resolution};
use pilothouse_domain::effect::ActionKind;
use pilothouse_domain::journal::Cause;
use pilothouse_domain::{DomainContext, ProjectAgent};
use pilothouse_store::{Commit, LoadedAggregate};

#[derive(Debug, Clone)]
pub(super) struct AutonomyState {
    agent: LoadedAggregate<ProjectAgent>,
    action_kind: ActionKind,
}

impl AutonomyState {
    pub(super) async fn load(
        app: &App,
        decision: &Decision,
        action_kind: ActionKind,
    ) -> Result<Self, Problem> {
        let missing = || Problem::internal("the agent of a decision is missing");
        let membership = decision.project.as_ref().ok_or_else(missing)?;
        let agent =
            app.store.any_aggregate::<ProjectAgent>(membership.agent_id).await?.ok_or_else(missing)?;
        Ok(Self { agent, action_kind })
    }

    pub(super) fn answer(
        mut self,
        app: &App,
        cause: &Cause,
        resolution: &Resolution,
        commit: &mut Commit,
        ctx: &DomainContext<'_>,
    ) -> Result<(), Problem> {
        let is_granted = matches!(resolution, Resolution::Approve { .. });
        let answered = self.agent.value.answer_proposal(self.action_kind, is_granted, ctx);
        // The commit that withdraws a proposal ends its decision.
        let events = answered.map_err(Problem::internal)?;
        app.record_aggregate(commit, &self.agent, cause.clone(), events)
    }
}
