//! Secrets of agents. A launch names them; a worker or a task has their values (decision 92).

use std::collections::BTreeMap;
use std::fmt;

use pilothouse_domain::project_agent::{SecretRef, SecretScope};
use pilothouse_domain::{ProjectAgentId, ProjectId};
use serde::{Deserialize, Serialize};

use crate::launch::LaunchRequest;

/// Variable of a sidecar with the secrets that it may give to its agent: a [`SecretStore`] as JSON.
pub const VARIABLE: &str = "PILOTHOUSE_AGENT_SECRETS";

/// Fewest bytes of a secret. Redaction does not search for shorter ones.
pub const MIN_BYTES: usize = 8;

/// A secret with the agents that may receive it. As JSON, a plain text is a secret that names none.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "StoredSecret")]
pub struct Secret {
    value: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    agents: Vec<ProjectAgentId>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    projects: Vec<ProjectId>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    adapters: Vec<String>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum StoredSecret {
    Plain(String),
    #[serde(rename_all = "camelCase")]
    Scoped {
        value: String,
        #[serde(default)]
        agents: Vec<ProjectAgentId>,
        #[serde(default)]
        projects: Vec<ProjectId>,
        #[serde(default)]
        adapters: Vec<String>,
    },
}

impl From<StoredSecret> for Secret {
    fn from(stored: StoredSecret) -> Self {
        match stored {
            StoredSecret::Plain(value) => Self::unscoped(value),
            StoredSecret::Scoped { value, agents, projects, adapters } => {
                Self { value, agents, projects, adapters }
            }
        }
    }
}

impl Secret {
    /// A secret that names no agent, project or adapter.
    pub const fn unscoped(value: String) -> Self {
        Self { value, agents: Vec::new(), projects: Vec::new(), adapters: Vec::new() }
    }

    /// Whether the agent of a launch may receive the secret in this scope. `names_needed`: the secret must name the agent or its project.
    fn is_for(&self, request: &LaunchRequest, scope: SecretScope, names_needed: bool) -> bool {
        let Some(agent) = &request.agent else { return false };
        let is_of_adapter = self.adapters.is_empty() || self.adapters.contains(&request.adapter);
        let is_named = match scope {
            SecretScope::Agent => self.agents.contains(&agent.agent_id),
            SecretScope::Project => self.projects.contains(&agent.project_id),
        };
        let names_none = self.agents.is_empty() && self.projects.is_empty();
        is_of_adapter && (is_named || (names_none && !names_needed))
    }
}

/// Secrets by key.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SecretStore(BTreeMap<String, Secret>);

/// A text is not a JSON object of secrets. The error has the position only, because the text may contain secrets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the secrets are not a JSON object of texts or objects with `value` (line {line}, column {column})")]
pub struct InvalidSecrets {
    line: usize,
    column: usize,
}

/// Secrets that a launch names, but its agent does not get.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
pub struct MissingSecrets(pub Vec<MissingSecret>);

/// Why an agent does not get a secret.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MissingSecret {
    /// The store does not have it, or it does not name the agent or project of the scope, or excludes the adapter.
    #[error(
        "the agent gets no secret `{key}` for the variable {name}: its worker or task must have the secret, and the secret must name the \
         {scope}; otherwise change `secretRefs` of the brief"
    )]
    Unknown {
        /// The variable.
        name: String,
        /// The key.
        key: String,
        /// The scope of the reference.
        scope: SecretScope,
    },
    /// Redaction cannot find so short a secret.
    #[error(
        "the secret `{key}` has fewer than {MIN_BYTES} bytes, so it cannot be kept out of the output of the agent"
    )]
    TooShort {
        /// The key.
        key: String,
    },
}

impl SecretStore {
    /// Parses a JSON object.
    pub fn parse(json: &str) -> Result<Self, InvalidSecrets> {
        serde_json::from_str(json)
            .map_err(|error| InvalidSecrets { line: error.line(), column: error.column() })
    }

    /// Adds a secret, which replaces one with the same key.
    #[must_use]
    pub fn with(mut self, key: impl Into<String>, secret: Secret) -> Self {
        self.0.insert(key.into(), secret);
        self
    }

    /// The secrets that the launch names and its agent may receive. In the result, they name this agent or its project.
    /// `names_needed`: without secrets that name no agent or project.
    #[must_use]
    pub fn for_launch(&self, request: &LaunchRequest, names_needed: bool) -> Self {
        let Some(agent) = &request.agent else { return Self::default() };
        let mut found = Self::default();
        for SecretRef { vault_key, scope, .. } in &request.secrets {
            if let Some(secret) = self.0.get(vault_key).filter(|it| it.is_for(request, *scope, names_needed))
            {
                let entry = found.0.entry(vault_key.clone());
                let entry = entry.or_insert_with(|| Secret::unscoped(secret.value.clone()));
                match scope {
                    SecretScope::Agent => entry.agents.push(agent.agent_id),
                    SecretScope::Project => entry.projects.push(agent.project_id),
                }
            }
        }
        found
    }

    /// The values of the secrets that a launch names, by variable. Each must name the agent or its project.
    pub fn resolve(&self, request: &LaunchRequest) -> Result<BTreeMap<String, String>, MissingSecrets> {
        let (mut values, mut missing) = (BTreeMap::new(), Vec::new());
        for SecretRef { name, vault_key, scope } in &request.secrets {
            let secret = self.0.get(vault_key).filter(|secret| secret.is_for(request, *scope, true));
            match secret.map(|secret| secret.value.as_str()) {
                Some(value) if value.trim().len() < MIN_BYTES => {
                    missing.push(MissingSecret::TooShort { key: vault_key.clone() });
                }
                Some(value) => drop(values.insert(name.clone(), value.to_owned())),
                None => missing.push(MissingSecret::Unknown {
                    name: name.clone(),
                    key: vault_key.clone(),
                    scope: *scope,
                }),
            }
        }
        if missing.is_empty() { Ok(values) } else { Err(MissingSecrets(missing)) }
    }

    /// Whether there are no secrets.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl fmt::Debug for SecretStore {
    /// Prints keys only.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

impl fmt::Debug for Secret {
    /// Does not print the value.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Secret").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use uuid::Uuid;

    use super::*;

    const VALUE: &str = "a long secret";

    fn request(adapter: &str, refs: &serde_json::Value) -> LaunchRequest {
        let id = |n| Uuid::from_u128(n).to_string();
        let request = json!({
            "sessionId": id(1), "runId": id(2), "ordinal": 1, "adapter": adapter, "workingDirectory": "/w",
            "agent": { "projectId": id(3), "agentId": id(4), "workstream": "api" }, "secrets": refs,
        });
        serde_json::from_value(request).unwrap()
    }

    fn named(key: &str) -> serde_json::Value {
        json!([{ "name": "TOKEN", "vaultKey": key, "scope": "agent" }])
    }

    fn store(secret: &serde_json::Value) -> SecretStore {
        SecretStore::parse(&json!({ "key": secret, "other": "not for anybody" }).to_string()).unwrap()
    }

    #[test]
    fn secret_reaches_the_agents_that_it_names() {
        let (agent, project) = (Uuid::from_u128(4).to_string(), Uuid::from_u128(3).to_string());
        let stranger = Uuid::from_u128(9).to_string();
        let of_project = json!([{ "name": "TOKEN", "vaultKey": "key", "scope": "project" }]);
        for (secret, refs, is_found) in [
            (json!({ "value": VALUE, "agents": [agent] }), named("key"), true),
            (json!({ "value": VALUE, "agents": [stranger] }), named("key"), false),
            (json!({ "value": VALUE, "projects": [project] }), named("key"), false),
            (json!({ "value": VALUE, "projects": [project] }), of_project.clone(), true),
            (json!({ "value": VALUE, "agents": [agent] }), of_project, false),
            (json!({ "value": VALUE, "agents": [agent], "adapters": ["claude"] }), named("key"), true),
            (json!({ "value": VALUE, "agents": [agent], "adapters": ["acp"] }), named("key"), false),
            (json!(VALUE), named("key"), false),
        ] {
            let found = store(&secret).resolve(&request("claude", &refs));
            let expected = BTreeMap::from([("TOKEN".to_owned(), VALUE.to_owned())]);
            assert_eq!(found.ok(), is_found.then_some(expected), "{secret}");
        }
        let mut outside = request("claude", &named("key"));
        outside.agent = None;
        assert!(store(&json!({ "value": VALUE, "agents": [agent] })).resolve(&outside).is_err());
    }

    #[test]
    fn worker_passes_on_only_what_the_launch_names() {
        let request = request("claude", &named("key"));
        let store = store(&json!(VALUE));
        assert!(store.for_launch(&request, true).is_empty(), "it names nobody");
        let passed = serde_json::to_string(&store.for_launch(&request, false)).unwrap();
        assert!(!passed.contains("not for anybody"), "{passed}");
        let received = SecretStore::parse(&passed).unwrap();
        assert_eq!(received.resolve(&request).unwrap()["TOKEN"], VALUE);
    }

    #[test]
    fn missing_secrets_are_named_and_values_are_not() {
        let refs = json!([{ "name": "A", "vaultKey": "none" }, { "name": "B", "vaultKey": "key" }]);
        let agent = Uuid::from_u128(4).to_string();
        let store = store(&json!({ "value": "short", "agents": [agent] }));
        let missing = store.resolve(&request("claude", &refs)).unwrap_err().to_string();
        assert!(missing.contains("no secret `none` for the variable A: "), "{missing}");
        assert!(missing.contains("the secret must name the agent"), "{missing}");
        assert!(missing.contains("`key` has fewer than 8 bytes") && !missing.contains("short"), "{missing}");
        let invalid = SecretStore::parse("{ \"key\": [\"topsecret\"] }").unwrap_err().to_string();
        assert!(!invalid.contains("topsecret"), "{invalid}");
        assert!(!format!("{store:?}").contains("short"));
    }
}
