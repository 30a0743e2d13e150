//! Models and their prices: from the sidecar's environment, and from the file in `PILOTHOUSE_MODELS`.

use std::path::Path;

use pilothouse_agent::model::registry::{ModelRegistry, ProviderConfig, Secret};
use serde::Deserialize;

use crate::adapter::{AdapterError, EventSink};

const FILE: &str = "PILOTHOUSE_MODELS";

/// The content of the file: `{"providers": [...]}`.
#[derive(Deserialize)]
struct Providers {
    providers: Vec<Provider>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Provider {
    #[serde(flatten)]
    config: ProviderConfig,
    /// Variable that holds the key, as an alternative to `apiKey`.
    #[serde(default)]
    api_key_env: Option<String>,
}

/// All configured models. Registers their keys as secrets to redact.
pub(crate) fn registry(
    variable: impl Fn(&str) -> Option<String>,
    events: &EventSink,
) -> Result<ModelRegistry, AdapterError> {
    let mut registry = ModelRegistry::from_env(&variable);
    if let Some(path) = variable(FILE).filter(|path| !path.is_empty()) {
        for provider in read(Path::new(&path))?.providers {
            let mut config = provider.config;
            if let Some(key) = provider.api_key_env.and_then(|name| variable(&name)) {
                config.api_key = Some(Secret::new(key));
            }
            registry = registry.with(config);
        }
    }
    let keys = registry.providers().iter().filter_map(|provider| provider.api_key.as_ref());
    keys.for_each(|key| events.keep_secret(key.expose()));
    Ok(registry)
}

fn read(path: &Path) -> Result<Providers, AdapterError> {
    // The error must not quote the content, which may contain keys.
    let failed =
        |what: &str| AdapterError::Configuration(format!("the file of model providers ({FILE}) {what}"));
    let text = std::fs::read(path).map_err(|_| failed("cannot be read"))?;
    serde_json::from_slice(&text)
        .map_err(|e| failed(&format!("is not one: an error in line {}, column {}", e.line(), e.column())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spool::tests::open;

    #[test]
    fn file_adds_providers_with_keys_from_variables() {
        let dir = tempfile::tempdir().unwrap();
        let events = EventSink::new(open(dir.path()));
        let file = dir.path().join("models.json");
        let written = r#"{"providers": [{"name": "local", "api": "openai-chat", "baseUrl": "http://127.0.0.1:1/v1/",
            "apiKeyEnv": "LOCAL", "models": [{"id": "small", "contextWindow": 1000}]}]}"#;
        std::fs::write(&file, written).unwrap();
        let variable = |name: &str| match name {
            FILE => Some(file.to_str().unwrap().to_owned()),
            "LOCAL" => Some("a-local-key".to_owned()),
            "VERTEX_API_KEY" => Some("an-access-pass".to_owned()),
            "VERTEX_PROJECT_ID" => Some("project".to_owned()),
            _ => None,
        };
        let registry = registry(variable, &events).unwrap();
        assert_eq!(registry.resolve("local/small").unwrap().context_window, 1000);
        for key in ["a-local-key", "an-access-pass"] {
            assert_eq!(events.spool().redactor().text(key).as_deref(), Some("[secret]"), "{key}");
        }
    }

    #[test]
    fn file_error_shows_none_of_its_content() {
        let dir = tempfile::tempdir().unwrap();
        let events = EventSink::new(open(dir.path()));
        let file = dir.path().join("models.json");
        std::fs::write(&file, r#"{"providers": [{"name": "a", "apiKey": sk-secret}]}"#).unwrap();
        let variable = |name: &str| (name == FILE).then(|| file.to_str().unwrap().to_owned());
        let error = registry(variable, &events).unwrap_err().to_string();
        assert!(error.contains("line 1") && !error.contains("sk-secret"), "{error}");
    }
}
