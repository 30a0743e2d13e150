//! Selects the agent to start, from `adapterOptions` or from the path in `PILOTHOUSE_ACP_CLAUDE`.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;

use super::agents::{AGENTS, Profile, UNKNOWN, named, recognised};
use crate::kit::agent_env;

/// Variable with the path of `claude-agent-acp`.
pub(super) const CLAUDE: &str = "PILOTHOUSE_ACP_CLAUDE";
const CLAUDE_NAME: &str = "claude-code-acp";

/// Default and upper bound in seconds. Below the 60 seconds of decision 12.
const CANCEL: u64 = 40;
const MAX_CANCEL: u64 = 50;

/// `adapterOptions` of a session.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Options {
    agent: Option<String>,
    /// The program: a path, a name in `PATH`, or the name of a known agent.
    command: Option<String>,
    args: Option<Vec<String>>,
    /// Additional environment variables.
    #[serde(default)]
    env: BTreeMap<String, String>,
    /// Initial mode of the conversation.
    mode: Option<String>,
    /// Authentication method, if the agent demands one.
    auth_method: Option<String>,
    /// Seconds for ending an interrupted turn.
    cancel_seconds: Option<u64>,
    /// Read by the session runner, which wraps every adapter.
    #[serde(rename = "deliverables")]
    _deliverables: Option<serde::de::IgnoredAny>,
}

#[derive(Debug, Clone)]
pub(super) struct Launch {
    pub(super) profile: &'static Profile,
    pub(super) program: String,
    pub(super) arguments: Vec<String>,
    /// Additional environment variables.
    pub(super) environment: BTreeMap<String, String>,
    /// Initial mode of the conversation.
    pub(super) mode: Option<String>,
    /// Authentication method, if the agent demands one.
    pub(super) auth_method: Option<String>,
    /// How long the agent may take to end an interrupted turn before it is killed.
    pub(super) cancel: Duration,
}

impl Launch {
    /// Reads the options. `claude` is the path from [`CLAUDE`]. The error is a sentence for people.
    pub(super) fn read(options: &Value, claude: Option<String>) -> Result<Self, String> {
        let options = match options {
            Value::Null => Options::default(),
            given => Options::deserialize(given)
                .map_err(|e| format!("the adapter options are not those of `acp`: {e}"))?,
        };
        let Options { agent, command, args, env, mode, auth_method, cancel_seconds, .. } = options;
        let cancel = cancel_seconds.unwrap_or(CANCEL);
        if !(1..=MAX_CANCEL).contains(&cancel) {
            return Err(format!("`cancelSeconds` is not between 1 and {MAX_CANCEL}"));
        }
        let by_name = match &agent {
            Some(name) => {
                Some(named(name).ok_or_else(|| format!("there is no agent `{name}`; {}", known()))?)
            }
            None => command.as_deref().and_then(named),
        };
        let command = command.filter(|command| by_name.is_none_or(|profile| profile.name != command));
        let claude = claude.filter(|path| !path.trim().is_empty());
        let (profile, program, arguments) = match (by_name, command, claude) {
            (profile, Some(program), _) => {
                let profile = profile.or_else(|| recognised(file_name(&program))).unwrap_or(UNKNOWN);
                (profile, program, args.unwrap_or_default())
            }
            (Some(profile), None, claude) => {
                let own = profile.command.first().copied().unwrap_or_default().to_owned();
                let program = claude.filter(|_| profile.name == CLAUDE_NAME).unwrap_or(own);
                let rest = profile.command.iter().skip(1).map(|s| (*s).to_owned());
                (profile, program, args.unwrap_or_else(|| rest.collect()))
            }
            (None, None, Some(program)) => {
                (named(CLAUDE_NAME).unwrap_or(UNKNOWN), program, args.unwrap_or_default())
            }
            (None, None, None) => {
                return Err(format!(
                    "no agent is configured: give `command` or `agent` in the adapter options, or set {CLAUDE}; {}",
                    known()
                ));
            }
        };
        if program.trim().is_empty() {
            return Err("the command of the agent is empty".into());
        }
        Ok(Self {
            profile,
            program,
            arguments,
            environment: agent_env::resolved(env, agent_env::own_variable)?,
            mode,
            auth_method,
            cancel: Duration::from_secs(cancel),
        })
    }
}

fn known() -> String {
    let names: Vec<_> = AGENTS.iter().map(|profile| profile.name).collect();
    format!("known agents are {}", names.join(", "))
}

fn file_name(program: &str) -> &str {
    Path::new(program).file_name().and_then(|name| name.to_str()).unwrap_or(program)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn missing_command_is_refused_in_one_sentence_with_a_hint() {
        let error = Launch::read(&Value::Null, None).unwrap_err();
        assert!(error.contains("PILOTHOUSE_ACP_CLAUDE") && error.contains("gemini"), "{error}");
        assert!(!error.contains('\n'));
        assert!(Launch::read(&json!({"command": " "}), None).is_err());
        assert!(Launch::read(&json!({"agent": "nobody"}), None).unwrap_err().contains("nobody"));
        assert!(Launch::read(&json!({"comand": "x"}), None).is_err());
        assert!(Launch::read(&json!({"agent": "goose", "cancelSeconds": 60}), None).is_err());
    }

    #[test]
    fn known_agent_name_expands_to_its_command_and_arguments() {
        let launch = Launch::read(&json!({"command": "gemini", "env": {"A": "b"}}), None).unwrap();
        assert_eq!(launch.environment, [("A".to_owned(), "b".to_owned())].into());
        assert_eq!(
            (launch.program.as_str(), launch.arguments.as_slice()),
            ("gemini", ["--acp".to_owned()].as_slice())
        );
        let launch =
            Launch::read(&json!({"agent": "goose", "command": "/opt/goose", "args": ["acp", "-v"]}), None)
                .unwrap();
        assert_eq!(
            (launch.program.as_str(), launch.profile.name, launch.arguments.len()),
            ("/opt/goose", "goose", 2)
        );
    }

    #[test]
    fn variable_can_refer_to_one_of_the_sidecar() {
        let read = |value: &str| Launch::read(&json!({ "command": "gemini", "env": { "A": value } }), None);
        assert_eq!(read("$PATH").unwrap().environment["A"], std::env::var("PATH").unwrap());
        let wrong = read("$PILOTHOUSE_SECRET").unwrap_err();
        assert!(wrong.contains("`env.A`"), "{wrong}");
    }

    #[test]
    fn configured_claude_is_the_default() {
        let path = Some("/opt/bin/claude-agent-acp".to_owned());
        for options in [Value::Null, json!({}), json!({"agent": "claude-code-acp"})] {
            let launch = Launch::read(&options, path.clone()).unwrap();
            assert_eq!(
                (launch.program.as_str(), launch.profile.name),
                ("/opt/bin/claude-agent-acp", "claude-code-acp")
            );
        }
        let launch = Launch::read(&json!({"command": "/opt/other"}), path).unwrap();
        assert_eq!((launch.program.as_str(), launch.profile.name), ("/opt/other", "unknown"));
    }
}
