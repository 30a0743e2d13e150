//! Output of the agent and its review by the owner: approve, reject, close (S0 8.4; decisions 18, 24).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{AgentSession, AgentSessionStatus, Failure, Operation, SessionError, State};
use crate::decision::{CancelReason, Resolution};
use crate::output::{CommitSha, SessionOutput};
use crate::output_schema::OutputViolation;
use crate::text::Feedback;
use crate::value::{FailureReason, SessionOutcome};
use crate::{DomainContext, Events, OutputId, SessionEvent, Timestamp};

/// The output of the agent and its review.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Review {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    latest: Option<LatestOutput>,
    /// Output that takes effect at the end of the turn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) staged: Option<SessionOutput>,
    /// How often the current output was returned to the agent, because its result violates the schema of the brief or is blocked.
    #[serde(default, skip_serializing_if = "is_zero")]
    corrections: u8,
    /// The objections that the agent has to learn of in a message.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    correction_due: Vec<OutputViolation>,
    /// How the last turn ended (S4).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) last_outcome: Option<SessionOutcome>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct LatestOutput {
    recorded: RecordedOutput,
    is_pending: bool,
}

/// An output of the agent under its id (decision 18).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RecordedOutput {
    /// Id that an approval or rejection has to name.
    pub output_id: OutputId,
    /// When it was recorded.
    pub recorded_at: Timestamp,
    #[serde(flatten)]
    pub output: SessionOutput,
}

#[allow(clippy::trivially_copy_pass_by_ref)] // the signature that serde needs
const fn is_zero(count: &u8) -> bool {
    *count == 0
}

impl Review {
    pub(super) const fn output(&self) -> Option<&RecordedOutput> {
        match &self.latest {
            Some(latest) => Some(&latest.recorded),
            None => None,
        }
    }

    pub(super) const fn is_pending(&self) -> bool {
        matches!(self.latest, Some(LatestOutput { is_pending: true, .. }))
    }

    /// Records an output, which waits for the owner's decision.
    fn record(&mut self, recorded: RecordedOutput) {
        self.latest = Some(LatestOutput { recorded, is_pending: true });
        self.corrections = 0;
    }

    /// Ends the review: the owner decided, or the output may only be viewed.
    pub(super) const fn end(&mut self) {
        if let Some(latest) = &mut self.latest {
            latest.is_pending = false;
        }
    }

    pub(super) fn forget_outputs(&mut self) {
        self.latest = None;
        self.staged = None;
        self.corrections = 0;
    }

    /// The commit of the output that waits for a decision, if `named` is that output.
    fn commit_of(&self, named: OutputId) -> Result<Option<CommitSha>, SessionError> {
        match &self.latest {
            Some(LatestOutput { recorded, is_pending: true }) if recorded.output_id == named => {
                Ok(recorded.output.commit_sha.clone())
            }
            Some(LatestOutput { is_pending: true, .. }) => Err(SessionError::OutputChanged),
            _ => Err(SessionError::NothingToReview),
        }
    }
}

impl AgentSession {
    /// How often an output whose result violates the schema or is blocked by a guardrail is returned to the agent. After that it is
    /// reviewed with its violations and guardrails (decisions 79, 83).
    pub const MAX_CORRECTIONS: u8 = 2;

    /// Returns an output to the agent. `None` if there is no objection to it, or if it was returned too often.
    fn return_output(&mut self, output: &SessionOutput) -> Option<Events> {
        let violations = output.objections();
        if violations.is_empty() || self.review.corrections >= Self::MAX_CORRECTIONS {
            return None;
        }
        self.review.corrections += 1;
        let corrections_left = Self::MAX_CORRECTIONS - self.review.corrections;
        let mut events = output.guardrail_events();
        events.push(SessionEvent::OutputReturned { violations, corrections_left });
        Some(events)
    }

    /// Like [`Self::return_output`], at the end of a turn: a message tells the agent of the objections.
    pub(super) fn return_output_by_message(&mut self, output: &SessionOutput) -> Option<Events> {
        let returned = self.return_output(output)?;
        self.review.correction_due = output.objections();
        Some(returned)
    }

    pub(crate) fn take_due_correction(&mut self) -> Option<Vec<OutputViolation>> {
        let due = std::mem::take(&mut self.review.correction_due);
        (!due.is_empty()).then_some(due)
    }

    pub(crate) fn record_output(&mut self, output: SessionOutput, ctx: &mut DomainContext<'_>) -> Events {
        let output_id = ctx.output_id();
        let mut events = output.guardrail_events();
        events.push(SessionEvent::OutputReady {
            output_id,
            files_changed: output.files_changed,
            tests_added: output.tests_added,
            all_tests_passing: output.all_tests_passing,
        });
        self.store_output(output_id, output, ctx.now);
        self.record_review_opened();
        events
    }

    /// Keeps an output for viewing, but not for approval.
    pub(super) fn keep_output(&mut self, output: SessionOutput, ctx: &mut DomainContext<'_>) -> Events {
        let events = output.guardrail_events();
        self.store_output(ctx.output_id(), output, ctx.now);
        self.review.end();
        events
    }

    fn store_output(&mut self, output_id: OutputId, output: SessionOutput, now: Timestamp) {
        self.record_review_cancelled(CancelReason::Superseded, now);
        self.review.record(RecordedOutput { output_id, recorded_at: now, output });
    }

    /// Takes output from the agent API. It takes effect at the end of the turn, or at once if no turn is open (decision 18). An output
    /// whose result violates the schema or is blocked has no effect but [`SessionEvent::OutputReturned`], until it was returned too often.
    pub fn submit_output(
        &mut self,
        output: SessionOutput,
        ctx: &mut DomainContext<'_>,
    ) -> Result<Events, SessionError> {
        let status = self.status();
        if status.is_terminal() || status == AgentSessionStatus::Queued {
            return Err(SessionError::InvalidTransition { operation: Operation::RecordOutput, status });
        }
        if let Some(returned) = self.return_output(&output) {
            return Ok(returned);
        }
        if status == AgentSessionStatus::Idle {
            return self.complete_turn(Some(output), SessionOutcome::Completed, ctx);
        }
        self.review.staged = Some(output);
        Ok(Vec::new())
    }

    /// Idle with output → Completed (S0 8.4 `ApproveOutput`). `output` is the one that the owner reviewed (decision 18).
    pub fn approve_output(
        &mut self,
        output: OutputId,
        ctx: &DomainContext<'_>,
    ) -> Result<Events, SessionError> {
        let commit_sha = self.reviewed(Operation::ApproveOutput, output)?;
        self.transition(Operation::ApproveOutput, State::Completed)?;
        self.record_reviewed(Resolution::APPROVE, ctx.now);
        self.review.end();
        self.end(ctx);
        Ok(vec![SessionEvent::Approved { output_id: output, commit_sha }])
    }

    /// Idle with output → Failed, `VerificationFailed` (S0 8.4 `RejectOutput`; decision 24).
    pub fn reject_output(
        &mut self,
        output: OutputId,
        reason: Option<Feedback>,
        ctx: &DomainContext<'_>,
    ) -> Result<Events, SessionError> {
        self.reviewed(Operation::RejectOutput, output)?;
        let failure = Failure {
            reason: FailureReason::VerificationFailed,
            message: reason.as_ref().map(|r| r.as_str().to_owned()),
        };
        self.transition(Operation::RejectOutput, State::Failed { failure: failure.clone() })?;
        self.record_reviewed(Resolution::Reject { rationale: failure.message.clone() }, ctx.now);
        self.review.end();
        self.end(ctx);
        Ok(vec![
            SessionEvent::Rejected { output_id: output, reason },
            SessionEvent::Failed { failure_reason: failure.reason, message: failure.message },
        ])
    }

    fn reviewed(&self, operation: Operation, named: OutputId) -> Result<Option<CommitSha>, SessionError> {
        self.check(operation)?;
        self.ensure_no_turn_starting()?;
        self.review.commit_of(named)
    }

    /// Idle without output → Completed (S0 8.4 `Close`).
    pub fn close(&mut self, ctx: &DomainContext<'_>) -> Result<Events, SessionError> {
        self.check(Operation::Close)?;
        self.ensure_no_turn_starting()?;
        if self.review.is_pending() {
            return Err(SessionError::ReviewPending);
        }
        self.transition(Operation::Close, State::Completed)?;
        self.end(ctx);
        Ok(vec![SessionEvent::Closed {}])
    }
}
