//! `POST /api/agent/sessions/{id}/coherence`: an agent flags a coherence issue (S2 `CoherenceEvent`; decision 88).

use axum::extract::State;
use http::StatusCode;
use pilothouse_api::coherence::FlaggedIssue;
use pilothouse_app::command::CommandResponse;
use pilothouse_app::function::{HttpFunction, Verb};
use pilothouse_app::http::body::Body;
use pilothouse_app::http::{AgentCaller, Problem, Session};
use pilothouse_app::unit_of_work::Decision;
use pilothouse_app::{App, texts, trace};
use pilothouse_domain::coherence::{CoherenceError, CoherenceState, Detected, IssueSource, flagged_issue_id};
use pilothouse_domain::decision::KnowledgeAccess;
use pilothouse_domain::journal::Cause;
use pilothouse_domain::value::{ActivityItem, ActivityItemType};
use pilothouse_domain::{AgentSessionId, CoherenceIssueId, DomainContext};
use pilothouse_store::{Commit, LoadedConversation};
use serde_json::json;

use super::audit::{KnowledgeUse, log_refused};
use super::caller::scope_of;
use crate::agent_api::{AgentCall, CallerContext};
use crate::coherence::Detection;
use crate::coherence::input::ReportIssue;

pub const FUNCTION: HttpFunction =
    HttpFunction::new("agent-flag-coherence", Verb::Post, "/api/agent/sessions/{id}/coherence", |verb| {
        verb.route(flag_coherence)
    })
    .agent()
    .summary("Flag work of agents that does not fit together")
    .input::<ReportIssue>()
    .output::<FlaggedIssue>(&[200, 201]);

const ACCESS: KnowledgeAccess = KnowledgeAccess::FlagCoherence;

/// Responds with 201 and the id of the issue, or with 200 if the agent has flagged the same issue before. An issue in a workstream that
/// the agent may not read is refused with 403 `outside-workstream`. Each call is logged.
async fn flag_coherence(
    State(app): State<App>,
    caller: AgentCaller,
    Session(id): Session,
    body: Body<ReportIssue>,
) -> Result<CommandResponse, Problem> {
    let outcome = flag(&app, &caller, id, &body).await;
    if let Err(Problem::Coherence(CoherenceError::OutsideScope { workstream })) = &outcome {
        let subject = Some(body.input.title.to_string());
        log_refused(&app, caller.session, KnowledgeUse::of(ACCESS, Some(workstream), subject)).await?;
    }
    outcome
}

async fn flag(
    app: &App,
    caller: &AgentCaller,
    path_session: AgentSessionId,
    body: &Body<ReportIssue>,
) -> Result<CommandResponse, Problem> {
    const NAME: &str = FUNCTION.name;
    let call = AgentCall { app, caller, path_session, function: NAME, request: &body.hash };
    let load = async |of: CallerContext| detect(app, caller, &of, &body.input).await;
    let decide = |mut loaded: LoadedConversation,
                  (id, detection): (CoherenceIssueId, Detection),
                  ctx: &mut DomainContext<'_>| {
        if let Some(state) = detection.known_state() {
            let known = FlaggedIssue { issue_id: id, state };
            return Ok(Decision::Unchanged(CommandResponse::new(StatusCode::OK, None, &known)?));
        }
        let cause = Cause::AgentApi { function: NAME.to_owned(), body: json!({ "issueId": id }) };
        let session = &mut loaded.conversation.session;
        let mut commit = Commit::new();
        let raised = detection.record(app, &cause, &mut commit, ctx)?;
        let workstream = session.project().map(|membership| membership.workstream.clone());
        KnowledgeUse::of(ACCESS, workstream.as_ref(), Some(id.to_string())).log(
            &mut commit,
            session,
            true,
            ctx,
        )?;
        let line = format!("Flagged: {}", body.input.title);
        let line = ActivityItem::new(ActivityItemType::Message, &line, ctx.now);
        let mut entry = texts::record(session, ctx.event_id(), ctx.now, cause, raised, vec![line]);
        entry.traceparent = trace::here();
        commit.entry(&entry, None)?;
        commit.conversation(&loaded, &app.deadlines)?;
        let flagged = FlaggedIssue { issue_id: id, state: CoherenceState::Open };
        Ok(Decision::Commit(commit, CommandResponse::new(StatusCode::CREATED, None, &flagged)?))
    };
    call.run(load, decide).await
}

/// Checks the scope of the agent.
async fn detect(
    app: &App,
    caller: &AgentCaller,
    of: &CallerContext,
    input: &ReportIssue,
) -> Result<(CoherenceIssueId, Detection), Problem> {
    let membership = of.membership()?;
    let project = membership.project_id;
    if input.project_id.is_some_and(|named| named != project) {
        return Err(Problem::invalid("projectId", "is not the project of the session"));
    }
    let scope = scope_of(app, membership).await?;
    let time = app.project_time(project).await?.ok_or_else(Problem::no_project)?;
    let artifacts = input.load(app, &of.owner, &time.project.value).await?;
    let concerned = input.workstreams(&artifacts, None);
    if let Some(outside) = concerned.iter().find(|workstream| !scope.may_read(workstream)) {
        return Err(CoherenceError::OutsideScope { workstream: outside.clone() }.into());
    }
    let (agent_id, title) = (membership.agent_id, input.title.as_str());
    let id = flagged_issue_id(project, agent_id, input.category, title, &input.affected_artifact_ids);
    let source = IssueSource::Agent { agent_id, session_id: caller.session };
    let finding = input.finding(source, &artifacts, Some(scope.own()), app.now());
    let tick = time.tick(app.now())?;
    let detected = vec![Detected { id, finding }];
    Ok((id, Detection::load(app, (&of.owner, project), tick, detected).await?))
}
