//! Recorded exchanges of every operation, compared with `tests/recordings/`.
//!
//! Each area of the API is driven on an embedded server of its own. What it answers is written as text, as it was sent, with
//! ids, times, addresses and secrets replaced by names. A change of the API shows as a change of these files;
//! `PILOTHOUSE_EXPORT=1` writes them anew.

mod agent_api;
mod chains;
mod json;
mod messages;
mod normalize;
mod notifications;
mod operations;
mod recorder;
mod records;
mod refusals;
mod requests;
mod sessions;
mod sidecar;
mod skills;
mod streams;
mod templates;
mod webhooks;

use std::path::PathBuf;

/// The folder of the recordings.
fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("recordings")
}
