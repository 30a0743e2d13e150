//! Reads bodies of many megabytes. Together they occupy a bounded part of the memory.

use std::time::Duration;

use axum::body::{Body, HttpBody as _};
use bytes::Bytes;
use pilothouse_app::http::Problem;
use pilothouse_app::http::body::whole_body;
use pilothouse_runtime::AtCapacity;
use tokio::sync::{Semaphore, SemaphorePermit};

/// The memory that all large bodies in transit may occupy together, in MiB.
const ROOM_MEBIBYTES: usize = 128;
static MEMORY: Semaphore = Semaphore::const_new(ROOM_MEBIBYTES);
/// How long a body waits for free memory.
const TURN: Duration = Duration::from_secs(20);
const NO_ROOM: AtCapacity = AtCapacity {
    message: "too many large bodies are being uploaded; send this one again",
    retry_after: Duration::from_secs(1),
};

/// A body, and the memory that it occupies until the value is dropped.
pub(crate) struct LargeBody {
    pub(crate) bytes: Bytes,
    _room: SemaphorePermit<'static>,
}

impl LargeBody {
    /// Reads a body of at most `limit` bytes.
    pub(crate) async fn read(body: Body, limit: usize) -> Result<Self, Problem> {
        let mebibytes = body
            .size_hint()
            .upper()
            .map_or(limit, |bytes| usize::try_from(bytes).unwrap_or(usize::MAX))
            .min(limit)
            .div_ceil(1 << 20)
            .clamp(1, ROOM_MEBIBYTES);
        let room = MEMORY.acquire_many(u32::try_from(mebibytes).unwrap_or(u32::MAX));
        let room = tokio::time::timeout(TURN, room).await.map_err(|_| NO_ROOM)?.map_err(Problem::internal)?;
        Ok(Self { bytes: whole_body(body, limit).await?, _room: room })
    }
}
