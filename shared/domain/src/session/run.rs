//! Runs (decision 7). A run is one life of one sidecar process.

use std::collections::BTreeSet;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{AgentSession, Arrival, Inbox};
use crate::value::Capabilities;
use crate::{CommandId, DomainContext, RunId, Timestamp, Usd};

/// Why a run was created (decision 21).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum RunCause {
    Start,
    /// A failed session is retried.
    Retry,
    /// A hibernated session has work to do.
    Wake,
}

crate::names::named!(RunCause {
    Start => "Start",
    Retry => "Retry",
    Wake => "Wake",
});

/// A command that an event orders reactions to send.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CommandRef {
    pub command_id: CommandId,
    pub run_id: RunId,
    /// Number of this attempt to send it, from 1.
    pub attempt: u8,
}

/// How a run is stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum StopMode {
    /// With a `stop` command. The runtime kills the process if that takes too long.
    Graceful,
    /// The runtime kills the process at once.
    Kill,
}

/// Phase of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "phase", rename_all_fields = "camelCase")]
pub enum RunPhase {
    /// The runtime was asked for a process; its sidecar has not reported yet.
    Launching,
    /// The sidecar is ready.
    Live,
    /// The run was ordered to stop.
    Ending {
        /// Time of the order.
        since: Timestamp,
        /// Whether the runtime was ordered to kill the process.
        killed: bool,
        /// Whether the stop completes a request that the sidecar did not acknowledge (decision 12).
        fulfils_request: bool,
    },
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Run {
    pub id: RunId,
    /// Number of the run within its session, from 1.
    pub ordinal: u32,
    pub cause: RunCause,
    pub phase: RunPhase,
    /// When the run was created or, if no worker had room for it, when one was found.
    pub requested_at: Timestamp,
    /// When the runtime last reported that it has no room for the run. The run waits without a deadline (decision 23).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unplaced_at: Option<Timestamp>,
    /// When the control plane checks the run for silence (decision 13).
    pub silent_at: Timestamp,
    /// When the last event of the run was received. Heartbeats are stored separately.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub heard_at: Option<Timestamp>,
    /// Set while nothing was received from the run for too long (decision 13).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unreachable: Option<Unreachable>,
    /// Lease in milliseconds, fixed when the run is requested; `None` if the run has no lease.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease_ms: Option<u64>,
    /// The `begin` command, once the sidecar is ready.
    pub begin: Option<CommandId>,
    /// Attempts to send `begin` and the time of the last one, until the sidecar has received it.
    pub unheard_begin: Option<(u8, Timestamp)>,
    /// Capabilities that the adapter declared, once it has.
    pub capabilities: Option<Capabilities>,
    /// Spend of this run, included in the total of the session.
    #[serde(default)]
    pub spent_usd: Usd,
    /// The allowance that was last sent to the sidecar (decision 32).
    #[serde(rename = "allowanceTold", default, skip_serializing_if = "Option::is_none")]
    pub sent_allowance: Option<Usd>,
    /// Missing capabilities that were already reported to the owner.
    #[serde(rename = "missingTold", default, skip_serializing_if = "BTreeSet::is_empty")]
    pub reported_missing: BTreeSet<String>,
    /// Records which envelopes of the run were consumed.
    pub inbox: Inbox,
}

impl Run {
    /// A run whose process was requested.
    pub(super) fn launching(id: RunId, ordinal: u32, cause: RunCause, ctx: &DomainContext<'_>) -> Self {
        Self {
            id,
            ordinal,
            cause,
            phase: RunPhase::Launching,
            requested_at: ctx.now,
            unplaced_at: None,
            silent_at: ctx.now + ctx.deadlines.launch_timeout,
            heard_at: None,
            unreachable: None,
            lease_ms: ctx.deadlines.lease.map(|lease| u64::try_from(lease.as_millis()).unwrap_or(u64::MAX)),
            begin: None,
            unheard_begin: None,
            capabilities: None,
            spent_usd: Usd::ZERO,
            sent_allowance: None,
            reported_missing: BTreeSet::new(),
            inbox: Inbox::default(),
        }
    }

    /// How long the sidecar keeps running without an accepted publish; `None` if the run has no lease.
    pub fn lease(&self) -> Option<Duration> {
        self.lease_ms.map(Duration::from_millis)
    }
}

/// Marks a run from which nothing was received for too long. Its deadlines do not count while it is set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Unreachable {
    pub since: Timestamp,
    /// Since when the runtime has reported the process alive regardless.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alive_since: Option<Timestamp>,
}

/// A run that has ended. Kept to recognise its late envelopes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PastRun {
    pub id: RunId,
    /// Number of the run within its session.
    pub ordinal: u32,
    /// The sequence that would have been next.
    pub next_sequence: u64,
    /// When the run ended; `None` for runs recorded before this field existed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Timestamp>,
    /// Whether the owner declared the run's machine lost, so that the end of its process was not observed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub end_uncertain: bool,
}

/// The run that sent an envelope.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sender {
    /// The current run, with its number within the session.
    Current(u32),
    /// A run that has ended, with its number within the session.
    Past(u32),
    /// A run that the session does not know or no longer remembers.
    Unknown,
}

/// Envelope order (decision 9).
impl AgentSession {
    pub fn sender(&self, run: RunId) -> Sender {
        self.run_state.sender(run)
    }

    /// Classifies an envelope. A run that has ended has no gaps: a sequence beyond its last one counts as next.
    pub fn arrival(&self, run: RunId, sequence: u64) -> Arrival {
        self.run_state.arrival(run, sequence)
    }

    /// Consumes an envelope. Returns the sequence number of the next parked envelope, if it is ready.
    pub fn consume(&mut self, run: RunId, sequence: u64) -> Option<u64> {
        self.run_state.consume(run, sequence)
    }

    pub fn park(&mut self, sequence: u64) {
        if let Some(run) = self.run_state.current_mut() {
            run.inbox.park(sequence);
        }
    }

    /// Records that an envelope of the current run arrived too early to be parked.
    pub fn reject_early(&mut self, sequence: u64) {
        if let Some(run) = self.run_state.current_mut() {
            run.inbox.reject_early(sequence);
        }
    }

    /// Takes the next envelope of the current run if it is parked, after a gap was given up.
    pub fn take_ready(&mut self) -> Option<u64> {
        self.run_state.current_mut().and_then(|run| run.inbox.ready())
    }

    /// Whether the next envelope of the current run is parked and only has to be applied.
    pub fn has_ready(&self) -> bool {
        self.run_state.current().is_some_and(|run| run.inbox.is_ready())
    }

    /// Whether envelopes of the current run are missing and were not requested yet.
    pub fn needs_replay(&self) -> bool {
        self.run_state.current().is_some_and(|run| run.inbox.has_gap() && run.inbox.gap().is_none())
    }
}
