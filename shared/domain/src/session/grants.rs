//! Grants: approvals of tool calls that no longer exist, because the agent slept, crashed or was reloaded (decision 77). The agent is
//! asked to repeat the call, and the control plane allows it once.

use serde::{Deserialize, Serialize};

use super::AgentSession;
use crate::decision::{Decision, Resolution};
use crate::value::input_hash;
use crate::{DecisionId, Events, SessionEvent, Timestamp, ToolCallId};

/// The approval of one call with exactly this input. It ends with the session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Grant {
    pub decision_id: DecisionId,
    pub tool: String,
    pub input_hash: String,
    pub granted_at: Timestamp,
}

impl Grant {
    /// Most grants of a session. Further ones replace the oldest.
    const MAX: usize = 20;

    /// The grant of an approval that found no waiting call. Approvals of all further calls need none.
    fn of(decision: &Decision) -> Option<Self> {
        let verdict = decision.subject.verdict()?;
        let ruling = decision.state.ruling()?;
        let input_hash = match &ruling.resolution {
            Resolution::Approve { always_approve: false, .. } => verdict.input_hash.clone()?,
            Resolution::Modify { modified_input, .. } => input_hash(modified_input),
            Resolution::Approve { always_approve: true, .. }
            | Resolution::Answer { .. }
            | Resolution::ChooseOption { .. }
            | Resolution::Reject { .. }
            | Resolution::Dismiss => return None,
        };
        let (decision_id, tool) = (decision.id, verdict.tool.clone());
        Some(Self { decision_id, tool, input_hash, granted_at: ruling.resolved_at })
    }
}

impl AgentSession {
    /// The grant for a call; `None` if it has none, or the session cannot act.
    pub fn grant_for(&self, tool: &str, input_hash: &str) -> Option<&Grant> {
        if self.is_held() || self.status().is_terminal() {
            return None;
        }
        self.grants.iter().find(|grant| grant.tool == tool && grant.input_hash == input_hash)
    }

    /// Uses up the grant for a call. Returns its decision.
    pub fn use_grant(
        &mut self,
        tool: &str,
        input_hash: &str,
        call: &ToolCallId,
    ) -> Option<(DecisionId, Events)> {
        let decision_id = self.grant_for(tool, input_hash)?.decision_id;
        self.grants.retain(|grant| grant.decision_id != decision_id);
        let (tool_call_id, tool) = (call.clone(), tool.to_owned());
        Some((decision_id, vec![SessionEvent::GrantUsed { decision_id, tool_call_id, tool }]))
    }

    /// Adds the grant of an approval that is sent as a message.
    pub(super) fn add_grant(&mut self, decision: &Decision) {
        let Some(grant) = Grant::of(decision) else { return };
        self.grants.retain(|other| other.decision_id != grant.decision_id);
        if self.grants.len() >= Grant::MAX {
            self.grants.remove(0);
        }
        self.grants.push(grant);
    }
}
