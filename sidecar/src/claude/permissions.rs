//! `can_use_tool`: requests that need the owner. Permissions become questions; the agent's own questions and plans
//! wait for their answers (decision 26).

use pilothouse_domain::ToolCallId;
use pilothouse_wire::RawEvent;
use serde_json::{Map, Value};

use super::request::{Pending, deny};
use crate::adapter::{OwnerAnswers, PlanDecision};
use crate::kit::authorizer::Authorization;
use crate::kit::json::text;
use crate::kit::owner_requests::{Awaits, OwnerReply, OwnerRequests};
use crate::tool_names::{ASK_USER_QUESTION, EXIT_PLAN_MODE, OWN_TOOLS};

/// Rules that decide without the owner.
#[derive(Debug)]
pub(super) struct Policy<'a> {
    pub allowed: &'a [String],
    /// Whether a plan needs the owner's approval.
    pub plan_approval: bool,
    /// The permission mode after an approved plan.
    pub mode_after_plan: &'static str,
    /// The control plane's verdict, if the call needs one. It precedes `allowed`.
    pub authorization: Option<Authorization>,
}

#[derive(Debug, PartialEq)]
pub(super) enum Verdict {
    Respond(Value),
    /// Ask the owner with this event.
    Ask(RawEvent),
    /// Wait: the published tool call already shows the request to the owner.
    Wait,
}

/// The owner's decision on a call that a verdict left to them.
#[derive(Debug)]
pub(super) struct Decided {
    pub call: ToolCallId,
    pub request: String,
    pub response: Value,
}

#[derive(Debug, Default)]
pub(super) struct Permissions(OwnerRequests<Pending>);

/// Result of an owner's answer or decision.
#[derive(Debug)]
pub(super) enum Settled {
    /// A request: its id and the response.
    Respond(String, Value),
    /// A call that a verdict left to the owner. The response is withheld during a pause.
    Decided(Decided),
    /// A request that will arrive soon and then be answered immediately.
    Early,
    /// No request waits for it.
    NotAwaited,
    /// It changes the input of a call that can only be made as it is.
    NotModifiable,
}

impl Permissions {
    pub(super) fn ask(&mut self, request: &str, asked: &Value, policy: &Policy<'_>) -> Verdict {
        let tool = text(asked, "tool_name").unwrap_or_default().to_owned();
        let input = asked.get("input").cloned().unwrap_or_else(|| Value::Object(Map::new()));
        let Some(Ok(call)) = text(asked, "tool_use_id").map(ToolCallId::parse) else {
            return Verdict::Respond(deny("The request did not name its tool call.", None));
        };
        let suggestions =
            asked.get("permission_suggestions").and_then(Value::as_array).cloned().unwrap_or_default();
        let mode_after_plan = policy.mode_after_plan;
        let pending = Pending {
            request: request.to_owned(),
            call,
            tool,
            input,
            suggestions,
            mode_after_plan,
            verdict: None,
        };
        if let Some(authorization) = &policy.authorization {
            return self.authorized(pending, asked, authorization);
        }
        match self.0.take_early(&pending.call) {
            Some(OwnerReply::Answers(owner)) => {
                return Verdict::Respond(pending.answered(owner));
            }
            Some(OwnerReply::Decision(decision)) => return Verdict::Respond(pending.decided(&decision)),
            None => {}
        }
        let verdict = match pending.tool.as_str() {
            ASK_USER_QUESTION => Verdict::Wait,
            EXIT_PLAN_MODE if policy.plan_approval => Verdict::Wait,
            EXIT_PLAN_MODE => return Verdict::Respond(pending.leave_plan()),
            tool if tool.starts_with(OWN_TOOLS) || policy.allowed.iter().any(|allowed| allowed == tool) => {
                return Verdict::Respond(pending.allow(None));
            }
            _ => Verdict::Ask(pending.question(asked)),
        };
        let is_plan = pending.tool == EXIT_PLAN_MODE;
        let awaits = if is_plan { Awaits::Decision } else { Awaits::Answers };
        self.0.open(pending.call.clone(), awaits, pending);
        verdict
    }

    fn authorized(&mut self, pending: Pending, asked: &Value, authorization: &Authorization) -> Verdict {
        match authorization {
            Authorization::Allow => Verdict::Respond(pending.allow(None)),
            Authorization::Deny(why) => Verdict::Respond(deny(why, Some(&pending.call))),
            Authorization::Ask(verdict) => {
                let pending = Pending { verdict: Some(verdict.clone()), ..pending };
                let question = pending.question(asked);
                self.0.open(pending.call.clone(), Awaits::Answers, pending);
                Verdict::Ask(question)
            }
        }
    }

    /// `open`: the call has no result yet, so its request is about to arrive.
    pub(super) fn answer(&mut self, owner: OwnerAnswers, open: bool) -> Settled {
        if owner.modified_input.is_some() && !self.0.get(&owner.request).is_some_and(Pending::is_governed) {
            return Settled::NotModifiable;
        }
        match self.0.settle(&owner.request, Awaits::Answers) {
            Some(pending) if pending.is_governed() => {
                let (call, request) = (pending.call.clone(), pending.request.clone());
                Settled::Decided(Decided { call, request, response: pending.answered(owner) })
            }
            Some(pending) => Settled::Respond(pending.request.clone(), pending.answered(owner)),
            None if open => {
                self.0.keep_early(owner.request.clone(), OwnerReply::Answers(owner));
                Settled::Early
            }
            None => Settled::NotAwaited,
        }
    }

    /// `open` as in [`Self::answer`].
    pub(super) fn decide(&mut self, decision: PlanDecision, open: bool) -> Settled {
        match self.0.settle(&decision.request, Awaits::Decision) {
            Some(pending) => Settled::Respond(pending.request.clone(), pending.decided(&decision)),
            None if open => {
                self.0.keep_early(decision.request.clone(), OwnerReply::Decision(decision));
                Settled::Early
            }
            None => Settled::NotAwaited,
        }
    }

    pub(super) fn waits(&self, call: &str) -> bool {
        self.0.waits(call)
    }

    /// Discards a request that Claude Code has cancelled.
    pub(super) fn cancelled(&mut self, request: &str) {
        self.0.retain(|pending| pending.request != request);
    }

    /// Discards all requests, because the turn or the process has ended.
    pub(super) fn forget(&mut self) {
        self.0.clear();
    }
}

#[cfg(test)]
mod tests {
    use pilothouse_domain::VerdictId;
    use pilothouse_domain::value::Answer;
    use serde_json::json;

    use super::super::request::ALLOW_FOR_SESSION;
    use super::*;
    use crate::kit::authorizer::AskVerdict;
    use crate::kit::permission::{ALLOW, DENY};

    fn policy(allowed: &[String]) -> Policy<'_> {
        Policy { allowed, plan_approval: true, mode_after_plan: "acceptEdits", authorization: None }
    }

    fn request(tool: &str, input: &Value) -> Value {
        json!({ "subtype": "can_use_tool", "tool_name": tool, "input": input, "tool_use_id": "toolu_1",
            "permission_suggestions": [{ "type": "addRules", "rules": [{ "toolName": tool, "ruleContent": "rm *" }],
                "behavior": "allow", "destination": "localSettings" }] })
    }

    fn call() -> ToolCallId {
        ToolCallId::parse("toolu_1").unwrap()
    }

    fn given(settled: Settled) -> (String, Value) {
        let Settled::Respond(request, response) = settled else { panic!("{settled:?}") };
        (request, response)
    }

    fn owner(question: &str, answer: &str) -> OwnerAnswers {
        let answers = vec![Answer { question: question.into(), answer: answer.into() }];
        OwnerAnswers { request: call(), answers, modified_input: None }
    }

    fn said(answer: &str) -> OwnerAnswers {
        owner("?", answer)
    }

    fn asked_and_answered(answer: &str) -> Value {
        let mut permissions = Permissions::default();
        let asked = permissions.ask("r1", &request("Bash", &json!({ "command": "rm -rf x" })), &policy(&[]));
        let Verdict::Ask(RawEvent::QuestionAsked { request_id, questions, approval, proposal: None }) = asked
        else {
            panic!("{asked:?}")
        };
        assert_eq!(request_id, call());
        let approval = approval.unwrap();
        assert_eq!((approval.tool_name.as_str(), approval.allow.as_str()), ("Bash", ALLOW));
        assert_eq!(approval.input, json!({ "command": "rm -rf x" }));
        assert_eq!(questions[0].question, "May the agent use Bash: rm -rf x?");
        let labels: Vec<_> = questions[0].options.iter().map(|o| o.label.as_str()).collect();
        assert_eq!(labels, [ALLOW, ALLOW_FOR_SESSION, DENY]);
        let (id, response) = given(permissions.answer(said(answer), false));
        assert_eq!(id, "r1");
        assert!(matches!(permissions.answer(said(ALLOW), false), Settled::NotAwaited), "it is over");
        response
    }

    #[test]
    fn owner_grants_permission_once_for_the_session_or_denies_it() {
        let once = asked_and_answered("allow");
        assert_eq!((&once["behavior"], &once["updatedPermissions"]), (&json!("allow"), &Value::Null));
        let session = asked_and_answered(ALLOW_FOR_SESSION);
        assert_eq!(session["updatedPermissions"][0]["destination"], "session", "nothing is written to files");
        assert_eq!(asked_and_answered(DENY)["behavior"], "deny");
        let reason = asked_and_answered("use trash instead");
        assert_eq!(reason["message"], "The owner of the session did not allow this: use trash instead");
    }

    #[test]
    fn configured_permissions_are_not_asked() {
        let mut permissions = Permissions::default();
        let allowed = ["Write".to_owned()];
        for tool in ["Write", "mcp__pilothouse__deliverable"] {
            let verdict = permissions.ask("r", &request(tool, &json!({})), &policy(&allowed));
            let Verdict::Respond(response) = verdict else { panic!("{verdict:?}") };
            assert_eq!(response["behavior"], "allow");
        }
    }

    #[test]
    fn agent_question_gets_an_answer_for_each_question() {
        let mut permissions = Permissions::default();
        let input = json!({ "questions": [{ "question": "Which colour?" }] });
        assert_eq!(permissions.ask("r", &request(ASK_USER_QUESTION, &input), &policy(&[])), Verdict::Wait);
        let (_, response) = given(permissions.answer(owner("Which colour?", "Blue"), false));
        // As recorded from Claude Code's own SDK.
        assert_eq!(response["updatedInput"]["answers"], json!({ "Which colour?": "Blue" }));
        assert_eq!(response["updatedInput"]["questions"], input["questions"]);
    }

    #[test]
    fn answer_may_precede_the_request() {
        let mut permissions = Permissions::default();
        assert!(matches!(permissions.answer(said("x"), true), Settled::Early));
        let verdict =
            permissions.ask("r", &request(ASK_USER_QUESTION, &json!({ "questions": [] })), &policy(&[]));
        assert!(matches!(verdict, Verdict::Respond(response) if response["behavior"] == "allow"));
    }

    #[test]
    fn plan_waits_for_its_decision_when_one_is_required() {
        let decide = |approved, feedback: Option<&str>| {
            let mut permissions = Permissions::default();
            assert_eq!(
                permissions.ask("r", &request(EXIT_PLAN_MODE, &json!({ "plan": "p" })), &policy(&[])),
                Verdict::Wait
            );
            let decision = PlanDecision { request: call(), approved, feedback: feedback.map(Into::into) };
            given(permissions.decide(decision, false)).1
        };
        let approved = decide(true, None);
        assert_eq!(approved["behavior"], "allow");
        assert_eq!(approved["updatedPermissions"][0]["mode"], "acceptEdits");
        let rejected = decide(false, Some("smaller steps"));
        assert_eq!(rejected["behavior"], "deny");
        assert!(rejected["message"].as_str().unwrap().ends_with("They say: smaller steps"));
        let at_once = Policy { plan_approval: false, ..policy(&[]) };
        let verdict = Permissions::default().ask("r", &request(EXIT_PLAN_MODE, &json!({})), &at_once);
        assert!(matches!(verdict, Verdict::Respond(response) if response["behavior"] == "allow"));
    }

    #[test]
    fn verdict_precedes_the_list_of_allowed_tools() {
        let allowed = ["Bash".to_owned()];
        let ask = |permissions: &mut Permissions, authorization| {
            let governed = Policy { authorization: Some(authorization), ..policy(&allowed) };
            permissions.ask("r", &request("Bash", &json!({ "command": "make" })), &governed)
        };
        let mut permissions = Permissions::default();
        let denied = ask(&mut permissions, Authorization::Deny("Not now.".into()));
        assert!(matches!(denied, Verdict::Respond(response) if response["message"] == "Not now."));
        let granted = ask(&mut permissions, Authorization::Allow);
        assert!(matches!(granted, Verdict::Respond(response) if response["behavior"] == "allow"));
        let verdict = AskVerdict::test(VerdictId::new(uuid::Uuid::nil()));
        assert!(matches!(ask(&mut permissions, Authorization::Ask(verdict.clone())), Verdict::Ask(_)));
        let modified_input = Some(Box::new(json!({ "command": "make check" })));
        let settled = permissions.answer(OwnerAnswers { modified_input, ..said(ALLOW) }, false);
        let Settled::Decided(Decided { response, .. }) = settled else { panic!("{settled:?}") };
        assert_eq!(response["updatedInput"], json!({ "command": "make check" }));
        ask(&mut permissions, Authorization::Ask(verdict));
        let settled = permissions.answer(said(ALLOW_FOR_SESSION), false);
        let Settled::Decided(Decided { response, .. }) = settled else { panic!("{settled:?}") };
        assert_eq!(response["behavior"], "deny", "the control plane keeps standing approvals");
    }

    #[test]
    fn only_a_governed_call_takes_another_input() {
        let mut permissions = Permissions::default();
        permissions.ask("r", &request("Bash", &json!({})), &policy(&[]));
        let changed = OwnerAnswers { modified_input: Some(Box::default()), ..said(ALLOW) };
        assert!(matches!(permissions.answer(changed, true), Settled::NotModifiable));
        assert!(matches!(permissions.answer(said(ALLOW), false), Settled::Respond(..)), "it is still open");
    }
}
