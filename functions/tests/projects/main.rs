//! Projects: verdicts on tool calls (decision 75). Trust and ticks follow the journals of sessions in projects (decision 76), also when messages come twice or out of order.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod allowed_tools;
mod artifacts;
mod authorization;
mod autonomy;
mod brakes;
mod brief_changes;
mod briefing;
mod coherence;
mod coherence_embeddings;
mod coherence_review;
mod controls;
mod fixture;
mod free_decisions;
mod guardrails;
mod images;
mod injections;
mod portfolio;
mod recovery;
mod routes;
mod spending;
mod stream;
mod ticks;
mod workspaces;

use fixture::{ProjectFixture, permission};
use futures_util::future::join_all;
use pilothouse_domain::ProjectAgentEvent;
use pilothouse_domain::journal::AnyAggregateEntry;
use pilothouse_domain::session::AgentFact;
use pilothouse_domain::trust::TrustOutcome as O;
use pilothouse_domain::value::FailureReason;
use pilothouse_store::AggregateRef;
use serde_json::{Value, json};

impl ProjectFixture {
    /// The outcomes in the journal of the agent.
    async fn outcomes(&self) -> Vec<O> {
        let aggregate = AggregateRef { kind: "agent".to_owned(), id: self.agent.to_string() };
        let version = self.loaded_agent().await.version;
        let mut outcomes = Vec::new();
        for sequence in 1..=version {
            let Some(AnyAggregateEntry::ProjectAgent(entry)) =
                self.app.store.aggregate_journal_entry(&aggregate, sequence).await.unwrap()
            else {
                panic!("no entry {sequence}")
            };
            for event in entry.events {
                if let ProjectAgentEvent::TrustChanged { entry, .. } = event {
                    outcomes.push(entry.outcome);
                }
            }
        }
        outcomes
    }

    async fn resolve(&self, request: &str, body: Value) {
        let (_, page) = self.send("GET", "/api/decisions", Value::Null).await;
        let found = page["items"].as_array().unwrap().iter().find(|it| it["requestId"] == *request);
        let id = found.unwrap()["id"].as_str().unwrap().to_owned();
        let (status, body) = self.send("POST", &format!("/api/decisions/{id}/resolve"), body).await;
        assert_eq!(status, 202, "{body}");
    }

    async fn fail(&self) {
        let mut loaded = self.app.store.conversation(self.session).await.unwrap().unwrap();
        self.change(&mut loaded, |it, ctx| {
            it.session.record_failure(FailureReason::AgentError, None, ctx).unwrap()
        })
        .await;
    }
}

#[tokio::test]
async fn resolved_permissions_move_the_score_once() {
    let fixture = ProjectFixture::working().await;
    fixture.observe(permission("q1")).await;
    fixture.resolve("q1", json!({ "resolutionType": "approve" })).await;
    fixture.react().await;
    // One point, with the weight 1.5 of an unclassified call.
    assert_eq!(fixture.score().await, "51.5");
    fixture.observe(permission("q2")).await;
    fixture.resolve("q2", json!({ "resolutionType": "reject" })).await;
    fixture.react().await;
    assert_eq!(fixture.score().await, "48.5");
    let version = fixture.loaded_agent().await.version;
    fixture.react().await;
    fixture.react_backwards().await;
    assert_eq!((fixture.score().await, fixture.loaded_agent().await.version), ("48.5".to_owned(), version));
    assert_eq!(fixture.outcomes().await, [O::HumanApprovesToolCall, O::HumanRejectsToolCall]);
}

#[tokio::test]
async fn outcomes_count_when_their_messages_come_out_of_order() {
    let fixture = ProjectFixture::working().await;
    fixture.observe(permission("q1")).await;
    fixture.resolve("q1", json!({ "resolutionType": "approve" })).await;
    fixture.observe(permission("q2")).await;
    fixture.resolve("q2", json!({ "resolutionType": "reject" })).await;
    fixture.react_backwards().await;
    assert_eq!(fixture.outcomes().await, [O::HumanRejectsToolCall, O::HumanApprovesToolCall]);
    assert_eq!(fixture.score().await, "48.5");
}

#[tokio::test]
async fn answer_that_a_hibernated_session_receives_counts() {
    let fixture = ProjectFixture::working().await;
    fixture.observe(permission("q1")).await;
    fixture.end_run().await;
    let (_, page) = fixture.send("GET", "/api/decisions", Value::Null).await;
    let path = format!("/api/decisions/{}/resolve", page["items"][0]["id"].as_str().unwrap());
    let (status, body) = fixture.send("POST", &path, json!({ "resolutionType": "reject" })).await;
    assert_eq!(status, 200, "{body}");
    fixture.react().await;
    assert_eq!(fixture.outcomes().await, [O::HumanRejectsToolCall]);
}

#[tokio::test]
async fn approved_output_counts_for_the_artifact_and_the_objective() {
    let fixture = ProjectFixture::working().await;
    fixture.complete_turn(true).await;
    let (_, page) = fixture.send("GET", "/api/decisions", Value::Null).await;
    let path = format!("/api/decisions/{}/resolve", page["items"][0]["id"].as_str().unwrap());
    let (status, body) = fixture.send("POST", &path, json!({ "resolutionType": "approve" })).await;
    assert_eq!(status, 200, "{body}");
    fixture.react().await;
    fixture.react().await;
    assert_eq!(fixture.outcomes().await, [O::ArtifactApproved, O::TaskCompletedSuccess]);
    assert_eq!(fixture.score().await, "52");
}

#[tokio::test]
async fn turns_of_an_objective_do_not_count_and_its_end_counts_once() {
    let fixture = ProjectFixture::working().await;
    fixture.complete_turn(false).await;
    fixture.react().await;
    assert_eq!(fixture.outcomes().await, [], "an idle agent has not completed its objective");
    fixture.observe(AgentFact::TurnStarted { turn: "again".parse().unwrap(), message: None }).await;
    fixture.fail().await;
    fixture.react().await;
    assert_eq!(fixture.outcomes().await, [O::TaskAbandonedOrMaxTurns]);
    let (status, body) = fixture.send("POST", &fixture.session_path("/retry"), json!({})).await;
    assert!(status < 300, "{body}");
    fixture.fail().await;
    fixture.react().await;
    assert_eq!(fixture.outcomes().await, [O::TaskAbandonedOrMaxTurns]);
    assert_eq!(fixture.score().await, "49");
}

#[tokio::test]
async fn continuations_share_the_objective() {
    let mut fixture = ProjectFixture::working().await;
    fixture.fail().await;
    fixture.end_run().await;
    fixture.react().await;
    assert_eq!(fixture.outcomes().await, [O::TaskAbandonedOrMaxTurns]);
    let (status, body) = fixture.send("POST", &fixture.session_path("/retry"), json!({})).await;
    assert!(status < 300, "{body}");
    fixture.react().await;
    fixture.start_turn().await;
    fixture.observe(AgentFact::ContextExhausted).await;
    fixture.end_run().await;
    fixture.react().await;
    let current = fixture.loaded_agent().await.value.current_session_id();
    let first = std::mem::replace(&mut fixture.session, current);
    assert_ne!(fixture.session, first, "another session continues");
    fixture.react().await;
    fixture.start_turn().await;
    fixture.complete_turn(false).await;
    let (status, body) = fixture.send("POST", &fixture.session_path("/close"), json!({})).await;
    assert!(status < 300, "{body}");
    fixture.react().await;
    assert_eq!(fixture.outcomes().await, [O::TaskAbandonedOrMaxTurns]);
}

#[tokio::test]
async fn concurrent_messages_count_an_outcome_once() {
    let fixture = ProjectFixture::working().await;
    fixture.observe(permission("q1")).await;
    fixture.resolve("q1", json!({ "resolutionType": "approve" })).await;
    join_all((0..8).map(|_| fixture.react())).await;
    assert_eq!(fixture.outcomes().await, [O::HumanApprovesToolCall]);
    assert_eq!(fixture.score().await, "51.5");
}

#[tokio::test]
async fn concurrent_outcomes_all_change_the_score() {
    let fixture = ProjectFixture::working().await;
    for (question, resolution) in [("q1", "approve"), ("q2", "reject")] {
        fixture.observe(permission(question)).await;
        fixture.resolve(question, json!({ "resolutionType": resolution })).await;
    }
    // Half of them begin with the later outcome.
    join_all((0..4).map(|_| async { tokio::join!(fixture.react(), fixture.react_backwards()) })).await;
    let outcomes = fixture.outcomes().await;
    assert_eq!(outcomes.len(), 2, "{outcomes:?}");
    assert!(outcomes.contains(&O::HumanApprovesToolCall) && outcomes.contains(&O::HumanRejectsToolCall));
    assert_eq!(fixture.score().await, "48.5");
}

#[tokio::test]
async fn each_brake_costs_an_agent_trust_once() {
    let fixture = ProjectFixture::working().await;
    for expected in ["47", "44"] {
        let brake = fixture.pull_and_release().await;
        fixture.react().await;
        fixture.react_to("brake", &brake, 1).await;
        fixture.react().await;
        assert_eq!(fixture.score().await, expected);
    }
}

#[tokio::test]
async fn sessions_without_a_project_have_no_reactions_for_projects() {
    let fixture = ProjectFixture::working().await;
    let body = json!({ "workingDirectory": "/w", "objective": "Do it", "budgetCapUsd": "1" });
    let (_, started) = fixture.send("POST", "/api/agents/sessions", body).await;
    let id = started["session"]["id"].as_str().unwrap().parse().unwrap();
    let entries = fixture.app.store.journal(id, 0, 100).await.unwrap();
    assert!(entries.iter().all(|entry| entry.project.is_none()));
    let of_project = fixture.app.store.journal(fixture.session, 0, 100).await.unwrap();
    assert!(of_project.iter().all(|entry| entry.project.as_ref().unwrap().agent_id == fixture.agent));
}
