//! `POST /api/tick/advance`: advances the ticks of a project in manual mode (S2, "Tick Service").

use axum::extract::State;
use deserr::Deserr;
use pilothouse_api::input::Violations;
use pilothouse_api::trust::TickView;
use pilothouse_app::App;
use pilothouse_app::command::{CommandContext, CommandResponse};
use pilothouse_app::function::{HttpFunction, Verb};
use pilothouse_app::http::Problem;
use pilothouse_app::http::body::Body;
use pilothouse_app::ticks::ProjectTime;
use pilothouse_app::unit_of_work::Decision;
use pilothouse_domain::{DomainContext, ProjectId};
use schemars::JsonSchema;

pub const FUNCTION: HttpFunction =
    HttpFunction::new("tick-advance", Verb::Post, "/api/tick/advance", |verb| verb.route(advance_ticks))
        .owner()
        .summary("Advance the ticks of a project in manual mode")
        .input::<AdvanceTicks>()
        .output::<TickView>(&[200]);

/// How far the ticks advance.
#[derive(Debug, Clone, Copy, Deserr, JsonSchema)]
#[deserr(error = Violations, rename_all = camelCase, deny_unknown_fields)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
pub struct AdvanceTicks {
    /// The project. An owner with one project may leave it out.
    #[deserr(default)]
    pub project_id: Option<ProjectId>,
    /// The number of ticks: 1 to 1,000,000. Default: 1.
    #[deserr(default = 1)]
    #[schemars(default = "one", range(min = 1, max = 1_000_000))]
    pub ticks: u64,
}

const fn one() -> u64 {
    1
}

/// Responds with 200 and the ticks, or with 409 `ticks-not-manual` when time advances the ticks of the project.
async fn advance_ticks(
    State(app): State<App>,
    command: CommandContext,
    body: Body<AdvanceTicks>,
) -> Result<CommandResponse, Problem> {
    let command = command.with_body(&body.hash);
    let project = app.chosen_project(&command.owner, body.input.project_id).await?.value.id();
    let load = async || app.project_time(project).await?.ok_or_else(Problem::no_project);
    let decide = |mut time: ProjectTime, ctx: &mut DomainContext<'_>| {
        command.check_version(time.version())?;
        let mut clock = time.clock(ctx.now)?;
        clock.advance(body.input.ticks)?;
        let response = CommandResponse::ok(time.version() + 1, &TickView::of(project, &clock, ctx.now))?;
        // An advanced clock differs from the stored one.
        let Some(mut commit) = time.commit(clock)? else { return Ok(Decision::Unchanged(response)) };
        let events = time.project.value.advance_ticks(body.input.ticks, ctx);
        app.record_aggregate(&mut commit, &time.project, command.cause(), events)?;
        Ok(Decision::Commit(commit, response))
    };
    app.unit_of_work().run_command(&command, load, decide).await
}
