//! What a session takes, and how full its context is: all of it can be made again from the tree (ruling 31).

use serde_json::Value;

use super::SessionError;
use super::state::{Events, State};
use crate::conversation::{ContextTokens, View};
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
        self.pay(model, &usage, false, events);
        Ok(())
    }

    /// A call that is no message was paid for; `estimated` when nobody told how much.
    pub(crate) fn append_usage(
        &mut self,
        model: &ModelInfo,
        usage: &Usage,
        estimated: bool,
        events: &Events,
    ) -> Result<(), SessionError> {
        let (provider, id) = (model.provider.clone(), model.id.clone());
        let call = Call { provider, model: id, usage: *usage, estimated };
        self.tree.append_custom(USAGE, serde_json::to_value(call).unwrap_or_default())?;
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

    /// Writes down what it took so far, with the prices as they are now.
    pub(crate) fn keep_meters(&mut self) -> Result<(), SessionError> {
        let data = serde_json::to_value(&self.meters).unwrap_or_default();
        if self.tree.latest_custom(METERS) != Some(&data) {
            self.tree.append_custom(METERS, data)?;
        }
        Ok(())
    }

    /// The conversation as it stands now.
    pub(crate) fn view(&mut self) -> &View {
        self.view.follow(&self.tree);
        &self.view
    }

    /// Tokens in the context: what the last answer's provider counted, and an estimate of what came after it.
    pub(crate) fn context_tokens(&mut self) -> ContextTokens {
        self.view().tokens()
    }
}

#[derive(serde::Serialize, serde::Deserialize)]
struct Call {
    provider: String,
    model: String,
    usage: Usage,
    /// Whether it was reckoned, since nobody told.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    estimated: bool,
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
            EntryKind::Message { message } => match &**message {
                AgentMessage::Assistant(answer) if answer.usage != Usage::default() => {
                    add(&answer.provider, &answer.model, &answer.usage, &mut meters);
                }
                _ => {}
            },
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
