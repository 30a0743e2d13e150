//! Decisions of the inbox (S2; decision 74).

use std::collections::BTreeMap;

use pilothouse_domain::decision::{
    Decision, DecisionKind, DecisionLogEntry, DecisionSession, DecisionState, DecisionStatus,
    DecisionSubject, LoggedDecision, OnTimeout, ResolutionType, ResolvedBy, TimeoutRule,
};
use pilothouse_domain::effect::{BlastRadius, Severity};
use pilothouse_domain::escalation::{DecidingRule, GuardrailAction, TripSubject};
use pilothouse_domain::tick::Tick;
use pilothouse_domain::value::ProjectMembership;
use pilothouse_domain::{AgentSessionId, DecisionId, ProjectAgentId, Timestamp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A decision: what waits for a person, or did.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DecisionView {
    /// The id of the decision.
    pub id: DecisionId,
    /// The session that asked, or that it is about.
    #[serde(flatten)]
    pub session: Option<DecisionSession>,
    /// The agent of a project that asked, or that it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project: Option<ProjectMembership>,
    /// What is to be decided.
    #[serde(flatten)]
    pub subject: DecisionSubject,
    /// How bad the action can be. Absent if the kind of decision has no action that could be classified.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub severity: Option<Severity>,
    /// How far the action reaches. Absent like `severity`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blast_radius: Option<BlastRadius>,
    /// When the decision was opened.
    pub created_at: Timestamp,
    /// When it expires. Absent if it does not, and for a timeout in ticks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
    /// The tick of the project at which it is due.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub due_tick: Option<Tick>,
    /// The estimated time of `dueTick`. Absent if ticks are advanced manually.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub due_at: Option<Timestamp>,
    /// What happens when it is due.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_timeout: Option<OnTimeout>,
    /// How often a timeout extended it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub extensions: Option<u32>,
    /// What a person should notice.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub badges: Vec<DecisionBadge>,
    /// The types of resolution that the decision takes while it is pending.
    pub resolutions: Vec<ResolutionType>,
    /// The state, with the resolution or the end.
    #[serde(flatten)]
    pub state: DecisionState,
}

/// What a person should notice about a decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum DecisionBadge {
    /// A timeout fired and raised its severity.
    TimedOut,
    /// The session of the agent ended.
    AgentKilled,
}

impl DecisionView {
    /// The view of a decision.
    pub fn of(decision: &Decision) -> Self {
        let timeout = decision.timeout.as_ref();
        let timed = timeout.filter(|timeout| timeout.policy.timeout_ticks.is_some());
        let timed_out = timeout.and_then(|timeout| timeout.severity).map(|_| DecisionBadge::TimedOut);
        let is_orphaned = decision.status() == DecisionStatus::Orphaned;
        let badges = timed_out.into_iter().chain(is_orphaned.then_some(DecisionBadge::AgentKilled));
        Self {
            id: decision.id,
            session: decision.session.clone(),
            project: decision.project.clone(),
            subject: decision.subject.clone(),
            severity: decision.severity,
            blast_radius: decision.blast_radius,
            created_at: decision.created_at,
            expires_at: decision.expires_at.filter(|_| timeout.is_none()),
            due_tick: timed.and_then(|timeout| timeout.due_tick),
            due_at: decision.expires_at.filter(|_| timeout.is_some()),
            on_timeout: timed.map(|timeout| timeout.policy.on_timeout),
            extensions: timed.map(|timeout| timeout.extensions),
            badges: badges.collect(),
            resolutions: decision.resolutions(),
            state: decision.state.clone(),
        }
    }
}

/// A page of decisions.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DecisionPage {
    /// The decisions of this page.
    pub items: Vec<DecisionView>,
    /// The cursor of the next page. Absent on the last page. A page may be short, or even empty, although more items follow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
    /// How many decisions are pending or orphaned, if the request asked with `counts=true`. The filters do not apply to it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub counts: Option<DecisionCounts>,
}

/// A message of the live stream of the inbox. It has no cursor: after a reconnection, list the pending decisions again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", content = "data", rename_all = "snake_case")]
pub enum InboxMessage {
    /// A decision as it is now: it was opened, it changed, or it is over. The same state may be sent more than once.
    Decision(Box<DecisionView>),
    /// A decision changed that is too large for a message. Read it by its id.
    Changed(ChangedDecision),
    /// Each change from now on is sent. A client that lists the pending decisions after this message misses none.
    CaughtUp {},
}

/// A decision to read by its id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ChangedDecision {
    /// The id of the decision.
    pub id: DecisionId,
}

/// How many decisions of an owner are pending or orphaned.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DecisionCounts {
    /// All of them.
    pub pending: usize,
    /// The same by kind.
    pub by_kind: BTreeMap<String, usize>,
    /// Whether there are more than were counted.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_partial: bool,
}

impl DecisionCounts {
    /// Counts a decision.
    pub fn add(&mut self, kind: DecisionKind) {
        self.pending += 1;
        *self.by_kind.entry(kind.to_string()).or_default() += 1;
    }
}

/// An entry of the decision log of a project.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LoggedDecisionView {
    /// The agent. Absent if the entry is about the project.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_id: Option<ProjectAgentId>,
    /// The session of the agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<AgentSessionId>,
    /// When the decision was made.
    pub at: Timestamp,
    /// The decision with its reason.
    #[serde(flatten)]
    pub logged: LoggedDecision,
}

impl From<DecisionLogEntry> for LoggedDecisionView {
    fn from(entry: DecisionLogEntry) -> Self {
        let DecisionLogEntry { agent_id, session_id, at, logged, .. } = entry;
        Self { agent_id, session_id, at, logged }
    }
}

/// The rule of a verdict in words.
pub fn rule_in_words(rule: &DecidingRule) -> String {
    match rule {
        DecidingRule::NotAllowed { tool } => format!("the agent may not use {tool}"),
        DecidingRule::Guardrail { name } => format!("guardrail {name}"),
        DecidingRule::AlwaysEscalate { entry } => format!("{entry} always needs a person"),
        DecidingRule::AlwaysApprove { .. } => "a person approved calls like it".to_owned(),
        DecidingRule::Grant { .. } => "a person approved this call after it had ended".to_owned(),
        DecidingRule::EscalateWhen { description } => description.clone(),
        DecidingRule::ApprovalRate { action_kind, .. } => {
            format!("too few actions of kind {action_kind} were approved so far")
        }
        DecidingRule::NeverEscalate { entry } => format!("{entry} needs no person"),
        DecidingRule::Autonomy { action_kind } => format!("autonomy for {action_kind} was granted"),
        DecidingRule::ModeDefault { mode } => format!("default of the mode {mode}"),
    }
}

/// What a guardrail that tripped did, as the predicate of a sentence.
pub fn trip_in_words(subject: TripSubject, action: GuardrailAction) -> String {
    let what = match subject {
        TripSubject::Objective => "the objective",
        TripSubject::Message => "a message to the agent",
        TripSubject::Instruction => "an instruction to the agent",
        TripSubject::Answer => "an answer to the agent",
        TripSubject::Feedback => "feedback for the agent",
        TripSubject::Output => "the output",
    };
    match (subject, action) {
        (TripSubject::Output, GuardrailAction::Block) => format!("does not allow {what}"),
        (TripSubject::Output, GuardrailAction::Ask) => format!("asks for a review of {what}"),
        (_, GuardrailAction::Block) => format!("refused {what}"),
        (_, GuardrailAction::Ask | GuardrailAction::Warn | GuardrailAction::Log) => {
            format!("tripped on {what}")
        }
    }
}

/// Where a timeout policy comes from, in words.
pub fn timeout_rule_in_words(rule: TimeoutRule) -> String {
    match rule {
        TimeoutRule::Decision => "timeout of the decision".to_owned(),
        TimeoutRule::Brief => "timeout of the agent's brief".to_owned(),
        TimeoutRule::Project { mode } => format!("timeout of the project in the mode {mode}"),
        TimeoutRule::ModeDefault { mode } => format!("default timeout of the mode {mode}"),
    }
}

/// What became of a decision that is over, in a problem document.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DecisionOutcome {
    /// The state of the decision.
    pub state: DecisionStatus,
    /// Who resolved it. Absent if it expired or was cancelled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resolved_by: Option<ResolvedBy>,
    /// When it was resolved, expired or was cancelled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Timestamp>,
}

impl DecisionOutcome {
    /// The outcome of a decision.
    pub fn of(decision: &Decision) -> Self {
        Self {
            state: decision.status(),
            resolved_by: decision.state.ruling().map(|ruling| ruling.resolved_by.clone()),
            ended_at: decision.state.ended_at(),
        }
    }
}
