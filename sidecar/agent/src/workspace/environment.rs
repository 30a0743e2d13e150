//! What the programs that an agent starts know about where they run.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};

/// What programs need, and what tells nothing.
const CHOSEN: [&str; 8] = ["PATH", "HOME", "LANG", "TERM", "TZ", "USER", "SHELL", "TMPDIR"];

/// The environment of the programs that an agent starts: a chosen list, never keys.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Environment(BTreeMap<OsString, OsString>);

impl Environment {
    /// What this process has of the chosen names, `LC_*`, and the names that are configured.
    pub fn of_this_process(configured: &[String]) -> Self {
        Self::chosen(std::env::vars_os(), configured)
    }

    /// What `all` has of the chosen names, `LC_*`, and the names that are configured.
    pub fn chosen(all: impl IntoIterator<Item = (OsString, OsString)>, configured: &[String]) -> Self {
        let wanted = |name: &str| {
            CHOSEN.contains(&name) || name.starts_with("LC_") || configured.iter().any(|other| other == name)
        };
        let chosen = all
            .into_iter()
            .filter(|(name, _)| name.to_str().is_some_and(|name| wanted(name) && !is_secret(name)));
        Self(chosen.collect())
    }

    /// Sets a variable that configuration gives a value, unless no tool may know it.
    #[must_use]
    pub fn with(mut self, name: impl AsRef<OsStr>, value: impl Into<OsString>) -> Self {
        if !name.as_ref().to_str().is_none_or(is_secret) {
            self.0.insert(name.as_ref().to_owned(), value.into());
        }
        self
    }

    /// Its variables.
    pub fn vars(&self) -> impl Iterator<Item = (&OsStr, &OsStr)> {
        self.0.iter().map(|(name, value)| (name.as_os_str(), value.as_os_str()))
    }
}

/// What is refused even when it is configured.
fn is_secret(name: &str) -> bool {
    let name = name.to_ascii_uppercase();
    name.ends_with("_API_KEY") || name.starts_with("PILOTHOUSE_")
}
