//! RS256 JSON Web Tokens with a `kid` (never `alg: none`).

use std::time::Duration;

use jsonwebtoken::{Algorithm, Header, Validation, decode, decode_header, encode, get_current_timestamp};
use pilothouse_domain::UserId;
use serde::{Deserialize, Serialize};

use super::{AUDIENCE, ISSUER, KeyError, LocalKeys};

/// Times are seconds since the Unix epoch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Claims {
    pub iss: String,
    pub aud: String,
    /// The owner that the token authenticates.
    pub sub: UserId,
    pub iat: u64,
    pub exp: u64,
    /// Distinguishes tokens that may be revoked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jti: Option<String>,
}

/// Issuer and audience that a verifier expects in a token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenSettings {
    pub issuer: String,
    pub audience: String,
}

impl Default for TokenSettings {
    /// The issuer and audience of the embedded server.
    fn default() -> Self {
        Self { issuer: ISSUER.into(), audience: AUDIENCE.into() }
    }
}

pub(super) fn mint(
    keys: &LocalKeys,
    owner: &UserId,
    ttl: Duration,
    settings: &TokenSettings,
    id: Option<String>,
) -> Result<String, KeyError> {
    let now = get_current_timestamp();
    let claims = Claims {
        iss: settings.issuer.clone(),
        aud: settings.audience.clone(),
        sub: owner.clone(),
        iat: now,
        exp: now.saturating_add(ttl.as_secs()),
        jti: id,
    };
    let header = Header { kid: Some(keys.kid.clone()), ..Header::new(Algorithm::RS256) };
    Ok(encode(&header, &claims, &keys.encoding)?)
}

pub(super) fn verify(keys: &LocalKeys, token: &str, settings: &TokenSettings) -> Result<Claims, KeyError> {
    use jsonwebtoken::errors::{Error, ErrorKind};

    if decode_header(token)?.kid.as_deref() != Some(keys.kid()) {
        return Err(Error::from(ErrorKind::InvalidSignature).into());
    }
    let mut validation = Validation::new(Algorithm::RS256);
    validation.set_issuer(&[&settings.issuer]);
    validation.set_audience(&[&settings.audience]);
    validation.set_required_spec_claims(&["exp", "iss", "aud", "sub"]);
    validation.validate_nbf = true;
    Ok(decode::<Claims>(token, keys.decoding_key(), &validation)?.claims)
}
