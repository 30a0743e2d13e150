//! Projects and their agents in the API (S2, "Frontend REST API"; decision 71).

use std::collections::BTreeMap;

use pilothouse_domain::coherence::CoherenceMonitorConfig;
use pilothouse_domain::control_mode::{BriefSync, ControlMode, ModeRevision};
use pilothouse_domain::decision::{CrashRecoveryPolicy, DecisionTimeoutPolicy, OrphanedDecisionPolicy};
use pilothouse_domain::effect::pattern::ToolClassification;
use pilothouse_domain::escalation::EscalationProtocol;
use pilothouse_domain::project::{AgentStatus, Project, ProjectBrief, SpendingCap, Workstream};
use pilothouse_domain::project_agent::{AgentBrief, ContextUse, ProjectAgent};
use pilothouse_domain::session::{AgentSession, AgentSessionStatus};
use pilothouse_domain::text::WorkstreamId;
use pilothouse_domain::tick::TickConfig;
use pilothouse_domain::trust::TrustCalibrationProfile;
use pilothouse_domain::{
    AgentSessionId, BrakeId, ProjectAccount, ProjectAgentId, ProjectId, Timestamp, Usd, UserId,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::checkpoints::KillView;
use crate::sessions::StartedSession;

/// A project.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProjectView {
    /// The id of the project.
    pub id: ProjectId,
    /// The owner of the project.
    pub owner_id: UserId,
    /// Goals and description, which are part of every brief.
    #[serde(flatten)]
    pub brief: ProjectBrief,
    /// The parts of the work.
    pub workstreams: Vec<Workstream>,
    /// How much the agents may do without a person.
    pub control_mode: ControlMode,
    /// Increases with each change of the control mode.
    pub control_mode_revision: ModeRevision,
    /// The protocols of the control modes, where they differ from the defaults.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub escalation: BTreeMap<ControlMode, EscalationProtocol>,
    /// What happens to decisions that are not made in time, where it differs from the defaults of a control mode.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub decision_timeout: BTreeMap<ControlMode, DecisionTimeoutPolicy>,
    /// What happens to open decisions of agents whose sessions end, where it differs from the defaults of a control mode.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub orphaned_decisions: BTreeMap<ControlMode, OrphanedDecisionPolicy>,
    /// What happens when an agent crashes. Absent if it is the default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub crash_recovery: Option<CrashRecoveryPolicy>,
    /// How the coherence of the agents' work is monitored. Absent if everything has its default.
    #[serde(default, skip_serializing_if = "is_default")]
    pub coherence: CoherenceMonitorConfig,
    /// The effects of tools that the control plane does not know.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tool_patterns: Vec<ToolClassification>,
    /// How the trust of the agents changes.
    pub trust: TrustCalibrationProfile,
    /// How the ticks advance.
    pub tick_config: TickConfig,
    /// The most that the agents may spend together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spending_cap: Option<SpendingCap>,
    /// What the agents have drawn from the cap. Only `GET /api/projects/{id}` shows it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spending: Option<SpendingView>,
    /// The number of agents.
    pub agent_count: usize,
    /// When the project was archived.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub archived_at: Option<Timestamp>,
    /// When the project was created.
    pub created_at: Timestamp,
    /// When the project last changed.
    pub updated_at: Timestamp,
    /// Increases with every change; also the `ETag`.
    pub revision: u64,
}

/// What the agents of a project have drawn from its spending cap.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SpendingView {
    /// The spend of the agents, and slices that they have not used yet, in US dollars.
    pub drawn_usd: Usd,
    /// What is drawn above the cap, in US dollars.
    pub overshoot_usd: Usd,
    /// Whether nothing is left, so that no agent can start.
    pub is_exhausted: bool,
    /// The brake that the cap has pulled, while it is in force.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub brake_id: Option<BrakeId>,
    /// How to continue, while that brake is in force.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub advice: Option<String>,
}

/// The control mode of a project.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ControlModeView {
    /// The project.
    pub project_id: ProjectId,
    /// How much the agents may do without a person.
    pub mode: ControlMode,
    /// Increases with each change of the mode.
    pub revision: ModeRevision,
    /// When the mode last changed.
    pub changed_at: Timestamp,
    /// The number of agents whose processes restart, or were restarted, for this mode. Only a change with `restartAgents` shows it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restarted_agents: Option<usize>,
}

/// A project in a list.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProjectSummary {
    /// The id of the project.
    pub id: ProjectId,
    /// The name of the project.
    pub name: String,
    /// The number of workstreams.
    pub workstream_count: usize,
    /// The number of agents.
    pub agent_count: usize,
    /// When the project was archived.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub archived_at: Option<Timestamp>,
    /// When the project last changed.
    pub updated_at: Timestamp,
}

/// An agent of a project (S2 `AgentHandle` with its brief).
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AgentView {
    /// The id of the agent.
    pub id: ProjectAgentId,
    /// The project of the agent.
    pub project_id: ProjectId,
    /// The status, which follows from the current session.
    pub status: AgentStatus,
    /// The current session.
    pub session_id: AgentSessionId,
    /// The status of the current session.
    pub session_status: AgentSessionStatus,
    /// The adapter that drives the agent (S2 `pluginName`).
    pub plugin_name: String,
    /// The number of sessions so far.
    pub session_count: u32,
    /// The number of questions, plans, permissions and outputs of the current session that wait for the owner.
    pub pending_decisions: usize,
    /// The spend of the current session and its predecessors, in US dollars.
    pub spent_usd: Usd,
    /// The brief.
    pub brief: AgentBrief,
    /// Increases with each change of the brief.
    pub brief_version: u32,
    /// Whether the run works with the current brief (S2 `pendingBriefChanges`). `pending` ends with the next run or reload.
    pub brief_sync: BriefSync,
    /// How the agent was ended. Absent unless its current session was cancelled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kill: Option<KillView>,
    /// The knowledge of its project that the agent received while it worked, and the tokens that it cost. Absent if there was none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context_use: Option<ContextUse>,
    /// When the agent was created.
    pub created_at: Timestamp,
    /// When the agent or its current session last changed.
    pub updated_at: Timestamp,
    /// Increases with every change of the agent; also the `ETag`.
    pub revision: u64,
}

/// A new agent with its session.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SpawnedAgent {
    /// The agent.
    pub agent: AgentView,
    /// The session that the agent starts with.
    #[serde(flatten)]
    pub started: StartedSession,
    /// Warnings about capabilities that the agent may need and no worker has.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

/// The agents of a project whose sessions were cancelled.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct KilledAgents {
    /// The agents, after the cancellation was requested.
    pub agents: Vec<AgentView>,
}

fn is_default(config: &CoherenceMonitorConfig) -> bool {
    *config == CoherenceMonitorConfig::default()
}

impl ProjectView {
    /// The view of a project.
    pub fn of(project: &Project, revision: u64) -> Self {
        let definition = project.definition().clone();
        Self {
            id: project.id(),
            owner_id: project.owner_id().clone(),
            brief: definition.brief,
            workstreams: definition.workstreams,
            control_mode: project.control_mode().mode(),
            control_mode_revision: project.control_mode().revision(),
            decision_timeout: definition
                .policies
                .iter()
                .filter_map(|(mode, policy)| Some((*mode, policy.decision_timeout?)))
                .collect(),
            orphaned_decisions: definition
                .policies
                .iter()
                .filter_map(|(mode, policy)| Some((*mode, policy.orphaned_decisions?)))
                .collect(),
            crash_recovery: definition.crash_recovery,
            coherence: definition.coherence,
            escalation: definition
                .policies
                .into_iter()
                .filter_map(|(mode, policy)| Some((mode, policy.escalation?)))
                .collect(),
            tool_patterns: definition.tool_patterns.into(),
            trust: definition.trust,
            tick_config: definition.tick_config,
            spending_cap: definition.spending_cap,
            spending: None,
            agent_count: project.agents().len(),
            archived_at: project.archived_at(),
            created_at: project.created_at(),
            updated_at: project.updated_at(),
            revision,
        }
    }
}

impl SpendingView {
    /// The view of an account. `in_force` says whether a brake is in force.
    pub fn of(account: &ProjectAccount, in_force: impl Fn(BrakeId) -> bool) -> Self {
        let brake_id = account.brake_id().filter(|id| in_force(*id));
        let advice = brake_id.map(|id| {
            let release = format!("release the brake: POST /api/brakes/{id}/release");
            if account.is_empty() { format!("raise `spendingCap`, then {release}") } else { release }
        });
        Self {
            drawn_usd: account.drawn_usd(),
            overshoot_usd: account.overshoot_usd(),
            is_exhausted: account.is_empty(),
            brake_id,
            advice,
        }
    }
}

impl ControlModeView {
    /// The control mode of a project.
    pub fn of(project: &Project) -> Self {
        let setting = project.control_mode();
        Self {
            project_id: project.id(),
            mode: setting.mode(),
            revision: setting.revision(),
            changed_at: setting.changed_at(),
            restarted_agents: None,
        }
    }
}

impl ProjectSummary {
    /// The summary of a project.
    pub fn of(project: &Project) -> Self {
        Self {
            id: project.id(),
            name: project.definition().brief.name.to_string(),
            workstream_count: project.definition().workstreams.len(),
            agent_count: project.agents().len(),
            archived_at: project.archived_at(),
            updated_at: project.updated_at(),
        }
    }
}

impl AgentView {
    /// The view of an agent with its current session.
    pub fn of(agent: &ProjectAgent, session: &AgentSession, revision: u64) -> Self {
        Self {
            id: agent.id(),
            project_id: agent.project_id(),
            status: AgentStatus::of(session),
            session_id: session.id(),
            session_status: session.status(),
            plugin_name: session.settings().adapter.to_string(),
            session_count: agent.session_count(),
            pending_decisions: session.pending_decision_count(),
            spent_usd: session.budget().account_usd(),
            brief: agent.brief().clone(),
            brief_version: agent.brief_version(),
            brief_sync: agent.brief_sync(session),
            kill: KillView::of(agent, session),
            context_use: agent.context_use().has_any().then(|| agent.context_use().clone()),
            created_at: agent.created_at(),
            updated_at: agent.updated_at().max(session.updated_at()),
            revision,
        }
    }

    /// Whether the agent works or waits for a person.
    pub const fn is_active(&self) -> bool {
        matches!(self.status, AgentStatus::Running | AgentStatus::Paused | AgentStatus::WaitingOnHuman)
    }

    /// The workstream that the agent owns.
    pub const fn workstream(&self) -> &WorkstreamId {
        &self.brief.workstream
    }
}
