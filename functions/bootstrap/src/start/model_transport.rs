//! Sends requests to the models that review coherence issues and embed texts.

use async_trait::async_trait;
use aws_smithy_runtime_api::client::orchestrator::HttpRequest;
use axum::body::{Body, to_bytes};
use pilothouse_app::error_chain;
use pilothouse_app::models::{
    MAX_RESPONSE_BYTES, ModelRequest, ModelResponse, ModelTransport, NoResponse, REQUEST_TIMEOUT,
};

use crate::http_client::HttpClient;

pub(super) struct HttpModelTransport(HttpClient);

impl HttpModelTransport {
    pub(super) fn new() -> Self {
        Self(HttpClient::new())
    }

    async fn send(
        &self,
        request: &ModelRequest,
    ) -> Result<ModelResponse, Box<dyn std::error::Error + Send + Sync>> {
        let mut http_request = HttpRequest::new(request.body.clone().into());
        http_request.set_method("POST")?;
        http_request.set_uri(request.url.clone())?;
        for (name, value) in &request.headers {
            http_request.headers_mut().try_insert(*name, value.clone())?;
        }
        let response = self.0.exchange(http_request).await?;
        let status = response.status().as_u16();
        let bytes = to_bytes(Body::new(response.into_body()), MAX_RESPONSE_BYTES).await?;
        Ok(ModelResponse { status, body: String::from_utf8_lossy(&bytes).into_owned() })
    }
}

#[async_trait]
impl ModelTransport for HttpModelTransport {
    async fn post(&self, request: &ModelRequest) -> Result<ModelResponse, NoResponse> {
        match tokio::time::timeout(REQUEST_TIMEOUT, self.send(request)).await {
            Ok(response) => response.map_err(|error| NoResponse(error_chain(error.as_ref()))),
            Err(_) => Err(NoResponse(format!("no response within {} s", REQUEST_TIMEOUT.as_secs()))),
        }
    }
}
