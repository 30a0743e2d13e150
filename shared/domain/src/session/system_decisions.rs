//! Decisions of the system about a session (decision 81).

use super::AgentSession;
use crate::decision::{Decision, DecisionSession, DecisionState, DecisionSubject, FreeDecision};
use crate::{DecisionId, Timestamp};

impl FreeDecision {
    /// A decision of the system about `session`.
    pub(crate) fn about(
        session: &AgentSession,
        id: DecisionId,
        subject: DecisionSubject,
        now: Timestamp,
    ) -> Self {
        let (severity, blast_radius) = subject.classification().unzip();
        Self::pending(Decision {
            id,
            owner_id: session.owner_id().clone(),
            session: Some(DecisionSession {
                session_id: session.id(),
                session_name: session.name().as_str().to_owned(),
            }),
            project: session.project().cloned(),
            subject,
            severity,
            blast_radius,
            created_at: now,
            expires_at: None,
            timeout: None,
            state: DecisionState::Pending,
        })
    }
}
