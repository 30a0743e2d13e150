//! A client of the agent API (S0 8.9). The session's key stays in here: agents get to see the answers alone.

use std::time::Duration;

use pilothouse_agent::tool::ToolOutput;
use pilothouse_domain::AgentSessionId;
use pilothouse_domain::text::cut;
use pilothouse_wire::launch::AgentApiAccess;
use reqwest::{Client, Response, StatusCode, header};
use serde::Deserialize;
use serde_json::Value;
use tokio::time::sleep;
use uuid::Uuid;

use crate::broker::BrokerError;
use crate::clock;
use crate::control_plane::{TIMEOUT, http_client};

/// How often a request is sent when no answer comes. Each carries the same idempotency key, so that it counts once.
const MOST_TRIES: u32 = 3;
/// How long to wait before the second try; twice that before the third.
const FIRST_PAUSE: Duration = Duration::from_millis(200);
/// The most characters of a problem that an agent gets to see.
const MOST_PROBLEM: usize = 2000;

/// Calls the agent API of one session.
#[derive(Clone)]
pub struct AgentApi {
    http: Client,
    base: String,
    key: String,
    session: AgentSessionId,
}

/// A problem document (RFC 9457), as far as an agent needs it.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Problem {
    title: Option<String>,
    detail: Option<String>,
    violations: Vec<Violation>,
}

/// One thing that is wrong with what was sent.
#[derive(Deserialize)]
struct Violation {
    field: String,
    message: String,
}

impl AgentApi {
    /// A client with the key of `session`.
    pub fn new(access: &AgentApiAccess, session: AgentSessionId) -> Result<Self, BrokerError> {
        let http = http_client(!access.url.starts_with("http://"))?;
        let base = format!("{}/api/agent", access.url.trim_end_matches('/'));
        Ok(Self { http, base, key: access.api_key.clone(), session })
    }

    /// The session whose agent calls.
    pub const fn session(&self) -> AgentSessionId {
        self.session
    }

    /// Posts `body` to a path below `/api/agent`; what came of it is `done`, or a sentence that says what to do.
    pub async fn post(&self, path: &str, body: &Value, done: impl FnOnce(&Value) -> String) -> ToolOutput {
        let idempotency_key = Uuid::now_v7().to_string();
        let mut pause = FIRST_PAUSE;
        let mut tried = 1;
        let answer = loop {
            let request = self
                .http
                .post(format!("{}/{path}", self.base))
                .bearer_auth(&self.key)
                .header("Idempotency-Key", &idempotency_key)
                .timeout(TIMEOUT)
                .json(body);
            let answer = request.send().await;
            let again = answer.as_ref().map_or(true, |response| response.status().is_server_error());
            if !again || tried == MOST_TRIES {
                break answer;
            }
            sleep(pause).await;
            (pause, tried) = (pause * 2, tried + 1);
        };
        match answer {
            Ok(response) if response.status().is_success() => {
                let answer = response.json().await.unwrap_or(Value::Null);
                ToolOutput::text(done(&answer))
            }
            Ok(response) => refused(response).await,
            // Without the address and the cause: what they hold is not the agent's.
            Err(_) => ToolOutput::error(
                "The control plane cannot be reached now. Go on with your work, and try again later.",
            ),
        }
    }
}

async fn refused(response: Response) -> ToolOutput {
    let status = response.status();
    let after = response
        .headers()
        .get(header::RETRY_AFTER)
        .and_then(|value| value.to_str().ok()?.parse().ok())
        .map(Duration::from_secs);
    let problem: Problem = response.json().await.unwrap_or_default();
    let what = problem.detail.or(problem.title).unwrap_or_else(|| format!("{status}."));
    let wrong: Vec<_> = problem.violations.iter().map(|it| format!("{}: {}", it.field, it.message)).collect();
    let text = match status {
        StatusCode::TOO_MANY_REQUESTS => {
            let after = after.unwrap_or(Duration::from_secs(1));
            let at = clock::now() + after;
            format!("Too many calls. Try again in {} s, at {at} or later.", after.as_secs())
        }
        StatusCode::UNAUTHORIZED => "This session may not call the agent API any more.".to_owned(),
        _ => format!("It was not done: {what} {}", wrong.join("; ")),
    };
    ToolOutput::error(cut(text.trim_end(), MOST_PROBLEM))
}
