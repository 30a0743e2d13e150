//! A typed client of the HTTP API and of the live stream.
//!
//! Every POST carries an `Idempotency-Key`, so that it can be sent again when its answer was lost on the way. Refusals
//! come back as [`ApiError::Problem`] with the server's own [`ProblemDocument`].

mod chains;
mod credentials;
mod error;
pub mod inputs;
mod lifecycle;
mod messages;
mod operations;
mod pool;
mod records;
mod requests;
mod resolve;
mod sessions;
mod skills;
mod stream;
mod subscription;
mod telling;
mod templates;
mod workers;

use std::time::Duration;

use pilothouse_functions::api::ProblemDocument;
use reqwest::header::{AUTHORIZATION, HeaderValue, IF_MATCH};
use reqwest::{Method, StatusCode, Url};
use serde::Serialize;
use serde::de::DeserializeOwned;
use uuid::Uuid;

pub use credentials::Credentials;
pub use error::ApiError;
pub use records::Records;
pub use resolve::{MIN_PREFIX, ResolveError};
pub use stream::{Followed, Following, SessionStream};

/// How long an answer may take.
const TIMEOUT: Duration = Duration::from_mins(1);
/// How long a connection may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// How often a request is sent again whose answer was lost.
const RESENDS: u32 = 2;
/// How long to wait before that.
const RESEND_AFTER: Duration = Duration::from_millis(200);

/// Speaks to one server for one owner. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Client {
    http: reqwest::Client,
    base: Url,
    credentials: Credentials,
    live: stream::Live,
}

/// One request before it is sent.
struct Call<'a> {
    method: Method,
    path: String,
    query: Vec<(&'static str, String)>,
    body: Option<&'a (dyn erased::Body + Sync)>,
    if_match: Option<u64>,
}

/// Bodies of any type, already as JSON: what is sent again must be the same bytes.
mod erased {
    /// Something that can be sent as JSON.
    pub(super) trait Body {
        /// Its bytes.
        fn json(&self) -> Result<Vec<u8>, serde_json::Error>;
    }

    impl<T: serde::Serialize> Body for T {
        fn json(&self) -> Result<Vec<u8>, serde_json::Error> {
            serde_json::to_vec(self)
        }
    }
}

impl Client {
    /// A client of the server at `base`: `http://127.0.0.1:7433`, or the HTTP API of a deployment, which may have a path.
    pub fn new(base: &str, credentials: Credentials) -> Result<Self, ApiError> {
        let wrong = |why: String| ApiError::InvalidUrl { url: base.to_owned(), why };
        let mut base_url = Url::parse(base).map_err(|e| wrong(e.to_string()))?;
        if !matches!(base_url.scheme(), "http" | "https") {
            return Err(wrong("it must begin with http:// or https://".into()));
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
            // What a proxy for the web would do with a server on this machine helps nobody.
            http = http.no_proxy();
        }
        let http = http.build().map_err(ApiError::Transport)?;
        Ok(Self { http, base: base_url, credentials, live: stream::Live::Server })
    }

    /// The server's address, with a slash at its end.
    pub fn base(&self) -> &Url {
        &self.base
    }

    /// Whether the server answers at all; needs no token.
    pub async fn health(&self) -> Result<(), ApiError> {
        let url = self.url("healthz")?;
        let response = self.http.get(url).send().await.map_err(|e| self.transport(e))?;
        if response.status().is_success() { Ok(()) } else { Err(refusal(response).await) }
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
        self.call(Call { method: Method::GET, path, query, body: None, if_match: None }).await
    }

    async fn post<T: DeserializeOwned>(
        &self,
        path: String,
        body: &(impl Serialize + Sync),
    ) -> Result<T, ApiError> {
        self.call(Call { method: Method::POST, path, query: Vec::new(), body: Some(body), if_match: None })
            .await
    }

    async fn post_if<T: DeserializeOwned>(
        &self,
        path: String,
        body: &(impl Serialize + Sync),
        if_match: Option<u64>,
    ) -> Result<T, ApiError> {
        self.call(Call { method: Method::POST, path, query: Vec::new(), body: Some(body), if_match }).await
    }

    async fn patch<T: DeserializeOwned>(
        &self,
        path: String,
        body: &(impl Serialize + Sync),
    ) -> Result<T, ApiError> {
        self.call(Call { method: Method::PATCH, path, query: Vec::new(), body: Some(body), if_match: None })
            .await
    }

    async fn put<T: DeserializeOwned>(
        &self,
        path: String,
        body: &(impl Serialize + Sync),
    ) -> Result<T, ApiError> {
        self.call(Call { method: Method::PUT, path, query: Vec::new(), body: Some(body), if_match: None })
            .await
    }

    async fn delete<T: DeserializeOwned>(&self, path: String) -> Result<T, ApiError> {
        self.call(Call { method: Method::DELETE, path, query: Vec::new(), body: None, if_match: None }).await
    }

    async fn call<T: DeserializeOwned>(&self, call: Call<'_>) -> Result<T, ApiError> {
        let mut url = self.url(&call.path)?;
        if !call.query.is_empty() {
            url.query_pairs_mut().extend_pairs(&call.query);
        }
        let body = call.body.map(erased::Body::json).transpose().map_err(ApiError::Encode)?;
        let idempotency_key = (call.method == Method::POST).then(|| Uuid::now_v7().to_string());
        // Only what cannot happen twice is sent twice.
        let resends = if idempotency_key.is_some() || call.method == Method::GET { RESENDS } else { 0 };
        let mut sent = 0;
        let response = loop {
            let mut request = self.http.request(call.method.clone(), url.clone());
            request = request.header(AUTHORIZATION, self.authorization()?);
            if let Some(key) = &idempotency_key {
                request = request.header("Idempotency-Key", key);
            }
            if let Some(version) = call.if_match {
                request = request.header(IF_MATCH, format!("\"{version}\""));
            }
            if let Some(body) = &body {
                request =
                    request.header(reqwest::header::CONTENT_TYPE, "application/json").body(body.clone());
            }
            match request.send().await {
                Ok(response) if sent < resends && was_cut_off(response.status()) => {
                    sent += 1;
                    tokio::time::sleep(RESEND_AFTER).await;
                }
                Ok(response) => break response,
                Err(e) if sent < resends && !e.is_connect() && !e.is_timeout() => {
                    sent += 1;
                    tokio::time::sleep(RESEND_AFTER).await;
                }
                Err(e) => return Err(self.transport(e)),
            }
        };
        if !response.status().is_success() {
            return Err(refusal(response).await);
        }
        let status = response.status().as_u16();
        let bytes = response.bytes().await.map_err(|e| self.transport(e))?;
        // An answer without a body is one of a command that answers nothing.
        let body: &[u8] = if bytes.is_empty() { b"null" } else { &bytes };
        serde_json::from_slice(body).map_err(|source| ApiError::Decode { status, source })
    }

    fn authorization(&self) -> Result<HeaderValue, ApiError> {
        let mut value = HeaderValue::from_str(&format!("Bearer {}", self.credentials.token()?))
            .map_err(|_| ApiError::InvalidToken)?;
        value.set_sensitive(true);
        Ok(value)
    }
}

/// Whether whoever stands before the server says that it did not get to an answer: a function that was killed at work, or
/// that could not be started.
const fn was_cut_off(status: StatusCode) -> bool {
    matches!(status, StatusCode::BAD_GATEWAY | StatusCode::SERVICE_UNAVAILABLE | StatusCode::GATEWAY_TIMEOUT)
}

/// Whether an address is of this machine.
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

/// What the server says when it refuses: its problem document, or whatever else stands there.
async fn refusal(response: reqwest::Response) -> ApiError {
    let status = response.status();
    match response.bytes().await {
        Ok(body) => refusal_of(status, &body),
        Err(e) => ApiError::Transport(e),
    }
}

/// The refusal that a body stands for.
fn refusal_of(status: StatusCode, body: &[u8]) -> ApiError {
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
mod cloud_tests;
#[cfg(test)]
mod tests;
