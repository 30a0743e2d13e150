//! `PUT /internal/gateway/blobs/{sha256}`: keeps a large body of a run's events (ruling 6).

use axum::extract::{Path, Request, State};
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use pilothouse_store::blob::BlobKey;
use pilothouse_wire::keys::sha256_hex;

use super::Caller;
use crate::app::App;
use crate::edge::Problem;

/// The largest blob in bytes.
const MAX_BLOB_BYTES: usize = 64 * 1024 * 1024;

/// 204. The name must be the content's own hash; sending it again changes nothing.
pub async fn handle(
    State(app): State<App>,
    caller: Caller,
    Path(sha256): Path<String>,
    request: Request,
) -> Result<Response, Problem> {
    let bytes = axum::body::to_bytes(request.into_body(), MAX_BLOB_BYTES)
        .await
        .map_err(|_| Problem::TooLarge { limit: MAX_BLOB_BYTES })?;
    if sha256_hex(&bytes) != sha256 {
        return Err(Problem::invalid("sha256", "is not the hash of the body"));
    }
    let key = BlobKey::of(&format!("sessions/{}", caller.session), &bytes).map_err(Problem::internal)?;
    app.blobs.put(&key, bytes).await.map_err(Problem::internal)?;
    Ok(StatusCode::NO_CONTENT.into_response())
}
