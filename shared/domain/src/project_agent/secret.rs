//! Secrets that an agent needs, by name (S2 `AgentBrief.secretRefs`; decision 92). A brief never contains their values.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::bypass::sets_approvals;
use crate::names::named;

/// A secret that an agent needs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(deny_unknown_fields)]
pub struct SecretRef {
    /// The variable of the agent's environment that has the value, such as `DEPLOY_TOKEN`.
    #[schemars(length(min = 1, max = 100), pattern("^[A-Za-z_][A-Za-z0-9_]*$"))]
    pub name: String,
    /// The key of the secret on the worker or in the secret of the task.
    #[schemars(length(min = 1, max = 200), pattern("^[A-Za-z0-9_./-]+$"))]
    pub vault_key: String,
    /// The agents that may receive the secret.
    #[serde(default)]
    pub scope: SecretScope,
}

/// The agents that may receive a secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SecretScope {
    /// Agents that the stored secret lists.
    #[default]
    Agent,
    /// All agents of the projects that the stored secret lists.
    Project,
}

named!(SecretScope {
    Agent => "agent",
    Project => "project",
});

/// One violation of the secrets of a brief.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SecretViolation {
    #[error("must have at most {max} entries")]
    TooMany { max: usize },
    #[error("must be the name of a variable: 1 to {max} letters, digits and `_`, and no digit first")]
    Name { max: usize },
    #[error("is a variable that the agent's environment sets")]
    Reserved,
    #[error("changes whether the agent asks before a call")]
    Approvals,
    #[error("is listed twice")]
    Duplicate,
    #[error("must have 1 to {max} letters, digits, `_`, `.`, `/` and `-`")]
    Key { max: usize },
}

/// Variables that select programs, libraries or folders.
const RESERVED: [&str; 16] = [
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "LANG",
    "TERM",
    "TMPDIR",
    "TZ",
    "IFS",
    "ENV",
    "BASH_ENV",
    "NODE_OPTIONS",
    "PYTHONPATH",
    "PYTHONSTARTUP",
    "PERL5OPT",
];
const RESERVED_PREFIXES: [&str; 4] = ["PILOTHOUSE_", "LD_", "DYLD_", "GIT_CONFIG"];

impl SecretRef {
    /// Most secrets of a brief.
    pub const MAX: usize = 50;
    pub const MAX_NAME: usize = 100;
    pub const MAX_KEY: usize = 200;

    /// Names every violation of the secrets of a brief, with its path.
    pub(super) fn check_all(secrets: &[Self]) -> Vec<(String, SecretViolation)> {
        const ROOT: &str = "secretRefs";
        if secrets.len() > Self::MAX {
            return vec![(ROOT.to_owned(), SecretViolation::TooMany { max: Self::MAX })];
        }
        let mut found = Vec::new();
        let mut names = BTreeSet::new();
        for (at, Self { name, vault_key, .. }) in secrets.iter().enumerate() {
            let upper = name.to_ascii_uppercase();
            let violation = if !is_variable(name) {
                Some(SecretViolation::Name { max: Self::MAX_NAME })
            } else if RESERVED.contains(&&*upper)
                || RESERVED_PREFIXES.iter().any(|prefix| upper.starts_with(prefix))
            {
                Some(SecretViolation::Reserved)
            } else if sets_approvals(name) {
                Some(SecretViolation::Approvals)
            } else {
                (!names.insert(name)).then_some(SecretViolation::Duplicate)
            };
            found.extend(violation.map(|violation| (format!("{ROOT}[{at}].name"), violation)));
            let is_key = (1..=Self::MAX_KEY).contains(&vault_key.len())
                && vault_key.chars().all(|c| c.is_ascii_alphanumeric() || "_./-".contains(c));
            if !is_key {
                let violation = SecretViolation::Key { max: Self::MAX_KEY };
                found.push((format!("{ROOT}[{at}].vaultKey"), violation));
            }
        }
        found
    }
}

fn is_variable(name: &str) -> bool {
    (1..=SecretRef::MAX_NAME).contains(&name.len())
        && !name.starts_with(|c: char| c.is_ascii_digit())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secret(name: &str, vault_key: &str) -> SecretRef {
        SecretRef { name: name.into(), vault_key: vault_key.into(), scope: SecretScope::default() }
    }

    #[test]
    fn every_violation_of_secrets_is_named() {
        use SecretViolation as V;
        let good = [secret("DEPLOY_TOKEN", "shop/deploy-token"), secret("_x1", "a")];
        assert_eq!(SecretRef::check_all(&good), []);
        let wrong = [
            secret("1X", "a"),
            secret("A", ""),
            secret("A", "a b"),
            secret("path", "a"),
            secret("LD_PRELOAD", "a"),
            secret("PILOTHOUSE_API_KEY", "a"),
            secret("GOOSE_MODE", "a"),
            secret("", "a"),
        ];
        let found = SecretRef::check_all(&wrong);
        let expected = [
            ("secretRefs[0].name", V::Name { max: 100 }),
            ("secretRefs[1].vaultKey", V::Key { max: 200 }),
            ("secretRefs[2].name", V::Duplicate),
            ("secretRefs[2].vaultKey", V::Key { max: 200 }),
            ("secretRefs[3].name", V::Reserved),
            ("secretRefs[4].name", V::Reserved),
            ("secretRefs[5].name", V::Reserved),
            ("secretRefs[6].name", V::Approvals),
            ("secretRefs[7].name", V::Name { max: 100 }),
        ];
        assert_eq!(found, expected.map(|(path, violation)| (path.to_owned(), violation)));
        let many: Vec<_> = (0..51).map(|n| secret(&format!("S{n}"), "a")).collect();
        assert_eq!(SecretRef::check_all(&many), [("secretRefs".to_owned(), V::TooMany { max: 50 })]);
    }
}
