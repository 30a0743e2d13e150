//! Why a command did not do what it should: one sentence that says what to do, and an exit code.

use std::path::PathBuf;

use serde_json::{Value, json};

use crate::client::{ApiError, ResolveError};
use crate::exit::Exit;
use crate::keys::KeyError;
use crate::server::StartError;
use crate::worker::WorkerError;

/// The failure of a command.
#[derive(Debug, thiserror::Error)]
pub enum CliError {
    /// The server refuses, or is not there.
    #[error(transparent)]
    Api(#[from] ApiError),
    /// The session that is meant cannot be found.
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
    Worker(WorkerError),
    /// The command line is understood, but not what is meant by it.
    #[error("{0}")]
    Usage(String),
    /// There is no such thing.
    #[error("{0}")]
    NotFound(String),
    /// It did not work out.
    #[error("{0}")]
    Failed(String),
    /// A file cannot be read or written.
    #[error("{}: {source}", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// Nobody takes the output.
    #[error("the output cannot be written: {0}")]
    Output(#[source] std::io::Error),
}

impl From<WorkerError> for CliError {
    fn from(error: WorkerError) -> Self {
        match error {
            WorkerError::Refused(error) => Self::Api(error),
            error @ WorkerError::Start(_) => Self::Worker(error),
        }
    }
}

impl CliError {
    /// How the program ends by it.
    pub fn exit(&self) -> Exit {
        match self {
            Self::Api(e) | Self::Resolve(ResolveError::Api(e)) if e.is_not_found() => Exit::NotFound,
            Self::Api(e) | Self::Resolve(ResolveError::Api(e)) if e.is_no_access() => Exit::NoAccess,
            Self::Resolve(
                ResolveError::NoneLike(_)
                | ResolveError::NoTemplate(_)
                | ResolveError::NoChainLike(_)
                | ResolveError::NoneAtAll,
            )
            | Self::NotFound(_) => Exit::NotFound,
            Self::Usage(_)
            | Self::Api(ApiError::InvalidUrl { .. })
            | Self::Resolve(ResolveError::Ambiguous { .. } | ResolveError::NotAnId(_)) => Exit::Usage,
            Self::Keys(_) => Exit::NoAccess,
            // A reader that has seen enough (`pilothouse logs … | head`) is no failure.
            Self::Output(e) if e.kind() == std::io::ErrorKind::BrokenPipe => Exit::Done,
            _ => Exit::Failed,
        }
    }

    /// The failure for machines: the server's own problem document, or the same fields as far as they make sense.
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

/// An error with what caused it, in one line.
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
    use pilothouse_functions::api::ProblemDocument;

    use super::CliError;
    use crate::client::{ApiError, ResolveError};
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
        })))
    }

    #[test]
    fn scripts_can_tell_failures_apart() {
        let exit = |status| problem(status, "x").exit();
        assert_eq!([exit(401), exit(403)], [Exit::NoAccess; 2]);
        assert_eq!(exit(404), Exit::NotFound);
        assert_eq!([exit(409), exit(412), exit(422), exit(500)], [Exit::Failed; 4]);
        assert_eq!(CliError::Resolve(ResolveError::NoneLike("abcd".into())).exit(), Exit::NotFound);
        assert_eq!(CliError::Resolve(ResolveError::NotAnId("x".into())).exit(), Exit::Usage);
        assert_eq!(CliError::Api(ApiError::NoCredentials).exit(), Exit::NoAccess);
        let closed = std::io::Error::from(std::io::ErrorKind::BrokenPipe);
        assert_eq!(CliError::Output(closed).exit(), Exit::Done);
    }

    #[test]
    fn machines_get_the_servers_own_problem() {
        assert_eq!(problem(409, "invalid-transition").json()["code"], "invalid-transition");
        let usage = CliError::Usage("What?".into()).json();
        assert_eq!((usage["code"].as_str(), usage["detail"].as_str()), (Some("usage"), Some("What?")));
    }
}
