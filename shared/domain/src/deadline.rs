//! How long the control plane waits, by its own clock (decisions 12, 13, 22, 26).

use std::time::Duration;

/// Time limits of the control plane. The defaults follow the decisions; the configuration may change them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Deadlines {
    /// From sending a command to its `received`.
    pub received: Duration,
    /// From `received` to `done`, for interrupt and stop.
    pub stopped: Duration,
    /// From `received` to `done`, for a reload.
    pub reloaded: Duration,
    /// From `received` to `done`, for pause and resume. Exceeding it only notifies the owner.
    pub suspended: Duration,
    /// From requesting a process to its `sidecar_ready`.
    pub launched: Duration,
    /// From the last event of a run to marking it unreachable ([decision 61](../../../docs/decisions/0061-unreachable-runs.md)).
    pub silent: Duration,
    /// How long a run may stay silent while its runtime reports its process alive. Then the process is stopped.
    pub unresponsive: Duration,
    /// Lease of runs of this runtime: a sidecar stops its run after this time without an accepted publish. With `None`, a run ends
    /// only by a report of its runtime or by its owner.
    pub lease: Option<Duration>,
    /// Time from the expiry of a lease to the moment when the control plane treats the run as ended.
    pub lease_margin: Duration,
    /// Between two requests for missing envelopes.
    pub replayed: Duration,
    /// Unit of the pauses between delivery attempts of a webhook ([`crate::webhook::Delivery::PAUSES`]).
    pub redelivered: Duration,
    /// From the exhaustion of a context to its handoff document. Then the agent is stopped and a document is synthesized.
    pub handed_over: Duration,
    /// Whether the folders of sessions outlive their runs. If not, sessions do not hibernate (decision 23).
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
            unresponsive: Duration::from_mins(10),
            lease: None,
            lease_margin: Duration::from_mins(5),
            replayed: Duration::from_secs(10),
            redelivered: Duration::from_secs(5),
            handed_over: Duration::from_mins(2),
            durable_workspace: true,
        }
    }
}

impl Deadlines {
    /// How often missing envelopes are requested before they count as lost (decision 9).
    pub const REPLAY_REQUESTS: u8 = 3;

    /// Divides all limits by `divisor`, for tests that wait for real deadlines.
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
            unresponsive: self.unresponsive / by,
            lease: self.lease.map(|lease| lease / by),
            lease_margin: self.lease_margin / by,
            replayed: self.replayed / by,
            redelivered: self.redelivered / by,
            handed_over: self.handed_over / by,
            durable_workspace: self.durable_workspace,
        }
    }
}
