//! What servers want of the user while a tool runs.

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

/// Asks the user for a server.
#[async_trait]
pub trait Elicit: Send + Sync {
    /// Waits for the answer; dropped when nobody waits for it any more. The time that it takes is none of the call's.
    async fn elicit(&self, request: ElicitRequest) -> ElicitAnswer;

    /// Whether anybody can be asked. Servers are told.
    fn is_possible(&self) -> bool {
        true
    }
}

/// What a server wants.
#[derive(Debug, Clone, PartialEq)]
pub struct ElicitRequest {
    /// The server.
    pub server: String,
    /// What it says.
    pub message: String,
    /// What it wants.
    pub kind: ElicitKind,
}

/// What a server wants.
#[derive(Debug, Clone, PartialEq)]
pub enum ElicitKind {
    /// Values that fit a JSON Schema.
    Form(Value),
    /// That the user goes there.
    Url(String),
}

/// What the user says.
#[derive(Debug, Clone, PartialEq)]
pub enum ElicitAnswer {
    /// Yes, with the values of the form.
    Accept(Option<Value>),
    /// No, and the server can go on without.
    Decline,
    /// No, and the server is to stop.
    Cancel,
}

/// Nobody is there to be asked.
#[derive(Debug, Clone, Copy)]
pub struct DeclineAll;

#[async_trait]
impl Elicit for DeclineAll {
    async fn elicit(&self, _: ElicitRequest) -> ElicitAnswer {
        ElicitAnswer::Decline
    }

    fn is_possible(&self) -> bool {
        false
    }
}

/// The agent's side of a connection.
pub(super) struct Handler {
    pub(super) server: String,
    pub(super) elicit: Arc<dyn Elicit>,
    /// The calls that are under way there: only for them may the user be asked.
    pub(super) calls: Arc<Calls>,
}

impl ClientHandler for Handler {
    fn get_info(&self) -> ClientConfig {
        let mut capabilities = ClientCapabilities::default();
        if self.elicit.is_possible() {
            // Forms only: where a URL leads, nobody but the user's own browser is to see.
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
        // Nobody waits for the answer any more when the server took its question back, or its call is over.
        let answer = context.ct.run_until_cancelled(asking).await.flatten();
        Ok(match answer.unwrap_or(ElicitAnswer::Cancel) {
            ElicitAnswer::Accept(content) => {
                let mut result = ElicitResult::new(ElicitationAction::Accept);
                result.content = content;
                result
            }
            ElicitAnswer::Decline => ElicitResult::new(ElicitationAction::Decline),
            ElicitAnswer::Cancel => ElicitResult::new(ElicitationAction::Cancel),
        })
    }
}
