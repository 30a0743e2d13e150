//! The decision about one tool call: allow, ask or deny, with the rule that decided.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::allow_list::Listing;
use super::entry::ListEntry;
use super::guardrail::{GuardrailAction, ToolGuardrail};
use super::predicate::PredicateFacts;
use super::protocol::EscalationProtocol;
use super::tool_call::ToolCall;
use crate::control_mode::{ControlMode, ControlModeSetting, ModeRevision};
use crate::effect::pattern::ToolClassifications;
use crate::effect::{ActionKind, BlastRadius, Effect, Effects, Severity};
use crate::text::cut;
use crate::trust::{Points, Rate, TrustProfile};
use crate::{AgentSessionId, DecisionId};

/// A person's `alwaysApprove`: covers a tool and its effects up to the approved severity, in one session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StandingApproval {
    pub decision_id: DecisionId,
    pub session_id: AgentSessionId,
    pub tool: String,
    /// The approved effects.
    pub effects: Effects,
    /// Mode under which it was given. It lapses when the mode becomes stricter.
    pub mode_revision: ModeRevision,
}

/// Rules for the calls of one agent.
#[derive(Debug, Clone, Copy)]
pub struct Policy<'a> {
    pub mode: &'a ControlModeSetting,
    /// The project's protocol for the mode; by default [`EscalationProtocol::of_mode`].
    pub mode_protocol: &'a EscalationProtocol,
    /// The protocol of the agent's brief. It adds to that of the mode.
    pub agent_protocol: &'a EscalationProtocol,
    /// The patterns of the project, to which entries refer.
    pub patterns: &'a ToolClassifications,
    pub guardrails: &'a [ToolGuardrail],
    pub approvals: &'a [StandingApproval],
}

/// At the time of the call.
#[derive(Debug, Clone, Copy)]
pub struct AgentTrust<'a> {
    pub score: Points,
    pub profile: &'a TrustProfile,
    /// `escalateBelowApprovalRate` of the project.
    pub minimum_approval_rate: Option<Rate>,
}

/// What the escalation engine decides, from the most permissive to the strictest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum VerdictKind {
    Allow,
    Ask,
    Deny,
}

/// The rule that decided about a tool call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum DecidingRule {
    /// The agent's list of tools does not have the tool. If the agent did not say which tool it calls, a person decides.
    NotAllowed { tool: String },
    /// A guardrail of the brief forbids the call, or lets a person decide about it.
    Guardrail { name: String },
    /// The protocol lists the call or its kind as one that needs a person.
    AlwaysEscalate { entry: String },
    /// A person approved all calls like it.
    AlwaysApprove { decision_id: DecisionId },
    /// A person approved this call when it no longer waited.
    Grant { decision_id: DecisionId },
    /// A rule of the protocol applies.
    EscalateWhen { description: String },
    /// People approved too few actions of this kind.
    ApprovalRate { action_kind: ActionKind, lower_bound: Rate },
    /// The protocol lists the call or its kind as one that needs no person.
    NeverEscalate { entry: String },
    /// A person granted autonomy for this kind of action.
    Autonomy { action_kind: ActionKind },
    /// No rule applies.
    ModeDefault { mode: ControlMode },
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Verdict {
    pub verdict: VerdictKind,
    pub rule: DecidingRule,
    /// The effect that the rule applied to, with the reported risk.
    pub effect: Effect,
    /// Names of tripped guardrails that warn or log.
    pub notices: Vec<String>,
}

impl DecidingRule {
    fn not_allowed(tool: &str) -> Self {
        Self::NotAllowed { tool: cut(tool, ToolCall::MAX_NAME) }
    }

    fn of_guardrail(guardrail: &ToolGuardrail) -> Self {
        Self::Guardrail { name: guardrail.name.to_string() }
    }
}

impl StandingApproval {
    /// Most effects of a call that can be approved for the session. Approvals are stored with the agent.
    pub const MAX_EFFECTS: usize = 20;

    fn covers(&self, effect: Effect, call: &ToolCall<'_>, mode: &ControlModeSetting) -> bool {
        let approved = |approved: Effect| {
            approved.action_kind == effect.action_kind
                && approved.severity >= effect.severity
                && approved.blast_radius >= effect.blast_radius
        };
        self.session_id == call.session_id
            && self.tool == call.tool
            && !mode.tightened_since(self.mode_revision)
            && self.effects.iter().any(approved)
    }
}

/// Decides about a call. Of the verdicts on its effects, the strictest wins.
pub fn evaluate(policy: &Policy<'_>, call: &ToolCall<'_>, trust: &AgentTrust<'_>) -> Verdict {
    let tripped = || policy.guardrails.iter().filter(|guardrail| guardrail.trips(call));
    let with_action = |action| tripped().find(|guardrail| guardrail.action == action);
    let (block, ask) = (with_action(GuardrailAction::Block), with_action(GuardrailAction::Ask));
    let notices = tripped()
        .filter(|guardrail| matches!(guardrail.action, GuardrailAction::Warn | GuardrailAction::Log))
        .map(|guardrail| guardrail.name.to_string())
        .collect();
    let mut strictest: Option<(VerdictKind, DecidingRule, Effect)> = None;
    for effect in call.effects.iter().map(|effect| call.reported.raise(effect)) {
        let (verdict, rule) = match (call.listing, block, ask) {
            (Listing::NotAllowed(_), ..) => (VerdictKind::Deny, DecidingRule::not_allowed(call.tool)),
            (_, Some(guardrail), _) => (VerdictKind::Deny, DecidingRule::of_guardrail(guardrail)),
            (Listing::Unknown, ..) => (VerdictKind::Ask, DecidingRule::not_allowed(call.tool)),
            (Listing::Allowed, None, Some(guardrail)) => {
                (VerdictKind::Ask, DecidingRule::of_guardrail(guardrail))
            }
            (Listing::Allowed, None, None) => of_effect(policy, call, trust, effect),
        };
        if strictest.as_ref().is_none_or(|(so_far, ..)| verdict > *so_far) {
            strictest = Some((verdict, rule, effect));
        }
    }
    // A set of effects is never empty; an empty one would have to ask.
    let (verdict, rule, effect) = strictest.unwrap_or_else(|| {
        let rule = DecidingRule::ModeDefault { mode: policy.mode.mode() };
        (VerdictKind::Ask, rule, Effect::UNCLASSIFIED)
    });
    Verdict { verdict, rule, effect, notices }
}

impl Policy<'_> {
    /// The entry by which an action of this kind always needs a person. An entry whose pattern the project has removed applies to
    /// every call, because it is not known which calls it meant.
    fn always_escalates(&self, kind: ActionKind, call: &ToolCall<'_>) -> Option<&ListEntry> {
        let protocols = [self.agent_protocol, self.mode_protocol];
        let mut entries = protocols.into_iter().flat_map(|protocol| &protocol.always_escalate);
        entries.find(|entry| {
            entry.names_kind(kind)
                || entry.names_call(call.tool, call.patterns)
                || entry.names_no_pattern_of(self.patterns)
        })
    }

    /// Whether a person has to decide about the call in any case, also after an approval of all further calls.
    pub fn needs_person_always(&self, call: &ToolCall<'_>) -> bool {
        call.effects.iter().any(|effect| self.always_escalates(effect.action_kind, call).is_some())
    }
}

/// The rules in their order. The first one that applies decides.
fn of_effect(
    policy: &Policy<'_>,
    call: &ToolCall<'_>,
    trust: &AgentTrust<'_>,
    effect: Effect,
) -> (VerdictKind, DecidingRule) {
    let protocols = [policy.agent_protocol, policy.mode_protocol];
    let kind = effect.action_kind;

    if let Some(entry) = policy.always_escalates(kind, call) {
        return (VerdictKind::Ask, DecidingRule::AlwaysEscalate { entry: entry.to_string() });
    }
    if let Some(approval) = policy.approvals.iter().find(|one| one.covers(effect, call, policy.mode)) {
        return (VerdictKind::Allow, DecidingRule::AlwaysApprove { decision_id: approval.decision_id });
    }
    let facts = PredicateFacts {
        confidence: effect.confidence,
        blast_radius: effect.blast_radius,
        trust_score: trust.score,
        affects_multiple_workstreams: call.affects_multiple_workstreams,
    };
    let mut rules = protocols.iter().flat_map(|protocol| &protocol.escalate_when);
    if let Some(rule) = rules.find(|rule| rule.predicate.holds(&facts)) {
        return (VerdictKind::Ask, DecidingRule::EscalateWhen { description: rule.description.clone() });
    }
    let lower_bound = trust.profile.approvals(kind).interval().lower;
    let too_few_approvals = trust.minimum_approval_rate.is_some_and(|minimum| lower_bound < minimum);
    if too_few_approvals && effect.blast_radius >= BlastRadius::Small {
        return (VerdictKind::Ask, DecidingRule::ApprovalRate { action_kind: kind, lower_bound });
    }
    let never = protocols.iter().flat_map(|protocol| &protocol.never_escalate);
    for entry in never {
        let by_kind = entry.names_kind(kind) && !is_exceptional(effect);
        if by_kind || entry.names_call(call.tool, call.patterns) {
            return (VerdictKind::Allow, DecidingRule::NeverEscalate { entry: entry.to_string() });
        }
    }
    if trust.profile.is_autonomous(kind) && !is_exceptional(effect) {
        return (VerdictKind::Allow, DecidingRule::Autonomy { action_kind: kind });
    }
    let mode = policy.mode.mode();
    (mode_default(mode, effect), DecidingRule::ModeDefault { mode })
}

/// Whether the effect is critical or unknown. The name of a kind does not cover such effects: they need an entry for the tool.
fn is_exceptional(effect: Effect) -> bool {
    effect.severity == Severity::Critical || effect.blast_radius == BlastRadius::Unknown
}

fn mode_default(mode: ControlMode, effect: Effect) -> VerdictKind {
    let changes_nothing =
        matches!(effect.action_kind, ActionKind::Read | ActionKind::Search | ActionKind::Analyze);
    let asks = match mode {
        ControlMode::Orchestrator => !changes_nothing || is_exceptional(effect),
        ControlMode::Adaptive | ControlMode::Ecosystem => is_exceptional(effect),
    };
    if asks { VerdictKind::Ask } else { VerdictKind::Allow }
}
