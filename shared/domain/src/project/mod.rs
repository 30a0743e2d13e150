//! The `Project` aggregate (S2; decision 71): agents that work towards the same goals, under one control mode.
//!
//! | module | contents |
//! |---|---|
//! | `brief` | the goals and the workstreams that the briefs of agents contain |
//! | `policy` | what differs from the defaults of a control mode |
//! | `agent_status` | status of an agent, which follows from its session |
//! | `spending` | the most that the agents may spend together |
//!
//! Sessions work without a project. The agents of a project are aggregates of their own: [`crate::project_agent`].

mod agent_status;
mod brief;
mod error;
mod event;
mod policy;
mod spending;

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

pub use agent_status::AgentStatus;
pub use brief::{ProjectBrief, Workstream};
pub use error::ProjectError;
pub use event::ProjectEvent;
pub use policy::{ModePolicies, ModePolicy};
pub use spending::SpendingCap;

use crate::coherence::CoherenceMonitorConfig;
use crate::control_mode::{ControlMode, ControlModeSetting};
use crate::decision::{
    CrashRecoveryPolicy, DecisionTimeoutPolicy, OrphanedDecisionPolicy, TimeoutOverrides, TimeoutTerms,
};
use crate::effect::pattern::ToolClassifications;
use crate::escalation::EscalationProtocol;
use crate::text::WorkstreamId;
use crate::tick::{TickConfig, TickReading};
use crate::trust::TrustCalibrationProfile;
use crate::{Aggregate, DomainContext, ProjectAgentId, ProjectId, Timestamp, UserId};

/// A method that returns a [`ProjectError`] has changed nothing. Repeating an operation changes nothing and returns no event.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Project {
    id: ProjectId,
    owner_id: UserId,
    definition: ProjectDefinition,
    control_mode: ControlModeSetting,
    /// The agents with their workstreams.
    agents: BTreeMap<ProjectAgentId, WorkstreamId>,
    /// When goals, rules or workstreams last changed, which the agents receive; `None` if they are the first ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    brief_changed_at: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    archived_at: Option<Timestamp>,
    created_at: Timestamp,
    updated_at: Timestamp,
}

/// The part of a project that its owner sets as a whole.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ProjectDefinition {
    pub brief: ProjectBrief,
    pub workstreams: Vec<Workstream>,
    pub policies: ModePolicies,
    /// Effects of tools, in addition to those that the control plane knows.
    #[serde(default)]
    pub tool_patterns: ToolClassifications,
    pub trust: TrustCalibrationProfile,
    #[serde(default)]
    pub tick_config: TickConfig,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spending_cap: Option<SpendingCap>,
    /// What happens when an agent crashes, unless its brief says otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub crash_recovery: Option<CrashRecoveryPolicy>,
    #[serde(default)]
    pub coherence: CoherenceMonitorConfig,
}

impl Project {
    /// Most agents of a project (decision 71).
    pub const MAX_AGENTS: usize = 100;
    pub const MAX_WORKSTREAMS: usize = 50;
    /// Most bytes of a project as JSON; it is stored as a single item.
    pub const MAX_BYTES: usize = 256 * 1024;

    pub fn create(
        id: ProjectId,
        owner_id: UserId,
        definition: ProjectDefinition,
        mode: ControlMode,
        ctx: &DomainContext<'_>,
    ) -> Result<(Self, Vec<ProjectEvent>), ProjectError> {
        let created = ProjectEvent::Created { name: definition.brief.name.clone() };
        let project = Self {
            id,
            owner_id,
            definition,
            control_mode: ControlModeSetting::new(mode, ctx.now),
            agents: BTreeMap::new(),
            brief_changed_at: None,
            archived_at: None,
            created_at: ctx.now,
            updated_at: ctx.now,
        };
        project.check()?;
        Ok((project, vec![created]))
    }

    /// Replaces the definition. A workstream that agents own cannot be removed.
    pub fn update(
        &mut self,
        definition: ProjectDefinition,
        ctx: &DomainContext<'_>,
    ) -> Result<Vec<ProjectEvent>, ProjectError> {
        let now = ctx.now;
        self.change(ctx, |project| {
            let before = &project.definition;
            if (&before.brief, &before.workstreams) != (&definition.brief, &definition.workstreams) {
                project.brief_changed_at = Some(now);
            }
            project.definition = definition;
            Ok(ProjectEvent::Updated {})
        })
    }

    /// Changes the control mode. Decisions that wait already are not evaluated again.
    pub fn set_control_mode(
        &mut self,
        mode: ControlMode,
        ctx: &DomainContext<'_>,
    ) -> Result<Vec<ProjectEvent>, ProjectError> {
        self.ensure_open()?;
        let Some(change) = self.control_mode.change(mode, ctx.now) else { return Ok(Vec::new()) };
        self.updated_at = ctx.now;
        Ok(vec![ProjectEvent::ControlModeChanged {
            from: change.from,
            to: change.to,
            revision: change.revision,
        }])
    }

    /// Adds an agent, which owns `workstream`.
    pub fn add_agent(
        &mut self,
        agent_id: ProjectAgentId,
        workstream: WorkstreamId,
        ctx: &DomainContext<'_>,
    ) -> Result<Vec<ProjectEvent>, ProjectError> {
        self.ensure_open()?;
        if !self.has_workstream(&workstream) {
            return Err(ProjectError::NoSuchWorkstream(workstream));
        }
        self.change(ctx, |project| {
            project.agents.insert(agent_id, workstream.clone());
            Ok(ProjectEvent::AgentAdded { agent_id, workstream })
        })
    }

    /// Archives the project: no agents start in it any more. Running ones continue.
    pub fn archive(&mut self, ctx: &DomainContext<'_>) -> Vec<ProjectEvent> {
        if self.archived_at.is_some() {
            return Vec::new();
        }
        self.archived_at = Some(ctx.now);
        self.updated_at = ctx.now;
        vec![ProjectEvent::Archived {}]
    }

    pub fn restore(&mut self, ctx: &DomainContext<'_>) -> Vec<ProjectEvent> {
        if self.archived_at.take().is_none() {
            return Vec::new();
        }
        self.updated_at = ctx.now;
        vec![ProjectEvent::Restored {}]
    }

    /// The protocol of the current mode.
    pub fn escalation(&self) -> EscalationProtocol {
        let mode = self.control_mode.mode();
        let own = self.definition.policies.get(&mode).and_then(|policy| policy.escalation.clone());
        own.unwrap_or_else(|| EscalationProtocol::of_mode(mode))
    }

    /// The timeout of a decision that opens now, for an agent with the policy `brief`.
    pub fn timeout_terms(&self, brief: Option<DecisionTimeoutPolicy>, ticks: TickReading) -> TimeoutTerms {
        let mode = self.control_mode.mode();
        let project = self.definition.policies.get(&mode).and_then(|policy| policy.decision_timeout);
        TimeoutTerms::new(mode, &TimeoutOverrides { decision: None, brief, project }, ticks)
    }

    /// What happens to decisions whose session has ended.
    pub fn orphan_policy(&self) -> OrphanedDecisionPolicy {
        let mode = self.control_mode.mode();
        let own = self.definition.policies.get(&mode).and_then(|policy| policy.orphaned_decisions);
        own.unwrap_or_else(|| OrphanedDecisionPolicy::of_mode(mode))
    }

    /// What happens after a crash of an agent with the policy `brief`.
    pub fn crash_recovery(&self, brief: Option<CrashRecoveryPolicy>) -> CrashRecoveryPolicy {
        brief.or(self.definition.crash_recovery).unwrap_or_default()
    }

    /// Records that a person advanced the ticks, which the clock stores.
    pub fn advance_ticks(&mut self, ticks: u64, ctx: &DomainContext<'_>) -> Vec<ProjectEvent> {
        self.updated_at = ctx.now;
        vec![ProjectEvent::TicksAdvanced { ticks }]
    }

    pub fn has_workstream(&self, id: &WorkstreamId) -> bool {
        self.workstream(id).is_some()
    }

    pub fn workstream(&self, id: &WorkstreamId) -> Option<&Workstream> {
        self.definition.workstreams.iter().find(|workstream| workstream.id == *id)
    }

    /// Refuses a change of an archived project.
    pub const fn ensure_open(&self) -> Result<(), ProjectError> {
        if self.archived_at.is_some() { Err(ProjectError::Archived) } else { Ok(()) }
    }

    /// Applies a change to a copy, and keeps the copy if it is within the limits and differs.
    fn change(
        &mut self,
        ctx: &DomainContext<'_>,
        make: impl FnOnce(&mut Self) -> Result<ProjectEvent, ProjectError>,
    ) -> Result<Vec<ProjectEvent>, ProjectError> {
        self.ensure_open()?;
        let mut changed = self.clone();
        let event = make(&mut changed)?;
        if changed == *self {
            return Ok(Vec::new());
        }
        changed.check()?;
        changed.updated_at = ctx.now;
        *self = changed;
        Ok(vec![event])
    }

    fn check(&self) -> Result<(), ProjectError> {
        let definition = &self.definition;
        definition.brief.check()?;
        definition.tick_config.check()?;
        definition.trust.check().map_err(ProjectError::Trust)?;
        ProjectError::check_count("workstreams", definition.workstreams.len(), Self::MAX_WORKSTREAMS)?;
        ProjectError::check_count("agents", self.agents.len(), Self::MAX_AGENTS)?;
        let mut ids = BTreeSet::new();
        for workstream in &definition.workstreams {
            ProjectError::check_count(
                "goals in a workstream",
                workstream.goals.len(),
                Workstream::MAX_GOALS,
            )?;
            if !ids.insert(&workstream.id) {
                return Err(ProjectError::DuplicateWorkstream(workstream.id.clone()));
            }
        }
        if let Some(missing) = self.agents.values().find(|owned| !ids.contains(owned)) {
            return Err(ProjectError::WorkstreamInUse(missing.clone()));
        }
        let bytes = serde_json::to_vec(self).map_or(usize::MAX, |json| json.len());
        if bytes > Self::MAX_BYTES {
            return Err(ProjectError::TooLarge { max_kib: Self::MAX_BYTES / 1024 });
        }
        Ok(())
    }
}

/// Read access.
impl Project {
    pub const fn id(&self) -> ProjectId {
        self.id
    }

    pub const fn owner_id(&self) -> &UserId {
        &self.owner_id
    }

    pub const fn definition(&self) -> &ProjectDefinition {
        &self.definition
    }

    pub const fn control_mode(&self) -> &ControlModeSetting {
        &self.control_mode
    }

    /// The agents, oldest first, with their workstreams.
    pub const fn agents(&self) -> &BTreeMap<ProjectAgentId, WorkstreamId> {
        &self.agents
    }

    /// When goals, rules or workstreams last changed; `None` if they are the first ones.
    pub const fn brief_changed_at(&self) -> Option<Timestamp> {
        self.brief_changed_at
    }

    pub const fn archived_at(&self) -> Option<Timestamp> {
        self.archived_at
    }

    pub const fn created_at(&self) -> Timestamp {
        self.created_at
    }

    pub const fn updated_at(&self) -> Timestamp {
        self.updated_at
    }
}

impl Aggregate for Project {
    type Id = ProjectId;
    type Event = ProjectEvent;

    const KIND: &'static str = "project";

    fn id(&self) -> ProjectId {
        self.id
    }

    fn owner_id(&self) -> &UserId {
        &self.owner_id
    }

    fn unique_name(&self) -> Option<&str> {
        Some(self.definition.brief.name.as_str())
    }
}
