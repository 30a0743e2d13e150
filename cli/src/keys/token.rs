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

/// For whom a token is signed, and in whose name: what its reader must expect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trust {
    /// The issuer.
    pub issuer: String,
    /// The audience.
    pub audience: String,
}

impl Default for Trust {
    /// That of the embedded server.
    fn default() -> Self {
        Self { issuer: ISSUER.into(), audience: AUDIENCE.into() }
    }
}

pub(super) fn mint(
    keys: &LocalKeys,
    owner: &UserId,
    ttl: Duration,
    trust: &Trust,
) -> Result<String, KeyError> {
    let now = get_current_timestamp();
    let claims = Claims {
        iss: trust.issuer.clone(),
        aud: trust.audience.clone(),
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
