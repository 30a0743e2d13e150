//! Decisions of the agent: tool calls that need a permission, and options of which the owner chooses one.

use pilothouse_domain::ToolCallId;
use pilothouse_domain::value::{OptionAssessment, OptionProposal, ProposedOption, Question, chosen};
use pilothouse_shim::error::{CallError, Recovery};
use pilothouse_shim::event::{Decision, OptionDecision, ToolApproval};
use pilothouse_shim::message::Resolution;
use pilothouse_wire::RawEvent;
use pilothouse_wire::event::PermissionRequest;
use tokio::time::Instant;

use super::driver::Driver;
use super::open_decisions::{Open, PendingResolution};
use super::translator::call_id;
use super::turn::{MAX_ATTEMPTS, waits_for_provider};
use crate::adapter::{OwnerAnswers, Refusal, Reply};
use crate::kit::authorizer::Authorization;
use crate::kit::notices::notice;
use crate::kit::owner_requests::Awaits;
use crate::kit::permission::{self, ALLOW, DENY, GovernedCall, OwnerDecision};
use crate::kit::turns::DriverExit;
use crate::tool_names::is_exempt;

/// The answer that also allows later calls of the tool.
const ALWAYS: &str = "Always allow";

impl Driver {
    pub(super) async fn decision(&mut self, decision: Decision) -> Result<(), DriverExit> {
        let Some(id) = call_id(decision.id()) else { return Ok(()) };
        if self.decisions.waits(&id) {
            // A shim repeats its open decisions after a pause.
            return Ok(());
        }
        if self.turn.is_none() {
            let decision_id = decision.id().to_owned();
            return self.resolve(id, decision_id, Resolution::reject("No turn runs.")).await.map(drop);
        }
        match decision {
            Decision::ToolApproval(approval) => self.tool_approval(id, approval).await,
            Decision::Option(decision) => self.option_decision(id, decision).await,
        }
    }

    async fn tool_approval(&mut self, id: ToolCallId, approval: ToolApproval) -> Result<(), DriverExit> {
        let tool = &approval.tool_name;
        if is_exempt(tool) {
            return self.resolve(id, approval.decision_id, Resolution::approve()).await.map(drop);
        }
        if let Some(authorizer) = &self.authorizer {
            let authorizer = authorizer.clone();
            self.decisions.ask(authorizer, id, approval);
            return Ok(());
        }
        if self.config.allowed_tools.iter().any(|allowed| allowed.eq_ignore_ascii_case(tool)) {
            return self.resolve(id, approval.decision_id, Resolution::approve()).await.map(drop);
        }
        let options = vec![
            permission::option(ALLOW, "Once"),
            permission::option(ALWAYS, "This tool, for the rest of the session"),
            permission::option(
                DENY,
                "Any other answer denies the call, too, and is the reason that the agent gets",
            ),
        ];
        let asked = RawEvent::QuestionAsked {
            request_id: id.clone(),
            questions: vec![permission::question(tool, &approval.tool_args, "", options)],
            approval: Some(Box::new(PermissionRequest {
                tool_name: tool.clone(),
                input: approval.tool_args.clone(),
                input_blob: None,
                allow: ALLOW.to_owned(),
                deny: DENY.to_owned(),
                verdict_id: None,
                modifiable: true,
            })),
            proposal: None,
        };
        self.decisions.open.open(id, Awaits::Answers, Open::Permission(approval.decision_id));
        Ok(self.events.emit(asked).await?)
    }

    /// Not called during a pause.
    pub(super) async fn verdict_arrived(
        &mut self,
        id: ToolCallId,
        approval: ToolApproval,
        authorization: Authorization,
    ) -> Result<(), DriverExit> {
        let resolution = match authorization {
            Authorization::Allow => Resolution::approve(),
            Authorization::Deny(why) => Resolution::reject(why),
            Authorization::Ask(verdict) => {
                let ToolApproval { decision_id, tool_name, tool_args, .. } = approval;
                let call = GovernedCall {
                    id: id.clone(),
                    tool: tool_name,
                    input: tool_args,
                    verdict,
                    modifiable: true,
                };
                let question = call.question();
                self.decisions.open.open(id, Awaits::Answers, Open::Governed(decision_id, Box::new(call)));
                return Ok(self.events.emit(question).await?);
            }
        };
        self.resolve(id, approval.decision_id, resolution).await.map(drop)
    }

    async fn option_decision(&mut self, id: ToolCallId, decision: OptionDecision) -> Result<(), DriverExit> {
        let decision_id = decision.decision_id.clone();
        let (question, proposal) = question_of(decision);
        let question = match &proposal {
            Some(proposal) => proposal.as_question(question),
            None => Question { question, header: None, options: Vec::new(), multi_select: false },
        };
        let event = RawEvent::QuestionAsked {
            request_id: id.clone(),
            questions: vec![question],
            approval: None,
            proposal: proposal.clone().map(Box::new),
        };
        self.decisions.open.open(id, Awaits::Answers, Open::Options(decision_id, proposal));
        Ok(self.events.emit(event).await?)
    }

    pub(super) async fn answer(&mut self, owner: OwnerAnswers, reply: Reply) -> Result<(), DriverExit> {
        let id = owner.request.clone();
        let is_call = !matches!(self.decisions.open.get(&id), Some(Open::Options(..)));
        if owner.modified_input.is_some() && !is_call {
            return Ok(reply.refuse(Refusal::not_modifiable()).await?);
        }
        let Some(open) = self.decisions.open.settle(&id, Awaits::Answers) else {
            return Ok(reply.refuse(Refusal::not_awaited()).await?);
        };
        let (decision_id, resolution) = resolution_of(open, owner);
        if self.resolve(id, decision_id, resolution).await? {
            return Ok(reply.done().await?);
        }
        Ok(reply.refuse(Refusal::not_awaited()).await?)
    }

    /// Sends a resolution to the shim, or keeps it until the end of a pause. Returns false if the shim did not take it.
    async fn resolve(
        &mut self,
        id: ToolCallId,
        decision_id: String,
        resolution: Resolution,
    ) -> Result<bool, DriverExit> {
        let pending = PendingResolution::new(id, decision_id, resolution);
        if self.stops.any() {
            self.decisions.pending.push_back(pending);
            return Ok(true);
        }
        self.send_resolution(pending).await
    }

    /// Sends the pending resolutions that are due. Not called during a pause.
    pub(super) async fn send_pending_resolutions(&mut self) -> Result<(), DriverExit> {
        while let Some(pending) = self.decisions.take_due() {
            self.send_resolution(pending).await?;
        }
        Ok(())
    }

    async fn send_resolution(&mut self, pending: PendingResolution) -> Result<bool, DriverExit> {
        use pilothouse_shim::message::ResolutionType::{Approve, Modify};
        if matches!(pending.resolution.resolution_type, Approve | Modify) {
            self.translator.permit(pending.id.clone());
        }
        let Some(shim) = &self.shim else { return Ok(false) };
        match shim.client.resolve(&pending.decision_id, &pending.resolution).await {
            Ok(()) => Ok(true),
            Err(error) => self.not_resolved(pending, &error).await,
        }
    }

    /// Repeats a resolution if the shim says so, and otherwise fails the turn unless the shim definitely refused it
    /// (decision 85). Without that, the agent would wait for a decision that was made.
    async fn not_resolved(
        &mut self,
        mut pending: PendingResolution,
        error: &CallError,
    ) -> Result<bool, DriverExit> {
        let reason = self.events.redacted(&format!("{}: {error}", pending.decision_id));
        tracing::warn!(reason, "the shim did not take a resolution");
        pending.failures += 1;
        let has_turn = self.turn.is_some();
        match error.recovery() {
            Recovery::Stale => Ok(false),
            Recovery::Retry(after) if has_turn && pending.failures < MAX_ATTEMPTS => {
                pending.due = Instant::now() + after.unwrap_or_else(|| pending.backoff.failed());
                self.decisions.pending.push_back(pending);
                self.events.emit(waits_for_provider(after, error)).await?;
                Ok(true)
            }
            Recovery::Retry(_) if has_turn => {
                self.fail_turn("resolve_failed", error.to_string()).await.map(|()| false)
            }
            _ if has_turn && error.is_outcome_unknown() => self.lose_resolution(error).await.map(|()| false),
            _ => {
                let summary = format!("the shim did not take the decision on a request: {error}");
                self.events.emit(notice("decision_not_taken", summary)).await?;
                Ok(false)
            }
        }
    }

    /// Fails the turn, because it is unknown whether the agent has its decision.
    async fn lose_resolution(&mut self, error: &CallError) -> Result<(), DriverExit> {
        if self.has_ended().await {
            // The driver handles the exit, which fails the turn with the last words of the shim.
            return Ok(());
        }
        let message = format!("it is unknown whether the shim has the decision on a request: {error}");
        self.fail_turn("resolve_failed", message).await
    }
}

/// The question and the options. No options, if an answer could not distinguish them.
fn question_of(decision: OptionDecision) -> (String, Option<OptionProposal>) {
    let question = if decision.summary.trim().is_empty() {
        decision.title
    } else {
        format!("{}\n{}", decision.title, decision.summary)
    };
    let options = decision.options.into_iter().map(|option| ProposedOption {
        id: option.id,
        label: option.label,
        description: Some(option.description).filter(|text| !text.is_empty()),
        tradeoffs: option.tradeoffs,
    });
    let assessment = OptionAssessment {
        recommended_option_id: decision.recommended_option_id,
        confidence: decision.confidence,
        severity: decision.severity,
        blast_radius: decision.blast_radius,
        affected_artifact_ids: decision.affected_artifact_ids,
        requires_rationale: decision.requires_rationale,
        repaired: false,
    };
    (question, OptionProposal { options: options.collect(), assessment }.fitting())
}

fn resolution_of(open: Open, owner: OwnerAnswers) -> (String, Resolution) {
    let answer = permission::first(&owner.answers).to_owned();
    match open {
        Open::Governed(id, call) => {
            let resolution = match call.decide(owner) {
                OwnerDecision::Allow(None) => Resolution::approve(),
                OwnerDecision::Allow(Some(input)) => Resolution::modify(input),
                OwnerDecision::Deny(why) => Resolution::reject(why),
            };
            (id, resolution)
        }
        Open::Permission(id) => {
            let is_always = answer.eq_ignore_ascii_case(ALWAYS);
            let resolution = match owner.modified_input {
                Some(input) if is_always || answer.eq_ignore_ascii_case(ALLOW) => Resolution::modify(*input),
                None if is_always => Resolution::always_approve(),
                None if answer.eq_ignore_ascii_case(ALLOW) => Resolution::approve(),
                _ => Resolution::reject(permission::denial(&answer)),
            };
            (id, resolution)
        }
        Open::Options(id, proposal) => {
            let options = proposal.map(|proposal| proposal.options).unwrap_or_default();
            let choice = chosen(options.iter().map(|option| option.label.as_str()), &answer);
            let choice = choice.and_then(|(at, why)| Some((options.get(at)?, why.unwrap_or_default())));
            let resolution = match choice {
                Some((option, why)) => Resolution::choose(&option.id, why),
                // None of the options: the agent gets the answer as a reason.
                None => Resolution::reject(answer),
            };
            (id, resolution)
        }
    }
}

#[cfg(test)]
mod tests {
    use pilothouse_domain::value::Answer;
    use serde_json::json;

    use super::*;

    fn owner(answer: &str, input: Option<serde_json::Value>) -> OwnerAnswers {
        let answers = vec![Answer { question: "?".into(), answer: answer.into() }];
        OwnerAnswers { request: call_id("d").unwrap(), answers, modified_input: input.map(Box::new) }
    }

    #[test]
    fn answer_to_a_permission_becomes_a_resolution() {
        let of = |answer: &str, input| resolution_of(Open::Permission("d".into()), owner(answer, input)).1;
        assert_eq!(of("Allow", None), Resolution::approve());
        assert_eq!(of("always allow", None), Resolution::always_approve());
        assert_eq!(of("Allow", Some(json!({ "a": 1 }))), Resolution::modify(json!({ "a": 1 })));
        let denied = Resolution::reject("The owner of the session did not allow this: not now");
        assert_eq!(of("not now", None), denied);
    }

    #[test]
    fn answer_chooses_an_option_or_rejects_all() {
        let decision: OptionDecision =
            serde_json::from_value(json!({ "decisionId": "d", "title": "t", "summary": "s",
            "options": [{ "id": "a", "label": "Red", "description": "" }], "affectedArtifactIds": [],
            "requiresRationale": false }))
            .unwrap();
        let (question, proposal) = question_of(decision);
        assert_eq!(question, "t\ns");
        let of =
            |answer: &str| resolution_of(Open::Options("d".into(), proposal.clone()), owner(answer, None)).1;
        assert_eq!(of("Red: it fits"), Resolution::choose("a", "it fits"));
        assert_eq!(of("neither"), Resolution::reject("neither"));
    }
}
