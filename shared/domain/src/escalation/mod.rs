//! The escalation engine: which tool calls of an agent need a person (S2, "Control Mode Enforcement"; decision 69).
//!
//! [`evaluate`] is a pure function. Each effect of a call gets a verdict by the first rule that applies: the agent's list
//! of tools, a guardrail, `alwaysEscalate`, a person's `alwaysApprove`, `escalateWhen`, the minimum approval rate, `neverEscalate`, granted autonomy, the
//! default of the mode. The strictest verdict over the effects decides. Guardrails on the input and the output of an agent are judged where
//! a text is sent, and where an output is checked.

mod allow_list;
mod approval;
mod content_guardrail;
mod engine;
mod entry;
mod guardrail;
mod guardrail_policy;
mod predicate;
mod protocol;
mod tool_call;
mod violation;

pub use allow_list::{AllowedCommands, BASH, ListedCall, Listing, ToolAllowList};
pub use approval::{AskedVerdict, ToolApproval};
pub use content_guardrail::{
    BlockedInput, GuardrailLevel, GuardrailTrip, InputCondition, InputGuardrail, OutputCondition,
    OutputGuardrail, TripSubject,
};
pub use engine::{AgentTrust, DecidingRule, Policy, StandingApproval, Verdict, VerdictKind, evaluate};
pub use entry::{InvalidEntry, ListEntry};
pub use guardrail::{ArgumentCondition, CallCondition, GuardrailAction, GuardrailViolation, ToolGuardrail};
pub use guardrail_policy::GuardrailPolicy;
pub use predicate::{EscalationPredicate, NumberOp, PredicateFacts, RadiusOp};
pub use protocol::{EscalationProtocol, EscalationRule};
pub use tool_call::{ReportedRisk, ToolCall};
pub use violation::{ProtocolViolation, Violations};
