//! Client of the agent API (S0 8.9). It holds the session's key; agents only see responses.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use pilothouse_agent::tool::ToolOutput;
use pilothouse_domain::AgentSessionId;
use pilothouse_domain::text::cut;
use pilothouse_wire::launch::{BrokerAccess, SidecarLaunch};
use reqwest::{Client, RequestBuilder, Response, StatusCode, Url, header};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::time::sleep;
use uuid::Uuid;

use crate::broker::BrokerError;
use crate::broker::control_plane::{TIMEOUT, http_client, is_plain, shared_client};
use crate::clock;
use crate::redaction::Redactor;

/// Attempts of a request without a response. All carry the same idempotency key, so the request takes effect once.
const MAX_TRIES: u32 = 3;
/// Doubled before each further attempt.
const FIRST_PAUSE: Duration = Duration::from_millis(200);
/// For a content of 100 MB.
const UPLOAD_TIMEOUT: Duration = Duration::from_mins(5);
const UNREACHABLE: &str =
    "The control plane cannot be reached now. Go on with your work, and try again later.";
/// In characters.
const MAX_PROBLEM: usize = 2000;

#[derive(Clone)]
pub struct AgentApi {
    http: Client,
    base: String,
    key: String,
    session: AgentSessionId,
    /// Secrets that an agent repeats must not reach the control plane.
    redactor: Redactor,
}

/// Where to send a content.
#[derive(Debug, Deserialize)]
struct UploadLink {
    url: String,
    headers: BTreeMap<String, String>,
}

/// The parts of a problem document (RFC 9457) that the sidecar or an agent needs.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Problem {
    pub(crate) code: Option<String>,
    title: Option<String>,
    detail: Option<String>,
    violations: Vec<Violation>,
}

/// An invalid field of the request.
#[derive(Debug, Deserialize)]
struct Violation {
    field: String,
    message: String,
}

impl Problem {
    /// The reason and all violations, for the agent.
    pub(crate) fn sentence(self, status: StatusCode) -> String {
        let what = self.detail.or(self.title).unwrap_or_else(|| format!("{status}."));
        let wrong: Vec<_> =
            self.violations.iter().map(|it| format!("{}: {}", it.field, it.message)).collect();
        let text = format!("{what} {}", wrong.join("; "));
        cut(text.trim_end(), MAX_PROBLEM)
    }
}

impl AgentApi {
    /// Creates a client with the key of the session of `launch`. `redactor` removes secrets from what the agent submits.
    pub fn new(launch: &SidecarLaunch, redactor: Redactor) -> Result<Self, BrokerError> {
        let (access, session) = (&launch.agent_api, launch.request.session_id);
        let http = match &launch.broker {
            BrokerAccess::Gateway { url, http2: true, .. } if *url == access.url => shared_client()?,
            _ => http_client(!is_plain(&access.url))?,
        };
        let base = format!("{}/api/agent", access.url.trim_end_matches('/'));
        Ok(Self { http, base, key: access.api_key.clone(), session, redactor })
    }

    /// Creates a client with the token of the run, which the agent does not have.
    pub fn for_run(launch: &SidecarLaunch) -> Result<Self, BrokerError> {
        Ok(Self { key: launch.broker.token().as_str().to_owned(), ..Self::new(launch, Redactor::default())? })
    }

    pub const fn session(&self) -> AgentSessionId {
        self.session
    }

    /// A text of the agent without the secrets that the sidecar knows.
    pub(crate) fn redacted(&self, text: String) -> String {
        self.redactor.text(&text).unwrap_or(text)
    }

    /// A POST request to a path below `/api/agent`.
    pub(crate) fn request(&self, path: &str, body: &impl Serialize) -> RequestBuilder {
        let url = format!("{}/{path}", self.base);
        self.http.post(url).bearer_auth(&self.key).timeout(TIMEOUT).json(body)
    }

    /// Posts `body` to a path below `/api/agent`. Returns the text that `done` makes of the response, or a sentence
    /// that instructs the agent.
    pub async fn post(&self, path: &str, body: &Value, done: impl FnOnce(&Value) -> String) -> ToolOutput {
        self.post_checked(path, body, |response| ToolOutput::text(done(response))).await
    }

    /// Like [`Self::post`], where `done` may find that nothing was done.
    pub async fn post_checked(
        &self,
        path: &str,
        body: &Value,
        done: impl FnOnce(&Value) -> ToolOutput,
    ) -> ToolOutput {
        match self.post_json(path, &self.redactor.value(body)).await {
            Ok(body) => done(&body),
            Err(refused) => refused,
        }
    }

    /// Gets a path below `/api/agent`. Returns the text that `done` makes of the response, or a sentence that
    /// instructs the agent.
    pub async fn get(
        &self,
        path: &str,
        query: &[(&str, String)],
        done: impl FnOnce(&Value) -> String,
    ) -> ToolOutput {
        let Ok(url) = Url::parse_with_params(&format!("{}/{path}", self.base), query) else {
            return ToolOutput::error(UNREACHABLE);
        };
        let request = || self.http.get(url.clone()).bearer_auth(&self.key).timeout(TIMEOUT);
        match read_json(repeated(request).await).await {
            Ok(body) => ToolOutput::text(done(&body)),
            Err(refused) => refused,
        }
    }

    /// Requests an address for a content at a path below `/api/agent`, and sends the content there. `identity` is its hash
    /// and size.
    ///
    /// # Errors
    /// A sentence that instructs the agent.
    pub async fn upload(&self, path: &str, identity: &Value, content: Vec<u8>) -> Result<(), ToolOutput> {
        let link: UploadLink = serde_json::from_value(self.post_json(path, identity).await?)
            .map_err(|_| ToolOutput::temporary_error(UNREACHABLE))?;
        let content = Bytes::from(content);
        let request = || {
            let request = match link.url.strip_prefix("/api/agent/") {
                Some(own) => self.http.put(format!("{}/{own}", self.base)).bearer_auth(&self.key),
                None => self.http.put(&link.url),
            };
            let headers = link.headers.iter();
            let request = headers.fold(request, |request, (name, value)| request.header(name, value));
            request.timeout(UPLOAD_TIMEOUT).body(content.clone())
        };
        match repeated(request).await {
            Ok(response) if response.status().is_success() => Ok(()),
            Ok(response) => Err(refused(response).await),
            Err(_) => Err(ToolOutput::temporary_error(UNREACHABLE)),
        }
    }

    async fn post_json(&self, path: &str, body: &Value) -> Result<Value, ToolOutput> {
        let idempotency_key = Uuid::now_v7().to_string();
        let request = || self.request(path, body).header("Idempotency-Key", &idempotency_key);
        read_json(repeated(request).await).await
    }
}

/// Repeats a request while it has no response or the server fails. The request must take effect once.
async fn repeated(request: impl Fn() -> RequestBuilder) -> Result<Response, reqwest::Error> {
    let mut pause = FIRST_PAUSE;
    let mut tried = 1;
    loop {
        let response = request().send().await;
        let again = response.as_ref().map_or(true, |response| response.status().is_server_error());
        if !again || tried == MAX_TRIES {
            return response;
        }
        sleep(pause).await;
        (pause, tried) = (pause * 2, tried + 1);
    }
}

async fn read_json(response: Result<Response, reqwest::Error>) -> Result<Value, ToolOutput> {
    match response {
        Ok(response) if response.status().is_success() => Ok(response.json().await.unwrap_or(Value::Null)),
        Ok(response) => Err(refused(response).await),
        // Without the URL and the cause, which the agent must not see.
        Err(_) => Err(ToolOutput::temporary_error(UNREACHABLE)),
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
    let text = match status {
        StatusCode::TOO_MANY_REQUESTS => {
            let after = after.unwrap_or(Duration::from_secs(1));
            let at = clock::now() + after;
            format!("Too many calls. Try again in {} s, at {at} or later.", after.as_secs())
        }
        StatusCode::UNAUTHORIZED => "This session may not call the agent API any more.".to_owned(),
        _ => format!("It was not done: {}", problem.sentence(status)),
    };
    ToolOutput { may_succeed_later: may_succeed_later(status), ..ToolOutput::error(text) }
}

/// Whether a call that was refused with `status` may succeed later.
fn may_succeed_later(status: StatusCode) -> bool {
    status == StatusCode::TOO_MANY_REQUESTS || status.is_server_error()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_for_lack_of_capacity_are_temporary() {
        for (code, is_temporary) in [(429, true), (500, true), (507, true), (401, false), (413, false)] {
            assert_eq!(may_succeed_later(StatusCode::from_u16(code).unwrap()), is_temporary, "{code}");
        }
    }
}
