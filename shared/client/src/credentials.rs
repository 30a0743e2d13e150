//! Where the client gets its bearer token from.

use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use pilothouse_domain::UserId;
use pilothouse_local_keys::{LocalKeys, TokenSettings};

use super::ApiError;

const TTL: Duration = Duration::from_hours(1);
/// A minted token is replaced at this age, well before it expires.
const REFRESH_AFTER: Duration = Duration::from_mins(30);

/// Source of the bearer token of each request.
#[derive(Clone)]
pub enum Credentials {
    /// A fixed token.
    Token(String),
    /// A file with a token. It is read for each request, so another program can renew it.
    File(PathBuf),
    /// Tokens minted from a local key, and renewed before they expire.
    Local {
        /// Keys of the server's data folder.
        keys: Arc<LocalKeys>,
        /// Owner that the tokens authenticate.
        owner: UserId,
        /// Issuer and audience that the server expects.
        settings: TokenSettings,
        /// The newest token, with the time it was minted.
        latest: Arc<Mutex<Option<(String, Instant)>>>,
    },
    /// No token: only requests without authentication succeed.
    None,
}

impl Credentials {
    /// Mints tokens of the embedded server for `owner`.
    pub fn local(keys: Arc<LocalKeys>, owner: UserId) -> Self {
        Self::minted(keys, owner, TokenSettings::default())
    }

    /// Mints tokens for `owner` with the issuer and audience of a deployment.
    pub fn minted(keys: Arc<LocalKeys>, owner: UserId, settings: TokenSettings) -> Self {
        Self::Local { keys, owner, settings, latest: Arc::default() }
    }

    pub(super) fn token(&self) -> Result<String, ApiError> {
        match self {
            Self::Token(token) => Ok(token.clone()),
            Self::None => Err(ApiError::NoCredentials),
            Self::File(path) => match std::fs::read_to_string(path) {
                Ok(token) => Ok(token.trim().to_owned()),
                Err(source) => Err(ApiError::TokenFile { path: path.clone(), source }),
            },
            Self::Local { keys, owner, settings, latest } => {
                let mut latest = latest.lock().unwrap_or_else(PoisonError::into_inner);
                if let Some((token, minted)) = &*latest
                    && minted.elapsed() < REFRESH_AFTER
                {
                    return Ok(token.clone());
                }
                let token = keys.mint_with(settings, owner, TTL)?;
                *latest = Some((token.clone(), Instant::now()));
                Ok(token)
            }
        }
    }
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Token(_) => f.write_str("Token(…)"),
            Self::File(path) => write!(f, "File({})", path.display()),
            Self::Local { keys, owner, .. } => write!(f, "Local({keys:?}, {owner})"),
            Self::None => f.write_str("None"),
        }
    }
}
