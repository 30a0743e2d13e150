//! Errors of requests to a shim, and the recovery from each (S2, "Error handling contract").

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// The body of an error response.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(tag = "code", rename_all = "snake_case", rename_all_fields = "camelCase")]
pub enum PluginError {
    #[error("the provider is not available: {message}")]
    ProviderUnavailable { message: String, retryable: bool },
    #[error("the agent is in another state: {message}")]
    InvalidState { message: String },
    #[error("no decision `{decision_id}` waits")]
    DecisionNotFound { decision_id: String },
    #[error("the provider limits the rate of calls for {retry_after_ms} ms")]
    RateLimited { retry_after_ms: u64 },
    #[error("the context is full: {current_tokens} of {max_tokens} tokens")]
    ContextOverflow { current_tokens: u64, max_tokens: u64 },
    #[error("it does not support `{capability}`")]
    CapabilityUnsupported { capability: String },
}

/// Why a request failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    #[error(transparent)]
    Plugin(#[from] PluginError),
    #[error("it did not answer within {} s", .0.as_secs_f32())]
    TimedOut(Duration),
    #[error("it cannot be reached: {0}")]
    Unreachable(String),
    #[error("it reports that it is unhealthy")]
    Unhealthy,
    /// A response that is not one of the protocol.
    #[error("its response is not valid: {0}")]
    Malformed(String),
}

/// The reaction to a failed request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Recovery {
    /// Repeat the request: after this time, or after a growing pause.
    Retry(Option<Duration>),
    /// End the shim and start it again.
    Restart,
    /// The decision was settled already.
    Stale,
    /// The conversation has to be handed over or compacted.
    ContextFull,
    /// The request should not have been sent.
    Unsupported,
    /// The agent has failed.
    Fail,
}

impl CallError {
    pub fn recovery(&self) -> Recovery {
        match self {
            Self::Plugin(PluginError::ProviderUnavailable { retryable: true, .. }) => Recovery::Retry(None),
            Self::Plugin(PluginError::RateLimited { retry_after_ms }) => {
                Recovery::Retry(Some(Duration::from_millis(*retry_after_ms)))
            }
            Self::Plugin(PluginError::InvalidState { .. }) => Recovery::Restart,
            Self::Plugin(PluginError::DecisionNotFound { .. }) => Recovery::Stale,
            Self::Plugin(PluginError::ContextOverflow { .. }) => Recovery::ContextFull,
            Self::Plugin(PluginError::CapabilityUnsupported { .. }) => Recovery::Unsupported,
            // After a time limit it is unknown whether the request took effect, so it is not repeated.
            Self::Plugin(PluginError::ProviderUnavailable { .. })
            | Self::TimedOut(_)
            | Self::Unreachable(_)
            | Self::Unhealthy
            | Self::Malformed(_) => Recovery::Fail,
        }
    }

    /// Whether the request may have taken effect, because the shim gave no answer that can be read.
    pub const fn is_outcome_unknown(&self) -> bool {
        match self {
            Self::TimedOut(_) | Self::Unreachable(_) | Self::Malformed(_) => true,
            Self::Plugin(_) | Self::Unhealthy => false,
        }
    }
}

/// The error in a response that is no success. A body without one is an error of the provider.
pub(crate) fn of_response(status: u16, body: &[u8]) -> CallError {
    if let Ok(error) = serde_json::from_slice::<PluginError>(body) {
        return error.into();
    }
    if matches!(status, 404 | 405 | 501) {
        return PluginError::CapabilityUnsupported { capability: "endpoint".to_owned() }.into();
    }
    let text = pilothouse_domain::text::cut(&String::from_utf8_lossy(body), 300);
    PluginError::ProviderUnavailable { message: format!("status {status}: {text}"), retryable: false }.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_error_leads_to_the_action_of_the_contract() {
        let recovery = |body: &str| of_response(400, body.as_bytes()).recovery();
        let unavailable = r#"{"code":"provider_unavailable","message":"x","retryable":true}"#;
        assert_eq!(recovery(unavailable), Recovery::Retry(None));
        assert_eq!(recovery(&unavailable.replace("true", "false")), Recovery::Fail);
        assert_eq!(recovery(r#"{"code":"invalid_state","message":"x"}"#), Recovery::Restart);
        assert_eq!(recovery(r#"{"code":"decision_not_found","decisionId":"d"}"#), Recovery::Stale);
        let limited = Recovery::Retry(Some(Duration::from_millis(250)));
        assert_eq!(recovery(r#"{"code":"rate_limited","retryAfterMs":250}"#), limited);
        let full = r#"{"code":"context_overflow","currentTokens":9,"maxTokens":8}"#;
        assert_eq!(recovery(full), Recovery::ContextFull);
        let unsupported = r#"{"code":"capability_unsupported","capability":"supportsPause"}"#;
        assert_eq!(recovery(unsupported), Recovery::Unsupported);
    }

    #[test]
    fn response_without_an_error_of_the_protocol_fails_the_agent() {
        assert_eq!(of_response(500, b"<html>").recovery(), Recovery::Fail);
        assert_eq!(of_response(404, b"").recovery(), Recovery::Unsupported);
        assert_eq!(CallError::TimedOut(Duration::from_secs(1)).recovery(), Recovery::Fail);
    }

    #[test]
    fn outcome_is_unknown_without_an_answer_of_the_protocol() {
        for unknown in [
            CallError::TimedOut(Duration::from_secs(1)),
            CallError::Unreachable("connection reset".to_owned()),
            CallError::Malformed("EOF".to_owned()),
        ] {
            assert!(unknown.is_outcome_unknown(), "{unknown}");
        }
        assert!(!of_response(500, b"<html>").is_outcome_unknown());
        assert!(!CallError::Unhealthy.is_outcome_unknown());
    }
}
