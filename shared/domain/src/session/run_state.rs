//! The runs of a session: the current one, the ones before it, and the wish for another one (decisions 7, 21, 22).

use serde::{Deserialize, Serialize};

use super::after_stop::AfterStop;
use super::{Arrival, PastRun, Run, RunCause, RunPhase, Sender};
use crate::value::Capabilities;
use crate::{CommandRef, DomainContext, Events, RunId, SessionEvent, StopMode, Timestamp};

/// The runs of a session. A hibernated session has no live run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct RunState {
    current: Option<Run>,
    runs: u32,
    past_runs: Vec<PastRun>,
    slot_wanted: Option<RunCause>,
    /// Whether the session keeps its status without a process.
    hibernated: bool,
    /// Deadlines that began before this time are counted from it: the run was unreachable, or the control plane down, until then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    deadlines_from: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "FruitlessRuns::is_none")]
    fruitless: FruitlessRuns,
    /// How the control plane reacted to a stopped agent that acted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) after_stop: Option<AfterStop>,
}

/// Consecutive runs that ended without starting a turn although a message waited.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct FruitlessRuns {
    count: u8,
    /// Failure reason that the agent of the last one reported.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
}

impl FruitlessRuns {
    const fn is_none(&self) -> bool {
        self.count == 0 && self.reason.is_none()
    }
}

impl RunState {
    /// Most past runs that are remembered.
    const MAX_PAST_RUNS: usize = 8;

    /// The state of a session that waits for its first run.
    pub(super) fn new() -> Self {
        Self {
            current: None,
            runs: 0,
            past_runs: Vec::new(),
            slot_wanted: Some(RunCause::Start),
            hibernated: false,
            deadlines_from: None,
            fruitless: FruitlessRuns::default(),
            after_stop: None,
        }
    }

    pub(super) const fn current(&self) -> Option<&Run> {
        self.current.as_ref()
    }

    pub(super) const fn current_mut(&mut self) -> Option<&mut Run> {
        self.current.as_mut()
    }

    pub(super) fn current_id(&self) -> Option<RunId> {
        self.current.as_ref().map(|run| run.id)
    }

    /// The number of the latest run, and the sequence that it would consume next.
    pub(super) fn next_sequence(&self) -> Option<(u32, u64)> {
        let current = self.current.as_ref().map(|run| (run.ordinal, run.inbox.next()));
        current.or_else(|| self.past_runs.last().map(|past| (past.ordinal, past.next_sequence)))
    }

    pub(super) fn past(&self) -> &[PastRun] {
        &self.past_runs
    }

    pub(super) fn is_live(&self) -> bool {
        matches!(self.current.as_ref().map(|run| run.phase), Some(RunPhase::Live))
    }

    pub(super) fn capabilities(&self) -> Option<Capabilities> {
        self.current.as_ref().and_then(|run| run.capabilities)
    }

    pub(super) fn unreachable_since(&self) -> Option<Timestamp> {
        self.current.as_ref().and_then(|run| run.unreachable).map(|unreachable| unreachable.since)
    }

    pub(super) const fn slot_wanted(&self) -> Option<RunCause> {
        self.slot_wanted
    }

    pub(super) const fn request_slot(&mut self, cause: RunCause) {
        self.slot_wanted = Some(cause);
    }

    pub(super) const fn withdraw_slot_request(&mut self) {
        self.slot_wanted = None;
    }

    /// Creates the run for which a slot was wanted, and returns its number. `None` if there is a run.
    pub(super) fn mint(&mut self, cause: RunCause, ctx: &mut DomainContext<'_>) -> Option<&Run> {
        if self.current.is_some() {
            return None;
        }
        self.slot_wanted = None;
        self.runs += 1;
        Some(self.current.insert(Run::launching(ctx.run_id(), self.runs, cause, ctx)))
    }

    /// A new command for the current run; `None` if no sidecar is ready.
    pub(super) fn command(&self, ctx: &mut DomainContext<'_>) -> Option<CommandRef> {
        let run_id = self.current.as_ref().filter(|_| self.is_live())?.id;
        Some(CommandRef { command_id: ctx.command_id(), run_id, attempt: 1 })
    }

    pub(super) const fn is_hibernated(&self) -> bool {
        self.hibernated
    }

    /// Records that the session keeps its status without a process. Its run has ended.
    pub(super) fn hibernate(&mut self) {
        debug_assert!(self.current.is_none(), "a session with a run does not hibernate");
        self.hibernated = self.current.is_none();
    }

    /// Records that the session has a process, or does not need one.
    pub(super) const fn wake(&mut self) {
        self.hibernated = false;
    }

    /// When a deadline that began at `at` is counted from, which is never within an absence.
    pub(super) fn counted_from(&self, at: Timestamp) -> Timestamp {
        self.deadlines_from.map_or(at, |from| at.max(from))
    }

    /// Whether deadlines were restarted at `at` or later.
    pub(super) fn restarted_deadlines_at(&self, at: Timestamp) -> bool {
        self.deadlines_from.is_some_and(|from| from >= at)
    }

    pub(super) const fn restart_deadlines(&mut self, at: Timestamp) {
        self.deadlines_from = Some(at);
    }

    /// Ends the current run, if it is `run_id`. What a stopped agent did ends with its process.
    pub(super) fn end(&mut self, run_id: RunId, end_uncertain: bool, now: Timestamp) -> Option<Run> {
        let run = self.current.take_if(|run| run.id == run_id)?;
        self.past_runs.push(PastRun {
            id: run.id,
            ordinal: run.ordinal,
            next_sequence: run.inbox.next(),
            ended_at: Some(now),
            end_uncertain,
        });
        let excess = self.past_runs.len().saturating_sub(Self::MAX_PAST_RUNS);
        self.past_runs.drain(..excess);
        self.after_stop = None;
        Some(run)
    }

    /// Counts a run without a turn. After `max` in a row, returns their number and the reason that the last agent reported.
    pub(super) fn count_fruitless(&mut self, max: u8) -> Option<(u8, Option<String>)> {
        self.fruitless.count = self.fruitless.count.saturating_add(1);
        (self.fruitless.count >= max).then(|| (self.fruitless.count, self.fruitless.reason.take()))
    }

    /// Keeps the reason for which an agent ended without a turn.
    pub(super) fn explain_fruitless(&mut self, reason: String) {
        self.fruitless.reason = Some(reason);
    }

    /// Restarts the count of runs without a turn.
    pub(super) fn was_fruitful(&mut self) {
        self.fruitless = FruitlessRuns::default();
    }

    /// Orders the current run to stop. Sends nothing if it was ordered before or there is no run. `fulfils`: its end confirms the pending
    /// request.
    pub(super) fn order_stop(&mut self, fulfils: bool, ctx: &mut DomainContext<'_>) -> Events {
        let Some(run) = &mut self.current else { return Vec::new() };
        let mode = match &mut run.phase {
            RunPhase::Ending { fulfils_request, .. } => {
                *fulfils_request |= fulfils;
                return Vec::new();
            }
            RunPhase::Live => StopMode::Graceful,
            // The sidecar does not read commands yet.
            RunPhase::Launching => StopMode::Kill,
        };
        run.phase =
            RunPhase::Ending { since: ctx.now, killed: mode == StopMode::Kill, fulfils_request: fulfils };
        let command = CommandRef { command_id: ctx.command_id(), run_id: run.id, attempt: 1 };
        vec![SessionEvent::RunStopOrdered { command, mode }]
    }

    /// Orders the runtime to kill the process. Does nothing if it was ordered before or there is no run.
    pub(super) fn order_kill(&mut self, fulfils: bool, ctx: &mut DomainContext<'_>) -> Events {
        let Some(run) = &mut self.current else { return Vec::new() };
        let (since, fulfilled) = match run.phase {
            RunPhase::Ending { killed: true, .. } => return Vec::new(),
            RunPhase::Ending { since, fulfils_request, .. } => (since, fulfils_request),
            RunPhase::Launching | RunPhase::Live => (ctx.now, false),
        };
        run.phase = RunPhase::Ending { since, killed: true, fulfils_request: fulfils || fulfilled };
        // Give the runtime time to report the end, even if nothing was received for long.
        run.silent_at = run.silent_at.max(ctx.now + ctx.deadlines.stop_timeout);
        let command = CommandRef { command_id: ctx.command_id(), run_id: run.id, attempt: 1 };
        vec![SessionEvent::RunStopOrdered { command, mode: StopMode::Kill }]
    }
}

/// Envelope order (decision 9).
impl RunState {
    pub(super) fn sender(&self, run: RunId) -> Sender {
        if let Some(current) = self.current.as_ref().filter(|current| current.id == run) {
            return Sender::Current(current.ordinal);
        }
        let past = self.past_runs.iter().find(|past| past.id == run);
        past.map_or(Sender::Unknown, |past| Sender::Past(past.ordinal))
    }

    pub(super) fn arrival(&self, run: RunId, sequence: u64) -> Arrival {
        if let Some(current) = self.current.as_ref().filter(|current| current.id == run) {
            return current.inbox.arrival(sequence);
        }
        match self.past_runs.iter().find(|past| past.id == run) {
            Some(past) if sequence >= past.next_sequence => Arrival::Next,
            _ => Arrival::Duplicate,
        }
    }

    pub(super) fn consume(&mut self, run: RunId, sequence: u64) -> Option<u64> {
        if let Some(current) = self.current.as_mut().filter(|current| current.id == run) {
            return current.inbox.consume();
        }
        if let Some(past) = self.past_runs.iter_mut().find(|past| past.id == run) {
            past.next_sequence = past.next_sequence.max(sequence + 1);
        }
        None
    }
}
