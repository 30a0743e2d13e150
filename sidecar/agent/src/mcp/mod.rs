//! Tools of MCP servers, over standard input and output or streamable HTTP.
//!
//! [`McpServers::connect`] connects to all servers concurrently, within their configured time limits. A server that
//! cannot be reached contributes no tools, and a notice reports it. If a connection is lost later, the next call of a
//! tool connects again. A call that was running gets an error result, because it is unknown what it did.

mod calls;
mod content;
mod elicitation;
mod names;
mod server;
#[cfg(test)]
mod tests;
mod tool;
mod uri;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;

pub use self::elicitation::{DeclineAll, Elicit, ElicitKind, ElicitRequest, ElicitResponse};
use self::names::ToolNames;
use self::server::Server;
use self::tool::McpTool;
pub use self::uri::Endpoint;
use crate::extension::external::Notify;
use crate::process::Program;
use crate::tool::SharedTool;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct McpServerConfig {
    /// Middle part of its tools' names: `mcp__NAME__tool`.
    pub name: String,
    pub transport: McpTransport,
    /// The tools to use. `None`: all.
    pub only: Option<BTreeSet<String>>,
    /// Time limit for connecting and listing the tools.
    pub start_timeout: Duration,
    /// Time limit of a call, without the time in which the user is asked.
    pub call_timeout: Duration,
}

impl McpServerConfig {
    /// Defaults: thirty seconds to start, ten minutes for a call.
    pub fn new(name: impl Into<String>, transport: McpTransport) -> Self {
        Self {
            name: name.into(),
            transport,
            only: None,
            start_timeout: Duration::from_secs(30),
            call_timeout: Duration::from_mins(10),
        }
    }
}

#[derive(Clone, PartialEq, Eq)]
pub enum McpTransport {
    /// A program with the protocol on its standard input and output. It ends with the agent.
    Stdio(Box<Program>),
    /// Streamable HTTP.
    Http {
        url: String,
        /// Additional headers of each request, for example for authorization.
        headers: BTreeMap<String, String>,
    },
}

impl std::fmt::Debug for McpTransport {
    /// Omits header values, which may be secrets.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Stdio(program) => f.debug_tuple("Stdio").field(program).finish(),
            Self::Http { url, headers } => {
                f.debug_struct("Http").field("url", url).field("headers", &headers.keys()).finish()
            }
        }
    }
}

/// Why a server cannot be used, or a call has no result.
#[derive(Debug, thiserror::Error)]
pub enum McpError {
    /// The server cannot be started or reached.
    #[error("the MCP server {server} cannot be reached: {reason}")]
    Connect { server: String, reason: String },
    /// The server exceeded a time limit.
    #[error("the MCP server {server} took longer than {} seconds", after.as_secs())]
    Timeout {
        server: String,
        /// The time limit.
        after: Duration,
    },
    /// The connection was lost before the response.
    #[error("the MCP server {server} was gone before it answered; what it did of the call is not known")]
    Gone { server: String },
    /// The server responded with an error.
    #[error("the MCP server {server} refused: {reason}")]
    Refused {
        server: String,
        /// The message of the server.
        reason: String,
    },
}

pub struct McpServers {
    servers: Vec<Arc<Server>>,
    tools: Vec<SharedTool>,
}

impl McpServers {
    /// `elicit` handles the servers' requests to the user; `notify` receives notices about problems.
    pub async fn connect(configs: Vec<McpServerConfig>, elicit: &Arc<dyn Elicit>, notify: &Notify) -> Self {
        let connecting = configs.into_iter().map(|config| async {
            let server = Server::new(config, elicit.clone());
            let listed = server.list_tools().await;
            (Arc::new(server), listed)
        });
        let mut names = ToolNames::default();
        let (mut servers, mut tools) = (Vec::new(), Vec::<SharedTool>::new());
        for (server, listed) in join_all(connecting).await {
            match listed {
                Ok(listed) => {
                    for tool in listed {
                        match McpTool::new(server.clone(), &tool, &mut names) {
                            Ok(tool) => tools.push(Arc::new(tool)),
                            Err(reason) => notify(reason),
                        }
                    }
                    servers.push(server);
                }
                Err(error) => notify(error.to_string()),
            }
        }
        Self { servers, tools }
    }

    pub fn tools(&self) -> Vec<SharedTool> {
        self.tools.clone()
    }

    /// The servers' instructions for use, by server name.
    pub async fn instructions(&self) -> Vec<(String, String)> {
        let mut all = Vec::new();
        for server in &self.servers {
            all.extend(server.instructions().await.map(|text| (server.name().to_owned(), text)));
        }
        all
    }

    /// Closes all connections and ends the programs. Dropping this and all tools has the same effect.
    pub async fn close(&self) {
        join_all(self.servers.iter().map(|server| server.close())).await;
    }
}
