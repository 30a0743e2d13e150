//! The option `env` of all adapters: further variables for the agent.

use std::collections::BTreeMap;

use pilothouse_wire::launch::RESERVED_PREFIX;
use serde_json::Value;

/// Variables that are no secrets, even if the option refers to them. Their values occur in many texts.
const PUBLIC: [&str; 5] = ["PATH", "HOME", "LANG", "TERM", "TMPDIR"];

/// The names of the option. Only the adapter of Claude Code accepts the second.
pub(crate) const OPTIONS: [&str; 2] = ["env", "environment"];

/// The values of the sidecar's variables that the option refers to. All of them are secrets, independent of their names.
pub(crate) fn referenced(options: &Value, variable: impl Fn(&str) -> Option<String>) -> Vec<String> {
    let env = OPTIONS.iter().filter_map(|name| options.get(name)?.as_object());
    let references = env.flat_map(|env| env.values()).filter_map(|value| value.as_str()?.strip_prefix('$'));
    let secrets = references.filter(|name| !name.starts_with(RESERVED_PREFIX) && !PUBLIC.contains(name));
    secrets.filter_map(variable).collect()
}

/// Escapes a text, so that [`resolved`] returns exactly this text.
pub(crate) fn literal(text: &str) -> String {
    if text.starts_with('$') { format!("${text}") } else { text.to_owned() }
}

/// Replaces each value `$NAME` by a variable of the sidecar, because options are readable in the session and must not
/// contain keys. `$$` at the beginning is a plain `$`. The error names all invalid values.
pub(crate) fn resolved(
    env: BTreeMap<String, String>,
    variable: impl Fn(&str) -> Option<String>,
) -> Result<BTreeMap<String, String>, String> {
    let (mut environment, mut wrong) = (BTreeMap::new(), Vec::new());
    for (name, value) in env {
        let value = match value.strip_prefix('$') {
            Some(literal) if literal.starts_with('$') => Some(literal.to_owned()),
            Some(referenced) if referenced.starts_with(RESERVED_PREFIX) => {
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
    use serde_json::json;

    use super::*;

    #[test]
    fn references_become_values_and_own_variables_are_refused() {
        let env = |pairs: &[(&str, &str)]| {
            let owned = pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
            resolved(owned.collect(), |name| (name == "GH_TOKEN").then(|| "secret".to_owned()))
        };
        let resolved = env(&[("TOKEN", "$GH_TOKEN"), ("MODE", "fast")]).unwrap();
        assert_eq!((resolved["TOKEN"].as_str(), resolved["MODE"].as_str()), ("secret", "fast"));
        assert_eq!(env(&[("TOKEN", &literal("$GH_TOKEN"))]).unwrap()["TOKEN"], "$GH_TOKEN");
        let wrong = env(&[("A", "$NONE"), ("B", "$PILOTHOUSE_SECRET")]).unwrap_err();
        assert!(wrong.contains("`env.A`") && wrong.contains("`env.B`"), "{wrong}");
    }

    #[test]
    fn referenced_values_are_secrets_whatever_their_names() {
        let env =
            json!({ "DATABASE": "$DATABASE_URL", "P": "$PATH", "Q": "$PILOTHOUSE_API_KEY", "M": "fast" });
        for name in OPTIONS {
            let secrets = referenced(&json!({ name: env }), |name| Some(format!("value of {name}")));
            assert_eq!(secrets, ["value of DATABASE_URL"]);
        }
        assert!(referenced(&Value::Null, |_| Some(String::new())).is_empty());
    }
}
