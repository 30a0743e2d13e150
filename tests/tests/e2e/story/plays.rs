//! What the agents of the story do.

use std::path::Path;

use pilothouse_model_server::{Conversation, Script, Step};
use serde_json::{Value, json};

use crate::scripts::{say, script, turn};

pub(super) fn bash(command: &str) -> Value {
    json!({ "command": command })
}

/// What the models of three agents do. Gates hold replies until the owner has changed the mode or pulled the brake.
pub(super) fn models(acp: &Path, claude: &Path) -> Script {
    let conversation =
        |name: &str, steps: Vec<Step>| Conversation { name: name.into(), steps, ..Conversation::default() };
    let write = |folder: &Path, file: &str| {
        Step::tool("Write", json!({ "file_path": folder.join(file), "content": "x" }))
    };
    Script {
        conversations: vec![
            conversation(
                "native",
                vec![
                    Step::tool("bash", bash("ls")),
                    Step::tool("bash", bash("rm -rf dist")),
                    Step::tool("write", json!({ "path": "notes.md", "content": "x" })).waiting("brake"),
                    Step::text("Notes are written."),
                ],
            ),
            conversation(
                "claude",
                vec![
                    Step::tool("Bash", bash("ls")),
                    Step::tool("Bash", bash("rm -rf build")),
                    write(claude, "plan.md").waiting("brake"),
                    Step::text("There is no plan."),
                ],
            ),
            conversation(
                "acp",
                vec![
                    write(acp, "first.md"),
                    write(acp, "second.md").waiting("mode"),
                    Step::text("Two files are written."),
                ],
            ),
        ],
        ..Script::default()
    }
}

/// Sends a mail before and after a message of the owner, and then ignores a request to pause.
pub(super) fn mailing() -> Value {
    let mail = |id: &str| json!({ "tool": { "id": id, "name": "send_mail", "input": {}, "result": "sent" } });
    script(&[turn(&[
        json!({ "tool": { "id": "list", "name": "Bash", "input": { "command": "ls" }, "result": "a file", "ms": 5 } }),
        mail("first"),
        json!({ "waitForMessage": {} }),
        mail("second"),
        json!({ "ignore": { "command": "pause" } }),
        say("Two mails are sent."),
        json!({ "waitForMessage": {} }),
        say("Told: {{message}}"),
    ])])
}
