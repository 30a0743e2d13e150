//! Pulling and releasing a brake. The brake and the pool change together.

use std::collections::{BTreeMap, BTreeSet};

use super::SessionPool;
use crate::brake::{
    Brake, BrakeError, BrakeEvent, BrakeInitiator, BrakeScope, NewBrake, PoolBrake, ReleasedBy,
};
use crate::value::ProjectMembership;
use crate::{AgentSessionId, BrakeId, Timestamp};

impl Brake {
    /// Pulls a brake: no session in its scope receives a slot of `pool` any more.
    pub fn pull(
        new: NewBrake,
        pool: &mut SessionPool,
        now: Timestamp,
    ) -> Result<(Self, Vec<BrakeEvent>), BrakeError> {
        pool.add_brake(PoolBrake::new(new.id, new.scope.clone(), new.behavior), new.initiator)?;
        let session_ids = match &new.scope {
            BrakeScope::Session { session_id } => BTreeSet::from([*session_id]),
            scope => {
                let running = pool.leases().iter();
                let of_scope = running.filter(|(session, lease)| {
                    scope.contains(**session, lease.holder.agent().or_else(|| new.agents.get(session)))
                });
                of_scope.map(|(session, _)| *session).collect()
            }
        };
        let (brake, event) = Self::pulled(new, session_ids, now);
        Ok((brake, vec![event]))
    }

    /// Releases the whole brake.
    pub fn release(
        &mut self,
        by: ReleasedBy,
        pool: &mut SessionPool,
        now: Timestamp,
    ) -> Result<Vec<BrakeEvent>, BrakeError> {
        let event = self.end(by, now)?;
        pool.remove_brake(self.id());
        Ok(vec![event])
    }

    /// Releases some sessions, given with the agents of projects that they belong to: those that it stopped, and those that it keeps
    /// from starting. The brake is over when its scope is a session and that one is released.
    pub fn release_sessions(
        &mut self,
        sessions: &BTreeMap<AgentSessionId, Option<ProjectMembership>>,
        pool: &mut SessionPool,
        now: Timestamp,
    ) -> Result<Vec<BrakeEvent>, BrakeError> {
        let event = self.exempt(sessions, now)?;
        if self.released().is_some() {
            pool.remove_brake(self.id());
        } else {
            for session in sessions.keys() {
                pool.exempt(self.id(), *session);
            }
        }
        Ok(vec![event])
    }
}

impl SessionPool {
    fn add_brake(&mut self, brake: PoolBrake, initiator: BrakeInitiator) -> Result<(), BrakeError> {
        let max = match initiator {
            BrakeInitiator::Owner => Self::MAX_BRAKES,
            BrakeInitiator::System => Self::MAX_BRAKES_WITH_SYSTEM,
        };
        if self.brakes.len() >= max {
            return Err(BrakeError::TooMany { max });
        }
        self.brakes.push(brake);
        Ok(())
    }

    fn remove_brake(&mut self, brake: BrakeId) {
        self.brakes.retain(|other| other.id != brake);
    }

    fn exempt(&mut self, brake: BrakeId, session: AgentSessionId) {
        for brake in self.brakes.iter_mut().filter(|other| other.id == brake) {
            brake.released.insert(session);
        }
    }
}
