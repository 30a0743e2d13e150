//! Keeps secrets out of what is told: whatever is spooled is searched for the secrets that the sidecar knows, and they are
//! replaced before it is written. An agent reads files and runs commands, and a provider's error may quote a key; whoever
//! watches the session is not to see them.
//!
//! What is known: the keys of the run, and the values of variables whose names say that they are secret. Adapters add what
//! they read elsewhere. A secret in another shape (encoded, cut in two) is not recognised.

use std::sync::{Arc, PoisonError, RwLock};

use pilothouse_wire::RawEvent;
use pilothouse_wire::launch::{BrokerAccess, SidecarLaunch};

/// What stands in place of a secret.
pub const IN_PLACE: &str = "[secret]";

/// Shorter values are not replaced: they would be found by chance.
const LEAST: usize = 8;

/// Variables whose names end so hold secrets.
const SECRET_ENDINGS: [&str; 5] = ["KEY", "TOKEN", "SECRET", "PASSWORD", "CREDENTIALS"];

/// Knows secrets, and replaces them. Cheap to clone; the clones know the same.
#[derive(Clone, Default)]
pub struct Redactor(Arc<RwLock<Vec<String>>>);

impl std::fmt::Debug for Redactor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Redactor").finish_non_exhaustive()
    }
}

impl Redactor {
    /// Knows the keys of a run, and those of this process's environment.
    pub fn of(launch: &SidecarLaunch) -> Self {
        let redactor = Self::default();
        let (BrokerAccess::Gateway { token, .. } | BrokerAccess::Sqs { token, .. }) = &launch.broker;
        redactor.keep(token.as_str());
        redactor.keep(&launch.agent_api.api_key);
        if let Ok(serde_json::Value::String(key)) = serde_json::to_value(&launch.envelope_key) {
            redactor.keep(&key);
        }
        for (name, value) in std::env::vars_os() {
            if let (Some(name), Some(value)) = (name.to_str(), value.to_str())
                && is_secret(name)
            {
                redactor.keep(value);
            }
        }
        redactor
    }

    /// Has one more value replaced from here on.
    pub fn keep(&self, secret: &str) {
        let secret = secret.trim();
        if secret.len() < LEAST {
            return;
        }
        // As it stands within JSON.
        let quoted = serde_json::Value::from(secret).to_string();
        let escaped = quoted[1..quoted.len() - 1].to_owned();
        let mut known = self.0.write().unwrap_or_else(PoisonError::into_inner);
        if !known.contains(&escaped) {
            known.push(escaped);
            // One may be part of another.
            known.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
        }
    }

    /// The JSON without secrets; none when there are none in it.
    pub fn clean(&self, json: &str) -> Option<String> {
        let known = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let mut found = known.iter().filter(|secret| json.contains(secret.as_str())).peekable();
        found.peek()?;
        Some(found.fold(json.to_owned(), |json, secret| json.replace(secret.as_str(), IN_PLACE)))
    }

    /// The event without secrets.
    pub fn event(&self, event: RawEvent) -> Result<RawEvent, serde_json::Error> {
        match self.clean(&serde_json::to_string(&event)?) {
            None => Ok(event),
            Some(json) => serde_json::from_str(&json),
        }
    }
}

fn is_secret(variable: &str) -> bool {
    let name = variable.to_ascii_uppercase();
    SECRET_ENDINGS.iter().any(|ending| name.ends_with(ending))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_known_is_replaced_wherever_it_stands() {
        let redactor = Redactor::default();
        redactor.keep("sk-ant-1234567890");
        redactor.keep("sk-ant-1234567890-and-more");
        redactor.keep("with \"quotes\" and \\");
        redactor.keep("short");
        let said = RawEvent::LogChunk {
            stream: "bash".into(),
            content: "a=sk-ant-1234567890, b=sk-ant-1234567890-and-more short with \"quotes\" and \\".into(),
        };
        let RawEvent::LogChunk { content, .. } = redactor.event(said).unwrap() else {
            panic!("another event")
        };
        assert_eq!(content, "a=[secret], b=[secret] short [secret]");
    }

    #[test]
    fn variables_are_secret_by_their_names() {
        for name in ["ANTHROPIC_API_KEY", "PILOTHOUSE_TOKEN", "aws_secret_access_key", "DB_PASSWORD"] {
            assert!(is_secret(name), "{name}");
        }
        assert!(!is_secret("PATH") && !is_secret("ANTHROPIC_BASE_URL"));
    }
}
