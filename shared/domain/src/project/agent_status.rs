//! Status of an agent of a project. It follows from the status of its current session.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::SessionEvent;
use crate::names::named;
use crate::session::{AgentSession, AgentSessionStatus, WorkStop};

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum AgentStatus {
    /// The agent works, or its process may still act.
    Running,
    Paused,
    WaitingOnHuman,
    Completed,
    Error,
}

named!(AgentStatus {
    Running => "running",
    Paused => "paused",
    WaitingOnHuman => "waiting_on_human",
    Completed => "completed",
    Error => "error",
});

impl AgentStatus {
    pub const ALL: [Self; 5] =
        [Self::Running, Self::Paused, Self::WaitingOnHuman, Self::Completed, Self::Error];

    /// The status of an agent with this current session. An exhausted session without a continuation no longer works.
    pub const fn of(session: &AgentSession) -> Self {
        match session.work_stop() {
            Some(WorkStop::ChainFull) => Self::WaitingOnHuman,
            Some(WorkStop::ChainKept | WorkStop::ChainEnded | WorkStop::Killed) => Self::Error,
            None => Self::of_status(session.status(), session.has_pending_review()),
        }
    }

    /// After `ContextExhausted` the work continues in another session, which becomes the current one.
    const fn of_status(status: AgentSessionStatus, output_pending_review: bool) -> Self {
        use AgentSessionStatus as S;
        match status {
            S::Queued
            | S::Running
            | S::Interrupting
            | S::Pausing
            | S::Resuming
            | S::Cancelling
            | S::ContextExhausted => Self::Running,
            S::Paused | S::Interrupted => Self::Paused,
            S::WaitingForInput | S::WaitingForApproval => Self::WaitingOnHuman,
            S::Idle if output_pending_review => Self::WaitingOnHuman,
            S::Idle | S::Completed => Self::Completed,
            S::Failed | S::Cancelled => Self::Error,
        }
    }

    /// Whether an event may start or stop the ticks of the agent's project. A test compares it with random sessions.
    pub const fn may_change_activity(event: &SessionEvent) -> bool {
        use SessionEvent as E;
        matches!(
            event,
            E::Created { .. }
                | E::Started { .. }
                | E::TurnStarted { .. }
                | E::TurnCompleted { .. }
                | E::OutputReady { .. }
                | E::Interrupted {}
                | E::Paused {}
                | E::ResumeRequested { .. }
                | E::ResumeAbandoned {}
                | E::CancelRequested { .. }
                | E::Cancelled {}
                | E::Approved { .. }
                | E::Closed {}
                | E::Rejected { .. }
                | E::Failed { .. }
                | E::Retried { .. }
                | E::InputReceived { .. }
                | E::PlanApproved { .. }
                | E::PlanRejected { .. }
                | E::AnswerReturned { .. }
                | E::AutoContinueStopped { .. }
                | E::WorkStopped { .. }
                | E::RunEnded { .. }
        )
    }

    /// Whether the ticks of the project advance because of this agent.
    pub const fn advances_ticks(self) -> bool {
        matches!(self, Self::Running | Self::WaitingOnHuman)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use AgentSessionStatus as S;

    #[test]
    fn agent_status_agrees_with_the_groups_of_session_statuses() {
        use AgentStatus as A;
        for status in S::ALL {
            let agent = A::of_status(status, false);
            let continues = status == S::ContextExhausted;
            let has_ended = status == S::Idle || (status.is_terminal() && !continues);
            assert_eq!(agent == A::WaitingOnHuman, status.is_waiting(), "{status}");
            assert_eq!(matches!(agent, A::Completed | A::Error), has_ended, "{status}");
            if status.is_intermediate() || continues {
                assert_eq!(agent, A::Running, "{status}");
            }
            let rests = status.survives_its_process() && !status.is_waiting() && !has_ended;
            assert_eq!(agent == A::Paused, rests, "{status}");
        }
        let ended =
            [S::Idle, S::Completed, S::Failed, S::Cancelled].map(|status| A::of_status(status, false));
        assert_eq!(ended, [A::Completed, A::Completed, A::Error, A::Error]);
    }

    #[test]
    fn pending_review_changes_only_the_status_of_idle_agents() {
        let changed = |status| AgentStatus::of_status(status, true) != AgentStatus::of_status(status, false);
        assert_eq!(S::ALL.into_iter().filter(|status| changed(*status)).collect::<Vec<_>>(), [S::Idle]);
        assert_eq!(AgentStatus::of_status(S::Idle, true), AgentStatus::WaitingOnHuman);
    }

    #[test]
    fn ticks_advance_while_an_agent_works_or_waits_for_a_person() {
        let advancing = |status| AgentStatus::of_status(status, false).advances_ticks();
        let advancing: Vec<_> = S::ALL.into_iter().filter(|status| advancing(*status)).collect();
        let still = [S::Interrupted, S::Paused, S::Cancelled, S::Idle, S::Completed, S::Failed];
        assert!(S::ALL.iter().all(|status| advancing.contains(status) != still.contains(status)));
    }
}
