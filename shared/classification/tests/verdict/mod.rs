//! Verdicts of the escalation engine about shell commands.

use pilothouse_classification::pattern::ToolClassifications;
use pilothouse_classification::{Adapter, Classification, Context, ToolCall, classify};
use pilothouse_domain::control_mode::{ControlMode, ControlModeSetting};
use pilothouse_domain::escalation::{
    self, AgentTrust, EscalationProtocol, Listing, Policy, ReportedRisk, VerdictKind, evaluate,
};
use pilothouse_domain::tick::Tick;
use pilothouse_domain::trust::{Points, TrustCalibrationProfile, TrustProfile};
use pilothouse_domain::{AgentSessionId, Timestamp};
use uuid::Uuid;

/// Classifies a command in the folder `/home/user/project`.
#[allow(dead_code)] // not every test needs it
pub(crate) fn classified(command: &str) -> Classification {
    classified_in("/home/user/project", command)
}

#[allow(clippy::expect_used)] // benches and examples use it, too
pub(crate) fn classified_in(workspace: &str, command: &str) -> Classification {
    let patterns = ToolClassifications::default();
    let context = Context::new(workspace, workspace, "/home/user", &patterns).expect("absolute folders");
    let arguments = serde_json::json!({ "command": command });
    let call = ToolCall { adapter: Adapter::Claude, tool: "Bash", kind: None, arguments: &arguments };
    classify(&call, &context)
}

/// Whether a person is asked about a call of an agent with the trust 50 in adaptive mode.
#[allow(dead_code)]
pub(crate) fn asks(classification: &Classification) -> bool {
    verdict(classification, ControlMode::Adaptive, 50) != VerdictKind::Allow
}

/// The verdicts in each mode and for several trust scores.
#[allow(dead_code)]
pub(crate) fn verdicts(classification: &Classification) -> Vec<VerdictKind> {
    let each = |mode| [0, 50, 90].map(|trust| verdict(classification, mode, trust));
    ControlMode::ALL.into_iter().flat_map(each).collect()
}

fn verdict(classification: &Classification, mode: ControlMode, trust: i16) -> VerdictKind {
    let setting = ControlModeSetting::new(mode, Timestamp::from_millis(0));
    let profile = TrustProfile::new(&TrustCalibrationProfile::default(), Tick::ZERO);
    let policy = Policy {
        mode: &setting,
        mode_protocol: &EscalationProtocol::of_mode(mode),
        agent_protocol: &EscalationProtocol::default(),
        patterns: &ToolClassifications::default(),
        guardrails: &[],
        approvals: &[],
    };
    let patterns: Vec<String> = classification.pattern.iter().cloned().collect();
    let call = escalation::ToolCall {
        tool: "Bash",
        session_id: AgentSessionId::new(Uuid::from_u128(1)),
        effects: &classification.effects,
        patterns: &patterns,
        listing: &Listing::Allowed,
        reported: ReportedRisk::default(),
        affects_multiple_workstreams: false,
        arguments: &serde_json::Value::Null,
    };
    let trust = AgentTrust { score: Points::whole(trust), profile: &profile, minimum_approval_rate: None };
    evaluate(&policy, &call, &trust).verdict
}
