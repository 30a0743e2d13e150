//! Usage of a session and the fill level of its context. Both can be recomputed from the tree (decision 31).

use serde_json::Value;

use super::SessionError;
use super::state::{Events, State};
use crate::conversation::{ContextTokens, ConversationView};
use crate::event::SessionEvent;
use crate::message::{AgentMessage, AssistantMessage, Usage};
use crate::meter::Meters;
use crate::model::registry::{ModelInfo, ModelRegistry};
use crate::tree::{EntryKind, SessionTree};

/// Kind of the entries that store the totals.
const METERS: &str = "meters";
/// Kind of the entries that store the usage of calls that are not messages.
const USAGE: &str = "usage";

impl State {
    /// Adds an answer and its usage.
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

    /// Records a paid call that is not a message. `estimated`: the provider did not report the usage.
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

    /// Stores the totals at current prices.
    pub(crate) fn store_meters(&mut self) -> Result<(), SessionError> {
        let data = serde_json::to_value(&self.meters).unwrap_or_default();
        if self.tree.latest_custom(METERS) != Some(&data) {
            self.tree.append_custom(METERS, data)?;
        }
        Ok(())
    }

    /// The current conversation.
    pub(crate) fn view(&mut self) -> &ConversationView {
        self.view.follow(&self.tree);
        &self.view
    }

    /// Tokens in the context: the provider's count for the last answer, plus an estimate of later messages.
    pub(crate) fn context_tokens(&mut self) -> ContextTokens {
        self.view().tokens()
    }
}

#[derive(serde::Serialize, serde::Deserialize)]
struct Call {
    provider: String,
    model: String,
    usage: Usage,
    /// Whether the usage was estimated because the provider did not report it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    estimated: bool,
}

/// The totals of a session: the last stored ones, plus later entries on any branch.
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
