//! Requests to services other than AWS: the issuer of tokens, a collector of traces.

use aws_smithy_http_client::Connector;
use aws_smithy_http_client::tls::{Provider, rustls_provider::CryptoMode};
use aws_smithy_runtime_api::client::http::{HttpConnector as _, SharedHttpConnector};
use aws_smithy_runtime_api::client::orchestrator::{HttpRequest, HttpResponse};

#[derive(Debug, Clone)]
pub(crate) struct HttpClient(SharedHttpConnector);

#[derive(Debug, thiserror::Error)]
pub(crate) enum HttpClientError {
    #[error("invalid address")]
    Address(#[source] Box<dyn std::error::Error + Send + Sync>),
    #[error("no response")]
    Unreachable(#[source] Box<dyn std::error::Error + Send + Sync>),
    #[error("the response has status {0}")]
    Refused(u16),
}

impl HttpClient {
    /// Creates a client that opens connections on demand.
    pub(crate) fn new() -> Self {
        let connector = Connector::builder().tls_provider(Provider::Rustls(CryptoMode::AwsLc)).build();
        Self(SharedHttpConnector::new(connector))
    }

    /// Sends a request without a timeout; the caller sets one. The response may have any status.
    pub(crate) async fn exchange(&self, request: HttpRequest) -> Result<HttpResponse, HttpClientError> {
        self.0.call(request).await.map_err(|error| HttpClientError::Unreachable(Box::new(error)))
    }

    /// Like [`Self::exchange`], but fails unless the status of the response is a success.
    pub(crate) async fn send(&self, request: HttpRequest) -> Result<HttpResponse, HttpClientError> {
        let response = self.exchange(request).await?;
        let status = response.status();
        if status.is_success() { Ok(response) } else { Err(HttpClientError::Refused(status.as_u16())) }
    }
}
