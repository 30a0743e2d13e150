//! `find`: finds files by name.

use std::sync::Arc;

use async_trait::async_trait;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::{Answer, STOPPED, blocking, search, spec};
use crate::model::ToolSpec;
use crate::tool::{Tool, ToolContext, ToolOutput};
use crate::workspace::Workspace;

const MAX_PATHS: usize = 1000;

pub(super) struct Find {
    workspace: Arc<Workspace>,
    spec: ToolSpec,
}

#[derive(Deserialize)]
struct Arguments {
    pattern: String,
    path: Option<String>,
    limit: Option<usize>,
}

impl Find {
    pub(super) fn new(workspace: Arc<Workspace>) -> Self {
        let description = format!(
            "Finds files and folders by a glob: `*.rs` anywhere, `src/**/*.rs` below `src` of the working directory. \
             What `.gitignore` leaves out is left out. At most {MAX_PATHS} paths, from the working directory."
        );
        let schema = json!({
            "type": "object",
            "properties": {
                "pattern": {"type": "string", "minLength": 1, "description": "The glob"},
                "path": {"type": "string", "description": "The folder to look in; the working directory when it is left out"},
                "limit": {"type": "integer", "minimum": 1, "description": "The most paths to show"},
            },
            "required": ["pattern"],
            "additionalProperties": false,
        });
        Self { workspace, spec: spec("find", &description, schema) }
    }
}

#[async_trait]
impl Tool for Find {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    async fn run(&self, arguments: Value, context: ToolContext) -> ToolOutput {
        let workspace = self.workspace.clone();
        blocking(arguments, &context, move |arguments, cancelled| find(&workspace, &arguments, cancelled))
            .await
    }
}

fn find(workspace: &Workspace, arguments: &Arguments, cancelled: &CancellationToken) -> Answer {
    let below =
        workspace.find(arguments.path.as_deref().unwrap_or(".")).map_err(|error| error.to_string())?;
    below.open_dir().map_err(|error| error.to_string())?;
    let glob = search::glob(workspace, &arguments.pattern)?;
    let most = arguments.limit.unwrap_or(MAX_PATHS).min(MAX_PATHS);
    let mut paths = Vec::new();
    let mut more = false;
    for entry in search::walk(workspace, &below) {
        if cancelled.is_cancelled() {
            return Err(STOPPED.to_owned());
        }
        let is_dir = entry.file_type().is_some_and(|kind| kind.is_dir());
        let path = search::shown(workspace, &entry);
        if !glob.matched(&path, is_dir).is_ignore() {
            continue;
        }
        if paths.len() == most {
            more = true;
            break;
        }
        paths.push(format!("{}{}", path.display(), if is_dir { "/" } else { "" }));
    }
    if paths.is_empty() {
        return Ok(ToolOutput::text(format!("Nothing fits `{}`.", arguments.pattern)));
    }
    if more {
        paths
            .push(format!("\n[The first {most}; there are more. Look in a folder, or for a narrower glob.]"));
    }
    Ok(ToolOutput::text(paths.join("\n")))
}
