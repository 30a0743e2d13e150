//! The live stream of a project (S2, "WebSocket message protocol"; decision 82).

mod event;
mod position;

use pilothouse_domain::control_mode::{ControlMode, ModeRevision};
use pilothouse_domain::decision::{BrakeAction, Decision, DecisionStatus, Resolution, ResolvedBy};
use pilothouse_domain::project::AgentStatus;
use pilothouse_domain::routing::Workspace;
use pilothouse_domain::session::AgentSessionStatus;
use pilothouse_domain::text::WorkstreamId;
use pilothouse_domain::trust::{Points, TrustEntry};
use pilothouse_domain::{AgentSession, AgentSessionId, DecisionId, ProjectAgent, ProjectAgentId, Usd};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use event::{AgentEvent, AgentEventContent, EventEnvelope};
pub use position::{JournalRef, ProjectPosition, SessionPosition};

use crate::brakes::BrakeSummary;
use crate::decisions::DecisionView;
use crate::projects::ProjectView;
use crate::trust::TickView;

/// A message of the stream of a project. A client that reconnects with `?after=` the last cursor that it saw neither misses nor repeats
/// a message.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProjectMessage {
    /// The position of the stream after this message. Pass it as `after` to resume.
    pub cursor: String,
    /// The content of the message.
    #[serde(flatten)]
    pub body: ProjectMessageBody,
}

/// The content of a message of the stream of a project.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum ProjectMessageBody {
    /// The state of the project: at the begin, if the cursor is unknown or too old, and after each change of the project itself.
    StateSync(Box<StateSync>),
    /// An agent did something, or something happened to its session.
    Event(Box<RoutedEvent>),
    /// A brake was pulled or released.
    Brake(Box<BrakeMessage>),
    /// The trust of an agent changed.
    TrustUpdate(TrustUpdate),
    /// A decision was taken or is over. Sent again when the agent has received the resolution.
    DecisionResolved(Box<DecisionResolved>),
}

/// The state of a project, or where it can be read if it is too large for a message.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum StateSync {
    /// The state.
    Whole(Box<ProjectState>),
    /// The state is at this path.
    At(StateLocation),
}

/// Where the state of a project can be read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StateLocation {
    /// The path for `GET`.
    pub state_path: String,
}

/// The state of a project with its place in the stream.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProjectStateView {
    /// Pass it as `after` to receive what happens after this state.
    pub cursor: String,
    /// The state.
    #[serde(flatten)]
    pub state: ProjectState,
}

/// The state of a project.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProjectState {
    /// The project.
    pub project: ProjectView,
    /// How much the agents may do without a person.
    pub control_mode: ControlMode,
    /// Increases with each change of the control mode.
    pub control_mode_revision: ModeRevision,
    /// The agents, oldest first.
    pub active_agents: Vec<AgentHandle>,
    /// The trust of the agents.
    pub trust_scores: Vec<TrustScore>,
    /// The decisions that wait for a person, in the order of the inbox.
    pub pending_decisions: Vec<DecisionView>,
    /// Whether there are more pending decisions.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub more_decisions: bool,
    /// The brakes in force that may stop an agent of the project.
    pub brakes: Vec<BrakeSummary>,
    /// The ticks.
    pub tick: TickView,
}

/// An agent (S2 `AgentHandle`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AgentHandle {
    /// The id of the agent.
    pub id: ProjectAgentId,
    /// The adapter that drives the agent.
    pub plugin_name: String,
    /// The status, which follows from the current session.
    pub status: AgentStatus,
    /// The current session.
    pub session_id: AgentSessionId,
    /// The status of the current session.
    pub session_status: AgentSessionStatus,
    /// What the agent is.
    pub role: String,
    /// The workstream that the agent owns.
    pub workstream: WorkstreamId,
    /// Increases with each change of the brief.
    pub brief_version: u32,
    /// The number of questions, plans and approvals of the current session that wait for the owner.
    pub pending_decisions: usize,
    /// The spend of the current session and its predecessors, in US dollars.
    pub spent_usd: Usd,
}

/// The trust of an agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TrustScore {
    /// The agent.
    pub agent_id: ProjectAgentId,
    /// The score in force, in whole points.
    pub score: i32,
}

/// An event with the workspaces that show it.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RoutedEvent {
    /// The workspace that shows the event first. Absent if the event is only logged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace: Option<Workspace>,
    /// Further workspaces.
    pub secondary_workspaces: Vec<Workspace>,
    /// The event with its source.
    pub envelope: EventEnvelope,
}

/// A change of a brake.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BrakeMessage {
    /// The brake, as it is now.
    pub action: BrakeSummary,
    /// What happened to it.
    pub change: BrakeAction,
    /// The agents of the project that the brake stops, or that were released from it.
    pub affected_agent_ids: Vec<ProjectAgentId>,
}

/// A change of the trust of an agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TrustUpdate {
    /// The agent.
    pub agent_id: ProjectAgentId,
    /// The score before, after decay.
    pub previous_score: Points,
    /// The score since then.
    pub new_score: Points,
    /// The difference.
    pub delta: Points,
    /// The outcome that changed it.
    pub reason: String,
    /// In calibration mode, where the score in force does not change: the score that the agent would have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hypothetical_score: Option<Points>,
    /// The decision with the outcome.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decision_id: Option<DecisionId>,
}

/// A decision that was taken or is over.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DecisionResolved {
    /// The decision.
    pub decision_id: DecisionId,
    /// The agent that asked.
    pub agent_id: ProjectAgentId,
    /// The session that asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<AgentSessionId>,
    /// The state: `resolving` until the agent has received the resolution.
    pub state: DecisionStatus,
    /// The resolution. Absent if the decision expired or was cancelled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resolution: Option<Resolution>,
    /// Who resolved it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resolved_by: Option<ResolvedBy>,
}

impl AgentHandle {
    /// The handle of an agent with its current session.
    pub fn of(agent: &ProjectAgent, session: &AgentSession) -> Self {
        Self {
            id: agent.id(),
            plugin_name: session.settings().adapter.to_string(),
            status: AgentStatus::of(session),
            session_id: session.id(),
            session_status: session.status(),
            role: agent.brief().role.to_string(),
            workstream: agent.brief().workstream.clone(),
            brief_version: agent.brief_version(),
            pending_decisions: session.pending_decision_count(),
            spent_usd: session.budget().account_usd(),
        }
    }
}

impl TrustUpdate {
    /// The update for a change of trust.
    pub fn of(agent_id: ProjectAgentId, change: &TrustEntry) -> Self {
        let (previous_score, new_score, hypothetical_score) = match change.frozen_score {
            Some(frozen) => (frozen, frozen, Some(change.after)),
            None => (change.before, change.after, None),
        };
        let delta = i64::from(new_score.thousandths()) - i64::from(previous_score.thousandths());
        Self {
            agent_id,
            previous_score,
            new_score,
            delta: Points::clamped(delta),
            reason: change.outcome.to_string(),
            hypothetical_score,
            decision_id: change.decision_id,
        }
    }
}

impl DecisionResolved {
    /// The message about a decision of `agent_id` that reached `state`.
    pub fn of(decision: &Decision, agent_id: ProjectAgentId, state: DecisionStatus) -> Self {
        let ruling = decision.state.ruling();
        Self {
            decision_id: decision.id,
            agent_id,
            session_id: decision.session_id(),
            state,
            resolution: ruling.map(|ruling| ruling.resolution.clone()),
            resolved_by: ruling.map(|ruling| ruling.resolved_by.clone()),
        }
    }
}
