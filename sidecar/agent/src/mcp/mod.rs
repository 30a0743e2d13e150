//! Tools of MCP servers, over standard input and output or streamable HTTP.
//!
//! A server is connected to when [`McpServers::connect`] is called, all of them at the same time and each for at most as long
//! as it is configured. One that cannot be reached brings no tools, with a notice. One that is gone later is connected to
//! again by the next call of one of its tools; a call that was under way gets an error result, since nobody knows how much
//! of it was done.

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

pub use self::elicitation::{DeclineAll, Elicit, ElicitAnswer, ElicitKind, ElicitRequest};
use self::names::Names;
use self::server::Server;
use self::tool::McpTool;
pub use self::uri::Endpoint;
use crate::extension::external::Notify;
use crate::process::Program;
use crate::tool::SharedTool;

/// A server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct McpServerConfig {
    /// The middle of its tools' names: `mcp__NAME__tool`.
    pub name: String,
    /// How it is reached.
    pub transport: McpTransport,
    /// The tools of it that are wanted; none: all.
    pub only: Option<BTreeSet<String>>,
    /// How long it may take until its tools are known.
    pub start_timeout: Duration,
    /// How long a call may take, without the time that it waits for the user.
    pub call_timeout: Duration,
}

impl McpServerConfig {
    /// Thirty seconds to start, ten minutes for a call.
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

/// How a server is reached.
#[derive(Clone, PartialEq, Eq)]
pub enum McpTransport {
    /// A program, spoken to over its standard input and output. It ends with the agent.
    Stdio(Program),
    /// Streamable HTTP.
    Http {
        /// Where.
        url: String,
        /// What goes with each request: authorization, say.
        headers: BTreeMap<String, String>,
    },
}

impl std::fmt::Debug for McpTransport {
    /// Headers may be secrets.
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
    /// It cannot be started or reached.
    #[error("the MCP server {server} cannot be reached: {reason}")]
    Connect {
        /// Its name.
        server: String,
        /// Why.
        reason: String,
    },
    /// It took too long.
    #[error("the MCP server {server} took longer than {} seconds", after.as_secs())]
    Timeout {
        /// Its name.
        server: String,
        /// How long it was given.
        after: Duration,
    },
    /// It was gone before it answered.
    #[error("the MCP server {server} was gone before it answered; what it did of the call is not known")]
    Gone {
        /// Its name.
        server: String,
    },
    /// It answered with an error.
    #[error("the MCP server {server} refused: {reason}")]
    Refused {
        /// Its name.
        server: String,
        /// What it said.
        reason: String,
    },
}

/// The servers of an agent.
pub struct McpServers {
    servers: Vec<Arc<Server>>,
    tools: Vec<SharedTool>,
}

impl McpServers {
    /// Connects to all of them. `elicit` is asked when a server wants something of the user; `notify` takes what went wrong.
    pub async fn connect(configs: Vec<McpServerConfig>, elicit: &Arc<dyn Elicit>, notify: &Notify) -> Self {
        let connecting = configs.into_iter().map(|config| async {
            let server = Server::new(config, elicit.clone());
            let listed = server.list_tools().await;
            (Arc::new(server), listed)
        });
        let mut names = Names::default();
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

    /// Their tools.
    pub fn tools(&self) -> Vec<SharedTool> {
        self.tools.clone()
    }

    /// What servers say about how to use them, by name.
    pub async fn instructions(&self) -> Vec<(String, String)> {
        let mut all = Vec::new();
        for server in &self.servers {
            all.extend(server.instructions().await.map(|text| (server.name().to_owned(), text)));
        }
        all
    }

    /// Ends all connections, and the programs. They end too when this and all tools are dropped.
    pub async fn close(&self) {
        join_all(self.servers.iter().map(|server| server.close())).await;
    }
}
