//! The environment of sidecars: an allowlist of the server's variables, so that no secret leaks.

use std::ffi::{OsStr, OsString};

use pilothouse_wire::launch::RESERVED_PREFIX;

/// Variables that a sidecar inherits from the server.
pub const INHERITED: [&str; 33] = [
    "PATH",
    "HOME",
    "LANG",
    "TERM",
    "TMPDIR",
    // Access to model providers. A sidecar passes these to no tool and redacts them.
    "ANTHROPIC_API_KEY",
    "ANTHROPIC_AUTH_TOKEN",
    "ANTHROPIC_BASE_URL",
    "CLAUDE_CODE_OAUTH_TOKEN",
    "OPENAI_API_KEY",
    "OPENAI_BASE_URL",
    "OPENAI_API",
    "GEMINI_API_KEY",
    "OPENROUTER_API_KEY",
    "DEEPSEEK_API_KEY",
    "MOONSHOT_API_KEY",
    "MISTRAL_API_KEY",
    "XAI_API_KEY",
    "ZAI_API_KEY",
    "GROQ_API_KEY",
    "AWS_BEARER_TOKEN_BEDROCK",
    "AWS_REGION",
    "VERTEX_API_KEY",
    "VERTEX_PROJECT_ID",
    "VERTEX_LOCATION",
    "OLLAMA_API_KEY",
    "OLLAMA_HOST",
    "HTTPS_PROXY",
    "NO_PROXY",
    "SSL_CERT_FILE",
    MODELS,
    CLAUDE,
    ACP_CLAUDE,
];

/// Checks the name of a further variable that sidecars inherit.
///
/// # Errors
///
/// A sentence for the person who chose the name.
pub fn check_passed_name(name: &str) -> Result<(), &'static str> {
    if name.is_empty() || name.contains(|c: char| matches!(c, '=' | '\0') || c.is_whitespace()) {
        return Err("must be the name of a variable, without its value");
    }
    if name.starts_with(RESERVED_PREFIX) {
        return Err("begins with PILOTHOUSE_, and sidecars get no such variable of the worker");
    }
    Ok(())
}

/// The variables of which one is enough for the native agent to call a model.
pub fn model_variables() -> impl Iterator<Item = &'static str> {
    let is_enough = |name: &&str| {
        name.ends_with("_API_KEY") || ["AWS_BEARER_TOKEN_BEDROCK", "OLLAMA_HOST", MODELS].contains(name)
    };
    INHERITED.into_iter().filter(is_enough)
}

/// Path of a file with additional model providers.
pub const MODELS: &str = "PILOTHOUSE_MODELS";

/// Path of Claude Code, for the adapter `claude`.
pub const CLAUDE: &str = "PILOTHOUSE_CLAUDE";

/// Path of Claude Code's Agent Client Protocol agent, for the adapter `acp`.
pub const ACP_CLAUDE: &str = "PILOTHOUSE_ACP_CLAUDE";

/// Variables with [`RESERVED_PREFIX`] that sidecars get from the server or worker.
pub const FOR_SIDECARS: [&str; 3] = [MODELS, CLAUDE, ACP_CLAUDE];

#[derive(Clone, PartialEq, Eq, Default)]
pub struct Environment(Vec<(OsString, OsString)>);

impl Environment {
    pub fn empty() -> Self {
        Self::default()
    }

    pub fn inherited() -> Self {
        Self::empty().passing(INHERITED)
    }

    /// Adds the variables of this process with these names, as far as they are set.
    #[must_use]
    pub fn passing<N: AsRef<OsStr>>(self, names: impl IntoIterator<Item = N>) -> Self {
        names.into_iter().fold(self, |all, name| match std::env::var_os(name.as_ref()) {
            Some(value) => all.with(name, value),
            None => all,
        })
    }

    /// Sets a variable. A name that begins with [`RESERVED_PREFIX`] is ignored unless it is in [`FOR_SIDECARS`].
    #[must_use]
    pub fn with(mut self, name: impl AsRef<OsStr>, value: impl Into<OsString>) -> Self {
        let name = name.as_ref();
        let reserved = name.as_encoded_bytes().starts_with(RESERVED_PREFIX.as_bytes());
        if !reserved || FOR_SIDECARS.iter().any(|known| name == *known) {
            self.0.retain(|(known, _)| known != name);
            self.0.push((name.to_owned(), value.into()));
        }
        self
    }

    pub fn iter(&self) -> impl Iterator<Item = (&OsStr, &OsStr)> {
        self.0.iter().map(|(name, value)| (name.as_os_str(), value.as_os_str()))
    }
}

impl std::fmt::Debug for Environment {
    /// Prints names only, because values may be secrets.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.0.iter().map(|(name, _)| name)).finish()
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use pilothouse_agent::model::registry::ModelRegistry;

    use super::*;

    #[test]
    fn the_servers_own_variables_are_ignored() {
        let environment = Environment::empty()
            .with("LANG", "C")
            .with("PILOTHOUSE_SECRET", "x")
            .with(MODELS, "/m")
            .with("LANG", "C.UTF-8");
        let seen: Vec<_> = environment.iter().collect();
        let expected = [(MODELS, "/m"), ("LANG", "C.UTF-8")];
        assert_eq!(seen, expected.map(|(name, value)| (OsStr::new(name), OsStr::new(value))));
    }

    #[test]
    fn passed_names_are_variables_that_are_not_of_the_worker_itself() {
        assert_eq!(check_passed_name("GITHUB_TOKEN"), Ok(()));
        for refused in ["", " NAME", "NAME=value", "PILOTHOUSE_SECRETS", MODELS] {
            assert!(check_passed_name(refused).is_err(), "{refused}");
        }
    }

    #[test]
    fn variables_of_all_model_providers_are_inherited() {
        let read = RefCell::new(Vec::new());
        let _registry = ModelRegistry::from_env(|name| {
            read.borrow_mut().push(name.to_owned());
            Some("x".to_owned())
        });
        let read = read.into_inner();
        assert!(read.len() > 10, "{read:?}");
        for name in read {
            assert!(INHERITED.contains(&name.as_str()), "{name}");
        }
    }

    #[test]
    fn debug_output_hides_values() {
        let shown = format!("{:?}", Environment::empty().with("TOKEN", "very-secret"));
        assert!(shown.contains("TOKEN") && !shown.contains("very-secret"), "{shown}");
    }
}
