//! Questions and plans of the agent that need a decision (decision 26).

use pilothouse_api::sessions::SessionView;
use pilothouse_domain::{AgentSessionId, ToolCallId};

use super::inputs::{AnswerRequest, PlanDecision};
use super::sessions::session_path;
use super::{ApiError, Client};

impl Client {
    /// Answers the questions of a request.
    pub async fn answer(&self, id: AgentSessionId, answers: &AnswerRequest) -> Result<SessionView, ApiError> {
        self.post(session_path(id, "/answer"), answers).await
    }

    /// Approves the plan of a request.
    pub async fn approve_plan(
        &self,
        id: AgentSessionId,
        request: &ToolCallId,
    ) -> Result<SessionView, ApiError> {
        self.post(session_path(id, "/plan/approve"), &PlanDecision { request_id: request, feedback: None })
            .await
    }

    /// Rejects the plan of a request: the agent revises it according to `feedback`.
    pub async fn reject_plan(
        &self,
        id: AgentSessionId,
        request: &ToolCallId,
        feedback: &str,
    ) -> Result<SessionView, ApiError> {
        let decision = PlanDecision { request_id: request, feedback: Some(feedback) };
        self.post(session_path(id, "/plan/reject"), &decision).await
    }
}
