//! Errors of requests and live streams.

use std::path::PathBuf;

use pilothouse_api::ProblemDocument;
use pilothouse_local_keys::KeyError;

/// Failure of a request or of a live stream.
#[derive(Debug, thiserror::Error)]
pub enum ApiError {
    /// The server refused the request with a problem document (decision 5).
    #[error("{}", problem_text(.0))]
    Problem(Box<ProblemDocument>),
    /// The response has an error status and no problem document: another program may listen at this address.
    #[error("the server answered {status} without saying why: {body}")]
    Unexpected {
        /// HTTP status.
        status: u16,
        /// The first 300 characters of the body.
        body: String,
    },
    /// A gateway in front of the server rejected the token.
    #[error("the server does not take this token ({status}); get one with `pilothouse token`")]
    TokenRefused {
        /// HTTP status.
        status: u16,
    },
    /// No server listens at the address.
    #[error("there is no server at {url}; start it with `pilothouse up`, or name another with --url")]
    Unreachable {
        /// Address of the server.
        url: String,
        /// Cause.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The connection failed, or the response took too long.
    #[error("the connection to the server failed: {0}")]
    Transport(#[source] reqwest::Error),
    /// The response body does not have the expected type.
    #[error(
        "the server's answer ({status}) is not understood: {source}; are program and server of the same version?"
    )]
    Decode {
        /// HTTP status.
        status: u16,
        /// Cause.
        source: serde_json::Error,
    },
    /// The request body cannot be serialized.
    #[error("the request cannot be written: {0}")]
    Encode(#[source] serde_json::Error),
    /// The address of the server is not a valid URL.
    #[error("`{url}` is not the address of a server: {why}")]
    InvalidUrl {
        /// The given address.
        url: String,
        /// Why the address is invalid.
        why: String,
    },
    /// The client has no credentials.
    #[error("there is no token; give one with --token, or name the server's data folder with --data")]
    NoCredentials,
    /// The token file cannot be read.
    #[error("the token cannot be read from {}: {source}", path.display())]
    TokenFile {
        /// Path of the file.
        path: PathBuf,
        /// Cause.
        source: std::io::Error,
    },
    /// The deployment has a WebSocket API, and its address was not given.
    #[error("the address of the WebSocket API is not known; name it with --ws-url")]
    NoWebSocketApi,
    /// The token has characters that are not allowed in a header.
    #[error("the token is not a token; get one with `pilothouse token`")]
    InvalidToken,
    /// The local keys cannot be read or used.
    #[error(transparent)]
    Keys(#[from] KeyError),
    /// The live stream failed.
    #[error("the live stream broke: {0}")]
    Stream(String),
}

impl ApiError {
    /// HTTP status of the response, if there was one.
    pub fn status(&self) -> Option<u16> {
        match self {
            Self::Problem(problem) => Some(problem.status),
            Self::Unexpected { status, .. } | Self::TokenRefused { status } => Some(*status),
            _ => None,
        }
    }

    /// Stable code of the problem document (decision 5).
    pub fn code(&self) -> Option<&str> {
        match self {
            Self::Problem(problem) => Some(&problem.code),
            _ => None,
        }
    }

    /// The resource does not exist, or it belongs to another owner.
    pub fn is_not_found(&self) -> bool {
        self.status() == Some(404)
    }

    /// The server cannot be reached, or it rejects the token.
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

    /// The same request may succeed later: the server is unreachable or busy.
    pub fn is_transient(&self) -> bool {
        matches!(self, Self::Unreachable { .. } | Self::Transport(_) | Self::Stream(_))
            || self.status().is_some_and(|status| status == 429 || status >= 500)
    }
}

/// The detail of the problem, then one line a violation.
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
