//! `request_decision`: proposes options to the owner, and waits for the choice (S2 `OptionDecisionEvent`; decision 80).

use std::sync::atomic::{AtomicU32, Ordering};

use async_trait::async_trait;
use pilothouse_agent::model::ToolSpec;
use pilothouse_agent::tool::{Tool, ToolContext, ToolOutput};
use pilothouse_domain::value::{Answer, OptionProposal, Question, chosen};
use pilothouse_wire::RawEvent;
use serde_json::{Value, json};

use super::open_question::OpenQuestion;
use super::proposal::{ReadProposal, Schema};
use super::requests::Requests;
use super::server::UNNAMED_CALL;
use super::{arguments, ask, proposal};
use crate::adapter::EventSink;
use crate::kit::notices::detailed_notice;
use crate::tool_names::REQUEST_DECISION;

pub const NAME: &str = REQUEST_DECISION;
/// Attempts of which the last one is shown to the owner as far as it fits.
const MAX_ATTEMPTS: u32 = 3;

const DESCRIPTION: &str = "Asks your owner to choose between options that you have worked out, and waits for the choice. Use it for \
decisions of design or direction that are not yours. Give each option with its trade-offs, and say which one you recommend.";

pub struct RequestDecisionTool {
    spec: ToolSpec,
    requests: Requests,
    events: EventSink,
    /// Calls in a row whose arguments did not fit.
    misfits: AtomicU32,
}

impl RequestDecisionTool {
    /// The tool waits for the choice in `requests`.
    pub fn new(requests: Requests, events: EventSink) -> Self {
        let spec = arguments::spec::<Schema>(NAME, DESCRIPTION);
        Self { spec, requests, events, misfits: AtomicU32::default() }
    }

    /// What to ask the owner, or what the agent has to correct.
    async fn asked(&self, arguments: &Value) -> Result<(Question, Option<OptionProposal>), ToolOutput> {
        let ReadProposal { question, mut proposal, violations } = proposal::read(arguments);
        if violations.is_empty() {
            self.misfits.store(0, Ordering::Relaxed);
        } else if self.misfits.fetch_add(1, Ordering::Relaxed) + 1 < MAX_ATTEMPTS {
            let violations = violations.join("; ");
            return Err(ToolOutput::error(format!(
                "Nothing was asked, because the arguments do not fit: {violations}. Call `{NAME}` again with complete \
                 arguments."
            )));
        } else {
            self.misfits.store(0, Ordering::Relaxed);
            let summary = "the agent's options did not fit; you see the parts that did";
            // Other tasks report a failed spool.
            let _ = self.events.emit(detailed_notice("decision_repaired", summary, json!(violations))).await;
            if let Some(proposal) = &mut proposal {
                proposal.assessment.repaired = true;
            }
        }
        let plain = |question| Question { question, header: None, options: Vec::new(), multi_select: false };
        let question = match &proposal {
            Some(proposal) => proposal.as_question(question),
            None => plain(question),
        };
        Ok((question, proposal))
    }
}

#[async_trait]
impl Tool for RequestDecisionTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn checks_arguments(&self) -> bool {
        true
    }

    async fn run(&self, arguments: Value, context: ToolContext) -> ToolOutput {
        let (question, proposal) = match self.asked(&arguments).await {
            Ok(asked) => asked,
            Err(wrong) => return wrong,
        };
        let request = match ask::request(&context) {
            Ok(request) => request,
            Err(wrong) => return wrong,
        };
        let answers = self.requests.open_question(request.clone());
        let asked = RawEvent::QuestionAsked {
            request_id: request.clone(),
            questions: vec![question],
            approval: None,
            proposal: proposal.clone().map(Box::new),
        };
        // The result of a call that the agent named ends its request.
        let open = context.tool_call_id.starts_with(UNNAMED_CALL);
        let open = open.then(|| OpenQuestion::new(request, self.events.clone()));
        if let Err(e) = self.events.emit(asked).await {
            return ToolOutput::error(format!("The owner cannot be asked: {e}. Try again."));
        }
        tokio::select! {
            answered = answers.answered() => match answered {
                Ok(owner) => {
                    open.into_iter().for_each(OpenQuestion::answered);
                    ToolOutput::text(result(&owner.answers, proposal.as_ref()).to_string())
                }
                Err(withdrawn) => ToolOutput::error(withdrawn.to_string()),
            },
            () = context.cancelled.cancelled() => ToolOutput::error("The turn was interrupted before the owner decided."),
        }
    }
}

fn result(answers: &[Answer], proposal: Option<&OptionProposal>) -> Value {
    let answer = answers.first().map_or("", |answer| answer.answer.as_str());
    let options = proposal.map(|proposal| proposal.options.as_slice()).unwrap_or_default();
    let choice = chosen(options.iter().map(|option| option.label.as_str()), answer);
    match choice.and_then(|(at, why)| Some((options.get(at)?, why))) {
        Some((option, why)) => {
            json!({ "chosenOptionId": option.id, "label": option.label, "rationale": why })
        }
        None => json!({ "answer": answer }),
    }
}
