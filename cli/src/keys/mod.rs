//! The keys of a data folder: what an embedded server signs with, and what the program on the same machine mints its
//! tokens from.
//!
//! | file              | what it is                                                     |
//! |-------------------|----------------------------------------------------------------|
//! | `secret`          | 32 random bytes, the [`RootSecret`] of ruling 8                |
//! | `signing-key.pk8` | an RSA key of 2048 bits, PKCS #8; tokens are signed with it    |
//!
//! Both are readable by their owner alone (mode 0600) and are made at first use. Whoever can read them is the
//! server's operator: there is nothing to log in to on one's own machine.

mod files;
mod pkcs8;
mod token;

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use aws_lc_rs::encoding::{AsDer, Pkcs8V1Der};
use aws_lc_rs::rsa::{KeyPair, KeySize};
use jsonwebtoken::jwk::{Jwk, JwkSet, PublicKeyUse, ThumbprintHash};
use jsonwebtoken::{Algorithm, DecodingKey, EncodingKey};
use pilothouse_domain::UserId;
use pilothouse_wire::keys::RootSecret;

pub use token::{Claims, Trust};

/// The issuer of local tokens.
pub const ISSUER: &str = "pilothouse-local";
/// The audience of local tokens.
pub const AUDIENCE: &str = "pilothouse";
/// The owner that the program speaks for when nothing else is said.
pub const DEFAULT_OWNER: &str = "local";

/// The file of the root secret, in the data folder.
pub const SECRET_FILE: &str = "secret";
/// The file of the signing key, in the data folder.
pub const SIGNING_KEY_FILE: &str = "signing-key.pk8";

/// The characters of the key's thumbprint that are its id.
const KID_LENGTH: usize = 16;

/// Why the keys cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// A file or folder cannot be read or written.
    #[error("cannot {doing} {}: {source}", path.display())]
    Io {
        /// `read`, `create`, …
        doing: &'static str,
        /// Which.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// Others on this machine could read the file.
    #[error("{} can be read by others (mode {mode:o}); close it with `chmod 600 {}`", path.display(), path.display())]
    TooOpen {
        /// Which.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
    /// The file does not hold what it should.
    #[error("{} is damaged: {why}; restore it, or remove it to get a new one", path.display())]
    Damaged {
        /// Which.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// The random source or the key generator failed.
    #[error("the system's cryptography failed to make a key")]
    Generate,
    /// Signing or checking a token failed.
    #[error("the token: {0}")]
    Token(#[from] jsonwebtoken::errors::Error),
}

/// The keys of one data folder. Cloning is not needed: share it in an `Arc`.
pub struct LocalKeys {
    secret: RootSecret,
    encoding: EncodingKey,
    decoding: DecodingKey,
    jwks: JwkSet,
    kid: String,
}

impl LocalKeys {
    /// Opens the keys in `data`, and makes the folder (mode 0700) and the keys where they are missing.
    ///
    /// Any number of processes may do this at once: they end up with the same keys.
    pub fn open_or_create(data: &Path) -> Result<Self, KeyError> {
        files::create_folder(data)?;
        let secret = files::read_or_create(&data.join(SECRET_FILE), || {
            let mut bytes = vec![0; RootSecret::MIN_BYTES];
            aws_lc_rs::rand::fill(&mut bytes).map_err(|_| KeyError::Generate)?;
            Ok(bytes)
        })?;
        let signing = files::read_or_create(&data.join(SIGNING_KEY_FILE), || {
            let pair = KeyPair::generate(KeySize::Rsa2048).map_err(|_| KeyError::Generate)?;
            let der: Pkcs8V1Der<'_> = pair.as_der().map_err(|_| KeyError::Generate)?;
            Ok(der.as_ref().to_vec())
        })?;
        Self::of(data, secret, &signing)
    }

    /// Opens the keys in `data`; nothing when none were made there yet.
    pub fn open(data: &Path) -> Result<Option<Self>, KeyError> {
        let secret = files::read(&data.join(SECRET_FILE))?;
        let signing = files::read(&data.join(SIGNING_KEY_FILE))?;
        match (secret, signing) {
            (Some(secret), Some(signing)) => Self::of(data, secret, &signing).map(Some),
            _ => Ok(None),
        }
    }

    fn of(data: &Path, secret: Vec<u8>, signing: &[u8]) -> Result<Self, KeyError> {
        let damaged = |file: &str, why: String| KeyError::Damaged { path: data.join(file), why };
        let secret = RootSecret::new("local", secret).ok_or_else(|| {
            damaged(SECRET_FILE, format!("it has fewer than {} bytes", RootSecret::MIN_BYTES))
        })?;
        let key = pkcs8::rsa_private_key(signing)
            .ok_or_else(|| damaged(SIGNING_KEY_FILE, "it is not an RSA key in PKCS #8".into()))?;
        let encoding = EncodingKey::from_rsa_der(key);
        let mut jwk = Jwk::from_encoding_key(&encoding, Algorithm::RS256)
            .map_err(|e| damaged(SIGNING_KEY_FILE, e.to_string()))?;
        let kid: String = jwk.thumbprint(ThumbprintHash::SHA256)?.chars().take(KID_LENGTH).collect();
        jwk.common.key_id = Some(kid.clone());
        jwk.common.public_key_use = Some(PublicKeyUse::Signature);
        let decoding = DecodingKey::from_jwk(&jwk)?;
        Ok(Self { secret, encoding, decoding, jwks: JwkSet { keys: vec![jwk] }, kid })
    }

    /// The secret that run and session keys are derived from (ruling 8).
    pub const fn root_secret(&self) -> &RootSecret {
        &self.secret
    }

    /// The public key that checks tokens.
    pub const fn decoding_key(&self) -> &DecodingKey {
        &self.decoding
    }

    /// The public key as a key set, with its `kid`.
    pub const fn jwks(&self) -> &JwkSet {
        &self.jwks
    }

    /// The id that tokens name their key by: the beginning of its SHA-256 thumbprint (RFC 7638).
    pub fn kid(&self) -> &str {
        &self.kid
    }

    /// Signs a token that speaks for `owner` for the time `ttl` from now.
    pub fn mint(&self, owner: &UserId, ttl: Duration) -> Result<String, KeyError> {
        self.mint_for(&Trust::default(), owner, ttl)
    }

    /// The same for another issuer and audience: those of a deployment that takes this key for its issuer's.
    pub fn mint_for(&self, trust: &Trust, owner: &UserId, ttl: Duration) -> Result<String, KeyError> {
        token::mint(self, owner, ttl, trust)
    }

    /// Checks a token: RS256 with this key's id, this issuer and audience, not expired.
    pub fn verify(&self, token: &str) -> Result<Claims, KeyError> {
        token::verify(self, token)
    }
}

impl fmt::Debug for LocalKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LocalKeys({})", self.kid)
    }
}

#[cfg(test)]
mod tests;
