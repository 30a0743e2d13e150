//! `PUT /internal/gateway/blobs/{sha256}`: stores a large event body of a run (decision 6).

use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use pilothouse_app::App;
use pilothouse_app::function::requirements::EMBEDDED;
use pilothouse_app::function::{HttpFunction, Verb};
use pilothouse_app::http::Problem;
use pilothouse_app::http::request::PathParams;
use pilothouse_store::blob::BlobKey;
use pilothouse_wire::keys::sha256_hex;

use super::Caller;
use crate::large_body::LargeBody;

pub const FUNCTION: HttpFunction =
    HttpFunction::new("gateway-blobs", Verb::Put, "/internal/gateway/blobs/{sha256}", |verb| {
        verb.route(store_blob)
    })
    .sidecar()
    .summary("Store a large event body")
    .statuses(&[204])
    .requires(EMBEDDED);

const MAX_BLOB_BYTES: usize = 64 * 1024 * 1024;

/// Responds with 204. The name in the path must be the SHA-256 of the body. Repeated uploads change nothing.
async fn store_blob(
    State(app): State<App>,
    caller: Caller,
    parameters: PathParams,
    request: Request,
) -> Result<Response, Problem> {
    let LargeBody { bytes, .. } = &LargeBody::read(request.into_body(), MAX_BLOB_BYTES).await?;
    if Some(sha256_hex(bytes).as_str()) != parameters.get("sha256") {
        return Err(Problem::invalid("sha256", "is not the hash of the body"));
    }
    let key = BlobKey::of(&format!("sessions/{}", caller.session), bytes).map_err(Problem::internal)?;
    app.blobs.put(&key, bytes.clone()).await.map_err(Problem::internal)?;
    Ok(StatusCode::NO_CONTENT.into_response())
}
