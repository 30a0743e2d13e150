//! `list`: lists a folder.

use std::sync::Arc;

use async_trait::async_trait;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{blocking, spec};
use crate::model::ToolSpec;
use crate::tool::{Tool, ToolContext, ToolOutput};
use crate::workspace::{DirEntryInfo, DirEntryKind, Workspace};

const MAX_NAMES: usize = 1000;

pub(super) struct List {
    workspace: Arc<Workspace>,
    spec: ToolSpec,
}

#[derive(Deserialize)]
struct Arguments {
    path: Option<String>,
    limit: Option<usize>,
}

impl List {
    pub(super) fn new(workspace: Arc<Workspace>) -> Self {
        let description = format!(
            "Lists what a folder holds, hidden files too, by name: folders end with `/`, links show where they lead. At \
             most {MAX_NAMES} names."
        );
        let schema = json!({
            "type": "object",
            "properties": {
                "path": {"type": "string", "description": "The folder; the working directory when it is left out"},
                "limit": {"type": "integer", "minimum": 1, "description": "The most names to show"},
            },
            "additionalProperties": false,
        });
        Self { workspace, spec: spec("list", &description, schema) }
    }
}

#[async_trait]
impl Tool for List {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    async fn run(&self, arguments: Value, context: ToolContext) -> ToolOutput {
        let workspace = self.workspace.clone();
        blocking(arguments, &context, move |Arguments { path, limit }, _| {
            let entry = workspace.find(path.as_deref().unwrap_or(".")).map_err(|error| error.to_string())?;
            let mut names = Vec::new();
            for DirEntryInfo { name, kind } in entry.read_dir().map_err(|error| error.to_string())? {
                let name = name.to_string_lossy();
                names.push(match kind {
                    DirEntryKind::File => name.into_owned(),
                    DirEntryKind::Folder => format!("{name}/"),
                    DirEntryKind::Link(target) => format!("{name} -> {}", target.display()),
                });
            }
            names.sort_unstable_by(|a, b| a.to_lowercase().cmp(&b.to_lowercase()).then_with(|| a.cmp(b)));
            let total = names.len();
            names.truncate(limit.unwrap_or(MAX_NAMES).min(MAX_NAMES));
            if names.len() < total {
                names.push(format!("\n[{} of {total} names.]", names.len()));
            }
            Ok(ToolOutput::text(if names.is_empty() { "(empty)".to_owned() } else { names.join("\n") }))
        })
        .await
    }
}
