//! Connections that follow a project (decision 82).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use axum::body::Body;
use http::Request;
use pilothouse_api::project_stream::{
    AgentEventContent, ProjectMessage, ProjectMessageBody, ProjectPosition, StateSync,
};
use pilothouse_app::App;
use pilothouse_app::connections::{Connections, PostError};
use pilothouse_app::http::auth::VerifiedOwner;
use pilothouse_app::project_stream::ProjectSource;
use pilothouse_app::queues;
use pilothouse_domain::{AgentSessionId, ProjectId, UserId};
use pilothouse_functions::events::relay;
use pilothouse_functions::realtime::push_queue::{self, PushOf};
use pilothouse_functions::realtime::subscribe;
use pilothouse_store::ConnectionId;
use pilothouse_store::table::Table as _;
use serde_json::{Value, json};
use tower::ServiceExt as _;

use crate::fixture::{StreamFixture, commit_event, owner};
use crate::gateway::{Fate, Gateway};

/// A project of ada with one agent.
struct ProjectStreamFixture {
    stream: StreamFixture,
    project: ProjectId,
    session: AgentSessionId,
    /// The position of the relay in the journals.
    relayed: std::cell::Cell<u64>,
}

impl ProjectStreamFixture {
    async fn new() -> Self {
        let stream = StreamFixture::new().await;
        let mut fixture = Self {
            stream,
            project: "01890a5d-ac96-774b-bcce-b302099a8058".parse().unwrap(),
            session: "01890a5d-ac96-774b-bcce-b302099a8058".parse().unwrap(),
            relayed: std::cell::Cell::new(0),
        };
        let shop = json!({ "name": "Shop", "workstreams": [{ "id": "api", "name": "The API" }] });
        let id = |value: &Value| value.as_str().unwrap().to_owned();
        fixture.project = id(&fixture.send("POST", "/api/projects", shop).await["id"]).parse().unwrap();
        fixture.session = fixture.spawn("Builder").await;
        fixture.relay().await;
        fixture
    }

    async fn send(&self, method: &str, path: &str, body: Value) -> Value {
        let mut request =
            Request::builder().method(method).uri(path).body(Body::from(body.to_string())).unwrap();
        request.extensions_mut().insert(VerifiedOwner(owner("ada")));
        let response = pilothouse_functions::router(self.stream.app.clone()).oneshot(request).await.unwrap();
        assert!(response.status().is_success(), "{path}: {}", response.status());
        let body = axum::body::to_bytes(response.into_body(), 4 << 20).await.unwrap();
        serde_json::from_slice(&body).unwrap()
    }

    async fn spawn(&self, role: &str) -> AgentSessionId {
        let agent = json!({
            "brief": { "role": role, "workstream": "api" }, "objective": "Build it",
            "workingDirectory": "/w", "budgetCapUsd": "5",
        });
        let spawned = self.send("POST", "/api/agents/spawn", agent).await;
        spawned["session"]["id"].as_str().unwrap().parse().unwrap()
    }

    async fn follow(&self, gateway: &Arc<dyn Connections>, id: &ConnectionId, after: Option<&str>) {
        let mut body = json!({ "action": "subscribe", "projectId": self.project });
        if let Some(after) = after {
            body["after"] = after.into();
        }
        subscribe::subscribe_connection(&self.stream.app, &**gateway, id, &body.to_string()).await.unwrap();
    }

    /// Relays the journal entries that were written since the last call, as the function does with the table's stream.
    async fn relay(&self) {
        for (place, item) in self.stream.table().feed(self.relayed.get(), 1000).await.unwrap() {
            self.relayed.set(place);
            for push in relay::messages_for(&item, self.stream.app.now()).unwrap().pushes {
                if matches!(push, PushOf::Project { .. })
                    && push_queue::is_watched(&self.stream.app.store, &push).await.unwrap()
                {
                    let message = push_queue::message(&push).unwrap();
                    self.stream.app.broker.send(&queues::pushes(), vec![message]).await.unwrap();
                }
            }
        }
    }

    async fn happens(&self) {
        self.stream.happens_event(self.session).await;
        self.relay().await;
    }
}

/// What a client keeps: it ignores what it has received before.
fn kept(received: Vec<ProjectMessage>) -> Vec<String> {
    let mut seen: Option<ProjectPosition> = None;
    let mut kept = Vec::new();
    for message in received {
        let position = ProjectPosition::decode(&message.cursor).unwrap();
        let is_state = matches!(message.body, ProjectMessageBody::StateSync(_));
        if is_state || !seen.as_ref().is_some_and(|seen| seen.covers(&position)) {
            seen = Some(position);
            kept.push(serde_json::to_string(&message.body).unwrap());
        }
    }
    kept
}

#[tokio::test]
async fn connection_receives_the_state_and_then_events() {
    let fixture = ProjectStreamFixture::new().await;
    let (posted, gateway) = Gateway::new();
    let one = fixture.stream.open("one", &owner("ada")).await;
    fixture.follow(&gateway, &one, None).await;
    assert_eq!(fixture.stream.push_all(&gateway).await, 0);
    let received = posted.project(&one);
    assert_eq!(received.len(), 1);
    assert!(
        matches!(&received[0].body, ProjectMessageBody::StateSync(state) if matches!(**state, StateSync::Whole(_)))
    );
    fixture.happens().await;
    assert_eq!(fixture.stream.push_all(&gateway).await, 0);
    let received = posted.project(&one);
    let ProjectMessageBody::Event(event) = &received[1].body else { panic!("{received:?}") };
    assert!(matches!(event.envelope.event.content, AgentEventContent::Status { .. }));
    assert_eq!(event.envelope.session_id, fixture.session);

    // Another connection continues there.
    let two = fixture.stream.open("two", &owner("ada")).await;
    fixture.follow(&gateway, &two, Some(&received[0].cursor)).await;
    assert_eq!(fixture.stream.push_all(&gateway).await, 0);
    assert_eq!(kept(posted.project(&two)), kept(received)[1..]);
}

/// Commits an event of a session while an earlier one is posted.
struct CommitsWhilePosting {
    gateway: Arc<dyn Connections>,
    app: App,
    session: AgentSessionId,
    is_done: AtomicBool,
}

#[async_trait]
impl Connections for CommitsWhilePosting {
    async fn post(&self, connection: &ConnectionId, text: &str) -> Result<(), PostError> {
        let message: ProjectMessage = serde_json::from_str(text).unwrap();
        if event_of(&message, self.session) && !self.is_done.swap(true, Ordering::Relaxed) {
            commit_event(&self.app, self.session).await;
        }
        self.gateway.post(connection, text).await
    }

    async fn close(&self, connection: &ConnectionId) -> Result<(), PostError> {
        self.gateway.close(connection).await
    }
}

fn event_of(message: &ProjectMessage, session: AgentSessionId) -> bool {
    match &message.body {
        ProjectMessageBody::Event(event) => event.envelope.session_id == session,
        _ => false,
    }
}

/// The change that adds an agent, and events of its session, can be announced in one batch.
#[tokio::test]
async fn events_of_a_new_agent_follow_the_change_that_adds_it() {
    let fixture = ProjectStreamFixture::new().await;
    let (posted, gateway) = Gateway::new();
    let one = fixture.stream.open("one", &owner("ada")).await;
    fixture.follow(&gateway, &one, None).await;
    fixture.relay().await;
    fixture.stream.push_all(&gateway).await;
    let new = fixture.spawn("Tester").await;
    for source in [ProjectSource::Project, ProjectSource::Session(new)] {
        let push = PushOf::Project { project_id: fixture.project, source: Some(source) };
        let message = push_queue::message(&push).unwrap();
        fixture.stream.app.broker.send(&queues::pushes(), vec![message]).await.unwrap();
    }
    let app = fixture.stream.app.clone();
    let late: Arc<dyn Connections> =
        Arc::new(CommitsWhilePosting { gateway, app, session: new, is_done: AtomicBool::new(false) });
    fixture.stream.push_all(&late).await;
    let received = posted.project(&one);
    let statuses = received.iter().filter(|message| event_of(message, new)).count();
    assert_eq!(statuses, 2, "its start, and the event that was committed meanwhile: {received:#?}");
}

#[tokio::test]
async fn interrupted_push_of_a_project_loses_nothing() {
    for posts in 0..4 {
        let fixture = ProjectStreamFixture::new().await;
        let (posted, gateway) = Gateway::new();
        let (one, whole) = (
            fixture.stream.open("one", &owner("ada")).await,
            fixture.stream.open("two", &owner("ada")).await,
        );
        fixture.follow(&gateway, &one, None).await;
        fixture.follow(&gateway, &whole, None).await;
        fixture.stream.push_all(&gateway).await;
        // The push fails after some messages, and the client connects again with its last cursor.
        posted.after(&one, posts, Fate::Gone);
        fixture.happens().await;
        fixture.happens().await;
        fixture.stream.push_all(&gateway).await;
        posted.heal(&one);
        let cursor = posted.project(&one).last().unwrap().cursor.clone();
        let again = fixture.stream.open("again", &owner("ada")).await;
        fixture.follow(&gateway, &again, Some(&cursor)).await;
        fixture.stream.push_all(&gateway).await;
        let resumed = [posted.project(&one), posted.project(&again)].concat();
        assert_eq!(kept(resumed), kept(posted.project(&whole)), "after {posts} posts");
    }
}

#[tokio::test]
async fn repeated_pushes_of_a_project_repeat_nothing() {
    let fixture = ProjectStreamFixture::new().await;
    let (posted, gateway) = Gateway::new();
    let one = fixture.stream.open("one", &owner("ada")).await;
    fixture.follow(&gateway, &one, None).await;
    fixture.happens().await;
    fixture.stream.push_all(&gateway).await;
    let before = posted.project(&one).len();
    fixture.relayed.set(0);
    fixture.relay().await;
    fixture.stream.push_all(&gateway).await;
    assert_eq!(posted.project(&one).len(), before);
}

#[tokio::test]
async fn large_state_is_read_by_its_path() {
    let fixture = ProjectStreamFixture::new().await;
    let texts: Vec<_> = (0..50).map(|at| format!("{at} {}", "x".repeat(450))).collect();
    let body = json!({ "goals": texts, "checkpoints": texts, "constraints": texts });
    fixture.send("PATCH", &format!("/api/projects/{}", fixture.project), body).await;
    for at in 0..99 {
        fixture.spawn(&format!("{at}{}", "r".repeat(90))).await;
    }
    let (posted, gateway) = Gateway::new();
    let one = fixture.stream.open("one", &owner("ada")).await;
    fixture.follow(&gateway, &one, None).await;
    fixture.stream.push_all(&gateway).await;
    let received = posted.project(&one);
    let ProjectMessageBody::StateSync(state) = &received[0].body else { panic!("{received:?}") };
    let StateSync::At(location) = &**state else {
        panic!("{}", serde_json::to_string(&received[0]).unwrap().len())
    };
    let read = fixture.send("GET", &location.state_path, Value::Null).await;
    assert_eq!(read["cursor"], received[0].cursor.as_str());
}

#[tokio::test]
async fn project_of_another_owner_is_refused() {
    let fixture = ProjectStreamFixture::new().await;
    let (posted, gateway) = Gateway::new();
    let bob: UserId = owner("bob");
    let one = fixture.stream.open("one", &bob).await;
    fixture.follow(&gateway, &one, None).await;
    assert_eq!(posted.problem(&one).unwrap()["code"], "not-found");
    let push = PushOf::Project { project_id: fixture.project, source: Some(ProjectSource::Project) };
    assert!(!push_queue::is_watched(&fixture.stream.app.store, &push).await.unwrap());
}

#[tokio::test]
async fn connection_to_a_project_ends_with_its_token() {
    let fixture = ProjectStreamFixture::new().await;
    let (posted, gateway) = Gateway::new();
    let one = fixture.stream.open("one", &owner("ada")).await;
    fixture.follow(&gateway, &one, None).await;
    fixture.stream.push_all(&gateway).await;
    fixture.stream.pass(Duration::from_mins(61));
    fixture.happens().await;
    fixture.stream.push_all(&gateway).await;
    assert!(posted.is_closed(&one));
    assert_eq!(posted.project(&one).len(), 1);
}

/// The journals of agents and of brakes do not name the project, so their items are pushed.
#[tokio::test]
async fn items_of_agents_and_brakes_are_pushed() {
    let fixture = ProjectStreamFixture::new().await;
    let state = fixture.send("GET", &format!("/api/projects/{}/state", fixture.project), Value::Null).await;
    let agent = state["activeAgents"][0]["id"].as_str().unwrap().to_owned();
    let body = json!({ "scope": { "type": "project", "projectId": fixture.project }, "reason": "Stop" });
    let brake = fixture.send("POST", "/api/brake", body).await["id"].as_str().unwrap().to_owned();
    let pushes = async |kind: &str, id: &str| {
        let key = pilothouse_store::table::Key::new(format!("A#{kind}#{id}"), "ROOT");
        let item = fixture.stream.table().get(&key).await.unwrap().unwrap();
        relay::messages_for(&item, fixture.stream.app.now()).unwrap().pushes
    };
    let of = |source| vec![PushOf::Project { project_id: fixture.project, source: Some(source) }];
    assert_eq!(pushes("agent", &agent).await, of(ProjectSource::Agent(agent.parse().unwrap())));
    assert_eq!(pushes("brake", &brake).await, of(ProjectSource::Brakes));
}
