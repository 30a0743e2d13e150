//! Policies of a project for a control mode, where they differ from the defaults of the mode.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::control_mode::ControlMode;
use crate::decision::{DecisionTimeoutPolicy, OrphanedDecisionPolicy};
use crate::escalation::EscalationProtocol;

/// What a project changes for one mode.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ModePolicy {
    /// Which tool calls need a person.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub escalation: Option<EscalationProtocol>,
    /// What happens to decisions that nobody makes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decision_timeout: Option<DecisionTimeoutPolicy>,
    /// What happens to open decisions of an agent whose session ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub orphaned_decisions: Option<OrphanedDecisionPolicy>,
}

/// Policies by mode. A mode that is missing has its defaults.
pub type ModePolicies = BTreeMap<ControlMode, ModePolicy>;
