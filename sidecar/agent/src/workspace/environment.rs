//! What the programs that an agent starts know about where they run.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};

/// What programs need, and what tells nothing.
const CHOSEN: [&str; 8] = ["PATH", "HOME", "LANG", "TERM", "TZ", "USER", "SHELL", "TMPDIR"];

/// The environment of the programs that an agent starts: a chosen list, never keys.
#[derive(Clone, PartialEq, Eq, Default)]
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

    /// Sets a variable that belongs to the program itself, its own key say. Nothing of this process's is let through by
    /// it: only the value that is given.
    #[must_use]
    pub fn with_own(mut self, name: impl AsRef<OsStr>, value: impl Into<OsString>) -> Self {
        if !name.as_ref().to_str().is_none_or(is_ours) {
            self.0.insert(name.as_ref().to_owned(), value.into());
        }
        self
    }

    /// Its variables.
    pub fn vars(&self) -> impl Iterator<Item = (&OsStr, &OsStr)> {
        self.0.iter().map(|(name, value)| (name.as_os_str(), value.as_os_str()))
    }
}

impl std::fmt::Debug for Environment {
    /// Names alone: values may be secrets.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

/// What is refused even when it is configured.
fn is_secret(name: &str) -> bool {
    name.to_ascii_uppercase().ends_with("_API_KEY") || is_ours(name)
}

fn is_ours(name: &str) -> bool {
    name.to_ascii_uppercase().starts_with("PILOTHOUSE_")
}
