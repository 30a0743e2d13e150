//! Read access to a session.

use super::{
    AgentSession, AgentSessionStatus, Failure, PastRun, PendingCommand, PendingRequest, RecordedOutput, Run,
    RunCause, SessionSettings, State, Turn,
};
use crate::text::{ModelId, Objective, SessionName, WorkingDirectory};
use crate::value::{
    AgentConversations, AllowedModels, AutoContinueConfig, Capabilities, ExecutionMode, MessageImage,
    ProjectMembership, SessionBudget, SessionMetrics, SessionOutcome, SessionPlan, SessionTaskList,
};
use crate::{AgentSessionId, AgentSkillId, AgentTemplateId, SessionChainId, Timestamp, Usd, UserId};

impl AgentSession {
    pub const fn id(&self) -> AgentSessionId {
        self.id
    }

    pub const fn owner_id(&self) -> &UserId {
        &self.owner_id
    }

    pub const fn template_id(&self) -> Option<AgentTemplateId> {
        self.definition.template_id
    }

    pub const fn chain_id(&self) -> Option<SessionChainId> {
        self.chain.chain_id()
    }

    pub const fn name(&self) -> &SessionName {
        &self.definition.name
    }

    pub const fn working_directory(&self) -> &WorkingDirectory {
        &self.definition.working_directory
    }

    pub const fn objective(&self) -> &Objective {
        &self.definition.objective
    }

    /// Images of the objective.
    pub fn images(&self) -> &[MessageImage] {
        &self.definition.images
    }

    pub const fn model_id(&self) -> &ModelId {
        &self.definition.model_id
    }

    /// Models that the template of the session allows.
    pub const fn allowed_models(&self) -> &AllowedModels {
        &self.definition.settings.allowed_models
    }

    pub fn enabled_skill_ids(&self) -> &[AgentSkillId] {
        self.definition.enabled_skill_ids()
    }

    pub const fn execution_mode(&self) -> ExecutionMode {
        self.definition.execution_mode
    }

    /// The agent of a project that the session belongs to.
    pub const fn project(&self) -> Option<&ProjectMembership> {
        self.definition.project.as_ref()
    }

    pub const fn settings(&self) -> &SessionSettings {
        &self.definition.settings
    }

    pub const fn status(&self) -> AgentSessionStatus {
        self.state.status()
    }

    /// Whether the session keeps its status without a process.
    pub const fn hibernated(&self) -> bool {
        self.run_state.is_hibernated()
    }

    /// Whether an output waits for the owner's decision.
    pub const fn has_pending_review(&self) -> bool {
        self.review.is_pending()
    }

    pub const fn budget(&self) -> &SessionBudget {
        self.spending.budget()
    }

    pub const fn metrics(&self) -> &SessionMetrics {
        self.spending.metrics()
    }

    pub const fn auto_continue(&self) -> Option<&AutoContinueConfig> {
        self.auto_continue.as_ref()
    }

    pub const fn task_list(&self) -> Option<&SessionTaskList> {
        self.progress.tasks()
    }

    /// The conversations that the agent reported; `None` while it has a single branch without labels.
    pub const fn conversations(&self) -> Option<&AgentConversations> {
        self.progress.conversations()
    }

    pub const fn plan(&self) -> Option<&SessionPlan> {
        self.requests.plan()
    }

    /// Set once the session has started.
    pub fn api_key_hash(&self) -> Option<&str> {
        self.api_key_hash.as_deref()
    }

    /// The latest output.
    pub const fn output(&self) -> Option<&RecordedOutput> {
        self.review.output()
    }

    /// How the last turn ended (S4); `None` before the first.
    pub const fn last_outcome(&self) -> Option<SessionOutcome> {
        self.review.last_outcome
    }

    /// `None` unless the session is `Failed`.
    pub const fn failure(&self) -> Option<&Failure> {
        match &self.state {
            State::Failed { failure } => Some(failure),
            _ => None,
        }
    }

    pub const fn retry_count(&self) -> u32 {
        match &self.retry {
            Some(retry) => retry.count,
            None => 0,
        }
    }

    /// When the agent first started.
    pub const fn started_at(&self) -> Option<Timestamp> {
        self.started_at
    }

    /// When the session reached a terminal status.
    pub const fn completed_at(&self) -> Option<Timestamp> {
        self.completed_at
    }

    pub const fn created_at(&self) -> Timestamp {
        self.created_at
    }

    pub const fn updated_at(&self) -> Timestamp {
        self.updated_at
    }

    pub const fn run(&self) -> Option<&Run> {
        self.run_state.current()
    }

    /// Runs that have ended, limited to the latest ones.
    pub fn past_runs(&self) -> &[PastRun] {
        self.run_state.past()
    }

    /// Why the session needs a run that it does not have. `None` for a `Queued` session whose budget is used up, and for a session
    /// that a brake holds.
    pub fn slot_wanted(&self) -> Option<RunCause> {
        self.requested_slot().filter(|_| !self.is_held())
    }

    /// Why the session needs a run, also if a brake holds it.
    pub(crate) fn requested_slot(&self) -> Option<RunCause> {
        self.run_state.slot_wanted().filter(|_| !self.waits_for_budget())
    }

    pub const fn turn(&self) -> Option<&Turn> {
        self.delivery.turn()
    }

    /// Oldest first.
    pub fn pending_requests(&self) -> &[PendingRequest] {
        self.requests.pending()
    }

    /// The number of requests and outputs that wait for the owner. A brake suspends requests, but not reviews of outputs.
    pub fn pending_decision_count(&self) -> usize {
        let requests = if self.is_held() { 0 } else { self.pending_requests().len() };
        requests + usize::from(self.has_pending_review())
    }

    /// The command that waits for its acknowledgement.
    pub const fn pending_command(&self) -> Option<&PendingCommand> {
        self.state.pending_command()
    }

    /// Whether a cancellation waits for another request to finish.
    pub const fn cancel_accepted(&self) -> bool {
        self.cancel_accepted
    }

    /// Version of the state that the owner's decisions depend on. Usage, messages and heartbeats do not change it (decision 16).
    pub const fn control_version(&self) -> u64 {
        self.control_version
    }

    /// Sequence of the latest journal entry; 0 before the first.
    pub const fn journal_sequence(&self) -> u64 {
        self.journal_sequence
    }

    /// Capabilities that the adapter of the current run declared; `None` until it has.
    pub fn capabilities(&self) -> Option<Capabilities> {
        self.run_state.capabilities()
    }

    /// Total that the current run may spend over its life (decision 32): the cap less what earlier runs and earlier sessions of the
    /// chain spent.
    pub fn allowance_usd(&self) -> Option<Usd> {
        let others = self.budget().account_usd().excess_over(self.run_state.current()?.spent_usd);
        Some(self.budget().hard_cap_usd().excess_over(others))
    }

    /// The sidecar of the current run has the configuration as it was composed at this time or later. `None` without a run.
    pub fn configured_at(&self) -> Option<Timestamp> {
        let run = self.run()?;
        Some(self.configuration.composed_at().unwrap_or(run.requested_at))
    }

    /// Since when the current run is unreachable; `None` if it is reachable.
    pub fn unreachable_since(&self) -> Option<Timestamp> {
        self.run_state.unreachable_since()
    }

    /// Whether the sidecar of the current run is ready and not being stopped.
    pub fn is_live(&self) -> bool {
        self.run_state.is_live()
    }
}
