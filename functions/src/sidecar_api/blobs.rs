//! `PUT /internal/gateway/blobs/{sha256}`: stores a large event body of a run (decision 6).

use std::time::Duration;

use axum::body::HttpBody as _;
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use pilothouse_app::App;
use pilothouse_app::function::requirements::EMBEDDED;
use pilothouse_app::function::{HttpFunction, Verb};
use pilothouse_app::http::Problem;
use pilothouse_app::http::body::whole_body;
use pilothouse_app::http::request::PathParams;
use pilothouse_runtime::AtCapacity;
use pilothouse_store::blob::BlobKey;
use pilothouse_wire::keys::sha256_hex;
use tokio::sync::Semaphore;

use super::Caller;

pub const FUNCTION: HttpFunction =
    HttpFunction::new("gateway-blobs", Verb::Put, "/internal/gateway/blobs/{sha256}", |verb| {
        verb.route(store_blob)
    })
    .sidecar()
    .summary("Store a large event body")
    .statuses(&[204])
    .requires(EMBEDDED);

const MAX_BLOB_BYTES: usize = 64 * 1024 * 1024;

/// The memory that all blobs in transit may occupy together, in MiB.
static MEMORY: Semaphore = Semaphore::const_new(2 * (MAX_BLOB_BYTES >> 20));
/// How long an upload waits for free memory.
const TURN: Duration = Duration::from_secs(20);
const NO_ROOM: AtCapacity = AtCapacity {
    message: "too many large bodies are being uploaded; send this one again",
    retry_after: Duration::from_secs(1),
};

/// Responds with 204. The name in the path must be the SHA-256 of the body. Repeated uploads change nothing.
async fn store_blob(
    State(app): State<App>,
    caller: Caller,
    parameters: PathParams,
    request: Request,
) -> Result<Response, Problem> {
    let body = request.into_body();
    let mebibytes = body
        .size_hint()
        .upper()
        .map_or(MAX_BLOB_BYTES, |bytes| usize::try_from(bytes).unwrap_or(usize::MAX))
        .min(MAX_BLOB_BYTES)
        .div_ceil(1 << 20);
    let room = MEMORY.acquire_many(u32::try_from(mebibytes.max(1)).unwrap_or(u32::MAX));
    let _room = tokio::time::timeout(TURN, room).await.map_err(|_| NO_ROOM)?.map_err(Problem::internal)?;
    let bytes = whole_body(body, MAX_BLOB_BYTES).await?;
    if Some(sha256_hex(&bytes).as_str()) != parameters.get("sha256") {
        return Err(Problem::invalid("sha256", "is not the hash of the body"));
    }
    let key = BlobKey::of(&format!("sessions/{}", caller.session), &bytes).map_err(Problem::internal)?;
    app.blobs.put(&key, bytes).await.map_err(Problem::internal)?;
    Ok(StatusCode::NO_CONTENT.into_response())
}
