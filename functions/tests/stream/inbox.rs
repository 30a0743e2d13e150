//! Connections that follow an inbox (decision 80).

use std::sync::Arc;
use std::time::Duration;

use pilothouse_api::decisions::InboxMessage;
use pilothouse_app::connections::Connections;
use pilothouse_app::queues;
use pilothouse_domain::decision::DecisionStatus;
use pilothouse_domain::journal::Cause;
use pilothouse_domain::session::AgentFact;
use pilothouse_domain::value::{Capabilities, Question};
use pilothouse_domain::{AgentSessionId, DecisionId, ToolCallId, TurnId, UserId};
use pilothouse_functions::realtime::push_queue::{self, PushOf};
use pilothouse_functions::realtime::subscribe;
use pilothouse_store::{Commit, ConnectionId};
use pilothouse_test_support::{create_session_with_run, new_session};
use serde_json::json;

use crate::fixture::{StreamFixture, owner};
use crate::gateway::{Fate, Gateway};

impl StreamFixture {
    async fn follow_inbox(&self, gateway: &Arc<dyn Connections>, id: &ConnectionId) {
        let body = json!({ "action": "subscribe", "topic": "decisions" }).to_string();
        subscribe::subscribe_connection(&self.app, &**gateway, id, &body).await.unwrap();
    }

    /// A session whose agent asks something.
    async fn asking(&self, owner: &UserId) -> (AgentSessionId, DecisionId) {
        let (session, _) = create_session_with_run(&self.app, new_session(owner, "1")).await;
        let question = Question {
            question: "Which?".to_owned(),
            header: None,
            options: Vec::new(),
            multi_select: false,
        };
        let facts = [
            AgentFact::SidecarReady(Capabilities { cost: true, ..Capabilities::default() }),
            AgentFact::TurnStarted { turn: TurnId::parse("turn-1").unwrap(), message: None },
            AgentFact::QuestionAsked {
                request: ToolCallId::parse("q1").unwrap(),
                questions: vec![question],
                approval: None,
                proposal: None,
                timeout: None,
            },
        ];
        for fact in facts {
            self.observe(session, fact).await;
        }
        let open = self.app.store.open_decisions(owner, 10, None).await.unwrap().items;
        let id = open.iter().find(|decision| decision.session_id() == Some(session)).unwrap().id;
        (session, id)
    }

    async fn observe(&self, id: AgentSessionId, fact: AgentFact) {
        let mut loaded = self.app.store.conversation(id).await.unwrap().unwrap();
        let mut ids = pilothouse_app::FreshIds;
        let mut ctx = self.app.domain_context(&mut ids);
        let observed = loaded.conversation.observe(fact, "hash", &mut ctx);
        let events = self.app.with_consequences(&mut loaded.conversation, observed.events, &mut ctx);
        let mut commit = Commit::new();
        self.app.record(&mut commit, &mut loaded, Cause::Clock, events).unwrap();
        self.app.store.commit(commit).await.unwrap();
    }

    /// Relays a change of a decision.
    async fn relay(&self, owner: &UserId, id: DecisionId) {
        let push = PushOf::Decision { owner_id: owner.clone(), decision_id: id };
        if push_queue::is_watched(&self.app.store, &push).await.unwrap() {
            let message = push_queue::message(&push).unwrap();
            self.app.broker.send(&queues::pushes(), vec![message]).await.unwrap();
        }
    }
}

fn states(messages: Vec<InboxMessage>) -> Vec<(DecisionId, DecisionStatus)> {
    let decision = |message| match message {
        InboxMessage::Decision(view) => Some((view.id, view.state.status())),
        InboxMessage::Changed(_) | InboxMessage::CaughtUp {} => None,
    };
    messages.into_iter().filter_map(decision).collect()
}

#[tokio::test]
async fn connections_of_an_owner_receive_decisions_as_they_are_now() {
    let fixture = StreamFixture::new().await;
    let (posted, gateway) = Gateway::new();
    let (ada, bob) = (owner("ada"), owner("bob"));
    let (one, two) = (fixture.open("one", &ada).await, fixture.open("two", &ada).await);
    let other = fixture.open("other", &bob).await;
    for id in [&one, &two, &other] {
        fixture.follow_inbox(&gateway, id).await;
        assert_eq!(posted.inbox(id), [InboxMessage::CaughtUp {}]);
    }
    let (session, decision) = fixture.asking(&ada).await;
    fixture.relay(&ada, decision).await;
    assert_eq!(fixture.push_all(&gateway).await, 0);
    assert_eq!(states(posted.inbox(&one)), [(decision, DecisionStatus::Pending)]);
    posted.after(&two, 0, Fate::Gone);
    let call = ToolCallId::parse("q1").unwrap();
    let withdrawn = AgentFact::ToolEnded { call, is_error: true, subagent: None };
    fixture.observe(session, withdrawn).await;
    // The queue may deliver an earlier change late, or twice.
    fixture.relay(&ada, decision).await;
    fixture.relay(&ada, decision).await;
    assert_eq!(fixture.push_all(&gateway).await, 0);
    let last = *states(posted.inbox(&one)).last().unwrap();
    assert_eq!(last, (decision, DecisionStatus::Cancelled));
    assert_eq!(posted.inbox(&other).len(), 1, "decisions of others");
    assert_eq!(fixture.app.store.connection(&two).await.unwrap(), None, "it is gone");
}

#[tokio::test]
async fn connection_with_an_ended_token_is_closed() {
    let fixture = StreamFixture::new().await;
    let (posted, gateway) = Gateway::new();
    let ada = owner("ada");
    let one = fixture.open("one", &ada).await;
    fixture.follow_inbox(&gateway, &one).await;
    let (_, decision) = fixture.asking(&ada).await;
    fixture.pass(Duration::from_mins(61));
    fixture.relay(&ada, decision).await;
    assert_eq!(fixture.push_all(&gateway).await, 0);
    assert!(posted.is_closed(&one));
    assert_eq!(posted.inbox(&one).len(), 1);
}

#[tokio::test]
async fn inbox_has_no_cursor() {
    let fixture = StreamFixture::new().await;
    let (posted, gateway) = Gateway::new();
    let ada = owner("ada");
    let one = fixture.open("one", &ada).await;
    let session = fixture.session(&ada).await;
    for body in [
        json!({ "action": "subscribe", "topic": "decisions", "after": "j1" }),
        json!({ "action": "subscribe", "topic": "decisions", "sessionId": session }),
        json!({ "action": "subscribe" }),
    ] {
        subscribe::subscribe_connection(&fixture.app, &*gateway, &one, &body.to_string()).await.unwrap();
        assert_eq!(posted.problem(&one).unwrap()["code"], "validation-failed", "{body}");
    }
}
