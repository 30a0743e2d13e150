//! Keeps what must stay secret out of what is told: the values of variables that hold keys, wherever an agent repeats them.

use std::collections::BTreeMap;

/// What stands for a secret.
const HIDDEN: &str = "[hidden]";
/// Shorter values are words, not keys; hiding them would only garble the text.
const SHORTEST: usize = 8;

/// The values that are hidden.
#[derive(Clone, Default)]
pub(super) struct Secrets(Vec<String>);

impl std::fmt::Debug for Secrets {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Secrets({})", self.0.len())
    }
}

impl Secrets {
    /// The values of variables whose names say that they are secret, and `more`.
    pub(super) fn of(environment: &BTreeMap<String, String>, more: &[&str]) -> Self {
        let named = environment.iter().filter(|(name, _)| is_secret(name)).map(|(_, value)| value.as_str());
        let mut values: Vec<String> = named
            .chain(more.iter().copied())
            .map(str::trim)
            .filter(|value| value.len() >= SHORTEST)
            .map(str::to_owned)
            .collect();
        // The longer first: one may be the beginning of another.
        values.sort_by_key(|value| std::cmp::Reverse(value.len()));
        values.dedup();
        Self(values)
    }

    /// `text` without them.
    pub(super) fn hide(&self, mut text: String) -> String {
        for secret in &self.0 {
            if text.contains(secret.as_str()) {
                text = text.replace(secret.as_str(), HIDDEN);
            }
        }
        text
    }
}

fn is_secret(name: &str) -> bool {
    let name = name.to_ascii_uppercase();
    ["KEY", "TOKEN", "SECRET", "PASSWORD", "PASSWD", "CREDENTIAL", "AUTH", "HEADERS"]
        .iter()
        .any(|word| name.contains(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_keys_are_hidden_and_others_are_not() {
        let environment =
            [("ANTHROPIC_API_KEY", "sk-ant-0123"), ("PATH", "/usr/local/bin"), ("A_TOKEN", "x")]
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .into();
        let secrets = Secrets::of(&environment, &["sk-ant-0123-longer"]);
        assert_eq!(
            secrets.hide("sk-ant-0123-longer sk-ant-0123 /usr/local/bin x".into()),
            "[hidden] [hidden] /usr/local/bin x"
        );
    }
}
