//! What a sidecar sees of the server's environment: a chosen list, so that no secret of the server leaks.

use std::ffi::{OsStr, OsString};

/// The variables of the server that a sidecar gets, if they are set.
pub const CHOSEN: [&str; 18] = [
    "PATH",
    "HOME",
    "LANG",
    "TERM",
    "TMPDIR",
    // What agents reach their models with. A sidecar hands it to no tool, and leaves it out of what it tells.
    "ANTHROPIC_API_KEY",
    "ANTHROPIC_AUTH_TOKEN",
    "ANTHROPIC_BASE_URL",
    "CLAUDE_CODE_OAUTH_TOKEN",
    "OPENAI_API_KEY",
    "OPENAI_BASE_URL",
    "GEMINI_API_KEY",
    "HTTPS_PROXY",
    "NO_PROXY",
    "SSL_CERT_FILE",
    MODELS,
    CLAUDE,
    ACP_CLAUDE,
];

/// A file with further providers of models, for sidecars.
pub const MODELS: &str = "PILOTHOUSE_MODELS";

/// Where Claude Code is, for the adapter of that name.
pub const CLAUDE: &str = "PILOTHOUSE_CLAUDE";

/// Where Claude Code's agent of the Agent Client Protocol is, for the adapter `acp`.
pub const ACP_CLAUDE: &str = "PILOTHOUSE_ACP_CLAUDE";

/// Variables whose name begins so are the server's own, and never reach a sidecar, but for [`FOR_SIDECARS`].
pub const RESERVED_PREFIX: &str = "PILOTHOUSE_";

/// Variables of the server's own that are meant for sidecars.
pub const FOR_SIDECARS: [&str; 3] = [MODELS, CLAUDE, ACP_CLAUDE];

/// The whole environment of a sidecar.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Environment(Vec<(OsString, OsString)>);

impl Environment {
    /// Nothing at all.
    pub fn empty() -> Self {
        Self::default()
    }

    /// The [`CHOSEN`] variables of this process.
    pub fn chosen() -> Self {
        CHOSEN.iter().fold(Self::empty(), |all, name| {
            std::env::var_os(name).into_iter().fold(all, |all, v| all.with(name, v))
        })
    }

    /// Adds a variable, in place of one of the same name. One whose name begins with [`RESERVED_PREFIX`] is left
    /// out.
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

    /// The variables.
    pub fn iter(&self) -> impl Iterator<Item = (&OsStr, &OsStr)> {
        self.0.iter().map(|(name, value)| (name.as_os_str(), value.as_os_str()))
    }
}

impl std::fmt::Debug for Environment {
    /// Names only: values may be secrets.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.0.iter().map(|(name, _)| name)).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_servers_own_variables_are_left_out() {
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
    fn debug_output_shows_no_values() {
        let shown = format!("{:?}", Environment::empty().with("TOKEN", "very-secret"));
        assert!(shown.contains("TOKEN") && !shown.contains("very-secret"), "{shown}");
    }
}
