use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use jsonwebtoken::jwk::{AlgorithmParameters, Jwk, KeyAlgorithm, PublicKeyUse};
use jsonwebtoken::{Algorithm, DecodingKey, Validation, decode, decode_header};
use pilothouse_domain::{Timestamp, UserId};
use pilothouse_wire::keys::sha256_hex;
use serde::Deserialize;

use crate::problem::Problem;

/// The tolerated difference between the clocks of the issuer and this server, in seconds.
pub const LEEWAY_SECONDS: u64 = 5;

/// The issuer's public keys by `kid`, and the required claims of a token.
pub struct Keyring {
    keys: HashMap<String, DecodingKey>,
    validation: Validation,
    admission: Option<Box<dyn Admission>>,
    verified: VerifiedTokens,
}

/// The last verified tokens by their hash, because the verification of a signature is a large part of a short request.
#[derive(Default)]
struct VerifiedTokens(Mutex<HashMap<String, VerifiedToken>>);

impl VerifiedTokens {
    /// Most tokens. An owner may use another one for each request, so a cache that is full of valid ones is emptied.
    const CAPACITY: usize = 1000;

    fn tokens(&self) -> MutexGuard<'_, HashMap<String, VerifiedToken>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The token with this hash, if it is valid at `seconds` after the epoch. Its signature and its other claims stay valid.
    fn get(&self, hash: &str, seconds: u64) -> Option<VerifiedToken> {
        let mut tokens = self.tokens();
        let token = tokens.get(hash)?;
        if token.is_valid_at(seconds) {
            return Some(token.clone());
        }
        tokens.remove(hash);
        None
    }

    fn insert(&self, hash: String, token: VerifiedToken, seconds: u64) {
        let mut tokens = self.tokens();
        if tokens.len() >= Self::CAPACITY {
            tokens.retain(|_, token| token.is_valid_at(seconds));
        }
        if tokens.len() >= Self::CAPACITY {
            tokens.clear();
        }
        tokens.insert(hash, token);
    }
}

fn seconds_now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
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

impl VerifiedToken {
    /// Whether it has not ended at `seconds` after the epoch, as [`Validation`] decides it.
    fn is_valid_at(&self, seconds: u64) -> bool {
        let seconds = i64::try_from(seconds.saturating_sub(LEEWAY_SECONDS)).unwrap_or(i64::MAX);
        seconds.saturating_mul(1000) <= self.ends.as_millis()
    }
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
        Self { keys, validation, admission: None, verified: VerifiedTokens::default() }
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
        let (hash, seconds) = (sha256_hex(token.as_bytes()), seconds_now());
        if let Some(verified) = self.verified.get(&hash, seconds) {
            return Ok(verified);
        }
        let verified = self.check_signature(token)?;
        self.verified.insert(hash, verified.clone(), seconds);
        Ok(verified)
    }

    fn check_signature(&self, token: &str) -> Result<VerifiedToken, Problem> {
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

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn token_until(seconds: i64) -> VerifiedToken {
        VerifiedToken { owner: UserId::parse("ada").unwrap(), ends: Timestamp::from_millis(seconds * 1000) }
    }

    #[test]
    fn a_verified_token_is_valid_until_its_end_with_the_leeway() {
        let tokens = VerifiedTokens::default();
        tokens.insert("a".to_owned(), token_until(100), 0);
        assert_eq!(tokens.get("b", 0), None);
        assert_eq!(tokens.get("a", 100 + LEEWAY_SECONDS), Some(token_until(100)));
        assert_eq!(tokens.get("a", 101 + LEEWAY_SECONDS), None);
        assert_eq!(tokens.get("a", 0), None, "it was forgotten");
    }

    #[test]
    fn verified_tokens_have_a_limit_and_ended_ones_leave_first() {
        let tokens = VerifiedTokens::default();
        tokens.insert("long".to_owned(), token_until(1000), 0);
        for n in 1..VerifiedTokens::CAPACITY {
            tokens.insert(n.to_string(), token_until(10), 0);
        }
        tokens.insert("next".to_owned(), token_until(1000), 100);
        assert_eq!(tokens.tokens().len(), 2);
        assert!(tokens.get("long", 100).is_some());
        for n in 0..2 * VerifiedTokens::CAPACITY {
            tokens.insert(n.to_string(), token_until(1000), 100);
        }
        assert!(tokens.tokens().len() <= VerifiedTokens::CAPACITY);
    }
}
