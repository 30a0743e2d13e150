//! Requests for files and commands as tool calls, in the form that the classification of calls expects: their kind,
//! and a `path` or a shell `command` among their arguments.

use std::path::Path;

use agent_client_protocol::v1::schema::{CreateTerminalRequest, WriteTextFileRequest};
use pilothouse_domain::ToolCallId;
use serde_json::{Value, json};

use super::verdicts::Gated;
use crate::kit::authorizer::ProposedCall;
use crate::kit::json::{list, text};

/// Arguments in which agents name the file and the command of a call.
const PATHS: [&str; 4] = ["file_path", "path", "filePath", "notebook_path"];
const COMMANDS: [&str; 3] = ["command", "cmd", "script"];
const SHELLS: [&str; 3] = ["sh", "bash", "zsh"];

/// `None` if the parameters are not valid.
pub(super) fn write_call(id: ToolCallId, parameters: &Value) -> Option<ProposedCall> {
    let request: WriteTextFileRequest = serde_json::from_value(parameters.clone()).ok()?;
    let arguments = json!({ "path": request.path, "content": request.content });
    Some(ProposedCall { id, tool: "fs/write_text_file".into(), kind: Some("edit".into()), arguments })
}

/// `None` if the parameters are not valid.
pub(super) fn terminal_call(id: ToolCallId, parameters: &Value) -> Option<ProposedCall> {
    let request: CreateTerminalRequest = serde_json::from_value(parameters.clone()).ok()?;
    let arguments = json!({ "command": command_line(&request)? });
    Some(ProposedCall { id, tool: "terminal/create".into(), kind: Some("execute".into()), arguments })
}

/// The request as a command of a shell. `None` if its folder is no text.
fn command_line(request: &CreateTerminalRequest) -> Option<String> {
    let mut steps: Vec<String> =
        request.env.iter().map(|it| format!("export {}={}", it.name, quoted(&it.value))).collect();
    if let Some(folder) = &request.cwd {
        steps.push(format!("cd {}", quoted(folder.to_str()?)));
    }
    let words = std::iter::once(&request.command).chain(&request.args);
    steps.push(if request.args.is_empty() {
        // Without arguments, the command itself is a line.
        request.command.clone()
    } else {
        words.map(|word| quoted(word)).collect::<Vec<_>>().join(" ")
    });
    Some(steps.join(" && "))
}

fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// Whether a request does only what a permitted call with these arguments said.
pub(super) fn is_covered(what: &Gated, permitted: &Value, folder: &Path) -> bool {
    match what {
        Gated::Permission(_) => false,
        Gated::Write(parameters) => {
            let Some(path) = text(parameters, "path") else { return false };
            let named = PATHS.iter().filter_map(|name| text(permitted, name));
            let located = list(permitted, "locations").iter().filter_map(|it| text(it, "path"));
            named.chain(located).any(|permitted| folder.join(permitted) == folder.join(path))
        }
        Gated::Terminal(parameters) => {
            let Ok(request) = serde_json::from_value::<CreateTerminalRequest>(parameters.clone()) else {
                return false;
            };
            let stays = request.env.is_empty() && request.cwd.is_none_or(|cwd| cwd == folder);
            let script = match request.args.as_slice() {
                [] => Some(&request.command),
                [flag, script] if flag == "-c" && is_shell(&request.command) => Some(script),
                _ => None,
            };
            let permitted = COMMANDS.iter().find_map(|name| text(permitted, name));
            stays && permitted.is_some() && permitted == script.map(String::as_str)
        }
    }
}

fn is_shell(program: &str) -> bool {
    SHELLS.contains(&program.strip_prefix("/bin/").unwrap_or(program))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id() -> ToolCallId {
        ToolCallId::parse("r1").unwrap()
    }

    fn line(parameters: &Value) -> Value {
        let mut parameters = parameters.clone();
        parameters["sessionId"] = "s".into();
        terminal_call(id(), &parameters).unwrap().arguments["command"].clone()
    }

    #[test]
    fn command_is_described_as_a_line_of_a_shell() {
        assert_eq!(line(&json!({ "command": "ls | wc" })), "ls | wc");
        assert_eq!(
            line(&json!({ "command": "sh", "args": ["-c", "echo 'a b'"] })),
            r"'sh' '-c' 'echo '\''a b'\'''"
        );
        let all = json!({ "command": "make", "args": ["all"], "cwd": "/w/x", "env": [{ "name": "A", "value": "1 2" }] });
        assert_eq!(line(&all), "export A='1 2' && cd '/w/x' && 'make' 'all'");
    }

    #[test]
    fn classification_understands_files_and_commands() {
        use pilothouse_classification::pattern::ToolClassifications;
        use pilothouse_classification::{ActionKind, Adapter, Context, Effect, ToolCall, classify};

        let patterns = ToolClassifications::default();
        let context = Context::new("/w", "/w", "/home/agent", &patterns).unwrap();
        let kinds = |call: &ProposedCall| {
            let (tool, kind) = (call.tool.as_str(), call.kind.as_deref());
            let found = classify(
                &ToolCall { adapter: Adapter::Acp, tool, kind, arguments: &call.arguments },
                &context,
            );
            assert!(
                found.effects.iter().all(|effect| effect != Effect::UNCLASSIFIED),
                "{:?}",
                call.arguments
            );
            found.effects.iter().map(|effect| effect.action_kind).collect::<Vec<_>>()
        };
        let removes =
            json!({ "sessionId": "s", "command": "/bin/sh", "args": ["-c", "rm -r 'a b'"], "cwd": "/w/x" });
        assert!(kinds(&terminal_call(id(), &removes).unwrap()).contains(&ActionKind::Delete));
        let writes = json!({ "sessionId": "s", "path": "/w/a.rs", "content": "x" });
        assert!(kinds(&write_call(id(), &writes).unwrap()).contains(&ActionKind::Update));
    }

    #[test]
    fn permission_covers_the_same_file_or_command_only() {
        let folder = Path::new("/w");
        let write = |path: &str| Gated::Write(json!({ "path": path }));
        for permitted in [json!({ "file_path": "/w/a" }), json!({ "locations": [{ "path": "a" }] })] {
            assert!(is_covered(&write("/w/a"), &permitted, folder));
            assert!(!is_covered(&write("/w/b"), &permitted, folder));
        }
        let permitted = json!({ "command": "touch x" });
        let terminal = |mut parameters: Value| {
            parameters["sessionId"] = "s".into();
            is_covered(&Gated::Terminal(parameters), &permitted, folder)
        };
        assert!(terminal(json!({ "command": "touch x" })));
        assert!(terminal(json!({ "command": "/bin/bash", "args": ["-c", "touch x"], "cwd": "/w" })));
        for other in [
            json!({ "command": "touch", "args": ["x"] }),
            json!({ "command": "rm", "args": ["-c", "touch x"] }),
            json!({ "command": "touch x", "cwd": "/elsewhere" }),
            json!({ "command": "touch x", "env": [{ "name": "LD_PRELOAD", "value": "x" }] }),
        ] {
            assert!(!terminal(other.clone()), "{other}");
        }
    }
}
