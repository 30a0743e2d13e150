//! Redrives, without processes: an event that cannot be applied is quarantined, and applied exactly once when it is sent again
//! (decision 9).

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::time::Duration;

use axum::body::Body;
use http::{Request, StatusCode};
use pilothouse_app::Fleet;
use pilothouse_app::http::auth::VerifiedOwner;
use pilothouse_app::{App, Parts, queues};
use pilothouse_broker::OutgoingMessage;
use pilothouse_domain::journal::JournalEntry;
use pilothouse_domain::{AgentSessionId, RunId, SessionEvent, UserId};
use pilothouse_functions::events::intake;
use pilothouse_store::layout;
use pilothouse_store::table::{Condition, Item, Key, Table as _, Write};
use pilothouse_test_support::{
    EmbeddedEngines, TestClock, create_session_with_run, new_session, sealed_event,
};
use pilothouse_wire::launch::RunAccessIssuer;
use serde_json::{Value, json};
use tower::ServiceExt as _;

struct RedriveFixture {
    app: App,
    clock: TestClock,
    session: AgentSessionId,
    run: RunId,
    engines: EmbeddedEngines,
}

impl RedriveFixture {
    /// A session with a run that has sent no events.
    async fn new() -> Self {
        let clock = TestClock::system();
        let engines = EmbeddedEngines::open(clock.as_fn()).await;
        let operators = [UserId::parse("operator").unwrap()].into_iter().collect();
        let app = App::new(Parts {
            fleet: Some(Fleet {
                run_access_issuer: RunAccessIssuer::via_gateway("http://127.0.0.1:1"),
                vendor: None,
                operators,
            }),
            ..engines.parts()
        });
        let owner = UserId::parse("somebody").unwrap();
        let (session, run) = create_session_with_run(&app, new_session(&owner, "10")).await;
        Self { app, clock, session, run, engines }
    }

    async fn send(&self, sequence: u64, body: Value) {
        let message = sealed_event(&self.app, self.session, self.run, Some(sequence), body);
        assert!(self.app.broker.send(&queues::events(), vec![message]).await.unwrap().failed.is_empty());
    }

    /// Runs the intake, skipping all pauses, until the queue is empty.
    async fn take_in(&self) {
        for _ in 0..50 {
            let batch = self.app.broker.receive(&queues::events(), 10, Duration::ZERO).await.unwrap();
            intake::process_and_settle(&self.app, batch).await.unwrap();
            let depth = self.app.broker.depth(&queues::events()).await.unwrap();
            if depth.visible + depth.in_flight == 0 {
                return;
            }
            self.clock.advance(Duration::from_secs(31));
        }
        panic!("the queue is not empty");
    }

    fn helper(&self) -> Key {
        Key::new(layout::session_partition(self.session), "SUB#helper")
    }

    /// Stores an item that this version cannot parse, as a newer version might.
    async fn damage(&self) {
        let (kind, body) = ("subagent".to_owned(), "{}".to_owned());
        let item =
            Item { key: self.helper(), kind, version: 0, listing: None, due: None, expires_at: None, body };
        self.engines.table.transact(vec![Write::Put(item, Condition::Always)]).await.unwrap();
    }

    async fn repair(&self) {
        self.engines.table.transact(vec![Write::Delete(self.helper(), Condition::Always)]).await.unwrap();
    }

    async fn spent(&self) -> String {
        let loaded = self.app.store.conversation(self.session).await.unwrap().unwrap();
        loaded.conversation.session.budget().estimated_cost_usd().to_string()
    }

    async fn events(&self) -> Vec<SessionEvent> {
        let journal: Vec<JournalEntry> = self.app.store.journal(self.session, 0, 200).await.unwrap();
        journal.into_iter().flat_map(|entry| entry.events).collect()
    }

    async fn dead(&self) -> u64 {
        self.app.broker.dead_letter_depth(&queues::events()).await.unwrap()
    }

    async fn ask(&self, owner: &str, method: &str, path: &str) -> (StatusCode, Value) {
        let path = format!("/api/operations/dead-letters{path}");
        let mut request = Request::builder().method(method).uri(path).body(Body::empty()).unwrap();
        request.extensions_mut().insert(VerifiedOwner(UserId::parse(owner).unwrap()));
        let response = pilothouse_functions::router(self.app.clone()).oneshot(request).await.unwrap();
        let status = response.status();
        let body = axum::body::to_bytes(response.into_body(), 1 << 20).await.unwrap();
        (status, serde_json::from_slice(&body).unwrap_or_default())
    }

    async fn redrive(&self) -> Value {
        let (status, body) = self.ask("operator", "POST", "/events/redrive").await;
        assert_eq!(status, StatusCode::OK, "{body}");
        body
    }
}

fn usage(total: &str, subagent: Option<&str>) -> Value {
    let meter = subagent.unwrap_or("main");
    json!({ "type": "usage_update", "meterId": meter, "modelId": "m", "subagentId": subagent,
            "costUsd": total, "tokenUsage": {} })
}

fn late(events: &[SessionEvent]) -> Vec<u64> {
    let sequence = |event: &SessionEvent| match event {
        SessionEvent::EventRedriven { sequence } => Some(*sequence),
        _ => None,
    };
    events.iter().filter_map(sequence).collect()
}

#[tokio::test]
async fn quarantined_event_is_reprocessed_once() {
    let fixture = RedriveFixture::new().await;
    fixture.damage().await;
    fixture.send(1, usage("1", None)).await;
    fixture.send(2, usage("0.25", Some("helper"))).await;
    fixture.send(3, usage("2", None)).await;
    fixture.take_in().await;
    assert_eq!((fixture.spent().await.as_str(), fixture.dead().await), ("2", 1), "others are applied");

    let (status, list) = fixture.ask("operator", "GET", "").await;
    assert_eq!(status, StatusCode::OK);
    let letter = &list["queues"][0]["letters"][0];
    assert_eq!((&letter["receiveCount"], &letter["group"]), (&json!(5), &json!(fixture.session)), "{list:#}");
    assert!(letter["cause"].as_str().unwrap().contains("cannot be read"), "{list:#}");

    // The cause remains, so the event fails again but is not lost.
    assert_eq!(fixture.redrive().await["redrive"]["letters"], 1);
    fixture.take_in().await;
    assert_eq!((fixture.spent().await.as_str(), fixture.dead().await), ("2", 1));

    fixture.repair().await;
    let response = fixture.redrive().await;
    assert_eq!((&response["redrive"]["letters"], &response["left"]), (&json!(1), &json!(0)));
    fixture.take_in().await;
    assert_eq!((fixture.spent().await.as_str(), fixture.dead().await), ("2.25", 0));
    assert_eq!(late(&fixture.events().await), [2]);

    let (_, list) = fixture.ask("operator", "GET", "").await;
    assert_eq!(list["queues"], json!([]));
    let redrives = list["redrives"].as_array().unwrap();
    assert_eq!(redrives.len(), 2);
    assert!(
        redrives.iter().all(|r| r["by"] == "operator" && r["requests"].as_u64().unwrap() >= 4),
        "{list:#}"
    );
    // The next sequence is accepted.
    fixture.send(4, usage("3", None)).await;
    fixture.take_in().await;
    assert_eq!(fixture.spent().await, "3.25");
}

/// Sent twice with the marker, as by an interrupted redrive, and once without it, as by a sidecar that repeats it.
#[tokio::test]
async fn reprocessed_event_is_not_applied_again() {
    let fixture = RedriveFixture::new().await;
    fixture.damage().await;
    fixture.send(1, usage("0.25", Some("helper"))).await;
    fixture.take_in().await;
    fixture.repair().await;
    let letter = fixture.app.broker.receive_dead_letters(&queues::events(), 1).await.unwrap().remove(0);
    for copy in 0..3 {
        let again = OutgoingMessage {
            redriven: copy > 0,
            ..OutgoingMessage::new(letter.group.clone(), format!("copy-{copy}"), letter.body.clone())
        };
        assert!(fixture.app.broker.send(&queues::events(), vec![again]).await.unwrap().failed.is_empty());
    }
    fixture.take_in().await;
    assert_eq!(fixture.spent().await, "0.25");
    assert_eq!(late(&fixture.events().await), [1]);
}

#[tokio::test]
async fn only_operators_see_and_redrive_dead_letters() {
    let fixture = RedriveFixture::new().await;
    for (method, path) in [("GET", ""), ("POST", "/events/redrive")] {
        let (status, body) = fixture.ask("somebody", method, path).await;
        assert_eq!((status, &body["code"]), (StatusCode::NOT_FOUND, &json!("not-found")), "{method} {path}");
        assert_eq!(fixture.ask("operator", method, path).await.0, StatusCode::OK, "{method} {path}");
    }
    assert_eq!(fixture.ask("operator", "POST", "/nowhere/redrive").await.0, StatusCode::NOT_FOUND);
}
