//! `POST /api/decisions/{id}/resolve`: resolves a decision of the inbox (S2 `resolveDecision`).

use axum::extract::State;
use deserr::Deserr;
use http::StatusCode;
use pilothouse_api::Violation;
use pilothouse_api::decisions::{DecisionOutcome, DecisionView};
use pilothouse_api::input::Violations;
use pilothouse_app::App;
use pilothouse_app::command::{CommandContext, CommandResponse};
use pilothouse_app::function::{HttpFunction, Verb};
use pilothouse_app::http::Problem;
use pilothouse_app::http::body::Body;
use pilothouse_app::http::request::DecisionOf;
use pilothouse_app::unit_of_work;
use pilothouse_domain::conversation::Conversation;
use pilothouse_domain::decision::{
    Decision, DecisionState, DecisionStatus, ProposedResolution, ResolutionType,
};
use pilothouse_domain::session::SessionError;
use pilothouse_domain::text::Feedback;
use pilothouse_domain::value::Answer;
use pilothouse_domain::{DecisionId, DomainContext};
use pilothouse_store::{LoadedConversation, OwnerBrakes};
use schemars::JsonSchema;

use crate::commands::requests::answer::OneAnswer;

pub const FUNCTION: HttpFunction =
    HttpFunction::new("decisions-resolve", Verb::Post, "/api/decisions/{id}/resolve", |verb| {
        verb.route(resolve_decision)
    })
    .owner()
    .summary("Resolve a decision")
    .input::<Resolve>()
    .output::<DecisionView>(&[200, 202]);

/// A resolution. Its type must be one of the decision's `resolutions`.
#[derive(Debug, Clone, Deserr, JsonSchema)]
#[deserr(error = Violations, rename_all = camelCase, deny_unknown_fields)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
pub struct Resolve {
    /// How the decision is resolved.
    pub resolution_type: ResolutionType,
    /// The chosen option, for `choose_option`.
    #[deserr(default)]
    pub chosen_option_id: Option<String>,
    /// One answer for each question, for `answer`.
    #[deserr(default)]
    pub answers: Option<Vec<OneAnswer>>,
    /// Why, for `reject`. The agent receives this text. Required for plans.
    #[deserr(default)]
    pub rationale: Option<Feedback>,
}

impl From<Resolve> for ProposedResolution {
    fn from(input: Resolve) -> Self {
        let answer = |one: OneAnswer| Answer { question: one.question, answer: one.answer.into() };
        Self {
            resolution_type: input.resolution_type,
            chosen_option_id: input.chosen_option_id,
            answers: input.answers.map(|answers| answers.into_iter().map(answer).collect()),
            rationale: input.rationale,
        }
    }
}

/// A decision with its session, and the brakes of its owner.
struct ResolveState {
    decision: Decision,
    loaded: LoadedConversation,
    brakes: OwnerBrakes,
}

/// Responds with 202 and the decision while its agent has not received the resolution, otherwise with 200. The first resolution wins:
/// a later one gets 409 `decision-over` with the winner and the time. While a brake stops the session, the response is 409 `braked`.
async fn resolve_decision(
    State(app): State<App>,
    command: CommandContext,
    DecisionOf(id): DecisionOf,
    body: Body<Resolve>,
) -> Result<CommandResponse, Problem> {
    let command = command.with_body(&body.hash);
    let proposed = ProposedResolution::from(body.input);
    let load = async || {
        let decision = app.store.decision_of(&command.owner, id).await?.ok_or_else(Problem::no_decision)?;
        let loaded = app.load_session(&command, decision.session_id).await?;
        Ok(ResolveState { decision, loaded, brakes: app.store.brakes(&command.owner).await? })
    };
    let decide =
        |state: ResolveState, ctx: &mut DomainContext<'_>| decide(&app, &command, &proposed, state, ctx);
    app.unit_of_work().run_command(&command, load, decide).await
}

fn decide(
    app: &App,
    command: &CommandContext,
    proposed: &ProposedResolution,
    ResolveState { decision, loaded, brakes }: ResolveState,
    ctx: &mut DomainContext<'_>,
) -> Result<unit_of_work::Decision<CommandResponse>, Problem> {
    let Some(open) = loaded.conversation.session.open_decision(decision.id) else {
        // The session was read after the decision, so it may know of an end that the decision does not show yet.
        return Err(match decision.status() {
            DecisionStatus::Pending => Problem::VersionConflict,
            _ => Problem::DecisionOver(DecisionOutcome::of(&decision)),
        });
    };
    let of_owner = open.subject.decide(proposed).map_err(|misfits| {
        let violation = |misfit: pilothouse_domain::decision::Misfit| Violation {
            field: misfit.field.to_owned(),
            message: misfit.message,
        };
        Problem::Invalid(misfits.into_iter().map(violation).collect())
    })?;
    app.decide_on_session(
        command,
        loaded,
        ctx,
        |it, ctx| {
            let events = it.resolve(of_owner, ctx)?;
            match brakes.on(decision.session_id) {
                Some(brake) => Err(SessionError::Braked { brake_id: brake.id }.into()),
                None => Ok(events),
            }
        },
        |conversation| resolved(conversation, decision.id),
    )
}

fn resolved(conversation: &Conversation, id: DecisionId) -> Result<CommandResponse, Problem> {
    let mut changed = conversation.session.changed_decisions();
    let decision = changed.find(|decision| decision.id == id).ok_or_else(Problem::no_decision)?;
    let status = match decision.state {
        DecisionState::Resolving { .. } => StatusCode::ACCEPTED,
        _ => StatusCode::OK,
    };
    CommandResponse::new(status, None, &DecisionView::of(decision))
}
