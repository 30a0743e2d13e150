//! The login of the web console that authenticated a request, as an extractor.

use std::convert::Infallible;

use axum::extract::FromRequestParts;
use http::request::Parts;
use pilothouse_domain::ConsoleLoginId;

/// The login of the web console that authenticated a request; `None` for other requests. It is an extension of the request, which
/// a client cannot set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CurrentLogin(pub Option<ConsoleLoginId>);

impl<S: Send + Sync> FromRequestParts<S> for CurrentLogin {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        Ok(parts.extensions.get::<Self>().copied().unwrap_or_default())
    }
}
