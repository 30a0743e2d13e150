//! One request to the owner: the question, and the response to Claude Code.

use pilothouse_domain::ToolCallId;
use pilothouse_wire::RawEvent;
use pilothouse_wire::event::PermissionRequest;
use serde_json::{Map, Value, json};

use crate::adapter::{OwnerAnswers, PlanDecision};
use crate::kit::authorizer::AskVerdict;
use crate::kit::json::text;
use crate::kit::permission::{self, ALLOW, DENY, GovernedCall, OwnerDecision, option};
use crate::tool_names::ASK_USER_QUESTION;

pub(super) const ALLOW_FOR_SESSION: &str = "Allow for this session";

#[derive(Debug)]
pub(super) struct Pending {
    pub request: String,
    pub call: ToolCallId,
    pub tool: String,
    pub input: Value,
    pub suggestions: Vec<Value>,
    pub mode_after_plan: &'static str,
    /// The verdict that leaves the call to the owner, in a project.
    pub verdict: Option<AskVerdict>,
}

impl Pending {
    /// The question to the owner: the tool and its input.
    pub(super) fn question(&self, asked: &Value) -> RawEvent {
        if let Some(governed) = self.governed() {
            return governed.question();
        }
        let tool = text(asked, "display_name").unwrap_or(&self.tool);
        let why = text(asked, "decision_reason").map_or_else(String::new, |why| format!(" ({why})"));
        let options = vec![
            option(ALLOW, "Once"),
            option(ALLOW_FOR_SESSION, "And whatever is like it, until the agent's process ends"),
            option(DENY, "The agent is told; anything else that is answered is told as the reason"),
        ];
        let questions = vec![permission::question(tool, &self.input, &why, options)];
        let approval = PermissionRequest {
            tool_name: self.tool.clone(),
            input: self.input.clone(),
            input_blob: None,
            allow: ALLOW.to_owned(),
            deny: DENY.to_owned(),
            verdict_id: None,
            modifiable: false,
        };
        RawEvent::QuestionAsked {
            request_id: self.call.clone(),
            questions,
            approval: Some(Box::new(approval)),
            proposal: None,
        }
    }

    pub(super) const fn is_governed(&self) -> bool {
        self.verdict.is_some()
    }

    fn governed(&self) -> Option<GovernedCall> {
        let verdict = self.verdict.clone()?;
        let (id, tool, input) = (self.call.clone(), self.tool.clone(), self.input.clone());
        Some(GovernedCall { id, tool, input, verdict, modifiable: true })
    }

    pub(super) fn answered(&self, owner: OwnerAnswers) -> Value {
        if let Some(governed) = self.governed() {
            return match governed.decide(owner) {
                OwnerDecision::Allow(None) => self.allow(None),
                OwnerDecision::Allow(Some(input)) => self.allow_with(&input, None),
                OwnerDecision::Deny(why) => deny(&why, Some(&self.call)),
            };
        }
        let answers = &owner.answers;
        if self.tool == ASK_USER_QUESTION {
            let mut input = self.input.clone();
            let by_question: Map<String, Value> =
                answers.iter().map(|a| (a.question.clone(), a.answer.clone().into())).collect();
            if let Value::Object(fields) = &mut input {
                fields.insert("answers".into(), by_question.into());
            }
            return json!({ "behavior": "allow", "updatedInput": input, "toolUseID": self.call });
        }
        match permission::first(answers) {
            s if s.eq_ignore_ascii_case(ALLOW) => self.allow(None),
            s if s.eq_ignore_ascii_case(ALLOW_FOR_SESSION) => self.allow(Some(self.for_session())),
            other => deny(&permission::denial(other), Some(&self.call)),
        }
    }

    pub(super) fn decided(&self, decision: &PlanDecision) -> Value {
        if decision.approved {
            return self.leave_plan();
        }
        let feedback = decision.feedback.as_deref().map(str::trim).filter(|feedback| !feedback.is_empty());
        let said = feedback.map_or_else(
            || "The owner of the session did not approve the plan. Revise it and show it again.".to_owned(),
            |feedback| {
                format!(
                    "The owner of the session did not approve the plan. Revise it and show it again. They say: {feedback}"
                )
            },
        );
        deny(&said, Some(&self.call))
    }

    /// Permits the plan, with the session's permission mode for carrying it out.
    pub(super) fn leave_plan(&self) -> Value {
        let mode = json!([{ "type": "setMode", "mode": self.mode_after_plan, "destination": "session" }]);
        self.allow(Some(mode))
    }

    pub(super) fn allow(&self, permissions: Option<Value>) -> Value {
        self.allow_with(&self.input, permissions)
    }

    fn allow_with(&self, input: &Value, permissions: Option<Value>) -> Value {
        let mut response = json!({ "behavior": "allow", "updatedInput": input, "toolUseID": self.call });
        if let (Some(permissions), Value::Object(fields)) = (permissions, &mut response) {
            fields.insert("updatedPermissions".into(), permissions);
        }
        response
    }

    /// The permissions that Claude Code suggests, changed to apply to its memory instead of a file. By default, a
    /// permission for the tool itself.
    fn for_session(&self) -> Value {
        if self.suggestions.is_empty() {
            return json!([{ "type": "addRules", "rules": [{ "toolName": self.tool }], "behavior": "allow",
                "destination": "session" }]);
        }
        let mut suggestions = self.suggestions.clone();
        for suggestion in suggestions.iter_mut().filter_map(Value::as_object_mut) {
            suggestion.insert("destination".into(), "session".into());
        }
        suggestions.into()
    }
}

pub(super) fn deny(message: &str, call: Option<&ToolCallId>) -> Value {
    let mut response = json!({ "behavior": "deny", "message": message });
    if let (Some(call), Value::Object(fields)) = (call, &mut response) {
        fields.insert("toolUseID".into(), json!(call));
    }
    response
}
