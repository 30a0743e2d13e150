//! Elicitation: requests of servers to the user while a tool runs.

use std::sync::Arc;

use async_trait::async_trait;
use rmcp::model::{
    ClientCapabilities, ClientConfig, ElicitRequestParams, ElicitResult, ElicitationAction,
    ElicitationCapability, FormElicitationCapability, Implementation,
};
use rmcp::service::{RequestContext, RoleClient};
use rmcp::{ClientHandler, ErrorData};
use serde_json::Value;

use super::calls::Calls;

/// Asks the user on behalf of a server.
#[async_trait]
pub trait Elicit: Send + Sync {
    /// Waits for the answer. Dropped when the answer is not needed any more. The time does not count towards the call's
    /// limit.
    async fn elicit(&self, request: ElicitRequest) -> ElicitResponse;

    /// Whether the user can be asked. Announced to servers as a capability.
    fn is_possible(&self) -> bool {
        true
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct ElicitRequest {
    pub server: String,
    /// Text for the user.
    pub message: String,
    pub kind: ElicitKind,
}

#[derive(Debug, Clone, PartialEq)]
pub enum ElicitKind {
    /// Values that match this JSON Schema.
    Form(Value),
    /// A visit to this URL.
    Url(String),
}

#[derive(Debug, Clone, PartialEq)]
pub enum ElicitResponse {
    /// Agreed, with the values of the form.
    Accept(Option<Value>),
    /// Declined. The server can continue without it.
    Decline,
    /// Declined. The server must stop.
    Cancel,
}

/// Declines all requests, because there is no user to ask.
#[derive(Debug, Clone, Copy)]
pub struct DeclineAll;

#[async_trait]
impl Elicit for DeclineAll {
    async fn elicit(&self, _: ElicitRequest) -> ElicitResponse {
        ElicitResponse::Decline
    }

    fn is_possible(&self) -> bool {
        false
    }
}

/// The agent's side of a connection.
pub(super) struct Handler {
    pub(super) server: String,
    pub(super) elicit: Arc<dyn Elicit>,
    /// The running calls. The user may be asked only during a call.
    pub(super) calls: Arc<Calls>,
}

impl ClientHandler for Handler {
    fn get_info(&self) -> ClientConfig {
        let mut capabilities = ClientCapabilities::default();
        if self.elicit.is_possible() {
            // Only forms, because a URL belongs into the user's own browser.
            let form = FormElicitationCapability::default();
            capabilities.elicitation = Some(ElicitationCapability::new().with_form(form));
        }
        ClientConfig::new(capabilities, Implementation::new("pilothouse-agent", env!("CARGO_PKG_VERSION")))
    }

    async fn create_elicitation(
        &self,
        request: ElicitRequestParams,
        context: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        let (message, kind) = match request {
            ElicitRequestParams::FormElicitationParams { message, requested_schema, .. } => {
                let schema = serde_json::to_value(requested_schema)
                    .map_err(|error| ErrorData::internal_error(error.to_string(), None))?;
                (message, ElicitKind::Form(schema))
            }
            ElicitRequestParams::UrlElicitationParams { message, url, .. } => (message, ElicitKind::Url(url)),
            _ => return Ok(ElicitResult::new(ElicitationAction::Decline)),
        };
        let request = ElicitRequest { server: self.server.clone(), message, kind };
        let asking = self.calls.asking(self.elicit.elicit(request));
        // Cancelled when the server withdraws its request or its call ends.
        let response = context.ct.run_until_cancelled(asking).await.flatten();
        Ok(match response.unwrap_or(ElicitResponse::Cancel) {
            ElicitResponse::Accept(filled) => {
                let mut result = ElicitResult::new(ElicitationAction::Accept);
                result.content = filled;
                result
            }
            ElicitResponse::Decline => ElicitResult::new(ElicitationAction::Decline),
            ElicitResponse::Cancel => ElicitResult::new(ElicitationAction::Cancel),
        })
    }
}
