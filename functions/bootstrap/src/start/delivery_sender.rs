//! Sends deliveries to webhooks of owners and to push services of browsers.

use std::fmt;

use async_trait::async_trait;
use aws_smithy_http_client::Connector;
use aws_smithy_http_client::tls::{Provider, rustls_provider::CryptoMode};
use aws_smithy_runtime_api::client::dns::{DnsFuture, ResolveDns, ResolveDnsError};
use aws_smithy_runtime_api::client::http::{HttpConnector as _, SharedHttpConnector};
use aws_smithy_runtime_api::client::orchestrator::HttpRequest;
use pilothouse_app::integrations::{DeliveryError, DeliveryRequest, DeliverySender, REQUEST_TIMEOUT};
use pilothouse_domain::webhook::EgressPolicy;

/// Connects only to addresses that the policy allows. Names are checked when the connection resolves them, so that a name cannot
/// change its address after a check.
pub(super) struct HttpDeliverySender(SharedHttpConnector);

impl HttpDeliverySender {
    pub(super) fn new(egress_policy: EgressPolicy) -> Self {
        let connector = Connector::builder().tls_provider(Provider::Rustls(CryptoMode::AwsLc));
        Self(SharedHttpConnector::new(connector.build_with_resolver(AllowedAddresses(egress_policy))))
    }

    async fn post(&self, request: &DeliveryRequest) -> Result<u16, Box<dyn std::error::Error + Send + Sync>> {
        let mut http_request = HttpRequest::new(request.body.to_vec().into());
        http_request.set_method("POST")?;
        http_request.set_uri(request.url.as_str().to_owned())?;
        for (name, value) in &request.headers {
            http_request.headers_mut().try_insert(*name, value.clone())?;
        }
        Ok(self.0.call(http_request).await?.status().as_u16())
    }
}

#[async_trait]
impl DeliverySender for HttpDeliverySender {
    async fn deliver(&self, request: &DeliveryRequest) -> Result<u16, DeliveryError> {
        let response = tokio::time::timeout(REQUEST_TIMEOUT, self.post(request)).await;
        let response = response
            .unwrap_or_else(|_| Err(format!("no response within {} s", REQUEST_TIMEOUT.as_secs()).into()));
        response.map_err(|error| DeliveryError::Failed(pilothouse_app::error_chain(error.as_ref())))
    }
}

#[derive(Clone)]
struct AllowedAddresses(EgressPolicy);

impl fmt::Debug for AllowedAddresses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AllowedAddresses({:?})", self.0)
    }
}

impl ResolveDns for AllowedAddresses {
    fn resolve_dns<'a>(&'a self, name: &'a str) -> DnsFuture<'a> {
        DnsFuture::new(async move {
            let found = tokio::net::lookup_host((name, 0)).await.map_err(ResolveDnsError::new)?;
            let addresses: Vec<_> =
                found.map(|address| address.ip()).filter(|address| self.0.admits(*address)).collect();
            if addresses.is_empty() {
                return Err(ResolveDnsError::new("the name resolves to no address that webhooks may reach"));
            }
            Ok(addresses)
        })
    }
}
