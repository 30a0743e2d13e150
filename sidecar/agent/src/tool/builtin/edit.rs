//! `edit`: replaces parts of a file.

use std::io::Read;
use std::ops::Range;
use std::sync::Arc;

use async_trait::async_trait;
use serde::Deserialize;
use serde_json::{Value, json};

use super::diff::unified;
use super::{Answer, blocking, spec};
use crate::model::ToolSpec;
use crate::output_text::{MAX_BYTES, head};
use crate::tool::{Tool, ToolContext, ToolOutput};
use crate::workspace::Workspace;

/// In bytes.
const MAX_FILE: u64 = 16 * 1024 * 1024;

pub(super) struct Edit {
    workspace: Arc<Workspace>,
    spec: ToolSpec,
}

#[derive(Deserialize)]
struct Arguments {
    path: String,
    edits: Vec<Replacement>,
}

#[derive(Debug, Clone, Deserialize)]
pub(super) struct Replacement {
    pub(super) old_text: String,
    pub(super) new_text: String,
}

/// A replacement of a byte range.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Change {
    pub(super) range: Range<usize>,
    pub(super) text: String,
}

impl Edit {
    pub(super) fn new(workspace: Arc<Workspace>) -> Self {
        let description = "Replaces passages of a file. Each `old_text` must be in the file exactly once, as it is before \
                           any of the edits, and they must not overlap: take as many lines around it as make it unique. \
                           All edits are made, or none. Line endings are kept. Gives the difference.";
        let schema = json!({
            "type": "object",
            "properties": {
                "path": {"type": "string", "description": "The file, relative to the working directory or absolute"},
                "edits": {
                    "type": "array",
                    "minItems": 1,
                    "items": {
                        "type": "object",
                        "properties": {
                            "old_text": {"type": "string", "minLength": 1, "description": "The passage, exactly"},
                            "new_text": {"type": "string", "description": "What comes in its place"},
                        },
                        "required": ["old_text", "new_text"],
                        "additionalProperties": false,
                    },
                },
            },
            "required": ["path", "edits"],
            "additionalProperties": false,
        });
        Self { workspace, spec: spec("edit", description, schema) }
    }
}

#[async_trait]
impl Tool for Edit {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    async fn run(&self, arguments: Value, context: ToolContext) -> ToolOutput {
        let workspace = self.workspace.clone();
        blocking(arguments, &context, move |arguments, _| edit(&workspace, &arguments)).await
    }
}

fn edit(workspace: &Workspace, Arguments { path, edits }: &Arguments) -> Answer {
    let say = |error: &dyn std::fmt::Display| format!("{path}: {error}");
    let entry = workspace.find(path).map_err(|error| error.to_string())?;
    let file = entry.open().map_err(|error| error.to_string())?;
    let mut content = Vec::new();
    file.take(MAX_FILE + 1).read_to_end(&mut content).map_err(|error| say(&error))?;
    if content.len() as u64 > MAX_FILE {
        return Err(say(&"the file is too large to edit"));
    }
    let content = String::from_utf8(content).map_err(|_| say(&"the file is no UTF-8 text"))?;
    let changes = locate(&content, edits).map_err(|error| say(&error))?;
    let mut edited = String::with_capacity(content.len());
    let mut done = 0;
    for Change { range, text } in &changes {
        edited.push_str(&content[done..range.start]);
        edited.push_str(text);
        done = range.end;
    }
    edited.push_str(&content[done..]);
    // Resolved again, because only the working directory is writable.
    let target = workspace.find_to_write(path).map_err(|error| error.to_string())?;
    target.replace(edited.as_bytes()).map_err(|error| error.to_string())?;
    let diff = unified(&content, &edited);
    let shown = head(&diff, MAX_BYTES);
    let cut = if shown.len() < diff.len() { "\n[The rest of the difference is left out.]" } else { "" };
    Ok(ToolOutput::text(format!("Edited {}:\n{shown}{cut}", entry.relative().display())))
}

/// Returns the replacements in order.
pub(super) fn locate(content: &str, edits: &[Replacement]) -> Result<Vec<Change>, String> {
    // The comparison ignores carriage returns; positions refer to the original content.
    let plain = Plain::of(content);
    let ending =
        if content.find('\n').is_some_and(|at| content[..at].ends_with('\r')) { "\r\n" } else { "\n" };
    let mut changes = Vec::with_capacity(edits.len());
    for (index, Replacement { old_text, new_text }) in edits.iter().enumerate() {
        let old = old_text.replace("\r\n", "\n");
        let new = new_text.replace("\r\n", "\n");
        let number = index + 1;
        if old.is_empty() {
            return Err(format!("edit {number}: old_text is empty"));
        }
        if old == new {
            return Err(format!("edit {number}: old_text and new_text are the same"));
        }
        let mut found = overlapping_matches(&plain.text, &old);
        let Some(first) = found.next() else {
            return Err(format!("edit {number}: old_text is not in the file{}", hint(&plain.text, &old)));
        };
        let more = found.count();
        if more > 0 {
            let count = more + 1;
            return Err(format!(
                "edit {number}: old_text is in the file {count} times; take more of the lines around it"
            ));
        }
        let range = plain.original(first)..plain.original(first + old.len());
        changes.push((number, Change { range, text: new.replace('\n', ending) }));
    }
    changes.sort_by_key(|(_, change)| change.range.start);
    for pair in changes.windows(2) {
        if let [(one, before), (other, after)] = pair
            && before.range.end > after.range.start
        {
            return Err(format!("edits {one} and {other} overlap; make one edit of them"));
        }
    }
    Ok(changes.into_iter().map(|(_, change)| change).collect())
}

/// Includes overlapping ones.
fn overlapping_matches<'a>(text: &'a str, passage: &'a str) -> impl Iterator<Item = usize> + 'a {
    let mut from = 0;
    std::iter::from_fn(move || {
        let at = from + text.get(from..)?.find(passage)?;
        from = at + text[at..].chars().next().map_or(1, char::len_utf8);
        Some(at)
    })
}

/// A text with all line ends converted to `\n`, and the positions of the removed carriage returns.
struct Plain {
    text: String,
    /// In `text`, the positions before which a `\r` was removed.
    left_out: Vec<usize>,
}

impl Plain {
    fn of(content: &str) -> Self {
        let mut text = String::with_capacity(content.len());
        let mut left_out = Vec::new();
        let mut pieces = content.split("\r\n");
        text.extend(pieces.next());
        for piece in pieces {
            left_out.push(text.len());
            text.push('\n');
            text.push_str(piece);
        }
        Self { text, left_out }
    }

    /// Converts to a position in the content, before the `\r` of a line's end.
    fn original(&self, at: usize) -> usize {
        at + self.left_out.partition_point(|place| *place < at)
    }
}

/// A hint about a passage that differs only in white space.
fn hint(text: &str, passage: &str) -> String {
    let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
    let wanted: Vec<_> = passage.trim().lines().map(words).collect();
    let lines: Vec<_> = text.lines().map(words).collect();
    match lines.windows(wanted.len().max(1)).position(|window| window == wanted) {
        Some(at) => format!("; lines {} to {} differ from it in blanks only", at + 1, at + wanted.len()),
        None => "; read it again, and take the passage exactly as it is there".to_owned(),
    }
}
