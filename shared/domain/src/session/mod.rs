//! The `AgentSession` aggregate (S0 8.4).
//!
//! A session is one conversation between an owner and an agent. The control plane never talks to the agent itself: a *sidecar*
//! process drives it, receives commands and reports raw events, which arrive here as facts ([`fact`]). One life of a sidecar is a
//! *run* ([`run`]); a session has at most one at a time and several over its life.
//!
//! A request of the owner that the sidecar carries out (interrupt, pause, resume, cancel) has two phases. The session enters an
//! intermediate status (`Pausing`) and records the command as [`PendingCommand`]; the acknowledgement moves it on (`Paused`). If the
//! acknowledgement does not arrive in time, `deadlines` decides what to do.
//!
//! The aggregate consists of sub-entities. Each has its own invariants, and methods that concern it alone; `AgentSession` decides by
//! the transition table in [`status`] which of them apply.
//!
//! | sub-entity | contents |
//! |---|---|
//! | `definition` | name, objective, model, skills and settings |
//! | `state` | the status with the data that belongs to it, and commands that wait for an acknowledgement |
//! | `run_state`, [`run`], `inbox` | the current run and the ones before it; the order of their envelopes |
//! | `delivery` | the turn; messages and deferred facts on their way |
//! | `open_tools` | tool calls without a result, and the latest ended ones |
//! | `requests` | questions and plans; answers that the sidecar has not received |
//! | `adjustments`, `configuration` | changes of model, thinking level and conversation; reloads of the configuration |
//! | `spending` | budget, usage and quota |
//! | `review` | the output and its review |
//! | `progress` | task list and deliverables |
//! | `chain_link` | the place in a chain |
//! | `hold` | the emergency brakes that hold the session |
//! | `checkpoint` | where the agent of a project continues from |
//! | [`subagent`] | the `SubAgentSession` entity |
//!
//! | operations | contents |
//! |---|---|
//! | `create`, `lifecycle`, `retry` | creation; start, interrupt, pause, resume, cancel, fail; retry |
//! | `acknowledgement` | the sidecar's answers to commands |
//! | `turn`, `validation`, `context` | turns, auto-continue, the context window |
//! | `answers`, `plan`, `timeouts` | requests of the agent, the owner's decisions, timeouts in ticks |
//! | `grants` | approvals of calls that no longer wait |
//! | `guardrails` | guardrails on what the agent receives and submits |
//! | `decisions`, `system_decisions` | the decisions of the inbox that a change opens or ends; decisions of the system |
//! | `kill`, `restart` | the end of an agent by its owner; a new process under a changed control mode |
//! | `agent_items` | tasks and learnings of the agent |
//! | `skills`, `adjust` | skills and reloads; adjustments while the session lives |
//! | `launch`, `replay`, `run_end` | the begin of a run, missing envelopes, its end |
//! | `deadlines`, `silence`, `after_stop` | deadlines, silent runs, activity after a stop |
//! | `hibernation`, `disk`, `quota` | stopping an inactive process; waiting for disk space or a quota |
//! | `handoff` | handoff documents, and the state that a continuation inherits |
//! | `missing` | capabilities that the adapter lacks |
//! | [`fact`] | what a sidecar can report about its agent |

mod access;
mod acknowledgement;
mod adjust;
mod adjustments;
mod after_stop;
mod agent_items;
mod answers;
mod chain_link;
mod checkpoint;
mod configuration;
mod context;
mod create;
mod deadlines;
mod decisions;
mod definition;
mod delivery;
mod disk;
mod error;
mod event;
pub mod fact;
mod grants;
mod guardrails;
mod handoff;
mod hibernation;
mod hold;
mod inbox;
mod kill;
mod launch;
mod lifecycle;
mod missing;
mod open_tools;
mod plan;
mod progress;
mod quota;
mod replay;
mod requests;
mod restart;
mod retry;
mod review;
pub mod run;
mod run_end;
mod run_state;
mod session_status;
mod settings;
mod silence;
mod skills;
mod spending;
mod state;
pub mod status;
pub mod subagent;
mod system_decisions;
mod timeouts;
mod turn;
mod validation;

use serde::{Deserialize, Serialize};

use adjustments::Adjustments;
pub use adjustments::PendingAdjustment;
use chain_link::ChainLink;
pub use chain_link::{ChainPlace, Continues, WorkStop};
use checkpoint::Checkpoints;
pub use checkpoint::{Checkpoint, CheckpointCause};
use configuration::ConfigurationState;
pub use create::NewSession;
pub use deadlines::DeadlineKind;
use decisions::DecisionChanges;
use definition::SessionDefinition;
use delivery::Delivery;
pub(crate) use delivery::{InFlight, InFlightStep};
pub use disk::FullDisk;
pub use error::SessionError;
pub use event::{Events, SessionEvent};
pub use fact::{AgentFact, MeterTotals, UsageReport};
pub use grants::Grant;
pub use guardrails::{judge_input, judge_resolution};
pub use hold::HeldBy;
use hold::Hold;
pub use inbox::{Arrival, Gap, Inbox};
use kill::Kill;
pub use kill::{Grace, KillOutcome};
pub use open_tools::OpenToolCall;
use progress::Progress;
pub use progress::RecordedDeliverables;
pub use quota::{PausedReason, Quota};
use requests::Requests;
pub use requests::{PendingRequest, RequestAnswer, RequestKind};
use restart::ProcessRestart;
pub use retry::Opening;
use retry::Retry;
pub use review::RecordedOutput;
use review::Review;
pub use run::{CommandRef, PastRun, Run, RunCause, RunPhase, Sender, StopMode, Unreachable};
pub use run_end::RunEnd;
use run_state::RunState;
pub use settings::{AgentOptions, SessionOptions, SessionSettings};
pub use silence::{Absence, Observation, ProcessState};
pub use spending::BudgetChange;
use spending::Spending;
use state::State;
pub use state::{Failure, LifecycleCommand, PendingCommand};
pub use status::{AgentSessionStatus, Operation};
pub use subagent::{SubAgentSession, SubAgentStatus};
pub use turn::Turn;

use crate::value::AutoContinueConfig;
use crate::{AgentSessionId, DomainContext, Timestamp, UserId};

/// A session of an agent: its life cycle, budget, requests and runs.
///
/// A method that returns a [`SessionError`] has changed nothing.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AgentSession {
    id: AgentSessionId,
    owner_id: UserId,
    definition: SessionDefinition,
    state: State,
    /// Whether a cancellation waits for another request to resolve (decision 16).
    cancel_accepted: bool,
    run_state: RunState,
    delivery: Delivery,
    requests: Requests,
    /// Oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    grants: Vec<Grant>,
    #[serde(skip)]
    decision_changes: DecisionChanges,
    adjustments: Adjustments,
    configuration: ConfigurationState,
    spending: Spending,
    review: Review,
    progress: Progress,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    auto_continue: Option<AutoContinueConfig>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    retry: Option<Retry>,
    chain: ChainLink,
    #[serde(default, skip_serializing_if = "Hold::is_default")]
    hold: Hold,
    #[serde(default, skip_serializing_if = "Checkpoints::is_default")]
    checkpoints: Checkpoints,
    /// Set in sessions of projects when they are cancelled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    kill: Option<Kill>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    process_restart: Option<ProcessRestart>,
    /// Set while the session waits for space on a full disk.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    full_disk: Option<FullDisk>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    api_key_hash: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    started_at: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    completed_at: Option<Timestamp>,
    created_at: Timestamp,
    pub(crate) updated_at: Timestamp,
    control_version: u64,
    journal_sequence: u64,
}

impl AgentSession {
    /// Most consecutive runs that may end without starting a turn while a message waits. Then the session fails instead of starting
    /// another run.
    pub const MAX_FRUITLESS_RUNS: u8 = 3;

    pub fn next_journal_sequence(&mut self) -> u64 {
        self.journal_sequence += 1;
        self.journal_sequence
    }

    /// Returns the status after `operation`, or the refusal if the current status does not allow it.
    pub fn check(&self, operation: Operation) -> Result<AgentSessionStatus, SessionError> {
        let status = self.status();
        let refusal = || match self.chain.continuation() {
            Some(continuation) if status == AgentSessionStatus::ContextExhausted => {
                SessionError::Continued { continuation }
            }
            _ => SessionError::InvalidTransition { operation, status },
        };
        operation.next(status).ok_or_else(refusal)
    }

    /// Enters `state` if the transition table allows it.
    fn transition(&mut self, operation: Operation, state: State) -> Result<(), SessionError> {
        let to = self.check(operation)?;
        debug_assert!(
            to == state.status() || state.status().is_waiting(),
            "{operation:?} leads to {to}, not to {}",
            state.status()
        );
        self.enter(state);
        Ok(())
    }

    fn enter(&mut self, state: State) {
        self.state = state;
        self.touch_control();
        if !matches!(self.state, State::Interrupted | State::Paused | State::Cancelled) {
            self.run_state.after_stop = None;
        }
    }

    /// Marks a change that the owner's decisions may depend on.
    const fn touch_control(&mut self) {
        self.control_version += 1;
    }

    fn ensure_no_turn_starting(&self) -> Result<(), SessionError> {
        if self.delivery.in_flight().is_empty() { Ok(()) } else { Err(SessionError::TurnStarting) }
    }

    pub(crate) fn order_stop(&mut self, ctx: &mut DomainContext<'_>) -> Events {
        self.run_state.order_stop(false, ctx)
    }

    fn order_kill(&mut self, fulfils: bool, ctx: &mut DomainContext<'_>) -> Events {
        self.run_state.order_kill(fulfils, ctx)
    }

    /// Records that the session needs a run.
    pub(crate) const fn request_slot(&mut self, cause: RunCause) {
        self.run_state.request_slot(cause);
    }

    pub(crate) const fn withdraw_slot_request(&mut self) {
        self.run_state.withdraw_slot_request();
    }

    /// Takes the cancellation that waited for another request to resolve. Returns whether there was one.
    pub(crate) const fn take_cancel_accepted(&mut self) -> bool {
        std::mem::replace(&mut self.cancel_accepted, false)
    }
}
