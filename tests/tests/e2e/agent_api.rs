//! Tasks, learnings and limits of the API for agents (S0 8.9; decisions 8, 37; AG-012, AG-014).

use pilothouse_tests::{Api, Reply, Session};
use reqwest::Method;
use serde_json::{Value, json};

use crate::scripts::works_until_message;
use crate::server::{Server, started};

const TASKS: &str = "/api/agent/tasks";
const LEARNINGS: &str = "/api/agent/learnings";

async fn working(server: &Server) -> (Session, Api) {
    let session = started(server, &works_until_message()).await;
    session.until_said("Working.").await;
    let agent = server.api_with(Some(session.api_key().to_owned()));
    (session, agent)
}

async fn with_key(agent: &Api, path: &str, key: &str, body: &Value) -> Reply {
    agent.send(Method::POST, path, &[("Idempotency-Key", key)], Some(body.to_string().into_bytes())).await
}

/// A task is stored unchanged, listed only for its owner, shown in the activity, and created once per key.
#[tokio::test]
async fn task_is_stored_listed_and_created_once_per_key() {
    let mut server = Server::start(1).await;
    let (session, agent) = working(&server).await;
    let body = json!({
        "title": "Cover the parser", "description": "It has no tests.", "priority": "High",
        "tags": ["tests", "parser"], "linkedTaskId": "T-17",
    });
    let first = with_key(&agent, TASKS, "one", &body).await.expect(201);
    let again = with_key(&agent, TASKS, "one", &body).await.expect(201);
    assert_eq!((&again.body, again.header("idempotency-replayed")), (&first.body, "true"));
    let other = json!({ "title": "Another", "priority": "Low" });
    with_key(&agent, TASKS, "one", &other).await.refused(409, "idempotency-mismatch");
    let second = agent.post(TASKS, other).await.expect(201);

    server.restart().await;
    let tasks = session.api.all(&session.path("/tasks")).await;
    assert_eq!(tasks.len(), 2, "{tasks:#?}");
    assert_eq!((&tasks[0]["id"], &tasks[1]["id"]), (&first.body["taskId"], &second.body["taskId"]));
    for (field, value) in body.as_object().unwrap() {
        assert_eq!(&tasks[0][field], value, "{field}");
    }
    assert_eq!(tasks[0]["sessionId"], session.id.as_str());
    assert_eq!(tasks[1].get("tags"), None, "the task has no tags");
    let lines = session.activity().await;
    let count = |text: &str| lines.iter().filter(|line| line["summary"] == text).count();
    assert_eq!(count("Task created (High): Cover the parser"), 1, "{lines:#?}");
    server.api_of("someone-else").get(&session.path("/tasks")).await.refused(404, "not-found");
}

/// Learnings of all sessions are listed newest first, and can be filtered by kind and by session.
#[tokio::test]
async fn learnings_are_listed_by_kind_and_by_session() {
    let server = Server::start(1).await;
    let (one, agent_of_one) = working(&server).await;
    let (two, agent_of_two) = working(&server).await;
    let person = json!({ "kind": "Person", "subject": "Ada", "content": "Reviews in the morning." });
    let talk = json!({ "kind": "Communication", "content": "Releases are announced on Thursdays." });
    let first = agent_of_one.post(LEARNINGS, person.clone()).await.expect(201).body["learningId"].clone();
    let second = agent_of_one.post(LEARNINGS, talk.clone()).await.expect(201).body["learningId"].clone();
    let third = agent_of_two.post(LEARNINGS, person).await.expect(201).body["learningId"].clone();

    let ids = async |query: &str| -> Vec<Value> {
        let all = server.api().all(&format!("/api/agents/learnings{query}")).await;
        all.iter().map(|learning| learning["id"].clone()).collect()
    };
    assert_eq!(ids("").await, [third.clone(), second.clone(), first.clone()]);
    assert_eq!(ids("?kind=Person").await, [third.clone(), first.clone()]);
    assert_eq!(ids(&format!("?sessionId={}", one.id)).await, [first.clone(), second]);
    assert_eq!(ids(&format!("?sessionId={}&kind=Communication", two.id)).await, [] as [Value; 0]);
    let stranger = server.api_of("someone-else");
    assert_eq!(stranger.all("/api/agents/learnings").await, [] as [Value; 0]);
    let theirs = format!("/api/agents/learnings?sessionId={}", one.id);
    stranger.get(&theirs).await.refused(404, "not-found");
    let page = server.api().get("/api/agents/learnings?limit=2").await.expect(200).body;
    let cursor = page["nextCursor"].as_str().unwrap();
    let rest = server.api().get(&format!("/api/agents/learnings?limit=2&cursor={cursor}")).await.expect(200);
    assert_eq!(rest.body["items"][0]["id"], first);
}

/// A refusal reports all violations, and nothing is stored.
#[tokio::test]
async fn invalid_agent_input_reports_all_violations() {
    let server = Server::start(1).await;
    let (session, agent) = working(&server).await;
    let before = session.activity().await.len();
    let task = json!({
        "title": " ", "description": "x".repeat(4001), "priority": "Someday", "tags": ["a", "a"],
        "linkedTaskId": "", "projectId": "p",
    });
    let refused = agent.post(TASKS, task).await.refused(422, "validation-failed");
    assert_eq!(refused.violated(), ["description", "linkedTaskId", "priority", "projectId", "tags", "title"]);
    let learning = json!({ "kind": "Weather", "content": "x".repeat(2001) });
    let refused = agent.post(LEARNINGS, learning).await.refused(422, "validation-failed");
    assert_eq!(refused.violated(), ["content", "kind"]);
    let log = format!("/api/agent/sessions/{}/log", session.id);
    for content in [String::new(), "x".repeat(2001)] {
        let refused = agent.post(&log, json!({ "content": content })).await;
        assert_eq!(refused.refused(422, "validation-failed").violated(), ["content"]);
    }
    assert_eq!(session.api.all(&session.path("/tasks")).await, [] as [Value; 0]);
    assert_eq!(session.activity().await.len(), before);
}

/// A burst of 60 calls is accepted, then one call per second. The limit survives a restart and is separate for each session.
#[tokio::test]
async fn key_has_a_rate_limit() {
    let mut server = Server::start(1).await;
    let (session, agent) = working(&server).await;
    let (_, other) = working(&server).await;
    let log = format!("/api/agent/sessions/{}/log", session.id);
    let mut accepted = 0;
    let refused = loop {
        let reply = agent.post(&log, json!({ "content": "Left." })).await;
        if reply.status != 201 {
            break reply.refused(429, "rate-limited");
        }
        accepted += 1;
        assert!(accepted < 600, "there is no limit");
    };
    assert!(accepted >= 60, "{accepted}");
    assert_eq!(refused.header("retry-after"), "1");
    server.restart().await;
    // The restart takes a while, so some more calls are accepted, but not another sixty.
    let mut more = 0;
    while agent.post(TASKS, json!({ "title": "More", "priority": "Low" })).await.status == 201 {
        more += 1;
    }
    assert!(more < 45, "{more} more calls were accepted");
    assert_eq!(session.api.all(&session.path("/tasks")).await.len(), more, "refused calls stored nothing");
    other.post(TASKS, json!({ "title": "Mine", "priority": "Low" })).await.expect(201);
    session
        .until_within(pilothouse_tests::PATIENCE, "room for one more call", async || {
            (agent.post(&log, json!({ "content": "Right." })).await.status == 201).then_some(())
        })
        .await;
}
