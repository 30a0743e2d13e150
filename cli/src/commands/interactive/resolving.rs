//! Makes a resolution of a key, and asks for the words that it needs.

use std::io;

use pilothouse_api::decisions::DecisionView;
use pilothouse_client::inputs::ResolveDecision;
use pilothouse_domain::decision::{DecisionSubject, ResolutionType};
use serde_json::Value;

use super::keys::Answer;
use crate::commands::answer::{match_up, questions};

/// Where words come from.
pub(super) trait Input {
    /// A line that the person types; `None` if they change their mind.
    async fn line(&mut self, prompt: &str) -> io::Result<Option<String>>;
    /// The text after the person edited it.
    async fn edited(&mut self, text: &str) -> io::Result<String>;
}

#[derive(Debug)]
pub(super) enum NoResolution {
    /// For the person.
    Because(String),
    Terminal(io::Error),
}

impl From<io::Error> for NoResolution {
    fn from(error: io::Error) -> Self {
        Self::Terminal(error)
    }
}

fn because<T>(why: impl Into<String>) -> Result<T, NoResolution> {
    Err(NoResolution::Because(why.into()))
}

/// The reason of a resolution, if the agent or the project requires one.
async fn required_reason(
    decision: &DecisionView,
    input: &mut impl Input,
) -> Result<Option<String>, NoResolution> {
    let is_required = match &decision.subject {
        DecisionSubject::Option { assessment, .. } => {
            assessment.as_ref().is_some_and(|assessment| assessment.requires_rationale)
        }
        subject => subject.verdict().is_some_and(|verdict| verdict.requires_rationale),
    };
    if !is_required {
        return Ok(None);
    }
    match input.line("Why? (Esc goes back) ").await? {
        Some(why) if !why.trim().is_empty() => Ok(Some(why.trim().to_owned())),
        _ => because("Nothing was decided."),
    }
}

/// The resolution of `decision` by a key.
pub(super) async fn resolution(
    decision: &DecisionView,
    answer: Answer,
    input: &mut impl Input,
) -> Result<ResolveDecision, NoResolution> {
    let wanted = match answer {
        Answer::Approve { .. } => ResolutionType::Approve,
        Answer::Reject => ResolutionType::Reject,
        Answer::Modify => ResolutionType::Modify,
        Answer::Choose(_) => ResolutionType::ChooseOption,
        Answer::Text => ResolutionType::Answer,
        Answer::Dismiss => ResolutionType::Dismiss,
    };
    if !decision.resolutions.contains(&wanted) {
        return because("This decision does not take that answer; ? lists the keys.");
    }
    let resolution = ResolveDecision::new(wanted);
    Ok(match answer {
        Answer::Approve { always: true } if !can_always(decision) => {
            return because("Only a tool call of a project's agent can always be approved.");
        }
        Answer::Approve { always } => {
            let rationale = required_reason(decision, input).await?;
            ResolveDecision { always_approve: always, rationale, ..resolution }
        }
        Answer::Reject => {
            let Some(why) = input.line("Why not? (Enter rejects, Esc goes back) ").await? else {
                return because("Nothing was decided.");
            };
            let why = why.trim();
            ResolveDecision { rationale: (!why.is_empty()).then(|| why.to_owned()), ..resolution }
        }
        Answer::Modify => {
            let modified_input = Some(modified(decision, input).await?);
            let rationale = required_reason(decision, input).await?;
            ResolveDecision { modified_input, rationale, ..resolution }
        }
        Answer::Choose(at) => {
            let Some(options) = decision.subject.options() else { return because("There is no option.") };
            let Some(chosen) = options.get(at) else { return because("There is no such option.") };
            let chosen_option_id = Some(chosen.id.clone());
            ResolveDecision {
                chosen_option_id,
                rationale: required_reason(decision, input).await?,
                ..resolution
            }
        }
        Answer::Dismiss => resolution,
        Answer::Text => {
            let questions = questions(&decision.subject);
            let mut words = Vec::new();
            for question in &questions {
                let prompt = format!("{} (Esc goes back) ", question.question);
                match input.line(&prompt).await? {
                    Some(line) if !line.trim().is_empty() => words.push(line.trim().to_owned()),
                    _ => return because("Nothing was decided."),
                }
            }
            match match_up(&questions, &words) {
                Ok(answers) => ResolveDecision { answers: Some(answers), ..resolution },
                Err(error) => return because(error.to_string()),
            }
        }
    })
}

/// Whether the decision can hold for all further calls like it.
pub(super) fn can_always(decision: &DecisionView) -> bool {
    decision.project.is_some() && decision.subject.verdict().is_some()
}

async fn modified(decision: &DecisionView, input: &mut impl Input) -> Result<Value, NoResolution> {
    let DecisionSubject::ToolApproval { approval, .. } = &decision.subject else {
        return because("Only the input of a tool call can be changed.");
    };
    let Ok(before) = serde_json::from_str::<Value>(&approval.input) else {
        return because("The input is too long to be changed here; use `pilothouse resolve ID modify`.");
    };
    let text = serde_json::to_string_pretty(&before).map_err(io::Error::from)?;
    match serde_json::from_str::<Value>(&input.edited(&text).await?) {
        Ok(after) if after == before => because("The input was not changed, and nothing was decided."),
        Ok(after) => Ok(after),
        Err(error) => because(format!("Nothing was decided: the text is not JSON: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use pilothouse_domain::decision::{DecisionSubject, ResolutionType};
    use serde_json::json;

    use super::{Answer, Input, NoResolution, resolution};
    use crate::output::fixtures::decision;

    fn effect() -> serde_json::Value {
        json!({ "actionKind": "execute", "severity": "medium", "blastRadius": "small", "confidence": 0.9 })
    }

    struct Typed(Option<&'static str>);

    impl Input for Typed {
        async fn line(&mut self, _: &str) -> std::io::Result<Option<String>> {
            Ok(self.0.map(str::to_owned))
        }
        async fn edited(&mut self, _: &str) -> std::io::Result<String> {
            Ok(self.0.unwrap_or_default().to_owned())
        }
    }

    fn call() -> pilothouse_api::decisions::DecisionView {
        decision(&json!({
            "kind": "tool_approval", "requestId": "t1", "question": "May it?", "toolName": "Bash",
            "input": "{\"command\":\"ls\"}", "allow": "Allow", "deny": "Deny", "modifiable": true,
            "resolutions": ["approve", "modify", "reject"], "state": "pending",
        }))
    }

    #[tokio::test]
    async fn escape_decides_nothing() {
        let refused = resolution(&call(), Answer::Reject, &mut Typed(None)).await;
        assert!(matches!(refused, Err(NoResolution::Because(_))));
        let rejected = resolution(&call(), Answer::Reject, &mut Typed(Some(" too much "))).await.unwrap();
        assert_eq!(
            (rejected.resolution_type, rejected.rationale.as_deref()),
            (ResolutionType::Reject, Some("too much"))
        );
    }

    #[tokio::test]
    async fn approval_asks_for_the_reason_that_the_project_requires() {
        let mut call = call();
        let DecisionSubject::ToolApproval { approval, .. } = &mut call.subject else { unreachable!() };
        approval.verdict = serde_json::from_value(json!({
            "verdictId": "00000000-0000-0000-0000-000000000009", "tool": "Bash", "requiresRationale": true,
            "rule": { "type": "modeDefault", "mode": "adaptive" }, "effect": effect(), "effects": [effect()],
        }))
        .unwrap();
        let approve = Answer::Approve { always: false };
        for silent in [None, Some(" ")] {
            let refused = resolution(&call, approve, &mut Typed(silent)).await;
            assert!(matches!(refused, Err(NoResolution::Because(_))), "{silent:?}");
        }
        let approved = resolution(&call, approve, &mut Typed(Some("as agreed"))).await.unwrap();
        assert_eq!(approved.rationale.as_deref(), Some("as agreed"));
    }

    #[tokio::test]
    async fn unchanged_or_broken_input_decides_nothing() {
        for text in ["{\"command\": \"ls\"}", "{"] {
            let refused = resolution(&call(), Answer::Modify, &mut Typed(Some(text))).await;
            assert!(matches!(refused, Err(NoResolution::Because(_))), "{text}");
        }
        let changed =
            resolution(&call(), Answer::Modify, &mut Typed(Some("{\"command\":\"pwd\"}"))).await.unwrap();
        assert_eq!(changed.modified_input, Some(json!({ "command": "pwd" })));
    }

    #[tokio::test]
    async fn keys_that_the_decision_does_not_take_are_refused() {
        for answer in [Answer::Choose(0), Answer::Text, Answer::Approve { always: true }] {
            let refused = resolution(&call(), answer, &mut Typed(Some("x"))).await;
            assert!(matches!(refused, Err(NoResolution::Because(_))), "{answer:?}");
        }
    }
}
