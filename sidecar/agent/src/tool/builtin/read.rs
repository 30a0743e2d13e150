//! `read`: reads a file.

use std::fs::File;
use std::io::{BufRead, BufReader, Read as _};
use std::sync::Arc;

use async_trait::async_trait;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::{Answer, STOPPED, blocking, spec};
use crate::message::UserContent;
use crate::model::ToolSpec;
use crate::output_text::{MAX_BYTES, MAX_LINES, head, newlines};
use crate::tool::{Tool, ToolContext, ToolOutput};
use crate::workspace::Workspace;

/// In bytes. Providers accept 5 MB of base64.
const MAX_IMAGE: u64 = 3_700_000;

pub(super) struct Read {
    workspace: Arc<Workspace>,
    spec: ToolSpec,
}

#[derive(Deserialize)]
struct Arguments {
    path: String,
    offset: Option<u64>,
    limit: Option<u64>,
}

impl Read {
    pub(super) fn new(workspace: Arc<Workspace>) -> Self {
        let description = format!(
            "Reads a file: text, or an image (PNG, JPEG, GIF, WebP). Of a text it shows at most {MAX_LINES} lines and \
             {} KB; `offset` and `limit` show other parts of it.",
            MAX_BYTES / 1024
        );
        let schema = json!({
            "type": "object",
            "properties": {
                "path": {"type": "string", "description": "The file, relative to the working directory or absolute"},
                "offset": {"type": "integer", "minimum": 1, "description": "The first line to show, from 1"},
                "limit": {"type": "integer", "minimum": 1, "description": "The most lines to show"},
            },
            "required": ["path"],
            "additionalProperties": false,
        });
        Self { workspace, spec: spec("read", &description, schema) }
    }
}

#[async_trait]
impl Tool for Read {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    async fn run(&self, arguments: Value, context: ToolContext) -> ToolOutput {
        let workspace = self.workspace.clone();
        blocking(arguments, &context, move |arguments, cancelled| read(&workspace, &arguments, cancelled))
            .await
    }
}

fn read(workspace: &Workspace, arguments: &Arguments, cancelled: &CancellationToken) -> Answer {
    let failed = |error: std::io::Error| format!("{}: {error}", arguments.path);
    let file = workspace.open(&arguments.path).map_err(|error| error.to_string())?;
    let size = file.metadata().map_err(failed)?.len();
    let mut file = BufReader::with_capacity(64 * 1024, file);
    if let Some(mime_type) = image_type(file.fill_buf().map_err(failed)?) {
        return image(file, mime_type, size, &arguments.path);
    }
    let from = arguments.offset.unwrap_or(1).max(1);
    let most =
        arguments.limit.map_or(MAX_LINES, |limit| usize::try_from(limit).unwrap_or(MAX_LINES).min(MAX_LINES));
    let part = Part::read(file, from, most, cancelled).map_err(failed)?;
    if cancelled.is_cancelled() {
        return Err(STOPPED.to_owned());
    }
    part.answer(&arguments.path, from, size)
}

/// A range of lines of a file.
struct Part {
    bytes: Vec<u8>,
    total: u64,
    /// Complete lines in `bytes`.
    shown: u64,
    /// Whether the first line alone is too long.
    cut: bool,
}

impl Part {
    fn read(
        mut file: impl BufRead,
        from: u64,
        most: usize,
        cancelled: &CancellationToken,
    ) -> std::io::Result<Self> {
        let until = from.saturating_add(most as u64);
        let (mut bytes, mut line, mut full, mut within_a_line) = (Vec::new(), 1, false, false);
        while !cancelled.is_cancelled() {
            let buffer = file.fill_buf()?;
            if buffer.is_empty() {
                break;
            }
            for piece in buffer.split_inclusive(|byte| *byte == b'\n') {
                if (from..until).contains(&line) && !full {
                    let room = MAX_BYTES + 1 - bytes.len();
                    bytes.extend_from_slice(&piece[..piece.len().min(room)]);
                    full = bytes.len() > MAX_BYTES;
                }
                within_a_line = !piece.ends_with(b"\n");
                line += u64::from(!within_a_line);
            }
            let read = buffer.len();
            file.consume(read);
        }
        let total = line - 1 + u64::from(within_a_line);
        let mut cut = false;
        if full {
            match bytes.iter().rposition(|byte| *byte == b'\n') {
                Some(end) => bytes.truncate(end + 1),
                None => cut = true,
            }
        }
        let shown = newlines(&bytes) + u64::from(!bytes.is_empty() && !bytes.ends_with(b"\n"));
        Ok(Self { bytes, total, shown, cut })
    }

    fn answer(self, path: &str, from: u64, size: u64) -> Answer {
        let Self { bytes, total, shown, cut } = self;
        if bytes.contains(&0) {
            return Err(format!("{path} is no text: it has {size} bytes of something else"));
        }
        if from > 1 && from > total {
            return Err(format!("{path} has {total} lines; there is no line {from}"));
        }
        let text = String::from_utf8_lossy(&bytes);
        let text = if from == 1 { text.trim_start_matches('\u{feff}') } else { &text };
        let last = from + shown.saturating_sub(1);
        if cut {
            return Ok(ToolOutput::text(format!(
                "{}\n\n[Line {from} of {total} is longer than {} KB and was cut here. Read the rest of it with bash \
                 (sed, cut).]",
                head(text, MAX_BYTES),
                MAX_BYTES / 1024
            )));
        }
        if last < total {
            return Ok(ToolOutput::text(format!(
                "{text}\n[Lines {from} to {last} of {total}. Go on with offset {}.]",
                last + 1
            )));
        }
        Ok(ToolOutput::text(text))
    }
}

fn image(file: BufReader<File>, mime_type: &str, size: u64, path: &str) -> Answer {
    let mut bytes = Vec::new();
    file.take(MAX_IMAGE + 1).read_to_end(&mut bytes).map_err(|error| format!("{path}: {error}"))?;
    if bytes.len() as u64 > MAX_IMAGE {
        return Err(format!(
            "{path} is an image of {size} bytes; at most {MAX_IMAGE} are shown. Make it smaller."
        ));
    }
    let image = UserContent::Image { mime_type: mime_type.to_owned(), data: BASE64_STANDARD.encode(bytes) };
    let mut output = ToolOutput::text(format!("{path} is an image ({mime_type}):"));
    output.content.push(image);
    Ok(output)
}

fn image_type(begin: &[u8]) -> Option<&'static str> {
    match begin {
        [0x89, b'P', b'N', b'G', b'\r', b'\n', 0x1a, b'\n', ..] => Some("image/png"),
        [0xff, 0xd8, 0xff, ..] => Some("image/jpeg"),
        [b'G', b'I', b'F', b'8', b'7' | b'9', b'a', ..] => Some("image/gif"),
        [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => Some("image/webp"),
        _ => None,
    }
}
