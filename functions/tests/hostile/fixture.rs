//! An app with a table that counts reads, and requests of owners.

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use http::{Method, Request};
use pilothouse_app::http::auth::VerifiedOwner;
use pilothouse_app::integrations::{DeliverySender, Integrations};
use pilothouse_app::{App, Parts};
use pilothouse_domain::UserId;
use pilothouse_store::Store;
use pilothouse_test_support::{EmbeddedEngines, FaultyTable, TestClock};
use serde_json::Value;
use tower::ServiceExt as _;

pub(crate) struct ApiFixture {
    pub(crate) app: App,
    pub(crate) clock: TestClock,
    pub(crate) table: FaultyTable,
    router: Router,
    _engines: EmbeddedEngines,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) body: Value,
}

impl ApiFixture {
    pub(crate) async fn new() -> Self {
        Self::with(None).await
    }

    pub(crate) async fn with(courier: Option<Arc<dyn DeliverySender>>) -> Self {
        let clock = TestClock::system();
        let engines = EmbeddedEngines::open(clock.as_fn()).await;
        let table = FaultyTable::new(engines.table.clone());
        let app = App::new(Parts {
            store: Store::new(Arc::new(table.clone())),
            integrations: Integrations { delivery_sender: courier, ..Integrations::default() },
            ..engines.parts()
        });
        let router = pilothouse_functions::router(app.clone());
        Self { app, clock, table, router, _engines: engines }
    }

    /// Sends a request of an owner (`Ok`), or with a token (`Err`).
    pub(crate) async fn send(
        &self,
        caller: Result<&str, &str>,
        method: &Method,
        path: &str,
        body: Option<Value>,
    ) -> Reply {
        let mut request =
            Request::builder().method(method).uri(path).header("content-type", "application/json");
        if let Err(token) = caller {
            request = request.header("authorization", format!("Bearer {token}"));
        }
        let body = body.map_or_else(Body::empty, |body| Body::from(body.to_string()));
        let mut request = request.body(body).unwrap();
        if let Ok(owner) = caller {
            request.extensions_mut().insert(VerifiedOwner(UserId::parse(owner).unwrap()));
        }
        self.send_request(request).await
    }

    pub(crate) async fn send_request(&self, request: Request<Body>) -> Reply {
        let response = self.router.clone().oneshot(request).await.unwrap();
        let status = response.status().as_u16();
        let body = axum::body::to_bytes(response.into_body(), 1 << 20).await.unwrap();
        Reply { status, body: serde_json::from_slice(&body).unwrap_or_default() }
    }

    /// Like [`Self::send`], with the number of reads.
    pub(crate) async fn counted(
        &self,
        owner: &str,
        method: &Method,
        path: &str,
        body: Option<Value>,
    ) -> (Reply, usize) {
        let before = self.table.reads();
        let reply = self.send(Ok(owner), method, path, body).await;
        (reply, self.table.reads() - before)
    }
}
