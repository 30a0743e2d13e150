//! Errors of commands: a sentence that says what to do, and an exit code.

use std::path::PathBuf;

use pilothouse_client::{ApiError, ResolveError};
use pilothouse_embedded::StartError;
use pilothouse_local_keys::KeyError;
use pilothouse_scenarios::ScenarioError;
use pilothouse_worker::RemoteWorkerError;
use serde_json::{Value, json};

use crate::exit::Exit;

/// The error of a command.
#[derive(Debug, thiserror::Error)]
pub enum CliError {
    /// The server refused the request, or cannot be reached.
    #[error(transparent)]
    Api(#[from] ApiError),
    /// No session matches the argument.
    #[error(transparent)]
    Resolve(#[from] ResolveError),
    /// The local keys cannot be used.
    #[error(transparent)]
    Keys(#[from] KeyError),
    /// The server cannot be started.
    #[error("{}", with_causes(.0))]
    Start(#[from] StartError),
    /// The worker cannot be started.
    #[error("{}", with_causes(.0))]
    Worker(RemoteWorkerError),
    /// The command line parses, but its values make no sense.
    #[error("{0}")]
    Usage(String),
    /// The named object does not exist.
    #[error("{0}")]
    NotFound(String),
    /// The command failed for another reason.
    #[error("{0}")]
    Failed(String),
    /// A file cannot be read or written.
    #[error("{}: {source}", path.display())]
    File { path: PathBuf, source: std::io::Error },
    /// Standard output cannot be written.
    #[error("the output cannot be written: {0}")]
    Output(#[source] std::io::Error),
}

impl From<ScenarioError> for CliError {
    fn from(error: ScenarioError) -> Self {
        match error {
            ScenarioError::Api(error) => Self::Api(error),
            error @ (ScenarioError::Unknown(_) | ScenarioError::Missing(_)) => Self::Usage(error.to_string()),
            error => Self::Failed(error.to_string()),
        }
    }
}

impl From<RemoteWorkerError> for CliError {
    fn from(error: RemoteWorkerError) -> Self {
        match error {
            RemoteWorkerError::Refused(error) => Self::Api(error),
            error @ RemoteWorkerError::Start(_) => Self::Worker(error),
        }
    }
}

impl CliError {
    /// The exit code of the error.
    pub fn exit(&self) -> Exit {
        match self {
            Self::Api(e) | Self::Resolve(ResolveError::Api(e)) if e.is_not_found() => Exit::NotFound,
            Self::Api(e) | Self::Resolve(ResolveError::Api(e)) if e.is_no_access() => Exit::NoAccess,
            Self::Resolve(
                ResolveError::NoSession(_)
                | ResolveError::NoTemplate(_)
                | ResolveError::NoChain(_)
                | ResolveError::NoSessions,
            )
            | Self::NotFound(_) => Exit::NotFound,
            Self::Usage(_)
            | Self::Api(ApiError::InvalidUrl { .. })
            | Self::Resolve(ResolveError::Ambiguous { .. } | ResolveError::NotAnId(_)) => Exit::Usage,
            Self::Keys(_) => Exit::NoAccess,
            // A reader that closes the pipe early (`pilothouse logs … | head`) is not an error.
            Self::Output(e) if e.kind() == std::io::ErrorKind::BrokenPipe => Exit::Done,
            _ => Exit::Failed,
        }
    }

    /// The error as JSON: the problem document of the server, or an object with the same fields as far as they apply.
    pub fn json(&self) -> Value {
        match self {
            Self::Api(ApiError::Problem(problem))
            | Self::Resolve(ResolveError::Api(ApiError::Problem(problem))) => {
                json!(problem)
            }
            _ => json!({ "code": self.code(), "detail": self.to_string() }),
        }
    }

    fn code(&self) -> &'static str {
        match self.exit() {
            Exit::Usage => "usage",
            Exit::NotFound => "not-found",
            Exit::NoAccess => "no-access",
            _ => "failed",
        }
    }
}

/// An error with its causes in one line.
fn with_causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let more = error.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        cause = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use pilothouse_api::ProblemDocument;
    use pilothouse_client::{ApiError, ResolveError};

    use super::CliError;
    use crate::exit::Exit;

    fn problem(status: u16, code: &str) -> CliError {
        CliError::Api(ApiError::Problem(Box::new(ProblemDocument {
            kind: format!("https://pilothouse.dev/problems/{code}"),
            title: String::new(),
            status,
            code: code.into(),
            detail: "No.".into(),
            violations: Vec::new(),
            continuation: None,
            decision: None,
        })))
    }

    #[test]
    fn failures_have_distinct_exit_codes() {
        let exit = |status| problem(status, "x").exit();
        assert_eq!([exit(401), exit(403)], [Exit::NoAccess; 2]);
        assert_eq!(exit(404), Exit::NotFound);
        assert_eq!([exit(409), exit(412), exit(422), exit(500)], [Exit::Failed; 4]);
        assert_eq!(CliError::Resolve(ResolveError::NoSession("abcd".into())).exit(), Exit::NotFound);
        assert_eq!(CliError::Resolve(ResolveError::NotAnId("x".into())).exit(), Exit::Usage);
        assert_eq!(CliError::Api(ApiError::NoCredentials).exit(), Exit::NoAccess);
        let closed = std::io::Error::from(std::io::ErrorKind::BrokenPipe);
        assert_eq!(CliError::Output(closed).exit(), Exit::Done);
    }

    #[test]
    fn json_output_contains_the_problem_document() {
        assert_eq!(problem(409, "invalid-transition").json()["code"], "invalid-transition");
        let usage = CliError::Usage("What?".into()).json();
        assert_eq!((usage["code"].as_str(), usage["detail"].as_str()), (Some("usage"), Some("What?")));
    }
}
