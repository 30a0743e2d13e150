//! Classifies failed calls by the provider's response (S1 6.1, 6.2).

use std::time::Duration;

use genai::Error;
use http::HeaderMap;
use pilothouse_domain::Timestamp;
use serde_json::Value;

use super::frames::Frames;
use crate::message::now;
use crate::model::registry::ProviderConfig;
use crate::model::{ModelError, OmittedContent};

/// Limit of a provider's message, in characters.
const WORDS: usize = 500;

pub(super) fn rejected(message: String) -> ModelError {
    ModelError::Rejected { message, status: None }
}

pub(super) fn broken(message: &str) -> ModelError {
    ModelError::Transient { message: message.into(), status: None, retry_after: None }
}

/// Never contains the key.
pub(super) fn of(error: &Error, provider: &ProviderConfig, frames: &Frames) -> ModelError {
    let error_response = error_response(error, frames);
    let error_response =
        ErrorResponse { message: without_key(&error_response.message, provider), ..error_response };
    error_response.into_model_error()
}

struct ErrorResponse {
    status: Option<u16>,
    headers: HeaderMap,
    /// The `error` object of the body.
    error: Value,
    message: String,
    /// Whether the connection failed without a response.
    broken: bool,
}

fn error_response(error: &Error, frames: &Frames) -> ErrorResponse {
    let nothing = |message: String, broken| ErrorResponse {
        status: None,
        headers: HeaderMap::new(),
        error: Value::Null,
        message,
        broken,
    };
    match error {
        Error::HttpError { status, body, headers, .. } => {
            let parsed: Value = serde_json::from_str(body).unwrap_or_default();
            let error = parsed.get("error").cloned().unwrap_or(parsed);
            let message = words(&error).unwrap_or_else(|| body.chars().take(WORDS).collect());
            let message = format!("{} {message}", status.as_u16()).trim().to_owned();
            ErrorResponse {
                status: Some(status.as_u16()),
                headers: (**headers).clone(),
                error,
                message,
                broken: false,
            }
        }
        // Errors while opening a stream are wrapped.
        Error::WebStream { error: inner, cause, .. } => match inner.downcast_ref::<Error>() {
            Some(inner) => error_response(inner, frames),
            None => nothing(format!("the connection failed: {}", innermost(&**inner, cause)), true),
        },
        Error::ChatResponse { body, .. } => {
            let error = body.get("error").cloned().unwrap_or_else(|| body.clone());
            let message = words(&error).unwrap_or_else(|| "the answer broke off with an error".into());
            ErrorResponse { error, ..nothing(message, true) }
        }
        Error::StreamParse { serde_error, .. } => match frames.failed() {
            Some(error) => {
                let message = words(&error).unwrap_or_else(|| serde_error.to_string());
                ErrorResponse { error, ..nothing(message, true) }
            }
            None => nothing(format!("the answer makes no sense: {serde_error}"), true),
        },
        Error::JsonValueExt(error) => nothing(format!("the answer makes no sense: {error}"), true),
        Error::SerdeJson(error) => nothing(format!("the answer makes no sense: {error}"), true),
        other => nothing(first_line(&other.to_string()), false),
    }
}

impl ErrorResponse {
    fn into_model_error(self) -> ModelError {
        let Self { status, ref message, .. } = self;
        if self.is_overflow() {
            return ModelError::ContextOverflow { message: message.clone() };
        }
        if self.is_quota() {
            return ModelError::QuotaExceeded { message: message.clone(), reset_at: self.reset_at() };
        }
        if self.is_transient() {
            return ModelError::Transient {
                message: message.clone(),
                status,
                retry_after: self.retry_after(),
            };
        }
        if let Some(content) = self.rejected_content() {
            return ModelError::RejectedContent { message: message.clone(), content };
        }
        ModelError::Rejected { message: message.clone(), status }
    }

    /// The part of the conversation that the provider does not accept.
    fn rejected_content(&self) -> Option<OmittedContent> {
        const THOUGHTS: [&str; 4] = ["`thinking`", "thinking block", "encrypted content", "'reasoning'"];
        const IMAGES: [&str; 3] = ["image", "media_type", "media type"];
        if !matches!(self.status, Some(400 | 422)) {
            return None;
        }
        let message = self.message.to_lowercase();
        let names = |words: &[&str]| words.iter().any(|words| message.contains(words));
        if self.is(&["invalid_encrypted_content"]) || names(&THOUGHTS) {
            return Some(OmittedContent::Thoughts);
        }
        names(&IMAGES).then_some(OmittedContent::Images)
    }

    /// Whether the code or type is one of `names`.
    fn is(&self, names: &[&str]) -> bool {
        ["code", "type"].iter().any(|field| {
            self.error.get(field).and_then(Value::as_str).is_some_and(|name| names.contains(&name))
        })
    }

    fn is_overflow(&self) -> bool {
        const WORDS: [&str; 9] = [
            "prompt is too long",
            "exceed context limit",
            "maximum context length",
            "exceeds the context window",
            "exceeds the available context",
            "context length exceeded",
            "context window exceeded",
            "input is too long",
            "reduce the length of the messages",
        ];
        if matches!(self.status, Some(401 | 403 | 404 | 429 | 500..)) {
            return false;
        }
        let message = self.message.to_lowercase();
        self.status == Some(413)
            || self.is(&["context_length_exceeded", "request_too_large", "model_context_window_exceeded"])
            || WORDS.iter().any(|words| message.contains(words))
    }

    fn is_quota(&self) -> bool {
        const NAMES: [&str; 5] = [
            "insufficient_quota",
            "usage_limit_reached",
            "usage_not_included",
            "billing_hard_limit_reached",
            "billing_error",
        ];
        let rejected = self.header("anthropic-ratelimit-unified-status") == Some("rejected");
        self.status == Some(402)
            || self.is(&NAMES)
            || (self.status == Some(429) && rejected)
            || self.message.contains("credit balance is too low")
    }

    fn is_transient(&self) -> bool {
        match (self.status, self.header("x-should-retry")) {
            (Some(_), Some("true")) => true,
            (Some(_), Some("false")) => false,
            (Some(status), _) => matches!(status, 408 | 409 | 425 | 429 | 500..=599),
            // Within a stream, the request was already accepted.
            (None, _) => self.broken && !self.is(&["invalid_request_error", "invalid_prompt"]),
        }
    }

    fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }

    /// When the quota resets.
    fn reset_at(&self) -> Option<Timestamp> {
        let seconds =
            |value: &Value| value.as_i64().or_else(|| value.as_str().and_then(|text| text.parse().ok()));
        let at = self.error.get("resets_at").and_then(seconds);
        let at =
            at.or_else(|| self.header("anthropic-ratelimit-unified-reset").and_then(|at| at.parse().ok()));
        let at = at.map(|at| Timestamp::from_millis(at.saturating_mul(1_000)));
        let after = || self.error.get("resets_in_seconds").and_then(Value::as_u64).map(Duration::from_secs);
        at.or_else(|| after().or_else(|| self.retry_after()).map(|after| now() + after))
    }

    /// The requested wait: in milliseconds, in seconds, or until a date.
    fn retry_after(&self) -> Option<Duration> {
        let positive = |number: &str, unit: f64| {
            let number: f64 = number.trim().parse().ok()?;
            Duration::try_from_secs_f64(number * unit).ok()
        };
        if let Some(wait) = self.header("retry-after-ms").and_then(|number| positive(number, 0.001)) {
            return Some(wait);
        }
        let text = self.header("retry-after")?;
        if let Some(wait) = positive(text, 1.0) {
            return Some(wait);
        }
        let at = jiff::fmt::rfc2822::parse(text).ok()?.timestamp().as_millisecond();
        Some(Timestamp::from_millis(at).since(now()))
    }
}

fn words(error: &Value) -> Option<String> {
    let message = error.get("message").and_then(Value::as_str).or(error.as_str())?;
    Some(message.chars().take(WORDS).collect())
}

/// The root cause of a failed connection. The outer errors only add the URL.
fn innermost(error: &(dyn std::error::Error + 'static), otherwise: &str) -> String {
    let mut error = error;
    while let Some(source) = error.source() {
        error = source;
    }
    let words = error.to_string();
    if words.is_empty() { otherwise.to_owned() } else { words }
}

fn first_line(text: &str) -> String {
    text.lines().next().unwrap_or_default().chars().take(WORDS).collect()
}

fn without_key(message: &str, provider: &ProviderConfig) -> String {
    match &provider.api_key {
        Some(key) if !key.expose().is_empty() => message.replace(key.expose(), "(key)"),
        _ => message.to_owned(),
    }
}
