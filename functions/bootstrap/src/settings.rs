//! The settings of a function, read from the environment.

use std::time::Duration;

use pilothouse_app::function::Requirements;
use pilothouse_app::function::requirements::{Access, AssumedRole};
use pilothouse_app::models::{EmbeddingSettings, ModelSettings};
use pilothouse_domain::text::AdapterName;
use pilothouse_domain::value::AllowedModels;
use pilothouse_domain::webhook::EgressPolicy;
use pilothouse_runtime::ecs::EcsSettings;
use pilothouse_store::Retention;

/// The minimum lease of a run on ECS: two heartbeats, because one may be late.
const SHORTEST_LEASE_SECONDS: u64 = 30;

/// The settings. Those that the function does not need may be missing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// Prefix of the names of the deployment's resources.
    pub prefix: String,
    pub table: String,
    pub bucket: String,
    pub secret: Option<String>,
    pub issuer: Option<String>,
    pub audience: Option<String>,
    pub jwks_url: Option<String>,
    /// The address of the HTTP API for workers and sidecars.
    pub api_url: Option<String>,
    /// The address of the management API for live stream connections.
    pub connections_url: Option<String>,
    pub sidecar_role: Option<String>,
    pub worker_role: Option<String>,
    pub bus: Option<String>,
    pub topic_arn: Option<String>,
    pub webhook_egress_policy: EgressPolicy,
    pub web_push_contact: Option<String>,
    /// The model that reviews coherence issues.
    pub model: Option<ModelSettings>,
    /// The secret with the key of that model. `None` if it needs no key.
    pub model_key: Option<String>,
    /// The model that embeds texts.
    pub embeddings: Option<EmbeddingSettings>,
    /// The secret with the key of that model. `None` if it needs no key.
    pub embeddings_key: Option<String>,
    pub operators: Vec<String>,
    pub runtime: RuntimeKind,
    pub default_adapter: Option<AdapterName>,
    pub allowed_models: AllowedModels,
    pub retention: Retention,
    /// The divisor of all deadlines, for tests.
    pub deadline_divisor: u32,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RuntimeKind {
    Workers,
    Ecs(Box<EcsSettings>),
}

/// The environment is incomplete. Lists every error.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the environment of this function is not complete: {}", .0.join("; "))]
pub struct SettingsError(pub Vec<String>);

impl Settings {
    /// Reads the settings for a function with these `requirements`, or for any function if they are unknown. The error lists
    /// everything that is missing or malformed.
    pub fn read(
        requirements: Option<&Requirements>,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<Self, SettingsError> {
        let mut reader = Reader { variable, wrong: Vec::new() };
        let access = requirements.map(|requirements| requirements.access);
        let assumes = |role: AssumedRole| access.is_some_and(|access| access.assumes.contains(&role));
        let asks_tokens = requirements == Some(&pilothouse_app::function::requirements::AUTHORIZE);
        let needs_secret = access.as_ref().is_some_and(reads_secret);
        let tells_address = assumes(AssumedRole::Worker) || assumes(AssumedRole::Sidecar);

        let issuer = reader.text("PILOTHOUSE_ISSUER", asks_tokens);
        let settings = Self {
            prefix: reader.required("PILOTHOUSE_PREFIX"),
            table: reader.required("PILOTHOUSE_TABLE"),
            bucket: reader.required("PILOTHOUSE_BUCKET"),
            secret: reader.text("PILOTHOUSE_SECRET_ARN", needs_secret),
            audience: reader.text("PILOTHOUSE_AUDIENCE", asks_tokens),
            jwks_url: reader.text("PILOTHOUSE_JWKS_URL", false).or_else(|| {
                let issuer = issuer.as_deref()?.trim_end_matches('/');
                Some(format!("{issuer}/.well-known/jwks.json"))
            }),
            issuer,
            api_url: reader.text("PILOTHOUSE_API_URL", tells_address),
            connections_url: reader
                .text("PILOTHOUSE_WS_ENDPOINT", access.is_some_and(|access| access.connections)),
            sidecar_role: reader.text("PILOTHOUSE_SIDECAR_ROLE_ARN", assumes(AssumedRole::Sidecar)),
            worker_role: reader.text("PILOTHOUSE_WORKER_ROLE_ARN", assumes(AssumedRole::Worker)),
            bus: reader.text("PILOTHOUSE_BUS", access.is_some_and(|access| access.publishes)),
            topic_arn: reader.text("PILOTHOUSE_TOPIC_ARN", access.is_some_and(|access| access.publishes)),
            webhook_egress_policy: reader.egress_policy(),
            web_push_contact: reader.text("PILOTHOUSE_WEB_PUSH_CONTACT", false),
            model: reader.model(),
            model_key: reader.text("PILOTHOUSE_MODEL_KEY_ARN", false),
            embeddings: reader.embeddings(),
            embeddings_key: reader.text("PILOTHOUSE_EMBEDDINGS_KEY_ARN", false),
            operators: reader.list("PILOTHOUSE_OPERATORS"),
            runtime: reader.runtime(access.is_some_and(|access| access.processes)),
            default_adapter: reader.default_adapter(),
            allowed_models: reader.allowed_models(),
            retention: reader.retention(),
            deadline_divisor: reader.deadline_divisor(),
        };
        if reader.wrong.is_empty() { Ok(settings) } else { Err(SettingsError(reader.wrong)) }
    }
}

const fn reads_secret(access: &Access) -> bool {
    access.secret
}

struct Reader<F> {
    variable: F,
    wrong: Vec<String>,
}

impl<F: Fn(&str) -> Option<String>> Reader<F> {
    fn text(&mut self, name: &str, required: bool) -> Option<String> {
        let value =
            (self.variable)(name).map(|value| value.trim().to_owned()).filter(|value| !value.is_empty());
        if value.is_none() && required {
            self.wrong.push(format!("{name} is missing"));
        }
        value
    }

    fn required(&mut self, name: &str) -> String {
        self.text(name, true).unwrap_or_default()
    }

    fn list(&mut self, name: &str) -> Vec<String> {
        let text = self.text(name, false).unwrap_or_default();
        text.split(',').map(|one| one.trim().to_owned()).filter(|one| !one.is_empty()).collect()
    }

    fn yes(&mut self, name: &str) -> bool {
        self.text(name, false).is_some_and(|text| text == "true")
    }

    fn runtime(&mut self, starts_processes: bool) -> RuntimeKind {
        match self.text("PILOTHOUSE_RUNTIME", false).as_deref() {
            None | Some("workers") => RuntimeKind::Workers,
            Some("ecs") => RuntimeKind::Ecs(Box::new(self.ecs(starts_processes))),
            Some(other) => {
                self.wrong.push(format!("PILOTHOUSE_RUNTIME is `workers` or `ecs`, not `{other}`"));
                RuntimeKind::Workers
            }
        }
    }

    fn ecs(&mut self, starts_processes: bool) -> EcsSettings {
        let durable_workspace = self.yes("PILOTHOUSE_ECS_DURABLE_WORKSPACE");
        EcsSettings {
            cluster: self.text("PILOTHOUSE_ECS_CLUSTER", starts_processes).unwrap_or_default(),
            task_definition: self
                .text("PILOTHOUSE_ECS_TASK_DEFINITION", starts_processes)
                .unwrap_or_default(),
            subnets: self.list("PILOTHOUSE_ECS_SUBNETS"),
            security_groups: self.list("PILOTHOUSE_ECS_SECURITY_GROUP"),
            public_addresses: self.yes("PILOTHOUSE_ECS_PUBLIC_ADDRESSES"),
            durable_workspace,
            lease: self.lease(durable_workspace),
        }
    }

    /// The lease of runs on ECS: by default an hour if workspaces are durable, otherwise a minute. Divided like the deadlines.
    fn lease(&mut self, durable_workspace: bool) -> Duration {
        let default = if durable_workspace { Duration::from_hours(1) } else { Duration::from_mins(1) };
        let text = self.text("PILOTHOUSE_ECS_LEASE_SECONDS", false);
        let seconds = text.as_deref().map(|text| text.parse().ok().filter(|s| *s >= SHORTEST_LEASE_SECONDS));
        if let (Some(text), Some(None)) = (&text, seconds) {
            self.wrong.push(format!(
                "PILOTHOUSE_ECS_LEASE_SECONDS is a whole number from {SHORTEST_LEASE_SECONDS}, not `{text}`"
            ));
        }
        seconds.flatten().map_or(default, Duration::from_secs) / self.deadline_divisor()
    }

    fn egress_policy(&mut self) -> EgressPolicy {
        let Some(text) = self.text("PILOTHOUSE_WEBHOOK_REACH", false) else { return EgressPolicy::default() };
        text.parse().unwrap_or_else(|error| {
            self.wrong.push(format!("PILOTHOUSE_WEBHOOK_REACH {error}, not `{text}`"));
            EgressPolicy::default()
        })
    }

    fn retention(&mut self) -> Retention {
        let Some(text) = self.text("PILOTHOUSE_RETENTION_DAYS", false) else { return Retention::default() };
        text.parse().unwrap_or_else(|error| {
            self.wrong.push(format!("PILOTHOUSE_RETENTION_DAYS {error}, not `{text}`"));
            Retention::default()
        })
    }

    fn allowed_models(&mut self) -> AllowedModels {
        AllowedModels::new(self.list("PILOTHOUSE_ALLOWED_MODELS")).unwrap_or_else(|error| {
            self.wrong.push(format!("PILOTHOUSE_ALLOWED_MODELS {error}"));
            AllowedModels::default()
        })
    }

    fn default_adapter(&mut self) -> Option<AdapterName> {
        let text = self.text("PILOTHOUSE_DEFAULT_ADAPTER", false)?;
        let wrong = |error| format!("PILOTHOUSE_DEFAULT_ADAPTER {error}");
        AdapterName::parse(text).map_err(|error| self.wrong.push(wrong(error))).ok()
    }

    fn model(&mut self) -> Option<ModelSettings> {
        ModelSettings::read(&self.variable).unwrap_or_else(|wrong| {
            self.wrong.extend(wrong.0);
            None
        })
    }

    fn embeddings(&mut self) -> Option<EmbeddingSettings> {
        EmbeddingSettings::read(&self.variable).unwrap_or_else(|wrong| {
            self.wrong.extend(wrong.0);
            None
        })
    }

    fn deadline_divisor(&mut self) -> u32 {
        let Some(text) = self.text("PILOTHOUSE_DEADLINE_DIVISOR", false) else { return 1 };
        text.parse().ok().filter(|deadline_divisor| *deadline_divisor > 0).unwrap_or_else(|| {
            self.wrong.push(format!("PILOTHOUSE_DEADLINE_DIVISOR is a whole number from 1, not `{text}`"));
            1
        })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use pilothouse_app::function::requirements;

    use super::*;

    fn read(
        requirements: Option<&Requirements>,
        variables: &[(&str, &str)],
    ) -> Result<Settings, SettingsError> {
        Settings::read(requirements, |name| {
            variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
        })
    }

    const BASE: [(&str, &str); 3] =
        [("PILOTHOUSE_PREFIX", "p"), ("PILOTHOUSE_TABLE", "t"), ("PILOTHOUSE_BUCKET", "b")];

    #[test]
    fn query_function_needs_three_variables() {
        let settings = read(Some(&requirements::QUERY), &BASE).unwrap();
        assert_eq!(
            (settings.prefix.as_str(), settings.table.as_str(), settings.deadline_divisor),
            ("p", "t", 1)
        );
        assert_eq!(settings.runtime, RuntimeKind::Workers);
    }

    #[test]
    fn all_invalid_settings_are_reported_at_once() {
        let error = read(
            Some(&requirements::INTAKE),
            &[
                ("PILOTHOUSE_PREFIX", " "),
                ("PILOTHOUSE_DEADLINE_DIVISOR", "0"),
                ("PILOTHOUSE_RUNTIME", "lambda"),
            ],
        );
        let text = error.unwrap_err().to_string();
        for part in [
            "PILOTHOUSE_PREFIX is missing",
            "PILOTHOUSE_TABLE is missing",
            "PILOTHOUSE_BUCKET is missing",
            "PILOTHOUSE_SECRET_ARN is missing",
            "PILOTHOUSE_DEADLINE_DIVISOR is a whole number from 1, not `0`",
            "`workers` or `ecs`, not `lambda`",
        ] {
            assert!(text.contains(part), "{text}");
        }
    }

    #[test]
    fn each_function_requires_only_its_own_settings() {
        assert!(
            read(Some(&requirements::AUTHORIZE), &BASE)
                .unwrap_err()
                .to_string()
                .contains("PILOTHOUSE_ISSUER")
        );
        assert!(
            read(Some(&requirements::PUSH), &BASE)
                .unwrap_err()
                .to_string()
                .contains("PILOTHOUSE_WS_ENDPOINT")
        );
        assert!(
            read(Some(&requirements::CREDENTIALS), &BASE).unwrap_err().to_string().contains("SIDECAR_ROLE")
        );
    }

    #[test]
    fn key_set_address_follows_the_issuer_convention() {
        let mut variables = BASE.to_vec();
        variables.extend([("PILOTHOUSE_ISSUER", "https://id.example/"), ("PILOTHOUSE_AUDIENCE", "a")]);
        let settings = read(Some(&requirements::AUTHORIZE), &variables).unwrap();
        assert_eq!(settings.jwks_url.unwrap(), "https://id.example/.well-known/jwks.json");
        variables.push(("PILOTHOUSE_JWKS_URL", "https://keys.example"));
        assert_eq!(read(None, &variables).unwrap().jwks_url.unwrap(), "https://keys.example");
    }
}
