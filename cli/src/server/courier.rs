//! Brings deliveries to the endpoints of owners.

use std::net::SocketAddr;
use std::sync::Arc;

use async_trait::async_trait;
use pilothouse_domain::webhook::Reach;
use pilothouse_functions::intake::chain;
use pilothouse_functions::outside::{Courier, PATIENCE, Parcel};
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use reqwest::redirect::Policy;

/// Over connections that lead nowhere but within reach: what a name resolves to is looked at when the connection is opened,
/// so that nobody gets in by a name that changes its mind. Addresses in numbers are looked at before.
pub(super) struct Guarded(reqwest::Client);

impl Guarded {
    pub(super) fn new(reach: Reach) -> Result<Self, reqwest::Error> {
        let http = reqwest::Client::builder()
            .redirect(Policy::none())
            .no_proxy()
            .timeout(PATIENCE)
            .dns_resolver(Arc::new(WithinReach(reach)))
            .build()?;
        Ok(Self(http))
    }
}

#[async_trait]
impl Courier for Guarded {
    async fn deliver(&self, parcel: &Parcel) -> Result<u16, String> {
        let mut request = self.0.post(parcel.url.as_str()).body(parcel.body.clone());
        for (name, value) in parcel.headers() {
            request = request.header(name, value);
        }
        request.send().await.map(|answer| answer.status().as_u16()).map_err(|error| chain(&error))
    }
}

struct WithinReach(Reach);

impl Resolve for WithinReach {
    fn resolve(&self, name: Name) -> Resolving {
        let reach = self.0;
        Box::pin(async move {
            let found = tokio::net::lookup_host((name.as_str(), 0)).await?;
            let addresses: Vec<SocketAddr> = found.filter(|address| reach.admits(address.ip())).collect();
            if addresses.is_empty() {
                return Err("the name leads to no address that webhooks may reach".into());
            }
            Ok(Box::new(addresses.into_iter()) as Addrs)
        })
    }
}
