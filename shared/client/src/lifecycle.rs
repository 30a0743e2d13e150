//! Commands that change a session. A request of the two-phase lifecycle returns the intermediate status;
//! [`Client::wait_until_settled`] waits for the confirmation (S3).

use std::time::Duration;

use pilothouse_api::sessions::{OutputDecision, SessionView, StartedSession};
use pilothouse_domain::value::ConversationTarget;
use pilothouse_domain::{AgentSessionId, OutputId, TurnId};
use tokio::time::{Instant, sleep};

use super::inputs::{
    AdjustSession, Cancel, Compact, EmptyBody, Fork, Interrupt, LabelTurn, RetrySession, UpdateBudget,
};
use super::sessions::session_path;
use super::{ApiError, Client};

/// First and longest interval between two reads of a status.
const POLL: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(1));

impl Client {
    /// Interrupts the turn. Pending messages are held, or cancelled with `clear_queue`.
    pub async fn interrupt(&self, id: AgentSessionId, clear_queue: bool) -> Result<SessionView, ApiError> {
        self.post(session_path(id, "/interrupt"), &Interrupt { clear_queue }).await
    }

    /// Pauses a running session.
    pub async fn pause(&self, id: AgentSessionId) -> Result<SessionView, ApiError> {
        self.post(session_path(id, "/pause"), &EmptyBody {}).await
    }

    /// Resumes a paused session.
    pub async fn resume(&self, id: AgentSessionId) -> Result<SessionView, ApiError> {
        self.post(session_path(id, "/resume"), &EmptyBody {}).await
    }

    /// Cancels a session; `force` kills its process at once (decision 16).
    pub async fn cancel(&self, id: AgentSessionId, force: bool) -> Result<SessionView, ApiError> {
        self.post(session_path(id, "/cancel"), &Cancel { force }).await
    }

    /// Approves the output `output_id`, the one that was reviewed.
    pub async fn approve(&self, id: AgentSessionId, output_id: OutputId) -> Result<SessionView, ApiError> {
        self.post(session_path(id, "/approve"), &OutputDecision { output_id, reason: None }).await
    }

    /// Rejects the output `output_id`: the session fails and can be retried.
    pub async fn reject(
        &self,
        id: AgentSessionId,
        output_id: OutputId,
        reason: Option<String>,
    ) -> Result<SessionView, ApiError> {
        self.post(session_path(id, "/reject"), &OutputDecision { output_id, reason }).await
    }

    /// Completes an idle session, if it still has the version `if_version`.
    pub async fn close(&self, id: AgentSessionId, if_version: Option<u64>) -> Result<SessionView, ApiError> {
        self.post_if(session_path(id, "/close"), &EmptyBody {}, if_version).await
    }

    /// Retries a failed session (decision 24). The session is Queued and gets a new key.
    pub async fn retry(&self, id: AgentSessionId, retry: &RetrySession) -> Result<StartedSession, ApiError> {
        self.post(session_path(id, "/retry"), retry).await
    }

    /// Changes the budget.
    pub async fn set_budget(
        &self,
        id: AgentSessionId,
        budget: &UpdateBudget,
    ) -> Result<SessionView, ApiError> {
        self.patch(session_path(id, "/budget"), budget).await
    }

    /// Changes the model or the thinking level. The session lists changes that the agent has not applied yet in `adjustments`.
    pub async fn adjust(&self, id: AgentSessionId, change: &AdjustSession) -> Result<SessionView, ApiError> {
        self.patch(session_path(id, ""), change).await
    }

    /// Makes the agent summarize its conversation.
    pub async fn compact(
        &self,
        id: AgentSessionId,
        instructions: Option<String>,
    ) -> Result<SessionView, ApiError> {
        self.post(session_path(id, "/compact"), &Compact { instructions }).await
    }

    /// Makes the agent continue from before a turn.
    pub async fn fork(&self, id: AgentSessionId, before_turn_id: TurnId) -> Result<SessionView, ApiError> {
        self.post(session_path(id, "/fork"), &Fork { before_turn_id }).await
    }

    /// Makes the agent begin an empty conversation.
    pub async fn new_conversation(&self, id: AgentSessionId) -> Result<SessionView, ApiError> {
        self.post(session_path(id, "/new-conversation"), &EmptyBody {}).await
    }

    /// Makes the agent continue another conversation or branch of the session.
    pub async fn switch_conversation(
        &self,
        id: AgentSessionId,
        target: &ConversationTarget,
    ) -> Result<SessionView, ApiError> {
        self.post(session_path(id, "/switch-conversation"), target).await
    }

    /// Labels a turn of the current conversation, its latest one by default. Without a label, removes the label.
    pub async fn label_turn(
        &self,
        id: AgentSessionId,
        turn_id: Option<TurnId>,
        label: Option<String>,
    ) -> Result<SessionView, ApiError> {
        self.post(session_path(id, "/label"), &LabelTurn { turn_id, label }).await
    }

    /// Waits until no request needs a confirmation. Returns the session as it is then, or after `timeout`.
    pub async fn wait_until_settled(
        &self,
        id: AgentSessionId,
        timeout: Duration,
    ) -> Result<SessionView, ApiError> {
        self.wait_for_session(id, timeout, |session| {
            !session.status.is_intermediate() && !session.cancel_accepted
        })
        .await
    }

    /// Waits until `condition` holds. Returns the session as it is then, or after `timeout`; the caller checks which.
    pub async fn wait_for_session(
        &self,
        id: AgentSessionId,
        timeout: Duration,
        condition: impl Fn(&SessionView) -> bool,
    ) -> Result<SessionView, ApiError> {
        let deadline = Instant::now() + timeout;
        let (mut pause, longest) = POLL;
        loop {
            let session = self.session(id).await?;
            if condition(&session) || Instant::now() >= deadline {
                return Ok(session);
            }
            sleep(pause).await;
            pause = (pause * 2).min(longest);
        }
    }
}
