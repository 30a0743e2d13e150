//! Autonomy of an agent by kind of action: granted by a person, revoked automatically.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{ApprovalCounts, AutonomyPolicy, Rate};
use crate::Timestamp;
use crate::effect::ActionKind;

/// Autonomy of an agent for one kind of action.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "status", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum Autonomy {
    /// A decision asks a person whether to grant it.
    Proposed,
    Granted {
        since: Timestamp,
    },
    /// A person declined. The next proposal needs twice as many verdicts.
    Declined {
        /// Number of verdicts at that time.
        decided: u32,
    },
}

/// A change of autonomy that follows from an outcome.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum AutonomyChange {
    /// A person should decide whether the agent may do without approval.
    Proposed {
        action_kind: ActionKind,
        /// Lower end of the approval rate's interval.
        lower_bound: Rate,
    },
    /// The agent has to ask again, or the proposal is withdrawn. This needs no decision.
    Revoked { action_kind: ActionKind, reason: RevocationReason },
}

/// Why an autonomy ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum RevocationReason {
    /// The approval rate fell below the policy's limit.
    ApprovalRate,
    /// A person stopped the agent with a brake.
    Brake,
    /// The project's policy no longer grants autonomy.
    PolicyRemoved,
}

/// Why a person's answer to a proposal was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("there is no proposal to grant autonomy for `{action_kind}`")]
pub struct NoProposal {
    pub action_kind: ActionKind,
}

/// Kinds that always need a person in some mode. They are never proposed.
const NEVER_AUTONOMOUS: [ActionKind; 2] = [ActionKind::Delete, ActionKind::Deploy];

/// The change that follows from these verdicts, if any.
pub(super) fn review(
    action_kind: ActionKind,
    current: Option<Autonomy>,
    counts: ApprovalCounts,
    policy: Option<AutonomyPolicy>,
    braked: bool,
) -> Option<AutonomyChange> {
    let revoked = |reason| Some(AutonomyChange::Revoked { action_kind, reason });
    let lower_bound = counts.interval().lower;
    match (current, policy) {
        (Some(Autonomy::Granted { .. } | Autonomy::Proposed), _) if braked => {
            revoked(RevocationReason::Brake)
        }
        (Some(Autonomy::Granted { .. } | Autonomy::Proposed), None) => {
            revoked(RevocationReason::PolicyRemoved)
        }
        (Some(Autonomy::Granted { .. } | Autonomy::Proposed), Some(policy))
            if lower_bound < policy.revoke_below =>
        {
            revoked(RevocationReason::ApprovalRate)
        }
        (Some(Autonomy::Declined { decided }), Some(_)) if counts.decided < decided.saturating_mul(2) => None,
        (None | Some(Autonomy::Declined { .. }), Some(policy))
            if lower_bound >= policy.propose_at && !braked && !NEVER_AUTONOMOUS.contains(&action_kind) =>
        {
            Some(AutonomyChange::Proposed { action_kind, lower_bound })
        }
        _ => None,
    }
}
