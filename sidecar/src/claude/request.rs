//! One request to the owner: the question, and the response to Claude Code.

use pilothouse_domain::ToolCallId;
use pilothouse_domain::text::cut;
use pilothouse_domain::value::{Answer, QuestionOption};
use pilothouse_wire::RawEvent;
use pilothouse_wire::event::PermissionRequest;
use serde_json::{Map, Value, json};

use crate::adapter::PlanDecision;
use crate::kit::json::text;
use crate::kit::owner_requests::permission_question;
use crate::kit::tool_names::ASK_USER_QUESTION;

pub(super) const ALLOW: &str = "Allow";
pub(super) const ALLOW_FOR_SESSION: &str = "Allow for this session";
pub(super) const DENY: &str = "Deny";
/// In characters.
const MAX_QUESTION: usize = 1500;

#[derive(Debug)]
pub(super) struct Pending {
    pub request: String,
    pub call: ToolCallId,
    pub tool: String,
    pub input: Value,
    pub suggestions: Vec<Value>,
    pub mode_after_plan: &'static str,
}

impl Pending {
    /// The question to the owner: the tool and its input.
    pub(super) fn question(&self, asked: &Value) -> RawEvent {
        let what = ["command", "file_path", "url", "path", "pattern", "notebook_path"]
            .iter()
            .find_map(|name| text(&self.input, name))
            .map_or_else(|| self.input.to_string(), str::to_owned);
        let tool = text(asked, "display_name").unwrap_or(&self.tool);
        let why = text(asked, "decision_reason").map_or_else(String::new, |why| format!(" ({why})"));
        let question = cut(&format!("May the agent use {tool}: {what}?{why}"), MAX_QUESTION);
        let option = |label: &str, description: &str| QuestionOption {
            label: label.to_owned(),
            description: Some(description.to_owned()),
        };
        let options = vec![
            option(ALLOW, "Once"),
            option(ALLOW_FOR_SESSION, "And whatever is like it, until the agent's process ends"),
            option(DENY, "The agent is told; anything else that is answered is told as the reason"),
        ];
        let questions = vec![permission_question(question, options)];
        let approval = PermissionRequest {
            tool_name: self.tool.clone(),
            input: self.input.clone(),
            allow: ALLOW.to_owned(),
            deny: DENY.to_owned(),
        };
        RawEvent::QuestionAsked {
            request_id: self.call.clone(),
            questions,
            approval: Some(Box::new(approval)),
        }
    }

    pub(super) fn answered(&self, answers: &[Answer]) -> Value {
        if self.tool == ASK_USER_QUESTION {
            let mut input = self.input.clone();
            let by_question: Map<String, Value> =
                answers.iter().map(|a| (a.question.clone(), a.answer.clone().into())).collect();
            if let Value::Object(fields) = &mut input {
                fields.insert("answers".into(), by_question.into());
            }
            return json!({ "behavior": "allow", "updatedInput": input, "toolUseID": self.call });
        }
        let said = answers.first().map_or("", |answer| answer.answer.trim());
        match said {
            s if s.eq_ignore_ascii_case(ALLOW) => self.allow(None),
            s if s.eq_ignore_ascii_case(ALLOW_FOR_SESSION) => self.allow(Some(self.for_session())),
            s if s.is_empty() || s.eq_ignore_ascii_case(DENY) => {
                deny("The owner of the session did not allow this.", Some(&self.call))
            }
            reason => {
                deny(&format!("The owner of the session did not allow this: {reason}"), Some(&self.call))
            }
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
        let mut response = json!({ "behavior": "allow", "updatedInput": self.input, "toolUseID": self.call });
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
