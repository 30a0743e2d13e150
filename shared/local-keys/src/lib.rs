//! The keys of a data folder, and the tokens that are signed with them.
//!
//! | file              | content                                          |
//! |-------------------|--------------------------------------------------|
//! | `secret`          | 32 random bytes: the [`RootSecret`] (decision 8) |
//! | `signing-key.pk8` | a 2048-bit RSA key (PKCS #8) that signs tokens   |
//!
//! [`LocalKeys`] creates both at first use, readable by their owner alone (mode 0600). The embedded server verifies tokens
//! with the public key; any program that can read the folder acts as the server's operator and mints tokens for itself.

mod secret_files;
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

pub use token::{Claims, TokenSettings};

/// Issuer (`iss`) of the embedded server's tokens.
pub const ISSUER: &str = "pilothouse-local";
/// Audience (`aud`) of the embedded server's tokens.
pub const AUDIENCE: &str = "pilothouse";
/// Owner that commands act for unless another one is named.
pub const DEFAULT_OWNER: &str = "local";

pub const SECRET_FILE: &str = "secret";
pub const SIGNING_KEY_FILE: &str = "signing-key.pk8";

/// A prefix of the key's thumbprint.
const KID_LENGTH: usize = 16;

#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    #[error("cannot {operation} {}: {source}", path.display())]
    Io { operation: &'static str, path: PathBuf, source: std::io::Error },
    /// Other users of this machine can read the file.
    #[error("{} can be read by others (mode {mode:o}); close it with `chmod 600 {}`", path.display(), path.display())]
    TooOpen { path: PathBuf, mode: u32 },
    /// Other users of this machine can list the folder, and it may not be a data folder.
    #[error("{} is open to others (mode {mode:o}) and holds other things; choose a folder of its own with --data, or close this one with `chmod 700 {}`", path.display(), path.display())]
    FolderTooOpen { path: PathBuf, mode: u32 },
    #[error("{} is damaged: {why}; restore it, or remove it to get a new one", path.display())]
    Damaged { path: PathBuf, why: String },
    #[error("the system's cryptography failed to make a key")]
    Generate,
    #[error("the token: {0}")]
    Token(#[from] jsonwebtoken::errors::Error),
}

/// The keys of one data folder. Share them in an `Arc`.
pub struct LocalKeys {
    secret: RootSecret,
    encoding: EncodingKey,
    decoding: DecodingKey,
    jwks: JwkSet,
    kid: String,
}

impl LocalKeys {
    /// Opens the keys in `data`, and creates the folder (mode 0700) and the keys that are missing.
    ///
    /// Several processes may call this at once: all of them get the same keys.
    pub fn open_or_create(data: &Path) -> Result<Self, KeyError> {
        secret_files::create_folder(data)?;
        let secret = secret_files::read_or_create(&data.join(SECRET_FILE), || {
            let mut bytes = vec![0; RootSecret::MIN_BYTES];
            aws_lc_rs::rand::fill(&mut bytes).map_err(|_| KeyError::Generate)?;
            Ok(bytes)
        })?;
        let signing = secret_files::read_or_create(&data.join(SIGNING_KEY_FILE), || {
            let pair = KeyPair::generate(KeySize::Rsa2048).map_err(|_| KeyError::Generate)?;
            let der: Pkcs8V1Der<'_> = pair.as_der().map_err(|_| KeyError::Generate)?;
            Ok(der.as_ref().to_vec())
        })?;
        Self::from_bytes(data, secret, &signing)
    }

    /// Opens the keys in `data`; `None` if the folder has no keys yet.
    pub fn open(data: &Path) -> Result<Option<Self>, KeyError> {
        let secret = secret_files::read(&data.join(SECRET_FILE))?;
        let signing = secret_files::read(&data.join(SIGNING_KEY_FILE))?;
        match (secret, signing) {
            (Some(secret), Some(signing)) => Self::from_bytes(data, secret, &signing).map(Some),
            _ => Ok(None),
        }
    }

    fn from_bytes(data: &Path, secret: Vec<u8>, signing: &[u8]) -> Result<Self, KeyError> {
        let damaged = |file: &str, why: String| KeyError::Damaged { path: data.join(file), why };
        let secret = RootSecret::new("local", secret).ok_or_else(|| {
            damaged(SECRET_FILE, format!("it has fewer than {} bytes", RootSecret::MIN_BYTES))
        })?;
        // `jsonwebtoken` reads PKCS #8 only as PEM.
        let pem = pem::encode(&pem::Pem::new("PRIVATE KEY", signing));
        let encoding = EncodingKey::from_rsa_pem(pem.as_bytes())
            .map_err(|_| damaged(SIGNING_KEY_FILE, "it is not an RSA key in PKCS #8".into()))?;
        let mut jwk = Jwk::from_encoding_key(&encoding, Algorithm::RS256)
            .map_err(|e| damaged(SIGNING_KEY_FILE, e.to_string()))?;
        let kid: String = jwk.thumbprint(ThumbprintHash::SHA256)?.chars().take(KID_LENGTH).collect();
        jwk.common.key_id = Some(kid.clone());
        jwk.common.public_key_use = Some(PublicKeyUse::Signature);
        let decoding = DecodingKey::from_jwk(&jwk)?;
        Ok(Self { secret, encoding, decoding, jwks: JwkSet { keys: vec![jwk] }, kid })
    }

    /// Keys of runs and sessions are derived from it (decision 8).
    pub const fn root_secret(&self) -> &RootSecret {
        &self.secret
    }

    pub const fn decoding_key(&self) -> &DecodingKey {
        &self.decoding
    }

    /// The public key as a JSON Web Key Set, with its `kid`.
    pub const fn jwks(&self) -> &JwkSet {
        &self.jwks
    }

    /// The key id (`kid`) in the header of each token: a prefix of the SHA-256 thumbprint (RFC 7638).
    pub fn kid(&self) -> &str {
        &self.kid
    }

    /// Signs a token of the embedded server for `owner`, valid for `ttl` from now.
    pub fn mint(&self, owner: &UserId, ttl: Duration) -> Result<String, KeyError> {
        self.mint_with(&TokenSettings::default(), owner, ttl)
    }

    /// Signs a token with the issuer and audience of a deployment that trusts this key.
    pub fn mint_with(
        &self,
        settings: &TokenSettings,
        owner: &UserId,
        ttl: Duration,
    ) -> Result<String, KeyError> {
        token::mint(self, owner, ttl, settings, None)
    }

    /// Like [`Self::mint_with`], for a token that a verifier knows by its `id`.
    pub fn mint_with_id(
        &self,
        settings: &TokenSettings,
        owner: &UserId,
        ttl: Duration,
        id: String,
    ) -> Result<String, KeyError> {
        token::mint(self, owner, ttl, settings, Some(id))
    }

    /// Verifies a token of the embedded server: RS256, this key's `kid`, [`ISSUER`], [`AUDIENCE`], not expired.
    pub fn verify(&self, token: &str) -> Result<Claims, KeyError> {
        self.verify_with(&TokenSettings::default(), token)
    }

    /// Verifies a token with another issuer and audience.
    pub fn verify_with(&self, settings: &TokenSettings, token: &str) -> Result<Claims, KeyError> {
        token::verify(self, token, settings)
    }
}

/// A random text of 128 bits, for codes that are used once.
pub fn random_code() -> Result<String, KeyError> {
    let mut bytes = [0; 16];
    aws_lc_rs::rand::fill(&mut bytes).map_err(|_| KeyError::Generate)?;
    Ok(u128::from_be_bytes(bytes).to_string())
}

impl fmt::Debug for LocalKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LocalKeys({})", self.kid)
    }
}

#[cfg(test)]
mod tests;
