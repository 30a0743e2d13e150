//! How long the control plane waits (rulings 12, 13, 22, 26), by its own clock.

use std::time::Duration;

/// The limits of waiting. The defaults are the ruled ones; a test or an impatient owner may shorten them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Deadlines {
    /// From sending a command to its `received`.
    pub received: Duration,
    /// From `received` to `done` of interrupt and stop.
    pub stopped: Duration,
    /// From `received` to `done` of a reload.
    pub reloaded: Duration,
    /// From `received` to `done` of pause and resume; being late only notifies.
    pub suspended: Duration,
    /// From asking for a process to its `sidecar_ready`.
    pub launched: Duration,
    /// From the last receipt to counting a run as dead.
    pub silent: Duration,
    /// Between two requests for missing envelopes.
    pub replayed: Duration,
    /// The step of the pauses between attempts to tell a webhook ([`crate::webhook::Delivery::PAUSES`]).
    pub redelivered: Duration,
    /// From the exhaustion of a context to its handoff document; then its agent is stopped, and one is synthesized.
    pub handed_over: Duration,
    /// Whether the folders of sessions outlive their runs: without that, nothing hibernates (ruling 23).
    pub durable_workspace: bool,
}

impl Default for Deadlines {
    fn default() -> Self {
        Self {
            received: Duration::from_secs(30),
            stopped: Duration::from_mins(1),
            reloaded: Duration::from_mins(2),
            suspended: Duration::from_mins(15),
            launched: Duration::from_mins(5),
            silent: Duration::from_secs(90),
            replayed: Duration::from_secs(10),
            redelivered: Duration::from_secs(5),
            handed_over: Duration::from_mins(2),
            durable_workspace: true,
        }
    }
}

impl Deadlines {
    /// How often missing envelopes are asked for before they count as lost (ruling 9).
    pub const REPLAY_REQUESTS: u8 = 3;

    /// All limits divided by `divisor`, for tests that wait for real deadlines.
    #[must_use]
    pub fn shortened(self, divisor: u32) -> Self {
        let by = divisor.max(1);
        Self {
            received: self.received / by,
            stopped: self.stopped / by,
            reloaded: self.reloaded / by,
            suspended: self.suspended / by,
            launched: self.launched / by,
            silent: self.silent / by,
            replayed: self.replayed / by,
            redelivered: self.redelivered / by,
            handed_over: self.handed_over / by,
            durable_workspace: self.durable_workspace,
        }
    }
}
