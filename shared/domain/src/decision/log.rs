//! The decision log of a project (S2; decision 75): verdicts on tool calls, decisions and their timeouts, guardrails on input and output,
//! brakes, uses of the project's knowledge, and changes of mode and trust, each with its reason.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    Decision, DecisionKind, DecisionState, DecisionStatus, ResolutionDelivery, ResolutionType, ResolvedBy,
    TimedOut,
};
use crate::brake::{BrakeEvent, BrakeInitiator, BrakeScope, ReleasedBy};
use crate::control_mode::{ControlMode, ModeRevision};
use crate::effect::{Effect, Effects, Severity};
use crate::escalation::{
    AskedVerdict, DecidingRule, GuardrailLevel, GuardrailTrip, TripSubject, Verdict, VerdictKind,
};
use crate::text::WorkstreamId;
use crate::trust::TrustEntry;
use crate::{
    AgentSessionId, Brake, BrakeId, DecisionId, EventId, ProjectAgentId, ProjectId, Timestamp, ToolCallId,
    UserId, VerdictId,
};

/// One entry. Each is stored as a separate item.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DecisionLogEntry {
    pub owner_id: UserId,
    pub project_id: ProjectId,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_id: Option<ProjectAgentId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<AgentSessionId>,
    pub at: Timestamp,
    #[serde(flatten)]
    pub logged: LoggedDecision,
}

/// A decision with its reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case", rename_all_fields = "camelCase")]
pub enum LoggedDecision {
    /// The control plane judged a tool call. The tool call of the session has its input.
    Verdict {
        verdict_id: VerdictId,
        tool_call_id: ToolCallId,
        tool: String,
        verdict: VerdictKind,
        /// The rule that decided.
        rule: DecidingRule,
        /// The effect that the rule applied to.
        effect: Effect,
        /// What the call does.
        effects: Effects,
        /// Hash of the arguments as JSON with sorted keys: SHA-256 in hex.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        input_hash: Option<String>,
        /// Whether an approval must give a reason.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        requires_rationale: bool,
        /// Guardrails that warn or log, and applied.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        notices: Vec<String>,
        mode: ControlMode,
        mode_revision: ModeRevision,
    },
    /// A decision of the inbox ended. The decision has the content of its resolution.
    Decision {
        decision_id: DecisionId,
        /// The verdict that required it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        verdict_id: Option<VerdictId>,
        kind: DecisionKind,
        state: DecisionStatus,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        resolution_type: Option<ResolutionType>,
        /// All further calls like it are approved for the session.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        always_approve: bool,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        resolved_by: Option<ResolvedBy>,
        /// The timeout that ended it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        timeout: Option<TimedOut>,
    },
    /// A timeout escalated or extended a decision of the inbox.
    Timeout {
        decision_id: DecisionId,
        kind: DecisionKind,
        timeout: TimedOut,
        /// The severity to which it was raised.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        severity: Option<Severity>,
        /// Extensions so far.
        extensions: u32,
    },
    /// The control mode changed.
    ControlMode { event_id: EventId, from: ControlMode, to: ControlMode, revision: ModeRevision },
    /// A brake on the project, a workstream or an agent was pulled or released.
    Brake {
        event_id: EventId,
        brake_id: BrakeId,
        scope: BrakeScope,
        action: BrakeAction,
        by: BrakeActor,
        reason: String,
    },
    /// An agent used the knowledge of its project, or tried to.
    Knowledge {
        access_id: EventId,
        access: KnowledgeAccess,
        /// Whether the workstreams of its brief allow it.
        allowed: bool,
        /// The workstream. Absent for a search, which covers all readable workstreams.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        workstream: Option<WorkstreamId>,
        /// The id of the artifact or decision, the path of a new artifact, or the words of a search.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        subject: Option<String>,
    },
    /// A guardrail of a brief tripped on a text for the agent, or on its output (S2 `GuardrailEvent`). Verdicts show those on tool
    /// calls.
    Guardrail {
        event_id: EventId,
        /// Tells the guardrails of one event apart.
        number: u32,
        level: GuardrailLevel,
        subject: TripSubject,
        guardrail: GuardrailTrip,
    },
    /// The trust of an agent changed.
    Trust { event_id: EventId, change: Box<TrustEntry> },
}

/// A use of a project's knowledge by an agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum KnowledgeAccess {
    ReadArtifact,
    ReportArtifact,
    ReadDecision,
    Search,
    FlagCoherence,
}

/// What happened to a brake.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum BrakeAction {
    Pulled,
    /// Some sessions were released. The brake holds the others.
    SessionsReleased,
    Released,
}

/// Who pulled or released a brake.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum BrakeActor {
    Owner,
    /// The time of the brake was over.
    Timer,
    /// The spending cap of the project.
    System,
}

impl BrakeAction {
    pub const fn of_event(event: &BrakeEvent) -> Self {
        match event {
            BrakeEvent::Pulled { .. } => Self::Pulled,
            BrakeEvent::SessionsReleased { .. } => Self::SessionsReleased,
            BrakeEvent::Released { .. } => Self::Released,
        }
    }
}

impl BrakeActor {
    pub const fn of_event(event: &BrakeEvent, brake: &Brake) -> Self {
        match event {
            BrakeEvent::Pulled { .. } => match brake.initiator() {
                BrakeInitiator::Owner => Self::Owner,
                BrakeInitiator::System => Self::System,
            },
            BrakeEvent::SessionsReleased { .. } => Self::Owner,
            BrakeEvent::Released { by, .. } => match by {
                ReleasedBy::Owner | ReleasedBy::Decision => Self::Owner,
                ReleasedBy::Timer => Self::Timer,
            },
        }
    }
}

impl DecisionLogEntry {
    /// The entry for a decision of a project that somebody or a timeout took. Its delivery and its cancellation are not logged.
    pub fn of_decision(decision: &Decision) -> Option<Self> {
        let project_id = decision.project_id()?;
        let at = match &decision.state {
            DecisionState::Resolving { ruling }
            | DecisionState::Resolved { ruling, delivery: None | Some(ResolutionDelivery::Message) }
            | DecisionState::AutoResolved { ruling, delivery: None | Some(ResolutionDelivery::Message) } => {
                ruling.resolved_at
            }
            DecisionState::Expired { ended_at } => *ended_at,
            DecisionState::Pending
            | DecisionState::Suspended { .. }
            | DecisionState::Orphaned { .. }
            | DecisionState::AutoResolved { .. }
            | DecisionState::Cancelled { .. }
            | DecisionState::Resolved {
                delivery: Some(ResolutionDelivery::Command | ResolutionDelivery::Undelivered),
                ..
            } => return None,
        };
        let ruling = decision.state.ruling();
        Some(Self {
            owner_id: decision.owner_id.clone(),
            project_id,
            agent_id: decision.project.as_ref().map(|of| of.agent_id),
            session_id: decision.session_id(),
            at,
            logged: LoggedDecision::Decision {
                decision_id: decision.id,
                verdict_id: decision.subject.verdict().map(|verdict| verdict.verdict_id),
                kind: decision.kind(),
                state: decision.status(),
                resolution_type: ruling.map(|ruling| ruling.resolution.resolution_type()),
                always_approve: ruling.is_some_and(|ruling| ruling.resolution.approves_always()),
                resolved_by: ruling.map(|ruling| ruling.resolved_by.clone()),
                timeout: decision.timeout.as_ref().and_then(|timeout| timeout.last),
            },
        })
    }
}

impl LoggedDecision {
    /// A verdict on a call.
    pub fn verdict(
        verdict_id: VerdictId,
        (tool_call_id, tool): (ToolCallId, String),
        (effects, requires_rationale): (Effects, bool),
        input_hash: String,
        verdict: Verdict,
        (mode, mode_revision): (ControlMode, ModeRevision),
    ) -> Self {
        let Verdict { verdict, rule, effect, notices } = verdict;
        Self::Verdict {
            verdict_id,
            tool_call_id,
            tool,
            verdict,
            rule,
            effect,
            effects,
            input_hash: Some(input_hash),
            requires_rationale,
            notices,
            mode,
            mode_revision,
        }
    }

    /// The verdict that a request for permission of `call` names; `None` if it is about another call, or did not ask.
    pub fn asked_verdict(&self, call: &ToolCallId) -> Option<AskedVerdict> {
        match self {
            Self::Verdict {
                verdict_id,
                tool_call_id,
                tool,
                verdict: VerdictKind::Ask,
                rule,
                effect,
                effects,
                input_hash,
                requires_rationale,
                ..
            } if tool_call_id == call => Some(AskedVerdict {
                verdict_id: *verdict_id,
                tool: tool.clone(),
                rule: rule.clone(),
                effect: *effect,
                effects: effects.clone(),
                input_hash: input_hash.clone(),
                requires_rationale: *requires_rationale,
            }),
            Self::Verdict { .. }
            | Self::Decision { .. }
            | Self::Timeout { .. }
            | Self::ControlMode { .. }
            | Self::Brake { .. }
            | Self::Knowledge { .. }
            | Self::Guardrail { .. }
            | Self::Trust { .. } => None,
        }
    }

    /// Guardrails that tripped, by their numbers.
    pub fn of_trips<'a>(
        event_id: EventId,
        trips: impl IntoIterator<Item = (TripSubject, &'a GuardrailTrip)>,
    ) -> impl Iterator<Item = Self> {
        (0..).zip(trips).map(move |(number, (subject, guardrail))| Self::Guardrail {
            event_id,
            number,
            level: subject.level(),
            subject,
            guardrail: guardrail.clone(),
        })
    }

    /// The key of a verdict.
    pub fn verdict_key(id: VerdictId) -> String {
        format!("verdict-{id}")
    }

    /// Identifies the entry: writing it again replaces it.
    pub fn key(&self) -> String {
        match self {
            Self::Verdict { verdict_id, .. } => Self::verdict_key(*verdict_id),
            Self::Decision { decision_id, .. } => format!("decision-{decision_id}"),
            Self::Timeout { decision_id, timeout, .. } => format!("timeout-{decision_id}-{}", timeout.number),
            Self::ControlMode { event_id, revision, .. } => format!("mode-{event_id}-{}", revision.get()),
            Self::Brake { event_id, .. } => format!("brake-{event_id}"),
            Self::Knowledge { access_id, .. } => format!("knowledge-{access_id}"),
            Self::Guardrail { event_id, number, .. } => format!("guardrail-{event_id}-{number}"),
            Self::Trust { event_id, .. } => format!("trust-{event_id}"),
        }
    }
}
