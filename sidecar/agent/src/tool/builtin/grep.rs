//! `grep`: finds lines by content.

use std::fmt::Write;
use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use grep_searcher::{BinaryDetection, Searcher, SearcherBuilder, Sink, SinkContext, SinkMatch};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::{Answer, STOPPED, blocking, search, spec};
use crate::model::ToolSpec;
use crate::output_text::{MAX_BYTES, head};
use crate::tool::{Tool, ToolContext, ToolOutput};
use crate::workspace::Workspace;

const MAX_MATCHES: usize = 100;
/// In bytes.
const MAX_LINE: usize = 500;

pub(super) struct Grep {
    workspace: Arc<Workspace>,
    spec: ToolSpec,
}

#[derive(Deserialize)]
struct Arguments {
    pattern: String,
    path: Option<String>,
    glob: Option<String>,
    #[serde(default)]
    ignore_case: bool,
    #[serde(default)]
    literal: bool,
    #[serde(default)]
    context: usize,
    limit: Option<usize>,
}

impl Grep {
    pub(super) fn new(workspace: Arc<Workspace>) -> Self {
        let description = format!(
            "Finds lines that fit a regular expression, with path and number. What `.gitignore` leaves out and what is no \
             text is left out. At most {MAX_MATCHES} lines unless `limit` says more, and {} KB; long lines are cut.",
            MAX_BYTES / 1024
        );
        let schema = json!({
            "type": "object",
            "properties": {
                "pattern": {"type": "string", "minLength": 1, "description": "The regular expression"},
                "path": {"type": "string", "description": "The folder or file to look in; the working directory when it is left out"},
                "glob": {"type": "string", "description": "Only files that fit it, `*.rs` say"},
                "ignore_case": {"type": "boolean", "description": "Whether case does not matter"},
                "literal": {"type": "boolean", "description": "Whether the pattern is a text, no regular expression"},
                "context": {"type": "integer", "minimum": 0, "maximum": 50, "description": "Lines to show before and after"},
                "limit": {"type": "integer", "minimum": 1, "description": "The most lines that fit"},
            },
            "required": ["pattern"],
            "additionalProperties": false,
        });
        Self { workspace, spec: spec("grep", &description, schema) }
    }
}

#[async_trait]
impl Tool for Grep {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    async fn run(&self, arguments: Value, context: ToolContext) -> ToolOutput {
        let workspace = self.workspace.clone();
        blocking(arguments, &context, move |arguments, cancelled| grep(&workspace, &arguments, cancelled))
            .await
    }
}

fn grep(workspace: &Workspace, arguments: &Arguments, cancelled: &CancellationToken) -> Answer {
    let matcher = RegexMatcherBuilder::new()
        .case_insensitive(arguments.ignore_case)
        .fixed_strings(arguments.literal)
        .line_terminator(Some(b'\n'))
        .build(&arguments.pattern)
        .map_err(|error| format!("`{}` is no regular expression for lines: {error}", arguments.pattern))?;
    let glob = arguments.glob.as_deref().map(|glob| search::glob(workspace, glob)).transpose()?;
    let below =
        workspace.find(arguments.path.as_deref().unwrap_or(".")).map_err(|error| error.to_string())?;
    let mut searcher = SearcherBuilder::new()
        .line_number(true)
        .before_context(arguments.context)
        .after_context(arguments.context)
        .binary_detection(BinaryDetection::quit(b'\0'))
        .build();
    let most = arguments.limit.unwrap_or(MAX_MATCHES);
    let mut found =
        Found { text: String::new(), matches: 0, most, full: None, cancelled, path: Path::new("") };
    if below.is_dir().map_err(|error| error.to_string())? {
        for entry in search::walk(workspace, &below) {
            if found.full.is_some() || cancelled.is_cancelled() {
                break;
            }
            let path = search::shown(workspace, &entry);
            let fits = glob.as_ref().is_none_or(|glob| glob.matched(&path, false).is_ignore());
            if !fits || !entry.file_type().is_some_and(|kind| kind.is_file()) {
                continue;
            }
            // Opened through the workspace, because the entry may be a link now. Skips unreadable files.
            if let Some(Ok(file)) = entry.path().to_str().map(|path| workspace.open(path)) {
                found.search(&mut searcher, &matcher, &file, &path);
            }
        }
    } else {
        let file = below.open().map_err(|error| error.to_string())?;
        found.search(&mut searcher, &matcher, &file, below.relative());
    }
    if cancelled.is_cancelled() {
        return Err(STOPPED.to_owned());
    }
    Ok(ToolOutput::text(found.finish(&arguments.pattern)))
}

struct Found<'a> {
    text: String,
    matches: usize,
    most: usize,
    /// Why the output ends early.
    full: Option<String>,
    cancelled: &'a CancellationToken,
    path: &'a Path,
}

impl Found<'_> {
    fn search(&mut self, searcher: &mut Searcher, matcher: &RegexMatcher, file: &std::fs::File, path: &Path) {
        let mut here = Found {
            text: std::mem::take(&mut self.text),
            matches: self.matches,
            most: self.most,
            full: None,
            cancelled: self.cancelled,
            path,
        };
        let before = here.text.len();
        if let Err(error) = searcher.search_file(matcher, file, &mut here) {
            tracing::debug!(path = %path.display(), %error, "failed to search a file");
            here.text.truncate(before);
        }
        self.text = here.text;
        self.matches = here.matches;
        self.full = here.full;
    }

    fn line(&mut self, number: Option<u64>, sign: char, bytes: &[u8]) -> bool {
        let line = String::from_utf8_lossy(bytes);
        let line = line.trim_end_matches(['\r', '\n']);
        let shown = head(line, MAX_LINE);
        let cut = if shown.len() < line.len() { " […]" } else { "" };
        _ = writeln!(
            self.text,
            "{}{sign}{}{sign} {shown}{cut}",
            self.path.display(),
            number.unwrap_or_default()
        );
        if self.text.len() > MAX_BYTES {
            self.full = Some(format!("[Cut at {} KB; there may be more.]", MAX_BYTES / 1024));
        }
        self.full.is_none() && !self.cancelled.is_cancelled()
    }

    fn finish(mut self, pattern: &str) -> String {
        if self.matches == 0 {
            return format!("No line fits `{pattern}`.");
        }
        if let Some(full) = self.full {
            self.text.push_str(&full);
        }
        self.text.truncate(self.text.trim_end().len());
        self.text
    }
}

impl Sink for Found<'_> {
    type Error = std::io::Error;

    fn matched(&mut self, _: &Searcher, matched: &SinkMatch<'_>) -> Result<bool, Self::Error> {
        if self.matches == self.most {
            self.full = Some(format!("[The first {} lines that fit; there are more.]", self.most));
            return Ok(false);
        }
        self.matches += 1;
        Ok(self.line(matched.line_number(), ':', matched.bytes()))
    }

    fn context(&mut self, _: &Searcher, context: &SinkContext<'_>) -> Result<bool, Self::Error> {
        Ok(self.line(context.line_number(), '-', context.bytes()))
    }

    fn context_break(&mut self, _: &Searcher) -> Result<bool, Self::Error> {
        self.text.push_str("--\n");
        Ok(true)
    }
}
