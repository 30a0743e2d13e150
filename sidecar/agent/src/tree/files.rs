//! The files that an agent used, so that they are known after a compaction.

use std::collections::HashMap;
use std::fmt::Write;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::message::{AgentMessage, ToolCall};

/// Most files in each list. The files that were used last stay.
const MOST: usize = 200;

/// Paths as the agent wrote them, the latest last. A file that was written is not listed as read.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct FileList {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub read: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub written: Vec<String>,
}

impl FileList {
    pub fn is_empty(&self) -> bool {
        self.read.is_empty() && self.written.is_empty()
    }

    /// Adds the files of the successful calls of the file tools among these messages.
    pub(crate) fn add<'a>(&mut self, messages: impl IntoIterator<Item = &'a AgentMessage>) {
        let mut calls: HashMap<&str, &ToolCall> = HashMap::new();
        for message in messages {
            match message {
                AgentMessage::Assistant(reply) => {
                    calls.extend(reply.tool_calls().map(|call| (call.id.as_str(), call)));
                }
                AgentMessage::ToolResult(result) if !result.is_error => {
                    if let Some(call) = calls.remove(result.tool_call_id.as_str()) {
                        self.add_call(call);
                    }
                }
                _ => {}
            }
        }
    }

    fn add_call(&mut self, call: &ToolCall) {
        let Some(path) = call.arguments.get("path").and_then(Value::as_str) else { return };
        match call.name.as_str() {
            "read" if self.written.iter().any(|known| known == path) => {}
            "read" => latest(&mut self.read, path),
            "write" | "edit" => {
                self.read.retain(|known| known != path);
                latest(&mut self.written, path);
            }
            _ => {}
        }
    }

    /// As the model sees it after a summary. Empty if there is no file.
    pub(super) fn section(&self) -> String {
        let mut text = String::new();
        for (title, paths) in [("read", &self.read), ("written", &self.written)] {
            if !paths.is_empty() {
                // Writing to a string cannot fail.
                let _ = write!(text, "\n\n<files-{title}>\n{}\n</files-{title}>", paths.join("\n"));
            }
        }
        text
    }
}

fn latest(paths: &mut Vec<String>, path: &str) {
    paths.retain(|known| known != path);
    paths.push(path.to_owned());
    let excess = paths.len().saturating_sub(MOST);
    paths.drain(..excess);
}
