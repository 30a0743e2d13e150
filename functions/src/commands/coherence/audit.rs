//! `POST /api/coherence/audit`: compares the texts of all artifacts of a project (S2, "Semantic similarity"; decision 88).

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use deserr::Deserr;
use pilothouse_api::coherence::CoherenceAudit;
use pilothouse_api::input::Violations;
use pilothouse_app::App;
use pilothouse_app::command::CommandContext;
use pilothouse_app::function::requirements::COHERENCE_SCAN;
use pilothouse_app::function::{HttpFunction, Verb};
use pilothouse_app::http::Problem;
use pilothouse_app::http::body::Body;
use pilothouse_app::unit_of_work::{Decision, RetryPolicy};
use pilothouse_domain::coherence::CoherenceIssue;
use pilothouse_domain::journal::Cause;
use pilothouse_domain::{Aggregate as _, CoherenceIssueId, DomainContext, Project, ProjectId, Timestamp};
use pilothouse_store::{Commit, IssueList, LoadedAggregate};
use schemars::JsonSchema;

use crate::coherence::scan::{ScanRequest, scan_project, uses_embeddings};

pub const FUNCTION: HttpFunction =
    HttpFunction::new("coherence-audit", Verb::Post, "/api/coherence/audit", |verb| {
        verb.route(audit_coherence)
    })
    .owner()
    .summary("Compare the texts of a project's artifacts")
    .input::<AuditCoherence>()
    .output::<CoherenceAudit>(&[200])
    .requires(COHERENCE_SCAN);

const PAGE: usize = 200;
/// The most reviews that an audit requests.
const MAX_REQUESTS: usize = 50;
/// How long an audit waits for embeddings. The next one finds those that were made in time.
const EMBEDDING_TIME: Duration = Duration::from_secs(15);

/// The project to audit.
#[derive(Debug, Clone, Deserr, JsonSchema)]
#[deserr(error = Violations, rename_all = camelCase, deny_unknown_fields)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
pub struct AuditCoherence {
    /// The project. An owner with one project may omit it.
    #[deserr(default)]
    pub project_id: Option<ProjectId>,
}

/// Responds with 200 and the result. Issues that exist already are not raised again. An audit finds similar texts: duplicates and
/// overlapping work, and artifacts that may not fit a decision. It cannot find contradictions or gaps. If the server has a model, the audit
/// also requests the review of open issues without one.
async fn audit_coherence(
    State(app): State<App>,
    command: CommandContext,
    body: Body<AuditCoherence>,
) -> Result<Json<CoherenceAudit>, Problem> {
    let project = app.chosen_project(&command.owner, body.input.project_id).await?.value;
    project.ensure_open()?;
    let time = app.project_time(project.id()).await?.ok_or_else(Problem::no_project)?;
    let tick = time.tick(app.now())?;
    let started = app.now();
    let request = ScanRequest {
        since: None,
        since_embedded: None,
        embedding_time: uses_embeddings(&app, &project).then_some(EMBEDDING_TIME),
        tick,
        cause: &command.cause(),
    };
    let scanned = scan_project(&app, &project, &request).await?;
    Ok(Json(CoherenceAudit {
        engine: scanned.engine,
        fallback: scanned.fallback,
        compared_artifacts: scanned.compared,
        compared_decisions: scanned.compared_decisions,
        skipped_artifacts: scanned.skipped,
        is_too_large: scanned.is_too_large,
        similar_pairs: scanned.similar,
        misaligned_pairs: scanned.misaligned,
        raised_issues: scanned.raised,
        requested_reviews: request_reviews(&app, &project, started, &command.cause()).await?,
    }))
}

/// Requests the review of issues that were detected before the audit and have none. Returns the number of requests.
async fn request_reviews(
    app: &App,
    project: &Project,
    before: Timestamp,
    cause: &Cause,
) -> Result<usize, Problem> {
    if !app.integrations.has_model || !project.definition().coherence.enable_layer2 {
        return Ok(0);
    }
    let (owner, id) = (project.owner_id(), project.id());
    let (mut requested, mut after) = (0, None);
    loop {
        let open = app.store.coherence_issues(owner, id, IssueList::Open, PAGE, after).await?;
        let waiting = open.items.iter().filter(|issue| issue.needs_review() && issue.detected_at() < before);
        for issue in waiting {
            if requested == MAX_REQUESTS {
                return Ok(requested);
            }
            requested += usize::from(request_review(app, issue.id(), cause).await?);
        }
        after = open.next;
        if after.is_none() {
            return Ok(requested);
        }
    }
}

/// Requests the review of an issue. Returns whether it needed the request.
async fn request_review(app: &App, id: CoherenceIssueId, cause: &Cause) -> Result<bool, Problem> {
    let load = async || Ok::<_, Problem>(app.store.any_aggregate::<CoherenceIssue>(id).await?);
    let decide = |loaded: Option<LoadedAggregate<CoherenceIssue>>, ctx: &mut DomainContext<'_>| {
        let Some(mut loaded) = loaded else { return Ok(Decision::Unchanged(false)) };
        let events = loaded.value.request_review(ctx);
        if events.is_empty() {
            return Ok::<_, Problem>(Decision::Unchanged(false));
        }
        let mut commit = Commit::new();
        app.record_aggregate(&mut commit, &loaded, cause.clone(), events)?;
        Ok(Decision::Commit(commit, true))
    };
    app.unit_of_work().run(RetryPolicy::COMMAND, load, decide).await
}
