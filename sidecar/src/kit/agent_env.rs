//! The option `env`, by which all adapters take further variables for their agents.

use std::collections::BTreeMap;

/// Prefix of the sidecar's own variables.
const OWN: &str = "PILOTHOUSE_";

/// Replaces each value `$NAME` by a variable of the sidecar, because options are readable in the session and must not
/// hold keys. The error is a sentence for people.
pub(crate) fn resolved(
    env: BTreeMap<String, String>,
    variable: impl Fn(&str) -> Option<String>,
) -> Result<BTreeMap<String, String>, String> {
    let (mut environment, mut wrong) = (BTreeMap::new(), Vec::new());
    for (name, value) in env {
        let value = match value.strip_prefix('$') {
            Some(referenced) if referenced.starts_with(OWN) => {
                wrong.push(format!("`env.{name}` names a variable of the sidecar itself"));
                continue;
            }
            Some(referenced) => variable(referenced),
            None => Some(value),
        };
        match value {
            Some(value) => drop(environment.insert(name, value)),
            None => wrong.push(format!("`env.{name}` names a variable that the sidecar does not have")),
        }
    }
    if wrong.is_empty() { Ok(environment) } else { Err(wrong.join("; ")) }
}

/// A variable of the sidecar.
pub(crate) fn own_variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_become_values_and_own_variables_are_refused() {
        let env = |pairs: &[(&str, &str)]| {
            let owned = pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
            resolved(owned.collect(), |name| (name == "GH_TOKEN").then(|| "secret".to_owned()))
        };
        let resolved = env(&[("TOKEN", "$GH_TOKEN"), ("MODE", "fast")]).unwrap();
        assert_eq!((resolved["TOKEN"].as_str(), resolved["MODE"].as_str()), ("secret", "fast"));
        let wrong = env(&[("A", "$NONE"), ("B", "$PILOTHOUSE_SECRET")]).unwrap_err();
        assert!(wrong.contains("`env.A`") && wrong.contains("`env.B`"), "{wrong}");
    }
}
