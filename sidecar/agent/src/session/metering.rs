//! What a session takes, and how full its context is: all of it can be made again from the tree (ruling 31).

use serde_json::Value;

use super::SessionError;
use super::state::{Events, State};
use crate::conversation::estimate;
use crate::event::SessionEvent;
use crate::message::{AgentMessage, AssistantMessage, Usage};
use crate::meter::Meters;
use crate::model::registry::{ModelInfo, ModelRegistry};
use crate::tree::{EntryKind, SessionTree};

/// The kind of the entries that hold the meters as they were.
const METERS: &str = "meters";
/// The kind of the entries that hold what calls took that are no messages.
const USAGE: &str = "usage";

impl State {
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

#[derive(serde::Serialize, serde::Deserialize)]
struct Call {
    provider: String,
    model: String,
    usage: Usage,
}

/// What a session took: as it was written down last, and what came after that on any branch.
pub(super) fn meters(tree: &SessionTree, registry: &ModelRegistry) -> Meters {
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
