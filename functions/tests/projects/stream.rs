//! The live stream of a project (decision 82): what a client receives, also across connections.

use std::collections::BTreeMap;

use pilothouse_api::project_stream::{
    AgentEventContent, ProjectMessage, ProjectMessageBody as Body, ProjectPosition, StateSync,
};
use pilothouse_app::project_stream::{ProjectSource, ProjectStream};
use pilothouse_app::texts;
use pilothouse_domain::decision::{BrakeAction, DecisionKind, DecisionStatus};
use pilothouse_domain::journal::Cause;
use pilothouse_domain::routing::{AgentEventType, Workspace};
use pilothouse_domain::session::AgentFact;
use pilothouse_domain::value::{ActivityItem, ActivityItemType};
use pilothouse_domain::{
    AgentSessionId, EventId, IdSource as _, ProjectAgentId, RunId, SessionEvent, Timestamp, UserId,
};
use pilothouse_store::Commit;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::artifacts::Artifacts;
use crate::fixture::{ProjectFixture, owner, permission};

/// A client that reads a stream and may lose its connection.
struct Client<'a> {
    fixture: &'a ProjectFixture,
    stream: ProjectStream,
    received: Vec<ProjectMessage>,
}

impl<'a> Client<'a> {
    async fn connect(fixture: &'a ProjectFixture, after: Option<&str>) -> Self {
        let (stream, state) = fixture.app.project_stream(&owner(), fixture.project, after).await.unwrap();
        Self { fixture, stream, received: state.into_iter().collect() }
    }

    /// Reads everything that is there. As on a real connection, every source may have changed.
    async fn read(&mut self) -> &[ProjectMessage] {
        let before = self.received.len();
        for source in self.stream.sources() {
            self.stream.mark_changed(source);
        }
        while let Some(messages) = self.stream.read().await.unwrap() {
            self.received.extend(messages);
        }
        &self.received[before..]
    }

    /// Loses the connection after this many messages of the last ones, and connects again.
    async fn reconnect(&mut self, kept: usize) {
        self.received.truncate(kept);
        let after = self.received.last().map(|message| message.cursor.clone());
        let (stream, state) =
            self.fixture.app.project_stream(&owner(), self.fixture.project, after.as_deref()).await.unwrap();
        self.stream = stream;
        self.received.extend(state);
    }

    /// The events that were received, by session: the journal sequence and the id.
    fn events(&self) -> BTreeMap<AgentSessionId, Vec<(u64, String)>> {
        let mut events: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for message in &self.received {
            if let Body::Event(event) = &message.body {
                let envelope = &event.envelope;
                let of = events.entry(envelope.session_id).or_default();
                of.push((envelope.source_sequence, envelope.source_event_id.clone()));
            }
        }
        events
    }
}

/// When the agents of these tests emit their events.
fn emitted() -> Timestamp {
    Timestamp::from_millis(7)
}

fn is_state(message: &ProjectMessage) -> bool {
    matches!(message.body, Body::StateSync(_))
}

impl ProjectFixture {
    async fn spawn(&self, role: &str) -> (ProjectAgentId, AgentSessionId) {
        let agent = json!({
            "brief": { "role": role, "workstream": "api" }, "objective": "Build it",
            "workingDirectory": "/w", "budgetCapUsd": "5",
        });
        let (status, spawned) = self.send("POST", "/api/agents/spawn", agent).await;
        assert_eq!(status, 201, "{spawned}");
        let id = |value: &Value| value.as_str().unwrap().to_owned();
        (id(&spawned["agent"]["id"]).parse().unwrap(), id(&spawned["session"]["id"]).parse().unwrap())
    }

    /// Commits an entry of a session with the text of its agent and this many events.
    async fn happens(&self, session: AgentSessionId, events: usize) {
        let mut loaded = self.app.store.conversation(session).await.unwrap().unwrap();
        let mut ids = pilothouse_app::FreshIds;
        let content = json!({ "kind": "text", "text": "Working" });
        let body = json!({ "type": "assistant_message", "content": content });
        let occurred_at = Some(emitted());
        let cause =
            Cause::Agent { run_id: RunId::new(Uuid::nil()), run: 1, sequence: Some(1), occurred_at, body };
        let events = vec![SessionEvent::QuotaReset {}; events];
        let lines = vec![ActivityItem::new(ActivityItemType::Notice, "line", self.app.now())];
        let session = &mut loaded.conversation.session;
        let entry = texts::record(session, EventId::new(ids.fresh()), self.app.now(), cause, events, lines);
        let mut commit = Commit::new();
        commit.conversation(&loaded, &self.app.deadlines).unwrap();
        commit.entry(&entry, None).unwrap();
        self.app.store.commit(commit).await.unwrap();
    }
}

#[tokio::test]
async fn first_message_is_the_state_of_the_project() {
    let fixture = ProjectFixture::working().await;
    fixture.observe(permission("q1")).await;
    let client = Client::connect(&fixture, None).await;
    let Body::StateSync(state) = &client.received[0].body else { panic!("{:?}", client.received) };
    let StateSync::Whole(state) = &**state else { panic!("it is small") };
    assert_eq!(state.project.id, fixture.project);
    assert_eq!(
        (state.active_agents[0].id, state.active_agents[0].session_id),
        (fixture.agent, fixture.session)
    );
    assert_eq!(state.active_agents[0].status.to_string(), "waiting_on_human");
    assert_eq!((state.trust_scores[0].agent_id, state.trust_scores[0].score), (fixture.agent, 50));
    assert_eq!(state.pending_decisions.len(), 1);
    assert_eq!(state.control_mode.to_string(), "adaptive");
    let (status, read) =
        fixture.send("GET", &format!("/api/projects/{}/state", fixture.project), Value::Null).await;
    let mut sent = serde_json::to_value(&client.received[0]).unwrap();
    assert_eq!((status, sent["type"].take()), (200, json!("state_sync")));
    sent.as_object_mut().unwrap().remove("type");
    assert_eq!(read, sent, "the route shows the same");
}

#[tokio::test]
async fn what_happens_after_the_state_is_sent_once() {
    let fixture = ProjectFixture::working().await;
    let mut client = Client::connect(&fixture, None).await;
    assert!(client.read().await.is_empty(), "the state shows the past");
    fixture.happens(fixture.session, 2).await;
    let (stored, received) = (fixture.session, client.read().await.to_vec());
    let types: Vec<_> = received
        .iter()
        .map(|message| match &message.body {
            Body::Event(event) => (event.envelope.event.content.event_type(), event.workspace),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(
        types,
        [(AgentEventType::Status, Some(Workspace::Briefing)); 3],
        "plain text is a status, too"
    );
    let Body::Event(first) = &received[0].body else { panic!() };
    assert_eq!((first.envelope.session_id, first.envelope.agent_id), (stored, fixture.agent));
    assert_eq!(first.envelope.source_occurred_at, Some(emitted()));
    let AgentEventContent::Status { message } = &first.envelope.event.content else { panic!() };
    assert_eq!(message, "Working");
    assert!(client.read().await.is_empty());
}

#[tokio::test]
async fn reported_artifact_is_an_event_with_its_origin() {
    let artifacts = Artifacts::new().await;
    let (fixture, agent) = (&artifacts.fixture, artifacts.fixture.agent.to_string());
    let mut client = Client::connect(fixture, None).await;
    let stored = artifacts.report("src/api.ts", "one").await;
    artifacts.report("src/api.ts", "one").await;
    let received = client.read().await;
    let [message] = received else { panic!("a repetition is no event: {received:?}") };
    let Body::Event(event) = &message.body else { panic!("{message:?}") };
    assert_eq!(
        (event.workspace, &event.secondary_workspaces[..]),
        (Some(Workspace::Map), &[Workspace::BriefEditor][..])
    );
    assert_eq!(event.envelope.source_occurred_at, None, "the agent does not say when");
    let reported = serde_json::to_value(&event.envelope.event).unwrap();
    let expected = json!({
        "agentId": agent, "type": "artifact", "artifactId": stored["artifactId"], "name": "api.ts", "kind": "code",
        "workstream": "api", "status": "in_review", "uri": stored["backendUri"], "mimeType": "text/plain",
        "provenance": {
            "createdBy": agent, "createdAt": stored["storedAt"], "sourcePath": "src/api.ts",
        },
        "sizeBytes": 3, "contentHash": stored["contentHash"],
    });
    assert_eq!(reported, expected);

    let second = artifacts.report("src/api.ts", "two").await;
    let received = client.read().await;
    let [message] = received else { panic!("{received:?}") };
    let Body::Event(event) = &message.body else { panic!("{message:?}") };
    let AgentEventContent::Artifact { provenance, .. } = &event.envelope.event.content else {
        panic!("{event:?}")
    };
    assert_eq!(provenance.modified_by, Some(agent));
    assert_eq!(json!(provenance.modified_at), second["storedAt"]);
}

#[tokio::test]
async fn client_resumes_between_the_messages_of_an_entry() {
    let fixture = ProjectFixture::working().await;
    let mut client = Client::connect(&fixture, None).await;
    fixture.happens(fixture.session, 3).await;
    client.read().await;
    let all = client.events();
    let count = client.received.len();
    for kept in 1..count {
        let mut client = Client::connect(&fixture, Some(&client.received[0].cursor)).await;
        client.read().await;
        client.reconnect(kept).await;
        client.read().await;
        assert_eq!(client.events(), all, "after {kept} messages");
    }
}

/// Whatever is appended in whatever order, and wherever connections are lost, a client receives each entry once, and those of a journal
/// in their order.
#[tokio::test]
async fn every_entry_is_delivered_once_in_order() {
    for seed in 1..=12_u64 {
        let fixture = ProjectFixture::working().await;
        let mut random = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mut draw = |below: u64| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (random >> 33) % below
        };
        let mut sessions = vec![fixture.session];
        let mut client = Client::connect(&fixture, None).await;
        for _ in 0..40 {
            match draw(8) {
                0 if sessions.len() < 4 => sessions.push(fixture.spawn("Tester").await.1),
                0..=4 => {
                    let session = sessions[usize::try_from(draw(sessions.len() as u64)).unwrap()];
                    fixture.happens(session, usize::try_from(draw(4)).unwrap()).await;
                }
                5 => drop(client.read().await),
                _ => {
                    client.read().await;
                    let lost = usize::try_from(draw(6)).unwrap();
                    let kept = client.received.len().saturating_sub(lost).max(1);
                    client.reconnect(kept).await;
                }
            }
        }
        client.read().await;
        let events = client.events();
        for session in sessions {
            // The state shows what the first session did before.
            let after = if session == fixture.session { events[&session][0].0 - 1 } else { 0 };
            let journal = fixture.app.store.journal(session, after, 1000).await.unwrap();
            let received = &events[&session];
            assert!(received.is_sorted(), "seed {seed}: {received:?}");
            let mut ids: Vec<_> = received.iter().map(|(_, id)| id.clone()).collect();
            ids.sort();
            ids.dedup();
            assert_eq!(ids.len(), received.len(), "seed {seed}: an event was repeated");
            for entry in journal.iter().filter(|entry| matches!(entry.cause, Cause::Agent { .. })) {
                let of_entry = received.iter().filter(|(sequence, _)| *sequence == entry.sequence).count();
                assert_eq!(of_entry, 1 + entry.events.len(), "seed {seed}: entry {}", entry.sequence);
            }
        }
    }
}

#[tokio::test]
async fn new_agents_are_followed_from_their_begin() {
    let fixture = ProjectFixture::working().await;
    let mut client = Client::connect(&fixture, None).await;
    let (agent, session) = fixture.spawn("Tester").await;
    let received = client.read().await;
    let Body::StateSync(state) = &received[0].body else { panic!("{received:?}") };
    let StateSync::Whole(state) = &**state else { panic!() };
    assert!(state.active_agents.iter().any(|it| it.id == agent));
    let lifecycle = received.iter().any(|message| {
        matches!(&message.body, Body::Event(event) if event.envelope.session_id == session
            && event.envelope.event.content.event_type() == AgentEventType::Lifecycle)
    });
    assert!(lifecycle, "{received:?}");
}

#[tokio::test]
async fn decisions_and_trust_are_sent_with_their_outcome() {
    let fixture = ProjectFixture::working().await;
    let mut client = Client::connect(&fixture, None).await;
    fixture.observe(permission("q1")).await;
    let opened = client.read().await;
    let decision = opened.iter().find_map(|message| match &message.body {
        Body::Event(event) => match &event.envelope.event.content {
            AgentEventContent::Decision { subtype, decision_id, decision } => {
                let decision = serde_json::to_value(decision).unwrap();
                Some((*decision_id, *subtype, event.workspace, decision))
            }
            _ => None,
        },
        _ => None,
    });
    let (id, subtype, workspace, decision) = decision.unwrap();
    assert_eq!(decision, fixture.only("").await, "it has the fields of the inbox");
    assert_eq!((subtype, workspace), (DecisionKind::ToolApproval, Some(Workspace::Queue)));
    let path = format!("/api/decisions/{id}/resolve");
    let (status, body) = fixture.send("POST", &path, json!({ "resolutionType": "approve" })).await;
    assert_eq!(status, 202, "{body}");
    fixture.react().await;
    let received = client.read().await;
    let resolved = received.iter().find_map(|message| match &message.body {
        Body::DecisionResolved(resolved) => Some(resolved),
        _ => None,
    });
    let resolved = resolved.unwrap();
    assert_eq!(
        (resolved.decision_id, resolved.agent_id, resolved.state),
        (id, fixture.agent, DecisionStatus::Resolving)
    );
    assert_eq!(resolved.resolution.as_ref().unwrap().resolution_type().to_string(), "approve");
    let updates: Vec<_> = received
        .iter()
        .filter_map(|message| match &message.body {
            Body::TrustUpdate(update) => Some(update),
            _ => None,
        })
        .collect();
    assert_eq!(updates.len(), 1);
    let numbers =
        [updates[0].previous_score, updates[0].new_score, updates[0].delta].map(|it| it.to_string());
    assert_eq!(numbers, ["50", "51.5", "1.5"]);
    assert_eq!(updates[0].reason, "human_approves_tool_call");
}

#[tokio::test]
async fn brake_and_its_release_are_sent_once() {
    let fixture = ProjectFixture::working().await;
    let mut client = Client::connect(&fixture, None).await;
    fixture.pull_and_release().await;
    client.read().await;
    client.received.retain(|message| matches!(message.body, Body::Brake(_)));
    assert!(client.received.is_empty(), "it was over between two reads");

    let body = json!({ "scope": { "type": "project", "projectId": fixture.project }, "reason": "Stop" });
    let (status, brake) = fixture.send("POST", "/api/brake", body).await;
    assert_eq!(status, 202, "{brake}");
    let other = Client::connect(&fixture, None).await;
    let Body::StateSync(state) = &other.received[0].body else { panic!("{:?}", other.received) };
    let StateSync::Whole(state) = &**state else { panic!("it is small") };
    let in_force: Vec<_> = state.brakes.iter().map(|it| json!([it.id, it.reason])).collect();
    assert_eq!(in_force, [json!([brake["id"], "Stop"])], "a new client learns of the brake");
    let pulled = client.read().await.to_vec();
    let kept = client.received.len();
    client.reconnect(kept).await;
    let (status, body) = fixture
        .send("POST", &format!("/api/brakes/{}/release", brake["id"].as_str().unwrap()), json!({}))
        .await;
    assert_eq!(status, 200, "{body}");
    let released = client.read().await.to_vec();
    let changes: Vec<_> = [pulled, released]
        .concat()
        .into_iter()
        .filter_map(|message| match message.body {
            Body::Brake(brake) => Some((brake.change, brake.affected_agent_ids)),
            _ => None,
        })
        .collect();
    let agents = vec![fixture.agent];
    assert_eq!(changes, [(BrakeAction::Pulled, agents.clone()), (BrakeAction::Released, agents)]);
}

#[tokio::test]
async fn change_of_the_project_sends_its_state() {
    let fixture = ProjectFixture::working().await;
    let mut client = Client::connect(&fixture, None).await;
    let body = json!({ "projectId": fixture.project, "mode": "orchestrator" });
    let (status, body) = fixture.send("PUT", "/api/control-mode", body).await;
    assert_eq!(status, 200, "{body}");
    let received = client.read().await;
    let Body::StateSync(state) = &received[0].body else { panic!("{received:?}") };
    let StateSync::Whole(state) = &**state else { panic!() };
    assert_eq!(state.control_mode.to_string(), "orchestrator");
    assert_eq!(received.len(), 1);
}

#[tokio::test]
async fn unknown_cursor_starts_with_the_state() {
    let fixture = ProjectFixture::working().await;
    let other = ProjectFixture::working().await;
    let foreign = Client::connect(&other, None).await.received[0].cursor.clone();
    let client = Client::connect(&fixture, None).await;
    let current = ProjectPosition::decode(&client.received[0].cursor).unwrap();
    let mut ahead = current.clone();
    ahead.sessions.get_mut(&fixture.session).unwrap().sequence += 1;
    let mut stranger = current.clone();
    let at = stranger.sessions.remove(&fixture.session).unwrap();
    stranger.sessions.insert(AgentSessionId::new(Uuid::from_u128(7)), at);
    for cursor in ["j5".to_owned(), foreign, ahead.encode(), stranger.encode()] {
        let client = Client::connect(&fixture, Some(&cursor)).await;
        assert!(is_state(&client.received[0]), "{cursor}");
    }
    let client = Client::connect(&fixture, Some(&current.encode())).await;
    assert!(client.received.is_empty(), "the cursor is known");
}

/// A client could name the session of somebody else in a cursor of its own.
#[tokio::test]
async fn cursor_opens_no_session_of_another_project() {
    let fixture = ProjectFixture::working().await;
    let body = json!({ "workingDirectory": "/w", "objective": "Do it", "budgetCapUsd": "1" });
    let (_, started) = fixture.send("POST", "/api/agents/sessions", body).await;
    let outside: AgentSessionId = started["session"]["id"].as_str().unwrap().parse().unwrap();
    let client = Client::connect(&fixture, None).await;
    let mut crafted = ProjectPosition::decode(&client.received[0].cursor).unwrap();
    let at = crafted.sessions[&fixture.session];
    crafted.sessions.insert(outside, at);
    let mut client = Client::connect(&fixture, Some(&crafted.encode())).await;
    assert!(is_state(&client.received[0]));
    client.read().await;
    assert!(!client.events().contains_key(&outside));
    let stranger = UserId::parse("bob").unwrap();
    let refused = fixture.app.project_stream(&stranger, fixture.project, Some(&crafted.encode())).await;
    assert_eq!(refused.err().unwrap().status().as_u16(), 404);
    let (status, _) =
        fixture.send_as("bob", "GET", &format!("/api/projects/{}/state", fixture.project), Value::Null).await;
    assert_eq!(status, 404);
}

/// The rest of an entry that a crafted cursor claims does not keep the reader busy.
#[tokio::test]
async fn cursor_within_a_missing_entry_ends() {
    let fixture = ProjectFixture::working().await;
    let client = Client::connect(&fixture, None).await;
    let mut crafted = ProjectPosition::decode(&client.received[0].cursor).unwrap();
    let journals: Vec<_> = crafted.journals().collect();
    for journal in journals {
        crafted.within = Some((journal, 9));
        let mut client = Client::connect(&fixture, Some(&crafted.encode())).await;
        assert!(client.read().await.is_empty(), "{journal:?}");
    }
}

#[tokio::test]
async fn expired_entries_lead_to_the_state() {
    let fixture = ProjectFixture::working().await;
    let client = Client::connect(&fixture, None).await;
    let mut old = ProjectPosition::decode(&client.received[0].cursor).unwrap();
    for _ in 0..3 {
        fixture.happens(fixture.session, 1).await;
    }
    old.sessions.get_mut(&fixture.session).unwrap().sequence += 1;
    let next = old.sessions[&fixture.session].sequence + 1;
    fixture.expire_entry(next).await;
    let mut client = Client::connect(&fixture, Some(&old.encode())).await;
    let received = client.read().await;
    assert!(is_state(&received[0]), "{received:?}");
    fixture.happens(fixture.session, 1).await;
    assert_eq!(client.read().await.len(), 2);
}

/// A continuation is followed, and the end of the session before it is not lost.
#[tokio::test]
async fn continuation_of_an_agent_is_followed() {
    let fixture = ProjectFixture::working().await;
    let mut client = Client::connect(&fixture, None).await;
    fixture.observe(AgentFact::ContextExhausted).await;
    fixture.end_run().await;
    fixture.react().await;
    let current = fixture.loaded_agent().await.value.current_session_id();
    assert_ne!(current, fixture.session);
    client.read().await;
    assert!(client.events().contains_key(&current));
    fixture.happens(fixture.session, 0).await;
    assert_eq!(client.read().await.len(), 1, "the session before is still followed");
    assert!(client.stream.sources().contains(&ProjectSource::Session(fixture.session)));
}
