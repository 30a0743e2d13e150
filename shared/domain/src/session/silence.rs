//! Silence of a run (decision 13): when nothing was received from its sidecar for too long.

use serde::{Deserialize, Serialize};

use super::{AgentSession, RunPhase, SessionError, Unreachable};
use crate::tick::TickReading;
use crate::{Deadlines, DomainContext, Events, SessionEvent, Timestamp};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProcessState {
    Alive,
    Dead,
    /// Not started: there is no capacity for it.
    Waiting,
    /// The runtime has no process for the run and will not start one.
    Unknown,
    /// The runtime cannot reach the machine of the process.
    Unreachable,
}

/// State outside the aggregate on which the handling of a deadline depends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Observation {
    pub process: ProcessState,
    /// When the last heartbeat was received. Heartbeats are stored outside the aggregate.
    pub heard_at: Option<Timestamp>,
    /// All events sent to the events queue before this time are processed; `None` if unknown.
    pub processed_until: Option<Timestamp>,
    /// The last time that the control plane itself was absent.
    pub absence: Option<Absence>,
    /// The ticks of the session's project; `None` if they were not read.
    pub ticks: Option<TickReading>,
}

/// A period in which the control plane did not watch: it was down or suspended, or its clock was stepped forward.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Absence {
    /// When it last watched before.
    pub from: Timestamp,
    /// When it watched again.
    pub until: Timestamp,
}

impl AgentSession {
    /// Records that something was received from the current run.
    pub fn heard(&mut self, ctx: &DomainContext<'_>) -> Events {
        let Some(run) = self.run_state.current_mut() else { return Vec::new() };
        run.silent_at = ctx.now + ctx.deadlines.silence_timeout;
        run.heard_at = Some(ctx.now);
        self.reached(ctx)
    }

    /// Whether a message that changes nothing else must be recorded like a heartbeat, because the last event is older than the interval of
    /// heartbeats.
    pub fn is_receipt_due(&self, limits: &Deadlines, now: Timestamp) -> bool {
        let run = self.run_state.current();
        run.is_some_and(|run| run.heard_at.is_none_or(|at| at + limits.heartbeat_interval() <= now))
    }

    /// The time up to which the run's events must be processed before its silence may decide anything; `None` if it is not silent
    /// for long enough. The caller ensures this and passes [`Observation::processed_until`].
    pub fn silence_decides_after(
        &self,
        observed: &Observation,
        limits: &Deadlines,
        now: Timestamp,
    ) -> Option<Timestamp> {
        let run = self
            .run_state
            .current()
            .filter(|run| run.silent_at <= now && run.phase != RunPhase::Launching)?;
        let suspected = self.silent_since(observed, limits, now)? + limits.silence_timeout;
        let expires = run.lease().map(|lease| self.last_receipt(observed) + lease + limits.lease_margin);
        [Some(suspected), expires].into_iter().flatten().filter(|at| *at <= now).max()
    }

    /// Whether the run's silence ends it now: its runtime has no process for it, or its lease has expired. Parked envelopes must be
    /// applied first.
    pub fn silence_ends_run(&self, observed: &Observation, limits: &Deadlines, now: Timestamp) -> bool {
        let Some(run) = self.run_state.current() else { return false };
        let decides = self.silence_decides_after(observed, limits, now);
        decides.is_some_and(|at| observed.processed_until.is_some_and(|until| until >= at))
            && match observed.process {
                ProcessState::Unknown | ProcessState::Waiting => true,
                // A process that just ended gets time to have its spool published.
                ProcessState::Dead => matches!(run.phase, RunPhase::Ending { .. }),
                ProcessState::Unreachable => self.lease_expired(observed, limits, now),
                // A confirmed status must not be wrong about a living process (decision 15).
                ProcessState::Alive => false,
            }
    }

    /// When something was last received from the run, or else when it was requested.
    fn last_receipt(&self, observed: &Observation) -> Timestamp {
        let Some(run) = self.run_state.current() else { return Timestamp::from_millis(0) };
        [run.heard_at, observed.heard_at].into_iter().flatten().fold(run.requested_at, Timestamp::max)
    }

    /// Since when nothing was received while the control plane watched; `None` if that is not long enough.
    fn silent_since(&self, observed: &Observation, limits: &Deadlines, now: Timestamp) -> Option<Timestamp> {
        let heard = self.last_receipt(observed);
        let since = observed.absence.map_or(heard, |absence| heard.max(absence.until));
        (since + limits.silence_timeout <= now).then_some(since)
    }

    fn lease_expired(&self, observed: &Observation, limits: &Deadlines, now: Timestamp) -> bool {
        let lease = self.run_state.current().and_then(super::Run::lease);
        lease.is_some_and(|lease| self.last_receipt(observed) + lease + limits.lease_margin <= now)
    }

    /// Nothing was received for too long. The run becomes unreachable. It ends only if its runtime has no process for it or its
    /// lease has expired. If its process stays alive, it is stopped after a while (decision 13).
    pub(super) fn on_silence(
        &mut self,
        observed: &Observation,
        ctx: &mut DomainContext<'_>,
    ) -> Result<Events, SessionError> {
        let (limits, now, process) = (ctx.deadlines, ctx.now, observed.process);
        let heard = self.last_receipt(observed);
        let since = observed.absence.map_or(heard, |absence| heard.max(absence.until));
        let decides = self.silence_decides_after(observed, &limits, now);
        let ends = self.silence_ends_run(observed, &limits, now);
        let expired = self.lease_expired(observed, &limits, now);
        let Some(run) = self.run_state.current_mut() else { return Ok(Vec::new()) };
        if run.phase == RunPhase::Launching {
            if process != ProcessState::Unreachable {
                // The worker is reachable again: restart the launch's deadline.
                return Ok(self.reached(ctx));
            }
            run.silent_at = now + limits.silence_timeout;
            return Ok(Vec::new());
        }
        let Some(decides) = decides else {
            run.silent_at = since.min(now) + limits.silence_timeout;
            let returned = run.unreachable.is_some_and(|unreachable| unreachable.since < heard);
            return Ok(if returned { self.reached(ctx) } else { Vec::new() });
        };
        if observed.processed_until.is_none_or(|until| until < decides) {
            run.silent_at = now + limits.silence_timeout / 18;
            return Ok(Vec::new());
        }
        if ends {
            let why = if process == ProcessState::Unreachable {
                "Its lease expired, and nothing was received since."
            } else {
                "Its runtime has no process for it."
            };
            let run_id = run.id;
            return self.record_process_dead(run_id, why, ctx);
        }
        let unresponsive = run
            .unreachable
            .and_then(|unreachable| unreachable.alive_since)
            .is_some_and(|alive| alive.max(since) + limits.unresponsive_timeout <= now);
        match (process, run.phase) {
            (ProcessState::Alive, RunPhase::Ending { since, killed: true, fulfils_request }) => {
                // The kill was already ordered: order it again.
                run.phase = RunPhase::Ending { since, killed: false, fulfils_request };
            }
            // The deadline of the stop applies.
            (ProcessState::Alive, RunPhase::Ending { killed: false, .. }) => {
                run.silent_at = now + limits.silence_timeout;
                return Ok(Vec::new());
            }
            (ProcessState::Alive, _) if unresponsive || expired => {}
            (ProcessState::Alive | ProcessState::Unreachable, _) => {
                let lease_ends = run.lease().map(|lease| heard + lease + limits.lease_margin);
                let events = self.suspect(process, ctx);
                if let Some(run) = self.run_state.current_mut() {
                    let next = lease_ends.filter(|at| *at > now).unwrap_or(run.silent_at);
                    run.silent_at = run.silent_at.min(next);
                }
                return Ok(events);
            }
            _ => {}
        }
        run.silent_at = now + limits.silence_timeout;
        Ok(self.order_kill(false, ctx))
    }

    /// Marks the run unreachable. Its deadlines stop; silence alone ends nothing.
    pub(super) fn suspect(&mut self, process: ProcessState, ctx: &DomainContext<'_>) -> Events {
        let Some(run) = self.run_state.current_mut() else { return Vec::new() };
        let known = run.unreachable;
        let alive_since = (process == ProcessState::Alive)
            .then(|| known.and_then(|known| known.alive_since).unwrap_or(ctx.now));
        let since = known.map_or(ctx.now, |known| known.since);
        run.unreachable = Some(Unreachable { since, alive_since });
        let stopped_at =
            alive_since.map(|alive| alive + ctx.deadlines.unresponsive_timeout).filter(|at| *at > ctx.now);
        let next = ctx.now + ctx.deadlines.silence_timeout;
        run.silent_at = stopped_at.map_or(next, |at| at.min(next));
        if known.is_some() { Vec::new() } else { vec![SessionEvent::RunUnreachable { run_id: run.id }] }
    }

    /// Handles that the run was heard again: its deadlines restart.
    fn reached(&mut self, ctx: &DomainContext<'_>) -> Events {
        let Some(run) = self.run_state.current_mut() else { return Vec::new() };
        let Some(was) = run.unreachable.take() else { return Vec::new() };
        let run_id = run.id;
        self.restart_deadlines(Absence { from: was.since, until: ctx.now }, ctx);
        let after_seconds = ctx.now.since(was.since).as_secs();
        vec![SessionEvent::RunReachable { run_id, after_seconds }]
    }
}
