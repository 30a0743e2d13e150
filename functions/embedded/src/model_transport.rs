//! Sends requests to the models that review coherence issues and embed texts.

use std::path::Path;

use async_trait::async_trait;
use pilothouse_app::error_chain;
use pilothouse_app::models::{
    MAX_RESPONSE_BYTES, ModelKey, ModelRequest, ModelResponse, ModelTransport, NoResponse, REQUEST_TIMEOUT,
};
use pilothouse_worker::check_private;
use reqwest::redirect::Policy;

/// Does not follow redirects, which would send the key elsewhere.
pub(super) struct HttpModelTransport(reqwest::Client);

impl HttpModelTransport {
    pub(super) fn new() -> Result<Self, reqwest::Error> {
        Ok(Self(reqwest::Client::builder().redirect(Policy::none()).timeout(REQUEST_TIMEOUT).build()?))
    }

    async fn send(&self, request: &ModelRequest) -> Result<ModelResponse, NoResponse> {
        let failed = |error: reqwest::Error| NoResponse(error_chain(&error.without_url()));
        let mut http_request = self.0.post(&request.url).body(request.body.clone());
        for (name, value) in &request.headers {
            http_request = http_request.header(*name, value);
        }
        let mut response = http_request.send().await.map_err(failed)?;
        let (status, mut body) = (response.status().as_u16(), Vec::new());
        while let Some(chunk) = response.chunk().await.map_err(failed)? {
            body.extend_from_slice(&chunk);
            if body.len() > MAX_RESPONSE_BYTES {
                return Err(NoResponse("the response is too large".to_owned()));
            }
        }
        Ok(ModelResponse { status, body: String::from_utf8_lossy(&body).into_owned() })
    }
}

#[async_trait]
impl ModelTransport for HttpModelTransport {
    async fn post(&self, request: &ModelRequest) -> Result<ModelResponse, NoResponse> {
        self.send(request).await
    }
}

/// Reads the key of a model from a file, which must be private.
pub(super) fn read_key(path: &Path) -> std::io::Result<ModelKey> {
    check_private(path)?;
    Ok(ModelKey(std::fs::read_to_string(path)?.trim().to_owned()))
}
