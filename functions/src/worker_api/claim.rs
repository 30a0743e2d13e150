//! `POST /api/workers/{id}/claims`: claims a run that was assigned to the worker and returns its keys (decisions 7, 8).

use axum::Json;
use axum::extract::State;
use pilothouse_app::App;
use pilothouse_app::function::requirements::CLAIM;
use pilothouse_app::function::{HttpFunction, Verb};
use pilothouse_app::http::Problem;
use pilothouse_app::placement::Claim;
use pilothouse_app::placement::WorkerAssigner;
use pilothouse_wire::worker::{ClaimResponse, ClaimRun};

use super::request::{WireJson, WorkerCaller, no_run};

pub const FUNCTION: HttpFunction =
    HttpFunction::new("workers-claim", Verb::Post, "/api/workers/{id}/claims", |verb| verb.route(claim_run))
        .owner()
        .summary("Claim an assigned run")
        .input::<ClaimRun>()
        .output::<ClaimResponse>(&[200])
        .requires(CLAIM);

/// Responds with 200 and the outcome. The worker that holds the run receives the keys again when it repeats the claim.
/// Responds with 404 for a run that was never assigned to this worker.
async fn claim_run(
    State(app): State<App>,
    WorkerCaller(key): WorkerCaller,
    WireJson(claim): WireJson<ClaimRun>,
) -> Result<Json<ClaimResponse>, Problem> {
    let fleet = app.fleet()?;
    let response = match WorkerAssigner::of(&app).claim(&key, claim.run_id).await? {
        Claim::Granted(request) => {
            // Uses the stored request, so that a worker cannot obtain the keys of another retry.
            ClaimResponse::Claimed { access: Box::new(fleet.run_access_issuer.issue(&app.secret, &request)) }
        }
        Claim::HeldByOther => ClaimResponse::HeldByOther {},
        Claim::RunIsOver => ClaimResponse::RunIsOver {},
        Claim::Unknown => return Err(no_run()),
    };
    Ok(Json(response))
}
