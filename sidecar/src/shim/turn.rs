//! A turn, and the attempts to start it.

use std::time::Duration;

use pilothouse_domain::TurnId;
use pilothouse_shim::error::CallError;
use pilothouse_wire::RawEvent;
use tokio::time::Instant;

use crate::adapter::MessageReply;
use crate::kit::notices::notice;
use crate::retry::Backoff;

/// Attempts to start a turn, and to send a resolution.
pub(super) const MAX_ATTEMPTS: u32 = 8;

pub(super) struct Turn {
    pub(super) id: TurnId,
    /// Present until the agent has taken it.
    pub(super) waiting: Option<Waiting>,
}

/// A turn that the agent has not begun.
pub(super) struct Waiting {
    pub(super) text: String,
    pub(super) reply: Option<MessageReply>,
    pub(super) at: Instant,
    pub(super) attempts: u32,
    pub(super) backoff: Backoff,
    pub(super) has_restarted: bool,
}

impl Turn {
    pub(super) fn starts_at(&self) -> Option<Instant> {
        self.waiting.as_ref().map(|waiting| waiting.at)
    }

    pub(super) const fn has_begun(&self) -> bool {
        self.waiting.is_none()
    }
}

/// The pauses between attempts if the shim names no time.
pub(super) const fn backoff() -> Backoff {
    Backoff::new(Duration::from_secs(1), Duration::from_secs(30))
}

/// The notice about a request that is repeated. `after` is the time that the shim named.
pub(super) fn waits_for_provider(after: Option<Duration>, error: &CallError) -> RawEvent {
    let (name, what) = match after {
        Some(_) => ("rate_limited", "Agent paused: rate limited"),
        None => ("provider_unavailable", "The agent waits for its provider"),
    };
    notice(name, format!("{what} ({error})"))
}
