//! Tokens: RS256 JSON Web Tokens that name their key (never `alg: none`).

use std::time::Duration;

use jsonwebtoken::{Algorithm, Header, Validation, decode, decode_header, encode, get_current_timestamp};
use pilothouse_domain::UserId;
use serde::{Deserialize, Serialize};

use super::{AUDIENCE, ISSUER, KeyError, LocalKeys};

/// What a token says. Times are seconds since the Unix epoch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Claims {
    /// Who signed it.
    pub iss: String,
    /// Who it is for.
    pub aud: String,
    /// Whom it speaks for.
    pub sub: UserId,
    /// When it was signed.
    pub iat: u64,
    /// When it ends.
    pub exp: u64,
}

pub(super) fn mint(keys: &LocalKeys, owner: &UserId, ttl: Duration) -> Result<String, KeyError> {
    let now = get_current_timestamp();
    let claims = Claims {
        iss: ISSUER.into(),
        aud: AUDIENCE.into(),
        sub: owner.clone(),
        iat: now,
        exp: now.saturating_add(ttl.as_secs()),
    };
    let header = Header { kid: Some(keys.kid.clone()), ..Header::new(Algorithm::RS256) };
    Ok(encode(&header, &claims, &keys.encoding)?)
}

pub(super) fn verify(keys: &LocalKeys, token: &str) -> Result<Claims, KeyError> {
    use jsonwebtoken::errors::{Error, ErrorKind};

    if decode_header(token)?.kid.as_deref() != Some(keys.kid()) {
        return Err(Error::from(ErrorKind::InvalidSignature).into());
    }
    let mut validation = Validation::new(Algorithm::RS256);
    validation.set_issuer(&[ISSUER]);
    validation.set_audience(&[AUDIENCE]);
    validation.set_required_spec_claims(&["exp", "iss", "aud", "sub"]);
    Ok(decode::<Claims>(token, keys.decoding_key(), &validation)?.claims)
}
