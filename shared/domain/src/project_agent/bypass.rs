//! Options of an adapter that let an agent act without asking (S2, "providerConfig anti-patterns").
//!
//! An option can do so by its key (`permissionMode`), by its value (`mode: bypassPermissions`), by an argument of the agent's program
//! (`--yolo`) and by a variable of its environment (`GOOSE_MODE`). Known ways are refused, at any depth. The initial mode of an ACP
//! agent is the one option of which unknown values are refused, too, because each agent has its own modes.

use serde_json::Value;

/// Keys that switch approvals off, without separators in lower case. They are also names of environment variables, and of arguments
/// that take a value.
const KEYS: &[&str] = &[
    "allowdangerouslyskippermissions",
    "alwaysallow",
    "approvalmode",
    "approvalpolicy",
    "askforapproval",
    "autoaccept",
    "autoapprove",
    "autoapproveall",
    "bypasspermissions",
    "dangerouslyskippermissions",
    "disableallhooks",
    "disabletoolapproval",
    "goosemode",
    "opencodeconfig",
    "opencodeconfigcontent",
    "opencodeconfigdir",
    "opencodepermission",
    "permissionmode",
    "sandboxmode",
    "skipguardrails",
    "skippermissions",
    "trustalltools",
    "yolo",
];

/// Values that do so, whatever the key.
const VALUES: &[&str] = &[
    "acceptedits",
    "alwaysapprove",
    "autoaccept",
    "autoapprove",
    "autoedit",
    "bypasspermissions",
    "dangerfullaccess",
    "dangerouslyskippermissions",
    "dontask",
    "fullaccess",
    "fullauto",
    "yolo",
];

/// Further arguments that do so: `-y` is `--yolo`; settings and `--bare` can remove the hooks by which calls are judged.
const ARGUMENTS: &[&str] = &[
    "allowalltools",
    "allowallpaths",
    "allowedtools",
    "bare",
    "dangerouslybypassapprovalsandsandbox",
    "fullauto",
    "permissionprompttool",
    "sandbox",
    "settings",
    "settingsources",
    "y",
];

/// Values of the keys above and modes of ACP agents that ask before changes.
const ASKING: &[&str] =
    &["approve", "ask", "build", "chat", "default", "manual", "plan", "readonly", "untrusted"];

/// The modes that a brief may choose for an ACP agent, in words.
pub(super) const ASKING_MODES: &str =
    "`default`, `plan`, `ask`, `approve`, `manual`, `read-only`, `build` or `chat`";

/// How an option lets an agent act without asking.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Bypass {
    Option,
    /// The initial mode of an agent, which is not one that is known to ask.
    Mode,
}

/// Whether an option switches approvals off. `is_top`: it is an option of the adapter itself.
pub(super) fn bypass_of(key: &str, value: &Value, is_top: bool) -> Option<Bypass> {
    if KEYS.contains(&plain(key).as_str()) {
        return Some(Bypass::Option);
    }
    match value {
        Value::String(mode) if is_top && plain(key) == "mode" => {
            (!ASKING.contains(&plain(mode).as_str())).then_some(Bypass::Mode)
        }
        Value::String(text) => VALUES.contains(&plain(text).as_str()).then_some(Bypass::Option),
        _ => None,
    }
}

/// Whether a variable of this name switches approvals off.
pub(super) fn sets_approvals(variable: &str) -> bool {
    KEYS.contains(&plain(variable).as_str())
}

/// The index of the first argument that switches approvals off, among the arguments of a program. A single text can be a command line.
pub(super) fn bypassing_argument(arguments: &[&str]) -> Option<usize> {
    let words: Vec<(usize, &str)> = arguments
        .iter()
        .enumerate()
        .flat_map(|(at, argument)| {
            argument.split(|c: char| c.is_whitespace() || "='\",:{}".contains(c)).map(move |word| (at, word))
        })
        .filter(|(_, word)| !word.is_empty())
        .collect();
    let found = words.iter().enumerate().find(|(position, (_, word))| {
        let name = plain(word);
        let asks = words.get(position + 1).is_some_and(|(_, value)| ASKING.contains(&plain(value).as_str()));
        let is_option = word.starts_with('-') && ARGUMENTS.contains(&name.as_str());
        is_option || (KEYS.contains(&name.as_str()) && !asks) || VALUES.contains(&name.as_str())
    });
    found.map(|(_, (at, _))| *at)
}

/// Whether the value of a key consists of arguments, or is a command line.
pub(super) fn is_command_line(key: &str) -> bool {
    let key = plain(key);
    ["arg", "command", "flag"].iter().any(|part| key.contains(part)) || key == "shellprefix"
}

/// A text without separators, in lower case.
pub(super) fn plain(text: &str) -> String {
    text.chars().filter(char::is_ascii_alphanumeric).collect::<String>().to_ascii_lowercase()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn modes_of_agents_must_be_known_to_ask() {
        for mode in ["default", "plan", "read-only", "Approve", "build"] {
            assert_eq!(bypass_of("mode", &json!(mode), true), None, "{mode}");
        }
        for mode in [
            "bypassPermissions",
            "yolo",
            "auto",
            "auto_edit",
            "full-access",
            "smart_approve",
            "dontAsk",
            "mine",
        ] {
            assert_eq!(bypass_of("mode", &json!(mode), true), Some(Bypass::Mode), "{mode}");
        }
        assert_eq!(bypass_of("mode", &json!("mine"), false), None);
        assert_eq!(bypass_of("mode", &json!("yolo"), false), Some(Bypass::Option));
    }

    #[test]
    fn arguments_that_skip_approvals_are_found() {
        for arguments in [
            vec!["--acp", "--yolo"],
            vec!["--acp", "-y"],
            vec!["--approval-mode=yolo"],
            vec!["--approval-mode", "auto-edit"],
            vec!["--dangerously-skip-permissions"],
            vec!["--permission-mode", "bypassPermissions"],
            vec!["--settings", "{\"disableAllHooks\":true}"],
            vec!["-c", "approval_policy=\"never\""],
            vec!["--ask-for-approval", "never"],
            vec!["--dangerously-bypass-approvals-and-sandbox"],
            vec!["-c", "cd /w && gemini --acp --yolo"],
            vec!["--allow-all-tools"],
        ] {
            assert!(bypassing_argument(&arguments).is_some(), "{arguments:?}");
        }
        for arguments in [
            vec!["--acp", "--approval-mode", "default"],
            vec!["acp", "-v"],
            vec!["--add-dir", "/w/settings"],
            vec!["--permission-mode", "plan"],
            vec!["--model", "y"],
        ] {
            assert_eq!(bypassing_argument(&arguments), None, "{arguments:?}");
        }
        assert_eq!(bypassing_argument(&["--acp", "-v", "--yolo"]), Some(2));
    }
}
