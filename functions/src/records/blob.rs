//! `GET /api/agents/sessions/{id}/blobs/{sha256}`: the whole of what was cut (ruling 6).

use std::time::Duration;

use axum::extract::{RawPathParams, State};
use axum::response::{IntoResponse, Response};
use http::{HeaderValue, StatusCode, header};
use pilothouse_store::blob::BlobKey;

use crate::app::App;
use crate::edge::{Owner, Problem, Session};

/// The largest content that is answered itself, in bytes. Lambda answers at most 6 MB of JSON, in which a text may become
/// twice as long.
pub const MAX_ANSWER_BYTES: usize = 2_900_000;
/// How long a link to a larger one is good.
pub const LINK_VALID: Duration = Duration::from_mins(15);

/// 200 with the bytes. Where a function cannot answer them all, 303 to where they stand, with a link that is good for a
/// quarter of an hour.
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
    if bytes.len() > MAX_ANSWER_BYTES
        && let Some(link) = app.blobs.link(&key, LINK_VALID).await.map_err(Problem::internal)?
    {
        let link = HeaderValue::from_str(&link).map_err(Problem::internal)?;
        return Ok((StatusCode::SEE_OTHER, [(header::LOCATION, link)]).into_response());
    }
    let mut response = bytes.into_response();
    // What an agent wrote is never run by a browser.
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"));
    response.headers_mut().insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    Ok(response)
}
