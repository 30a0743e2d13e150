use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};

const CHOSEN: [&str; 8] = ["PATH", "HOME", "LANG", "TERM", "TZ", "USER", "SHELL", "TMPDIR"];

/// The environment of programs that an agent starts: an explicit list without secrets.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Environment(BTreeMap<OsString, OsString>);

impl Environment {
    /// The variables of this process with selected names, with `LC_*` names, and with configured names.
    pub fn of_this_process(configured: &[String]) -> Self {
        Self::chosen(std::env::vars_os(), configured)
    }

    /// As [`Self::of_this_process`], from the variables in `all`.
    pub fn chosen(all: impl IntoIterator<Item = (OsString, OsString)>, configured: &[String]) -> Self {
        let wanted = |name: &str| {
            CHOSEN.contains(&name) || name.starts_with("LC_") || configured.iter().any(|other| other == name)
        };
        let chosen = all
            .into_iter()
            .filter(|(name, _)| name.to_str().is_some_and(|name| wanted(name) && !is_secret(name)));
        Self(chosen.collect())
    }

    /// Ignores a name that marks a secret.
    #[must_use]
    pub fn with(mut self, name: impl AsRef<OsStr>, value: impl Into<OsString>) -> Self {
        if !name.as_ref().to_str().is_none_or(is_secret) {
            self.0.insert(name.as_ref().to_owned(), value.into());
        }
        self
    }

    /// Sets a variable of the program itself, such as its own API key, which may be a secret.
    #[must_use]
    pub fn with_own(mut self, name: impl AsRef<OsStr>, value: impl Into<OsString>) -> Self {
        if !name.as_ref().to_str().is_none_or(is_ours) {
            self.0.insert(name.as_ref().to_owned(), value.into());
        }
        self
    }

    pub fn get(&self, name: &str) -> Option<String> {
        self.0.get(OsStr::new(name)).and_then(|value| value.to_str()).map(str::to_owned)
    }

    pub fn vars(&self) -> impl Iterator<Item = (&OsStr, &OsStr)> {
        self.0.iter().map(|(name, value)| (name.as_os_str(), value.as_os_str()))
    }
}

impl std::fmt::Debug for Environment {
    /// Prints only names, because values may be secrets.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

/// Rejected even if configured.
fn is_secret(name: &str) -> bool {
    name.to_ascii_uppercase().ends_with("_API_KEY") || is_ours(name)
}

fn is_ours(name: &str) -> bool {
    name.to_ascii_uppercase().starts_with("PILOTHOUSE_")
}
