//! `GET /api/agents/sessions/{id}/blobs/{sha256}`: returns the full content of a truncated record (decision 6).

use std::time::Duration;

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::{HeaderValue, StatusCode, header};
use pilothouse_app::App;
use pilothouse_app::function::requirements::BLOB;
use pilothouse_app::function::{HttpFunction, Verb};
use pilothouse_app::http::request::PathParams;
use pilothouse_app::http::{Owner, Problem, Session};
use pilothouse_store::blob::BlobKey;

pub const FUNCTION: HttpFunction =
    HttpFunction::new("records-blob", Verb::Get, "/api/agents/sessions/{id}/blobs/{sha256}", |verb| {
        verb.route(get_blob)
    })
    .owner()
    .summary("Get the full content of a truncated record")
    .statuses(&[200, 303])
    .requires(BLOB);

/// The largest content of a response, in bytes. Lambda limits a response to 6 MB of JSON, in which a text may double in
/// length.
pub const MAX_ANSWER_BYTES: usize = 2_900_000;
/// How long a link to larger content is valid.
pub const LINK_VALID: Duration = Duration::from_mins(15);

/// Responds with 200 and the content. When the content exceeds a Lambda response, responds with 303 and a link that is valid
/// for 15 minutes.
async fn get_blob(
    State(app): State<App>,
    Owner(owner): Owner,
    Session(id): Session,
    parameters: PathParams,
) -> Result<Response, Problem> {
    let none = || Problem::NotFound("there is no such blob".to_owned());
    app.session_of(&owner, id).await?;
    let sha256 = parameters.get("sha256").ok_or_else(none)?;
    let key = BlobKey::parse(&format!("sessions/{id}/{sha256}")).map_err(|_| none())?;
    content_response(&app, &key).await?.ok_or_else(none)
}

/// The content of a blob, or a link to it; `None` if there is no such blob.
pub(crate) async fn content_response(app: &App, key: &BlobKey) -> Result<Option<Response>, Problem> {
    let Some(bytes) = app.blobs.get(key).await.map_err(Problem::internal)? else { return Ok(None) };
    if bytes.len() > MAX_ANSWER_BYTES
        && let Some(link) = link_response(app, key).await?
    {
        return Ok(Some(link));
    }
    let mut response = bytes.into_response();
    // Prevents browsers from executing content that an agent wrote.
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"));
    response.headers_mut().insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    Ok(Some(response))
}

/// A redirection to a blob; `None` if the engine has no URLs.
pub(crate) async fn link_response(app: &App, key: &BlobKey) -> Result<Option<Response>, Problem> {
    let Some(link) = app.blobs.link(key, LINK_VALID).await.map_err(Problem::internal)? else {
        return Ok(None);
    };
    let link = HeaderValue::from_str(&link).map_err(Problem::internal)?;
    Ok(Some((StatusCode::SEE_OTHER, [(header::LOCATION, link)]).into_response()))
}
