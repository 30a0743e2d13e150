//! What the functions of workers read of a request.

use axum::extract::{FromRequest, FromRequestParts, RawPathParams, Request};
use axum::response::{IntoResponse, Response};
use http::request::Parts;
use pilothouse_store::WorkerKey;
use serde::de::DeserializeOwned;

use crate::app::App;
use crate::edge::input::MAX_BODY_BYTES;
use crate::edge::{Owner, Problem};

/// The worker in the path, among those of the owner who is calling: another owner's is none.
#[derive(Debug, Clone)]
pub struct Known(pub WorkerKey);

impl FromRequestParts<App> for Known {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Problem> {
        let Owner(owner) = Owner::from_request_parts(parts, app).await?;
        let params = RawPathParams::from_request_parts(parts, app).await.map_err(Problem::internal)?;
        let id = params.iter().find(|(name, _)| *name == "id").map(|(_, id)| id).unwrap_or_default();
        let id = id.parse().map_err(|error| Problem::invalid("id", error))?;
        Ok(Self(WorkerKey { owner, id }))
    }
}

/// A worker that was asked for and is not registered.
pub(super) fn no_worker() -> Problem {
    Problem::NotFound("there is no such worker".to_owned())
}

/// A run that is not the worker's business.
pub(super) fn no_run() -> Problem {
    Problem::NotFound("there is no such run for this worker".to_owned())
}

/// A body in the published language.
pub struct Sent<T>(pub T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for Sent<T> {
    type Rejection = Response;

    async fn from_request(request: Request, _: &S) -> Result<Self, Response> {
        let bytes = axum::body::to_bytes(request.into_body(), MAX_BODY_BYTES)
            .await
            .map_err(|_| Problem::TooLarge { limit: MAX_BODY_BYTES }.into_response())?;
        serde_json::from_slice(&bytes).map(Self).map_err(|error| {
            Problem::invalid("", format!("the body is not what it should be: {error}")).into_response()
        })
    }
}
