//! `POST /api/coherence`: records a coherence issue that a person has found (S2, "Trust score update rules"; decision 88).

use axum::extract::State;
use http::StatusCode;
use pilothouse_api::coherence::CoherenceIssueView;
use pilothouse_app::App;
use pilothouse_app::command::{CommandContext, CommandResponse};
use pilothouse_app::function::{HttpFunction, Verb};
use pilothouse_app::http::Problem;
use pilothouse_app::http::body::Body;
use pilothouse_domain::CoherenceIssueId;
use pilothouse_domain::coherence::{CoherenceIssue, IssueSource};

use crate::coherence::input::ReportIssue;

pub const FUNCTION: HttpFunction =
    HttpFunction::new("coherence-report", Verb::Post, "/api/coherence", |verb| verb.route(report_issue))
        .owner()
        .summary("Report a coherence issue")
        .input::<ReportIssue>()
        .output::<CoherenceIssueView>(&[201]);

/// Responds with 201 and the issue. The trust of the agents that wrote the artifacts falls, because they did not notice it.
async fn report_issue(
    State(app): State<App>,
    command: CommandContext,
    body: Body<ReportIssue>,
) -> Result<CommandResponse, Problem> {
    let command = command.with_body(&body.hash);
    let input = body.input;
    let project = app.chosen_project(&command.owner, input.project_id).await?.value;
    project.ensure_open()?;
    let artifacts = input.load(&app, &command.owner, &project).await?;
    let time = app.project_time(project.id()).await?.ok_or_else(Problem::no_project)?;
    let tick = time.tick(app.now())?;
    let source = IssueSource::Person { id: command.owner.clone() };
    app.create_aggregate(
        &command,
        |ctx| {
            let id = CoherenceIssueId::new(ctx.uuid());
            let finding = input.finding(source.clone(), &artifacts, None, ctx.now);
            let place = (command.owner.clone(), project.id());
            Ok(CoherenceIssue::detect(id, place, finding, tick, ctx))
        },
        |issue, version| {
            CommandResponse::new(StatusCode::CREATED, Some(version), &CoherenceIssueView::of(issue))
        },
    )
    .await
}
