//! The options that a brief passes to its adapter (S2, "providerConfig guidelines"; decision 71).
//!
//! Options that affect how agents are controlled have fields of their own. Options of an SDK that have none yet go into
//! `experimental`, which is exempt from the first rule.

use serde_json::Value;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProviderConfigViolation {
    #[error("must be an object")]
    NotAnObject,
    #[error("must have at most {max} bytes of JSON")]
    TooLarge { max: usize },
    #[error("replaces a field of the brief; set `{field}` instead")]
    ShadowsField { field: &'static str },
    #[error("bypasses approvals; set the control mode or `escalationProtocol` instead")]
    BypassesApproval,
    #[error("looks like the value of a secret; write the reference `$NAME` instead")]
    SecretValue,
}

/// Most bytes of the options as JSON.
const MAX_BYTES: usize = 64 * 1024;

/// Keys without separators in lower case, and the fields of the brief that replace them.
const SHADOWED: &[(&str, &str)] = &[
    ("agentid", "the agent's id"),
    ("allowedtools", "allowedTools"),
    ("blockedtools", "allowedTools"),
    ("disallowedtools", "allowedTools"),
    ("tools", "allowedTools"),
    ("mcpservers", "mcpServers"),
    ("model", "modelPreference"),
    ("modelid", "modelPreference"),
    ("modelpreference", "modelPreference"),
    ("role", "role"),
    ("description", "description"),
    ("systemprompt", "description"),
    ("instructions", "description"),
    ("constraints", "constraints"),
    ("workstream", "workstream"),
    ("readableworkstreams", "readableWorkstreams"),
    ("escalationprotocol", "escalationProtocol"),
    ("controlmode", "the control mode of the project"),
    ("maxcontexttokens", "the context policy of the session"),
    ("contextbudgettokens", "the context policy of the session"),
    ("maxturns", "the budget of the session"),
    ("outputschema", "description"),
    ("guardrailpolicy", "guardrailPolicy"),
    ("delegationpolicy", "allowedTools"),
    ("sessionpolicy", "the options of the session"),
    ("secretrefs", "the environment of the worker"),
    ("workspacerequirements", "the labels of the worker"),
    ("providerconfig", "providerConfig"),
];

/// Keys that switch approvals off, in the same form.
const BYPASSES: &[&str] = &[
    "approvalmode",
    "approvalpolicy",
    "autoapprove",
    "autoapproveall",
    "bypasspermissions",
    "dangerouslyskippermissions",
    "disabletoolapproval",
    "permissionmode",
    "sandboxmode",
    "skipguardrails",
    "skippermissions",
    "yolo",
];

/// Parts of keys whose values are secrets.
const SECRET_KEYS: &[&str] =
    &["apikey", "accesskey", "password", "passwd", "privatekey", "secret", "token", "credential"];

/// Beginnings of well-known kinds of secrets.
const SECRET_PREFIXES: &[&str] = &[
    "sk-",
    "pk_live_",
    "sk_live_",
    "ghp_",
    "gho_",
    "ghs_",
    "github_pat_",
    "glpat-",
    "xoxb-",
    "xoxp-",
    "AKIA",
    "ASIA",
    "AIza",
    "-----BEGIN",
    "eyJhbGciOi",
];

/// Returns every violation with its path, which starts with `providerConfig`.
pub(super) fn check_provider_config(config: &Value) -> Vec<(String, ProviderConfigViolation)> {
    const ROOT: &str = "providerConfig";
    let object = match config {
        Value::Null => return Vec::new(),
        Value::Object(object) => object,
        _ => return vec![(ROOT.to_owned(), ProviderConfigViolation::NotAnObject)],
    };
    if config.to_string().len() > MAX_BYTES {
        return vec![(ROOT.to_owned(), ProviderConfigViolation::TooLarge { max: MAX_BYTES })];
    }
    let mut found = Vec::new();
    for (key, value) in object {
        let path = format!("{ROOT}.{}", crate::text::cut(key, 80));
        if let Some((_, field)) = SHADOWED.iter().find(|(shadowed, _)| *shadowed == plain(key)) {
            found.push((path, ProviderConfigViolation::ShadowsField { field }));
        } else {
            search(&path, key, value, &mut found);
        }
    }
    found
}

/// Searches for bypasses and secrets at any depth.
fn search(path: &str, key: &str, value: &Value, found: &mut Vec<(String, ProviderConfigViolation)>) {
    if BYPASSES.contains(&plain(key).as_str()) {
        found.push((path.to_owned(), ProviderConfigViolation::BypassesApproval));
        return;
    }
    match value {
        Value::String(text) if is_secret(key, text) => {
            found.push((path.to_owned(), ProviderConfigViolation::SecretValue));
        }
        Value::Array(items) => {
            for (at, item) in items.iter().enumerate() {
                search(&format!("{path}[{at}]"), key, item, found);
            }
        }
        Value::Object(fields) => {
            for (name, field) in fields {
                search(&format!("{path}.{}", crate::text::cut(name, 80)), name, field, found);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn is_secret(key: &str, text: &str) -> bool {
    if text.is_empty() || is_reference(text) {
        return false;
    }
    // `maxTokens` and the like have numbers, which are not searched.
    SECRET_KEYS.iter().any(|part| plain(key).contains(part))
        || SECRET_PREFIXES.iter().any(|prefix| text.starts_with(prefix))
}

/// Whether the text is `$NAME`.
fn is_reference(text: &str) -> bool {
    text.strip_prefix('$')
        .is_some_and(|name| !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_'))
}

/// A key without separators, in lower case.
fn plain(key: &str) -> String {
    key.chars().filter(char::is_ascii_alphanumeric).collect::<String>().to_ascii_lowercase()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn paths(config: &Value) -> Vec<String> {
        check_provider_config(config).into_iter().map(|(path, _)| path).collect()
    }

    #[test]
    fn options_of_an_sdk_pass() {
        let config = json!({
            "temperature": 0.7,
            "maxTokens": 4096,
            "litellmModel": "anthropic/claude-3-opus",
            "safetySettings": { "harassment": "block_none" },
            "apiKey": "$OPENAI_API_KEY",
            "experimental": { "maxTurns": 3 },
        });
        assert_eq!(check_provider_config(&config), []);
        assert_eq!(check_provider_config(&Value::Null), []);
    }

    #[test]
    fn fields_bypasses_and_secrets_are_named() {
        let config = json!({
            "allowed_tools": ["Bash"],
            "nested": [{ "permission-mode": "bypassPermissions" }],
            "headers": { "Authorization": "sk-ant-api03-secret" },
            "auth_token": "plain",
            "experimental": { "autoApproveAll": true },
        });
        let expected = [
            "providerConfig.allowed_tools",
            "providerConfig.nested[0].permission-mode",
            "providerConfig.headers.Authorization",
            "providerConfig.auth_token",
            "providerConfig.experimental.autoApproveAll",
        ];
        let mut found = paths(&config);
        found.sort();
        let mut expected: Vec<_> = expected.map(str::to_owned).to_vec();
        expected.sort();
        assert_eq!(found, expected);
    }

    #[test]
    fn other_types_and_sizes_are_refused() {
        assert_eq!(paths(&json!([1])), ["providerConfig"]);
        assert_eq!(paths(&json!({ "x": "y".repeat(MAX_BYTES) })), ["providerConfig"]);
    }
}
