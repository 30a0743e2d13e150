//! MCP servers of a brief (S2 `AgentBrief.mcpServers`; decision 79).

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::text::{ToolDescription, ToolName};
use crate::value::{InputSchema, ServerUri};

/// An MCP server with the tools that the agent may use of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct McpServer {
    /// The absolute URI of the server.
    pub uri: ServerUri,
    /// The tools.
    pub tools: Vec<McpServerTool>,
}

/// A tool of an MCP server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct McpServerTool {
    /// The name of the tool, unique in the brief.
    pub name: ToolName,
    /// A description of the tool for the agent.
    pub description: ToolDescription,
    /// The JSON Schema of the tool's input, as text.
    pub input_schema: InputSchema,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum McpViolation {
    #[error("must have 1 to {max} entries")]
    Count { max: usize },
    #[error("is the name of another tool of the brief, too")]
    DuplicateName,
    #[error("must be listed in `allowedTools`, which has other tools")]
    NotAllowed,
    #[error("must have at most {max_kib} KiB together")]
    TooLarge { max_kib: usize },
}

impl McpServer {
    pub const MAX_SERVERS: usize = 20;
    /// Most tools of a server.
    pub const MAX_TOOLS: usize = 50;
    /// Most bytes of all servers of a brief as JSON. They are sent in one command with the other parts of the configuration.
    pub const MAX_BYTES: usize = 32 * 1024;

    /// Names every violation of the servers of a brief, with its path.
    pub(super) fn check_all(servers: &[Self], allowed_tools: &[String]) -> Vec<(String, McpViolation)> {
        const ROOT: &str = "mcpServers";
        if servers.len() > Self::MAX_SERVERS {
            return vec![(ROOT.to_owned(), McpViolation::Count { max: Self::MAX_SERVERS })];
        }
        let mut found = Vec::new();
        if serde_json::to_vec(servers).map_or(usize::MAX, |json| json.len()) > Self::MAX_BYTES {
            found.push((ROOT.to_owned(), McpViolation::TooLarge { max_kib: Self::MAX_BYTES / 1024 }));
        }
        let mut names = BTreeSet::new();
        for (at, server) in servers.iter().enumerate() {
            if !(1..=Self::MAX_TOOLS).contains(&server.tools.len()) {
                found.push((format!("{ROOT}[{at}].tools"), McpViolation::Count { max: Self::MAX_TOOLS }));
            }
            for (of_server, tool) in server.tools.iter().enumerate() {
                let name = tool.name.as_str();
                let violation = if !names.insert(name) {
                    McpViolation::DuplicateName
                } else if !allowed_tools.is_empty() && !allowed_tools.iter().any(|allowed| allowed == name) {
                    McpViolation::NotAllowed
                } else {
                    continue;
                };
                found.push((format!("{ROOT}[{at}].tools[{of_server}].name"), violation));
            }
        }
        found
    }
}
