//! How long the control plane waits, by its own clock (decisions 12, 13, 22, 26).

use std::time::Duration;

/// Time limits of the control plane. The defaults follow the decisions; the configuration may change them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Deadlines {
    /// From sending a command to its `received`.
    pub received_timeout: Duration,
    /// From `received` to `done`, for interrupt and stop.
    pub stop_timeout: Duration,
    /// From `received` to `done`, for a reload.
    pub reload_timeout: Duration,
    /// From `received` to `done`, for pause and resume. Exceeding it only notifies the owner.
    pub pause_timeout: Duration,
    /// From requesting a process to its `sidecar_ready`.
    pub launch_timeout: Duration,
    /// From the last event of a run to marking it unreachable ([decision 61](../../../docs/decisions/0061-unreachable-runs.md)).
    pub silence_timeout: Duration,
    /// How long a run may stay silent while its runtime reports its process alive. Then the process is stopped.
    pub unresponsive_timeout: Duration,
    /// Lease of runs of this runtime: a sidecar stops its run after this time without an accepted publish. With `None`, a run ends
    /// only by a report of its runtime or by its owner.
    pub lease: Option<Duration>,
    /// Time from the expiry of a lease to the moment when the control plane treats the run as ended.
    pub lease_margin: Duration,
    /// Between two requests for missing envelopes.
    pub replay_interval: Duration,
    /// Unit of the pauses between delivery attempts of a webhook ([`crate::webhook::Delivery::RETRY_SCHEDULE`]).
    pub webhook_retry_unit: Duration,
    /// Unit of the pauses between requests to a model that cannot be reached.
    pub review_retry_unit: Duration,
    /// From the exhaustion of a context to its handoff document. Then the agent is stopped and a document is synthesized.
    pub handoff_timeout: Duration,
    /// Whether the folders of sessions outlive their runs. If not, sessions do not hibernate (decision 23).
    pub durable_workspace: bool,
}

impl Default for Deadlines {
    fn default() -> Self {
        Self {
            received_timeout: Duration::from_secs(30),
            stop_timeout: Duration::from_mins(1),
            reload_timeout: Duration::from_mins(2),
            pause_timeout: Duration::from_mins(15),
            launch_timeout: Duration::from_mins(5),
            silence_timeout: Self::HEARTBEAT.saturating_mul(Self::HEARTBEATS_UNTIL_SILENT),
            unresponsive_timeout: Duration::from_mins(10),
            lease: None,
            lease_margin: Duration::from_mins(5),
            replay_interval: Duration::from_secs(10),
            webhook_retry_unit: Duration::from_secs(5),
            review_retry_unit: Duration::from_mins(1),
            handoff_timeout: Duration::from_mins(2),
            durable_workspace: true,
        }
    }
}

impl Deadlines {
    /// Interval between two heartbeats of a sidecar or a worker (decision 13).
    pub const HEARTBEAT: Duration = Duration::from_secs(15);
    /// Number of heartbeats in [`Self::silence_timeout`].
    pub const HEARTBEATS_UNTIL_SILENT: u32 = 6;
    /// How often missing envelopes are requested before they count as lost (decision 9).
    pub const REPLAY_REQUESTS: u8 = 3;

    pub fn heartbeat_interval(&self) -> Duration {
        self.silence_timeout / Self::HEARTBEATS_UNTIL_SILENT
    }

    /// Divides all limits by `divisor`, for tests that wait for real deadlines.
    #[must_use]
    pub fn shortened(self, divisor: u32) -> Self {
        let by = divisor.max(1);
        Self {
            received_timeout: self.received_timeout / by,
            stop_timeout: self.stop_timeout / by,
            reload_timeout: self.reload_timeout / by,
            pause_timeout: self.pause_timeout / by,
            launch_timeout: self.launch_timeout / by,
            silence_timeout: self.silence_timeout / by,
            unresponsive_timeout: self.unresponsive_timeout / by,
            lease: self.lease.map(|lease| lease / by),
            lease_margin: self.lease_margin / by,
            replay_interval: self.replay_interval / by,
            webhook_retry_unit: self.webhook_retry_unit / by,
            review_retry_unit: self.review_retry_unit / by,
            handoff_timeout: self.handoff_timeout / by,
            durable_workspace: self.durable_workspace,
        }
    }
}
