//! `adapterOptions` of this adapter.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use crate::adapter::AdapterError;
use crate::kit::agent_env;

/// Permission mode, in Claude Code's own terms.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum PermissionMode {
    /// Ask before changes.
    #[default]
    Default,
    /// Allow edits within the working directory without asking.
    AcceptEdits,
    Plan,
    /// Deny what is not already allowed.
    DontAsk,
    /// Allow everything without asking. Only for machines that are themselves isolated.
    BypassPermissions,
}

impl PermissionMode {
    /// Name on the command line and in control requests.
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

/// Unknown options are ignored, because they may belong to other components.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct AdapterOptions {
    /// Path of the binary. Default: `PILOTHOUSE_CLAUDE`, or `claude` in `PATH`.
    pub binary: Option<String>,
    /// Permission mode outside plan mode.
    pub permission_mode: PermissionMode,
    /// Whether a conversation begins in plan mode.
    pub start_in_plan_mode: bool,
    /// Most model calls of a turn.
    pub max_turns: Option<u32>,
    /// The model to use while the first one is overloaded.
    pub fallback_model: Option<String>,
    pub models: Vec<String>,
    /// Tools that the agent may not use.
    pub disallowed_tools: Vec<String>,
    /// Names of further environment variables of the sidecar to pass on.
    pub pass_environment: Vec<String>,
    /// Additional environment variables. `$NAME` is the value of a variable of the sidecar, for secrets.
    #[serde(rename = "env", alias = "environment")]
    pub environment: BTreeMap<String, String>,
    /// Folder for settings and conversations. Default: Claude Code's own, or the session's folder.
    pub config_directory: Option<String>,
    pub extra_arguments: Vec<String>,
}

impl AdapterOptions {
    /// Parses the options; `null` means the defaults.
    pub(super) fn read(options: &Value) -> Result<Self, AdapterError> {
        if options.is_null() {
            return Ok(Self::default());
        }
        let invalid = |error: String| AdapterError::Configuration(format!("adapterOptions: {error}"));
        let mut options: Self =
            serde_json::from_value(options.clone()).map_err(|e| invalid(e.to_string()))?;
        let environment = std::mem::take(&mut options.environment);
        options.environment = agent_env::resolved(environment, agent_env::own_variable).map_err(invalid)?;
        Ok(options)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn options_have_defaults_and_invalid_ones_are_named() {
        assert_eq!(AdapterOptions::read(&Value::Null).unwrap(), AdapterOptions::default());
        let read = AdapterOptions::read(
            &json!({ "permissionMode": "acceptEdits", "speed": 3, "env": { "A": "b" } }),
        )
        .unwrap();
        assert_eq!(read.permission_mode, PermissionMode::AcceptEdits);
        assert_eq!(read.environment, [("A".to_owned(), "b".to_owned())].into());
        let wrong = AdapterOptions::read(&json!({ "permissionMode": "yes" })).unwrap_err().to_string();
        assert!(wrong.contains("adapterOptions") && wrong.contains("yes"), "{wrong}");
    }

    #[test]
    fn variable_can_refer_to_one_of_the_sidecar() {
        let read = |value: &str| AdapterOptions::read(&json!({ "env": { "A": value } }));
        assert_eq!(read("$PATH").unwrap().environment["A"], std::env::var("PATH").unwrap());
        let wrong = read("$PILOTHOUSE_SECRET").unwrap_err().to_string();
        assert!(wrong.contains("`env.A`"), "{wrong}");
    }
}
