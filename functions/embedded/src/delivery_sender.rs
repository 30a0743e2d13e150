//! Sends deliveries to webhooks of owners and to push services of browsers.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use async_trait::async_trait;
use pilothouse_app::error_chain;
use pilothouse_app::integrations::{DeliveryError, DeliveryRequest, DeliverySender, REQUEST_TIMEOUT};
use pilothouse_domain::UserId;
use pilothouse_domain::webhook::EgressPolicy;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use reqwest::redirect::Policy;
use tokio::sync::Semaphore;

/// Most concurrent deliveries of one owner, so that hanging endpoints do not affect other owners.
const PER_OWNER: usize = 16;
/// How long a delivery waits for a slot before it is postponed. Far below the queue's visibility timeout.
const SLOT_TIMEOUT: Duration = Duration::from_secs(20);
/// How long an idle connection to an endpoint is kept.
const IDLE_TIMEOUT: Duration = Duration::from_secs(15);

/// Sends over HTTP, only to allowed addresses. Host names are checked when a connection resolves them, so that a
/// name cannot change its address after a check. Literal addresses are checked earlier.
pub(super) struct HttpDeliverySender {
    http: reqwest::Client,
    all: Semaphore,
    per_owner: PerOwner,
}

impl HttpDeliverySender {
    pub(super) fn new(egress_policy: EgressPolicy, parallel: usize) -> Result<Self, reqwest::Error> {
        let http = reqwest::Client::builder()
            .redirect(Policy::none())
            .no_proxy()
            .timeout(REQUEST_TIMEOUT)
            .pool_idle_timeout(IDLE_TIMEOUT)
            .pool_max_idle_per_host(2)
            .dns_resolver(Arc::new(AllowedAddresses(egress_policy)))
            .build()?;
        let per_owner = PerOwner { limit: PER_OWNER.min(parallel.div_ceil(2)), owners: Mutex::default() };
        Ok(Self { http, all: Semaphore::new(parallel), per_owner })
    }

    async fn post(&self, request: &DeliveryRequest) -> Result<u16, DeliveryError> {
        let mut http_request = self.http.post(request.url.as_str()).body(request.body.clone());
        for (name, value) in &request.headers {
            http_request = http_request.header(*name, value);
        }
        let response = http_request.send().await;
        response
            .map(|response| response.status().as_u16())
            .map_err(|error| DeliveryError::Failed(error_chain(&error)))
    }
}

#[async_trait]
impl DeliverySender for HttpDeliverySender {
    async fn deliver(&self, request: &DeliveryRequest) -> Result<u16, DeliveryError> {
        let owners = self.per_owner.of(&request.owner);
        let slots = async {
            // The owner's slot first: a waiting owner must not hold a slot that others could use.
            let own = owners.acquire().await.ok()?;
            Some((own, self.all.acquire().await.ok()?))
        };
        match tokio::time::timeout(SLOT_TIMEOUT, slots).await {
            Ok(Some(_turn)) => self.post(request).await,
            _ => Err(DeliveryError::Busy),
        }
    }
}

/// A semaphore for each owner with current deliveries.
struct PerOwner {
    limit: usize,
    owners: Mutex<HashMap<UserId, Weak<Semaphore>>>,
}

impl PerOwner {
    fn of(&self, owner: &UserId) -> Arc<Semaphore> {
        let mut owners = self.owners.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = owners.get(owner).and_then(Weak::upgrade) {
            return known;
        }
        owners.retain(|_, semaphore| semaphore.strong_count() > 0);
        let fresh = Arc::new(Semaphore::new(self.limit));
        owners.insert(owner.clone(), Arc::downgrade(&fresh));
        fresh
    }
}

struct AllowedAddresses(EgressPolicy);

impl Resolve for AllowedAddresses {
    fn resolve(&self, name: Name) -> Resolving {
        let egress_policy = self.0;
        Box::pin(async move {
            let found = tokio::net::lookup_host((name.as_str(), 0)).await?;
            let addresses: Vec<SocketAddr> =
                found.filter(|address| egress_policy.admits(address.ip())).collect();
            if addresses.is_empty() {
                return Err("the name resolves to no address that webhooks may reach".into());
            }
            Ok(Box::new(addresses.into_iter()) as Addrs)
        })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use pilothouse_domain::webhook::WebhookUrl;
    use tokio::io::AsyncReadExt as _;
    use tokio::net::TcpListener;

    use super::*;

    fn request(owner: &str, url: &str, egress_policy: EgressPolicy) -> DeliveryRequest {
        DeliveryRequest {
            owner: UserId::parse(owner).unwrap(),
            url: WebhookUrl::parse(url).unwrap(),
            egress_policy,
            headers: Vec::new(),
            body: "{}".into(),
        }
    }

    /// The address is checked for the connection itself: an earlier lookup could return another one.
    #[tokio::test]
    async fn name_that_resolves_to_a_blocked_address_is_not_connected() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("https://localhost:{}/", listener.local_addr().unwrap().port());
        let refused = HttpDeliverySender::new(EgressPolicy::Public, 8)
            .unwrap()
            .deliver(&request("ada", &url, EgressPolicy::Public))
            .await;
        let Err(DeliveryError::Failed(why)) = refused else { panic!("{refused:?}") };
        assert!(why.contains("may reach"), "{why}");
        // The same name with an allowed address is connected to.
        let within = HttpDeliverySender::new(EgressPolicy::Loopback, 8).unwrap();
        let sending =
            tokio::spawn(async move { within.deliver(&request("ada", &url, EgressPolicy::Loopback)).await });
        let (mut stream, _) = listener.accept().await.unwrap();
        assert!(stream.read(&mut [0; 1]).await.unwrap() > 0);
        drop(stream);
        assert!(matches!(sending.await.unwrap(), Err(DeliveryError::Failed(_))));
    }

    #[tokio::test(start_paused = true)]
    async fn hanging_deliveries_of_one_owner_do_not_delay_others() {
        let sender = HttpDeliverySender::new(EgressPolicy::Loopback, 8).unwrap();
        let mallory = UserId::parse("mallory").unwrap();
        let hanging = sender.per_owner.of(&mallory);
        let _turns = hanging.try_acquire_many(4).unwrap();
        assert!(hanging.try_acquire().is_err(), "half of all is the most for one owner");
        let put_off =
            sender.deliver(&request("mallory", "http://127.0.0.1:1/", EgressPolicy::Loopback)).await;
        assert_eq!(put_off, Err(DeliveryError::Busy));
        let tried = sender.deliver(&request("bob", "http://127.0.0.1:1/", EgressPolicy::Loopback)).await;
        assert!(matches!(tried, Err(DeliveryError::Failed(_))), "{tried:?}");
    }
}
