//! Trust of agents and ticks of projects in the API (S2, "Trust score calibration", "Tick Service"; decision 76).

use pilothouse_domain::effect::ActionKind;
use pilothouse_domain::tick::{Tick, TickClock, TickMode};
use pilothouse_domain::trust::{
    ApprovalInterval, Autonomy, Points, Simulation, TrustCalibrationProfile, TrustEntry, TrustProfileName,
};
use pilothouse_domain::{
    AgentSessionId, EventId, Project, ProjectAgent, ProjectAgentId, ProjectId, Timestamp,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Page;

/// The trust of an agent (S2 `TrustProfile`).
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TrustView {
    /// The agent.
    pub agent_id: ProjectAgentId,
    /// The project of the agent.
    pub project_id: ProjectId,
    /// The score in force, in whole points.
    pub score: i32,
    /// The score in force, with all decimals.
    pub exact_score: Points,
    /// The score that the agent would have without calibration mode. Present in calibration mode.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hypothetical_score: Option<Points>,
    /// The preset of the project's configuration.
    pub profile: TrustProfileName,
    /// The tick of the project that the scores are from.
    pub tick: Tick,
    /// Verdicts of people for each kind of action that they judged.
    pub approvals: Vec<ApprovalRate>,
    /// The changes, newest first.
    pub history: Page<TrustChange>,
}

/// How often people approve one kind of action of an agent.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ApprovalRate {
    /// The kind of action.
    pub action_kind: ActionKind,
    /// The number of approvals.
    pub approved: u32,
    /// The number of verdicts.
    pub decided: u32,
    /// The 95 % interval of the approval rate.
    pub interval: ApprovalInterval,
    /// What the agent may do without asking, if that was proposed or decided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub autonomy: Option<Autonomy>,
}

/// A change of trust.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TrustChange {
    /// When it was recorded.
    pub at: Timestamp,
    /// The session with the outcome.
    pub session_id: AgentSessionId,
    /// The journal entry of the session with the outcome.
    pub caused_by: EventId,
    /// The change.
    #[serde(flatten)]
    pub entry: TrustEntry,
    /// How the change was calculated, in words.
    pub explanation: String,
}

/// The trust of an agent, replayed under another configuration.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SimulationView {
    /// The agent.
    pub agent_id: ProjectAgentId,
    /// The simulated configuration.
    pub profile: TrustCalibrationProfile,
    /// The number of outcomes that were replayed.
    pub outcome_count: usize,
    /// Whether the history of the agent is longer. Only its beginning was replayed then.
    pub truncated: bool,
    /// The score in force now.
    pub current_score: Points,
    /// The score that the agent would have now.
    pub final_score: Points,
    /// The lowest simulated score.
    pub lowest: Points,
    /// The highest simulated score.
    pub highest: Points,
    /// How many outcomes met a simulated score below 70, where adaptive mode asks a person.
    pub below_adaptive_threshold: usize,
}

/// The ticks of a project.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TickView {
    /// The project.
    pub project_id: ProjectId,
    /// The current tick.
    pub current_tick: Tick,
    /// What advances the ticks.
    pub mode: TickMode,
    /// Milliseconds of a tick.
    pub interval_ms: u64,
    /// Whether time advances the ticks now.
    pub is_running: bool,
    /// The agents that work or wait for a person.
    pub active_agents: Vec<ProjectAgentId>,
}

impl TrustView {
    /// The trust of an agent at a tick of its project.
    ///
    /// A change of the project's configuration may not have reached the agent. The view applies it.
    pub fn of(agent: &ProjectAgent, project: &Project, tick: Tick, history: Page<TrustChange>) -> Self {
        let calibration = &project.definition().trust;
        let trust = agent.trust_under(calibration, tick);
        let rate = |kind: &ActionKind| {
            let (counts, autonomy) = (trust.approvals(*kind), trust.autonomy(*kind));
            (counts.decided > 0 || autonomy.is_some()).then(|| ApprovalRate {
                action_kind: *kind,
                approved: counts.approved,
                decided: counts.decided,
                interval: counts.interval(),
                autonomy,
            })
        };
        let score = trust.score(tick, calibration);
        Self {
            agent_id: agent.id(),
            project_id: project.id(),
            score: score.rounded(),
            exact_score: score,
            hypothetical_score: trust.hypothetical_score(tick, calibration),
            profile: calibration.name,
            tick,
            approvals: ActionKind::ALL.iter().filter_map(rate).collect(),
            history,
        }
    }
}

impl SimulationView {
    /// Below this score, adaptive mode asks a person for actions with effects (S2, "Adaptive Mode").
    pub const ADAPTIVE_THRESHOLD: Points = Points::whole(70);

    /// The view of a simulation for an agent whose score in force is `current_score`.
    pub fn of(
        agent: ProjectAgentId,
        (profile, simulation): (TrustCalibrationProfile, &Simulation),
        current_score: Points,
        truncated: bool,
    ) -> Self {
        Self {
            agent_id: agent,
            profile,
            outcome_count: simulation.entries.len(),
            truncated,
            current_score,
            final_score: simulation.final_score,
            lowest: simulation.lowest,
            highest: simulation.highest,
            below_adaptive_threshold: simulation.below(Self::ADAPTIVE_THRESHOLD),
        }
    }
}

impl TickView {
    /// The view of a clock at `now`.
    pub fn of(project: ProjectId, clock: &TickClock, now: Timestamp) -> Self {
        Self {
            project_id: project,
            current_tick: clock.at(now),
            mode: clock.config().mode,
            interval_ms: clock.config().interval_ms,
            is_running: clock.is_running(),
            active_agents: clock.active_agents().iter().copied().collect(),
        }
    }
}
