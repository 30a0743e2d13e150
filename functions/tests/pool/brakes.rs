//! Emergency brakes between their commit and their holds, and reactions out of order (decision 72).

use pilothouse_domain::journal::Cause;
use pilothouse_domain::session::AgentFact;
use pilothouse_domain::value::{Capabilities, SessionOutcome};
use pilothouse_domain::{AgentSession, TurnId};
use pilothouse_store::AggregateRef;

use super::*;

impl PoolFixture {
    pub(super) async fn observe(&self, id: AgentSessionId, fact: AgentFact) {
        let mut loaded = self.app.store.conversation(id).await.unwrap().unwrap();
        let mut ids = FreshIds;
        let mut ctx = self.app.domain_context(&mut ids);
        let events = loaded.conversation.observe(fact, "hash", &mut ctx).events;
        let events = self.app.with_consequences(&mut loaded.conversation, events, &mut ctx);
        let mut commit = Commit::new();
        self.app.record(&mut commit, &mut loaded, Cause::Clock, events).unwrap();
        self.app.store.commit(commit).await.unwrap();
    }

    /// A session whose agent waits for a message.
    pub(super) async fn idle(&self) -> AgentSessionId {
        let id = self.start(201).await;
        let turn = TurnId::parse("t").unwrap();
        let can = Capabilities { pause: true, resume_conversation: true, ..Capabilities::default() };
        self.observe(id, AgentFact::SidecarReady(can)).await;
        self.observe(id, AgentFact::TurnStarted { turn: turn.clone(), message: None }).await;
        let outcome = SessionOutcome::Completed;
        self.observe(id, AgentFact::TurnCompleted { turn, output: None, outcome }).await;
        id
    }

    async fn pull(&self) -> String {
        let body = json!({ "scope": { "type": "all" }, "reason": "Stop" });
        let (status, body) = self.send("POST", "/api/brake", body).await;
        assert_eq!(status, 202, "{body}");
        body["id"].as_str().unwrap().to_owned()
    }

    async fn release(&self, brake: &str) {
        let (status, body) = self.send("POST", &format!("/api/brakes/{brake}/release"), json!({})).await;
        assert_eq!(status, 200, "{body}");
    }

    /// Reacts to one journal entry of a brake.
    async fn react_to(&self, brake: &str, sequence: u64) {
        let aggregate = AggregateRef { kind: "brake".to_owned(), id: brake.to_owned() };
        let entry = self.app.store.aggregate_journal_entry(&aggregate, sequence).await.unwrap().unwrap();
        let message = reactions::message_for_aggregate(&entry).unwrap();
        assert_eq!(reactions::process(&self.app, vec![received(message)]).await.done.len(), 1);
    }

    async fn session(&self, id: AgentSessionId) -> AgentSession {
        self.app.store.session(id).await.unwrap().unwrap()
    }

    /// Whether a message was sent to the agent that it does not have yet.
    async fn is_message_sent(&self, id: AgentSessionId) -> bool {
        let loaded = self.app.store.conversation(id).await.unwrap().unwrap();
        loaded.conversation.queue.messages().iter().any(|message| message.sent)
    }
}

#[tokio::test]
async fn hold_after_the_release_is_taken_off_again() {
    let fixture = PoolFixture::open().await;
    let id = fixture.idle().await;
    let brake = fixture.pull().await;
    fixture.release(&brake).await;
    fixture.react_to(&brake, 2).await;
    fixture.react_to(&brake, 1).await;
    assert!(!fixture.session(id).await.is_held());
}

#[tokio::test]
async fn message_is_kept_back_before_the_hold_is_there() {
    let fixture = PoolFixture::open().await;
    let id = fixture.idle().await;
    let brake = fixture.pull().await;
    let message = json!({ "content": "Go on", "priority": "Immediate" });
    let (status, body) = fixture.call("POST", &format!("/sessions/{id}/messages/queue"), message).await;
    assert_eq!(status, 201, "{body}");
    assert!(fixture.session(id).await.is_held() && !fixture.is_message_sent(id).await);
    fixture.react_to(&brake, 1).await;
    fixture.release(&brake).await;
    fixture.react_to(&brake, 2).await;
    assert!(!fixture.session(id).await.is_held() && fixture.is_message_sent(id).await);
}

#[tokio::test]
async fn resume_is_refused_before_the_hold_is_there() {
    let fixture = PoolFixture::open().await;
    let id = fixture.idle().await;
    fixture.observe(id, AgentFact::TurnStarted { turn: TurnId::parse("u").unwrap(), message: None }).await;
    let (status, body) = fixture.call("POST", &format!("/sessions/{id}/pause"), json!({})).await;
    assert_eq!(status, 202, "{body}");
    let command = fixture.session(id).await.pending_command().unwrap().command_id;
    let done = AgentFact::CommandDone(pilothouse_domain::session::LifecycleCommand::Pause, command);
    fixture.observe(id, done).await;
    fixture.pull().await;
    let (status, body) = fixture.call("POST", &format!("/sessions/{id}/resume"), json!({})).await;
    assert_eq!((status, &body["code"]), (409, &json!("braked")), "{body}");
}

#[tokio::test]
async fn starts_under_a_brake_wait_in_order_and_start_after_it() {
    let fixture = PoolFixture::open().await;
    let brake = fixture.pull().await;
    let waiting = [fixture.start(202).await, fixture.start(202).await, fixture.start(202).await];
    for id in waiting {
        fixture.react(id).await;
        assert!(!fixture.has_run(id).await, "a start passed the brake");
    }
    assert_eq!(fixture.line().await, waiting.map(|id| id.to_string()));
    fixture.release(&brake).await;
    fixture.react_to(&brake, 1).await;
    fixture.react_to(&brake, 2).await;
    for id in waiting {
        assert!(fixture.has_run(id).await);
    }
    assert!(fixture.line().await.is_empty());
}
