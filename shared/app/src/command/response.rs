//! The response to a command, which its idempotency record repeats.

use axum::Json;
use axum::response::{IntoResponse, Response};
use http::{HeaderName, HeaderValue, StatusCode, header};
use pilothouse_api::pool::PoolView;
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
    /// The member `pool` of the body. It is not part of the value, because the line of a pool can be long.
    pool: Option<Box<PoolView>>,
    replayed: bool,
}

/// A body with its pool.
#[derive(Serialize)]
struct SentBody<'a> {
    #[serde(flatten)]
    body: &'a Value,
    pool: &'a PoolView,
}

impl CommandResponse {
    pub fn new<T: Serialize>(status: StatusCode, version: Option<u64>, body: &T) -> Result<Self, Problem> {
        Ok(Self {
            status,
            version,
            body: serde_json::to_value(body).map_err(Problem::internal)?,
            pool: None,
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

    /// Adds the pool to the body.
    #[must_use]
    pub fn with_pool(self, pool: Option<PoolView>) -> Self {
        Self { pool: pool.map(Box::new), ..self }
    }

    pub(super) fn stored(&self, function: &str, request_hash: String) -> Result<StoredResponse, Problem> {
        let mut body = self.body.clone();
        // Secrets are never stored; a replay derives them again (decision 8).
        if let Some(object) = body.as_object_mut() {
            object.remove("apiKey");
            if let Some(pool) = &self.pool {
                object.insert("pool".to_owned(), serde_json::to_value(pool).map_err(Problem::internal)?);
            }
        }
        Ok(StoredResponse {
            function: function.to_owned(),
            request_hash,
            status: self.status.as_u16(),
            etag: self.version.map(|v| v.to_string()),
            body,
        })
    }

    pub(super) fn replayed(stored: StoredResponse) -> Self {
        Self {
            status: StatusCode::from_u16(stored.status).unwrap_or(StatusCode::OK),
            version: stored.etag.and_then(|v| v.parse().ok()),
            body: stored.body,
            pool: None,
            replayed: true,
        }
    }
}

impl IntoResponse for CommandResponse {
    fn into_response(self) -> Response {
        let mut response = match &self.pool {
            Some(pool) => (self.status, Json(SentBody { body: &self.body, pool })).into_response(),
            None => (self.status, Json(self.body)).into_response(),
        };
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

#[cfg(test)]
mod tests {
    use pilothouse_domain::pool::SessionPool;
    use serde_json::json;

    use super::*;

    #[tokio::test]
    async fn pool_is_a_member_of_the_sent_and_the_stored_body() {
        let started = json!({ "session": {}, "apiKey": "secret" });
        let pool = PoolView::of(&SessionPool::default(), 3);
        let response = CommandResponse::new(StatusCode::ACCEPTED, None, &started).unwrap();
        let response = response.with_pool(Some(pool.clone()));
        let stored = response.stored("sessions-start", "hash".to_owned()).unwrap();
        assert_eq!(stored.body, json!({ "session": {}, "pool": pool }));
        let sent = axum::body::to_bytes(response.into_response().into_body(), 10_000).await.unwrap();
        let sent: Value = serde_json::from_slice(&sent).unwrap();
        assert_eq!(sent, json!({ "session": {}, "apiKey": "secret", "pool": pool }));
    }
}
