//! `POST /api/agent/sessions/{id}/handoff`: hands the work over to a new session before the context is full (S0 8.9,
//! AG-039).

use axum::extract::State;
use deserr::Deserr;
use http::StatusCode;
use pilothouse_api::input::Violations;
use pilothouse_app::App;
use pilothouse_app::command::CommandResponse;
use pilothouse_app::function::{HttpFunction, Verb};
use pilothouse_app::http::body::Body;
use pilothouse_app::http::{AgentCaller, Problem, Session};
use pilothouse_domain::conversation::{Conversation, FactOutcome};
use pilothouse_domain::session::{AgentFact, AgentSessionStatus, Operation, SessionError};
use pilothouse_domain::text::{Feedback, HandoffText};
use pilothouse_domain::value::HandoffDocument;
use pilothouse_domain::{DomainContext, Events};
use schemars::JsonSchema;
use serde_json::json;

use super::AgentActivity;

pub const FUNCTION: HttpFunction =
    HttpFunction::new("agent-handoff", Verb::Post, "/api/agent/sessions/{id}/handoff", |verb| {
        verb.route(hand_off)
    })
    .agent()
    .summary("Hand the work over to a new session")
    .input::<HandOver>()
    .statuses(&[202]);

/// The handoff document for the next session of the chain.
#[derive(Debug, Clone, Deserr, JsonSchema)]
#[deserr(error = Violations, rename_all = camelCase, deny_unknown_fields)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
pub struct HandOver {
    /// Why the agent hands over.
    pub reason: Feedback,
    /// The work that is done.
    pub summary: HandoffText,
    /// The work that remains.
    pub remaining_work: HandoffText,
    /// Decisions that the next session must respect.
    #[deserr(default)]
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

/// Responds with 202. The session becomes `ContextExhausted`, at once or when the pending request resolves. A raw event that
/// reports the same handoff later has no further effect (decision 34).
async fn hand_off(
    state: State<App>,
    caller: AgentCaller,
    Session(id): Session,
    body: Body<HandOver>,
) -> Result<CommandResponse, Problem> {
    let input = body.input;
    let activity = AgentActivity {
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
        activity,
        |it, ctx| hand_over(it, &input, ctx),
        |it| {
            let session = &it.session;
            let response = json!({ "status": session.status(), "chainId": session.chain_id() });
            CommandResponse::new(StatusCode::ACCEPTED, None, &response)
        },
    )
    .await
}

fn hand_over(
    it: &mut Conversation,
    input: &HandOver,
    ctx: &mut DomainContext<'_>,
) -> Result<Events, Problem> {
    let before = it.session.status();
    let reason = input.reason.to_string();
    let over = it.observe(AgentFact::HandedOver { reason }, "", ctx);
    if matches!(over.outcome, FactOutcome::Ignored(_)) && before != AgentSessionStatus::ContextExhausted {
        let operation = Operation::RecordVoluntaryHandoff;
        return Err(SessionError::InvalidTransition { operation, status: before }.into());
    }
    let written = it.observe(AgentFact::HandoffWritten(Box::new(input.document())), "", ctx);
    Ok(over.events.into_iter().chain(written.events).collect())
}
