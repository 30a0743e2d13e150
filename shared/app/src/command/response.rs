//! The response to a command, which its idempotency record repeats.

use axum::Json;
use axum::response::{IntoResponse, Response};
use http::{HeaderName, HeaderValue, StatusCode, header};
use pilothouse_api::sessions::SessionView;
use pilothouse_domain::conversation::Conversation;
use pilothouse_store::StoredResponse;
use serde::Serialize;
use serde_json::Value;

use crate::problem::Problem;

#[derive(Debug, Clone, PartialEq)]
pub struct CommandResponse {
    pub status: StatusCode,
    /// Sent as the `ETag` of the changed object.
    pub version: Option<u64>,
    pub body: Value,
    replayed: bool,
}

impl CommandResponse {
    pub fn new<T: Serialize>(status: StatusCode, version: Option<u64>, body: &T) -> Result<Self, Problem> {
        Ok(Self {
            status,
            version,
            body: serde_json::to_value(body).map_err(Problem::internal)?,
            replayed: false,
        })
    }

    pub fn ok<T: Serialize>(version: u64, body: &T) -> Result<Self, Problem> {
        Self::new(StatusCode::OK, Some(version), body)
    }

    /// Creates a response with a session: 202 while a sidecar has yet to act, 200 otherwise.
    pub fn session(conversation: &Conversation) -> Result<Self, Problem> {
        let session = &conversation.session;
        let under_way = session.status().is_intermediate()
            || session.cancel_accepted()
            || session.reload().is_some()
            || session.adjustments().next().is_some();
        let status = if under_way { StatusCode::ACCEPTED } else { StatusCode::OK };
        Self::new(status, Some(session.control_version()), &SessionView::of(session))
    }

    pub(super) fn stored(&self, function: &str, request_hash: String) -> StoredResponse {
        let mut body = self.body.clone();
        // Secrets are never stored; a replay derives them again (decision 8).
        if let Some(object) = body.as_object_mut() {
            object.remove("apiKey");
        }
        StoredResponse {
            function: function.to_owned(),
            request_hash,
            status: self.status.as_u16(),
            etag: self.version.map(|v| v.to_string()),
            body,
        }
    }

    pub(super) fn replayed(stored: StoredResponse) -> Self {
        Self {
            status: StatusCode::from_u16(stored.status).unwrap_or(StatusCode::OK),
            version: stored.etag.and_then(|v| v.parse().ok()),
            body: stored.body,
            replayed: true,
        }
    }
}

impl IntoResponse for CommandResponse {
    fn into_response(self) -> Response {
        let mut response = (self.status, Json(self.body)).into_response();
        if let Some(tag) = self.version.and_then(|v| HeaderValue::from_str(&format!("\"{v}\"")).ok()) {
            response.headers_mut().insert(header::ETAG, tag);
        }
        if self.replayed {
            response
                .headers_mut()
                .insert(HeaderName::from_static("idempotency-replayed"), HeaderValue::from_static("true"));
        }
        response
    }
}
