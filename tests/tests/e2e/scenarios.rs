//! The scenarios of S2 ("Phase 0: Mock adapter and event pipeline validation"; decision 94), each with all capabilities, with the
//! capabilities of an SDK that lacks some, and with a failure. Their data is in `shared/scenarios`.

use std::collections::{BTreeMap, BTreeSet};

use pilothouse_api::project_stream::{AgentEventContent, ProjectMessageBody, RoutedEvent};
use pilothouse_client::ProjectWatchEvent;
use pilothouse_domain::ProjectAgentId;
use pilothouse_domain::routing::{AgentEventType as T, LifecycleAction, Workspace as W};
use pilothouse_scenarios::{Expectation, Scenario, ScenarioPlayer, Settings};
use pilothouse_tests::{Api, PATIENCE};
use serde_json::Value;
use tokio::time::timeout;

use crate::server::Server;

/// Performs every step of a play, and compares the recorded events, decisions and trust with its expectations.
async fn plays(name: &str, play: &str, profile: &str) {
    let server = Server::start(1).await;
    let file = format!("{}/../shared/scenarios/data/{name}.json", env!("CARGO_MANIFEST_DIR"));
    let scenario = Scenario::named(&file).unwrap();
    let client = server.client();
    let settings = Settings {
        profile: profile.to_owned(),
        speed: 0.0,
        folder: server.work_folder(),
        patience: PATIENCE,
    };
    std::fs::create_dir_all(&settings.folder).unwrap();
    let mut player = ScenarioPlayer::begin(&client, &scenario, play, settings).await.unwrap();
    let before = client.project_state(player.project()).await.unwrap().cursor;
    for step in player.steps() {
        if let Err(error) = player.perform(step).await {
            panic!("{}: {error}", step.title);
        }
    }
    let expected: Vec<_> =
        player.expectations().map(|expected| (player.agent(&expected.agent).unwrap(), expected)).collect();
    let mut watch = client.watch_project(player.project(), Some(before));
    let mut stream = Stream::default();
    while let Some(missing) = stream.missing(&expected) {
        let next = timeout(PATIENCE, watch.next()).await;
        let next = next.unwrap_or_else(|_| panic!("{missing:?} is not in the stream: {stream:?}"));
        if let ProjectWatchEvent::Message(message) = next.unwrap()
            && let ProjectMessageBody::Event(event) = &message.body
        {
            stream.receive(event);
        }
    }
    for (agent, expected) in expected {
        has_decisions(&server.api(), agent, expected).await;
        has_trust(&server.api(), agent, expected).await;
    }
}

/// The events that the stream of the project has sent, by agent.
#[derive(Debug, Default)]
struct Stream {
    types: BTreeMap<ProjectAgentId, BTreeSet<T>>,
    /// Without repetitions: a brake reports the pause and its confirmation.
    lifecycle: BTreeMap<ProjectAgentId, Vec<LifecycleAction>>,
}

impl Stream {
    fn receive(&mut self, event: &RoutedEvent) {
        let agent = event.envelope.agent_id;
        let content = &event.envelope.event.content;
        let event_type = content.event_type();
        let routed = (event.workspace, &event.secondary_workspaces[..]);
        assert_eq!(routed, workspaces(event_type), "{event:?}");
        self.types.entry(agent).or_default().insert(event_type);
        if let AgentEventContent::Lifecycle { action, .. } = content {
            let actions = self.lifecycle.entry(agent).or_default();
            if actions.last() != Some(action) {
                actions.push(*action);
            }
        }
    }

    /// The first expectation that does not hold yet.
    fn missing<'a>(&self, expected: &[(ProjectAgentId, &'a Expectation)]) -> Option<&'a Expectation> {
        let holds = |(agent, expected): &&(ProjectAgentId, &Expectation)| {
            let types = self.types.get(agent);
            let lifecycle = self.lifecycle.get(agent);
            expected.events.iter().all(|it| types.is_some_and(|types| types.contains(it)))
                && (expected.lifecycle.is_empty() || lifecycle == Some(&expected.lifecycle))
        };
        expected.iter().find(|it| !holds(it)).map(|it| it.1)
    }
}

/// The workspaces that show an event (S2, "Event Routing").
const fn workspaces(event_type: T) -> (Option<W>, &'static [W]) {
    match event_type {
        T::Decision => (Some(W::Queue), &[W::Briefing]),
        T::Artifact => (Some(W::Map), &[W::BriefEditor]),
        T::Coherence => (Some(W::Map), &[W::Briefing]),
        T::Status | T::Progress => (Some(W::Briefing), &[]),
        T::ToolCall => (Some(W::Controls), &[]),
        T::Completion | T::Error | T::Lifecycle => (Some(W::Briefing), &[W::Controls]),
        T::Delegation => (Some(W::Briefing), &[W::Map]),
        T::Guardrail => (Some(W::Controls), &[W::Briefing]),
        T::RawProvider => (None, &[W::Controls]),
    }
}

async fn has_decisions(api: &Api, agent: ProjectAgentId, expected: &Expectation) {
    if expected.decisions.is_empty() {
        return;
    }
    let view = api.get(&format!("/api/agents/{agent}")).await.expect(200).body;
    let session = api.session(view["sessionId"].as_str().unwrap());
    let mut ended = Vec::new();
    for state in ["resolved", "auto_resolved"] {
        ended.extend(api.all(&format!("/api/decisions?state={state}&session={}", session.id)).await);
    }
    ended.reverse();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let ended: Vec<_> = ended
        .iter()
        .map(|it| {
            let is_review = it["kind"] == "output_review";
            let subject = if is_review { text(&it["kind"]) } else { text(&it["requestId"]) };
            let is_auto = it["state"] == "auto_resolved";
            let resolution = if is_auto { &it["state"] } else { &it["resolution"]["resolutionType"] };
            (subject, text(resolution))
        })
        .collect();
    assert_eq!(ended, expected.decisions, "{}", expected.agent);
}

async fn has_trust(api: &Api, agent: ProjectAgentId, expected: &Expectation) {
    if expected.trust.is_empty() {
        return;
    }
    let look = async || {
        let view = api.get(&format!("/api/trust/{agent}")).await.expect(200).body;
        let history = view["history"]["items"].as_array().unwrap().iter().rev();
        let outcomes: Vec<_> = history.map(|it| it["outcome"].as_str().unwrap().to_owned()).collect();
        assert!(outcomes.len() <= expected.trust.len(), "{outcomes:?}");
        (outcomes.len() == expected.trust.len()).then_some(outcomes)
    };
    let outcomes = api.session("none").until_within(PATIENCE, "the trust", look).await;
    assert_eq!(outcomes, expected.trust, "{}", expected.agent);
}

#[tokio::test]
async fn maya_with_all_capabilities() {
    plays("maya", "main", "all").await;
}

/// A changed brief stays pending until another process starts; a stricter mode holds at once.
#[tokio::test]
async fn maya_with_the_capabilities_of_openai() {
    plays("maya", "main", "openai").await;
}

#[tokio::test]
async fn maya_with_a_guardrail_that_trips() {
    plays("maya", "guardrail", "openai").await;
}

#[tokio::test]
async fn david_with_all_capabilities() {
    plays("david", "main", "all").await;
}

/// The brake ends the processes of agents that cannot pause, and keeps their work. A changed brief is pending until the next process.
#[tokio::test]
async fn david_with_the_capabilities_of_claude() {
    plays("david", "main", "claude").await;
}

#[tokio::test]
async fn david_with_an_agent_that_crashes() {
    plays("david", "crash", "claude").await;
}

#[tokio::test]
async fn priya_with_all_capabilities() {
    plays("priya", "main", "all").await;
}

/// A resume begins the turn again, with the conversation.
#[tokio::test]
async fn priya_with_minimal_capabilities() {
    plays("priya", "main", "minimal").await;
}

#[tokio::test]
async fn priya_with_a_malformed_event() {
    plays("priya", "malformed", "minimal").await;
}

#[tokio::test]
async fn rosa_with_all_capabilities() {
    plays("rosa", "main", "all").await;
}

/// A kill ends the process without an acknowledgement, so it is not clean.
#[tokio::test]
async fn rosa_with_the_capabilities_of_gemini() {
    plays("rosa", "main", "gemini").await;
}

#[tokio::test]
async fn rosa_with_an_agent_that_reports_an_error() {
    plays("rosa", "error", "gemini").await;
}

#[tokio::test]
async fn sam_with_all_capabilities() {
    plays("sam", "main", "all").await;
}

/// A changed brief is pending until another process starts.
#[tokio::test]
async fn sam_with_the_capabilities_of_claude() {
    plays("sam", "main", "claude").await;
}

#[tokio::test]
async fn sam_with_a_decision_that_times_out() {
    plays("sam", "timeout", "claude").await;
}
