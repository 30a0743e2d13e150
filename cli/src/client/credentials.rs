//! What the client logs in with.

use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use pilothouse_domain::UserId;

use super::ApiError;
use crate::keys::{LocalKeys, Trust};

/// The life of a token that the program mints for itself.
const TTL: Duration = Duration::from_hours(1);
/// A token this old is replaced before its end.
const REFRESH_AFTER: Duration = Duration::from_mins(30);

/// A token, or the means to make one whenever it is needed.
#[derive(Clone)]
pub enum Credentials {
    /// A token that was given.
    Token(String),
    /// A file that holds a token, which something else keeps fresh.
    File(PathBuf),
    /// Tokens minted from a local key: a watch that goes on for days never runs out of them.
    Local {
        /// The keys of the server's data folder.
        keys: Arc<LocalKeys>,
        /// Whom the tokens speak for.
        owner: UserId,
        /// What the server expects of them.
        trust: Trust,
        /// The latest one.
        latest: Arc<Mutex<Option<(String, Instant)>>>,
    },
    /// Nothing: only what needs no token can be asked.
    None,
}

impl Credentials {
    /// Tokens for `owner`, minted from the keys of the embedded server.
    pub fn local(keys: Arc<LocalKeys>, owner: UserId) -> Self {
        Self::minted(keys, owner, Trust::default())
    }

    /// Tokens for `owner`, minted from local keys as `trust` expects them.
    pub fn minted(keys: Arc<LocalKeys>, owner: UserId, trust: Trust) -> Self {
        Self::Local { keys, owner, trust, latest: Arc::default() }
    }

    /// A token that is good now.
    pub(super) fn token(&self) -> Result<String, ApiError> {
        match self {
            Self::Token(token) => Ok(token.clone()),
            Self::None => Err(ApiError::NoCredentials),
            Self::File(path) => match std::fs::read_to_string(path) {
                Ok(token) => Ok(token.trim().to_owned()),
                Err(source) => Err(ApiError::TokenFile { path: path.clone(), source }),
            },
            Self::Local { keys, owner, trust, latest } => {
                let mut latest = latest.lock().unwrap_or_else(PoisonError::into_inner);
                if let Some((token, minted)) = &*latest
                    && minted.elapsed() < REFRESH_AFTER
                {
                    return Ok(token.clone());
                }
                let token = keys.mint_for(trust, owner, TTL)?;
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
