//! `POST /api/agent/sessions/{id}/artifacts`: stores a version of an agent's artifact (S2 `ArtifactEvent`; decision 84).

use axum::extract::{FromRequest as _, Request, State};
use http::StatusCode;
use pilothouse_api::artifacts::ArtifactUploadResult;
use pilothouse_app::command::CommandResponse;
use pilothouse_app::function::requirements::ARTIFACT_WRITE;
use pilothouse_app::function::{HttpFunction, Verb};
use pilothouse_app::http::{AgentCaller, Problem, Session};
use pilothouse_app::unit_of_work::Decision;
use pilothouse_app::{App, texts, trace};
use pilothouse_domain::artifact::ArtifactError;
use pilothouse_domain::decision::KnowledgeAccess;
use pilothouse_domain::journal::Cause;
use pilothouse_domain::value::{ActivityItem, ActivityItemType};
use pilothouse_domain::{AgentSessionId, DomainContext, SessionEvent};
use pilothouse_store::{Commit, LoadedConversation};
use serde_json::json;

use crate::agent_api::knowledge::audit::{KnowledgeUse, log_refused};
use crate::agent_api::knowledge::caller::{author_of, scope_of};
use crate::agent_api::{AgentCall, CallerContext, caller_session};
use crate::artifacts::input::{Target, Upload, UploadArtifact};
use crate::artifacts::write::{WriteState, Writer};

pub const FUNCTION: HttpFunction =
    HttpFunction::new("agent-report-artifact", Verb::Post, "/api/agent/sessions/{id}/artifacts", |verb| {
        verb.route(report_artifact)
    })
    .agent()
    .summary("Store a version of an artifact")
    .input::<UploadArtifact>()
    .output::<ArtifactUploadResult>(&[200, 201])
    .requires(ARTIFACT_WRITE);

/// Responds with 201 and the new version, or with 200 if the same content was stored before. The artifact belongs to the workstream of
/// the agent; another one is refused with 403 `outside-workstream`, and the attempt is logged.
async fn report_artifact(
    State(app): State<App>,
    caller: AgentCaller,
    Session(id): Session,
    request: Request,
) -> Result<CommandResponse, Problem> {
    // Large bodies share a bounded memory, so that only authenticated callers may occupy it.
    caller_session(&app, &caller).await?;
    let upload = Upload::from_request(request, &app).await?;
    let outcome = report(&app, &caller, id, &upload).await;
    if let Err(Problem::Artifact(ArtifactError::NotWritable { workstream })) = &outcome {
        let subject = match &upload.target {
            Target::Artifact(id) => id.to_string(),
            Target::Path(path) => path.to_string(),
        };
        let access = KnowledgeAccess::ReportArtifact;
        log_refused(&app, caller.session, KnowledgeUse::of(access, Some(workstream), Some(subject))).await?;
    }
    outcome
}

async fn report(
    app: &App,
    caller: &AgentCaller,
    path_session: AgentSessionId,
    upload: &Upload,
) -> Result<CommandResponse, Problem> {
    const NAME: &str = FUNCTION.name;
    let call = AgentCall { app, caller, path_session, function: NAME, request: &upload.body_hash };
    let load = async |context: CallerContext| {
        let membership = context.membership()?;
        if upload.input.project_id.is_some_and(|named| named != membership.project_id) {
            return Err(Problem::invalid("projectId", "is not the project of the session"));
        }
        let scope = scope_of(app, membership).await?;
        let author = author_of(caller.session, context.run, membership, upload.input.tool_call_id.clone());
        let writer =
            Writer { owner: &context.owner, project: membership.project_id, author, scope: Some(scope) };
        Ok((membership.project_id, writer.load(app, upload).await?))
    };
    let decide = |mut loaded: LoadedConversation,
                  (project, state): (_, WriteState),
                  ctx: &mut DomainContext<'_>| {
        let session = &mut loaded.conversation.session;
        let mut commit = Commit::new();
        let cause = || Cause::AgentApi { function: NAME.to_owned(), body: json!({}) };
        let owner = session.owner_id().clone();
        let written = state.decide(app, (&owner, project), upload, cause(), (&mut commit, ctx))?;
        if !written.is_new {
            return Ok(Decision::Unchanged(CommandResponse::new(StatusCode::OK, None, &written.result)?));
        }
        let result = &written.result;
        let body = json!({
            "artifactId": result.artifact_id, "version": result.version, "uri": result.backend_uri,
        });
        let cause = Cause::AgentApi { function: NAME.to_owned(), body };
        let line = format!("Reported {}, version {}", result.path, result.version);
        let line = ActivityItem::new(ActivityItemType::Message, &line, ctx.now);
        let mut events = vec![SessionEvent::ArtifactReported { report: Box::new(written.artifact.report()) }];
        events.extend(written.raised);
        let mut entry = texts::record(session, ctx.event_id(), ctx.now, cause, events, vec![line]);
        entry.traceparent = trace::here();
        commit.entry(&entry, None)?;
        commit.conversation(&loaded, &app.deadlines)?;
        Ok(Decision::Commit(commit, CommandResponse::new(StatusCode::CREATED, None, result)?))
    };
    call.run(load, decide).await
}
