//! `POST /api/decisions/{id}/resolve`: resolves a decision of the inbox (S2 `resolveDecision`).

use std::sync::Arc;

use axum::extract::State;
use deserr::Deserr;
use http::StatusCode;
use pilothouse_api::Violation;
use pilothouse_api::decisions::{DecisionOutcome, DecisionView};
use pilothouse_api::input::Violations;
use pilothouse_app::App;
use pilothouse_app::braking::ensure_not_braked;
use pilothouse_app::command::{CommandContext, CommandResponse};
use pilothouse_app::function::{HttpFunction, Verb};
use pilothouse_app::http::Problem;
use pilothouse_app::http::body::Body;
use pilothouse_app::http::request::DecisionOf;
use pilothouse_app::session_start::StartRoom;
use pilothouse_app::unit_of_work;
use pilothouse_domain::conversation::Conversation;
use pilothouse_domain::decision::{
    Decision, DecisionState, DecisionStatus, FreeDecision, FreeDecisionError, Misfit, ProposedResolution,
    ResolutionType, ResolvedBy,
};
use pilothouse_domain::escalation::{
    DecidingRule, InputGuardrail, Listing, Policy, ReportedRisk, StandingApproval, ToolCall,
};
use pilothouse_domain::session::SessionError;
use pilothouse_domain::text::Feedback;
use pilothouse_domain::value::{Answer, ProjectMembership};
use pilothouse_domain::{DecisionId, DomainContext, Project, ProjectAgent};
use pilothouse_store::{Commit, Loaded, LoadedAggregate, LoadedConversation, OwnerBrakes};
use schemars::JsonSchema;
use serde_json::Value;

use crate::commands::requests::answer::OneAnswer;
use crate::free_decisions::FreeState;

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
    /// Why, for `reject`, and for `choose_option` of options that an agent proposes with its reasons. The agent receives this text.
    /// Required for plans, and if the agent requires it.
    #[deserr(default)]
    pub rationale: Option<Feedback>,
    /// Whether to allow all further calls like this one until the session ends or the control mode becomes stricter, for `approve`
    /// of a tool call of a project's agent. Default: false.
    #[deserr(default)]
    #[schemars(default)]
    pub always_approve: bool,
    /// The input with which to make the tool call instead, for `modify`.
    #[deserr(default)]
    pub modified_input: Option<Value>,
}

impl From<Resolve> for ProposedResolution {
    fn from(input: Resolve) -> Self {
        let answer = |one: OneAnswer| Answer { question: one.question, answer: one.answer.into() };
        Self {
            resolution_type: input.resolution_type,
            chosen_option_id: input.chosen_option_id,
            answers: input.answers.map(|answers| answers.into_iter().map(answer).collect()),
            rationale: input.rationale,
            always_approve: input.always_approve,
            modified_input: input.modified_input,
        }
    }
}

/// What resolving a decision depends on.
enum ResolveState {
    OfSession(Box<SessionState>),
    Free(Box<FreeState>),
}

/// A decision with its session, and the brakes of its owner.
struct SessionState {
    decision: Decision,
    loaded: LoadedConversation,
    brakes: OwnerBrakes,
    /// The guardrails on the input of the agent.
    guardrails: Vec<InputGuardrail>,
    standing: Option<StandingApprovalTarget>,
}

/// Where an approval of all further calls is kept, and the rules that it is subject to.
struct StandingApprovalTarget {
    agent: LoadedAggregate<ProjectAgent>,
    project: Project,
}

impl StandingApprovalTarget {
    async fn load(app: &App, command: &CommandContext, decision: &Decision) -> Result<Option<Self>, Problem> {
        let Some(ProjectMembership { project_id, agent_id, .. }) = decision.project else { return Ok(None) };
        let project = app.load_aggregate::<Project>(command, project_id).await?.value;
        let agent = app.load_aggregate::<ProjectAgent>(command, agent_id).await?;
        Ok(Some(Self { agent, project }))
    }

    const NO_EFFECT: &'static str =
        "has no effect: by the rules of the project a person decides about each such call";

    /// Adds the approval to the commit that resolves `decision`.
    ///
    /// # Errors
    /// [`Problem::Invalid`] if the approval would change nothing, because such a call always needs a person.
    fn approve(
        mut self,
        app: &App,
        command: &CommandContext,
        decision: &Decision,
        commit: &mut Commit,
        ctx: &DomainContext<'_>,
    ) -> Result<(), Problem> {
        let Some((verdict, session_id)) = decision.subject.verdict().zip(decision.session_id()) else {
            return Ok(());
        };
        let mode = self.project.control_mode();
        let approval = StandingApproval {
            decision_id: decision.id,
            session_id,
            tool: verdict.tool.clone(),
            effects: verdict.effects.clone(),
            mode_revision: mode.revision(),
        };
        let is_guarded =
            matches!(verdict.rule, DecidingRule::Guardrail { .. } | DecidingRule::NotAllowed { .. });
        if let Some(why) = is_guarded.then_some(Self::NO_EFFECT).or_else(|| self.refusal(&approval)) {
            return Err(Problem::invalid("alwaysApprove", why));
        }
        let events = self.agent.value.approve_always(approval, mode, ctx);
        app.record_aggregate(commit, &self.agent, command.cause(), events)
    }

    fn refusal(&self, approval: &StandingApproval) -> Option<&'static str> {
        let Self { agent, project } = self;
        let definition = project.definition();
        let policy = Policy {
            mode: project.control_mode(),
            mode_protocol: &project.escalation(),
            agent_protocol: &agent.value.brief().escalation_protocol.clone().unwrap_or_default(),
            patterns: &definition.tool_patterns,
            guardrails: &[],
            approvals: &[],
        };
        let pattern = definition.tool_patterns.find(&approval.tool).map(|pattern| pattern.name.clone());
        let call = ToolCall {
            tool: &approval.tool,
            listing: &Listing::Allowed,
            session_id: approval.session_id,
            effects: &approval.effects,
            patterns: pattern.as_slice(),
            reported: ReportedRisk::default(),
            affects_multiple_workstreams: false,
            arguments: &Value::Null,
        };
        if policy.needs_person_always(&call) {
            return Some(Self::NO_EFFECT);
        }
        let too_many = approval.effects.iter().len() > StandingApproval::MAX_EFFECTS;
        too_many.then_some("is refused: the call does too many different things")
    }
}

/// Responds with 202 and the decision while its agent has not received the resolution, otherwise with 200. The first resolution wins:
/// a later one gets 409 `decision-over` with the winner and the time. While a brake stops the session, the response is 409 `braked`.
/// Words that a guardrail of the agent's brief blocks are refused with 409 `guardrail-blocked`, and the decision waits.
async fn resolve_decision(
    State(app): State<App>,
    command: CommandContext,
    DecisionOf(id): DecisionOf,
    body: Body<Resolve>,
) -> Result<CommandResponse, Problem> {
    let command = command.with_body(&body.hash);
    let proposed = ProposedResolution::from(body.input);
    let room = Arc::new(StartRoom::default());
    let load = async || {
        let loaded = app.store.loaded_decision(&command.owner, id).await?.ok_or_else(Problem::no_decision)?;
        let decision = match FreeDecision::of(loaded.value) {
            Ok(value) => {
                let free = Loaded { value, version: loaded.version };
                return Ok(ResolveState::Free(Box::new(FreeState::load(&app, free, &room).await?)));
            }
            Err(decision) => *decision,
        };
        let session = decision.session_id().ok_or_else(Problem::no_session)?;
        let loaded = app.load_session(&command, session).await?;
        let brakes = app.store.brakes(&command.owner).await?;
        let guardrails = app.input_guardrails(&loaded.conversation.session).await?;
        let standing = if proposed.always_approve {
            StandingApprovalTarget::load(&app, &command, &decision).await?
        } else {
            None
        };
        Ok(ResolveState::OfSession(Box::new(SessionState { decision, loaded, brakes, guardrails, standing })))
    };
    let decide = |state: ResolveState, ctx: &mut DomainContext<'_>| match state {
        ResolveState::OfSession(state) => decide(&app, &command, &proposed, *state, ctx),
        ResolveState::Free(state) => decide_free(&app, &command, &proposed, *state, ctx),
    };
    let resolved = app.unit_of_work().run_command(&command, load, decide).await;
    if !matches!(resolved, Err(Problem::Session(SessionError::InputBlocked(_)))) {
        return resolved;
    }
    // A guardrail refuses what the person says to the agent, or the objective with which the agent would start again.
    let decision = app.store.loaded_decision(&command.owner, id).await?;
    match decision.and_then(|decision| decision.value.session_id()) {
        Some(session) => app.record_refusal(&command, session, resolved).await,
        None => resolved,
    }
}

fn decide(
    app: &App,
    command: &CommandContext,
    proposed: &ProposedResolution,
    SessionState { decision, loaded, brakes, guardrails, standing }: SessionState,
    ctx: &mut DomainContext<'_>,
) -> Result<unit_of_work::Decision<CommandResponse>, Problem> {
    let Some(open) = loaded.conversation.session.open_decision(decision.id) else {
        // The session was read after the decision, so it may know of an end that the decision does not show yet.
        return Err(match decision.status() {
            DecisionStatus::Pending | DecisionStatus::Suspended => Problem::VersionConflict,
            _ => Problem::DecisionOver(DecisionOutcome::of(&decision)),
        });
    };
    let of_owner = open.subject.decide(proposed).map_err(|misfits| unfit(&misfits))?;
    let decided = app.decide_on_session(
        command,
        loaded,
        ctx,
        |it, ctx| {
            let events = it.resolve_guarded(of_owner, &guardrails, ctx)?;
            ensure_not_braked(&brakes, &it.session)?;
            Ok(events)
        },
        |conversation| resolved(conversation, decision.id),
    )?;
    match (decided, standing) {
        (unit_of_work::Decision::Commit(mut commit, response), Some(standing)) => {
            standing.approve(app, command, &open, &mut commit, ctx)?;
            Ok(unit_of_work::Decision::Commit(commit, response))
        }
        (decided, _) => Ok(decided),
    }
}

/// Resolves a decision that no session guards.
fn decide_free(
    app: &App,
    command: &CommandContext,
    proposed: &ProposedResolution,
    state: FreeState,
    ctx: &mut DomainContext<'_>,
) -> Result<unit_of_work::Decision<CommandResponse>, Problem> {
    command.check_version(state.decision.version)?;
    let free = &state.decision.value;
    let resolution = free.resolution(proposed).map_err(|refusal| match refusal {
        FreeDecisionError::Unfit(misfits) => unfit(&misfits),
        FreeDecisionError::Refused { .. } => Problem::DecisionOver(DecisionOutcome::of(free.decision())),
    })?;
    let by = ResolvedBy::Owner { id: command.owner.clone() };
    let (commit, resolved) = state.resolve(app, &command.cause(), resolution, by, ctx)?;
    let response = CommandResponse::new(StatusCode::OK, None, &DecisionView::of(resolved.decision()))?;
    Ok(unit_of_work::Decision::Commit(commit, response))
}

fn unfit(misfits: &[Misfit]) -> Problem {
    let violation = |Misfit { field, message }: &Misfit| Violation {
        field: (*field).to_owned(),
        message: message.clone(),
    };
    Problem::Invalid(misfits.iter().map(violation).collect())
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
