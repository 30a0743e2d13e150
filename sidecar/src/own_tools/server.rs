//! The sidecar's MCP server, which provides Pilothouse's tools to agents that run as separate programs.
//!
//! It listens on a [`Socket`]; an agent starts `pilothouse-sidecar tools <socket>` as its MCP server. Tools run in
//! the sidecar, with the run's key and spool, which the agent never sees.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use nix::unistd::{Uid, geteuid};
use pilothouse_agent::message::UserContent;
use pilothouse_agent::tool::{SharedTool, ToolContext, ToolOutput};
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, Implementation, InitializeResult,
    ListToolsResult, PaginatedRequestParams, ServerCapabilities, Tool as McpTool,
};
use rmcp::service::{RequestContext, RoleServer, ServiceExt as _};
use rmcp::{ErrorData, ServerHandler};
use serde::Serialize;
use serde_json::{Map, Value, json};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::mpsc;
use tokio::task::{JoinHandle, JoinSet};
use tracing::{debug, warn};
use uuid::Uuid;

use super::socket::Socket;
use super::{SERVER_NAME, bridge};
use crate::process::is_below_this;
use crate::process::tool_processes::MCP_SERVER_VARIABLE;

/// Beginning of the ids of calls that the agent does not name.
pub(super) const UNNAMED_CALL: &str = "mcp-";
/// Metadata key with which an agent sends its own id of a tool call.
const CALL_ID: &str = "claudecode/toolUseId";
/// An agent needs one connection, and its subagents perhaps one each.
const MAX_CONNECTIONS: usize = 32;
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// The configuration with which an agent connects to the server (S4 `McpServer`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct McpServerConfig {
    /// The program that the agent starts.
    pub command: PathBuf,
    pub args: Vec<String>,
}

impl McpServerConfig {
    /// The form that most agents use: `{"type": "stdio", "command": …, "args": […]}`.
    pub fn to_json(&self) -> Value {
        json!({ "type": "stdio", "command": self.command, "args": self.args,
            "env": { MCP_SERVER_VARIABLE: SERVER_NAME } })
    }

    /// The form of the Agent Client Protocol in `session/new`.
    pub fn to_acp(&self) -> Value {
        let mark = json!({ "name": MCP_SERVER_VARIABLE, "value": SERVER_NAME });
        json!({ "name": SERVER_NAME, "command": self.command, "args": self.args, "env": [mark] })
    }
}

/// `program` is the sidecar.
pub fn mcp_server_config(program: &Path, socket: &Path) -> McpServerConfig {
    let args = vec![bridge::VERB.to_owned(), socket.to_string_lossy().into_owned()];
    McpServerConfig { command: program.to_owned(), args }
}

/// A running server. Dropping it closes all connections and removes the socket.
#[derive(Debug)]
pub struct ToolServer {
    socket: Socket,
    accepting: JoinHandle<()>,
}

impl ToolServer {
    /// Serves `tools` on a socket in `folder`. `agent` is the user of the agent, if it differs from the sidecar's.
    pub fn start(tools: Vec<SharedTool>, folder: &Path, agent: Option<Uid>) -> io::Result<Self> {
        let (socket, listener) = Socket::listen(folder, agent)?;
        listener.set_nonblocking(true)?;
        let listener = UnixListener::from_std(listener)?;
        let accepting = tokio::spawn(accept(listener, Handler { tools: tools.into() }, agent));
        Ok(Self { socket, accepting })
    }

    pub fn socket(&self) -> &Path {
        self.socket.path()
    }

    /// The configuration with which an agent of this run connects, under the name [`SERVER_NAME`].
    pub fn mcp_server_config(&self) -> io::Result<McpServerConfig> {
        Ok(mcp_server_config(&std::env::current_exe()?, self.socket()))
    }
}

impl Drop for ToolServer {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

async fn accept(listener: UnixListener, handler: Handler, agent: Option<Uid>) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept(), if connections.len() < MAX_CONNECTIONS => match accepted {
                Ok((stream, _)) if is_allowed(&stream, agent) => {
                    connections.spawn(serve(stream, handler.clone()));
                }
                Ok(_) => warn!("another user or session tried to use the tools of this session"),
                // The client disconnected, or too many files are open. Later connections may succeed.
                Err(error) => {
                    warn!(%error, "failed to accept a connection to the tools of the session");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            },
            Some(_) = connections.join_next() => {}
        }
    }
}

/// Whether the peer is a process of this run, with the sidecar's user or the agent's. The socket's random name and its
/// mode also limit access, but agents of the same user see the name in command lines.
fn is_allowed(stream: &UnixStream, agent: Option<Uid>) -> bool {
    let Ok(peer) = stream.peer_cred() else { return false };
    let user = Uid::from_raw(peer.uid());
    (user == geteuid() || Some(user) == agent) && peer.pid().is_none_or(is_below_this)
}

async fn serve(stream: UnixStream, handler: Handler) {
    let served = match handler.serve(stream).await {
        Ok(service) => service.waiting().await.map(drop).map_err(|e| e.to_string()),
        Err(e) => Err(e.to_string()),
    };
    if let Err(error) = served {
        debug!(error, "a connection to the tools of the session failed");
    }
}

#[derive(Clone)]
struct Handler {
    tools: Arc<[SharedTool]>,
}

impl ServerHandler for Handler {
    fn get_info(&self) -> InitializeResult {
        let capabilities = ServerCapabilities::builder().enable_tools().build();
        InitializeResult::new(capabilities)
            .with_server_info(Implementation::new(SERVER_NAME, env!("CARGO_PKG_VERSION")))
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(self.tools.iter().map(as_mcp).collect()))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let tool = self.tools.iter().find(|tool| tool.spec().name == request.name);
        let Some(tool) = tool else {
            return Err(ErrorData::invalid_params(format!("there is no tool `{}`", request.name), None));
        };
        let named = context.meta.get(CALL_ID).and_then(Value::as_str).map(str::to_owned);
        let (progress, _unheard) = mpsc::unbounded_channel();
        let call = ToolContext {
            tool_call_id: named.unwrap_or_else(|| format!("{UNNAMED_CALL}{}", Uuid::now_v7().simple())),
            cancelled: context.ct.clone(),
            progress,
        };
        let arguments = Value::Object(request.arguments.unwrap_or_default());
        Ok(result(tool.run(arguments, call).await).into())
    }
}

fn as_mcp(tool: &SharedTool) -> McpTool {
    let spec = tool.spec();
    let schema = match &spec.input_schema {
        Value::Object(schema) => schema.clone(),
        _ => Map::new(),
    };
    McpTool::new(spec.name.clone(), spec.description.clone(), schema)
}

fn result(output: ToolOutput) -> CallToolResult {
    let content = output.content.into_iter().map(|block| match block {
        UserContent::Text { text } => ContentBlock::text(text),
        UserContent::Image { mime_type, data } => ContentBlock::image(data, mime_type),
    });
    let content = content.collect();
    if output.is_error { CallToolResult::error(content) } else { CallToolResult::success(content) }
}
