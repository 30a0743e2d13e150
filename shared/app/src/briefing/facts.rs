//! The facts from which a briefing is composed. They are read once, before the pure composition.

use std::collections::{BTreeMap, BTreeSet};

use pilothouse_api::briefing::{BriefingLimit, BriefingSource};
use pilothouse_domain::brake::BrakeScope;
use pilothouse_domain::coherence::{EmbeddingUse, ReviewUse};
use pilothouse_domain::decision::{Decision, DecisionLogEntry};
use pilothouse_domain::project::SpendingCap;
use pilothouse_domain::session::{AgentSessionStatus, Failure, PausedReason};
use pilothouse_domain::value::DeliverableCounts;
use pilothouse_domain::{
    AgentSession, AgentSessionId, Brake, BrakeId, DecisionId, ProjectAgent, ProjectAgentId, ProjectId,
    Timestamp, Usd,
};

/// A project and its events in the period of a briefing.
#[derive(Debug, Clone)]
pub struct BriefingFacts {
    pub project_id: ProjectId,
    pub name: String,
    pub archived_at: Option<Timestamp>,
    pub period: Period,
    pub agents: Vec<AgentFacts>,
    /// Open decisions about the agents, and about the release of brakes on them.
    pub open: Vec<Decision>,
    /// Entries of the decision log in the period.
    pub log: Vec<DecisionLogEntry>,
    /// Decisions of `log`, as far as they were read, with the content that the log lacks.
    pub logged: BTreeMap<DecisionId, Decision>,
    /// The brakes in force that stop agents of the project.
    pub brakes: Vec<BrakeFacts>,
    pub spending: Option<SpendingFacts>,
    /// The reviews of coherence issues so far.
    pub reviews: ReviewUse,
    /// The texts that were embedded so far.
    pub embeddings: EmbeddingUse,
    /// The sources that were not read in full.
    pub incomplete: BTreeSet<BriefingLimit>,
}

/// From `since` until before `until`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Period {
    pub since: Timestamp,
    pub until: Timestamp,
}

impl Period {
    pub fn contains(&self, at: Timestamp) -> bool {
        self.since <= at && at < self.until
    }
}

/// An agent with its current session.
#[derive(Debug, Clone)]
pub struct AgentFacts {
    pub id: ProjectAgentId,
    pub role: String,
    pub workstream: String,
    pub session: SessionFacts,
    pub work: Work,
}

/// The current session of an agent.
#[derive(Debug, Clone)]
pub struct SessionFacts {
    pub id: AgentSessionId,
    pub status: AgentSessionStatus,
    pub objective: String,
    pub updated_at: Timestamp,
    /// When it reached a terminal status.
    pub ended_at: Option<Timestamp>,
    pub failure: Option<Failure>,
    pub paused: Option<PausedReason>,
    pub unreachable_since: Option<Timestamp>,
    /// The spend of the session and of the ones before it.
    pub spent_usd: Usd,
    pub budget_usd: Usd,
    /// Whether the owner is warned of the spend.
    pub budget_warns: bool,
    /// Whether the agent does not report its spend.
    pub unmetered: bool,
    /// The latest counts, and the journal entry that has them.
    pub deliverables: Option<(DeliverableCounts, u64)>,
}

/// The work of an agent in the period, in all of its sessions.
#[derive(Debug, Clone, Default)]
pub struct Work {
    /// `None` if it is unknown.
    pub spent_usd: Option<Usd>,
    /// The number of turns that ended. `None` if it is unknown.
    pub turns: Option<u32>,
    /// The events that were read.
    pub events: Vec<WorkEvent>,
}

/// An event of a session that a briefing mentions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkEvent {
    pub session_id: AgentSessionId,
    pub sequence: u64,
    pub at: Timestamp,
    pub kind: WorkEventKind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WorkEventKind {
    TurnCompleted,
    /// The owner approved the output or closed the session.
    Completed,
    Failed,
    Cancelled,
    DeliverablesChanged,
    /// The agent acted after it had been stopped.
    ActedAfterStop,
    EventsLost,
    /// The agent left files that are not artifacts (decision 96).
    UnreportedFiles,
}

/// The number of turns in the period.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Turns {
    Exactly(usize),
    AtLeast(usize),
}

/// A brake in force.
#[derive(Debug, Clone)]
pub struct BrakeFacts {
    pub id: BrakeId,
    pub scope: BrakeScope,
    pub reason: String,
    pub pulled_at: Timestamp,
}

/// The draws of the agents from the spending cap.
#[derive(Debug, Clone, Copy)]
pub struct SpendingFacts {
    pub cap: SpendingCap,
    pub drawn_usd: Usd,
    /// Whether the cap is used up.
    pub is_exhausted: bool,
    /// Whether the brake that the cap has pulled is in force.
    pub is_braked: bool,
}

impl AgentFacts {
    pub fn of(agent: &ProjectAgent, session: &AgentSession, work: Work) -> Self {
        let (brief, budget) = (agent.brief(), session.budget());
        Self {
            id: agent.id(),
            role: brief.role.to_string(),
            workstream: brief.workstream.to_string(),
            session: SessionFacts {
                id: session.id(),
                status: session.status(),
                objective: session.objective().to_string(),
                updated_at: session.updated_at(),
                ended_at: session.completed_at(),
                failure: session.failure().cloned(),
                paused: session.paused_reason(),
                unreachable_since: session.unreachable_since(),
                spent_usd: budget.account_usd(),
                budget_usd: budget.hard_cap_usd(),
                budget_warns: budget.percent_used() >= budget.warn_at_percent().into(),
                unmetered: budget.unmetered(),
                deliverables: session.deliverables().map(|it| (it.counts, it.journal_sequence)),
            },
            work,
        }
    }
}

impl AgentFacts {
    /// The events of a kind with their sources.
    pub(super) fn events(&self, kind: WorkEventKind) -> Vec<(Timestamp, BriefingSource)> {
        self.work.events.iter().filter(|event| event.kind == kind).map(WorkEvent::source).collect()
    }

    /// The event of the current session with this sequence, if it is in the period and was read.
    pub(super) fn event_at(&self, sequence: u64) -> Option<(Timestamp, BriefingSource)> {
        let mut of_session = self.work.events.iter().filter(|event| event.session_id == self.session.id);
        of_session.find(|event| event.sequence == sequence).map(WorkEvent::source)
    }

    /// The latest event of a kind of the current session; if it was not read, the session, which changed at `at`.
    pub(super) fn last_event(&self, kind: WorkEventKind, at: Timestamp) -> (Timestamp, BriefingSource) {
        let of_session = self.work.events.iter().filter(|event| event.session_id == self.session.id);
        let last = of_session.filter(|event| event.kind == kind).max_by_key(|event| event.sequence);
        last.map_or((at, BriefingSource::Session { session_id: self.session.id }), WorkEvent::source)
    }

    /// The current session and its last change.
    pub(super) const fn session_source(&self) -> (Timestamp, BriefingSource) {
        (self.session.updated_at, BriefingSource::Session { session_id: self.session.id })
    }

    /// The turns that ended in the period.
    pub(super) fn turns(&self) -> Turns {
        let read = self.work.events.iter().filter(|event| event.kind == WorkEventKind::TurnCompleted).count();
        self.work.turns.map_or(Turns::AtLeast(read), |turns| Turns::Exactly(turns as usize))
    }
}

impl WorkEvent {
    const fn source(&self) -> (Timestamp, BriefingSource) {
        let Self { session_id, sequence, .. } = *self;
        (self.at, BriefingSource::SessionEvent { session_id, sequence })
    }
}

impl Turns {
    pub(super) const fn number(self) -> usize {
        match self {
            Self::Exactly(number) | Self::AtLeast(number) => number,
        }
    }
}

impl BrakeFacts {
    pub fn of(brake: &Brake) -> Self {
        Self {
            id: brake.id(),
            scope: brake.scope().clone(),
            reason: brake.reason().to_string(),
            pulled_at: brake.pulled_at(),
        }
    }
}

impl Work {
    /// Adds the work of another session of the agent.
    pub fn add(&mut self, other: Self) {
        self.spent_usd = self.spent_usd.zip(other.spent_usd).map(|(one, other)| one + other);
        self.turns = self.turns.zip(other.turns).map(|(one, other)| one.saturating_add(other));
        self.events.extend(other.events);
    }

    pub const NONE: Self = Self { spent_usd: Some(Usd::ZERO), turns: Some(0), events: Vec::new() };
}
