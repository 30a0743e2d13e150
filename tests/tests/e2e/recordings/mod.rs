//! Recorded requests and responses of every operation, compared with `tests/recordings/`.
//!
//! Each area of the API has its own embedded server. Responses are recorded as they were sent, except that names replace ids, times,
//! addresses and secrets. A change of the API changes these files; `PILOTHOUSE_EXPORT=1` rewrites them.

mod agent_api;
mod artifacts;
mod brakes;
mod chains;
mod coherence;
mod decisions;
mod json;
mod messages;
mod normalize;
mod notifications;
mod operations;
mod projects;
mod recorder;
mod records;
mod refusals;
mod requests;
mod sessions;
mod sidecar;
mod skills;
mod streams;
mod templates;
mod web_push;
mod webhooks;

use std::path::PathBuf;

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("recordings")
}
