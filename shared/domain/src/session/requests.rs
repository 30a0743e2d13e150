//! Requests of the agent: open questions and plans by id, and the owner's decisions that the sidecar has not received (decision 26).

use std::collections::BTreeMap;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::LifecycleCommand;
use crate::decision::{ApprovalTerms, Decision, DecisionSubject, DecisionTimeout, Resolution};
use crate::escalation::ToolApproval;
use crate::text::{Feedback, PlanContent};
use crate::value::{Answer, OptionProposal, PlanStatus, Question, SessionPlan};
use crate::{CommandId, CommandRef, Events, RunId, SessionEvent, Timestamp, ToolCallId};

/// Most bytes of a call's input that a message repeats.
const MAX_SHOWN_INPUT: usize = 1000;

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Requests {
    /// Oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pending: Vec<PendingRequest>,
    /// The run that made each open request.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    made_by: BTreeMap<ToolCallId, RunId>,
    /// Answers and decisions that the sidecar has not received yet.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    unheard_answers: Vec<UnacknowledgedAnswer>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    plan: Option<SessionPlan>,
}

/// A request of the agent that waits for the owner.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PendingRequest {
    /// Id of the request: the tool call that made it.
    pub id: ToolCallId,
    /// Kind of the request, with its content.
    #[serde(flatten)]
    pub kind: RequestKind,
    /// When the request was made.
    pub asked_at: Timestamp,
    /// When the request times out. Absent in a project if it does not, or if its ticks are advanced manually.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
    /// The timeout in ticks of a project. Then `expiresAt` is the estimated time of the due tick.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Box<DecisionTimeout>>,
}

/// Kind of a request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case", rename_all_fields = "camelCase")]
pub enum RequestKind {
    /// Questions that need an answer.
    Question {
        questions: Vec<Question>,
        /// The tool call that the question asks permission for.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        approval: Option<ToolApproval>,
        /// The options that the agent proposes with the question.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        proposal: Option<Box<OptionProposal>>,
    },
    /// A plan that needs a decision.
    Plan {
        /// Revision of the plan.
        version: u32,
    },
}

/// The owner's answer to a request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum RequestAnswer {
    Answered(Vec<Answer>),
    /// A tool call is allowed. `answers` has the answer to the question that asked for the permission.
    Allowed {
        answers: Vec<Answer>,
        terms: ApprovalTerms,
    },
    Approved,
    /// The plan has to be revised.
    Rejected(Feedback),
}

impl RequestAnswer {
    /// The answer that `InputReceived` records.
    pub fn received(answers: &[Answer], modified_input: Option<&Value>) -> Self {
        let answers = answers.to_vec();
        match modified_input {
            None => Self::Answered(answers),
            Some(input) => {
                let terms = ApprovalTerms { modified_input: Some(input.clone()), ..ApprovalTerms::default() };
                Self::Allowed { answers, terms }
            }
        }
    }

    /// The answer as a message to an agent that no longer waits for it (decision 26). `decision` is the decision that it resolves.
    pub(crate) fn as_message(&self, decision: Option<&Decision>) -> String {
        if let Some(text) = decision.and_then(call_message) {
            return text;
        }
        match self {
            Self::Answered(answers) | Self::Allowed { answers, .. } => {
                let lines: Vec<_> = answers.iter().map(|a| format!("{}: {}", a.question, a.answer)).collect();
                let modified = match self {
                    Self::Allowed { terms: ApprovalTerms { modified_input: Some(input), .. }, .. } => {
                        format!("\nMake the call with this input: {input}")
                    }
                    _ => String::new(),
                };
                format!("Answers to your questions.\n{}{modified}", lines.join("\n"))
            }
            Self::Approved => "Your plan is approved; go on.".to_owned(),
            Self::Rejected(feedback) => format!("Your plan is rejected; revise it. {feedback}"),
        }
    }
}

/// The message about a judged tool call that no longer waits: the agent has to repeat an approved call (decision 77).
fn call_message(decision: &Decision) -> Option<String> {
    let DecisionSubject::ToolApproval { approval, .. } = &decision.subject else { return None };
    let tool = &approval.verdict.as_ref()?.tool;
    let input = Some(&approval.input).filter(|input| input.len() <= MAX_SHOWN_INPUT);
    let shown = input.map(|input| format!(" {input}")).unwrap_or_default();
    Some(match &decision.state.ruling()?.resolution {
        Resolution::Approve { .. } => format!(
            "Your call of the tool {tool}{shown} is approved, but it was not waiting any more. Make the call again with exactly \
             the same input."
        ),
        Resolution::Modify { modified_input, .. } => format!(
            "Your call of the tool {tool}{shown} is approved with another input, but it was not waiting any more. Make the call \
             with exactly this input: {modified_input}"
        ),
        Resolution::Reject { rationale } => {
            let why = rationale.as_ref().map(|why| format!(": {why}")).unwrap_or_default();
            format!("Your call of the tool {tool}{shown} is denied{why}. Do not make it again.")
        }
        Resolution::Answer { .. } | Resolution::ChooseOption { .. } | Resolution::Dismiss => return None,
    })
}

/// An answer that was sent to the sidecar and not received yet (decision 12).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct UnacknowledgedAnswer {
    pub(crate) request_id: ToolCallId,
    #[serde(rename = "decision")]
    pub(crate) answer: RequestAnswer,
    /// The decision of the inbox that it resolves. Absent if it was stored without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) resolves: Option<Box<Decision>>,
    pub(crate) command_id: CommandId,
    pub(crate) attempt: u8,
    pub(crate) sent_at: Timestamp,
}

impl Requests {
    /// Most requests that can be open at once. Further ones are denied.
    pub(super) const MAX_PENDING: usize = 20;

    pub(super) fn pending(&self) -> &[PendingRequest] {
        &self.pending
    }

    /// Opens a request. Repeating one, or one beyond the limit, changes nothing. Returns whether it was opened.
    pub(super) fn open(&mut self, request: PendingRequest, run: Option<RunId>) -> bool {
        let opens =
            !self.pending.iter().any(|r| r.id == request.id) && self.pending.len() < Self::MAX_PENDING;
        if opens {
            self.made_by.extend(run.map(|run| (request.id.clone(), run)));
            self.pending.push(request);
        }
        opens
    }

    /// Whether a new request has no place. A repetition of an open one has.
    pub(super) fn is_full_for(&self, id: &ToolCallId) -> bool {
        self.pending.len() >= Self::MAX_PENDING && self.get(id).is_none()
    }

    /// The run that made an open request.
    pub(super) fn run_of(&self, id: &ToolCallId) -> Option<RunId> {
        self.made_by.get(id).copied()
    }

    pub(super) fn get(&self, id: &ToolCallId) -> Option<&PendingRequest> {
        self.pending.iter().find(|r| r.id == *id)
    }

    /// Returns whether the request was open.
    pub(super) fn close(&mut self, id: &ToolCallId) -> bool {
        let before = self.pending.len();
        self.pending.retain(|r| r.id != *id);
        self.made_by.remove(id);
        self.pending.len() != before
    }

    /// Closes a request that ends without a decision. Returns whether it was open.
    pub(super) fn withdraw(&mut self, id: &ToolCallId) -> bool {
        let was_open = self.close(id);
        self.withdraw_plan();
        was_open
    }

    /// Closes all requests, at the end of a turn or session or at an interrupt.
    pub(super) fn close_all(&mut self) -> Events {
        self.made_by.clear();
        let open = std::mem::take(&mut self.pending);
        self.withdraw_plan();
        open.into_iter().map(|request| SessionEvent::RequestClosed { request_id: request.id }).collect()
    }

    pub(super) fn forget(&mut self) {
        self.pending.clear();
        self.made_by.clear();
        self.withdraw_plan();
    }

    /// The oldest request that has timed out.
    pub(super) fn expired(&self, now: Timestamp) -> Option<&PendingRequest> {
        self.pending.iter().find(|r| r.expires_at.is_some_and(|at| at <= now))
    }

    pub(super) fn get_mut(&mut self, id: &ToolCallId) -> Option<&mut PendingRequest> {
        self.pending.iter_mut().find(|r| r.id == *id)
    }

    /// Starts the timeouts in ticks again. Deadlines are set when the ticks are read.
    pub(super) fn restart_timeouts(&mut self, now: Timestamp) {
        for request in &mut self.pending {
            if let Some(timeout) = request.timeout.as_mut().filter(|it| it.policy.timeout_ticks.is_some()) {
                timeout.due_tick = None;
                request.expires_at = Some(now);
            }
        }
    }

    /// Extends the requests that were made before `until`, because `by` did not count.
    pub(super) fn extend(&mut self, until: Timestamp, by: Duration) {
        self.pending.iter_mut().filter(|request| request.asked_at < until).for_each(|request| {
            request.expires_at = request.expires_at.map(|at| at + by);
        });
    }
}

impl Requests {
    pub(super) const fn has_unacknowledged_answers(&self) -> bool {
        !self.unheard_answers.is_empty()
    }

    pub(super) fn record_answer(&mut self, answer: UnacknowledgedAnswer) {
        self.unheard_answers.push(answer);
    }

    pub(super) fn unacknowledged_answer(&self, command: CommandId) -> Option<(&ToolCallId, &RequestAnswer)> {
        let answer = self.unheard_answers.iter().find(|answer| answer.command_id == command)?;
        Some((&answer.request_id, &answer.answer))
    }

    pub(super) fn oldest_unacknowledged_at(&self) -> Option<Timestamp> {
        self.unheard_answers.iter().map(|answer| answer.sent_at).min()
    }

    /// Takes an answer that the sidecar received or refused.
    pub(super) fn take_answer(&mut self, command: CommandId) -> Option<UnacknowledgedAnswer> {
        let at = self.unheard_answers.iter().position(|answer| answer.command_id == command)?;
        Some(self.unheard_answers.remove(at))
    }

    /// Takes the answers to a tool call that returned.
    pub(super) fn take_answers_to(&mut self, call: &ToolCallId) -> Vec<UnacknowledgedAnswer> {
        self.unheard_answers.extract_if(.., |answer| answer.request_id == *call).collect()
    }

    /// Takes all answers that the sidecar has not received.
    pub(super) fn take_answers(&mut self) -> Vec<UnacknowledgedAnswer> {
        std::mem::take(&mut self.unheard_answers)
    }

    /// Sends the oldest unheard answer once more; `None` if it was sent twice before.
    pub(super) fn resend_answer(&mut self, run_id: RunId, now: Timestamp) -> Option<SessionEvent> {
        let oldest = self.unheard_answers.iter_mut().min_by_key(|answer| answer.sent_at)?;
        if oldest.attempt >= 2 {
            return None;
        }
        oldest.attempt += 1;
        oldest.sent_at = now;
        let command = CommandRef { command_id: oldest.command_id, run_id, attempt: oldest.attempt };
        Some(SessionEvent::CommandReissued { kind: LifecycleCommand::Answer, command })
    }
}

impl Requests {
    pub(super) const fn plan(&self) -> Option<&SessionPlan> {
        self.plan.as_ref()
    }

    /// Revision of the plan being written: a new one if the latest was submitted (S0 8.5).
    pub(super) fn next_plan_version(&self) -> u32 {
        self.plan.as_ref().map_or(1, |plan| plan.version + u32::from(plan.status != PlanStatus::Draft))
    }

    /// Begins a draft. Its content is that of the plan before, until the agent submits it.
    pub(super) fn draft_plan(&mut self, requires_approval: bool, now: Timestamp) {
        let version = self.next_plan_version();
        self.plan = Some(SessionPlan {
            content: self.plan.take().and_then(|plan| plan.content),
            status: PlanStatus::Draft,
            requires_approval,
            created_at: now,
            approved_at: None,
            version,
        });
    }

    /// Records a submitted plan. If no approval is required, it is approved at once.
    pub(super) fn submit_plan(
        &mut self,
        content: Option<PlanContent>,
        version: u32,
        requires_approval: bool,
        now: Timestamp,
    ) {
        let created_at = self.plan.as_ref().map_or(now, |plan| plan.created_at);
        self.plan = Some(SessionPlan {
            content: content.or_else(|| self.plan.take().and_then(|plan| plan.content)),
            status: if requires_approval { PlanStatus::PendingApproval } else { PlanStatus::Approved },
            requires_approval,
            created_at,
            approved_at: (!requires_approval).then_some(now),
            version,
        });
    }

    pub(super) const fn approve_plan(&mut self, now: Timestamp) {
        if let Some(plan) = &mut self.plan {
            plan.status = PlanStatus::Approved;
            plan.approved_at = Some(now);
        }
    }

    /// The request of a plan ended without a decision: nobody can approve the plan any more, and the agent drafts the next one.
    fn withdraw_plan(&mut self) {
        let is_open = self.pending.iter().any(|request| matches!(request.kind, RequestKind::Plan { .. }));
        if let Some(plan) = self.plan.as_mut().filter(|plan| plan.status == PlanStatus::PendingApproval)
            && !is_open
        {
            plan.status = PlanStatus::Draft;
            plan.version += 1;
        }
    }

    pub(super) const fn reject_plan(&mut self) {
        if let Some(plan) = &mut self.plan {
            plan.status = PlanStatus::Rejected;
        }
    }
}
