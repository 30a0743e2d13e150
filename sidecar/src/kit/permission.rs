//! Permission of the owner for a tool call: the question, and what its answer means. In a project, a verdict of the
//! control plane requires it (decision 75). The only options are then to allow and to deny, because the control plane
//! keeps standing approvals.

use pilothouse_domain::ToolCallId;
use pilothouse_domain::text::cut;
use pilothouse_domain::value::{Answer, Question, QuestionOption};
use pilothouse_wire::RawEvent;
use pilothouse_wire::event::PermissionRequest;
use serde_json::Value;

use super::authorizer::AskVerdict;
use super::json::text;
use crate::adapter::OwnerAnswers;

pub(crate) const ALLOW: &str = "Allow";
pub(crate) const DENY: &str = "Deny";
/// In characters.
const MAX_QUESTION: usize = 1500;

/// A call that the owner decides on because of a verdict.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct GovernedCall {
    pub id: ToolCallId,
    pub tool: String,
    pub input: Value,
    pub verdict: AskVerdict,
    /// Whether the call can be made with another input.
    pub modifiable: bool,
}

/// The owner's decision on a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum OwnerDecision {
    /// With this input, if the owner changed it.
    Allow(Option<Value>),
    /// With a sentence for the agent.
    Deny(String),
}

impl GovernedCall {
    pub(crate) fn question(&self) -> RawEvent {
        let options = vec![
            option(ALLOW, "Once"),
            option(DENY, "Any other answer denies the call, too, and is the reason that the agent gets"),
        ];
        let approval = PermissionRequest {
            tool_name: self.tool.clone(),
            input: self.input.clone(),
            input_blob: None,
            allow: ALLOW.to_owned(),
            deny: DENY.to_owned(),
            verdict_id: Some(self.verdict.id()),
            modifiable: self.modifiable,
        };
        RawEvent::QuestionAsked {
            request_id: self.id.clone(),
            questions: vec![question(&self.tool, &self.input, "", options)],
            approval: Some(Box::new(approval)),
            proposal: None,
        }
    }

    pub(crate) fn decide(&self, owner: OwnerAnswers) -> OwnerDecision {
        let answer = first(&owner.answers);
        if answer.eq_ignore_ascii_case(ALLOW) {
            self.verdict.allowed();
            OwnerDecision::Allow(owner.modified_input.map(|input| *input))
        } else {
            // The control plane puts the owner's reason after the answer that denies.
            let reason = answer.strip_prefix(DENY).and_then(|rest| rest.strip_prefix(':'));
            OwnerDecision::Deny(denial(reason.map_or(answer, str::trim)))
        }
    }
}

/// The question whether a call may run, with its most telling argument and `reason`.
pub(crate) fn question(tool: &str, input: &Value, reason: &str, options: Vec<QuestionOption>) -> Question {
    let what = ["command", "file_path", "url", "path", "pattern", "notebook_path"]
        .iter()
        .find_map(|name| text(input, name))
        .map_or_else(|| input.to_string(), str::to_owned);
    let question = cut(&format!("May the agent use {tool}: {what}?{reason}"), MAX_QUESTION);
    super::owner_requests::permission_question(question, options)
}

pub(crate) fn option(label: &str, description: &str) -> QuestionOption {
    QuestionOption { label: label.to_owned(), description: Some(description.to_owned()) }
}

/// The answer to a permission, which is a single question.
pub(crate) fn first(answers: &[Answer]) -> &str {
    answers.first().map_or("", |answer| answer.answer.trim())
}

/// The sentence for the agent whose owner denied a call with this answer.
pub(crate) fn denial(answer: &str) -> String {
    if answer.is_empty() || answer.eq_ignore_ascii_case(DENY) {
        return "The owner of the session did not allow this.".to_owned();
    }
    // The inbox writes the reason after the word for no.
    let reason = answer.strip_prefix(DENY).and_then(|rest| rest.strip_prefix(": ")).unwrap_or(answer);
    format!("The owner of the session did not allow this: {reason}")
}

#[cfg(test)]
mod tests {
    use pilothouse_domain::VerdictId;
    use serde_json::json;
    use uuid::Uuid;

    use super::*;

    fn call() -> GovernedCall {
        GovernedCall {
            id: ToolCallId::parse("c1").unwrap(),
            tool: "Bash".into(),
            input: json!({ "command": "make" }),
            verdict: AskVerdict::test(VerdictId::new(Uuid::from_u128(7))),
            modifiable: true,
        }
    }

    fn decided(answer: &str, modified_input: Option<Value>) -> OwnerDecision {
        let answers = vec![Answer { question: "?".into(), answer: answer.into() }];
        let modified_input = modified_input.map(Box::new);
        call().decide(OwnerAnswers { request: call().id, answers, modified_input })
    }

    #[test]
    fn owner_can_only_allow_once_or_deny() {
        let RawEvent::QuestionAsked { request_id, questions, approval, proposal: None } = call().question()
        else {
            panic!("it is a question")
        };
        let approval = approval.unwrap();
        assert_eq!((request_id, approval.verdict_id), (call().id, Some(call().verdict.id())));
        assert_eq!((approval.input, approval.modifiable), (json!({ "command": "make" }), true));
        assert_eq!(questions[0].question, "May the agent use Bash: make?");
        let labels: Vec<_> = questions[0].options.iter().map(|option| option.label.as_str()).collect();
        assert_eq!(labels, [approval.allow, approval.deny]);
    }

    #[test]
    fn only_the_allowing_answer_lets_the_call_run() {
        assert_eq!(decided(" allow", None), OwnerDecision::Allow(None));
        let other = json!({ "command": "make check" });
        assert_eq!(decided(ALLOW, Some(other.clone())), OwnerDecision::Allow(Some(other.clone())));
        let no = OwnerDecision::Deny("The owner of the session did not allow this.".into());
        assert_eq!(decided(DENY, Some(other)), no);
        assert_eq!(decided("", None), no);
        let reason = OwnerDecision::Deny("The owner of the session did not allow this: use ninja".into());
        assert_eq!(decided("use ninja", None), reason);
        assert_eq!(decided("Deny: use ninja", None), reason);
    }
}
