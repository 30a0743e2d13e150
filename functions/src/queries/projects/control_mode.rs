//! `GET /api/control-mode`: the control mode of a project (S2, "Frontend REST API").

use axum::Json;
use axum::extract::State;
use pilothouse_api::projects::ControlModeView;
use pilothouse_app::App;
use pilothouse_app::function::{HttpFunction, Verb};
use pilothouse_app::http::request::Parameters;
use pilothouse_app::http::{Owner, Problem};

pub const FUNCTION: HttpFunction =
    HttpFunction::new("control-mode-get", Verb::Get, "/api/control-mode", |verb| {
        verb.route(get_control_mode)
    })
    .owner()
    .summary("Read the control mode of a project")
    .query(&["projectId"])
    .output::<ControlModeView>(&[200]);

/// Responds with 200 and the mode. An owner with one project may leave out `projectId`.
async fn get_control_mode(
    State(app): State<App>,
    Owner(owner): Owner,
    parameters: Parameters,
) -> Result<Json<ControlModeView>, Problem> {
    let project = app.chosen_project(&owner, parameters.parsed("projectId")?).await?.value;
    Ok(Json(ControlModeView::of(&project)))
}
