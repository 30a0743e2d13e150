//! The options that a brief passes to its adapter (S2, "providerConfig guidelines"; decision 71).
//!
//! Options that affect how agents are controlled have fields of their own. Options of an SDK that have none yet go into
//! `experimental`, which is exempt from the first rule.

use serde_json::Value;

use super::bypass::{ASKING_MODES, Bypass, bypass_of, bypassing_argument, is_command_line, plain};

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
    #[error("may let the agent act without asking; a brief may choose {ASKING_MODES}")]
    UncertainMode,
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
    ("maxcontexttokens", "sessionPolicy.contextBudgetTokens"),
    ("contextbudgettokens", "sessionPolicy.contextBudgetTokens"),
    ("maxturns", "sessionPolicy.maxTurns"),
    ("outputschema", "outputSchema"),
    ("guardrailpolicy", "guardrailPolicy"),
    ("delegationpolicy", "delegationPolicy"),
    ("sessionpolicy", "sessionPolicy"),
    ("secretrefs", "secretRefs"),
    ("workspacerequirements", "workspaceRequirements"),
    ("providerconfig", "providerConfig"),
    ("decisiontimeout", "decisionTimeout"),
    ("adapter", "adapter"),
    ("projectbrief", "the brief of the project"),
    ("knowledgesnapshot", "the brief of the project"),
    ("contextinjectionpolicy", "contextInjectionPolicy"),
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
            search(&path, key, value, true, &mut found);
        }
    }
    found
}

/// The paths of options that let an agent act without asking, with the reason. `root` is the path of the options.
pub fn approval_bypasses(root: &str, options: &Value) -> Vec<(String, ProviderConfigViolation)> {
    let mut found = Vec::new();
    for (key, value) in options.as_object().into_iter().flatten() {
        search(&format!("{root}.{}", crate::text::cut(key, 80)), key, value, true, &mut found);
    }
    found.retain(|(_, violation)| *violation != ProviderConfigViolation::SecretValue);
    found
}

/// Searches for bypasses and secrets at any depth. `is_top`: it is an option of the adapter itself, such as the arguments of the
/// agent's program.
fn search(
    path: &str,
    key: &str,
    value: &Value,
    is_top: bool,
    found: &mut Vec<(String, ProviderConfigViolation)>,
) {
    if let Some(bypass) = bypass_of(key, value, is_top) {
        let violation = match bypass {
            Bypass::Option => ProviderConfigViolation::BypassesApproval,
            Bypass::Mode => ProviderConfigViolation::UncertainMode,
        };
        found.push((path.to_owned(), violation));
        return;
    }
    let runs_agent = is_top && is_command_line(key);
    match value {
        Value::String(text) if runs_agent && bypassing_argument(&[text]).is_some() => {
            found.push((path.to_owned(), ProviderConfigViolation::BypassesApproval));
        }
        Value::String(text) if is_secret(key, text) => {
            found.push((path.to_owned(), ProviderConfigViolation::SecretValue));
        }
        Value::Array(items) => {
            // An argument and its value can be two items.
            let arguments: Vec<_> = items.iter().map(|item| item.as_str().unwrap_or_default()).collect();
            if let Some(at) = bypassing_argument(&arguments).filter(|_| runs_agent) {
                found.push((format!("{path}[{at}]"), ProviderConfigViolation::BypassesApproval));
                return;
            }
            for (at, item) in items.iter().enumerate() {
                search(&format!("{path}[{at}]"), key, item, false, found);
            }
        }
        Value::Object(fields) => {
            for (name, field) in fields {
                search(&format!("{path}.{}", crate::text::cut(name, 80)), name, field, false, found);
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
    fn values_and_arguments_that_bypass_approvals_are_named() {
        for (config, path) in [
            (json!({ "mode": "bypassPermissions" }), "providerConfig.mode"),
            (json!({ "mode": "auto" }), "providerConfig.mode"),
            (json!({ "agent": "gemini", "args": ["--acp", "--yolo"] }), "providerConfig.args[1]"),
            (
                json!({ "extraArguments": ["--dangerously-skip-permissions"] }),
                "providerConfig.extraArguments[0]",
            ),
            (json!({ "command": "sh -c 'gemini --yolo'" }), "providerConfig.command"),
            (json!({ "env": { "GOOSE_MODE": "auto" } }), "providerConfig.env.GOOSE_MODE"),
            (json!({ "env": { "OPENCODE_PERMISSION": "{}" } }), "providerConfig.env.OPENCODE_PERMISSION"),
            (
                json!({ "extensions": [{ "name": "x", "settings": ["yolo"] }] }),
                "providerConfig.extensions[0].settings[0]",
            ),
        ] {
            assert_eq!(paths(&config), [path], "{config}");
        }
        for config in [
            json!({ "mode": "plan", "agent": "qwen", "args": ["--acp", "--approval-mode", "default"] }),
            json!({ "env": { "GOOSE_PROVIDER": "openai" }, "command": "gemini" }),
            json!({ "script": { "steps": [{ "say": "Never use --yolo" }, { "tool": { "name": "Bash", "input": { "command": "ls" } } }] } }),
        ] {
            assert_eq!(paths(&config), [] as [String; 0], "{config}");
        }
    }

    #[test]
    fn options_of_a_template_are_searched_for_bypasses_only() {
        let options = json!({ "model": "x", "apiKey": "plain", "mode": "yolo" });
        let found = approval_bypasses("adapterOptions", &options);
        assert_eq!(found, [("adapterOptions.mode".to_owned(), ProviderConfigViolation::UncertainMode)]);
    }

    #[test]
    fn other_types_and_sizes_are_refused() {
        assert_eq!(paths(&json!([1])), ["providerConfig"]);
        assert_eq!(paths(&json!({ "x": "y".repeat(MAX_BYTES) })), ["providerConfig"]);
    }
}
