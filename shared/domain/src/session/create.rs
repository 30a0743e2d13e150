//! Creating a session.

use super::decisions::DecisionChanges;
use super::{
    Adjustments, AgentSession, ChainLink, Checkpoints, ConfigurationState, Delivery, Hold, Progress,
    Requests, Review, RunState, SessionDefinition, SessionSettings, Spending, State,
};
use crate::text::{AdapterName, ModelId, Objective, SessionName, WorkingDirectory};
use crate::value::{AutoContinueConfig, ExecutionMode, MessageImage, ProjectMembership, SessionBudget};
use crate::{AgentSessionId, AgentTemplateId, DomainContext, Events, SessionEvent, UserId};

/// Input for creating a session (S0 8.7 `StartAgentSessionCommand`).
#[derive(Debug, Clone, PartialEq)]
pub struct NewSession {
    pub id: AgentSessionId,
    pub owner_id: UserId,
    pub template_id: Option<AgentTemplateId>,
    /// If missing, the name is made from the objective.
    pub name: Option<SessionName>,
    pub working_directory: WorkingDirectory,
    pub objective: Objective,
    pub model_id: ModelId,
    pub budget: SessionBudget,
    pub auto_continue: Option<AutoContinueConfig>,
    pub settings: SessionSettings,
}

impl AgentSession {
    /// Creates a session in status Queued.
    pub fn create(new: NewSession, ctx: &DomainContext<'_>) -> (Self, Events) {
        let name = new.name.unwrap_or_else(|| SessionName::from_objective(&new.objective));
        let created = SessionEvent::Created {
            objective: new.objective.as_str().to_owned(),
            model_id: new.model_id.as_str().to_owned(),
        };
        let definition = SessionDefinition::new(
            new.template_id,
            name,
            new.working_directory,
            new.objective,
            new.model_id,
            new.settings,
        );
        let session = Self {
            id: new.id,
            owner_id: new.owner_id,
            definition,
            state: State::Queued,
            cancel_accepted: false,
            run_state: RunState::new(),
            delivery: Delivery::default(),
            requests: Requests::default(),
            grants: Vec::new(),
            decision_changes: DecisionChanges::default(),
            adjustments: Adjustments::default(),
            configuration: ConfigurationState::default(),
            spending: Spending::new(new.budget),
            review: Review::default(),
            progress: Progress::default(),
            auto_continue: new
                .auto_continue
                .map(|auto| AutoContinueConfig { current_continuation_count: 0, ..auto }),
            retry: None,
            chain: ChainLink::default(),
            hold: Hold::default(),
            checkpoints: Checkpoints::default(),
            kill: None,
            process_restart: None,
            full_disk: None,
            api_key_hash: None,
            started_at: None,
            completed_at: None,
            created_at: ctx.now,
            updated_at: ctx.now,
            control_version: 1,
            journal_sequence: 0,
        };
        (session, vec![created])
    }

    /// Sets the execution mode of a new session, if it is not `Standalone`.
    pub const fn set_execution_mode(&mut self, mode: ExecutionMode) {
        self.definition.execution_mode = mode;
    }

    /// Attaches images to the objective of a new session.
    pub fn attach_images(&mut self, images: Vec<MessageImage>) {
        self.definition.images = images;
    }

    /// Lets another adapter drive a new session. Options are meant for one adapter.
    pub fn use_adapter(&mut self, adapter: AdapterName, options: serde_json::Value) {
        self.definition.settings.adapter = adapter;
        self.definition.settings.adapter_options = options;
    }

    /// Makes a new session the one of an agent of a project. Its continuations belong to the same agent.
    pub fn join_project(&mut self, membership: ProjectMembership) {
        self.definition.project = Some(membership);
    }
}
