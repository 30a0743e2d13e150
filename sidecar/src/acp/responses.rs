//! Responses to requests of the agent.

use agent_client_protocol::v1::Responder;
use agent_client_protocol::v1::schema::{
    PermissionOption, RequestPermissionOutcome, RequestPermissionResponse, SelectedPermissionOutcome,
};
use serde_json::Value;

/// The response that selects an option. Without one, the request is cancelled.
pub(super) fn selected(option: Option<&PermissionOption>) -> Value {
    let outcome = option.map_or(RequestPermissionOutcome::Cancelled, |option| {
        RequestPermissionOutcome::Selected(SelectedPermissionOutcome::new(option.option_id.clone()))
    });
    // Serialising a response built here cannot fail.
    serde_json::to_value(RequestPermissionResponse::new(outcome)).unwrap_or_default()
}

/// If the agent has ended, the connection reports it.
pub(super) fn respond(responder: Responder, response: Value) {
    if let Err(error) = responder.respond(response) {
        tracing::debug!(code = ?error.code, "failed to respond to the agent");
    }
}

pub(super) fn refuse(responder: Responder, why: &str) {
    let error = agent_client_protocol::Error::invalid_params().data(why);
    if let Err(error) = responder.respond_with_error(error) {
        tracing::debug!(code = ?error.code, "failed to respond to the agent");
    }
}
