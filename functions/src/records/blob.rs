//! `GET /api/agents/sessions/{id}/blobs/{sha256}`: the whole of what was cut (ruling 6).

use axum::extract::{RawPathParams, State};
use axum::response::{IntoResponse, Response};
use http::{HeaderValue, header};
use pilothouse_store::blob::BlobKey;

use crate::app::App;
use crate::edge::{Owner, Problem, Session};

/// 200 with the bytes.
pub async fn handle(
    State(app): State<App>,
    Owner(owner): Owner,
    Session(id): Session,
    parameters: RawPathParams,
) -> Result<Response, Problem> {
    let none = || Problem::NotFound("there is no such blob".to_owned());
    app.session_of(&owner, id).await?;
    let (_, sha256) = parameters.iter().find(|(name, _)| *name == "sha256").ok_or_else(none)?;
    let key = BlobKey::parse(&format!("sessions/{id}/{sha256}")).map_err(|_| none())?;
    let bytes = app.blobs.get(&key).await.map_err(Problem::internal)?.ok_or_else(none)?;
    let mut response = bytes.into_response();
    // What an agent wrote is never run by a browser.
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"));
    response.headers_mut().insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    Ok(response)
}
