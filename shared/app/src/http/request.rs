use axum::extract::rejection::RawPathParamsRejection;
use axum::extract::{FromRequestParts, Query, RawPathParams};
use http::request::Parts;
use http::{HeaderMap, header};
use pilothouse_domain::AgentSessionId;
use pilothouse_wire::keys::sha256_hex;
use serde::Deserialize;

use super::Problem;

/// The session in the path. A malformed id is answered like an unknown session.
#[derive(Debug, Clone, Copy)]
pub struct Session(pub AgentSessionId);

impl<S: Send + Sync> FromRequestParts<S> for Session {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        path_id(parts, state, "id").await.map(Self).map_err(|_| Problem::no_session())
    }
}

/// Parses a path parameter. A malformed value is answered with 404.
pub async fn path_id<S: Send + Sync, T: std::str::FromStr>(
    parts: &mut Parts,
    state: &S,
    name: &str,
) -> Result<T, Problem> {
    let params = PathParams::from_request_parts(parts, state).await?;
    let value = params.get(name).and_then(|value| value.parse().ok());
    value.ok_or_else(|| Problem::NotFound("there is no object with this id".to_owned()))
}

/// The decoded path parameters. A path that is not valid UTF-8 is answered with 404.
pub struct PathParams(RawPathParams);

impl PathParams {
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(key, _)| *key == name).map(|(_, value)| value)
    }
}

impl<S: Send + Sync> FromRequestParts<S> for PathParams {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        RawPathParams::from_request_parts(parts, state).await.map(Self).map_err(|rejection| match rejection {
            RawPathParamsRejection::InvalidUtf8InPathParam(_) => {
                Problem::NotFound("there is nothing at this address".to_owned())
            }
            other => Problem::internal(other),
        })
    }
}

/// The `{id}` of a chain, a skill or a template in the path. A malformed id is answered like an unknown one.
#[derive(Debug, Clone, Copy)]
pub struct Id<T>(pub T);

impl<S: Send + Sync, T: std::str::FromStr> FromRequestParts<S> for Id<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        path_id(parts, state, "id").await.map(Self)
    }
}

/// Ids in the path. A malformed one is answered like an unknown one.
macro_rules! path_ids {
    ($($(#[$doc:meta])* $name:ident($id:ty) = $parameter:literal, $missing:expr;)*) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, Copy)]
        pub struct $name(pub $id);

        impl<S: Send + Sync> FromRequestParts<S> for $name {
            type Rejection = Problem;

            async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
                path_id(parts, state, $parameter).await.map(Self).map_err(|_| $missing)
            }
        }
    )*};
}

path_ids! {
    /// A message of a session.
    Message(pilothouse_domain::MessageId) = "messageId", Problem::no("message");
    /// A webhook of an owner.
    WebhookOf(pilothouse_domain::WebhookId) = "id", Problem::no("webhook");
    /// A browser that receives notifications.
    WebPushSubscriptionOf(pilothouse_domain::WebPushSubscriptionId) = "id", Problem::no("subscription");
    /// A decision of the inbox.
    DecisionOf(pilothouse_domain::DecisionId) = "id", Problem::no_decision();
    /// The number of a notification.
    Numbered(u64) = "id", Problem::no("notification");
}

/// None: any version.
#[derive(Debug, Clone, Copy, Default)]
pub struct IfMatch(pub Option<u64>);

impl IfMatch {
    pub fn check(self, version: u64) -> Result<(), Problem> {
        match self.0 {
            Some(expected) if expected != version => Err(Problem::PreconditionFailed),
            _ => Ok(()),
        }
    }
}

impl<S: Send + Sync> FromRequestParts<S> for IfMatch {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        let Some(value) = header_text(&parts.headers, header::IF_MATCH.as_str())? else {
            return Ok(Self(None));
        };
        if value == "*" {
            return Ok(Self(None));
        }
        let version = value.trim().trim_start_matches("W/").trim_matches('"').parse();
        version
            .map(|v| Self(Some(v)))
            .map_err(|_| Problem::invalid("If-Match", "must be an ETag that an answer carried"))
    }
}

fn header_text<'a>(headers: &'a HeaderMap, name: &str) -> Result<Option<&'a str>, Problem> {
    headers
        .get(name)
        .map(|v| v.to_str().map_err(|_| Problem::invalid(name, "must be plain text")))
        .transpose()
}

/// The `Idempotency-Key`. A retry with the same key receives the response to the first request.
#[derive(Debug, Clone, Default)]
pub struct RequestId {
    pub key_hash: Option<String>,
}

impl<S: Send + Sync> FromRequestParts<S> for RequestId {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        let key = header_text(&parts.headers, "idempotency-key")?;
        if key.is_some_and(|k| k.is_empty() || k.len() > 255) {
            return Err(Problem::invalid("Idempotency-Key", "must have 1 to 255 characters"));
        }
        Ok(Self { key_hash: key.map(|k| sha256_hex(k.as_bytes())) })
    }
}

/// The `limit` and `cursor` of a list request (decision 5).
#[derive(Debug, Clone)]
pub struct PageRequest {
    /// The maximum number of items: 1 to 200, 50 by default.
    pub limit: usize,
    /// The position to continue from.
    pub cursor: Option<String>,
}

impl PageRequest {
    pub const DEFAULT_LIMIT: usize = 50;
    pub const MAX_LIMIT: usize = 200;
}

impl<S: Send + Sync> FromRequestParts<S> for PageRequest {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        #[derive(Deserialize)]
        struct Raw {
            limit: Option<String>,
            cursor: Option<String>,
        }
        let Query(raw) = Query::<Raw>::from_request_parts(parts, state)
            .await
            .map_err(|_| Problem::invalid("query", "cannot be read"))?;
        let limit = match raw.limit {
            None => Self::DEFAULT_LIMIT,
            Some(text) => text
                .parse()
                .ok()
                .filter(|n| (1..=Self::MAX_LIMIT).contains(n))
                .ok_or_else(|| Problem::invalid("limit", format!("must be 1 to {}", Self::MAX_LIMIT)))?,
        };
        Ok(Self { limit, cursor: raw.cursor.filter(|c| !c.is_empty()) })
    }
}

#[derive(Debug, Clone, Default)]
pub struct Parameters(Vec<(String, String)>);

impl Parameters {
    /// The text of a parameter. An empty text counts as absent.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str()).filter(|v| !v.is_empty())
    }

    pub fn parsed<T: std::str::FromStr>(&self, name: &str) -> Result<Option<T>, Problem>
    where
        T::Err: std::fmt::Display,
    {
        self.text(name).map(|text| text.parse().map_err(|error| Problem::invalid(name, error))).transpose()
    }

    /// Parses a parameter by the names of its values.
    pub fn one_of<T: std::fmt::Display + Copy>(&self, name: &str, all: &[T]) -> Result<Option<T>, Problem> {
        let Some(text) = self.text(name) else { return Ok(None) };
        let value = all.iter().find(|value| value.to_string() == text).copied();
        value.map(Some).ok_or_else(|| {
            let names: Vec<_> = all.iter().map(ToString::to_string).collect();
            Problem::invalid(name, format!("must be one of {}", names.join(", ")))
        })
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Parameters {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let Query(pairs) = Query::<Vec<(String, String)>>::from_request_parts(parts, state)
            .await
            .map_err(|_| Problem::invalid("query", "cannot be read"))?;
        Ok(Self(pairs))
    }
}
