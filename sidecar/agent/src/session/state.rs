//! What a session holds between its steps: the tree, what waits, and what it took.

use std::collections::{HashMap, VecDeque};
use std::path::Path;
use std::str::FromStr;
use std::sync::Arc;

use pilothouse_domain::Timestamp;
use pilothouse_domain::value::ThinkingLevel;
use serde_json::Value;
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use super::{CompactionResult, Queue, Queued, SessionError, Start};
use crate::conversation::{LOST, estimate, unanswered};
use crate::event::SessionEvent;
use crate::message::{AgentMessage, AssistantMessage, ToolCall, ToolResultMessage, Usage, UserContent};
use crate::meter::Meters;
use crate::model::registry::{ModelInfo, ModelRegistry, RegistryError};
use crate::tool::SharedTool;
use crate::tree::{EntryId, EntryKind, SessionTree};

/// The kind of the entries that hold the meters as they were.
const METERS: &str = "meters";
/// The kind of the entries that hold what calls took that are no messages.
const USAGE: &str = "usage";

/// Tells what happens. Nobody needs to listen.
#[derive(Clone)]
pub(crate) struct Events(pub(crate) mpsc::UnboundedSender<SessionEvent>);

impl Events {
    pub(crate) fn emit(&self, event: SessionEvent) {
        let _ = self.0.send(event);
    }
}

/// What works at the moment.
#[derive(Clone, Default)]
pub(crate) struct Run {
    /// Told that it is to end.
    pub(crate) cancel: CancellationToken,
    /// Tells that it has ended.
    pub(crate) done: CancellationToken,
}

/// A summary that somebody waits for while the agent works.
pub(crate) struct CompactionRequest {
    pub(crate) instructions: Option<String>,
    pub(crate) reply: oneshot::Sender<Result<CompactionResult, SessionError>>,
}

/// A compiled schema; none when it is no schema.
pub(crate) type Schema = Option<Arc<jsonschema::Validator>>;

pub(crate) struct State {
    pub(crate) tree: SessionTree,
    pub(crate) model: ModelInfo,
    pub(crate) thinking: ThinkingLevel,
    pub(crate) steering: VecDeque<Queued>,
    pub(crate) follow_up: VecDeque<Queued>,
    pub(crate) meters: Meters,
    pub(crate) run: Option<Run>,
    pub(crate) compactions: Vec<CompactionRequest>,
    /// Commands that ended while the agent worked: they go into the conversation between its turns.
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
            meters: meters(&tree, registry),
            tree,
            model: chosen,
            thinking: context.thinking.unwrap_or(thinking),
            steering: VecDeque::new(),
            follow_up: VecDeque::new(),
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

    /// Takes up another conversation; what waits, waits for that one.
    pub(crate) fn switch(
        &mut self,
        tree: SessionTree,
        registry: &ModelRegistry,
        events: &Events,
    ) -> Result<(), SessionError> {
        let model = self.model.name();
        let next = Self::new(tree, registry, Some(&model), self.thinking, events)?;
        self.tree = next.tree;
        self.model = next.model;
        self.thinking = next.thinking;
        self.meters = next.meters;
        Ok(())
    }

    /// Begins a run, when none is there.
    pub(crate) fn claim(&mut self) -> Result<Run, SessionError> {
        self.idle()?;
        let run = Run::default();
        self.run = Some(run.clone());
        Ok(run)
    }

    /// An error, when the agent works or the session is closed.
    pub(crate) fn idle(&self) -> Result<(), SessionError> {
        match (&self.run, self.closed) {
            (_, true) => Err(SessionError::Closed),
            (Some(_), false) => Err(SessionError::Busy),
            (None, false) => Ok(()),
        }
    }

    /// Another model answers from here on.
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

    /// It thinks more or less deeply from here on.
    pub(crate) fn think(&mut self, level: ThinkingLevel, events: &Events) -> Result<(), SessionError> {
        if level != self.thinking {
            self.tree.append_thinking_level(level)?;
            self.thinking = level;
            events.emit(SessionEvent::ThinkingLevelChange(level));
        }
        Ok(())
    }

    /// Model and thinking level as they were at the leaf, and a result for each call before it.
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

    /// Gives every call of the last answer a result, so that they are paired in the tree, too (ruling 40).
    pub(crate) fn repair(&mut self, events: &Events) -> Result<(), SessionError> {
        for call in unanswered(&self.tree.context().messages) {
            self.append(AgentMessage::ToolResult(result(&call, LOST, true)), events)?;
        }
        Ok(())
    }

    /// Adds a message, and tells of it.
    pub(crate) fn append(&mut self, message: AgentMessage, events: &Events) -> Result<EntryId, SessionError> {
        let id = self.tree.append_message(message.clone())?;
        events.emit(SessionEvent::MessageEnd { entry_id: id.to_string(), message });
        Ok(id)
    }

    /// Adds an answer, with what it took.
    pub(crate) fn append_answer(
        &mut self,
        answer: AssistantMessage,
        model: &ModelInfo,
        events: &Events,
    ) -> Result<(), SessionError> {
        let usage = answer.usage;
        self.append(AgentMessage::Assistant(answer), events)?;
        self.pay(model, &usage, events);
        Ok(())
    }

    /// A call that is no message was paid for.
    pub(crate) fn append_usage(
        &mut self,
        model: &ModelInfo,
        usage: &Usage,
        events: &Events,
    ) -> Result<(), SessionError> {
        let call = Call { provider: model.provider.clone(), model: model.id.clone(), usage: *usage };
        self.tree.append_custom(USAGE, serde_json::to_value(call).unwrap_or_default())?;
        self.pay(model, usage, events);
        Ok(())
    }

    fn pay(&mut self, model: &ModelInfo, usage: &Usage, events: &Events) {
        let ModelInfo { provider, id, price, context_window, .. } = model;
        self.meters.add(provider, id, usage, price.as_ref());
        events.emit(SessionEvent::Usage {
            provider: provider.clone(),
            model: id.clone(),
            usage: *usage,
            context_tokens: self.context_tokens().value(),
            context_window: *context_window,
        });
    }

    /// Writes down what it took so far, with the prices as they are now.
    pub(crate) fn keep_meters(&mut self) -> Result<(), SessionError> {
        let data = serde_json::to_value(&self.meters).unwrap_or_default();
        if self.tree.latest_custom(METERS) != Some(&data) {
            self.tree.append_custom(METERS, data)?;
        }
        Ok(())
    }

    /// Tokens in the context: what the last answer's provider counted, and an estimate of what came after it.
    pub(crate) fn context_tokens(&self) -> ContextTokens {
        let mut after = 0;
        for entry in self.tree.path().into_iter().rev() {
            match &entry.kind {
                EntryKind::Message { message: AgentMessage::Assistant(answer) }
                    if answer.usage.total() > 0 =>
                {
                    return ContextTokens::Counted(answer.usage.total() + after);
                }
                EntryKind::Message { message } => after += estimate(message),
                EntryKind::Compaction { .. } => {
                    return ContextTokens::Estimated(self.tree.context().messages.iter().map(estimate).sum());
                }
                _ => {}
            }
        }
        ContextTokens::Estimated(after)
    }

    /// How many messages are in the context.
    pub(crate) fn messages(&self) -> usize {
        let (mut count, mut kept) = (0, None);
        for entry in self.tree.path().into_iter().rev() {
            match &entry.kind {
                EntryKind::Message { .. } => count += 1,
                // The summary is a message, and what it kept stands before it.
                EntryKind::Compaction { first_kept, .. } if kept.is_none() => {
                    count += 1;
                    match first_kept {
                        Some(first) => kept = Some(*first),
                        None => return count,
                    }
                }
                _ => {}
            }
            if kept == Some(entry.id) {
                return count;
            }
        }
        count
    }

    /// Whether something waits that the agent goes on with by itself.
    pub(crate) fn waits(&self) -> bool {
        self.is_steered() || !self.follow_up.is_empty() || !self.compactions.is_empty()
    }

    pub(crate) fn is_steered(&self) -> bool {
        !self.steering.is_empty()
    }

    /// Moves messages from their queue into the conversation; each is in one or the other at any time.
    pub(crate) fn inject(&mut self, from: From, events: &Events) -> Result<usize, SessionError> {
        self.flush_bash(events)?;
        let mut count = 0;
        while let Some(next) = self.queue(from).front().cloned() {
            self.append_tagged(stamped(next.message), next.tag, events)?;
            self.queue(from).pop_front();
            self.tell_queues(events);
            count += 1;
            if from == From::OneFollowUp {
                break;
            }
        }
        Ok(count)
    }

    /// Adds what the user ran meanwhile.
    pub(crate) fn flush_bash(&mut self, events: &Events) -> Result<(), SessionError> {
        while let Some(bash) = self.bash.front().cloned() {
            self.append(bash, events)?;
            self.bash.pop_front();
        }
        Ok(())
    }

    pub(crate) fn append_tagged(
        &mut self,
        message: AgentMessage,
        tag: Option<String>,
        events: &Events,
    ) -> Result<(), SessionError> {
        let id = self.append(message, events)?;
        if let Some(tag) = tag {
            events.emit(SessionEvent::Injected { tag, entry_id: id.to_string() });
        }
        Ok(())
    }

    fn queue(&mut self, from: From) -> &mut VecDeque<Queued> {
        match from {
            From::Steering => &mut self.steering,
            From::OneFollowUp | From::FollowUps => &mut self.follow_up,
        }
    }

    pub(crate) fn enqueue(&mut self, queued: Queued, events: &Events) {
        match queued.queue {
            Queue::Steering => self.steering.push_back(queued),
            Queue::FollowUp => self.follow_up.push_back(queued),
        }
        self.tell_queues(events);
    }

    pub(crate) fn take_queued(&mut self, events: &Events) -> Vec<Queued> {
        let all: Vec<Queued> = self.steering.drain(..).chain(self.follow_up.drain(..)).collect();
        if !all.is_empty() {
            self.tell_queues(events);
        }
        all
    }

    fn tell_queues(&self, events: &Events) {
        events.emit(SessionEvent::QueueUpdate {
            steering: self.steering.len(),
            follow_up: self.follow_up.len(),
        });
    }

    /// The compiled schema of a tool's arguments. One that is no schema checks nothing: its tool does.
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

/// How full the context is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ContextTokens {
    /// A provider counted it, up to the last answer. System prompt and tools are in it.
    Counted(u64),
    /// Nobody did. System prompt and tools are not in it.
    Estimated(u64),
}

impl ContextTokens {
    pub(crate) const fn value(self) -> u64 {
        match self {
            Self::Counted(tokens) | Self::Estimated(tokens) => tokens,
        }
    }
}

/// A message that begins a run.
pub(crate) struct Prompt {
    pub(crate) message: AgentMessage,
    pub(crate) tag: Option<String>,
}

/// Which messages go into the conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum From {
    /// All steering messages.
    Steering,
    /// One follow-up.
    OneFollowUp,
    /// All follow-ups.
    FollowUps,
}

/// An entry's id.
pub(super) fn entry(id: &str) -> Result<EntryId, SessionError> {
    EntryId::from_str(id).map_err(|_| SessionError::Entry(id.to_owned()))
}

/// Opens or creates the tree of a session.
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

/// A result that no tool gave.
pub(crate) fn result(call: &ToolCall, text: &str, is_error: bool) -> ToolResultMessage {
    ToolResultMessage {
        tool_call_id: call.id.clone(),
        tool_name: call.name.clone(),
        content: vec![UserContent::Text { text: text.into() }],
        is_error,
        timestamp: now(),
    }
}

/// The time now, for people: nothing is decided by it.
pub(crate) fn now() -> Timestamp {
    Timestamp::from_millis(jiff::Timestamp::now().as_millisecond())
}

/// A message is said when the agent gets it, not when it was queued.
fn stamped(message: AgentMessage) -> AgentMessage {
    match message {
        AgentMessage::User(mut user) => {
            user.timestamp = now();
            AgentMessage::User(user)
        }
        other => other,
    }
}

#[derive(serde::Serialize, serde::Deserialize)]
struct Call {
    provider: String,
    model: String,
    usage: Usage,
}

/// What a session took: as it was written down last, and what came after that on any branch.
fn meters(tree: &SessionTree, registry: &ModelRegistry) -> Meters {
    let mut meters = Meters::default();
    let add = |provider: &str, model: &str, usage: &Usage, meters: &mut Meters| {
        let price = registry.find(provider, model).cloned();
        let price =
            price.or_else(|| registry.resolve(&format!("{provider}/{model}")).ok()).and_then(|m| m.price);
        meters.add(provider, model, usage, price.as_ref());
    };
    for entry in tree.entries() {
        match &entry.kind {
            EntryKind::Message { message: AgentMessage::Assistant(answer) }
                if answer.usage != Usage::default() =>
            {
                add(&answer.provider, &answer.model, &answer.usage, &mut meters);
            }
            EntryKind::Custom { kind, data } if kind == USAGE => {
                if let Some(call) = parsed::<Call>(data) {
                    add(&call.provider, &call.model, &call.usage, &mut meters);
                }
            }
            EntryKind::Custom { kind, data } if kind == METERS => {
                if let Some(kept) = parsed(data) {
                    meters = kept;
                }
            }
            _ => {}
        }
    }
    meters
}

fn parsed<T: serde::de::DeserializeOwned>(data: &Value) -> Option<T> {
    serde_json::from_value(data.clone()).ok()
}
