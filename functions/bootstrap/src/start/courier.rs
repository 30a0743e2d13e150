//! Brings deliveries to the endpoints of owners.

use std::fmt;

use async_trait::async_trait;
use aws_smithy_http_client::Connector;
use aws_smithy_http_client::tls::{Provider, rustls_provider::CryptoMode};
use aws_smithy_runtime_api::client::dns::{DnsFuture, ResolveDns, ResolveDnsError};
use aws_smithy_runtime_api::client::http::{HttpConnector as _, SharedHttpConnector};
use aws_smithy_runtime_api::client::orchestrator::HttpRequest;
use pilothouse_domain::webhook::Reach;
use pilothouse_functions::outside::{Courier, PATIENCE, Parcel};

/// Over connections that lead nowhere but within reach: what a name resolves to is looked at when the connection is opened,
/// so that nobody gets in by a name that changes its mind.
pub(super) struct Guarded(SharedHttpConnector);

impl Guarded {
    pub(super) fn new(reach: Reach) -> Self {
        let connector = Connector::builder().tls_provider(Provider::Rustls(CryptoMode::AwsLc));
        Self(SharedHttpConnector::new(connector.build_with_resolver(WithinReach(reach))))
    }

    async fn post(&self, parcel: &Parcel) -> Result<u16, Box<dyn std::error::Error + Send + Sync>> {
        let mut request = HttpRequest::new(parcel.body.clone().into());
        request.set_method("POST")?;
        request.set_uri(parcel.url.as_str().to_owned())?;
        for (name, value) in parcel.headers() {
            request.headers_mut().try_insert(name, value)?;
        }
        Ok(self.0.call(request).await?.status().as_u16())
    }
}

#[async_trait]
impl Courier for Guarded {
    async fn deliver(&self, parcel: &Parcel) -> Result<u16, String> {
        match tokio::time::timeout(PATIENCE, self.post(parcel)).await {
            Ok(answered) => answered.map_err(|error| pilothouse_functions::intake::chain(error.as_ref())),
            Err(_) => Err(format!("no answer within {} s", PATIENCE.as_secs())),
        }
    }
}

#[derive(Clone)]
struct WithinReach(Reach);

impl fmt::Debug for WithinReach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "WithinReach({:?})", self.0)
    }
}

impl ResolveDns for WithinReach {
    fn resolve_dns<'a>(&'a self, name: &'a str) -> DnsFuture<'a> {
        DnsFuture::new(async move {
            let found = tokio::net::lookup_host((name, 0)).await.map_err(ResolveDnsError::new)?;
            let addresses: Vec<_> =
                found.map(|address| address.ip()).filter(|address| self.0.admits(*address)).collect();
            if addresses.is_empty() {
                return Err(ResolveDnsError::new("the name leads to no address that webhooks may reach"));
            }
            Ok(addresses)
        })
    }
}
