//! The effects of free decisions (decision 81), for the function that resolves decisions and for the clock.
//!
//! A free decision and its effect are one commit: the release of a brake, the recovery of an agent, a grant of autonomy, or the message
//! to the agent that takes over. Each of them is guarded by its version, so that of two concurrent resolutions one is refused.

mod autonomy;
mod coherence;
pub(crate) mod crash;
mod handoff;
mod orphan;
mod recovery;

use std::sync::Arc;

use pilothouse_app::App;
use pilothouse_app::http::Problem;
use pilothouse_app::session_start::StartRoom;
use pilothouse_domain::brake::{Brake, ReleasedBy};
use pilothouse_domain::decision::{DecisionSubject, FreeDecision, FreeDecisionError, Resolution, ResolvedBy};
use pilothouse_domain::journal::Cause;
use pilothouse_domain::{Aggregate as _, DomainContext};
use pilothouse_store::{Commit, LineScope, Loaded, LoadedAggregate, LoadedPool};

use self::autonomy::AutonomyState;
use self::coherence::CoherenceState;
use self::handoff::HandoffState;
use self::orphan::OrphanState;
pub(crate) use self::orphan::Recipient;
use self::recovery::RecoveryState;

/// A free decision with what its resolution changes.
#[derive(Debug, Clone)]
pub(crate) struct FreeState {
    pub(crate) decision: Loaded<FreeDecision>,
    effect: Effect,
}

#[derive(Debug, Clone)]
enum Effect {
    Orphan(Box<OrphanState>),
    Brake { brake: Box<LoadedAggregate<Brake>>, pool: Box<LoadedPool> },
    Recovery(Box<RecoveryState>),
    Handoff(Box<HandoffState>),
    Autonomy(Box<AutonomyState>),
    Coherence(Box<CoherenceState>),
}

impl FreeState {
    /// All attempts of a unit of work share `room`.
    ///
    /// # Errors
    /// What the decision is about is missing, or the store fails.
    pub(crate) async fn load(
        app: &App,
        decision: Loaded<FreeDecision>,
        room: &Arc<StartRoom>,
    ) -> Result<Self, Problem> {
        let effect = match &decision.value.decision().subject {
            DecisionSubject::BrakeRelease { brake_id, .. } => {
                let brake = app.store.any_aggregate::<Brake>(*brake_id).await?;
                let brake = brake.ok_or_else(|| Problem::internal("the brake of a decision is missing"))?;
                let pool = app.store.pool_with(brake.value.owner_id(), LineScope::Nothing).await?;
                Effect::Brake { brake: Box::new(brake), pool: Box::new(pool) }
            }
            DecisionSubject::CrashRecovery { .. } => Effect::Recovery(Box::new(
                RecoveryState::load(app, decision.value.decision(), room.clone()).await?,
            )),
            DecisionSubject::HandoffFailed { chain_id, .. } => Effect::Handoff(Box::new(
                HandoffState::load(app, decision.value.decision(), *chain_id).await?,
            )),
            DecisionSubject::Autonomy { action_kind, .. } => {
                let about = decision.value.decision();
                Effect::Autonomy(Box::new(AutonomyState::load(app, about, *action_kind).await?))
            }
            DecisionSubject::CoherenceReview { issue_id, .. } => {
                Effect::Coherence(Box::new(CoherenceState::load(app, *issue_id).await?))
            }
            DecisionSubject::Option { .. }
            | DecisionSubject::ToolApproval { .. }
            | DecisionSubject::Question { .. }
            | DecisionSubject::Plan { .. }
            | DecisionSubject::OutputReview { .. } => {
                Effect::Orphan(Box::new(OrphanState::load(app, &decision.value).await?))
            }
        };
        Ok(Self { decision, effect })
    }

    /// The commit that resolves the decision, with the decision as it is then.
    ///
    /// # Errors
    /// The refusal of the effect.
    pub(crate) fn resolve(
        self,
        app: &App,
        cause: &Cause,
        resolution: Resolution,
        by: ResolvedBy,
        ctx: &mut DomainContext<'_>,
    ) -> Result<(Commit, FreeDecision), Problem> {
        let Self { mut decision, effect } = self;
        let mut commit = Commit::new();
        let delivery = match effect {
            Effect::Orphan(state) => {
                state.deliver(app, cause, decision.value.decision(), &resolution, &mut commit, ctx)?
            }
            Effect::Brake { brake, pool } => {
                if matches!(resolution, Resolution::Approve { .. }) {
                    release(app, cause, *brake, *pool, &mut commit, ctx)?;
                }
                None
            }
            Effect::Recovery(state) => {
                state.recover(app, cause, &resolution, &mut commit, ctx)?;
                None
            }
            Effect::Handoff(state) => {
                state.end_chain(app, cause, &resolution, &mut commit, ctx)?;
                None
            }
            Effect::Autonomy(state) => {
                state.answer(app, cause, &resolution, &mut commit, ctx)?;
                None
            }
            Effect::Coherence(state) => {
                let about = decision.value.decision();
                state.settle(app, cause, about, (&resolution, &by), &mut commit, ctx)?;
                None
            }
        };
        decision.value.resolve(resolution, by, delivery, ctx.now).map_err(refused)?;
        commit.free_decision(&decision)?;
        Ok((commit, decision.value))
    }
}

fn release(
    app: &App,
    cause: &Cause,
    mut brake: LoadedAggregate<Brake>,
    mut pool: LoadedPool,
    commit: &mut Commit,
    ctx: &DomainContext<'_>,
) -> Result<(), Problem> {
    let events = brake.value.release(ReleasedBy::Decision, &mut pool.value, ctx.now)?;
    app.record_aggregate(commit, &brake, cause.clone(), events)?;
    Ok(commit.pool(brake.value.owner_id(), &pool)?)
}

/// Callers check that the decision is open and the resolution fits.
fn refused(error: FreeDecisionError) -> Problem {
    Problem::internal(error)
}
