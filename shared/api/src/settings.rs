//! The settings of a server in the API.

use pilothouse_domain::text::AdapterName;
use pilothouse_domain::value::AllowedModels;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How the operator configured the server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ServerSettings {
    /// The adapter of sessions that name none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default_adapter: Option<AdapterName>,
    /// Ids of the models that sessions may use. An id that ends with `*` allows all ids that begin like it. An empty list allows all models.
    #[serde(default)]
    pub allowed_models: AllowedModels,
    /// How many days raw events with what agents said and did, activity, logs, notifications and the decision log are kept. Sessions and
    /// their results are kept without a limit.
    pub retention_days: u16,
    /// Whether a model reviews coherence issues.
    pub reviews_coherence: bool,
    /// Whether texts are compared by an embedding model. Otherwise the built-in engine compares their words.
    #[serde(default)]
    pub embeds_texts: bool,
}
