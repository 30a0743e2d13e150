//! Requests to others than AWS: the issuer of tokens, a collector of traces.

use aws_smithy_http_client::Connector;
use aws_smithy_http_client::tls::{Provider, rustls_provider::CryptoMode};
use aws_smithy_runtime_api::client::http::{HttpConnector as _, SharedHttpConnector};
use aws_smithy_runtime_api::client::orchestrator::{HttpRequest, HttpResponse};

/// Connections to outside.
#[derive(Debug, Clone)]
pub(crate) struct Outside(SharedHttpConnector);

/// Why there is no good answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum OutsideError {
    /// The address is none.
    #[error("not an address")]
    Address(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// Nobody answered.
    #[error("no answer")]
    Unreachable(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The answer is a refusal.
    #[error("the answer was {0}")]
    Refused(u16),
}

impl Outside {
    /// Connections that are opened when they are needed.
    pub(crate) fn new() -> Self {
        let connector = Connector::builder().tls_provider(Provider::Rustls(CryptoMode::AwsLc)).build();
        Self(SharedHttpConnector::new(connector))
    }

    /// Sends a request. How long that may take is the caller's to say.
    pub(crate) async fn send(&self, request: HttpRequest) -> Result<HttpResponse, OutsideError> {
        let answered = self.0.call(request).await;
        let response = answered.map_err(|error| OutsideError::Unreachable(Box::new(error)))?;
        let status = response.status();
        if status.is_success() { Ok(response) } else { Err(OutsideError::Refused(status.as_u16())) }
    }
}
