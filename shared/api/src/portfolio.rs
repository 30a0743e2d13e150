//! All projects of an owner at a glance, and the health of an agent (S2).

use std::collections::BTreeMap;

use pilothouse_domain::brake::BrakeScope;
use pilothouse_domain::control_mode::{BriefSync, ControlMode};
use pilothouse_domain::effect::Severity;
use pilothouse_domain::project::{AgentStatus, SpendingCap};
use pilothouse_domain::session::{AgentSession, AgentSessionStatus, RunCause, RunPhase};
use pilothouse_domain::tick::Tick;
use pilothouse_domain::trust::Points;
use pilothouse_domain::value::FailureReason;
use pilothouse_domain::{
    AgentSessionId, BrakeId, ProjectAgent, ProjectAgentId, ProjectId, RunId, Timestamp, Usd,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::projects::SpendingView;

/// A project of the portfolio.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PortfolioEntry {
    /// The id of the project.
    pub project_id: ProjectId,
    /// The name of the project.
    pub name: String,
    /// When the project was archived.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub archived_at: Option<Timestamp>,
    /// How much the agents may do without a person.
    pub control_mode: ControlMode,
    /// The current tick.
    pub tick: Tick,
    /// The number of agents in each status. A status without agents is absent.
    pub agents: BTreeMap<AgentStatus, usize>,
    /// The number of decisions that wait, by severity. A severity without decisions is absent.
    pub open_decisions: BTreeMap<Severity, usize>,
    /// Whether more decisions may wait than were counted, because the owner has too many in all projects.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub more_decisions: bool,
    /// The spend of all agents, in US dollars.
    pub spent_usd: Usd,
    /// The most that the agents may spend together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spending_cap: Option<SpendingCap>,
    /// What the agents have drawn from the cap.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spending: Option<SpendingView>,
    /// The brakes in force that stop agents of the project.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub brakes: Vec<PortfolioBrake>,
    /// The trust of the agents. Absent without agents.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trust: Option<TrustSummary>,
}

/// A brake in force.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PortfolioBrake {
    /// The id of the brake.
    pub id: BrakeId,
    /// Which sessions the brake stops.
    pub scope: BrakeScope,
}

/// The trust of the agents of a project.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TrustSummary {
    /// The lowest score.
    pub lowest: Points,
    /// The median of the scores; of two in the middle, the lower one.
    pub median: Points,
}

impl TrustSummary {
    /// The summary of `scores`; `None` if there are none.
    pub fn of(mut scores: Vec<Points>) -> Option<Self> {
        scores.sort_unstable();
        let median = *scores.get(scores.len().saturating_sub(1) / 2)?;
        Some(Self { lowest: *scores.first()?, median })
    }
}

/// The health of an agent.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AgentHealthView {
    /// The agent.
    pub agent_id: ProjectAgentId,
    /// The status, which follows from the current session.
    pub status: AgentStatus,
    /// The adapter that drives the agent.
    pub plugin_name: String,
    /// The current session.
    pub session_id: AgentSessionId,
    /// The status of the current session.
    pub session_status: AgentSessionStatus,
    /// The current run. Absent if the session has no process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<RunHealth>,
    /// The number of changes of the brief, from 1.
    pub brief_version: u32,
    /// Whether the run works with the current brief. `pending` ends with the next run or reload.
    pub brief_sync: BriefSync,
    /// The number of questions, plans, permissions and outputs that wait for the owner.
    pub pending_decisions: usize,
    /// The number of runs of the session so far.
    pub run_count: u32,
    /// The number of runs whose end was not observed because their machine was declared lost.
    pub lost_run_count: usize,
    /// The number of retries of the session after failures.
    pub retry_count: u32,
    /// Why the session failed, if it did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure_reason: Option<FailureReason>,
}

/// The health of a run.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RunHealth {
    /// The id of the run.
    pub id: RunId,
    /// The number of the run within its session, from 1.
    pub ordinal: u32,
    /// Why the run was created.
    pub cause: RunCause,
    /// The phase of the run.
    #[serde(flatten)]
    pub phase: RunPhase,
    /// When the run was requested.
    pub requested_at: Timestamp,
    /// When the sidecar was last heard, by an event or a heartbeat.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_seen_at: Option<Timestamp>,
    /// When the latest event was received.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_event_at: Option<Timestamp>,
    /// How many events of the run were processed.
    pub events_emitted: u64,
    /// Since when the sidecar has been silent for too long.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unreachable_since: Option<Timestamp>,
    /// The worker that has the run. Absent while it waits for one, and for tasks in ECS.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worker_id: Option<String>,
}

impl AgentHealthView {
    /// The health of an agent with its current session. `heartbeat` is the last one of the run.
    pub fn of(
        agent: &ProjectAgent,
        session: &AgentSession,
        heartbeat: Option<Timestamp>,
        worker_id: Option<String>,
    ) -> Self {
        let past = session.past_runs();
        let run = session.run().map(|run| RunHealth {
            id: run.id,
            ordinal: run.ordinal,
            cause: run.cause,
            phase: run.phase,
            requested_at: run.requested_at,
            last_seen_at: run.heard_at.max(heartbeat),
            last_event_at: run.heard_at,
            events_emitted: run.inbox.next().saturating_sub(1),
            unreachable_since: session.unreachable_since(),
            worker_id,
        });
        let last = session.run().map(|run| run.ordinal).or_else(|| past.last().map(|run| run.ordinal));
        Self {
            agent_id: agent.id(),
            status: AgentStatus::of(session),
            plugin_name: session.settings().adapter.to_string(),
            session_id: session.id(),
            session_status: session.status(),
            run,
            brief_version: agent.brief_version(),
            brief_sync: agent.brief_sync(session),
            pending_decisions: session.pending_decision_count(),
            run_count: last.unwrap_or(0),
            lost_run_count: past.iter().filter(|run| run.end_uncertain).count(),
            retry_count: session.retry_count(),
            failure_reason: session.failure().map(|failure| failure.reason),
        }
    }
}
