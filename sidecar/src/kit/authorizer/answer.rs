//! What a response to the request for a verdict means.

use pilothouse_domain::VerdictId;
use reqwest::StatusCode;
use serde::Deserialize;

use crate::agent_api::Problem;

/// The control plane's answer.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(tag = "verdict", rename_all = "lowercase", rename_all_fields = "camelCase")]
pub(super) enum Answer {
    Allow {
        #[serde(default)]
        changed_build_files: Vec<String>,
    },
    Ask {
        verdict_id: VerdictId,
        #[serde(default)]
        changed_build_files: Vec<String>,
    },
    Deny {
        message: Option<String>,
    },
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Response {
    Final(Answer),
    /// The control plane will never answer this request. With a sentence for the agent.
    Refused(String),
    /// Ask again, for this reason.
    Retry(String),
}

/// Emergency brakes end, and so do failures. What the control plane refuses for good is denied.
pub(super) fn read(status: StatusCode, body: &[u8]) -> Response {
    if status == StatusCode::OK {
        return match serde_json::from_slice(body) {
            Ok(answer) => Response::Final(answer),
            Err(error) => Response::Retry(format!("unreadable answer: {error}")),
        };
    }
    if status == StatusCode::TOO_MANY_REQUESTS || !status.is_client_error() {
        return Response::Retry(status.to_string());
    }
    let problem: Problem = serde_json::from_slice(body).unwrap_or_default();
    match status {
        StatusCode::CONFLICT if problem.code.as_deref() == Some("braked") => {
            Response::Retry("an emergency brake".to_owned())
        }
        StatusCode::UNAUTHORIZED | StatusCode::NOT_FOUND | StatusCode::GONE => {
            Response::Refused("This session may not call tools any more.".to_owned())
        }
        _ => Response::Refused(format!("This call cannot be authorized: {}", problem.sentence(status))),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use uuid::Uuid;

    use super::*;

    fn of(status: u16, body: &Value) -> Response {
        read(StatusCode::from_u16(status).unwrap(), body.to_string().as_bytes())
    }

    fn problem(code: &str) -> Value {
        json!({ "type": "t", "title": "Conflict", "status": 409, "code": code, "detail": "It is so." })
    }

    #[test]
    fn verdicts_are_read() {
        let id = Uuid::from_u128(7);
        let body = |verdict: &str| json!({ "verdict": verdict, "verdictId": id, "changedBuildFiles": ["Makefile"], "message": "No." });
        let changed_build_files = vec!["Makefile".to_owned()];
        let allow = Answer::Allow { changed_build_files: changed_build_files.clone() };
        assert_eq!(of(200, &body("allow")), Response::Final(allow));
        let ask = Answer::Ask { verdict_id: VerdictId::new(id), changed_build_files };
        assert_eq!(of(200, &body("ask")), Response::Final(ask));
        assert_eq!(of(200, &body("deny")), Response::Final(Answer::Deny { message: Some("No.".into()) }));
        let silent = json!({ "verdict": "deny", "verdictId": id });
        assert_eq!(of(200, &silent), Response::Final(Answer::Deny { message: None }));
    }

    #[test]
    fn unreadable_answers_are_asked_for_again() {
        for body in [json!({}), json!({ "verdict": "maybe" }), json!({ "verdict": "ask" }), json!("allow")] {
            assert!(matches!(of(200, &body), Response::Retry(_)), "{body}");
        }
        for status in [204, 302] {
            assert!(matches!(of(status, &json!({ "verdict": "allow" })), Response::Retry(_)), "{status}");
        }
    }

    #[test]
    fn brakes_limits_and_failures_are_asked_again() {
        assert!(matches!(of(409, &problem("braked")), Response::Retry(_)));
        for status in [429, 500, 502, 503] {
            assert!(matches!(of(status, &problem("unavailable")), Response::Retry(_)), "{status}");
        }
    }

    #[test]
    fn other_refusals_deny_with_a_sentence() {
        for status in [401, 404, 410] {
            let refused = Response::Refused("This session may not call tools any more.".into());
            assert_eq!(of(status, &problem("over")), refused, "{status}");
        }
        for (status, code) in [(400, "invalid"), (409, "over"), (422, "invalid")] {
            let refused = Response::Refused("This call cannot be authorized: It is so.".into());
            assert_eq!(of(status, &problem(code)), refused, "{status}");
        }
        assert!(matches!(of(413, &Value::Null), Response::Refused(text) if text.contains("413")));
    }
}
