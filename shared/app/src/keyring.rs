use std::collections::HashMap;

use jsonwebtoken::jwk::{AlgorithmParameters, Jwk, KeyAlgorithm, PublicKeyUse};
use jsonwebtoken::{Algorithm, DecodingKey, Validation, decode, decode_header};
use pilothouse_domain::{Timestamp, UserId};
use serde::Deserialize;

use crate::problem::Problem;

/// The tolerated difference between the clocks of the issuer and this server, in seconds.
pub const LEEWAY_SECONDS: u64 = 5;

/// The issuer's public keys by `kid`, and the required claims of a token.
pub struct Keyring {
    keys: HashMap<String, DecodingKey>,
    validation: Validation,
    admission: Option<Box<dyn Admission>>,
}

/// Decides whether an owner with a valid token is served.
pub trait Admission: Send + Sync {
    /// Returns an error, which becomes the response, if the owner is not served.
    fn admit(&self, owner: &UserId) -> Result<(), Problem>;
}

#[derive(Deserialize)]
struct Claims {
    sub: String,
    exp: u64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VerifiedToken {
    pub owner: UserId,
    pub ends: Timestamp,
}

#[derive(Debug, thiserror::Error)]
pub enum JwksError {
    /// The document is not JSON with a list of keys (RFC 7517).
    #[error("failed to parse the key set")]
    Unreadable(#[source] serde_json::Error),
    /// No key can verify tokens that are accepted here.
    #[error("the key set has no RSA key with a `kid`")]
    Empty,
}

/// Returns the keys of a set (RFC 7517) that may sign: RSA, with a `kid`, and not restricted to other algorithms or uses.
fn signing_keys(jwks: &str) -> Result<HashMap<String, DecodingKey>, JwksError> {
    #[derive(Deserialize)]
    struct Set {
        keys: Vec<serde_json::Value>,
    }
    let set: Set = serde_json::from_str(jwks).map_err(JwksError::Unreadable)?;
    let keys: HashMap<_, _> = set
        .keys
        .into_iter()
        // Parsed one by one, because a key of an unknown type must not hide the others.
        .filter_map(|key| serde_json::from_value::<Jwk>(key).ok())
        .filter(|key| matches!(key.algorithm, AlgorithmParameters::RSA(_)))
        .filter(|key| matches!(key.common.public_key_use, None | Some(PublicKeyUse::Signature)))
        .filter(|key| matches!(key.common.key_algorithm, None | Some(KeyAlgorithm::RS256)))
        .filter_map(|key| Some((key.common.key_id.clone()?, DecodingKey::from_jwk(&key).ok()?)))
        .collect();
    if keys.is_empty() { Err(JwksError::Empty) } else { Ok(keys) }
}

impl Keyring {
    /// Accepts RS256 tokens of `issuer` for `audience` that one of `keys` signed. It never accepts `alg: none`, or a key inside
    /// the token.
    pub fn new(issuer: &str, audience: &str, keys: HashMap<String, DecodingKey>) -> Self {
        let mut validation = Validation::new(Algorithm::RS256);
        validation.set_issuer(&[issuer]);
        validation.set_audience(&[audience]);
        validation.set_required_spec_claims(&["exp", "iss", "aud", "sub"]);
        validation.validate_nbf = true;
        validation.leeway = LEEWAY_SECONDS;
        Self { keys, validation, admission: None }
    }

    pub fn of_jwks(issuer: &str, audience: &str, jwks: &str) -> Result<Self, JwksError> {
        Ok(Self::new(issuer, audience, signing_keys(jwks)?))
    }

    #[must_use]
    pub fn admitting(self, admission: impl Admission + 'static) -> Self {
        Self { admission: Some(Box::new(admission)), ..self }
    }

    /// Whether the keyring has the key that a token names.
    pub fn knows_key_of(&self, token: &str) -> bool {
        let kid = decode_header(token).ok().and_then(|header| header.kid);
        kid.is_some_and(|kid| self.keys.contains_key(&kid))
    }

    /// Also refuses an owner that is not served.
    pub fn verify(&self, token: &str) -> Result<UserId, Problem> {
        let owner = self.check(token)?.owner;
        if let Some(admission) = &self.admission {
            admission.admit(&owner)?;
        }
        Ok(owner)
    }

    pub fn check(&self, token: &str) -> Result<VerifiedToken, Problem> {
        const REFUSED: Problem = Problem::Unauthenticated("the token is not valid; get a new one");
        let header = decode_header(token).map_err(|_| REFUSED)?;
        if header.alg != Algorithm::RS256 {
            return Err(REFUSED);
        }
        let key = header.kid.as_deref().and_then(|kid| self.keys.get(kid)).ok_or(REFUSED)?;
        let claims = decode::<Claims>(token, key, &self.validation).map_err(|_| REFUSED)?.claims;
        let owner = UserId::parse(claims.sub).map_err(|_| REFUSED)?;
        let millis = i64::try_from(claims.exp.saturating_mul(1000)).unwrap_or(i64::MAX);
        Ok(VerifiedToken { owner, ends: Timestamp::from_millis(millis) })
    }
}
