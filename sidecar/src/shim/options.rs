//! The program of the shim and its limits, from `adapterOptions`.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Map, Value};

use crate::kit::agent_env;

/// Defaults in seconds, and the upper bound. All are below the 60 seconds of decision 12.
const START: u64 = 30;
const REQUEST: u64 = 20;
const GRACE: u64 = 10;
const HEALTH: u64 = 30;
const MAX: u64 = 50;

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Options {
    command: String,
    #[serde(default)]
    args: Vec<String>,
    #[serde(default)]
    env: BTreeMap<String, String>,
    #[serde(default)]
    provider_config: Map<String, Value>,
    start_seconds: Option<u64>,
    request_seconds: Option<u64>,
    grace_seconds: Option<u64>,
    health_seconds: Option<u64>,
    /// Read by the session runner, which wraps every adapter.
    #[serde(default, rename = "deliverables")]
    _deliverables: Option<serde::de::IgnoredAny>,
}

#[derive(Debug, Clone)]
pub(super) struct Launch {
    pub(super) program: String,
    pub(super) arguments: Vec<String>,
    /// Additional environment variables.
    pub(super) environment: BTreeMap<String, String>,
    /// Passed on in the brief.
    pub(super) provider_config: Map<String, Value>,
    pub(super) limits: Limits,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    /// Until the shim is ready, and until a broken event stream is connected again.
    pub(super) start: Duration,
    /// Of a request to the shim.
    pub(super) request: Duration,
    /// Of an agent that is asked to end.
    pub(super) grace: Duration,
    /// Between two health checks.
    pub(super) health: Duration,
}

impl Launch {
    /// Reads the options. `variable` reads variables of the sidecar. The error is a sentence for people.
    pub(super) fn read(options: &Value, variable: impl Fn(&str) -> Option<String>) -> Result<Self, String> {
        let options = Options::deserialize(options)
            .map_err(|e| format!("the adapter options are not those of `shim`: {e}"))?;
        if options.command.trim().is_empty() {
            return Err("`command` in the adapter options is empty".into());
        }
        let mut wrong = Vec::new();
        let mut limit = |name: &str, given: Option<u64>, default: u64| {
            let seconds = given.unwrap_or(default);
            if !(1..=MAX).contains(&seconds) {
                wrong.push(format!("`{name}` is not between 1 and {MAX}"));
            }
            Duration::from_secs(seconds)
        };
        let limits = Limits {
            start: limit("startSeconds", options.start_seconds, START),
            request: limit("requestSeconds", options.request_seconds, REQUEST),
            grace: limit("graceSeconds", options.grace_seconds, GRACE),
            health: limit("healthSeconds", options.health_seconds, HEALTH),
        };
        let environment = agent_env::resolved(options.env, variable).unwrap_or_else(|error| {
            wrong.push(error);
            BTreeMap::new()
        });
        if !wrong.is_empty() {
            return Err(wrong.join("; "));
        }
        Ok(Self {
            program: options.command,
            arguments: options.args,
            environment,
            provider_config: options.provider_config,
            limits,
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(options: &Value) -> Result<Launch, String> {
        Launch::read(options, |name| (name == "OPENAI_API_KEY").then(|| "sk-1".to_owned()))
    }

    #[test]
    fn every_wrong_option_is_named() {
        assert!(read(&Value::Null).is_err() && read(&json!({ "command": " " })).is_err());
        let wrong = read(&json!({ "command": "x", "startSeconds": 0, "graceSeconds": 51,
            "env": { "A": "$NONE", "B": "$PILOTHOUSE_SECRET" } }))
        .unwrap_err();
        for word in ["startSeconds", "graceSeconds", "env.A", "env.B"] {
            assert!(wrong.contains(word), "{wrong}");
        }
        assert!(read(&json!({ "comand": "x" })).is_err());
    }

    #[test]
    fn limits_have_the_defaults_of_the_specification() {
        let limits = read(&json!({ "command": "x" })).unwrap().limits;
        assert_eq!((limits.start, limits.grace), (Duration::from_secs(30), Duration::from_secs(10)));
        assert_eq!(limits.health, Duration::from_secs(30), "the third failed check is after 90 seconds");
    }

    #[test]
    fn variable_can_refer_to_one_of_the_sidecar() {
        let launch = read(&json!({ "command": "x", "env": { "KEY": "$OPENAI_API_KEY", "A": "b" } })).unwrap();
        assert_eq!((launch.environment["KEY"].as_str(), launch.environment["A"].as_str()), ("sk-1", "b"));
        assert_eq!(launch.limits.request, Duration::from_secs(20));
    }
}
