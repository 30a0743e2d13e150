//! The escalation engine: which tool calls of an agent need a person (S2, "Control Mode Enforcement"; decision 69).
//!
//! [`evaluate`] is a pure function. Each effect of a call gets a verdict by the first rule that applies: the agent's list
//! of tools, a guardrail, `alwaysEscalate`, a person's `alwaysApprove`, `escalateWhen`, the minimum approval rate, `neverEscalate`, granted autonomy, the
//! default of the mode. The strictest verdict over the effects decides.

mod allow_list;
mod engine;
mod entry;
mod guardrail;
mod predicate;
mod protocol;
mod violation;

pub use allow_list::{AllowedCommands, BASH, ListedCall, Listing, ToolAllowList};
pub use engine::{
    AgentTrust, DecidingRule, Policy, ReportedRisk, StandingApproval, ToolCall, Verdict, VerdictKind,
    evaluate,
};
pub use entry::{InvalidEntry, ListEntry};
pub use guardrail::{
    ArgumentCondition, CallCondition, GuardrailAction, GuardrailPolicy, GuardrailViolation, ToolGuardrail,
};
pub use predicate::{EscalationPredicate, NumberOp, PredicateFacts, RadiusOp};
pub use protocol::{EscalationProtocol, EscalationRule};
pub use violation::{ProtocolViolation, Violations};
