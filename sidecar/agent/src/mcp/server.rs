//! A server, with a connection on demand.

use std::collections::HashMap;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use http::{HeaderName, HeaderValue};
use rmcp::ServiceExt;
use rmcp::model::{CallToolRequestParams, CallToolResult, PaginatedRequestParams, Tool};
use rmcp::service::{RoleClient, RunningService, ServiceError};
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;
use tokio::sync::Mutex;
use tokio::time::timeout;
use tokio_util::task::AbortOnDropHandle;

use super::calls::Calls;
use super::elicitation::Handler;
use super::{Elicit, McpError, McpServerConfig, McpTransport};
use crate::process::{Ending, ProcessHandle, Program, ToolProcesses, log_complaints};

const MAX_PAGES: usize = 1000;
const CLOSING: Duration = Duration::from_secs(1);

pub(super) struct Server {
    config: McpServerConfig,
    elicit: Arc<dyn Elicit>,
    calls: Arc<Calls>,
    /// Locked while connecting, so that concurrent calls connect once.
    client: Mutex<Option<Arc<Client>>>,
}

/// A connection. The program ends with it.
struct Client {
    service: RunningService<RoleClient, Handler>,
    program: Option<(ProcessHandle, AbortOnDropHandle<()>)>,
}

impl Client {
    fn is_closed(&self) -> bool {
        self.service.is_closed() || self.service.is_transport_closed()
    }
}

impl Server {
    pub(super) fn new(config: McpServerConfig, elicit: Arc<dyn Elicit>) -> Self {
        Self { config, elicit, calls: Arc::default(), client: Mutex::new(None) }
    }

    pub(super) fn name(&self) -> &str {
        &self.config.name
    }

    /// Lists the tools from all pages.
    pub(super) async fn list_tools(&self) -> Result<Vec<Tool>, McpError> {
        let after = self.config.start_timeout;
        let listing = async {
            let client = self.client().await?;
            let mut tools = Vec::new();
            let mut cursor = None;
            for _ in 0..MAX_PAGES {
                let params = PaginatedRequestParams::default().with_cursor(cursor.take());
                let page =
                    client.service.list_tools(Some(params)).await.map_err(|error| self.failed(error))?;
                tools.extend(page.tools);
                cursor = page.next_cursor;
                if cursor.is_none() {
                    let wanted = |tool: &Tool| {
                        self.config.only.as_ref().is_none_or(|only| only.contains(tool.name.as_ref()))
                    };
                    tools.retain(wanted);
                    return Ok(tools);
                }
            }
            Err(self.refused(&format!("its tools fill more than {MAX_PAGES} pages")))
        };
        timeout(after, listing).await.unwrap_or_else(|_| Err(self.timed_out(after)))
    }

    /// Dropping the future notifies the server of the cancellation.
    pub(super) async fn call(&self, params: CallToolRequestParams) -> Result<CallToolResult, McpError> {
        let client = timeout(self.config.start_timeout, self.client())
            .await
            .unwrap_or_else(|_| Err(self.timed_out(self.config.start_timeout)))?;
        let after = self.config.call_timeout;
        let call = self.calls.begin();
        tokio::select! {
            result = client.service.call_tool(params) => result.map_err(|error| self.failed(error)),
            () = call.timed_out(after) => Err(self.timed_out(after)),
        }
    }

    /// Tracks the processes that the server's program starts from now on. `None` without a program, or while it is
    /// being started.
    pub(super) fn observed(&self) -> Option<ToolProcesses> {
        let client = self.client.try_lock().ok()?.clone()?;
        let (handle, _) = client.program.as_ref()?;
        Some(ToolProcesses::new(handle.clone(), Vec::new()))
    }

    pub(super) async fn instructions(&self) -> Option<String> {
        let client = self.client.lock().await.clone()?;
        client.service.peer().peer_info()?.instructions.clone()
    }

    pub(super) async fn close(&self) {
        let client = self.client.lock().await.take();
        if let Some(client) = client {
            client.service.cancellation_token().cancel();
            // A running call may still hold a reference for a moment.
            if let Some(mut client) = Arc::into_inner(client) {
                _ = client.service.close_with_timeout(CLOSING).await;
            }
        }
    }

    /// Connects if there is no connection or if it was lost.
    async fn client(&self) -> Result<Arc<Client>, McpError> {
        let mut slot = self.client.lock().await;
        if let Some(client) = slot.as_ref().filter(|client| !client.is_closed()) {
            return Ok(client.clone());
        }
        // Ends the previous program first.
        *slot = None;
        let client = Arc::new(self.connect().await?);
        *slot = Some(client.clone());
        Ok(client)
    }

    async fn connect(&self) -> Result<Client, McpError> {
        let (server, elicit) = (self.config.name.clone(), self.elicit.clone());
        let handler = Handler { server, elicit, calls: Arc::clone(&self.calls) };
        match &self.config.transport {
            McpTransport::Stdio(program) => self.connect_to_program(program, handler).await,
            McpTransport::Http { url, headers } => {
                let mut custom = HashMap::new();
                for (name, value) in headers {
                    let name: HeaderName =
                        name.parse().map_err(|_| self.unreachable(&"a header has no name"))?;
                    // The error omits the value, which may be a secret.
                    let value = HeaderValue::from_str(value)
                        .map_err(|_| self.unreachable(&format!("the header {name} has no valid value")))?;
                    custom.insert(name, value);
                }
                let config =
                    StreamableHttpClientTransportConfig::with_uri(url.as_str()).custom_headers(custom);
                let transport = StreamableHttpClientTransport::from_config(config);
                let service = handler.serve(transport).await.map_err(|error| self.unreachable(&error))?;
                Ok(Client { service, program: None })
            }
        }
    }

    async fn connect_to_program(&self, program: &Program, handler: Handler) -> Result<Client, McpError> {
        let started = program.start(Ending::default(), [Stdio::piped(), Stdio::piped(), Stdio::piped()]);
        let mut group = started.map_err(|error| self.unreachable(&error))?;
        let input = group.stdin().ok_or_else(|| self.unreachable(&"it has no input"))?;
        let output = group.stdout().ok_or_else(|| self.unreachable(&"it has no output"))?;
        if let Some(complaints) = group.stderr() {
            tokio::spawn(log_complaints(self.config.name.clone(), complaints));
        }
        let service = handler.serve((output, input)).await.map_err(|error| self.unreachable(&error))?;
        Ok(Client { service, program: Some((group.handle(), group.wait_in_background())) })
    }

    fn unreachable(&self, reason: &dyn std::fmt::Display) -> McpError {
        McpError::Connect { server: self.config.name.clone(), reason: reason.to_string() }
    }

    fn refused(&self, reason: &dyn std::fmt::Display) -> McpError {
        McpError::Refused { server: self.config.name.clone(), reason: reason.to_string() }
    }

    fn timed_out(&self, after: Duration) -> McpError {
        McpError::Timeout { server: self.config.name.clone(), after }
    }

    fn failed(&self, error: ServiceError) -> McpError {
        match error {
            ServiceError::TransportClosed
            | ServiceError::TransportSend(_)
            | ServiceError::Cancelled { .. } => McpError::Gone { server: self.config.name.clone() },
            ServiceError::McpError(error) => self.refused(&error.message),
            other => self.refused(&other),
        }
    }
}
