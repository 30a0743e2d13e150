//! `POST /api/coherence/audit`: compares the texts of all artifacts of a project (S2, "Semantic similarity"; decision 88).

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
use pilothouse_domain::ProjectId;
use schemars::JsonSchema;

use crate::coherence::scan::scan_project;

pub const FUNCTION: HttpFunction =
    HttpFunction::new("coherence-audit", Verb::Post, "/api/coherence/audit", |verb| {
        verb.route(audit_coherence)
    })
    .owner()
    .summary("Compare the texts of a project's artifacts")
    .input::<AuditCoherence>()
    .output::<CoherenceAudit>(&[200])
    .requires(COHERENCE_SCAN);

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
/// overlapping work. It cannot find contradictions or gaps.
async fn audit_coherence(
    State(app): State<App>,
    command: CommandContext,
    body: Body<AuditCoherence>,
) -> Result<Json<CoherenceAudit>, Problem> {
    let project = app.chosen_project(&command.owner, body.input.project_id).await?.value;
    project.ensure_open()?;
    let time = app.project_time(project.id()).await?.ok_or_else(Problem::no_project)?;
    let tick = time.tick(app.now())?;
    let place = (&command.owner, project.id());
    let scanned = scan_project(&app, place, None, tick, &command.cause()).await?;
    Ok(Json(CoherenceAudit {
        engine: "lexical".to_owned(),
        compared_artifacts: scanned.compared,
        skipped_artifacts: scanned.skipped,
        is_too_large: scanned.is_too_large,
        similar_pairs: scanned.similar,
        raised_issues: scanned.raised,
    }))
}
