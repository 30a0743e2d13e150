//! `POST /api/agent/sessions/{id}/handoff`: the agent hands its work on although it has room left (S0 8.9, AG-039).

use axum::extract::State;
use deserr::Deserr;
use http::StatusCode;
use pilothouse_domain::conversation::{Conversation, Outcome};
use pilothouse_domain::session::{AgentFact, AgentSessionStatus, Operation, SessionError};
use pilothouse_domain::text::{Feedback, HandoffText, InvalidText};
use pilothouse_domain::value::HandoffDocument;
use pilothouse_domain::{Events, Occasion};
use schemars::JsonSchema;
use serde_json::json;

use super::Said;
use crate::app::App;
use crate::change::Answer;
use crate::edge::input::{Body, Violations, maybe};
use crate::edge::{AgentCaller, Problem, Session};

/// What it leaves to the session that goes on.
#[derive(Debug, Clone, Deserr, JsonSchema)]
#[deserr(error = Violations, rename_all = camelCase, deny_unknown_fields)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
pub struct HandOver {
    /// Why it hands over.
    #[deserr(try_from(String) = Feedback::try_from -> InvalidText)]
    pub reason: Feedback,
    /// What was accomplished.
    #[deserr(try_from(String) = HandoffText::try_from -> InvalidText)]
    pub summary: HandoffText,
    /// What still needs to be done.
    #[deserr(try_from(String) = HandoffText::try_from -> InvalidText)]
    pub remaining_work: HandoffText,
    /// What must not be forgotten.
    #[deserr(default, try_from(Option<String>) = maybe -> InvalidText)]
    pub key_decisions: Option<HandoffText>,
}

impl HandOver {
    fn document(&self) -> HandoffDocument {
        HandoffDocument {
            summary: self.summary.clone(),
            remaining_work: self.remaining_work.clone(),
            key_decisions: self.key_decisions.clone(),
            synthesized: false,
        }
    }
}

/// 202: the session is exhausted, or will be when the request that is under way resolves. The raw event that may follow
/// says the same once more, and counts no second time (ruling 34).
pub async fn handle(
    state: State<App>,
    caller: AgentCaller,
    Session(id): Session,
    body: Body<HandOver>,
) -> Result<Answer, Problem> {
    let input = body.input;
    let said = Said {
        function: "agent-handoff",
        request_hash: body.hash,
        summary: format!("The agent asks to hand over: {}", input.reason),
        body: json!({
            "reason": input.reason, "summary": input.summary, "remainingWork": input.remaining_work,
            "keyDecisions": input.key_decisions,
        }),
        view: None,
    };
    super::change(
        state,
        &caller,
        id,
        said,
        |it, cx| hand_over(it, &input, cx),
        |it| {
            let session = &it.session;
            let answer = json!({ "status": session.status(), "chainId": session.chain_id() });
            Answer::new(StatusCode::ACCEPTED, None, &answer)
        },
    )
    .await
}

fn hand_over(it: &mut Conversation, input: &HandOver, cx: &mut Occasion<'_>) -> Result<Events, Problem> {
    let before = it.session.status();
    let reason = input.reason.to_string();
    let over = it.observe(AgentFact::HandedOver { reason }, "", cx);
    if matches!(over.outcome, Outcome::Ignored(_)) && before != AgentSessionStatus::ContextExhausted {
        let operation = Operation::RecordVoluntaryHandoff;
        return Err(SessionError::InvalidTransition { operation, status: before }.into());
    }
    let written = it.observe(AgentFact::HandoffWritten(Box::new(input.document())), "", cx);
    Ok(over.events.into_iter().chain(written.events).collect())
}
