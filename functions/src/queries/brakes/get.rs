//! `GET /api/brakes/{id}`: returns an emergency brake with the progress of its sessions.

use axum::extract::State;
use pilothouse_api::brakes::BrakeView;
use pilothouse_app::App;
use pilothouse_app::command::CommandResponse;
use pilothouse_app::function::{HttpFunction, Verb};
use pilothouse_app::http::{Id, Owner, Problem};
use pilothouse_domain::{Brake, BrakeId};

use crate::loading::load_sessions;

pub const FUNCTION: HttpFunction =
    HttpFunction::new("brakes-get", Verb::Get, "/api/brakes/{id}", |verb| verb.route(get_brake))
        .owner()
        .summary("Get an emergency brake with the progress of its sessions")
        .output::<BrakeView>(&[200]);

/// Responds with 200 and the brake. The release accepts its `ETag` in `If-Match`.
async fn get_brake(
    State(app): State<App>,
    Owner(owner): Owner,
    Id(id): Id<BrakeId>,
) -> Result<CommandResponse, Problem> {
    let brake = app.store.aggregate::<Brake>(&owner, id).await?;
    let brake = brake.ok_or_else(|| Problem::NotFound("there is no such brake".to_owned()))?;
    let sessions = load_sessions(&app, brake.value.session_ids()).await?;
    CommandResponse::ok(brake.version, &BrakeView::of(&brake.value, &sessions, brake.version))
}
