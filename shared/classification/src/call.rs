//! The input of the classification.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::path::{BaseFolders, InvalidPlaces};
use pilothouse_domain::effect::pattern::ToolClassifications;

/// The part of a sidecar that reports the call. Tools of different adapters can have the same name and other arguments.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Adapter {
    Claude,
    Acp,
    Native,
    Script,
    /// An adapter whose tools only the patterns of a project know.
    Other,
}

impl Adapter {
    /// The adapter with this name.
    pub fn named(name: &str) -> Self {
        match name {
            "claude" => Self::Claude,
            "acp" => Self::Acp,
            "native" => Self::Native,
            "script" => Self::Script,
            _ => Self::Other,
        }
    }
}

/// A tool call as an agent requests it.
#[derive(Debug, Clone, Copy)]
pub struct ToolCall<'a> {
    pub adapter: Adapter,
    pub tool: &'a str,
    /// The kind that an ACP agent reports for the call: `read`, `edit`, `execute` and others.
    pub kind: Option<&'a str>,
    pub arguments: &'a Value,
}

/// Where a call takes effect.
#[derive(Debug, Clone, Copy)]
pub struct Context<'a> {
    pub(crate) places: BaseFolders<'a>,
    pub(crate) patterns: &'a ToolClassifications,
}

impl<'a> Context<'a> {
    /// `workspace` is the working directory of the agent, `project_root` the project that contains it, `home` the home directory
    /// of the user that the agent runs as. All are absolute.
    pub fn new(
        workspace: &'a str,
        project_root: &'a str,
        home: &'a str,
        patterns: &'a ToolClassifications,
    ) -> Result<Self, InvalidPlaces> {
        Ok(Self { places: BaseFolders::new(workspace, project_root, home)?, patterns })
    }

    /// Build files that earlier calls of the agent changed: builds and tests run what it wrote.
    #[must_use]
    pub const fn after_changes(mut self, build_files: &'a [String]) -> Self {
        self.places.changed_build_files = build_files;
        self
    }
}
