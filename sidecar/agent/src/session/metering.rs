//! Usage of a session in its tree, from which the totals are recomputed (decision 31).

use serde_json::Value;

use crate::message::{AgentMessage, Usage};
use crate::meter::Meters;
use crate::model::info::ModelInfo;
use crate::model::registry::ModelRegistry;
use crate::tree::{EntryKind, SessionTree, TreeError};

/// Kind of the entries that store the totals.
const METERS: &str = "meters";
/// Kind of the entries that store the usage of calls that are not messages.
const USAGE: &str = "usage";

#[derive(serde::Serialize, serde::Deserialize)]
struct Call {
    provider: String,
    model: String,
    usage: Usage,
    /// Whether the usage was estimated because the provider did not report it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    estimated: bool,
}

/// For a paid call without a message. `estimated`: the provider did not report the usage.
pub(super) fn append_usage(
    tree: &mut SessionTree,
    model: &ModelInfo,
    usage: &Usage,
    estimated: bool,
) -> Result<(), TreeError> {
    let (provider, id) = (model.provider.clone(), model.id.clone());
    let call = Call { provider, model: id, usage: *usage, estimated };
    tree.append_custom(USAGE, serde_json::to_value(call).unwrap_or_default())?;
    Ok(())
}

/// Stores the totals at current prices.
pub(super) fn store_meters(tree: &mut SessionTree, meters: &Meters) -> Result<(), TreeError> {
    let data = serde_json::to_value(meters).unwrap_or_default();
    if tree.latest_custom(METERS) != Some(&data) {
        tree.append_custom(METERS, data)?;
    }
    Ok(())
}

/// The last stored totals, plus later entries on any branch.
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
                AgentMessage::Assistant(reply) if reply.usage != Usage::default() => {
                    add(&reply.provider, &reply.model, &reply.usage, &mut meters);
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
