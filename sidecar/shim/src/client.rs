//! Requests to a shim.

use std::time::Duration;

use reqwest::{Client, Method, RequestBuilder};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::error::{CallError, PluginError, of_response};
use crate::message::{
    AgentHandle, AgentState, ContextInjection, Health, HealthStatus, KillRequest, KillResponse, Resolution,
};

/// In bytes: the limit of a state (S2).
const MAX_RESPONSE: usize = 50 * 1024 * 1024;
/// Limit of `GET /health`.
const HEALTH: Duration = Duration::from_secs(5);

/// Not `Debug`, so that no log line contains the token.
#[derive(Clone)]
pub struct ShimClient {
    http: Client,
    port: u16,
    token: String,
    agent_id: String,
    /// Limit of a request without a grace period.
    limit: Duration,
}

impl ShimClient {
    /// For the shim on this port of loopback. `token` authenticates this side.
    pub fn new(port: u16, token: &str, agent_id: &str, limit: Duration) -> Result<Self, CallError> {
        // A proxy must never see these requests.
        let http = Client::builder().no_proxy().build();
        let http = http.map_err(|e| CallError::Unreachable(e.to_string()))?;
        Ok(Self { http, port, token: token.to_owned(), agent_id: agent_id.to_owned(), limit })
    }

    /// Address of the events.
    pub fn events_url(&self) -> String {
        format!("ws://127.0.0.1:{}/events", self.port)
    }

    pub fn token(&self) -> &str {
        &self.token
    }

    /// An unhealthy shim is an error.
    pub async fn health(&self) -> Result<Health, CallError> {
        let health: Health = self.send(self.request(Method::GET, "health"), HEALTH.min(self.limit)).await?;
        if health.status == HealthStatus::Unhealthy { Err(CallError::Unhealthy) } else { Ok(health) }
    }

    pub async fn spawn(&self, brief: &Value) -> Result<AgentHandle, CallError> {
        self.post("spawn", brief).await
    }

    /// `state` has the form of [`AgentState::to_resume`].
    pub async fn resume(&self, state: &Value) -> Result<AgentHandle, CallError> {
        self.post("resume", state).await
    }

    pub async fn pause(&self) -> Result<AgentState, CallError> {
        let body = json!({ "agentId": self.agent_id, "timeoutMs": milliseconds(self.limit) });
        let state: Value = self.post("pause", &body).await?;
        AgentState::try_from(state).map_err(|e| CallError::Malformed(e.to_string()))
    }

    /// `grace`: how long the agent may take to save its state.
    pub async fn kill(&self, grace: Duration) -> Result<KillResponse, CallError> {
        let body = KillRequest { grace: true, grace_timeout_ms: milliseconds(grace) };
        // The response itself may take a moment.
        let limit = grace + Duration::from_secs(1);
        self.send(self.request(Method::POST, "kill").json(&body), limit).await
    }

    pub async fn resolve(&self, decision_id: &str, resolution: &Resolution) -> Result<(), CallError> {
        let body = json!({ "agentId": self.agent_id, "decisionId": decision_id, "resolution": resolution });
        self.post::<Value>("resolve", &body).await.map(drop)
    }

    pub async fn inject(&self, injection: &ContextInjection) -> Result<(), CallError> {
        self.post::<Value>("inject-context", injection).await.map(drop)
    }

    pub async fn update_brief(&self, changes: &Value) -> Result<(), CallError> {
        let body = json!({ "agentId": self.agent_id, "changes": changes });
        self.post::<Value>("update-brief", &body).await.map(drop)
    }

    /// Asks for events again. They arrive as events. `to` is absent for all events from `from`.
    pub async fn replay(&self, from: u64, to: Option<u64>) -> Result<(), CallError> {
        let body = json!({ "agentId": self.agent_id, "fromSequence": from, "toSequence": to });
        self.post::<Value>("replay", &body).await.map(drop)
    }

    /// The status of a request without the token.
    pub(crate) async fn unauthenticated(&self) -> Result<u16, CallError> {
        let url = format!("http://127.0.0.1:{}/pause", self.port);
        let request = self.http.post(url).json(&json!({})).timeout(self.limit);
        let response = request.send().await.map_err(|e| CallError::Unreachable(reason(&e)))?;
        Ok(response.status().as_u16())
    }

    async fn post<T: DeserializeOwned>(&self, path: &str, body: &impl Serialize) -> Result<T, CallError> {
        self.send(self.request(Method::POST, path).json(body), self.limit).await
    }

    fn request(&self, method: Method, path: &str) -> RequestBuilder {
        let url = format!("http://127.0.0.1:{}/{path}", self.port);
        self.http.request(method, url).bearer_auth(&self.token)
    }

    async fn send<T: DeserializeOwned>(
        &self,
        request: RequestBuilder,
        limit: Duration,
    ) -> Result<T, CallError> {
        let exchange = async {
            let mut response = request.send().await.map_err(|e| CallError::Unreachable(reason(&e)))?;
            let status = response.status();
            let mut body = Vec::new();
            while let Some(chunk) = response.chunk().await.map_err(|e| CallError::Unreachable(reason(&e)))? {
                if body.len() + chunk.len() > MAX_RESPONSE {
                    let (current_tokens, max_tokens) = (0, 0);
                    return Err(PluginError::ContextOverflow { current_tokens, max_tokens }.into());
                }
                body.extend_from_slice(&chunk);
            }
            if !status.is_success() {
                return Err(of_response(status.as_u16(), &body));
            }
            // A request without a result may be answered without a body.
            let text: &[u8] = if body.is_empty() { b"null" } else { &body };
            serde_json::from_slice(text).map_err(|e| CallError::Malformed(e.to_string()))
        };
        tokio::time::timeout(limit, exchange).await.unwrap_or(Err(CallError::TimedOut(limit)))
    }
}

fn milliseconds(limit: Duration) -> u64 {
    u64::try_from(limit.as_millis()).unwrap_or(u64::MAX)
}

/// The innermost cause, which says more than "error sending request".
fn reason(error: &reqwest::Error) -> String {
    let mut cause: &dyn std::error::Error = error;
    while let Some(next) = cause.source() {
        cause = next;
    }
    cause.to_string()
}

#[cfg(test)]
mod tests {
    use axum::routing::post;
    use axum::{Json, Router};
    use tokio::net::TcpListener;

    use super::*;

    /// A client of a fake shim with these routes.
    async fn client_of(router: Router) -> ShimClient {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        ShimClient::new(port, "token", "a", Duration::from_mins(1)).unwrap()
    }

    /// The error for a response of this many bytes to `/pause`.
    async fn refused(bytes: usize) -> CallError {
        let router = Router::new().route("/pause", post(move || async move { vec![b'x'; bytes] }));
        client_of(router).await.pause().await.unwrap_err()
    }

    #[tokio::test]
    async fn kill_names_its_grace_period() {
        let answer =
            |Json(body): Json<Value>| async move { Json(json!({ "state": body, "cleanShutdown": true })) };
        let client = client_of(Router::new().route("/kill", post(answer))).await;
        let response = client.kill(Duration::from_secs(10)).await.unwrap();
        assert_eq!(response.state, Some(json!({ "grace": true, "graceTimeoutMs": 10_000 })));
    }

    #[tokio::test]
    async fn state_of_more_than_50_mb_is_refused() {
        assert!(matches!(refused(MAX_RESPONSE).await, CallError::Malformed(_)), "it is read");
        let too_large = refused(MAX_RESPONSE + 1).await;
        assert!(matches!(too_large, CallError::Plugin(PluginError::ContextOverflow { .. })), "{too_large}");
    }
}
