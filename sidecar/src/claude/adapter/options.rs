//! What the owner of a session sets for this adapter alone (`adapterOptions`).

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use crate::adapter::AdapterError;

/// How freely the agent may use tools; the binary's own words for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum PermissionMode {
    /// What changes something is asked for.
    #[default]
    Default,
    /// Edits within the working directory are not asked for.
    AcceptEdits,
    /// It reads and plans only.
    Plan,
    /// What is not allowed already is denied.
    DontAsk,
    /// Nothing is asked for. Only where the machine itself is the fence.
    BypassPermissions,
}

impl PermissionMode {
    /// Its name on the command line and in control requests.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Default => "default",
            Self::AcceptEdits => "acceptEdits",
            Self::Plan => "plan",
            Self::DontAsk => "dontAsk",
            Self::BypassPermissions => "bypassPermissions",
        }
    }
}

/// The options. Unknown ones are left to others.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct AdapterOptions {
    /// Where the binary is; otherwise `PILOTHOUSE_CLAUDE`, or `claude` on the path.
    pub binary: Option<String>,
    /// How freely it may use tools once it does not plan.
    pub permission_mode: PermissionMode,
    /// Whether it begins in plan mode.
    pub start_in_plan_mode: bool,
    /// The most model calls of a turn.
    pub max_turns: Option<u32>,
    /// The model that takes over when the first one is overloaded.
    pub fallback_model: Option<String>,
    /// Models that it can be set to, in the order in which they are cycled.
    pub models: Vec<String>,
    /// Tools that it may not use.
    pub disallowed_tools: Vec<String>,
    /// Environment variables of the sidecar that are passed on beside the chosen ones, by name.
    pub pass_environment: Vec<String>,
    /// Environment variables that are set for it. Not for secrets: configurations are read by whoever may see the session.
    pub environment: BTreeMap<String, String>,
    /// Where it keeps its settings and conversations; otherwise its own default, or the session's folder.
    pub config_directory: Option<String>,
    /// More arguments for the command line.
    pub extra_arguments: Vec<String>,
}

impl AdapterOptions {
    /// Reads them; nothing at all means the defaults.
    pub(super) fn read(options: &Value) -> Result<Self, AdapterError> {
        if options.is_null() {
            return Ok(Self::default());
        }
        serde_json::from_value(options.clone())
            .map_err(|e| AdapterError::Configuration(format!("adapterOptions: {e}")))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn options_have_defaults_and_a_wrong_one_is_named() {
        assert_eq!(AdapterOptions::read(&Value::Null).unwrap(), AdapterOptions::default());
        let read = AdapterOptions::read(&json!({ "permissionMode": "acceptEdits", "speed": 3 })).unwrap();
        assert_eq!(read.permission_mode, PermissionMode::AcceptEdits);
        let wrong = AdapterOptions::read(&json!({ "permissionMode": "yes" })).unwrap_err().to_string();
        assert!(wrong.contains("adapterOptions") && wrong.contains("yes"), "{wrong}");
    }
}
