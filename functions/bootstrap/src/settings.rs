//! The environment of a function, read once.

use pilothouse_domain::webhook::Reach;
use pilothouse_functions::catalogue::needs::{Access, AssumedRole, Needs};
use pilothouse_runtime::ecs::EcsSettings;

/// What the environment says. What a function does not need may be missing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// What the names of the deployment's resources begin with.
    pub prefix: String,
    /// The table.
    pub table: String,
    /// The bucket of large bodies.
    pub bucket: String,
    /// Where the root secret is kept.
    pub secret: Option<String>,
    /// Who signs tokens.
    pub issuer: Option<String>,
    /// Whom tokens are for.
    pub audience: Option<String>,
    /// Where the issuer publishes its keys.
    pub jwks_url: Option<String>,
    /// The address of the HTTP API, as workers and sidecars reach it.
    pub api_url: Option<String>,
    /// The address that connections of the live stream are managed at.
    pub connections_url: Option<String>,
    /// The role that credentials of sidecars are vended from.
    pub sidecar_role: Option<String>,
    /// The role that credentials of workers are vended from.
    pub worker_role: Option<String>,
    /// The bus that other systems listen to.
    pub bus: Option<String>,
    /// The topic of notifications.
    pub topic_arn: Option<String>,
    /// How far webhooks may lead.
    pub webhook_reach: Reach,
    /// The owners who operate the deployment.
    pub operators: Vec<String>,
    /// What runs sidecars.
    pub runtime: RuntimeKind,
    /// By how much every deadline is divided (for tests).
    pub hurry: u32,
}

/// What runs sidecars.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RuntimeKind {
    /// Workers, on machines of their own.
    Workers,
    /// Tasks of ECS.
    Ecs(Box<EcsSettings>),
}

/// The environment is not complete. Lists everything that is wrong with it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the environment of this function is not complete: {}", .0.join("; "))]
pub struct SettingsError(pub Vec<String>);

impl Settings {
    /// Reads the environment for a function that needs `needs`; for any function, where that is not known.
    ///
    /// # Errors
    /// Everything that is missing or malformed, at once.
    pub fn read(
        needs: Option<&Needs>,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<Self, SettingsError> {
        let mut reader = Reader { variable, wrong: Vec::new() };
        let access = needs.map(|needs| needs.access);
        let assumes = |role: AssumedRole| access.is_some_and(|access| access.assumes.contains(&role));
        let asks_tokens = needs == Some(&pilothouse_functions::catalogue::needs::AUTHORIZE);
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
            webhook_reach: reader.reach(),
            operators: reader.list("PILOTHOUSE_OPERATORS"),
            runtime: reader.runtime(access.is_some_and(|access| access.processes)),
            hurry: reader.hurry(),
        };
        if reader.wrong.is_empty() { Ok(settings) } else { Err(SettingsError(reader.wrong)) }
    }
}

/// Whether a function reads the root secret.
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

    /// What stands between commas.
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
        EcsSettings {
            cluster: self.text("PILOTHOUSE_ECS_CLUSTER", starts_processes).unwrap_or_default(),
            task_definition: self
                .text("PILOTHOUSE_ECS_TASK_DEFINITION", starts_processes)
                .unwrap_or_default(),
            subnets: self.list("PILOTHOUSE_ECS_SUBNETS"),
            security_groups: self.list("PILOTHOUSE_ECS_SECURITY_GROUP"),
            public_addresses: self.yes("PILOTHOUSE_ECS_PUBLIC_ADDRESSES"),
            durable_workspace: self.yes("PILOTHOUSE_ECS_DURABLE_WORKSPACE"),
        }
    }

    fn reach(&mut self) -> Reach {
        let Some(text) = self.text("PILOTHOUSE_WEBHOOK_REACH", false) else { return Reach::default() };
        text.parse().unwrap_or_else(|error| {
            self.wrong.push(format!("PILOTHOUSE_WEBHOOK_REACH {error}, not `{text}`"));
            Reach::default()
        })
    }

    fn hurry(&mut self) -> u32 {
        let Some(text) = self.text("PILOTHOUSE_HURRY", false) else { return 1 };
        text.parse().ok().filter(|hurry| *hurry > 0).unwrap_or_else(|| {
            self.wrong.push(format!("PILOTHOUSE_HURRY is a whole number from 1, not `{text}`"));
            1
        })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use pilothouse_functions::catalogue::needs;

    use super::*;

    fn read(needs: Option<&Needs>, variables: &[(&str, &str)]) -> Result<Settings, SettingsError> {
        Settings::read(needs, |name| {
            variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
        })
    }

    const BASE: [(&str, &str); 3] =
        [("PILOTHOUSE_PREFIX", "p"), ("PILOTHOUSE_TABLE", "t"), ("PILOTHOUSE_BUCKET", "b")];

    #[test]
    fn a_query_needs_three_variables() {
        let settings = read(Some(&needs::QUERY), &BASE).unwrap();
        assert_eq!((settings.prefix.as_str(), settings.table.as_str(), settings.hurry), ("p", "t", 1));
        assert_eq!(settings.runtime, RuntimeKind::Workers);
    }

    #[test]
    fn everything_that_is_wrong_is_told_at_once() {
        let error = read(
            Some(&needs::INTAKE),
            &[("PILOTHOUSE_PREFIX", " "), ("PILOTHOUSE_HURRY", "0"), ("PILOTHOUSE_RUNTIME", "lambda")],
        );
        let text = error.unwrap_err().to_string();
        for part in [
            "PILOTHOUSE_PREFIX is missing",
            "PILOTHOUSE_TABLE is missing",
            "PILOTHOUSE_BUCKET is missing",
            "PILOTHOUSE_SECRET_ARN is missing",
            "PILOTHOUSE_HURRY is a whole number from 1, not `0`",
            "`workers` or `ecs`, not `lambda`",
        ] {
            assert!(text.contains(part), "{text}");
        }
    }

    #[test]
    fn only_those_who_need_more_ask_for_more() {
        assert!(read(Some(&needs::AUTHORIZE), &BASE).unwrap_err().to_string().contains("PILOTHOUSE_ISSUER"));
        assert!(read(Some(&needs::PUSH), &BASE).unwrap_err().to_string().contains("PILOTHOUSE_WS_ENDPOINT"));
        assert!(read(Some(&needs::CREDENTIALS), &BASE).unwrap_err().to_string().contains("SIDECAR_ROLE"));
    }

    #[test]
    fn the_keys_are_where_issuers_keep_them() {
        let mut variables = BASE.to_vec();
        variables.extend([("PILOTHOUSE_ISSUER", "https://id.example/"), ("PILOTHOUSE_AUDIENCE", "a")]);
        let settings = read(Some(&needs::AUTHORIZE), &variables).unwrap();
        assert_eq!(settings.jwks_url.unwrap(), "https://id.example/.well-known/jwks.json");
        variables.push(("PILOTHOUSE_JWKS_URL", "https://keys.example"));
        assert_eq!(read(None, &variables).unwrap().jwks_url.unwrap(), "https://keys.example");
    }
}
