//! The aggregate of a brake.

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{BrakeBehavior, BrakeError, BrakeEvent, BrakeScope, ReleasedBy};
use crate::text::BrakeReason;
use crate::value::ProjectMembership;
use crate::{AgentSessionId, Aggregate, BrakeId, DecisionId, Timestamp, UserId};

/// Who pulled a brake.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum BrakeInitiator {
    #[default]
    Owner,
    /// The spending cap of a project. Such a brake costs no trust.
    System,
}

/// Input for pulling a brake.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewBrake {
    pub id: BrakeId,
    pub owner_id: UserId,
    pub initiator: BrakeInitiator,
    pub scope: BrakeScope,
    pub behavior: BrakeBehavior,
    pub reason: BrakeReason,
    pub release: ReleaseCondition,
    /// The agents of projects that sessions belong to whose leases do not name them.
    pub agents: BTreeMap<AgentSessionId, ProjectMembership>,
}

/// What releases a brake, in addition to a person (S2 `BrakeReleaseCondition`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged, rename_all_fields = "camelCase")]
pub enum ReleaseCondition {
    /// The clock.
    Timer {
        release_at: Timestamp,
    },
    /// The approval of a decision in the inbox.
    Decision {
        release_decision_id: DecisionId,
    },
    Manual {},
}

/// A brake, in force or released.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Brake {
    id: BrakeId,
    owner_id: UserId,
    #[serde(default)]
    initiator: BrakeInitiator,
    scope: BrakeScope,
    behavior: BrakeBehavior,
    reason: BrakeReason,
    pulled_at: Timestamp,
    #[serde(flatten)]
    condition: ReleaseCondition,
    /// The sessions in scope that had a run when the brake was pulled, or the one in scope. The pool alone stops every other one.
    session_ids: BTreeSet<AgentSessionId>,
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    released_ids: BTreeSet<AgentSessionId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    release: Option<BrakeRelease>,
}

/// The release of a whole brake.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BrakeRelease {
    /// When the brake was released.
    pub at: Timestamp,
    /// What released it.
    pub by: ReleasedBy,
}

impl ReleaseCondition {
    /// The approval of the decision that the brake `id` opens.
    pub fn decision(id: BrakeId) -> Self {
        Self::Decision { release_decision_id: Brake::release_decision_of(id) }
    }
}

impl Brake {
    /// Most sessions that can be released one by one.
    pub const MAX_RELEASED: usize = 200;

    /// The id of the decision that releases the brake `id`.
    pub fn release_decision_of(id: BrakeId) -> DecisionId {
        DecisionId::about(id.uuid(), "release")
    }

    /// A brake that the pool has. `session_ids` are the sessions in scope that have a run, or the one in scope.
    pub(crate) fn pulled(
        new: NewBrake,
        session_ids: BTreeSet<AgentSessionId>,
        now: Timestamp,
    ) -> (Self, BrakeEvent) {
        let NewBrake { id, owner_id, initiator, scope, behavior, reason, release, agents: _ } = new;
        let event = BrakeEvent::Pulled {
            brake_id: id,
            scope: scope.clone(),
            behavior,
            reason: reason.as_str().to_owned(),
            session_count: session_ids.len(),
        };
        let brake = Self {
            id,
            owner_id,
            initiator,
            scope,
            behavior,
            reason,
            pulled_at: now,
            condition: release,
            session_ids,
            released_ids: BTreeSet::new(),
            release: None,
        };
        (brake, event)
    }

    /// Ends the brake. The caller removes it from the pool.
    pub(crate) fn end(&mut self, by: ReleasedBy, now: Timestamp) -> Result<BrakeEvent, BrakeError> {
        if self.release.is_some() {
            return Err(BrakeError::Over);
        }
        self.release = Some(BrakeRelease { at: now, by });
        Ok(BrakeEvent::Released { brake_id: self.id, by })
    }

    /// Exempts some sessions from the brake. The caller exempts them in the pool too. The brake ends if its scope is one session.
    pub(crate) fn exempt(
        &mut self,
        sessions: &BTreeMap<AgentSessionId, Option<ProjectMembership>>,
        now: Timestamp,
    ) -> Result<BrakeEvent, BrakeError> {
        if self.release.is_some() {
            return Err(BrakeError::Over);
        }
        let is_held = |id, of: &Option<ProjectMembership>| self.holds(id) || self.keeps_back(id, of.as_ref());
        if let Some((other, _)) = sessions.iter().find(|(id, of)| !is_held(**id, of)) {
            return Err(BrakeError::NotHeld { session_id: *other });
        }
        if self.released_ids.len() + sessions.len() > Self::MAX_RELEASED {
            return Err(BrakeError::TooManyReleased { max: Self::MAX_RELEASED });
        }
        if matches!(self.scope, BrakeScope::Session { .. }) {
            return self.end(ReleasedBy::Owner, now);
        }
        self.released_ids.extend(sessions.keys());
        Ok(BrakeEvent::SessionsReleased {
            brake_id: self.id,
            session_ids: sessions.keys().copied().collect(),
        })
    }

    pub const fn id(&self) -> BrakeId {
        self.id
    }

    pub const fn initiator(&self) -> BrakeInitiator {
        self.initiator
    }

    pub const fn scope(&self) -> &BrakeScope {
        &self.scope
    }

    pub const fn behavior(&self) -> BrakeBehavior {
        self.behavior
    }

    pub const fn reason(&self) -> &BrakeReason {
        &self.reason
    }

    pub const fn pulled_at(&self) -> Timestamp {
        self.pulled_at
    }

    /// When the clock releases the brake.
    pub const fn release_at(&self) -> Option<Timestamp> {
        match self.condition {
            ReleaseCondition::Timer { release_at } => Some(release_at),
            ReleaseCondition::Decision { .. } | ReleaseCondition::Manual {} => None,
        }
    }

    /// The decision of the inbox whose approval releases the brake.
    pub const fn release_decision_id(&self) -> Option<DecisionId> {
        match self.condition {
            ReleaseCondition::Decision { release_decision_id } => Some(release_decision_id),
            ReleaseCondition::Timer { .. } | ReleaseCondition::Manual {} => None,
        }
    }

    /// The release; `None` while the brake is in force.
    pub const fn released(&self) -> Option<BrakeRelease> {
        self.release
    }

    /// The sessions that had a run when the brake was pulled, or the one in scope.
    pub const fn session_ids(&self) -> &BTreeSet<AgentSessionId> {
        &self.session_ids
    }

    /// Whether the brake is in force for a session.
    pub fn holds(&self, session: AgentSessionId) -> bool {
        let in_scope = self.scope == BrakeScope::All {} || self.session_ids.contains(&session);
        self.release.is_none() && in_scope && !self.released_ids.contains(&session)
    }
}

impl Brake {
    /// Whether a session that had no run when the brake was pulled cannot start.
    fn keeps_back(&self, session: AgentSessionId, of: Option<&ProjectMembership>) -> bool {
        self.release.is_none() && self.scope.contains(session, of) && !self.released_ids.contains(&session)
    }
}

impl Aggregate for Brake {
    type Id = BrakeId;
    type Event = BrakeEvent;

    const KIND: &'static str = "brake";

    fn id(&self) -> BrakeId {
        self.id
    }

    fn owner_id(&self) -> &UserId {
        &self.owner_id
    }

    fn due_at(&self) -> Option<Timestamp> {
        self.release_at().filter(|_| self.release.is_none())
    }
}
