//! A typed client of the HTTP API and of the live stream: [`Client`].
//!
//! | module | content |
//! |---|---|
//! | [`inputs`] | bodies and queries of requests |
//! | `sessions`, `lifecycle`, `messages`, `agent_requests`, `records` | methods for one session |
//! | `brakes`, `chains`, `console`, `templates`, `skills`, `pool`, `notifications`, `operations`, `workers` | methods for other resources |
//! | `resolve` | finds a resource by a part of its id, or by its name |
//! | `stream`, `subscription`, `inbox` | live streams, on the embedded server and on API Gateway |
//!
//! Each POST has an `Idempotency-Key`, so the client can send it again after it lost the response. The server's refusals
//! are returned as [`ApiError::Problem`] with the [`ProblemDocument`].

#![warn(missing_docs)]

mod agent_requests;
mod artifacts;
mod brakes;
mod chains;
mod coherence;
mod console;
mod credentials;
mod decisions;
mod error;
mod inbox;
pub mod inputs;
mod lifecycle;
mod messages;
mod notifications;
mod operations;
mod pool;
mod project_watch;
mod projects;
mod records;
mod resolve;
mod sessions;
mod skills;
mod stream;
mod subscription;
mod templates;
mod trust;
mod workers;

use std::time::Duration;

use pilothouse_api::ProblemDocument;
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderValue, IF_MATCH};
use reqwest::{Method, StatusCode, Url};
use serde::Serialize;
use serde::de::DeserializeOwned;
use uuid::Uuid;

pub use artifacts::ArtifactFilter;
pub use coherence::CoherenceFilter;
pub use credentials::Credentials;
pub use error::ApiError;
pub use inbox::{InboxEvent, InboxWatch};
pub use project_watch::{ProjectWatch, ProjectWatchEvent};
pub use records::RecordFilter;
pub use resolve::{MIN_PREFIX, ResolveError};
pub use stream::{SessionStream, SessionWatch, WatchEvent};

const TIMEOUT: Duration = Duration::from_mins(1);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// How often a request is repeated after its response was lost.
const MAX_REPEATS: u32 = 2;
const REPEAT_AFTER: Duration = Duration::from_millis(200);

/// Sends requests to one server for one owner. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Client {
    http: reqwest::Client,
    base: Url,
    credentials: Credentials,
    stream_endpoint: stream::StreamEndpoint,
}

struct Request<'a> {
    method: Method,
    path: String,
    query: Query,
    body: Option<&'a (dyn body::Body + Sync)>,
    if_match: Option<u64>,
}

impl Request<'_> {
    const fn new(method: Method, path: String) -> Self {
        Self { method, path, query: Vec::new(), body: None, if_match: None }
    }
}

/// Request bodies behind one object-safe trait. A body is serialized once, so that repetitions send the same bytes.
mod body {
    pub(super) trait Body {
        fn json(&self) -> Result<Vec<u8>, serde_json::Error>;
    }

    impl<T: serde::Serialize> Body for T {
        fn json(&self) -> Result<Vec<u8>, serde_json::Error> {
            serde_json::to_vec(self)
        }
    }
}

impl Client {
    /// Creates a client of the server at `base`: `http://127.0.0.1:7433`, or the HTTP API of a deployment, which may have a path.
    pub fn new(base: &str, credentials: Credentials) -> Result<Self, ApiError> {
        let invalid = |why: String| ApiError::InvalidUrl { url: base.to_owned(), why };
        let mut base_url = Url::parse(base).map_err(|e| invalid(e.to_string()))?;
        if !matches!(base_url.scheme(), "http" | "https") {
            return Err(invalid("it must begin with http:// or https://".into()));
        }
        if !base_url.path().ends_with('/') {
            let path = format!("{}/", base_url.path());
            base_url.set_path(&path);
        }
        let mut http = reqwest::Client::builder()
            .timeout(TIMEOUT)
            .connect_timeout(CONNECT_TIMEOUT)
            .user_agent(concat!("pilothouse/", env!("CARGO_PKG_VERSION")));
        if is_loopback(base) {
            // A web proxy cannot reach a server on this machine.
            http = http.no_proxy();
        }
        let http = http.build().map_err(ApiError::Transport)?;
        Ok(Self { http, base: base_url, credentials, stream_endpoint: stream::StreamEndpoint::Server })
    }

    /// Address of the server, with a slash at its end.
    pub fn base(&self) -> &Url {
        &self.base
    }

    /// Checks that the server responds. Needs no token.
    pub async fn health(&self) -> Result<(), ApiError> {
        let url = self.url("healthz")?;
        let response = self.http.get(url).send().await.map_err(|e| self.transport(e))?;
        if response.status().is_success() { Ok(()) } else { Err(response_error(response).await) }
    }

    fn url(&self, path: &str) -> Result<Url, ApiError> {
        self.base
            .join(path)
            .map_err(|e| ApiError::InvalidUrl { url: format!("{}{path}", self.base), why: e.to_string() })
    }

    fn transport(&self, error: reqwest::Error) -> ApiError {
        if error.is_connect() {
            ApiError::Unreachable { url: self.base.to_string(), source: Box::new(error) }
        } else {
            ApiError::Transport(error)
        }
    }

    async fn get<T: DeserializeOwned>(&self, path: String) -> Result<T, ApiError> {
        self.get_with(path, Vec::new()).await
    }

    async fn get_with<T: DeserializeOwned>(&self, path: String, query: Query) -> Result<T, ApiError> {
        self.send(Request { query, ..Request::new(Method::GET, path) }).await
    }

    async fn post<T: DeserializeOwned>(
        &self,
        path: String,
        body: &(impl Serialize + Sync),
    ) -> Result<T, ApiError> {
        self.post_if(path, body, None).await
    }

    async fn post_if<T: DeserializeOwned>(
        &self,
        path: String,
        body: &(impl Serialize + Sync),
        if_match: Option<u64>,
    ) -> Result<T, ApiError> {
        self.send(Request { body: Some(body), if_match, ..Request::new(Method::POST, path) }).await
    }

    async fn patch<T: DeserializeOwned>(
        &self,
        path: String,
        body: &(impl Serialize + Sync),
    ) -> Result<T, ApiError> {
        self.send(Request { body: Some(body), ..Request::new(Method::PATCH, path) }).await
    }

    async fn put<T: DeserializeOwned>(
        &self,
        path: String,
        body: &(impl Serialize + Sync),
    ) -> Result<T, ApiError> {
        self.send(Request { body: Some(body), ..Request::new(Method::PUT, path) }).await
    }

    async fn delete<T: DeserializeOwned>(&self, path: String) -> Result<T, ApiError> {
        self.send(Request::new(Method::DELETE, path)).await
    }

    async fn send<T: DeserializeOwned>(&self, request: Request<'_>) -> Result<T, ApiError> {
        let mut url = self.url(&request.path)?;
        if !request.query.is_empty() {
            url.query_pairs_mut().extend_pairs(&request.query);
        }
        let body = request.body.map(body::Body::json).transpose().map_err(ApiError::Encode)?;
        let idempotency_key = (request.method == Method::POST).then(|| Uuid::now_v7().to_string());
        // Repeat only requests that cannot take effect twice.
        let is_repeatable = idempotency_key.is_some() || request.method == Method::GET;
        let mut repeats_left = if is_repeatable { MAX_REPEATS } else { 0 };
        let response = loop {
            let mut http = self.http.request(request.method.clone(), url.clone());
            http = http.header(AUTHORIZATION, self.authorization()?);
            if let Some(key) = &idempotency_key {
                http = http.header("Idempotency-Key", key);
            }
            if let Some(version) = request.if_match {
                http = http.header(IF_MATCH, format!("\"{version}\""));
            }
            if let Some(body) = &body {
                http = http.header(CONTENT_TYPE, "application/json").body(body.clone());
            }
            match http.send().await {
                Ok(response) if repeats_left == 0 || !is_gateway_failure(response.status()) => {
                    break response;
                }
                Err(e) if repeats_left == 0 || e.is_connect() || e.is_timeout() => {
                    return Err(self.transport(e));
                }
                Ok(_) | Err(_) => {
                    repeats_left -= 1;
                    tokio::time::sleep(REPEAT_AFTER).await;
                }
            }
        };
        if !response.status().is_success() {
            return Err(response_error(response).await);
        }
        let status = response.status().as_u16();
        let bytes = response.bytes().await.map_err(|e| self.transport(e))?;
        // A response without a body belongs to a command without output.
        let body: &[u8] = if bytes.is_empty() { b"null" } else { &bytes };
        serde_json::from_slice(body).map_err(|source| ApiError::Decode { status, source })
    }

    /// The token that requests carry, for another program of the same owner. A minted one is valid for at least 30 minutes.
    pub fn token(&self) -> Result<String, ApiError> {
        self.credentials.token()
    }

    fn authorization(&self) -> Result<HeaderValue, ApiError> {
        let mut value = HeaderValue::from_str(&format!("Bearer {}", self.token()?))
            .map_err(|_| ApiError::InvalidToken)?;
        value.set_sensitive(true);
        Ok(value)
    }
}

/// Whether the response comes from a gateway whose function was killed or could not be started.
const fn is_gateway_failure(status: StatusCode) -> bool {
    matches!(status, StatusCode::BAD_GATEWAY | StatusCode::SERVICE_UNAVAILABLE | StatusCode::GATEWAY_TIMEOUT)
}

/// Whether a URL points to this machine.
pub fn is_loopback(url: &str) -> bool {
    match Url::parse(url).ok().as_ref().and_then(Url::host_str) {
        Some("localhost") => true,
        Some(host) => host
            .trim_matches(['[', ']'])
            .parse::<std::net::IpAddr>()
            .is_ok_and(|address| address.is_loopback()),
        None => false,
    }
}

type Query = Vec<(&'static str, String)>;

/// Reads the error of a response without success.
async fn response_error(response: reqwest::Response) -> ApiError {
    let status = response.status();
    match response.bytes().await {
        Ok(body) => error_from_body(status, &body),
        Err(e) => ApiError::Transport(e),
    }
}

/// The error for a response with this status and body.
fn error_from_body(status: StatusCode, body: &[u8]) -> ApiError {
    match serde_json::from_slice::<ProblemDocument>(body) {
        Ok(problem) => ApiError::Problem(Box::new(problem)),
        Err(_) if matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN) => {
            ApiError::TokenRefused { status: status.as_u16() }
        }
        Err(_) => ApiError::Unexpected {
            status: status.as_u16(),
            body: String::from_utf8_lossy(body).chars().take(300).collect(),
        },
    }
}

#[cfg(test)]
mod tests;
#[cfg(test)]
mod websocket_api_tests;
