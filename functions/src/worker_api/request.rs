//! Extractors and responses that the functions of workers share.

use axum::extract::{FromRequest, FromRequestParts, Request};
use axum::response::{IntoResponse, Response};
use http::request::Parts;
use pilothouse_app::App;
use pilothouse_app::http::body::{MAX_BODY_BYTES, whole_body};
use pilothouse_app::http::request::PathParams;
use pilothouse_app::http::{Owner, Problem};
use pilothouse_store::WorkerKey;
use serde::de::DeserializeOwned;

/// The worker that the path names. The key contains the calling owner, so that another owner's worker is never found.
#[derive(Debug, Clone)]
pub struct WorkerCaller(pub WorkerKey);

impl FromRequestParts<App> for WorkerCaller {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Problem> {
        let Owner(owner) = Owner::from_request_parts(parts, app).await?;
        let params = PathParams::from_request_parts(parts, app).await?;
        let id =
            params.get("id").unwrap_or_default().parse().map_err(|error| Problem::invalid("id", error))?;
        Ok(Self(WorkerKey { owner, id }))
    }
}

pub fn no_worker() -> Problem {
    Problem::NotFound("there is no such worker".to_owned())
}

pub fn no_run() -> Problem {
    Problem::NotFound("there is no such run for this worker".to_owned())
}

/// A JSON body in a type of the wire crate.
pub struct WireJson<T>(pub T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for WireJson<T> {
    type Rejection = Response;

    async fn from_request(request: Request, _: &S) -> Result<Self, Response> {
        let body = whole_body(request.into_body(), MAX_BODY_BYTES).await;
        let bytes = body.map_err(IntoResponse::into_response)?;
        serde_json::from_slice(&bytes).map(Self).map_err(|error| {
            Problem::invalid("", format!("the body is not what it should be: {error}")).into_response()
        })
    }
}
