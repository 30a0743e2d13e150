//! A brake as the pool knows it.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::{BrakeBehavior, BrakeScope};
use crate::value::ProjectMembership;
use crate::{AgentSessionId, BrakeId};

/// A brake in force: the sessions in its scope receive no slot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PoolBrake {
    pub id: BrakeId,
    pub scope: BrakeScope,
    pub behavior: BrakeBehavior,
    /// Sessions that were released from the brake.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub released: BTreeSet<AgentSessionId>,
}

impl PoolBrake {
    pub const fn new(id: BrakeId, scope: BrakeScope, behavior: BrakeBehavior) -> Self {
        Self { id, scope, behavior, released: BTreeSet::new() }
    }

    /// Whether the brake stops a session, given the agent of a project that it belongs to.
    pub fn stops(&self, session: AgentSessionId, of: Option<&ProjectMembership>) -> bool {
        self.scope.contains(session, of) && !self.released.contains(&session)
    }

    /// Whether no session can start. A session that was released from the brake can.
    pub fn stops_all(&self) -> bool {
        self.scope == BrakeScope::All {} && self.released.is_empty()
    }

    /// Extends the brake from a session to the one that continues its work.
    pub(crate) fn follow(&mut self, from: AgentSessionId, to: AgentSessionId) {
        match &mut self.scope {
            BrakeScope::Session { session_id } if *session_id == from => *session_id = to,
            BrakeScope::Session { .. } => {}
            BrakeScope::All {}
            | BrakeScope::Project { .. }
            | BrakeScope::Workstream { .. }
            | BrakeScope::Agent { .. } => {
                if self.released.contains(&from) {
                    self.released.insert(to);
                }
            }
        }
    }
}
