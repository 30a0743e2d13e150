//! Crashes of an agent (S2, "Crash recovery"; decision 81): how many came in a row, and the decision about the latest one.

use serde::{Deserialize, Serialize};

use super::{ProjectAgent, ProjectAgentEvent};
use crate::decision::{AutomaticRecovery, DecisionSubject, FreeDecision, Recovery};
use crate::value::FailureReason;
use crate::{AgentSession, AgentSessionId, DecisionId, DomainContext};

/// The latest crashes of an agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Crashes {
    /// Crashes without a completed turn between them.
    consecutive: u32,
    /// The session of the latest crash.
    session_id: AgentSessionId,
    /// Completed turns of that session at the crash.
    turn_count: u32,
    /// Retries of that session before the crash. An attempt crashes once.
    attempt: u32,
    /// The decision about the latest crash.
    decision_id: DecisionId,
}

impl FailureReason {
    /// Whether the process, the machine or the agent failed, and not its work.
    pub const fn is_crash(self) -> bool {
        match self {
            Self::InfrastructureError | Self::AgentError => true,
            Self::BudgetExhausted | Self::VerificationFailed | Self::ManualCancellation | Self::Timeout => {
                false
            }
        }
    }
}

impl ProjectAgent {
    /// Counts the failure of `session`, and opens the decision about it. `automatic` has the recovery without a person for the number of
    /// crashes in a row. `None` if the crash was counted before, or the session is not the current one, or continues already.
    pub fn record_crash(
        &mut self,
        session: &AgentSession,
        automatic: impl FnOnce(u32) -> Option<AutomaticRecovery>,
        ctx: &DomainContext<'_>,
    ) -> Option<(FreeDecision, Vec<ProjectAgentEvent>)> {
        let failure = session.failure().filter(|failure| failure.reason.is_crash())?;
        let (session_id, attempt) = (session.id(), session.retry_count());
        let turn_count = session.metrics().turn_count;
        let is_same = |it: &Crashes| it.session_id == session_id && it.attempt == attempt;
        if self.crashes.as_ref().is_some_and(is_same) || session_id != self.current_session_id {
            return None;
        }
        let consecutive = match &self.crashes {
            Some(before) if before.session_id == session_id && turn_count > before.turn_count => 1,
            Some(before) if before.session_id != session_id && turn_count > 0 => 1,
            Some(before) => before.consecutive.saturating_add(1),
            None => 1,
        };
        let subject = DecisionSubject::CrashRecovery {
            failure_reason: failure.reason,
            failure_message: failure.message.clone(),
            consecutive_crashes: consecutive,
            options: Recovery::options(),
            automatic: automatic(consecutive),
        };
        let decision = FreeDecision::about(
            session,
            DecisionId::about(session_id.uuid(), &format!("crash {attempt}")),
            subject,
            ctx.now,
        );
        let decision_id = decision.decision().id;
        self.crashes = Some(Crashes { consecutive, session_id, turn_count, attempt, decision_id });
        self.updated_at = ctx.now;
        let crashed = ProjectAgentEvent::Crashed { session_id, consecutive, decision_id };
        Some((decision, vec![crashed]))
    }

    /// The decision about the latest crash.
    pub fn latest_crash(&self) -> Option<DecisionId> {
        self.crashes.as_ref().map(|crashes| crashes.decision_id)
    }

    /// The decision about the latest crash, if that is one of `session` before its retry with this number.
    pub fn crash_before_retry(&self, session: AgentSessionId, retry: u32) -> Option<DecisionId> {
        let is_before = |it: &&Crashes| it.session_id == session && it.attempt < retry;
        self.crashes.as_ref().filter(is_before).map(|crashes| crashes.decision_id)
    }
}
