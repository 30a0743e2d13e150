//! Emergency brakes in the API (S2 "Emergency Brake", decision 72).

use std::sync::Arc;

use pilothouse_domain::brake::{Brake, BrakeBehavior, BrakeInitiator, BrakeRelease, BrakeScope, HoldStage};
use pilothouse_domain::session::AgentSessionStatus;
use pilothouse_domain::value::ProjectMembership;
use pilothouse_domain::{AgentSession, AgentSessionId, BrakeId, DecisionId, Timestamp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A brake with the progress of its sessions.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BrakeView {
    /// The fields that a list of brakes shows, too.
    #[serde(flatten)]
    pub summary: BrakeSummary,
    /// The number of sessions that have stopped or are released.
    pub confirmed_count: usize,
    /// The progress of all sessions in one phrase: `3 of 4 confirmed`.
    pub progress: String,
    /// The sessions that had a run when the brake was pulled. All others in the scope cannot start. The response to a pull may leave
    /// sessions out, because it does not wait for them to be read.
    pub sessions: Vec<BrakedSession>,
    /// The version of the brake; also its `ETag`.
    pub version: u64,
}

/// A brake in a list.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BrakeSummary {
    /// The id of the brake.
    pub id: BrakeId,
    /// Which sessions the brake stops.
    pub scope: BrakeScope,
    /// How the brake stops them.
    pub behavior: BrakeBehavior,
    /// Why the brake was pulled.
    pub reason: String,
    /// Who pulled the brake: the id of the owner, or `system` for the spending cap of a project.
    pub initiated_by: String,
    /// When the brake was pulled.
    pub pulled_at: Timestamp,
    /// When the server releases the brake. Absent if it has no timer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub release_at: Option<Timestamp>,
    /// The decision of the inbox whose approval releases the brake. Absent if it has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub release_decision_id: Option<DecisionId>,
    /// The release. Absent while the brake is in force.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub released: Option<BrakeRelease>,
    /// The number of sessions that had a run when the brake was pulled.
    pub session_count: usize,
}

/// A session that a brake stops.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BrakedSession {
    /// The id of the session.
    pub session_id: AgentSessionId,
    /// The agent of a project that the session belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project: Option<ProjectMembership>,
    /// The name of the session.
    pub name: String,
    /// The status of the session.
    pub status: AgentSessionStatus,
    /// How far the session has come in stopping.
    pub stage: HoldStage,
    /// Whether the process had to be ended because the session did not stop in time.
    pub escalated: bool,
}

impl BrakeSummary {
    /// The summary of a brake.
    pub fn of(brake: &Brake) -> Self {
        use pilothouse_domain::Aggregate as _;
        Self {
            id: brake.id(),
            scope: brake.scope().clone(),
            behavior: brake.behavior(),
            reason: brake.reason().as_str().to_owned(),
            initiated_by: match brake.initiator() {
                BrakeInitiator::Owner => brake.owner_id().to_string(),
                BrakeInitiator::System => "system".to_owned(),
            },
            pulled_at: brake.pulled_at(),
            release_at: brake.release_at(),
            release_decision_id: brake.release_decision_id(),
            released: brake.released(),
            session_count: brake.session_ids().len(),
        }
    }
}

impl BrakeView {
    /// The view of a brake with the current state of its sessions.
    pub fn of(brake: &Brake, sessions: &[Arc<AgentSession>], version: u64) -> Self {
        let braked = |session: &Arc<AgentSession>| BrakedSession {
            session_id: session.id(),
            project: session.project().cloned(),
            name: session.name().as_str().to_owned(),
            status: session.status(),
            stage: if brake.holds(session.id()) {
                session.hold_stage(brake.id())
            } else {
                HoldStage::Released
            },
            escalated: session.hold_escalated(),
        };
        let sessions: Vec<_> = sessions.iter().map(braked).collect();
        let stopped =
            |session: &&BrakedSession| matches!(session.stage, HoldStage::Confirmed | HoldStage::Released);
        let confirmed_count = sessions.iter().filter(stopped).count();
        Self {
            summary: BrakeSummary::of(brake),
            confirmed_count,
            progress: format!("{confirmed_count} of {} confirmed", brake.session_ids().len()),
            sessions,
            version,
        }
    }
}
