//! Keeps secrets out of events: replaces the secrets that the sidecar knows before an event is spooled. Agents read
//! files and run commands, and a provider's error may quote a key, but people who watch the session must not see
//! secrets.
//!
//! Known secrets are the keys of the run and the values of variables with names like `…_TOKEN`. Adapters add secrets
//! that they read elsewhere. A secret is found verbatim and encoded ([`forms`]), across line breaks, and across the
//! pieces of a streamed text ([`RedactedStream`]). Secrets that were altered in another way are not recognised.

mod forms;
mod search;
mod stream;
#[cfg(test)]
mod tests;

use std::sync::{Arc, PoisonError, RwLock};

use pilothouse_wire::RawEvent;
use pilothouse_wire::launch::{BrokerAccess, SidecarLaunch};
use serde_json::Value;

use search::Search;
pub use stream::{RedactedOutput, RedactedStream};

pub const IN_PLACE: &str = "[secret]";

/// Endings of the names of variables that hold secrets.
const SECRET_ENDINGS: [&str; 6] = ["KEY", "TOKEN", "TOKEN_BEDROCK", "SECRET", "PASSWORD", "CREDENTIALS"];

#[derive(Default)]
struct Known {
    secrets: Vec<String>,
    /// Built on first use, and again after another secret was added.
    #[allow(clippy::option_option)] // outer: not built yet; inner: nothing to search for
    search: Option<Option<Search>>,
}

/// Clones share the known secrets.
#[derive(Clone, Default)]
pub struct Redactor(Arc<RwLock<Known>>);

impl std::fmt::Debug for Redactor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Redactor").finish_non_exhaustive()
    }
}

impl Redactor {
    /// Creates a redactor with the keys of a run and the secrets of this process's environment.
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

    pub fn keep(&self, secret: &str) {
        let secret = secret.trim();
        if secret.len() < forms::MIN_SECRET_BYTES {
            return;
        }
        let mut known = self.0.write().unwrap_or_else(PoisonError::into_inner);
        if !known.secrets.iter().any(|known| known == secret) {
            known.secrets.push(secret.to_owned());
            known.search = None;
        }
    }

    /// The text without secrets. `None` if it contains none.
    pub fn text(&self, text: &str) -> Option<String> {
        self.search()?.clean(text)
    }

    /// A redactor for a text that arrives in pieces.
    pub fn stream(&self) -> RedactedStream {
        RedactedStream::new(self.clone())
    }

    /// A redactor for output that arrives in bytes.
    pub fn output(&self) -> RedactedOutput {
        RedactedOutput::new(self.clone())
    }

    /// The JSON without secrets. `None` if it contains none.
    pub fn json(&self, json: &str) -> serde_json::Result<Option<String>> {
        let Some(search) = self.search() else { return Ok(None) };
        let mut value: Value = serde_json::from_str(json)?;
        Ok(clean(&search, &mut value).then(|| value.to_string()))
    }

    /// The value without secrets.
    pub fn value(&self, value: &Value) -> Value {
        let mut value = value.clone();
        if let Some(search) = self.search() {
            clean(&search, &mut value);
        }
        value
    }

    pub fn event(&self, event: RawEvent) -> serde_json::Result<RawEvent> {
        let Some(search) = self.search() else { return Ok(event) };
        let mut value = serde_json::to_value(&event)?;
        if clean(&search, &mut value) { serde_json::from_value(value) } else { Ok(event) }
    }

    fn search(&self) -> Option<Search> {
        {
            let known = self.0.read().unwrap_or_else(PoisonError::into_inner);
            if let Some(search) = &known.search {
                return search.clone();
            }
        }
        let mut known = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let search = Search::for_secrets(&known.secrets);
        known.search.insert(search).clone()
    }
}

/// Redacts all strings of a value. Returns whether there was a secret.
fn clean(search: &Search, value: &mut Value) -> bool {
    match value {
        Value::String(text) => search.clean(text).is_some_and(|clean| {
            *text = clean;
            true
        }),
        Value::Array(values) => values.iter_mut().fold(false, |any, value| clean(search, value) | any),
        Value::Object(fields) => {
            let mut any = fields.values_mut().fold(false, |any, value| clean(search, value) | any);
            if fields.keys().any(|key| search.clean(key).is_some()) {
                any = true;
                let all = std::mem::take(fields).into_iter();
                fields.extend(all.map(|(key, value)| (search.clean(&key).unwrap_or(key), value)));
            }
            any
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

fn is_secret(variable: &str) -> bool {
    let name = variable.to_ascii_uppercase();
    SECRET_ENDINGS.iter().any(|ending| name.ends_with(ending))
}
