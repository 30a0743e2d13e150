//! Reads request bodies up to a size limit.

use std::time::Duration;

use axum::body::{BodyDataStream, HttpBody as _};
use axum::extract::{FromRequest, Request};
use axum::response::IntoResponse;
use bytes::{Bytes, BytesMut};
use deserr::Deserr;
use futures_util::StreamExt as _;
use pilothouse_api::input::Violations;
use pilothouse_wire::keys::sha256_hex;
use serde_json::Value;

use super::Problem;

pub const MAX_BODY_BYTES: usize = 256 * 1024;
/// How much of a refused body is read, in multiples of its limit.
const DISCARDED_BODIES: usize = 4;
/// How long the rest of a refused body is read.
const DISCARD_TIME: Duration = Duration::from_secs(5);

impl From<Violations> for Problem {
    fn from(violations: Violations) -> Self {
        Self::Invalid(violations.0)
    }
}

/// Limits the requested `seconds` of a long poll to `longest`. Fails if they are negative or more than an hour.
pub fn waiting_time(field: &str, seconds: f64, longest: Duration) -> Result<Duration, Problem> {
    const MOST_SECONDS: f64 = 3600.0;
    if !(0.0..=MOST_SECONDS).contains(&seconds) {
        return Err(Problem::invalid(field, format!("must be 0 to {MOST_SECONDS} seconds")));
    }
    Ok(Duration::try_from_secs_f64(seconds).unwrap_or(longest).min(longest))
}

/// A JSON body with the hash that identifies the request under an idempotency key.
pub struct Body<T> {
    pub input: T,
    pub hash: String,
}

/// A body that must be empty or an empty object: for commands without an input.
pub struct NoBody;

async fn bytes_of(request: Request) -> Result<Bytes, Problem> {
    whole_body(request.into_body(), MAX_BODY_BYTES).await
}

/// Reads a whole body. A body with a declared length above `limit` bytes is refused without waiting for it.
pub async fn whole_body(body: axum::body::Body, limit: usize) -> Result<Bytes, Problem> {
    let is_declared_too_large = body.size_hint().lower() > limit as u64;
    let mut chunks = body.into_data_stream();
    if is_declared_too_large {
        discard(chunks, limit);
        return Err(Problem::TooLarge { limit });
    }
    let mut whole = BytesMut::new();
    while let Some(chunk) = chunks.next().await {
        let chunk = chunk.map_err(|_| Problem::BodyIncomplete)?;
        if chunk.len() > limit - whole.len() {
            discard(chunks, limit);
            return Err(Problem::TooLarge { limit });
        }
        whole.extend_from_slice(&chunk);
    }
    Ok(whole.freeze())
}

/// Reads the rest of a refused body in the background. Otherwise the connection is closed while the client is still sending,
/// and the client sees a broken connection instead of the refusal.
fn discard(mut chunks: BodyDataStream, limit: usize) {
    let most = limit.saturating_mul(DISCARDED_BODIES);
    tokio::spawn(tokio::time::timeout(DISCARD_TIME, async move {
        let mut length = 0_usize;
        while length <= most
            && let Some(Ok(chunk)) = chunks.next().await
        {
            length = length.saturating_add(chunk.len());
        }
    }));
}

/// An empty body is an empty object.
pub fn read<T: Deserr<Violations>>(bytes: &[u8]) -> Result<T, Problem> {
    let value: Value = if bytes.iter().all(u8::is_ascii_whitespace) {
        Value::Object(serde_json::Map::new())
    } else {
        serde_json::from_slice(bytes)
            .map_err(|error| Problem::invalid("", format!("the body is not JSON: {error}")))?
    };
    deserr::deserialize::<T, _, Violations>(value).map_err(Into::into)
}

impl<T: Deserr<Violations>, S: Send + Sync> FromRequest<S> for Body<T> {
    type Rejection = axum::response::Response;

    async fn from_request(request: Request, _: &S) -> Result<Self, Self::Rejection> {
        let bytes = bytes_of(request).await.map_err(IntoResponse::into_response)?;
        let input = read(&bytes).map_err(IntoResponse::into_response)?;
        Ok(Self { input, hash: sha256_hex(&bytes) })
    }
}

impl<S: Send + Sync> FromRequest<S> for NoBody {
    type Rejection = axum::response::Response;

    async fn from_request(request: Request, _: &S) -> Result<Self, Self::Rejection> {
        #[derive(Deserr)]
        #[deserr(error = Violations, deny_unknown_fields)]
        struct Nothing {}
        let bytes = bytes_of(request).await.map_err(IntoResponse::into_response)?;
        read::<Nothing>(&bytes).map_err(IntoResponse::into_response)?;
        Ok(Self)
    }
}
