//! Instructions about files and commands that the sidecar handles.

use serde_json::{Value, json};

use super::Fake;

impl Fake {
    pub(super) fn play_gated(&mut self, word: &str, rest: &str) {
        match word {
            "write" | "write-much" => {
                let content = if word == "write" { "one".to_owned() } else { "x".repeat(super::MUCH) };
                let written = self.ask("fs/write_text_file", json!({"path": rest, "content": content}));
                Self::say(&format!("written: {}", error(&written)));
            }
            // Does not wait for the file.
            "write-and-end" => {
                let content = "x".repeat(super::VERY_MUCH);
                self.send("fs/write_text_file", json!({"path": rest, "content": content}));
                Self::say("meanwhile");
            }
            "run" => {
                let ran = self.ask("terminal/create", json!({"command": rest}));
                Self::say(&format!("ran: {}", error(&ran)));
            }
            // Asks for permission to run `touch x`, and then runs the command.
            _ => {
                Self::call("c1", "pending");
                let chosen = self.permission("c1");
                let ran = self.ask("terminal/create", json!({"command": rest}));
                Self::result("c1", "completed", &format!("{chosen} {}", error(&ran)));
            }
        }
    }
}

/// The reason of a refused request, or `none`.
fn error(response: &Value) -> &str {
    response["error"]["data"].as_str().unwrap_or("none")
}
