//! Client of the agent API (S0 8.9). It holds the session's key; agents only see responses.

use std::time::Duration;

use pilothouse_agent::tool::ToolOutput;
use pilothouse_domain::AgentSessionId;
use pilothouse_domain::text::cut;
use pilothouse_wire::launch::{BrokerAccess, SidecarLaunch};
use reqwest::{Client, Response, StatusCode, header};
use serde::Deserialize;
use serde_json::Value;
use tokio::time::sleep;
use uuid::Uuid;

use crate::broker::BrokerError;
use crate::broker::control_plane::{TIMEOUT, http_client, is_plain, shared_client};
use crate::clock;

/// Attempts of a request without a response. All carry the same idempotency key, so the request takes effect once.
const MAX_TRIES: u32 = 3;
/// Doubled before each further attempt.
const FIRST_PAUSE: Duration = Duration::from_millis(200);
/// In characters.
const MAX_PROBLEM: usize = 2000;

#[derive(Clone)]
pub struct AgentApi {
    http: Client,
    base: String,
    key: String,
    session: AgentSessionId,
}

/// The parts of a problem document (RFC 9457) that an agent needs.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Problem {
    title: Option<String>,
    detail: Option<String>,
    violations: Vec<Violation>,
}

/// An invalid field of the request.
#[derive(Deserialize)]
struct Violation {
    field: String,
    message: String,
}

impl AgentApi {
    /// Creates a client with the key of the session of `launch`.
    pub fn new(launch: &SidecarLaunch) -> Result<Self, BrokerError> {
        let (access, session) = (&launch.agent_api, launch.request.session_id);
        let http = match &launch.broker {
            BrokerAccess::Gateway { url, http2: true, .. } if *url == access.url => shared_client()?,
            _ => http_client(!is_plain(&access.url))?,
        };
        let base = format!("{}/api/agent", access.url.trim_end_matches('/'));
        Ok(Self { http, base, key: access.api_key.clone(), session })
    }

    pub const fn session(&self) -> AgentSessionId {
        self.session
    }

    /// Posts `body` to a path below `/api/agent`. Returns the text that `done` makes of the response, or a sentence
    /// that instructs the agent.
    pub async fn post(&self, path: &str, body: &Value, done: impl FnOnce(&Value) -> String) -> ToolOutput {
        let idempotency_key = Uuid::now_v7().to_string();
        let mut pause = FIRST_PAUSE;
        let mut tried = 1;
        let response = loop {
            let request = self
                .http
                .post(format!("{}/{path}", self.base))
                .bearer_auth(&self.key)
                .header("Idempotency-Key", &idempotency_key)
                .timeout(TIMEOUT)
                .json(body);
            let response = request.send().await;
            let again = response.as_ref().map_or(true, |response| response.status().is_server_error());
            if !again || tried == MAX_TRIES {
                break response;
            }
            sleep(pause).await;
            (pause, tried) = (pause * 2, tried + 1);
        };
        match response {
            Ok(response) if response.status().is_success() => {
                let body = response.json().await.unwrap_or(Value::Null);
                ToolOutput::text(done(&body))
            }
            Ok(response) => refused(response).await,
            // Without the URL and the cause, which the agent must not see.
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
    ToolOutput::error(cut(text.trim_end(), MAX_PROBLEM))
}
