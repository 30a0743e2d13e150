//! The live stream of a project (S2, "WebSocket message protocol"; decision 82).

use std::collections::BTreeSet;

use pilothouse_api::project_stream::{
    AgentEventContent, ProjectMessage, ProjectMessageBody as Body, RoutedEvent, StateSync,
};
use pilothouse_client::{ProjectWatch, ProjectWatchEvent};
use pilothouse_domain::decision::BrakeAction;
use pilothouse_domain::routing::{LifecycleAction, Workspace};
use pilothouse_tests::{PATIENCE, Session};
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::scripts::{say, script, turn};
use crate::server::Server;

pub(crate) async fn project(server: &Server) -> Value {
    let body = json!({ "name": "Shop", "workstreams": [{ "id": "api", "name": "The HTTP API" }] });
    server.api().post("/api/projects", body).await.expect(201).body
}

/// An agent of the only project: its id and its session.
pub(crate) async fn spawn(server: &Server, role: &str, plays: &Value) -> (String, Session) {
    let body = json!({
        "brief": { "role": role, "workstream": "api", "adapter": "script", "providerConfig": { "script": plays } },
        "objective": "Build it",
        "workingDirectory": server.work_folder(),
        "budgetCapUsd": "5",
    });
    let session = Session::spawn(&server.api(), body).await;
    (session.agent_id(), session)
}

/// Asks whether a tool call is permitted.
pub(crate) fn permission(request: &str) -> [Value; 2] {
    let asked = json!({ "type": "question_asked", "requestId": request,
        "questions": [{ "question": "May the agent use Bash?", "options": [{ "label": "Allow" }, { "label": "Deny" }] }],
        "approval": { "toolName": "Bash", "input": { "command": "rm x" }, "allow": "Allow", "deny": "Deny" } });
    [json!({ "raw": asked }), json!({ "waitForAnswer": request })]
}

/// A client with everything that it has received.
struct Follower {
    watch: ProjectWatch,
    received: Vec<ProjectMessage>,
}

impl Follower {
    fn new(watch: ProjectWatch) -> Self {
        Self { watch, received: Vec::new() }
    }

    /// Reads until a message is what `find` looks for.
    async fn until<T>(&mut self, what: &str, find: impl Fn(&Body) -> Option<T>) -> T {
        loop {
            let next = timeout(PATIENCE, self.watch.next()).await;
            let next = next.unwrap_or_else(|_| panic!("waited for {what}, received {:#?}", self.received));
            if let ProjectWatchEvent::Message(message) = next.unwrap() {
                let found = find(&message.body);
                self.received.push(*message);
                if let Some(found) = found {
                    return found;
                }
            }
        }
    }

    /// Reads until an agent says something.
    async fn until_said(&mut self, session: &Session, text: &str) {
        self.until(text, |body| {
            let event = event(body).filter(|event| event.envelope.session_id.to_string() == session.id)?;
            matches!(&event.envelope.event.content, AgentEventContent::Status { message } if message == text)
                .then_some(())
        })
        .await;
    }

    /// The ids of the events of a session in the order in which they arrived.
    fn events(&self, session: &Session) -> Vec<(u64, String)> {
        let events = self.received.iter().filter_map(|message| event(&message.body));
        let of_session = events.filter(|event| event.envelope.session_id.to_string() == session.id);
        of_session
            .map(|event| (event.envelope.source_sequence, event.envelope.source_event_id.clone()))
            .collect()
    }
}

fn event(body: &Body) -> Option<&RoutedEvent> {
    match body {
        Body::Event(event) => Some(event),
        Body::StateSync(_) | Body::Brake(_) | Body::TrustUpdate(_) | Body::DecisionResolved(_) => None,
    }
}

/// Two agents work. Their events, a decision, a change of trust and a brake arrive once, also across the death of the server.
#[tokio::test]
async fn project_is_followed_across_a_killed_server() {
    let mut server = Server::start(1).await;
    let shop = project(&server).await;
    let id = shop["id"].as_str().unwrap().parse().unwrap();
    let wait = json!({ "waitForMessage": {} });
    let [asks, waits] = permission("t1");
    let plays = script(&[turn(&[
        say("Building."),
        asks,
        waits,
        wait.clone(),
        say("Built."),
        json!({ "wait": 600_000 }),
    ])]);
    let (builder, building) = spawn(&server, "Builder", &plays).await;
    let mut follower = Follower::new(server.client().watch_project(id, None));
    let state = follower
        .until("the state", |body| match body {
            Body::StateSync(state) => match &**state {
                StateSync::Whole(state) => Some(state.clone()),
                StateSync::At(_) => panic!("the state is small"),
            },
            other => panic!("{other:?} comes before the state"),
        })
        .await;
    assert_eq!((state.project.id, state.active_agents[0].id.to_string()), (id, builder.clone()));
    let first = follower.received[0].cursor.clone();

    let plays = script(&[turn(&[say("Testing."), wait, say("Tested."), json!({ "wait": 600_000 })])]);
    let (tester, testing) = spawn(&server, "Tester", &plays).await;
    follower.until_said(&testing, "Testing.").await;
    let decision = follower.received.iter().find_map(|message| opened(&message.body));
    let decision = match decision {
        Some(decision) => decision,
        None => follower.until("the decision", opened).await,
    };
    let path = format!("/api/decisions/{decision}/resolve");
    server.api().post(&path, json!({ "resolutionType": "approve" })).await.expect(202);
    // Trust has its own journal, so either may come first.
    let (mut resolved, mut trusted) = (false, false);
    while !(resolved && trusted) {
        let found = follower.until("the resolution and the trust", |body| match body {
            Body::DecisionResolved(resolved) if resolved.decision_id.to_string() == decision => Some(true),
            Body::TrustUpdate(update) if update.agent_id.to_string() == builder => {
                assert_eq!(update.reason, "human_approves_tool_call");
                Some(false)
            }
            _ => None,
        });
        if found.await { resolved = true } else { trusted = true }
    }

    server.kill9();
    server.restart().await;
    building.say("Go on.", "Immediate").await;
    testing.say("Go on.", "Immediate").await;
    follower.until_said(&building, "Built.").await;
    if !follower.events(&testing).is_empty() && !said(&follower, "Tested.") {
        follower.until_said(&testing, "Tested.").await;
    }

    let body =
        json!({ "scope": { "type": "project", "projectId": id }, "reason": "They work on the wrong branch" });
    server.api().post("/api/brake", body).await.expect(202);
    let is_brake = |body: &Body| match body {
        Body::Brake(brake) if brake.change == BrakeAction::Pulled => Some(brake.affected_agent_ids.clone()),
        _ => None,
    };
    let affected = match follower.received.iter().find_map(|message| is_brake(&message.body)) {
        Some(affected) => affected,
        None => follower.until("the brake", is_brake).await,
    };
    let affected: BTreeSet<_> = affected.iter().map(ToString::to_string).collect();
    assert_eq!(affected, BTreeSet::from([builder, tester]));
    let paused = |follower: &Follower| {
        let lifecycle = |message: &ProjectMessage| {
            let event = event(&message.body)?;
            let AgentEventContent::Lifecycle { action: LifecycleAction::Paused, .. } =
                &event.envelope.event.content
            else {
                return None;
            };
            assert_eq!(
                (event.workspace, &event.secondary_workspaces[..]),
                (Some(Workspace::Briefing), &[Workspace::Controls][..])
            );
            Some(event.envelope.session_id)
        };
        follower.received.iter().filter_map(lifecycle).collect::<BTreeSet<_>>().len() == 2
    };
    while !paused(&follower) {
        follower.until("a pause", |body| event(body).map(|_| ())).await;
    }

    // A client that reads everything on one connection receives the same events.
    let mut other = Follower::new(server.client().watch_project(id, Some(first)));
    for session in [&building, &testing] {
        let events = follower.events(session);
        let distinct: BTreeSet<_> = events.iter().map(|(_, id)| id).collect();
        assert_eq!(distinct.len(), events.len(), "an event was repeated: {events:?}");
        assert!(events.is_sorted_by_key(|(sequence, _)| *sequence), "{events:?}");
        while other.events(session).len() < events.len() {
            other.until("the past", |body| event(body).map(|_| ())).await;
        }
        assert_eq!(other.events(session)[..events.len()], events);
    }
}

fn opened(body: &Body) -> Option<String> {
    match &event(body)?.envelope.event.content {
        AgentEventContent::Decision { decision_id, .. } => Some(decision_id.to_string()),
        _ => None,
    }
}

fn said(follower: &Follower, text: &str) -> bool {
    follower.received.iter().filter_map(|message| event(&message.body)).any(|event| {
        matches!(&event.envelope.event.content, AgentEventContent::Status { message } if message == text)
    })
}

#[tokio::test]
async fn project_of_another_owner_is_not_followed() {
    let server = Server::start(1).await;
    let shop = project(&server).await;
    let id = shop["id"].as_str().unwrap();
    let mut watch = server.client_of("someone-else").watch_project(id.parse().unwrap(), None);
    let refused = timeout(PATIENCE, watch.next()).await.unwrap().unwrap_err();
    assert!(refused.to_string().contains("There is no such project"), "{refused}");
    server.api_of("someone-else").get(&format!("/api/projects/{id}/state")).await.refused(404, "not-found");
    let state = server.api().get(&format!("/api/projects/{id}/state")).await.expect(200).body;
    assert_eq!((&state["project"]["id"], &state["activeAgents"]), (&json!(id), &json!([])));
}
