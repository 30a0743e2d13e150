//! Failing endpoints and browsers delay only their own deliveries.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use http::Method;
use pilothouse_app::integrations::{DeliveryError, DeliveryRequest, DeliverySender};
use pilothouse_app::queues;
use pilothouse_broker::{OutgoingMessage, Received};
use pilothouse_domain::announcement::Announcement;
use pilothouse_domain::{AgentSessionId, SessionEvent, UserId};
use pilothouse_functions::events::event_feed;
use pilothouse_functions::events::webhook_delivery;
use pilothouse_store::AggregateRef;
use pilothouse_test_support::{CrashPoint, commit_events, create_session_with_run, new_session};
use serde_json::{Value, json};

use crate::fixture::ApiFixture;

/// Endpoints, identified by host.
#[derive(Default)]
struct Endpoints(Mutex<Endpoint>);

#[derive(Default)]
struct Endpoint {
    /// The host and the id of the delivery of every attempt, in order.
    attempts: Vec<(String, String)>,
    taken: Vec<(String, String)>,
    /// Hosts that do not respond.
    dead: BTreeSet<String>,
    /// Hosts that unsubscribe.
    gone: BTreeSet<String>,
    /// Hosts for which no connection is free.
    busy: BTreeSet<String>,
    /// Deliveries whose body contains this text are refused.
    refuses: Option<String>,
    /// The current and the maximum number of concurrent deliveries.
    under_way: usize,
    most: usize,
}

fn delivery_id(parcel: &DeliveryRequest) -> String {
    let header = parcel.headers.iter().find(|(name, _)| *name == "webhook-id");
    header.map(|(_, id)| id.clone()).unwrap_or_default()
}

#[async_trait]
impl DeliverySender for Endpoints {
    async fn deliver(&self, parcel: &DeliveryRequest) -> Result<u16, DeliveryError> {
        let host = parcel.url.as_str().trim_start_matches("https://").trim_end_matches('/').to_owned();
        {
            let mut endpoint = self.0.lock().unwrap();
            if endpoint.busy.contains(&host) {
                return Err(DeliveryError::Busy);
            }
            endpoint.under_way += 1;
            endpoint.most = endpoint.most.max(endpoint.under_way);
            endpoint.attempts.push((host.clone(), delivery_id(parcel)));
        }
        // Lets the other deliveries start.
        tokio::task::yield_now().await;
        let mut endpoint = self.0.lock().unwrap();
        endpoint.under_way -= 1;
        if endpoint.dead.contains(&host) {
            return Err(DeliveryError::Failed("no response".to_owned()));
        }
        if endpoint.gone.contains(&host) {
            return Ok(410);
        }
        if endpoint
            .refuses
            .as_ref()
            .is_some_and(|text| String::from_utf8_lossy(&parcel.body).contains(text.as_str()))
        {
            return Ok(500);
        }
        endpoint.taken.push((host, delivery_id(parcel)));
        Ok(200)
    }
}

impl Endpoints {
    fn kill(&self, host: &str) {
        self.0.lock().unwrap().dead.insert(host.to_owned());
    }
    fn revive(&self, host: &str) {
        self.0.lock().unwrap().dead.remove(host);
    }
    fn unsubscribe(&self, host: &str) {
        self.0.lock().unwrap().gone.insert(host.to_owned());
    }
    fn set_busy(&self, host: &str, is_busy: bool) {
        let mut endpoint = self.0.lock().unwrap();
        if is_busy {
            endpoint.busy.insert(host.to_owned());
        } else {
            endpoint.busy.remove(host);
        }
    }
    fn attempts(&self, host: &str) -> usize {
        self.0.lock().unwrap().attempts.iter().filter(|(at, _)| at == host).count()
    }
    /// The number of deliveries that an endpoint accepted, without repeats.
    fn taken(&self, host: &str) -> usize {
        let endpoint = self.0.lock().unwrap();
        let taken: Vec<_> = endpoint.taken.iter().filter(|(at, _)| at == host).map(|(_, id)| id).collect();
        assert_eq!(taken.iter().collect::<BTreeSet<_>>().len(), taken.len(), "delivered twice");
        taken.len()
    }
}

const PHONE: &str = "push.example/phone";

async fn with_endpoints() -> (ApiFixture, Arc<Endpoints>) {
    let endpoints = Arc::new(Endpoints::default());
    let fixture = ApiFixture::with(Some(endpoints.clone())).await;
    (fixture, endpoints)
}

impl ApiFixture {
    async fn ok(&self, owner: &str, path: &str, body: Value) -> Value {
        let reply = self.send(Ok(owner), &Method::POST, path, Some(body)).await;
        assert!(reply.status < 300, "{:#}", reply.body);
        reply.body
    }

    async fn register(&self, owner: &str, host: &str) -> String {
        let made = self.ok(owner, "/api/webhooks", json!({ "url": format!("https://{host}/") })).await;
        made["webhook"]["id"].as_str().unwrap().to_owned()
    }

    /// Creates skills of these names, and publishes the events to the owner's webhooks.
    async fn happen(&self, owner: &str, names: impl IntoIterator<Item = String>) {
        for name in names {
            let message = self.event(owner, &name).await;
            self.publish(message).await;
        }
    }

    /// Creates a skill. Returns the message for its event.
    async fn event(&self, owner: &str, name: &str) -> OutgoingMessage {
        let skill = json!({ "name": name, "description": "x" });
        let skill = self.ok(owner, "/api/agents/skills", skill).await;
        let of = AggregateRef { kind: "skill".to_owned(), id: skill["id"].as_str().unwrap().to_owned() };
        let entry = self.app.store.aggregate_journal_entry(&of, 1).await.unwrap().unwrap();
        event_feed::message_for_aggregate(&entry).unwrap()
    }

    async fn publish(&self, message: OutgoingMessage) {
        let batch = self.sent(vec![message]).await;
        event_feed::process_and_settle(&self.app, batch).await.unwrap();
    }

    /// Sends messages to the announcements queue, and receives them.
    async fn sent(&self, messages: Vec<OutgoingMessage>) -> Vec<Received> {
        let sent = self.app.broker.send(&queues::announcements(), messages).await.unwrap();
        assert!(sent.failed.is_empty());
        self.app.broker.receive(&queues::announcements(), 10, Duration::ZERO).await.unwrap()
    }

    /// The version of the head of an owner's feed, and the names of the skills in the feed.
    async fn feed(&self, owner: &str) -> (u64, Vec<String>) {
        let owner = UserId::parse(owner).unwrap();
        let head = self.app.store.feed(&owner).await.unwrap();
        let announcements = self.app.store.announcements(&owner, 0, 100).await.unwrap().items;
        let numbers: Vec<_> = announcements.iter().map(|it| it.sequence).collect();
        assert_eq!(numbers, (1..=head.value.last).collect::<Vec<_>>());
        let name = |it: &Announcement| it.detail["name"].as_str().unwrap().to_owned();
        (head.version, announcements.iter().map(name).collect())
    }

    /// Subscribes the browser `PHONE` to the notifications of these tests.
    async fn subscribe(&self, owner: &str) {
        let keys = json!({
            "p256dh": "BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4",
            "auth": "BTBZMqHH6r4Tts7J_aSIgg",
        });
        let body = json!({
            "endpoint": format!("https://{PHONE}"), "device": "A phone", "keys": keys,
            "kinds": ["events-lost", "webhook-disabled"],
        });
        self.ok(owner, "/api/web-push/subscriptions", body).await;
    }

    /// Notifies the owner that events of the agent were lost, and delivers the notification.
    async fn lose_event(&self, session: AgentSessionId, sequence: u64) {
        let loaded = self.app.store.conversation(session).await.unwrap().unwrap();
        let lost = SessionEvent::EventsLost { from_sequence: sequence, to_sequence: sequence };
        commit_events(&self.app, loaded, vec![lost]).await;
        let journal = self.app.store.journal(session, 0, 100).await.unwrap();
        self.publish(event_feed::message(journal.last().unwrap()).unwrap()).await;
        self.deliver().await;
    }

    async fn session(&self, owner: &str) -> AgentSessionId {
        let new = new_session(&UserId::parse(owner).unwrap(), "10");
        create_session_with_run(&self.app, new).await.0
    }

    /// Asserts that no message of a delivery is left.
    async fn assert_settled(&self) {
        let dead = self.app.broker.dead_letter_depth(&queues::webhooks()).await.unwrap();
        let depth = self.app.broker.depth(&queues::webhooks()).await.unwrap();
        assert_eq!((dead, depth.visible, depth.in_flight), (0, 0, 0));
    }

    async fn received(&self) -> Vec<Received> {
        self.app.broker.receive(&queues::webhooks(), 10, Duration::ZERO).await.unwrap()
    }

    async fn deliver(&self) {
        loop {
            let batch = self.received().await;
            if batch.is_empty() {
                return;
            }
            webhook_delivery::process_and_settle(&self.app, batch).await.unwrap();
        }
    }

    async fn webhook(&self, owner: &str) -> Value {
        self.send(Ok(owner), &Method::GET, "/api/webhooks", None).await.body["items"][0].clone()
    }
}

fn names(count: usize) -> impl Iterator<Item = String> {
    (0..count).map(|at| format!("Skill {at}"))
}

#[tokio::test]
async fn entries_of_an_owner_are_published_once_and_in_one_commit() {
    let (fixture, _) = with_endpoints().await;
    let (first, second) = (fixture.event("ada", "First").await, fixture.event("ada", "Second").await);
    let batch = fixture.sent(vec![first, second, fixture.event("bob", "Other").await]).await;
    assert!(event_feed::process(&fixture.app, batch.clone()).await.retry.is_empty());
    assert_eq!(fixture.feed("ada").await, (1, vec!["First".to_owned(), "Second".to_owned()]));
    assert_eq!(fixture.feed("bob").await, (1, vec!["Other".to_owned()]));

    // The queue delivers the batch again, because nobody settled it, with a new message. Its group is still under way.
    let third = OutgoingMessage { group: "another".to_owned(), ..fixture.event("ada", "Third").await };
    let group = &batch[0].group;
    let third = fixture.sent(vec![third]).await.into_iter().map(|it| Received { group: group.clone(), ..it });
    let repeated = batch.iter().cloned().chain(third).collect();
    event_feed::process_and_settle(&fixture.app, repeated).await.unwrap();
    let names = ["First", "Second", "Third"].map(str::to_owned).to_vec();
    assert_eq!(fixture.feed("ada").await, (2, names));
    assert_eq!(fixture.feed("bob").await, (1, vec!["Other".to_owned()]));
}

/// A transaction writes an item once, so the entries of such a batch cannot share one.
#[tokio::test]
async fn entry_that_is_twice_in_a_batch_is_published_once() {
    let (fixture, _) = with_endpoints().await;
    let events = vec![fixture.event("ada", "First").await, fixture.event("ada", "Second").await];
    let mut batch = fixture.sent(events).await;
    batch.push(batch[0].clone());
    let outcome = event_feed::process(&fixture.app, batch).await;
    assert_eq!((outcome.done.len(), outcome.retry.len()), (3, 0));
    assert_eq!(fixture.feed("ada").await, (2, vec!["First".to_owned(), "Second".to_owned()]));
}

#[tokio::test]
async fn entry_that_cannot_be_published_delays_only_its_successors() {
    let (fixture, _) = with_endpoints().await;
    let first = fixture.event("ada", "First").await;
    let missing =
        r#"{"aggregate":{"kind":"skill","id":"00000000-0000-0000-0000-000000000001"},"sequence":1}"#;
    let missing = OutgoingMessage::new(first.group.clone(), "missing", missing);
    let batch = vec![first, missing, fixture.event("ada", "Last").await, fixture.event("bob", "Other").await];
    let outcome = event_feed::process(&fixture.app, fixture.sent(batch).await).await;
    assert_eq!(fixture.feed("ada").await, (1, vec!["First".to_owned()]));
    assert_eq!(fixture.feed("bob").await, (1, vec!["Other".to_owned()]));
    assert_eq!(outcome.done.len(), 2);
    assert_eq!(outcome.retry.iter().map(|(receipts, _)| receipts.len()).collect::<Vec<_>>(), [2]);
}

#[tokio::test]
async fn failing_endpoint_is_paused_and_probed_with_one_delivery() {
    let (fixture, endpoints) = with_endpoints().await;
    endpoints.kill("dead.example");
    fixture.register("mallory", "dead.example").await;
    fixture.register("bob", "good.example").await;
    fixture.happen("mallory", names(30)).await;
    fixture.happen("bob", names(3)).await;
    fixture.deliver().await;
    assert_eq!(endpoints.taken("good.example"), 3, "a failing endpoint delays no others");
    assert_eq!(endpoints.attempts("dead.example"), 10, "one batch was tried before it was paused");
    assert_eq!(endpoints.0.lock().unwrap().most, 10, "deliveries are concurrent");
    let failing = fixture.webhook("mallory").await["failing"].clone();
    assert_eq!(failing["failures"], 5, "{failing}");
    assert!(failing["pausedUntil"].is_string(), "{failing}");

    fixture.clock.advance(Duration::from_secs(29));
    fixture.deliver().await;
    assert_eq!(endpoints.attempts("dead.example"), 10, "it is paused for 30 s");
    fixture.clock.advance(Duration::from_secs(2));
    fixture.deliver().await;
    assert_eq!(endpoints.attempts("dead.example"), 11, "one delivery is attempted");
    fixture.clock.advance(Duration::from_secs(31));
    fixture.deliver().await;
    assert_eq!(endpoints.attempts("dead.example"), 11, "it is now paused for a minute");

    endpoints.revive("dead.example");
    for _ in 0..20 {
        fixture.clock.advance(Duration::from_secs(40));
        fixture.deliver().await;
    }
    assert_eq!(endpoints.taken("dead.example"), 30);
    assert_eq!(fixture.webhook("mallory").await.get("failing"), None);
    let depth = fixture.app.broker.depth(&queues::webhooks()).await.unwrap();
    assert_eq!((depth.visible, depth.in_flight), (0, 0));
}

#[tokio::test]
async fn refused_delivery_does_not_delay_others() {
    let (fixture, endpoints) = with_endpoints().await;
    endpoints.0.lock().unwrap().refuses = Some("Skill 1".to_owned());
    fixture.register("ada", "picky.example").await;
    // `Skill 1`, `Skill 10` and `Skill 11` are refused.
    fixture.happen("ada", names(12)).await;
    fixture.deliver().await;
    assert_eq!(endpoints.taken("picky.example"), 9);
    assert_eq!(fixture.webhook("ada").await["failing"].get("pausedUntil"), None);
    endpoints.0.lock().unwrap().refuses = None;
    fixture.clock.advance(Duration::from_secs(5));
    fixture.deliver().await;
    assert_eq!(endpoints.taken("picky.example"), 12);
}

/// A crash in the middle of a batch: attempts are repeated at their own time, and nothing is lost.
#[tokio::test]
async fn unsettled_attempt_is_retried_after_a_crash() {
    let (fixture, endpoints) = with_endpoints().await;
    endpoints.kill("dead.example");
    fixture.register("ada", "dead.example").await;
    fixture.happen("ada", names(2)).await;
    let batch = fixture.received().await;
    assert_eq!(batch.len(), 2);
    webhook_delivery::process(&fixture.app, batch).await;
    assert_eq!(endpoints.attempts("dead.example"), 2);
    endpoints.revive("dead.example");
    // The messages were not settled, so they are visible again after a minute.
    fixture.clock.advance(Duration::from_mins(2));
    fixture.deliver().await;
    assert_eq!(endpoints.taken("dead.example"), 2);
    assert_eq!(endpoints.attempts("dead.example"), 4);
}

/// An endpoint that fails for eight hours is disabled, whichever delivery is attempted last.
#[tokio::test]
async fn endpoint_that_fails_for_hours_is_abandoned() {
    let (fixture, endpoints) = with_endpoints().await;
    endpoints.kill("dead.example");
    let id = fixture.register("ada", "dead.example").await;
    fixture.happen("ada", names(40)).await;
    for _ in 0..120 {
        fixture.deliver().await;
        fixture.clock.advance(Duration::from_mins(5));
    }
    // Deliveries that wait for their last attempt find the endpoint disabled.
    fixture.clock.advance(Duration::from_hours(6));
    fixture.deliver().await;
    let webhook = fixture.webhook("ada").await;
    assert!(webhook["disabled"]["reason"].is_string(), "{webhook:#}");
    let tried = endpoints.attempts("dead.example");
    assert!(tried < 60, "{tried} attempts");
    let dead = fixture.app.broker.dead_letter_depth(&queues::webhooks()).await.unwrap();
    let depth = fixture.app.broker.depth(&queues::webhooks()).await.unwrap();
    assert_eq!((dead, depth.visible, depth.in_flight), (0, 0, 0), "no message is left");
    // The owner enables the endpoint again.
    endpoints.revive("dead.example");
    let enabled = fixture.ok("ada", &format!("/api/webhooks/{id}/enable"), json!({})).await;
    assert_eq!((enabled.get("disabled"), enabled.get("failing")), (None, None));
    fixture.happen("ada", ["Afterwards".to_owned()]).await;
    fixture.deliver().await;
    assert_eq!(endpoints.taken("dead.example"), 1);
}

#[tokio::test]
async fn browser_is_notified_of_a_disabled_webhook() {
    let (fixture, endpoints) = with_endpoints().await;
    fixture.subscribe("ada").await;
    fixture.register("ada", "gone.example").await;
    endpoints.unsubscribe("gone.example");
    fixture.happen("ada", names(1)).await;
    fixture.deliver().await;
    assert!(fixture.webhook("ada").await["disabled"].is_object());
    assert_eq!(endpoints.attempts(PHONE), 1);
    fixture.assert_settled().await;
}

#[tokio::test]
async fn browser_is_notified_of_a_disabled_webhook_after_a_crash() {
    let (fixture, endpoints) = with_endpoints().await;
    fixture.subscribe("ada").await;
    fixture.register("ada", "gone.example").await;
    endpoints.unsubscribe("gone.example");
    fixture.happen("ada", names(1)).await;
    fixture.table.crash_at(1, CrashPoint::AfterCommit);
    fixture.deliver().await;
    assert!(fixture.table.restart(), "it was disabled, and the process crashed");
    assert_eq!(endpoints.attempts(PHONE), 0);
    fixture.clock.advance(Duration::from_mins(1));
    fixture.deliver().await;
    assert_eq!((endpoints.attempts("gone.example"), endpoints.attempts(PHONE)), (1, 1));
    fixture.assert_settled().await;
}

#[tokio::test]
async fn failed_push_delays_no_later_one_of_its_browser() {
    let (fixture, endpoints) = with_endpoints().await;
    fixture.subscribe("ada").await;
    let (first, second) = (fixture.session("ada").await, fixture.session("ada").await);
    endpoints.kill(PHONE);
    fixture.lose_event(first, 1).await;
    assert_eq!(endpoints.attempts(PHONE), 1);
    endpoints.revive(PHONE);
    fixture.lose_event(second, 1).await;
    assert_eq!(endpoints.attempts(PHONE), 2, "the second one does not wait for the first");
    fixture.clock.advance(Duration::from_secs(4));
    fixture.deliver().await;
    assert_eq!(endpoints.attempts(PHONE), 2, "the first one waits for 5 s");
    fixture.clock.advance(Duration::from_secs(1));
    fixture.deliver().await;
    assert_eq!(endpoints.attempts(PHONE), 3);
    fixture.assert_settled().await;
}

/// A browser shows one notification of a session, so a late delivery would replace the next one.
#[tokio::test]
async fn failed_push_is_not_repeated_after_a_later_one_of_a_session() {
    let (fixture, endpoints) = with_endpoints().await;
    fixture.subscribe("ada").await;
    let session = fixture.session("ada").await;
    endpoints.kill(PHONE);
    fixture.lose_event(session, 1).await;
    endpoints.revive(PHONE);
    fixture.lose_event(session, 2).await;
    fixture.clock.advance(Duration::from_secs(5));
    fixture.deliver().await;
    assert_eq!(endpoints.attempts(PHONE), 2);
    fixture.assert_settled().await;
}

#[tokio::test]
async fn failed_push_is_not_repeated_when_its_notification_was_read() {
    let (fixture, endpoints) = with_endpoints().await;
    fixture.subscribe("ada").await;
    let session = fixture.session("ada").await;
    endpoints.kill(PHONE);
    fixture.lose_event(session, 1).await;
    fixture.ok("ada", "/api/notifications/read", json!({})).await;
    fixture.clock.advance(Duration::from_secs(5));
    fixture.deliver().await;
    assert_eq!(endpoints.attempts(PHONE), 1);
    fixture.assert_settled().await;
}

#[tokio::test]
async fn push_that_waits_for_a_connection_keeps_its_nine_attempts() {
    let (fixture, endpoints) = with_endpoints().await;
    fixture.subscribe("ada").await;
    let session = fixture.session("ada").await;
    endpoints.set_busy(PHONE, true);
    fixture.lose_event(session, 1).await;
    for _ in 0..120 {
        fixture.clock.advance(Duration::from_secs(5));
        fixture.deliver().await;
    }
    assert_eq!(endpoints.attempts(PHONE), 0);
    endpoints.set_busy(PHONE, false);
    endpoints.kill(PHONE);
    let begin = fixture.app.now();
    let mut attempts = Vec::new();
    for _ in 0..300 {
        fixture.clock.advance(Duration::from_secs(5));
        fixture.deliver().await;
        if endpoints.attempts(PHONE) > attempts.len() {
            attempts.push(fixture.app.now().since(begin).as_secs());
        }
    }
    assert_eq!(attempts, [5, 10, 20, 40, 80, 160, 320, 640, 1280]);
    fixture.assert_settled().await;
}
