//! Which agent is started: `adapterOptions`, or the path in `PILOTHOUSE_ACP_CLAUDE`.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;

use super::agents::{AGENTS, Profile, UNKNOWN, named, recognised};

/// The variable that has the path of `claude-agent-acp`.
pub(super) const CLAUDE: &str = "PILOTHOUSE_ACP_CLAUDE";
/// The agent that it is the path of.
const CLAUDE_NAME: &str = "claude-code-acp";

/// Seconds that an agent may take to end a turn that is interrupted, and the most that it may be given: below the 60 of ruling
/// 12.
const CANCEL: u64 = 40;
const MOST_CANCEL: u64 = 50;

/// `adapterOptions` of a session.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Options {
    /// An agent of the table, by its name.
    agent: Option<String>,
    /// Its program: a path, or a name that is found on the path. An agent's name stands for the agent.
    command: Option<String>,
    /// Its arguments.
    args: Option<Vec<String>>,
    /// Variables of its environment, above the chosen ones.
    #[serde(default)]
    env: BTreeMap<String, String>,
    /// The mode that its conversation begins in.
    mode: Option<String>,
    /// How it authenticates when it asks for that.
    auth_method: Option<String>,
    /// How many seconds it may take to end a turn that is interrupted.
    cancel_seconds: Option<u64>,
    /// For the session runner, which stands around every adapter.
    #[serde(rename = "deliverables")]
    _deliverables: Option<serde::de::IgnoredAny>,
}

/// The agent that is to be started.
#[derive(Debug, Clone)]
pub(super) struct Launch {
    /// What the table says of it.
    pub(super) profile: &'static Profile,
    /// Its program.
    pub(super) program: String,
    /// Its arguments.
    pub(super) arguments: Vec<String>,
    /// Variables that were given for it.
    pub(super) environment: BTreeMap<String, String>,
    /// The mode that its conversation begins in.
    pub(super) mode: Option<String>,
    /// How it authenticates when it asks for that.
    pub(super) auth_method: Option<String>,
    /// How long it may take to end a turn that is interrupted, before it is killed.
    pub(super) cancel: Duration,
}

impl Launch {
    /// Reads the options. `claude` is the path from [`CLAUDE`]. An error is a sentence for a person.
    pub(super) fn read(options: &Value, claude: Option<String>) -> Result<Self, String> {
        let options = match options {
            Value::Null => Options::default(),
            given => Options::deserialize(given)
                .map_err(|e| format!("the adapter options are not those of `acp`: {e}"))?,
        };
        let Options { agent, command, args, env, mode, auth_method, cancel_seconds, .. } = options;
        let cancel = cancel_seconds.unwrap_or(CANCEL);
        if !(1..=MOST_CANCEL).contains(&cancel) {
            return Err(format!("`cancelSeconds` is not between 1 and {MOST_CANCEL}"));
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
            environment: env,
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
    fn without_a_command_the_refusal_is_one_sentence_that_says_what_to_do() {
        let error = Launch::read(&Value::Null, None).unwrap_err();
        assert!(error.contains("PILOTHOUSE_ACP_CLAUDE") && error.contains("gemini"), "{error}");
        assert!(!error.contains('\n'));
        assert!(Launch::read(&json!({"command": " "}), None).is_err());
        assert!(Launch::read(&json!({"agent": "nobody"}), None).unwrap_err().contains("nobody"));
        assert!(Launch::read(&json!({"comand": "x"}), None).is_err());
        assert!(Launch::read(&json!({"agent": "goose", "cancelSeconds": 60}), None).is_err());
    }

    #[test]
    fn a_known_name_stands_for_its_command_and_arguments() {
        let launch = Launch::read(&json!({"command": "gemini"}), None).unwrap();
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
    fn the_configured_claude_is_used_when_nothing_else_is_said() {
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
