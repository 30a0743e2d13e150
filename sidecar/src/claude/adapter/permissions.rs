//! `can_use_tool`: what the agent needs its owner for. Permissions become questions; its own questions and plans wait for
//! their answers (ruling 26).

use std::collections::HashMap;

use pilothouse_domain::ToolCallId;
use pilothouse_domain::value::Answer;
use pilothouse_wire::RawEvent;
use serde_json::{Map, Value};

use super::super::json::text;
use super::request::{ASK, Pending, SHOW_PLAN, deny};
use crate::adapter::PlanDecision;

/// The server of the sidecar's own tools; they need no permission.
const OWN_TOOLS: &str = "mcp__pilothouse__";
/// What decides without the owner.
#[derive(Debug)]
pub(super) struct Policy<'a> {
    /// Tools that are allowed, by name.
    pub allowed: &'a [String],
    /// Whether a plan waits for the owner.
    pub plan_approval: bool,
    /// The permission mode after a plan.
    pub mode_after_plan: &'static str,
}

/// What a request comes to.
#[derive(Debug, PartialEq)]
pub(super) enum Verdict {
    /// This is the answer.
    Answer(Value),
    /// The owner is asked by this event.
    Ask(RawEvent),
    /// The owner knows already: the tool call itself was told.
    Wait,
}

/// An answer that came before the binary asked for it.
#[derive(Debug)]
enum Early {
    Answers(Vec<Answer>),
    Plan(PlanDecision),
}

/// The requests under way.
#[derive(Debug, Default)]
pub(super) struct Permissions {
    pending: Vec<Pending>,
    early: HashMap<ToolCallId, Early>,
}

/// What an answer of the owner comes to.
#[derive(Debug)]
pub(super) enum Settled {
    /// The answer to a request of the binary: its id, and what it says.
    Answer(String, Value),
    /// The request is about to come; it will be answered at once.
    Early,
    /// Nothing waits for it.
    NotAwaited,
}

impl Permissions {
    /// The binary asks whether a tool may run.
    pub(super) fn ask(&mut self, request: &str, asked: &Value, policy: &Policy<'_>) -> Verdict {
        let tool = text(asked, "tool_name").unwrap_or_default().to_owned();
        let input = asked.get("input").cloned().unwrap_or_else(|| Value::Object(Map::new()));
        let Some(Ok(call)) = text(asked, "tool_use_id").map(ToolCallId::parse) else {
            return Verdict::Answer(deny("The request did not name its tool call.", None));
        };
        let suggestions =
            asked.get("permission_suggestions").and_then(Value::as_array).cloned().unwrap_or_default();
        let mode_after_plan = policy.mode_after_plan;
        let pending =
            Pending { request: request.to_owned(), call, tool, input, suggestions, mode_after_plan };
        match self.early.remove(&pending.call) {
            Some(Early::Answers(answers)) => return Verdict::Answer(pending.answered(&answers)),
            Some(Early::Plan(decision)) => return Verdict::Answer(pending.decided(&decision)),
            None => {}
        }
        let verdict = match pending.tool.as_str() {
            ASK => Verdict::Wait,
            SHOW_PLAN if policy.plan_approval => Verdict::Wait,
            SHOW_PLAN => return Verdict::Answer(pending.leave_plan()),
            tool if tool.starts_with(OWN_TOOLS) || policy.allowed.iter().any(|allowed| allowed == tool) => {
                return Verdict::Answer(pending.allow(None));
            }
            _ => Verdict::Ask(pending.question(asked)),
        };
        self.pending.push(pending);
        verdict
    }

    /// The owner's answers. `open`: the call is one that the agent made and that has no result yet, so that its request is
    /// about to come.
    pub(super) fn answer(&mut self, call: ToolCallId, answers: Vec<Answer>, open: bool) -> Settled {
        match self.take(&call, |tool| tool != SHOW_PLAN) {
            Some(pending) => Settled::Answer(pending.request.clone(), pending.answered(&answers)),
            None if open => {
                self.early.insert(call, Early::Answers(answers));
                Settled::Early
            }
            None => Settled::NotAwaited,
        }
    }

    /// The owner's decision on a plan.
    pub(super) fn decide(&mut self, decision: PlanDecision, open: bool) -> Settled {
        match self.take(&decision.request, |tool| tool == SHOW_PLAN) {
            Some(pending) => Settled::Answer(pending.request.clone(), pending.decided(&decision)),
            None if open => {
                self.early.insert(decision.request.clone(), Early::Plan(decision));
                Settled::Early
            }
            None => Settled::NotAwaited,
        }
    }

    /// The binary no longer wants an answer.
    pub(super) fn cancelled(&mut self, request: &str) {
        self.pending.retain(|pending| pending.request != request);
    }

    /// Nothing waits any more: the turn or the process is over.
    pub(super) fn forget(&mut self) {
        self.pending.clear();
        self.early.clear();
    }

    fn take(&mut self, call: &ToolCallId, fits: impl Fn(&str) -> bool) -> Option<Pending> {
        let at = self.pending.iter().position(|pending| pending.call == *call && fits(&pending.tool))?;
        Some(self.pending.remove(at))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::request::{ALLOW, ALLOW_FOR_SESSION, DENY};
    use super::*;

    fn policy(allowed: &[String]) -> Policy<'_> {
        Policy { allowed, plan_approval: true, mode_after_plan: "acceptEdits" }
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
        let Settled::Answer(request, answer) = settled else { panic!("{settled:?}") };
        (request, answer)
    }

    fn said(answer: &str) -> Vec<Answer> {
        vec![Answer { question: "?".into(), answer: answer.into() }]
    }

    fn asked_and_answered(answer: &str) -> Value {
        let mut permissions = Permissions::default();
        let asked = permissions.ask("r1", &request("Bash", &json!({ "command": "rm -rf x" })), &policy(&[]));
        let Verdict::Ask(RawEvent::QuestionAsked { request_id, questions }) = asked else {
            panic!("{asked:?}")
        };
        assert_eq!(request_id, call());
        assert_eq!(questions[0].question, "May the agent use Bash: rm -rf x?");
        let labels: Vec<_> = questions[0].options.iter().map(|o| o.label.as_str()).collect();
        assert_eq!(labels, [ALLOW, ALLOW_FOR_SESSION, DENY]);
        let (id, answer) = given(permissions.answer(call(), said(answer), false));
        assert_eq!(id, "r1");
        assert!(matches!(permissions.answer(call(), said(ALLOW), false), Settled::NotAwaited), "it is over");
        answer
    }

    #[test]
    fn a_permission_is_asked_of_the_owner_and_given_once_for_the_session_or_not() {
        let once = asked_and_answered("allow");
        assert_eq!((&once["behavior"], &once["updatedPermissions"]), (&json!("allow"), &Value::Null));
        let session = asked_and_answered(ALLOW_FOR_SESSION);
        assert_eq!(session["updatedPermissions"][0]["destination"], "session", "nothing is written to files");
        assert_eq!(asked_and_answered(DENY)["behavior"], "deny");
        let reason = asked_and_answered("use trash instead");
        assert_eq!(reason["message"], "The owner of the session did not allow this: use trash instead");
    }

    #[test]
    fn what_the_configuration_allows_is_not_asked() {
        let mut permissions = Permissions::default();
        let allowed = ["Write".to_owned()];
        for tool in ["Write", "mcp__pilothouse__deliverable"] {
            let verdict = permissions.ask("r", &request(tool, &json!({})), &policy(&allowed));
            let Verdict::Answer(answer) = verdict else { panic!("{verdict:?}") };
            assert_eq!(answer["behavior"], "allow");
        }
    }

    #[test]
    fn the_agents_own_question_gets_its_answers_by_question() {
        let mut permissions = Permissions::default();
        let input = json!({ "questions": [{ "question": "Which colour?" }] });
        assert_eq!(permissions.ask("r", &request(ASK, &input), &policy(&[])), Verdict::Wait);
        let answers = vec![Answer { question: "Which colour?".into(), answer: "Blue".into() }];
        let (_, answer) = given(permissions.answer(call(), answers, false));
        // As recorded of the binary's own SDK.
        assert_eq!(answer["updatedInput"]["answers"], json!({ "Which colour?": "Blue" }));
        assert_eq!(answer["updatedInput"]["questions"], input["questions"]);
    }

    #[test]
    fn an_answer_may_come_before_the_request() {
        let mut permissions = Permissions::default();
        assert!(matches!(permissions.answer(call(), said("x"), true), Settled::Early));
        let verdict = permissions.ask("r", &request(ASK, &json!({ "questions": [] })), &policy(&[]));
        assert!(matches!(verdict, Verdict::Answer(answer) if answer["behavior"] == "allow"));
    }

    #[test]
    fn a_plan_waits_for_its_decision_where_one_is_required() {
        let decide = |approved, feedback: Option<&str>| {
            let mut permissions = Permissions::default();
            assert_eq!(
                permissions.ask("r", &request(SHOW_PLAN, &json!({ "plan": "p" })), &policy(&[])),
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
        let verdict = Permissions::default().ask("r", &request(SHOW_PLAN, &json!({})), &at_once);
        assert!(matches!(verdict, Verdict::Answer(answer) if answer["behavior"] == "allow"));
    }
}
