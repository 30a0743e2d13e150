//! Errors in Anthropic's format.

use serde_json::{Value, json};

use crate::{
    failure::Failure,
    http_response::{Refusal, epoch_seconds, retry_after},
    prompt::InvalidRequest,
};

pub(crate) fn error(refused: &InvalidRequest) -> Refusal {
    Refusal::new(refused.status, body(kind(refused.status), &refused.message))
}

/// `None` for failures within a stream and for those that never end. `size` and `window` are the requested and the
/// available tokens.
pub(crate) fn failure(failure: &Failure, size: u64, window: u64) -> Option<Refusal> {
    let refusal = match failure {
        Failure::RateLimited { .. } => {
            let words =
                "This request would exceed your organization's rate limit of 40,000 input tokens per minute.";
            retry_after(Refusal::new(429, body("rate_limit_error", words)), failure)
        }
        Failure::Overloaded | Failure::ErrorEvent { .. } => {
            Refusal::new(529, body("overloaded_error", "Overloaded"))
        }
        Failure::ServerError => Refusal::new(500, body("api_error", "Internal server error")),
        Failure::Unauthorized => Refusal::new(401, body("authentication_error", "invalid x-api-key")),
        Failure::Status { status, body: given, headers } => {
            let made = || body(kind(*status), "The request failed.");
            let mut refusal = Refusal::new(*status, given.clone().unwrap_or_else(made));
            refusal.headers.extend(headers.clone());
            refusal
        }
        Failure::Overflow { with_output: false } => {
            let words = format!("prompt is too long: {size} tokens > {window} maximum");
            Refusal::new(400, body("invalid_request_error", &words))
        }
        Failure::Overflow { with_output: true } => {
            let words = format!(
                "input length and `max_tokens` exceed context limit: {size} + 32000 > {window}, decrease input length or \
                 `max_tokens` and try again"
            );
            Refusal::new(400, body("invalid_request_error", &words))
        }
        Failure::QuotaExceeded { resets_in } => {
            let words = "This request would exceed your account's rate limit. Please try again later.";
            let mut refusal = Refusal::new(429, body("rate_limit_error", words));
            let mut header = |name: &str, value: String| refusal.headers.insert(name.to_owned(), value);
            header("anthropic-ratelimit-unified-status", "rejected".to_owned());
            header("anthropic-ratelimit-unified-representative-claim", "five_hour".to_owned());
            if let Some(seconds) = resets_in {
                header("anthropic-ratelimit-unified-reset", epoch_seconds(*seconds).to_string());
                header("retry-after", seconds.to_string());
            }
            refusal
        }
        Failure::Cut { .. } | Failure::Short { .. } | Failure::Hang | Failure::Garbage => return None,
    };
    Some(refusal)
}

fn body(kind: &str, message: &str) -> Value {
    json!({ "type": "error", "error": { "type": kind, "message": message }, "request_id": "req_scripted" })
}

fn kind(status: u16) -> &'static str {
    match status {
        401 => "authentication_error",
        403 => "permission_error",
        404 => "not_found_error",
        413 => "request_too_large",
        429 => "rate_limit_error",
        529 => "overloaded_error",
        400..=499 => "invalid_request_error",
        _ => "api_error",
    }
}
