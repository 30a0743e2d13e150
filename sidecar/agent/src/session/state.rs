//! State of a session between its steps: the tree, the queues, and the totals.

use std::collections::{HashMap, VecDeque};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;

use pilothouse_domain::value::ThinkingLevel;
use rust_decimal::Decimal;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::{CompactionResult, Queued, SessionError, Start, metering};
use crate::conversation::{ContextTokens, ConversationView, LOST, unanswered};
use crate::event::{Events, SessionEvent};
use crate::message::{AgentMessage, AssistantMessage, Usage, tool_result};
use crate::meter::Meters;
use crate::model::info::ModelInfo;
use crate::model::registry::{ModelRegistry, RegistryError};
use crate::tool::SharedTool;
use crate::tree::{EntryId, SessionTree};

#[derive(Clone, Default)]
pub(crate) struct Run {
    pub(crate) cancel: CancellationToken,
    /// Cancelled once the run has ended.
    pub(crate) done: CancellationToken,
}

/// A caller waits for this compaction while the agent is working.
pub(crate) struct CompactionRequest {
    pub(crate) instructions: Option<String>,
    pub(crate) reply: oneshot::Sender<Result<CompactionResult, SessionError>>,
}

/// `None` if the schema is not valid.
pub(crate) type Schema = Option<Arc<jsonschema::Validator>>;

pub(crate) struct State {
    pub(crate) tree: SessionTree,
    /// The conversation up to the leaf.
    view: ConversationView,
    pub(crate) model: ModelInfo,
    pub(crate) thinking: ThinkingLevel,
    pub(crate) steering: VecDeque<Queued>,
    pub(crate) follow_up: VecDeque<Queued>,
    pub(crate) meters: Meters,
    /// Upper bound for the price of calls that run concurrently with the conversation.
    pub(crate) reserved: Decimal,
    pub(crate) run: Option<Run>,
    pub(crate) compactions: Vec<CompactionRequest>,
    /// Commands that ended while the agent was working. They enter the conversation between turns.
    pub(crate) bash: VecDeque<AgentMessage>,
    pub(crate) schemas: HashMap<String, Schema>,
    pub(crate) closed: bool,
}

impl State {
    pub(crate) fn new(
        tree: SessionTree,
        registry: &ModelRegistry,
        model: Option<&str>,
        thinking: ThinkingLevel,
        events: &Events,
    ) -> Result<Self, SessionError> {
        let context = tree.context();
        let kept = context
            .model
            .as_ref()
            .and_then(|(provider, id)| registry.resolve(&format!("{provider}/{id}")).ok());
        let chosen = match (&kept, model) {
            (Some(kept), _) => kept.clone(),
            (None, Some(name)) => registry.resolve(name)?,
            (None, None) => registry.available().next().cloned().ok_or(RegistryError::Nothing)?,
        };
        let mut state = Self {
            meters: metering::meters(&tree, registry),
            tree,
            view: ConversationView::default(),
            model: chosen,
            thinking: context.thinking.unwrap_or(thinking),
            steering: VecDeque::new(),
            follow_up: VecDeque::new(),
            reserved: Decimal::ZERO,
            run: None,
            compactions: Vec::new(),
            bash: VecDeque::new(),
            schemas: HashMap::new(),
            closed: false,
        };
        if kept.is_none() {
            state.tree.append_model_change(&state.model.provider, &state.model.id)?;
        }
        if context.thinking.is_none() {
            state.tree.append_thinking_level(state.thinking)?;
        }
        state.repair(events)?;
        Ok(state)
    }

    /// Queued messages stay queued.
    pub(crate) fn switch(
        &mut self,
        tree: SessionTree,
        registry: &ModelRegistry,
        events: &Events,
    ) -> Result<(), SessionError> {
        let model = self.model.name();
        let next = Self::new(tree, registry, Some(&model), self.thinking, events)?;
        (self.tree, self.view) = (next.tree, next.view);
        self.model = next.model;
        self.thinking = next.thinking;
        self.meters = next.meters;
        Ok(())
    }

    /// Begins a run if none is in progress.
    pub(crate) fn claim(&mut self) -> Result<Run, SessionError> {
        self.idle()?;
        let run = Run::default();
        self.run = Some(run.clone());
        Ok(run)
    }

    /// Fails if the agent is working or the session is closed.
    pub(crate) fn idle(&self) -> Result<(), SessionError> {
        match (&self.run, self.closed) {
            (_, true) => Err(SessionError::Closed),
            (Some(_), false) => Err(SessionError::Busy),
            (None, false) => Ok(()),
        }
    }

    /// Applies to later calls.
    pub(crate) fn choose(&mut self, model: ModelInfo, events: &Events) -> Result<ModelInfo, SessionError> {
        if model != self.model {
            self.tree.append_model_change(&model.provider, &model.id)?;
            self.model = model.clone();
            events.emit(SessionEvent::ModelChange {
                provider: model.provider.clone(),
                model: model.id.clone(),
            });
        }
        Ok(model)
    }

    /// Applies to later calls.
    pub(crate) fn think(&mut self, level: ThinkingLevel, events: &Events) -> Result<(), SessionError> {
        if level != self.thinking {
            self.tree.append_thinking_level(level)?;
            self.thinking = level;
            events.emit(SessionEvent::ThinkingLevelChange(level));
        }
        Ok(())
    }

    /// Restores the model and the thinking level at the leaf, and adds a result for each call without one.
    pub(crate) fn restore(&mut self, registry: &ModelRegistry, events: &Events) -> Result<(), SessionError> {
        let context = self.tree.context();
        let kept =
            context.model.and_then(|(provider, id)| registry.resolve(&format!("{provider}/{id}")).ok());
        match kept {
            Some(model) if model != self.model => {
                events.emit(SessionEvent::ModelChange {
                    provider: model.provider.clone(),
                    model: model.id.clone(),
                });
                self.model = model;
            }
            Some(_) => {}
            None => drop(self.tree.append_model_change(&self.model.provider, &self.model.id)?),
        }
        match context.thinking {
            Some(level) if level != self.thinking => {
                events.emit(SessionEvent::ThinkingLevelChange(level));
                self.thinking = level;
            }
            Some(_) => {}
            None => drop(self.tree.append_thinking_level(self.thinking)?),
        }
        self.repair(events)
    }

    /// Gives every call of the last reply a result, so that they are paired in the tree, too (decision 40).
    pub(crate) fn repair(&mut self, events: &Events) -> Result<(), SessionError> {
        for call in unanswered(self.tree.up()) {
            self.append(AgentMessage::ToolResult(tool_result(&call, LOST, true)), events)?;
        }
        Ok(())
    }

    pub(crate) fn append(&mut self, message: AgentMessage, events: &Events) -> Result<EntryId, SessionError> {
        let id = self.tree.append_message(message.clone())?;
        events.emit(SessionEvent::MessageEnd { entry_id: id.to_string(), message });
        Ok(id)
    }

    /// Adds a reply and its usage.
    pub(crate) fn append_reply(
        &mut self,
        reply: AssistantMessage,
        model: &ModelInfo,
        events: &Events,
    ) -> Result<(), SessionError> {
        let usage = reply.usage;
        self.append(AgentMessage::Assistant(reply), events)?;
        self.pay(model, &usage, false, events);
        Ok(())
    }

    /// For a paid call without a message. `estimated`: the provider did not report the usage.
    pub(crate) fn append_usage(
        &mut self,
        model: &ModelInfo,
        usage: &Usage,
        estimated: bool,
        events: &Events,
    ) -> Result<(), SessionError> {
        metering::append_usage(&mut self.tree, model, usage, estimated)?;
        self.pay(model, usage, estimated, events);
        Ok(())
    }

    fn pay(&mut self, model: &ModelInfo, usage: &Usage, estimated: bool, events: &Events) {
        let ModelInfo { provider, id, price, context_window, .. } = model;
        self.meters.add(provider, id, usage, price.as_ref());
        let context_tokens = self.context_tokens().value();
        events.emit(SessionEvent::Usage {
            provider: provider.clone(),
            model: id.clone(),
            usage: *usage,
            estimated,
            context_tokens,
            context_window: *context_window,
        });
    }

    /// Stores the totals at current prices.
    pub(crate) fn store_meters(&mut self) -> Result<(), SessionError> {
        Ok(metering::store_meters(&mut self.tree, &self.meters)?)
    }

    pub(crate) fn view(&mut self) -> &ConversationView {
        self.view.follow(&self.tree);
        &self.view
    }

    /// Tokens in the context: the provider's count for the last reply, plus an estimate of later messages.
    pub(crate) fn context_tokens(&mut self) -> ContextTokens {
        self.view().tokens()
    }

    /// The compiled schema of a tool's arguments. Without a valid schema, only the tool checks them.
    pub(crate) fn schema(&mut self, tool: &SharedTool) -> Schema {
        let spec = tool.spec();
        if let Some(known) = self.schemas.get(&spec.name) {
            return known.clone();
        }
        let compiled = jsonschema::validator_for(&spec.input_schema)
            .inspect_err(|error| tracing::warn!(tool = spec.name, %error, "the tool's schema is not valid"))
            .ok()
            .map(Arc::new);
        self.schemas.insert(spec.name.clone(), compiled.clone());
        compiled
    }
}

pub(crate) struct Prompt {
    pub(crate) message: AgentMessage,
    pub(crate) tag: Option<String>,
}

pub(super) fn entry(id: &str) -> Result<EntryId, SessionError> {
    EntryId::from_str(id).map_err(|_| SessionError::Entry(id.to_owned()))
}

/// The file of a session in a folder of sessions. Rejects a string that is not an id, because it could be a path to any
/// place.
pub(super) fn file_of(dir: &Path, session_id: &str) -> Result<PathBuf, SessionError> {
    let unknown = || SessionError::Session(session_id.to_owned());
    let id = Uuid::parse_str(session_id).map_err(|_| unknown())?;
    let file = dir.join(format!("{id}.jsonl"));
    if file.is_file() { Ok(file) } else { Err(unknown()) }
}

pub(crate) fn open_tree(dir: &Path, cwd: &Path, start: Start) -> Result<SessionTree, SessionError> {
    let cwd = cwd.to_string_lossy();
    Ok(match start {
        Start::New { parent } => SessionTree::create(dir, &cwd, parent.as_deref())?,
        Start::File(file) => SessionTree::open(&file)?,
        Start::ContinueRecent => match SessionTree::continue_recent(dir, &cwd)? {
            Some(tree) => tree,
            None => SessionTree::create(dir, &cwd, None)?,
        },
    })
}
