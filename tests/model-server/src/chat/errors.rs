//! Errors in OpenAI's format, for both of its protocols.

use serde_json::{Value, json};

use crate::{
    failure::Failure,
    http_response::{Refusal, epoch_seconds, retry_after},
    prompt::InvalidRequest,
};

pub(crate) fn error(refused: &InvalidRequest) -> Refusal {
    let code = (refused.status == 401).then_some("invalid_api_key");
    let mut body = body("invalid_request_error", code, &refused.message);
    body["error"]["param"] = json!(refused.param);
    Refusal::new(refused.status, body)
}

/// `None` for failures within a stream and for those that never end. `input` is the name of the field that overflows:
/// `messages` or `input`. `size` and `window` are the requested and the available tokens.
pub(crate) fn failure(failure: &Failure, input: &str, size: u64, window: u64) -> Option<Refusal> {
    let refusal = match failure {
        Failure::RateLimited { .. } => {
            let words = "Rate limit reached for requests. Limit: 3 / min. Please try again in 20s.";
            retry_after(Refusal::new(429, body("requests", Some("rate_limit_exceeded"), words)), failure)
        }
        Failure::Overloaded | Failure::ErrorEvent { .. } => {
            let words = "The engine is currently overloaded, please try again later";
            Refusal::new(503, body("service_unavailable_error", None, words))
        }
        Failure::ServerError => {
            let words = "The server had an error while processing your request. Sorry about that!";
            Refusal::new(500, body("server_error", None, words))
        }
        Failure::Unauthorized => Refusal::new(
            401,
            body("invalid_request_error", Some("invalid_api_key"), "Incorrect API key provided."),
        ),
        Failure::Status { status, body: given, headers } => {
            let made = || body("invalid_request_error", None, "The request failed.");
            let mut refusal = Refusal::new(*status, given.clone().unwrap_or_else(made));
            refusal.headers.extend(headers.clone());
            refusal
        }
        Failure::Overflow { .. } => {
            let words = if input == "messages" {
                format!(
                    "This model's maximum context length is {window} tokens. However, your messages resulted in {size} \
                     tokens. Please reduce the length of the messages."
                )
            } else {
                "Your input exceeds the context window of this model. Please adjust your input and try again."
                    .to_owned()
            };
            let mut body = body("invalid_request_error", Some("context_length_exceeded"), &words);
            body["error"]["param"] = json!(input);
            Refusal::new(400, body)
        }
        Failure::QuotaExceeded { resets_in: None } => {
            let words = "You exceeded your current quota, please check your plan and billing details.";
            Refusal::new(429, body("insufficient_quota", Some("insufficient_quota"), words))
        }
        Failure::QuotaExceeded { resets_in: Some(seconds) } => {
            // As for subscriptions. An account without credit gets the other error, without a time.
            let mut body = body("usage_limit_reached", None, "The usage limit has been reached");
            body["error"]["resets_at"] = json!(epoch_seconds(*seconds));
            body["error"]["resets_in_seconds"] = json!(seconds);
            Refusal::new(429, body)
        }
        Failure::Cut { .. } | Failure::Short { .. } | Failure::Hang | Failure::Garbage => return None,
    };
    Some(refusal)
}

fn body(kind: &str, code: Option<&str>, message: &str) -> Value {
    json!({ "error": { "message": message, "type": kind, "param": null, "code": code } })
}
