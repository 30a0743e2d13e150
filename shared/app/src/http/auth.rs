//! Authenticates callers: owners by a signed token, agents by the key of their session.

use axum::extract::FromRequestParts;
use http::header;
use http::request::Parts;
use pilothouse_domain::{AgentSessionId, UserId};
use pilothouse_wire::keys::{constant_time_eq, sha256_hex};

use super::peer::{self, Caller, PeerConnection};
use super::{Problem, RequestId};
use crate::App;

fn bearer(parts: &Parts) -> Result<&str, Problem> {
    parts
        .headers
        .get(header::AUTHORIZATION)
        .and_then(|value| value.to_str().ok())
        .and_then(|value| value.split_once(' '))
        .filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"))
        .map(|(_, token)| token.trim())
        .ok_or(Problem::Unauthenticated("send `Authorization: Bearer` with your token"))
}

/// An owner whose token was verified before the request arrived, by API Gateway in `aws`. It is an extension of the request, which
/// a client cannot set.
#[derive(Debug, Clone)]
pub struct VerifiedOwner(pub UserId);

#[derive(Debug, Clone)]
pub struct Owner(pub UserId);

impl FromRequestParts<App> for Owner {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Problem> {
        if let Some(VerifiedOwner(owner)) = parts.extensions.get() {
            return Ok(Self(owner.clone()));
        }
        let owner = app.keyring.verify(bearer(parts)?)?;
        peer::authenticated(parts, || Caller::Owner(owner.clone()))?;
        Ok(Self(owner))
    }
}

#[derive(Debug, Clone)]
pub struct AgentCaller {
    /// The session that the key names. The key is verified when the session is loaded.
    pub session: AgentSessionId,
    pub idempotency_key: Option<String>,
    key: String,
    connection: Option<PeerConnection>,
}

impl AgentCaller {
    /// Whether the key matches the session's stored hash.
    pub fn is_known_by(&self, api_key_hash: Option<&str>) -> bool {
        api_key_hash.is_some_and(|hash| constant_time_eq(hash, &sha256_hex(self.key.as_bytes())))
    }
}

impl AgentCaller {
    /// Reports to the connection that the key is valid for the session.
    pub fn authenticated(&self) -> Result<(), Problem> {
        match &self.connection {
            Some(PeerConnection(peer)) => Ok(peer.authenticated(Caller::Session(self.session))?),
            None => Ok(()),
        }
    }
}

impl FromRequestParts<App> for AgentCaller {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Problem> {
        const REFUSED: Problem =
            Problem::Unauthenticated("send `Authorization: Bearer` with the session's API key");
        let key = bearer(parts).map_err(|_| REFUSED)?.to_owned();
        let session =
            key.strip_prefix("ph_").and_then(|rest| rest.split('.').next()).and_then(|id| id.parse().ok());
        let session = session.ok_or(REFUSED)?;
        let idempotency_key = RequestId::from_request_parts(parts, app).await?.key_hash;
        let connection = parts.extensions.get::<PeerConnection>().cloned();
        Ok(Self { session, idempotency_key, key, connection })
    }
}
