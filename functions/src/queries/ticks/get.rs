//! `GET /api/tick`: returns the ticks of a project (S2, "Tick Service").

use axum::Json;
use axum::extract::State;
use pilothouse_api::trust::TickView;
use pilothouse_app::App;
use pilothouse_app::function::{HttpFunction, Verb};
use pilothouse_app::http::request::Parameters;
use pilothouse_app::http::{Owner, Problem};

pub const FUNCTION: HttpFunction =
    HttpFunction::new("tick-get", Verb::Get, "/api/tick", |verb| verb.route(get_tick))
        .owner()
        .summary("Get the current tick of a project")
        .query(&["projectId"])
        .output::<TickView>(&[200]);

/// Responds with 200 and the ticks. An owner with one project may leave out `projectId`.
async fn get_tick(
    State(app): State<App>,
    Owner(owner): Owner,
    parameters: Parameters,
) -> Result<Json<TickView>, Problem> {
    let project = app.chosen_project(&owner, parameters.parsed("projectId")?).await?.value;
    let time = app.project_time(project.id()).await?.ok_or_else(Problem::no_project)?;
    let now = app.now();
    Ok(Json(TickView::of(project.id(), &time.clock(now)?, now)))
}
