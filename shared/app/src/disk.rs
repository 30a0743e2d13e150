//! Tracks whether the disk of the server has free space. Cloud deployments always have.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The commands that are accepted while the disk is nearly full, because they stop work or only read. All others would need more
/// space.
pub const SERVED_ON_A_FULL_DISK: [&str; 7] = [
    "brake-pull",
    "sessions-pause",
    "sessions-interrupt",
    "sessions-cancel",
    "sessions-close",
    "messages-cancel",
    "messages-clear",
];

/// Clones share the state.
#[derive(Debug, Clone, Default)]
pub struct DiskSpace(Arc<AtomicBool>);

impl DiskSpace {
    /// Whether the disk is nearly full or refuses writes.
    pub fn is_short(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }

    /// Records whether the disk is nearly full. Returns true if that changed.
    pub fn set_short(&self, short: bool) -> bool {
        self.0.swap(short, Ordering::SeqCst) != short
    }
}
