//! What is done to a session. Requests of the two-phase lifecycle answer with the intermediate status; the
//! confirmation comes later (S3), and [`Client::settled`] waits for it.

use std::time::Duration;

use pilothouse_domain::{AgentSessionId, OutputId, TurnId, Usd};
use pilothouse_functions::api::sessions::{OutputDecision, SessionView, StartedSession};
use tokio::time::{Instant, sleep};

use super::inputs::{Adjust, Cancel, Compact, Fork, Interrupt, NewBudget, Nothing, Retry};
use super::sessions::of;
use super::{ApiError, Client};

/// How often a status is asked for at first, and at most.
const POLL: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(1));

impl Client {
    /// Ends the turn. Messages that wait are held, or cancelled with `clear_queue`.
    pub async fn interrupt(&self, id: AgentSessionId, clear_queue: bool) -> Result<SessionView, ApiError> {
        self.post(of(id, "/interrupt"), &Interrupt { clear_queue }).await
    }

    /// Suspends a running session.
    pub async fn pause(&self, id: AgentSessionId) -> Result<SessionView, ApiError> {
        self.post(of(id, "/pause"), &Nothing {}).await
    }

    /// Lets a paused session go on.
    pub async fn resume(&self, id: AgentSessionId) -> Result<SessionView, ApiError> {
        self.post(of(id, "/resume"), &Nothing {}).await
    }

    /// Ends a session; `force` stops its process at once (ruling 16).
    pub async fn cancel(&self, id: AgentSessionId, force: bool) -> Result<SessionView, ApiError> {
        self.post(of(id, "/cancel"), &Cancel { force }).await
    }

    /// Approves the output that was looked at.
    pub async fn approve(&self, id: AgentSessionId, output_id: OutputId) -> Result<SessionView, ApiError> {
        self.post(of(id, "/approve"), &OutputDecision { output_id, reason: None }).await
    }

    /// Rejects the output that was looked at: the session fails and may be retried.
    pub async fn reject(
        &self,
        id: AgentSessionId,
        output_id: OutputId,
        reason: Option<String>,
    ) -> Result<SessionView, ApiError> {
        self.post(of(id, "/reject"), &OutputDecision { output_id, reason }).await
    }

    /// Completes an idle session.
    pub async fn close(&self, id: AgentSessionId, if_version: Option<u64>) -> Result<SessionView, ApiError> {
        self.post_if(of(id, "/close"), &Nothing {}, if_version).await
    }

    /// Tries a failed session again (ruling 24). It is Queued and has a new key.
    pub async fn retry(&self, id: AgentSessionId, retry: &Retry) -> Result<StartedSession, ApiError> {
        self.post(of(id, "/retry"), retry).await
    }

    /// Changes the cap, and the warning threshold when one is given.
    pub async fn set_budget(
        &self,
        id: AgentSessionId,
        cap_usd: Usd,
        warn_at_percent: Option<u8>,
    ) -> Result<SessionView, ApiError> {
        self.patch(of(id, "/budget"), &NewBudget { cap_usd, warn_at_percent }).await
    }

    /// Changes how its agent works. What it has yet to do stands in the session's `adjustments`.
    pub async fn adjust(&self, id: AgentSessionId, how: &Adjust) -> Result<SessionView, ApiError> {
        self.patch(of(id, ""), how).await
    }

    /// Has its agent summarise its conversation.
    pub async fn compact(
        &self,
        id: AgentSessionId,
        instructions: Option<String>,
    ) -> Result<SessionView, ApiError> {
        self.post(of(id, "/compact"), &Compact { instructions }).await
    }

    /// Has its agent go back to before a turn.
    pub async fn fork(&self, id: AgentSessionId, before_turn_id: TurnId) -> Result<SessionView, ApiError> {
        self.post(of(id, "/fork"), &Fork { before_turn_id }).await
    }

    /// The session once no request waits for its confirmation, or as it stands after `patience`.
    pub async fn settled(&self, id: AgentSessionId, patience: Duration) -> Result<SessionView, ApiError> {
        self.session_when(id, patience, |session| {
            !session.status.is_intermediate() && !session.cancel_accepted
        })
        .await
    }

    /// The session once `condition` holds, or as it stands after `patience`; the caller checks which.
    pub async fn session_when(
        &self,
        id: AgentSessionId,
        patience: Duration,
        condition: impl Fn(&SessionView) -> bool,
    ) -> Result<SessionView, ApiError> {
        let deadline = Instant::now() + patience;
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
