//! Secrets of the agent (decision 92): resolves those that the launch names, and replaces references to them in the options of the
//! adapter. Values stay in memory.

use std::collections::BTreeMap;

use pilothouse_wire::launch::LaunchRequest;
use pilothouse_wire::secrets::SecretStore;
use serde_json::Value;

use crate::kit::agent_env;

/// The secrets of a launch by variable. `given` is the JSON of the secrets that this sidecar may use. The error is a sentence for people.
pub fn of_launch(request: &LaunchRequest, given: Option<&str>) -> Result<BTreeMap<String, String>, String> {
    if request.secrets.is_empty() {
        return Ok(BTreeMap::new());
    }
    let store = given.map_or_else(|| Ok(SecretStore::default()), SecretStore::parse);
    store.map_err(|e| e.to_string())?.resolve(request).map_err(|e| e.to_string())
}

/// Replaces each text `$NAME` by the secret of that variable, at any depth. Other texts stay. The adapters resolve the option `env`
/// afterwards, so a secret there is written as a literal.
pub(crate) fn fill_in(options: &mut Value, secrets: &BTreeMap<String, String>) {
    for name in agent_env::OPTIONS {
        let env = options.get_mut(name).and_then(Value::as_object_mut);
        for value in env.into_iter().flat_map(|env| env.values_mut()) {
            if let Some(secret) = value.as_str().and_then(|text| referenced(text, secrets)) {
                *value = agent_env::literal(secret).into();
            }
        }
    }
    fill_in_plain(options, secrets);
}

fn referenced<'a>(text: &str, secrets: &'a BTreeMap<String, String>) -> Option<&'a String> {
    secrets.get(text.strip_prefix('$')?)
}

fn fill_in_plain(options: &mut Value, secrets: &BTreeMap<String, String>) {
    match options {
        Value::String(text) => {
            if let Some(secret) = referenced(text, secrets) {
                text.clone_from(secret);
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| fill_in_plain(item, secrets)),
        Value::Object(fields) => fields.values_mut().for_each(|field| fill_in_plain(field, secrets)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn references_are_replaced_as_a_whole() {
        let secrets = BTreeMap::from([("TOKEN".to_owned(), "value".to_owned())]);
        let mut options =
            json!({ "env": { "A": "$TOKEN", "B": "$OTHER", "C": "x$TOKEN" }, "args": ["$TOKEN", 1] });
        fill_in(&mut options, &secrets);
        assert_eq!(
            options,
            json!({ "env": { "A": "value", "B": "$OTHER", "C": "x$TOKEN" }, "args": ["value", 1] })
        );
    }

    #[test]
    fn secret_that_begins_with_a_dollar_is_resolved_once() {
        let secrets = BTreeMap::from([("TOKEN".to_owned(), "$ecret-value".to_owned())]);
        let mut options = json!({ "env": { "A": "$TOKEN" }, "headers": { "B": "$TOKEN" } });
        fill_in(&mut options, &secrets);
        assert_eq!(options["headers"]["B"], "$ecret-value");
        let env = serde_json::from_value(options["env"].clone()).unwrap();
        assert_eq!(agent_env::resolved(env, |_| None).unwrap()["A"], "$ecret-value");
    }
}
