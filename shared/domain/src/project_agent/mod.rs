//! The `ProjectAgent` aggregate: S2's *agent* (decision 71). It outlives its sessions.
//!
//! | module | contents |
//! |---|---|
//! | `autonomy` | proposals of autonomy and their answers |
//! | `brief` | what the agent is, may do, and must follow |
//! | `crash` | its crashes, and the decision about the latest one |
//! | `context_use` | the knowledge that it received while it worked |
//! | `delegation`, `session_policy` | the limits of delegation and of the conversation |
//! | `secret` | the secrets that the agent needs, by name |
//! | `workspace` | requirements on the workspace of the agent |
//! | `mcp` | the MCP servers of a brief |
//! | `bypass` | options that let an agent act without asking |
//! | `provider_config` | which options a brief may pass to its adapter |
//! | `prompt` | the part of the system prompt that a brief becomes |

mod artifact_files;
mod autonomy;
mod brief;
mod bypass;
mod context_use;
mod crash;
mod delegation;
mod event;
mod mcp;
mod prompt;
mod provider_config;
mod secret;
mod session_policy;
mod workspace;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

pub use artifact_files::ArtifactFiles;
pub use autonomy::ProposalDecisions;
pub use brief::{AgentBrief, BriefViolation};
pub use context_use::ContextUse;
use crash::Crashes;
pub use delegation::{Delegation, DelegationDenied, DelegationPolicy, DelegationViolation};
pub use event::ProjectAgentEvent;
pub use mcp::{McpServer, McpServerTool, McpViolation};
pub use prompt::brief_prompt;
pub use provider_config::{ProviderConfigViolation, approval_bypasses};
pub use secret::{SecretRef, SecretScope, SecretViolation};
pub use session_policy::{HistoryPolicy, SessionPolicy, SessionPolicyViolation};
pub use workspace::{
    ResourceLimits, SandboxCapability, UnmetRequirement, WorkspaceMount, WorkspaceOffer, WorkspacePart,
    WorkspaceRequirements, WorkspaceViolation,
};

use crate::control_mode::{BriefSync, ControlModeSetting};
use crate::effect::ActionKind;
use crate::escalation::StandingApproval;
use crate::tick::Tick;
use crate::trust::{ReportedOutcome, TrustCalibrationProfile, TrustProfile};
use crate::value::ProjectMembership;
use crate::{
    AgentSession, AgentSessionId, Aggregate, DecisionId, DomainContext, EventId, ProjectAgentId, ProjectId,
    Timestamp, UserId,
};

/// An agent of a project. Its status follows from its current session: [`crate::project::AgentStatus`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ProjectAgent {
    id: ProjectAgentId,
    owner_id: UserId,
    project_id: ProjectId,
    brief: AgentBrief,
    /// Increases with each change of the brief, from 1.
    brief_version: u32,
    /// When the brief last changed; `None` if it is still the first one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    brief_changed_at: Option<Timestamp>,
    /// When the brief of the project last changed after the agent was created.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    project_brief_changed_at: Option<Timestamp>,
    /// When the brief changed before that, oldest first; at most [`Self::MAX_BRIEF_CHANGES`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    earlier_brief_changes: Vec<Timestamp>,
    current_session_id: AgentSessionId,
    /// Number of sessions so far.
    session_count: u32,
    trust: TrustProfile,
    /// The project's configuration that `trust` follows. It decides how the score decayed until now, so that a change of the
    /// project may reach the agent late or twice.
    #[serde(default)]
    calibration: TrustCalibrationProfile,
    /// Tick of the project when the agent was created.
    #[serde(default)]
    started_at_tick: Tick,
    /// What a person approved for all further calls of a session.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    approvals: Vec<StandingApproval>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    crashes: Option<Crashes>,
    /// The decisions about proposed autonomy.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    proposals: BTreeMap<ActionKind, DecisionId>,
    /// The knowledge that it received while it worked.
    #[serde(default, skip_serializing_if = "ContextUse::is_none")]
    context_use: ContextUse,
    created_at: Timestamp,
    updated_at: Timestamp,
}

/// Input for creating an agent (S2 `spawn`).
#[derive(Debug, Clone, PartialEq)]
pub struct NewAgent {
    pub id: ProjectAgentId,
    pub owner_id: UserId,
    pub project_id: ProjectId,
    pub brief: AgentBrief,
    /// The session that the agent starts with.
    pub session_id: AgentSessionId,
}

impl NewAgent {
    /// The place of the agent's sessions in their project.
    pub fn membership(&self) -> ProjectMembership {
        ProjectMembership {
            project_id: self.project_id,
            agent_id: self.id,
            workstream: self.brief.workstream.clone(),
        }
    }
}

impl ProjectAgent {
    /// Most standing approvals at a time.
    pub const MAX_APPROVALS: usize = 20;

    /// Most changes of the brief before the last one whose times are kept.
    const MAX_BRIEF_CHANGES: usize = 20;

    /// Creates an agent at a tick of its project. The brief has been checked against the project.
    pub fn spawn(
        new: NewAgent,
        trust: &TrustCalibrationProfile,
        tick: Tick,
        ctx: &DomainContext<'_>,
    ) -> (Self, Vec<ProjectAgentEvent>) {
        let spawned = ProjectAgentEvent::Spawned {
            project_id: new.project_id,
            session_id: new.session_id,
            workstream: new.brief.workstream.clone(),
        };
        let agent = Self {
            id: new.id,
            owner_id: new.owner_id,
            project_id: new.project_id,
            brief: new.brief,
            brief_version: 1,
            brief_changed_at: None,
            project_brief_changed_at: None,
            earlier_brief_changes: Vec::new(),
            current_session_id: new.session_id,
            session_count: 1,
            trust: TrustProfile::new(trust, tick),
            calibration: trust.clone(),
            started_at_tick: tick,
            approvals: Vec::new(),
            crashes: None,
            proposals: BTreeMap::new(),
            context_use: ContextUse::default(),
            created_at: ctx.now,
            updated_at: ctx.now,
        };
        (agent, vec![spawned])
    }

    /// Makes `session` the current one, because it continues the work of the agent's current session.
    pub fn continue_in(
        &mut self,
        session: AgentSessionId,
        ctx: &DomainContext<'_>,
    ) -> Vec<ProjectAgentEvent> {
        if self.current_session_id == session {
            return Vec::new();
        }
        let from = std::mem::replace(&mut self.current_session_id, session);
        self.session_count = self.session_count.saturating_add(1);
        self.approvals.clear();
        self.updated_at = ctx.now;
        vec![ProjectAgentEvent::SessionChanged { from, to: session }]
    }

    /// A person approves a tool for the rest of the session (S2 `alwaysApprove`). Approvals that a stricter `mode` has ended are
    /// dropped. At most [`Self::MAX_APPROVALS`] are kept; the oldest lapses first.
    pub fn approve_always(
        &mut self,
        approval: StandingApproval,
        mode: &ControlModeSetting,
        ctx: &DomainContext<'_>,
    ) -> Vec<ProjectAgentEvent> {
        if self.approvals.iter().any(|known| known.decision_id == approval.decision_id) {
            return Vec::new();
        }
        let is_same = |known: &StandingApproval| {
            known.session_id == approval.session_id
                && known.tool == approval.tool
                && known.effects == approval.effects
        };
        self.approvals.retain(|known| !mode.tightened_since(known.mode_revision) && !is_same(known));
        if self.approvals.len() == Self::MAX_APPROVALS {
            self.approvals.remove(0);
        }
        let approved = ProjectAgentEvent::ToolApproved {
            decision_id: approval.decision_id,
            tool: approval.tool.clone(),
        };
        self.approvals.push(approval);
        self.updated_at = ctx.now;
        vec![approved]
    }

    /// Replaces the brief. It takes effect with the next run or reload of the session. The workstream of an agent does not change,
    /// because its project counts on it.
    pub fn update_brief(&mut self, brief: AgentBrief, ctx: &DomainContext<'_>) -> Vec<ProjectAgentEvent> {
        if self.brief == brief {
            return Vec::new();
        }
        self.brief = brief;
        self.brief_version = self.brief_version.saturating_add(1);
        self.earlier_brief_changes.extend(self.brief_changed_at.replace(ctx.now));
        let excess = self.earlier_brief_changes.len().saturating_sub(Self::MAX_BRIEF_CHANGES);
        self.earlier_brief_changes.drain(..excess);
        self.updated_at = ctx.now;
        vec![ProjectAgentEvent::BriefUpdated { version: self.brief_version }]
    }

    /// Changes the trust by an outcome, which the journal entry `caused_by` of `session_id` records. The caller records each outcome
    /// once.
    pub fn record_outcome(
        &mut self,
        reported: ReportedOutcome,
        (session_id, caused_by): (AgentSessionId, EventId),
        (tick, calibration): (Tick, &TrustCalibrationProfile),
        ctx: &DomainContext<'_>,
    ) -> Vec<ProjectAgentEvent> {
        let mut events = self.configure_trust(calibration, tick, ctx);
        let entry = Box::new(self.trust.record(reported, tick, calibration));
        self.updated_at = ctx.now;
        events.push(ProjectAgentEvent::TrustChanged { entry, session_id, caused_by });
        events
    }

    /// Takes over the trust configuration of the project. Repeating it changes nothing.
    pub fn configure_trust(
        &mut self,
        calibration: &TrustCalibrationProfile,
        tick: Tick,
        ctx: &DomainContext<'_>,
    ) -> Vec<ProjectAgentEvent> {
        if self.calibration == *calibration {
            return Vec::new();
        }
        let autonomy = self.trust.reconfigure(&self.calibration, calibration, tick);
        self.calibration = calibration.clone();
        self.updated_at = ctx.now;
        let score = self.trust.score(tick, calibration);
        vec![ProjectAgentEvent::TrustConfigured { tick, score, autonomy }]
    }
}

/// Read access.
impl ProjectAgent {
    pub const fn id(&self) -> ProjectAgentId {
        self.id
    }

    pub const fn owner_id(&self) -> &UserId {
        &self.owner_id
    }

    pub const fn project_id(&self) -> ProjectId {
        self.project_id
    }

    /// The place of the agent's sessions in their project.
    pub fn membership(&self) -> ProjectMembership {
        ProjectMembership {
            project_id: self.project_id,
            agent_id: self.id,
            workstream: self.brief.workstream.clone(),
        }
    }

    pub const fn brief(&self) -> &AgentBrief {
        &self.brief
    }

    pub const fn brief_version(&self) -> u32 {
        self.brief_version
    }

    /// The version of the brief at a time. `None` if too many changes followed.
    pub fn brief_version_at(&self, at: Timestamp) -> Option<u32> {
        let changes = || self.earlier_brief_changes.iter().copied().chain(self.brief_changed_at);
        let later = u32::try_from(changes().filter(|changed| *changed > at).count()).unwrap_or(u32::MAX);
        let version = self.brief_version.saturating_sub(later);
        // Before the oldest change that is kept there is one version, unless earlier changes were dropped.
        let is_known = version == 1 || changes().any(|changed| changed <= at);
        is_known.then_some(version)
    }

    /// When the brief last changed, or that of the project; `None` if the agent was created with it.
    pub fn brief_changed_at(&self) -> Option<Timestamp> {
        self.brief_changed_at.max(self.project_brief_changed_at)
    }

    /// Whether `session` works with the current brief, which it received with its configuration or by an injection. A session without a
    /// run receives it with the next one.
    pub fn brief_sync(&self, session: &AgentSession) -> BriefSync {
        match (self.brief_changed_at(), session.configured_at()) {
            (Some(changed), Some(configured))
                if changed > configured.max(self.context_use.brief_in(session.id())) =>
            {
                BriefSync::Pending
            }
            _ => BriefSync::Synced,
        }
    }

    pub const fn current_session_id(&self) -> AgentSessionId {
        self.current_session_id
    }

    pub const fn session_count(&self) -> u32 {
        self.session_count
    }

    pub const fn trust(&self) -> &TrustProfile {
        &self.trust
    }

    /// The trust under the project's configuration, even if that has not reached the agent yet.
    pub fn trust_under(&self, calibration: &TrustCalibrationProfile, tick: Tick) -> TrustProfile {
        let mut trust = self.trust.clone();
        if self.calibration != *calibration {
            trust.reconfigure(&self.calibration, calibration, tick);
        }
        trust
    }

    pub const fn started_at_tick(&self) -> Tick {
        self.started_at_tick
    }

    pub fn approvals(&self) -> &[StandingApproval] {
        &self.approvals
    }

    pub const fn created_at(&self) -> Timestamp {
        self.created_at
    }

    pub const fn updated_at(&self) -> Timestamp {
        self.updated_at
    }
}

impl Aggregate for ProjectAgent {
    type Id = ProjectAgentId;
    type Event = ProjectAgentEvent;

    const KIND: &'static str = "agent";

    fn id(&self) -> ProjectAgentId {
        self.id
    }

    fn owner_id(&self) -> &UserId {
        &self.owner_id
    }
}
