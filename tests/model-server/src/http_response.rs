//! Error responses of providers.

use std::collections::BTreeMap;

use axum::{
    http::{HeaderMap, HeaderName, HeaderValue, StatusCode},
    response::{IntoResponse as _, Response},
};
use jiff::{Timestamp, ToSpan as _};
use serde_json::Value;

use crate::failure::Failure;

/// An error response of a provider.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Refusal {
    pub(crate) status: u16,
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) body: Value,
}

impl Refusal {
    /// An error response without additional headers.
    pub(crate) fn new(status: u16, body: Value) -> Self {
        Self { status, headers: BTreeMap::new(), body }
    }

    pub(crate) fn into_response(self) -> Response {
        let mut headers = HeaderMap::new();
        for (name, value) in &self.headers {
            if let (Ok(name), Ok(value)) = (name.parse::<HeaderName>(), HeaderValue::from_str(value)) {
                headers.insert(name, value);
            }
        }
        let status = StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        (status, headers, axum::Json(self.body)).into_response()
    }
}

/// Adds the `retry-after` header of a failure.
pub(crate) fn retry_after(mut refusal: Refusal, failure: &Failure) -> Refusal {
    if let Failure::RateLimited { retry_after, retry_after_date } = failure {
        let date = retry_after_date.map(http_date);
        if let Some(value) = retry_after.map(|seconds| seconds.to_string()).or(date) {
            refusal.headers.insert("retry-after".to_owned(), value);
        }
    }
    refusal
}

/// Seconds since the epoch, `from_now` seconds in the future.
pub(crate) fn epoch_seconds(from_now: u64) -> i64 {
    Timestamp::now().as_second().saturating_add(i64::try_from(from_now).unwrap_or(i64::MAX))
}

fn http_date(from_now: u64) -> String {
    let seconds = i64::try_from(from_now).unwrap_or(i64::MAX);
    let then = Timestamp::now().checked_add(seconds.seconds()).unwrap_or(Timestamp::MAX);
    then.strftime("%a, %d %b %Y %H:%M:%S GMT").to_string()
}
