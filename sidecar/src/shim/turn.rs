//! A turn, and the attempts to start it.

use std::time::Duration;

use pilothouse_domain::TurnId;
use pilothouse_shim::error::CallError;
use pilothouse_wire::RawEvent;
use tokio::time::Instant;

use crate::adapter::MessageReply;
use crate::kit::notices::notice;
use crate::retry::Backoff;

/// Attempts to start a turn before the session pauses, and to send a resolution.
pub(super) const MAX_ATTEMPTS: u32 = 8;
/// The longest delay between two of them.
pub(super) const MAX_DELAY: Duration = Duration::from_secs(30);

pub(super) struct Turn {
    pub(super) id: TurnId,
    /// Present until the agent has taken it.
    pub(super) waiting: Option<Waiting>,
}

/// A turn that the agent has not begun.
pub(super) struct Waiting {
    pub(super) text: String,
    pub(super) reply: Option<MessageReply>,
    /// `None`: it waits for a resume, because the provider of the agent does not answer.
    pub(super) at: Option<Instant>,
    pub(super) attempts: u32,
    pub(super) backoff: Backoff,
    pub(super) has_restarted: bool,
}

impl Turn {
    pub(super) fn starts_at(&self) -> Option<Instant> {
        self.waiting.as_ref().and_then(|waiting| waiting.at)
    }

    /// Tries again to begin a turn that waits for a resume.
    pub(super) fn resume(&mut self) {
        if let Some(waiting) = &mut self.waiting {
            waiting.at.get_or_insert_with(Instant::now);
        }
    }

    pub(super) const fn has_begun(&self) -> bool {
        self.waiting.is_none()
    }
}

/// The pauses between attempts if the shim names no time.
pub(super) const fn backoff() -> Backoff {
    Backoff::new(Duration::from_secs(1), MAX_DELAY)
}

/// The notice about a request that is repeated. `after` is the time that the shim named.
pub(super) fn waits_for_provider(after: Option<Duration>, error: &CallError) -> RawEvent {
    let (name, what) = match after {
        Some(_) => ("rate_limited", "Agent paused: rate limited"),
        None => ("provider_unavailable", "The agent waits for its provider"),
    };
    notice(name, format!("{what} ({error})"))
}
