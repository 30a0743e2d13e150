//! Questions and plans of the agent (ruling 26).

use pilothouse_domain::{AgentSessionId, ToolCallId};
use pilothouse_functions::api::sessions::SessionView;

use super::inputs::{Answers, PlanDecision};
use super::sessions::of;
use super::{ApiError, Client};

impl Client {
    /// Answers the questions of a request.
    pub async fn answer(&self, id: AgentSessionId, answers: &Answers) -> Result<SessionView, ApiError> {
        self.post(of(id, "/answer"), answers).await
    }

    /// Approves the plan that a request shows.
    pub async fn approve_plan(
        &self,
        id: AgentSessionId,
        request: &ToolCallId,
    ) -> Result<SessionView, ApiError> {
        self.post(of(id, "/plan/approve"), &PlanDecision { request_id: request, feedback: None }).await
    }

    /// Rejects it: the agent revises it by `feedback`.
    pub async fn reject_plan(
        &self,
        id: AgentSessionId,
        request: &ToolCallId,
        feedback: &str,
    ) -> Result<SessionView, ApiError> {
        let decision = PlanDecision { request_id: request, feedback: Some(feedback) };
        self.post(of(id, "/plan/reject"), &decision).await
    }
}
