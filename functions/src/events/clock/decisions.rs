//! Due deadlines of free decisions (decision 81): the grace period of orphaned decisions, and recoveries without a person.

use std::sync::Arc;

use futures_util::future::join_all;
use pilothouse_app::App;
use pilothouse_app::http::Problem;
use pilothouse_app::session_start::StartRoom;
use pilothouse_app::unit_of_work::{Decision, RetryPolicy};
use pilothouse_domain::decision::{
    FreeDecision, FreeDecisionError, FreeStatus, OrphanAction, Recovery, Resolution, ResolvedBy,
};
use pilothouse_domain::escalation::BlockedInput;
use pilothouse_domain::journal::Cause;
use pilothouse_domain::project::AgentStatus;
use pilothouse_domain::session::SessionError;
use pilothouse_domain::{
    AgentSession, AgentSessionId, DecisionId, DomainContext, Project, ProjectAgent, ProjectAgentId,
};
use pilothouse_store::{Commit, Loaded};

use crate::free_decisions::{FreeState, Recipient};

/// The most agents that are read at the same time.
const CONCURRENT_AGENTS: usize = 16;

/// What a due decision depends on.
enum DueState {
    /// It is over, or not due any more.
    Nothing,
    Orphan {
        decision: Box<Loaded<FreeDecision>>,
        project: Box<Project>,
        /// The agent that can take the decision over.
        replacement: Option<(ProjectAgentId, Box<Recipient>)>,
    },
    Recovery(Box<FreeState>, Recovery),
}

/// What a step did.
#[derive(Default)]
struct Step {
    has_changed: bool,
    /// The session whose agent could not start again, because a guardrail refuses its objective.
    blocked: Option<(AgentSessionId, BlockedInput)>,
}

impl Step {
    const CHANGED: Self = Self { has_changed: true, blocked: None };
}

/// Processes the due deadline of a free decision.
///
/// # Errors
/// [`Problem::VersionConflict`] after too many write conflicts, and errors of the store.
pub(super) async fn carry_out(app: &App, id: DecisionId) -> Result<(), Problem> {
    // The policy that starts a grace period of no length ends it, too.
    while step(app, id).await? {}
    Ok(())
}

/// Returns whether the decision changed.
async fn step(app: &App, id: DecisionId) -> Result<bool, Problem> {
    let room = Arc::new(StartRoom::default());
    let load = async || DueState::load(app, id, &room).await;
    let decide = |state: DueState, ctx: &mut DomainContext<'_>| match state {
        DueState::Nothing => Ok(Decision::Unchanged(Step::default())),
        DueState::Orphan { decision, project, replacement } => {
            let commit = follow_policy(app, *decision, &project, replacement, ctx)?;
            Ok(Decision::Commit(commit, Step::CHANGED))
        }
        DueState::Recovery(state, preferred) => match recover(app, &state, preferred, ctx) {
            // The end of the process comes first. The deadline stays due.
            Err(Problem::Session(SessionError::ProcessStopping)) => Ok(Decision::Unchanged(Step::default())),
            recovered => {
                let (commit, blocked) = recovered?;
                Ok(Decision::Commit(commit, Step { has_changed: true, blocked }))
            }
        },
    };
    let step: Step = app.unit_of_work().run(RetryPolicy::EVENT, load, decide).await?;
    if let Some((session, blocked)) = step.blocked {
        app.record_blocked_input(session, &Cause::Clock, &blocked, None).await?;
    }
    Ok(step.has_changed)
}

impl DueState {
    async fn load(app: &App, id: DecisionId, room: &Arc<StartRoom>) -> Result<Self, Problem> {
        let Some(decision) = app.store.free_decision(id).await? else { return Ok(Self::Nothing) };
        if decision.value.decision().due_at().is_none_or(|at| at > app.now()) {
            return Ok(Self::Nothing);
        }
        if let Some(recovery) = decision.value.automatic_recovery() {
            return Ok(Self::Recovery(Box::new(FreeState::load(app, decision, room).await?), recovery));
        }
        let Some(membership) = decision.value.decision().project.clone() else { return Ok(Self::Nothing) };
        let project = app.store.any_aggregate::<Project>(membership.project_id).await?;
        let project = project.ok_or_else(|| Problem::internal("the project of a decision is missing"))?;
        let replacement = match decision.value.action_after_grace() {
            Some(OrphanAction::Reassign) => replacement(app, &project.value, membership.agent_id).await?,
            _ => None,
        };
        let (decision, project) = (Box::new(decision), Box::new(project.value));
        Ok(Self::Orphan { decision, project, replacement })
    }
}

fn follow_policy(
    app: &App,
    mut decision: Loaded<FreeDecision>,
    project: &Project,
    replacement: Option<(ProjectAgentId, Box<Recipient>)>,
    ctx: &mut DomainContext<'_>,
) -> Result<Commit, Problem> {
    let mut commit = Commit::new();
    let orphan = decision.value.decision().clone();
    let followed = match (decision.value.status(), replacement) {
        (FreeStatus::Orphaned, _) => decision.value.begin_grace(&project.orphan_policy()),
        (_, Some((agent, recipient))) => {
            let takes_over = recipient.change(app, &Cause::Clock, &mut commit, ctx, |it, ctx| {
                it.conversation.take_over(&orphan, ctx)
            })?;
            decision.value.end_grace(takes_over.then_some(agent), ctx.now)
        }
        (_, None) => decision.value.end_grace(None, ctx.now),
    };
    followed.map_err(|error: FreeDecisionError| Problem::internal(error))?;
    commit.free_decision(&decision)?;
    Ok(commit)
}

/// Another agent with the same role and workstream that works.
async fn replacement(
    app: &App,
    project: &Project,
    of: ProjectAgentId,
) -> Result<Option<(ProjectAgentId, Box<Recipient>)>, Problem> {
    let Some(gone) = app.store.any_aggregate::<ProjectAgent>(of).await? else { return Ok(None) };
    let workstream = &gone.value.brief().workstream;
    let others: Vec<_> = project
        .agents()
        .iter()
        .filter(|(id, owned)| **id != of && *owned == workstream)
        .map(|(id, _)| *id)
        .collect();
    for some in others.chunks(CONCURRENT_AGENTS) {
        let agents = join_all(some.iter().map(|id| app.store.any_aggregate::<ProjectAgent>(*id))).await;
        for agent in agents {
            let Some(agent) = agent?.filter(|it| it.value.brief().role == gone.value.brief().role) else {
                continue;
            };
            let recipient = Recipient::load(app, agent.value.id()).await?;
            if let Some(recipient) = recipient.filter(|it| works(&it.loaded.conversation.session)) {
                return Ok(Some((agent.value.id(), Box::new(recipient))));
            }
        }
    }
    Ok(None)
}

fn works(session: &AgentSession) -> bool {
    AgentStatus::of(session).advances_ticks() && !session.is_held()
}

/// Recovers the agent. If its session cannot be retried, it starts again; if that is refused, too, a person decides. A server without room
/// for another sidecar refuses neither, and a process that is being stopped only delays a restart: the deadline stays due. Also returns
/// why the objective was refused, if it was.
fn recover(
    app: &App,
    state: &FreeState,
    preferred: Recovery,
    ctx: &mut DomainContext<'_>,
) -> Result<(Commit, Option<(AgentSessionId, BlockedInput)>), Problem> {
    let mut blocked = None;
    let other = if preferred == Recovery::Resume { Recovery::Restart } else { Recovery::Resume };
    for recovery in [preferred, other] {
        let resolution = Resolution::ChooseOption { chosen_option_id: recovery.to_string(), rationale: None };
        match state.clone().resolve(app, &Cause::Clock, resolution, ResolvedBy::RecoveryPolicy, ctx) {
            Ok((commit, _)) => return Ok((commit, blocked)),
            Err(early @ Problem::Session(SessionError::ProcessStopping)) => return Err(early),
            Err(Problem::Session(SessionError::InputBlocked(refused))) => {
                let session = state.decision.value.decision().session_id();
                blocked = session.map(|session| (session, refused));
            }
            Err(refused) if refused.status().is_client_error() => {
                tracing::info!(decision = %state.decision.value.decision().id, %recovery, %refused, "not recovered");
            }
            Err(other) => return Err(other),
        }
    }
    let mut decision = state.decision.clone();
    decision.value.leave_to_person();
    let mut commit = Commit::new();
    commit.free_decision(&decision)?;
    Ok((commit, blocked))
}
