//! What can go wrong between the program and its server.

use std::path::PathBuf;

use pilothouse_functions::api::ProblemDocument;

use crate::keys::KeyError;

/// An answer that is not the one asked for.
#[derive(Debug, thiserror::Error)]
pub enum ApiError {
    /// The server refuses and says why (ruling 5).
    #[error("{}", problem_text(.0))]
    Problem(Box<ProblemDocument>),
    /// The server refuses in words that are not its own: something else stands at this address.
    #[error("the server answered {status} without saying why: {body}")]
    Unexpected {
        /// The HTTP status.
        status: u16,
        /// The beginning of the body.
        body: String,
    },
    /// What stands before the server does not take the token.
    #[error("the server does not take this token ({status}); get one with `pilothouse token`")]
    TokenRefused {
        /// The HTTP status.
        status: u16,
    },
    /// Nothing listens there.
    #[error("there is no server at {url}; start it with `pilothouse up`, or name another with --url")]
    Unreachable {
        /// The server's address.
        url: String,
        /// Why not.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The connection broke, or the answer did not come in time.
    #[error("the connection to the server failed: {0}")]
    Transport(#[source] reqwest::Error),
    /// The answer is of a kind that this program does not know.
    #[error(
        "the server's answer ({status}) is not understood: {source}; are program and server of the same version?"
    )]
    Decode {
        /// The HTTP status.
        status: u16,
        /// Why not.
        source: serde_json::Error,
    },
    /// What is to be sent cannot be written as JSON.
    #[error("the request cannot be written: {0}")]
    Encode(#[source] serde_json::Error),
    /// The server's address is none.
    #[error("`{url}` is not the address of a server: {why}")]
    InvalidUrl {
        /// What was given.
        url: String,
        /// What is wrong with it.
        why: String,
    },
    /// There is nothing to log in with.
    #[error("there is no token; give one with --token, or name the server's data folder with --data")]
    NoCredentials,
    /// The file of the token cannot be read.
    #[error("the token cannot be read from {}: {source}", path.display())]
    TokenFile {
        /// Which.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// It is not known where live streams are.
    #[error("the address of the WebSocket API is not known; name it with --ws-url")]
    NoWebSocketApi,
    /// The token has characters that no token has.
    #[error("the token is not a token; get one with `pilothouse token`")]
    InvalidToken,
    /// The local keys cannot be used.
    #[error(transparent)]
    Keys(#[from] KeyError),
    /// The live stream broke.
    #[error("the live stream broke: {0}")]
    Stream(String),
}

impl ApiError {
    /// The HTTP status of a refusal.
    pub fn status(&self) -> Option<u16> {
        match self {
            Self::Problem(problem) => Some(problem.status),
            Self::Unexpected { status, .. } | Self::TokenRefused { status } => Some(*status),
            _ => None,
        }
    }

    /// The stable code of a refusal (ruling 5).
    pub fn code(&self) -> Option<&str> {
        match self {
            Self::Problem(problem) => Some(&problem.code),
            _ => None,
        }
    }

    /// There is no such thing, or it belongs to somebody else.
    pub fn is_not_found(&self) -> bool {
        self.status() == Some(404)
    }

    /// The server does not take the token, or does not answer at all.
    pub fn is_no_access(&self) -> bool {
        matches!(self.status(), Some(401 | 403))
            || matches!(
                self,
                Self::Unreachable { .. }
                    | Self::Transport(_)
                    | Self::NoCredentials
                    | Self::InvalidToken
                    | Self::TokenFile { .. }
                    | Self::Keys(_)
            )
    }

    /// The same request may succeed later: the server is away or busy.
    pub fn is_transient(&self) -> bool {
        matches!(self, Self::Unreachable { .. } | Self::Transport(_) | Self::Stream(_))
            || self.status().is_some_and(|status| status == 429 || status >= 500)
    }
}

/// The sentence of the problem, and below it everything that is wrong with the input.
fn problem_text(problem: &ProblemDocument) -> String {
    let mut text = if problem.status == 401 {
        format!(
            "{} (401: the server does not take this token; get one with `pilothouse token`)",
            problem.detail
        )
    } else {
        problem.detail.clone()
    };
    for violation in &problem.violations {
        text.extend(["\n  ", &violation.field, ": ", &violation.message]);
    }
    text
}
