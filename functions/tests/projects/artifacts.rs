//! Artifacts of people and agents: versions, scopes, lists, reviews, and what follows from them (decision 84).

use axum::body::{Body, Bytes};
use http::{Request, header};
use pilothouse_domain::artifact::ArtifactPath;
use pilothouse_domain::knowledge::SearchTerms;
use pilothouse_domain::session::AgentFact;
use pilothouse_domain::value::{Capabilities, ContentHash};
use pilothouse_domain::{AgentSessionId, Project};
use pilothouse_store::{Commit, Indexed, IndexedSubject};
use pilothouse_wire::keys::sha256_hex;
use serde_json::{Value, json};
use tower::ServiceExt as _;

use crate::fixture::ProjectFixture;

/// Two agents: the Builder of the fixture in `api`, and a Writer in `docs` that reads what `reads` names.
pub(crate) struct Artifacts {
    pub(crate) fixture: ProjectFixture,
    pub(crate) writer: AgentSessionId,
    pub(crate) writer_agent: String,
}

impl Artifacts {
    pub(crate) async fn with_writer(reads: Value) -> Self {
        let fixture = ProjectFixture::working().await;
        let workstreams = json!([{ "id": "api", "name": "The API" }, { "id": "docs", "name": "Guides" }]);
        let project = format!("/api/projects/{}", fixture.project);
        let (status, body) = fixture.send("PATCH", &project, json!({ "workstreams": workstreams })).await;
        assert_eq!(status, 200, "{body}");
        let agent = json!({
            "brief": { "role": "Writer", "workstream": "docs", "readableWorkstreams": reads },
            "objective": "Write it", "workingDirectory": "/w2", "budgetCapUsd": "5",
        });
        let (status, spawned) = fixture.send("POST", "/api/agents/spawn", agent).await;
        assert_eq!(status, 201, "{spawned}");
        let id = |value: &Value| value.as_str().unwrap().to_owned();
        let writer = id(&spawned["session"]["id"]).parse().unwrap();
        fixture.observe_in(writer, AgentFact::SidecarReady(Capabilities::default())).await;
        Self { writer, writer_agent: id(&spawned["agent"]["id"]), fixture }
    }

    pub(crate) async fn new() -> Self {
        Self::with_writer(json!([])).await
    }

    async fn raw(&self, session: AgentSessionId, method: &str, path: &str, body: Body) -> (u16, Bytes) {
        self.keyed(session, method, path, (None, body)).await
    }

    /// Sends a request, with an idempotency key if there is one.
    async fn keyed(
        &self,
        session: AgentSessionId,
        method: &str,
        path: &str,
        (idempotency_key, body): (Option<&str>, Body),
    ) -> (u16, Bytes) {
        let key = self.fixture.app.secret.api_key(session, 0);
        let path = format!("/api/agent/sessions/{session}{path}");
        let request = Request::builder().method(method).uri(path);
        let request = request.header(header::AUTHORIZATION, format!("Bearer {key}"));
        let request = idempotency_key.into_iter().fold(request, |it, key| it.header("Idempotency-Key", key));
        let request = request.body(body).unwrap();
        let response = pilothouse_functions::router(self.fixture.app.clone()).oneshot(request).await.unwrap();
        let status = response.status().as_u16();
        (status, axum::body::to_bytes(response.into_body(), 8 << 20).await.unwrap())
    }

    pub(crate) async fn as_agent(
        &self,
        session: AgentSessionId,
        method: &str,
        path: &str,
        body: Value,
    ) -> (u16, Value) {
        let body = if body.is_null() { Body::empty() } else { Body::from(body.to_string()) };
        let (status, bytes) = self.raw(session, method, path, body).await;
        (status, serde_json::from_slice(&bytes).unwrap())
    }

    /// The Builder reports a text.
    pub(crate) async fn report(&self, path: &str, text: &str) -> Value {
        let body = json!({ "path": path, "sourcePath": path, "kind": "code", "text": text });
        let (status, body) = self.as_agent(self.fixture.session, "POST", "/artifacts", body).await;
        assert!(matches!(status, 200 | 201), "{body}");
        body
    }

    pub(crate) async fn upload(&self, body: Value) -> (u16, Value) {
        self.fixture.send("POST", "/api/artifacts", body).await
    }

    async fn list(&self, query: &str) -> Vec<Value> {
        let (status, page) = self.fixture.send("GET", &format!("/api/artifacts?{query}"), Value::Null).await;
        assert_eq!(status, 200, "{page}");
        page["items"].as_array().unwrap().clone()
    }

    pub(crate) async fn log(&self) -> Vec<Value> {
        let path = format!("/api/projects/{}/decision-log", self.fixture.project);
        let (_, page) = self.fixture.send("GET", &path, Value::Null).await;
        let entries = page["items"].as_array().unwrap().iter();
        entries.filter(|entry| entry["type"] == "knowledge").cloned().collect()
    }

    /// Reacts to the latest change of the project.
    pub(crate) async fn react_to_project(&self) {
        let id = self.fixture.project;
        let version = self.fixture.app.store.any_aggregate::<Project>(id).await.unwrap().unwrap().version;
        self.fixture.react_to("project", &id.to_string(), version).await;
    }

    pub(crate) async fn react_to(&self, artifact: &Value, sequence: u64) {
        self.fixture.react_to("artifact", artifact.as_str().unwrap(), sequence).await;
    }
}

pub(crate) fn violations(body: &Value) -> Vec<&str> {
    body["violations"].as_array().unwrap().iter().map(|it| it["field"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn report_of_an_agent_is_stored_once() {
    let artifacts = Artifacts::new().await;
    let first = artifacts.report("src/api.ts", "one").await;
    assert_eq!(first["version"], 1);
    let address = format!("artifact://{}/{}/src/api.ts", artifacts.fixture.project, artifacts.fixture.agent);
    assert_eq!(first["backendUri"], json!(address));
    assert_eq!(artifacts.report("./src/api.ts", "one").await, first, "the same content again");
    let second = artifacts.report("src/api.ts", "two").await;
    assert_eq!((&second["version"], &second["artifactId"]), (&json!(2), &first["artifactId"]));
    let path = format!("/api/artifacts/{}", first["artifactId"].as_str().unwrap());
    let (_, view) = artifacts.fixture.send("GET", &path, Value::Null).await;
    let author = &view["latest"]["author"];
    assert_eq!(author["agentId"], json!(artifacts.fixture.agent));
    assert_eq!(author["sessionId"], json!(artifacts.fixture.session));
    assert!(author["runId"].is_string(), "{view}");
    let (_, page) = artifacts.fixture.send("GET", &format!("{path}/versions"), Value::Null).await;
    let versions: Vec<_> = page["items"].as_array().unwrap().iter().map(|it| &it["version"]).collect();
    assert_eq!(versions, [2, 1]);
    let (_, page) = artifacts.fixture.send("GET", &format!("{path}/versions?limit=1"), Value::Null).await;
    let next = page["nextCursor"].as_str().unwrap();
    let (_, page) =
        artifacts.fixture.send("GET", &format!("{path}/versions?limit=1&cursor={next}"), Value::Null).await;
    assert_eq!((&page["items"][0]["version"], &page["nextCursor"]), (&json!(1), &Value::Null));
    let (_, diff) = artifacts.fixture.send("GET", &format!("{path}/diff"), Value::Null).await;
    assert_eq!((&diff["addedLines"], &diff["removedLines"]), (&json!(1), &json!(1)));
    assert!(
        diff["unified"].as_str().unwrap().contains("-one")
            && diff["unified"].as_str().unwrap().contains("+two")
    );
    let (_, page) =
        artifacts.fixture.send("GET", &artifacts.fixture.session_path("/activity"), Value::Null).await;
    assert!(page.to_string().contains("Reported src/api.ts, version 2"), "{page}");
}

#[tokio::test]
async fn write_outside_of_the_workstream_is_refused_and_logged() {
    let artifacts = Artifacts::with_writer(json!(["api"])).await;
    let reported = artifacts.report("src/api.ts", "one").await;
    let into = json!({ "path": "x", "kind": "code", "workstream": "docs", "text": "x" });
    let others =
        json!({ "artifactId": reported["artifactId"], "kind": "code", "expectedVersion": 1, "text": "x" });
    let fixture = &artifacts.fixture;
    for (session, body) in [(fixture.session, into), (artifacts.writer, others)] {
        let (status, body) = artifacts.as_agent(session, "POST", "/artifacts", body).await;
        assert_eq!((status, &body["code"]), (403, &json!("outside-workstream")));
    }
    assert_eq!(artifacts.list("").await.len(), 1);
    let log = artifacts.log().await;
    let refused: Vec<_> = log.iter().map(|it| (&it["access"], &it["allowed"], &it["workstream"])).collect();
    let (report, api, docs) = (json!("report_artifact"), json!("api"), json!("docs"));
    assert_eq!(refused, [(&report, &json!(false), &api), (&report, &json!(false), &docs)]);
    assert_eq!(log[0]["agentId"], json!(artifacts.writer_agent));
}

#[tokio::test]
async fn agents_read_their_readable_workstreams_only() {
    for (reads, expected) in [(json!([]), 403), (json!(["api"]), 200)] {
        let artifacts = Artifacts::with_writer(reads).await;
        let reported = artifacts.report("src/api.ts", "häuser").await;
        let path = format!("/artifacts/{}", reported["artifactId"].as_str().unwrap());
        let (status, body) =
            artifacts.as_agent(artifacts.writer, "GET", &format!("{path}?limit=3"), Value::Null).await;
        assert_eq!(status, expected, "{body}");
        if expected == 200 {
            assert_eq!(
                (&body["text"], &body["nextOffset"], &body["totalChars"]),
                (&json!("häu"), &json!(3), &json!(6))
            );
        } else {
            assert_eq!(body["code"], "outside-workstream");
            assert!(!body.to_string().contains("häuser"));
        }
        let log = artifacts.log().await;
        assert_eq!(
            (&log[0]["access"], &log[0]["allowed"]),
            (&json!("read_artifact"), &json!(expected == 200))
        );
        assert_eq!(log[0]["subject"], reported["artifactId"]);
    }
}

#[tokio::test]
async fn versions_of_others_conflict_until_they_are_read() {
    let artifacts = Artifacts::new().await;
    let reported = artifacts.report("src/api.ts", "one").await;
    let revise = |expected: Value| {
        let body = json!({ "artifactId": reported["artifactId"], "kind": "code", "expectedVersion": expected, "text": "mine" });
        artifacts.upload(body)
    };
    let (status, body) = revise(Value::Null).await;
    assert_eq!((status, &body["code"]), (409, &json!("artifact-version-conflict")));
    let (status, body) = revise(json!(1)).await;
    assert_eq!((status, &body["version"]), (201, &json!(2)));
    let body = json!({ "path": "src/api.ts", "kind": "code", "text": "three" });
    let (status, body) = artifacts.as_agent(artifacts.fixture.session, "POST", "/artifacts", body).await;
    assert_eq!((status, &body["code"]), (409, &json!("artifact-version-conflict")));
    assert!(body["detail"].as_str().unwrap().contains("`expectedVersion` 2"), "{body}");
}

#[tokio::test]
async fn bad_uploads_name_every_violation_and_change_nothing() {
    let artifacts = Artifacts::new().await;
    let hash = sha256_hex(b"x");
    for (body, fields) in [
        (json!({ "kind": "code" }), vec!["path", "text"]),
        (json!({ "kind": "poem", "path": "../x", "text": 5 }), vec!["kind", "path", "text"]),
        (json!({ "path": "x", "kind": "code", "text": "y", "contentHash": hash }), vec!["contentHash"]),
        (
            json!({ "path": "x", "kind": "code", "contentHash": hash, "sizeBytes": 101_000_000 }),
            vec!["sizeBytes"],
        ),
        (json!({ "path": "x", "kind": "code", "contentHash": hash }), vec!["sizeBytes"]),
        (json!({ "path": "x", "kind": "code", "text": "y" }), vec!["workstream"]),
        (json!({ "path": "x", "kind": "code", "text": "y", "workstream": "none" }), vec!["workstream"]),
        (
            json!({ "path": "x", "kind": "code", "workstream": "api", "contentHash": hash, "sizeBytes": 1 }),
            vec!["contentHash"],
        ),
        (
            json!({ "path": "x", "kind": "code", "workstream": "api", "text": "y".repeat(4_000_001) }),
            vec!["text"],
        ),
    ] {
        let shown: String = body.to_string().chars().take(200).collect();
        let (status, refused) = artifacts.upload(body).await;
        assert_eq!((status, &refused["code"]), (422, &json!("validation-failed")), "{shown}");
        assert_eq!(violations(&refused), fields, "{shown}");
    }
    let too_large =
        json!({ "path": "x", "kind": "code", "workstream": "api", "text": "y".repeat(5_700_000) });
    assert_eq!(artifacts.upload(too_large).await.0, 413);
    assert_eq!(artifacts.list("").await, Vec::<Value>::new());
}

#[tokio::test]
async fn large_content_is_uploaded_first_and_then_named() {
    let artifacts = Artifacts::new().await;
    let content = "x".repeat(4_500_000);
    let hash = sha256_hex(content.as_bytes());
    let named = json!({ "contentHash": hash, "sizeBytes": content.len() });
    let session = artifacts.fixture.session;
    let (status, link) = artifacts.as_agent(session, "POST", "/artifacts/uploads", named.clone()).await;
    assert_eq!((status, &link["method"]), (200, &json!("PUT")), "{link}");
    let url = link["url"].as_str().unwrap().strip_prefix(&format!("/api/agent/sessions/{session}")).unwrap();
    let (status, _) = artifacts.raw(session, "PUT", url, Body::from("other")).await;
    assert_eq!(status, 422, "another content");
    assert_eq!(artifacts.raw(session, "PUT", url, Body::from(content.clone())).await.0, 204);

    let mut complete = json!({ "path": "big.log", "kind": "other", "mimeType": "text/plain" });
    complete.as_object_mut().unwrap().extend(named.as_object().unwrap().clone());
    let mut wrong = complete.clone();
    wrong["sizeBytes"] = json!(7);
    let (status, body) = artifacts.as_agent(session, "POST", "/artifacts", wrong).await;
    assert_eq!((status, violations(&body)), (422, vec!["sizeBytes"]));
    let (status, _) = artifacts.as_agent(artifacts.writer, "POST", "/artifacts", complete.clone()).await;
    assert_eq!(status, 422, "a content that another agent has uploaded");
    let (status, body) = artifacts.as_agent(session, "POST", "/artifacts", complete).await;
    assert_eq!((status, &body["version"]), (201, &json!(1)), "{body}");
}

#[tokio::test]
async fn repeated_request_after_a_newer_version_changes_nothing() {
    let artifacts = Artifacts::new().await;
    let session = artifacts.fixture.session;
    let send = async |key: &str, text: &str| {
        let body = Body::from(json!({ "path": "a", "kind": "code", "text": text }).to_string());
        let (status, bytes) = artifacts.keyed(session, "POST", "/artifacts", (Some(key), body)).await;
        (status, serde_json::from_slice::<Value>(&bytes).unwrap())
    };
    let first = send("k1", "one").await;
    assert_eq!(send("k2", "two").await.1["version"], 2);
    assert_eq!(send("k1", "one").await, first, "the response of the first request");
    assert_eq!(artifacts.list("").await[0]["version"], 2);
}

#[tokio::test]
async fn agent_that_has_ended_cannot_complete_an_upload() {
    let artifacts = Artifacts::new().await;
    let session = artifacts.fixture.session;
    let named = json!({ "contentHash": sha256_hex(b"x"), "sizeBytes": 1 });
    let (status, link) = artifacts.as_agent(session, "POST", "/artifacts/uploads", named.clone()).await;
    assert_eq!(status, 200, "{link}");
    let url = link["url"].as_str().unwrap().strip_prefix(&format!("/api/agent/sessions/{session}")).unwrap();
    assert_eq!(artifacts.raw(session, "PUT", url, Body::from("x")).await.0, 204);
    let (status, body) =
        artifacts.fixture.send("POST", &artifacts.fixture.session_path("/cancel"), json!({})).await;
    assert_eq!(status, 202, "{body}");
    artifacts.fixture.end_run().await;
    let mut complete = json!({ "path": "x", "kind": "other" });
    complete.as_object_mut().unwrap().extend(named.as_object().unwrap().clone());
    let (status, body) = artifacts.as_agent(session, "POST", "/artifacts", complete).await;
    assert_eq!((status, &body["code"]), (401, &json!("unauthenticated")), "{body}");
    assert_eq!(artifacts.raw(session, "PUT", url, Body::from("x")).await.0, 401);
    assert_eq!(artifacts.list("").await, Vec::<Value>::new());
}

#[tokio::test]
async fn uploads_of_contents_count_for_the_rate_limit() {
    let artifacts = Artifacts::new().await;
    let session = artifacts.fixture.session;
    let path = format!("/artifacts/uploads/{}", sha256_hex(b"x"));
    for _ in 0..60 {
        assert_eq!(artifacts.raw(session, "PUT", &path, Body::from("x")).await.0, 204);
    }
    assert_eq!(artifacts.raw(session, "PUT", &path, Body::from("x")).await.0, 429);
    let named = json!({ "contentHash": sha256_hex(b"x"), "sizeBytes": 1 });
    assert_eq!(artifacts.as_agent(session, "POST", "/artifacts/uploads", named).await.0, 429);
}

#[tokio::test]
async fn lists_are_filtered_and_paged() {
    let artifacts = Artifacts::new().await;
    for n in 0..5 {
        artifacts.report(&format!("src/{n}.ts"), &n.to_string()).await;
    }
    let guide = json!({ "path": "guide.md", "kind": "document", "workstream": "docs", "text": "Guide" });
    assert_eq!(artifacts.upload(guide).await.0, 201);
    let count = async |query: String| artifacts.list(&query).await.len();
    let agent = artifacts.fixture.agent;
    for (query, expected) in [
        (String::new(), 6),
        ("workstream=docs".to_owned(), 1),
        (format!("agentId={agent}"), 5),
        ("kind=document".to_owned(), 1),
        ("state=pending".to_owned(), 6),
        ("state=approved".to_owned(), 0),
        (format!("agentId={agent}&kind=document"), 0),
        ("workstream=api&state=pending&kind=code".to_owned(), 5),
    ] {
        assert_eq!(count(query.clone()).await, expected, "{query}");
    }
    let mut seen = Vec::new();
    let mut cursor = String::new();
    loop {
        let path = format!("/api/artifacts?workstream=api&limit=2{cursor}");
        let (status, page) = artifacts.fixture.send("GET", &path, Value::Null).await;
        assert_eq!(status, 200, "{page}");
        seen.extend(
            page["items"].as_array().unwrap().iter().map(|it| it["path"].as_str().unwrap().to_owned()),
        );
        let Some(next) = page["nextCursor"].as_str() else { break };
        cursor = format!("&cursor={next}");
    }
    seen.sort();
    assert_eq!(seen, ["src/0.ts", "src/1.ts", "src/2.ts", "src/3.ts", "src/4.ts"]);
    let (status, _) =
        artifacts.fixture.send("GET", &format!("/api/artifacts?workstream=docs{cursor}"), Value::Null).await;
    assert_eq!(status, 422, "a cursor of another list");
    for wrong in ["state=lost", "kind=poem", "agentId=x", "workstream=a b"] {
        let (status, _) = artifacts
            .fixture
            .send("GET", &format!("/api/artifacts?{}", wrong.replace(' ', "%20")), Value::Null)
            .await;
        assert_eq!(status, 422, "{wrong}");
    }
}

#[tokio::test]
async fn reviews_move_the_trust_of_the_author_once() {
    let artifacts = Artifacts::new().await;
    let reported = artifacts.report("src/api.ts", "one").await;
    let id = &reported["artifactId"];
    let review = async |verb: &str, body: Value| {
        artifacts.fixture.send("POST", &format!("/api/artifacts/{}/{verb}", id.as_str().unwrap()), body).await
    };
    let (status, body) = review("approve", json!({ "version": 1 })).await;
    assert_eq!((status, &body["state"]), (200, &json!("approved")), "{body}");
    artifacts.react_to(id, 2).await;
    artifacts.react_to(id, 2).await;
    assert_eq!(artifacts.fixture.score().await, "51");
    let (status, body) = review("reject", json!({ "reason": "No" })).await;
    assert_eq!((status, &body["code"]), (409, &json!("artifact-reviewed")));
    assert_eq!(artifacts.list("state=approved").await.len(), 1);
    artifacts.report("src/api.ts", "two").await;
    assert_eq!(artifacts.list("state=approved").await.len(), 0);
    assert_eq!(review("approve", json!({ "version": 1 })).await.0, 409, "there is a newer version");
    let (status, body) = review("reject", json!({ "version": 2, "reason": "Too short" })).await;
    assert_eq!((status, &body["review"]["reason"]), (200, &json!("Too short")), "{body}");
    artifacts.react_to(id, 4).await;
    artifacts.react_to(id, 2).await;
    assert_eq!(artifacts.fixture.score().await, "49");
}

#[tokio::test]
async fn artifacts_are_counted_once_for_their_workstream() {
    let artifacts = Artifacts::new().await;
    let reported = artifacts.report("src/api.ts", "one").await;
    artifacts.report("src/api.ts", "two").await;
    for sequence in [2, 1, 1] {
        artifacts.react_to(&reported["artifactId"], sequence).await;
    }
    let tally = artifacts.fixture.app.store.artifact_tally(artifacts.fixture.project).await.unwrap().value;
    assert_eq!(tally.of(&"api".to_owned().try_into().unwrap()), 1);
}

#[tokio::test]
async fn project_with_10_000_artifacts_accepts_new_versions_only() {
    let artifacts = Artifacts::new().await;
    let reported = artifacts.report("src/api.ts", "one").await;
    let (store, project) = (&artifacts.fixture.app.store, artifacts.fixture.project);
    let mut tally = store.artifact_tally(project).await.unwrap();
    while tally.value.ensure_room().is_ok() {
        tally.value.count("api".to_owned().try_into().unwrap());
    }
    let counted = reported["artifactId"].as_str().unwrap().parse().unwrap();
    let mut commit = Commit::new();
    commit.artifact_tally(project, &tally, counted).unwrap();
    store.commit(commit).await.unwrap();
    let another = json!({ "path": "more", "kind": "code", "workstream": "api", "text": "x" });
    let (status, body) = artifacts.upload(another).await;
    assert_eq!((status, &body["code"]), (409, &json!("too-many-artifacts")), "{body}");
    assert_eq!(artifacts.report("src/api.ts", "two").await["version"], 2);
}

#[tokio::test]
async fn later_checks_find_an_artifact_by_path_and_content() {
    let artifacts = Artifacts::new().await;
    artifacts.report("src/api.ts", "one").await;
    let same = json!({ "path": "copy", "sourcePath": "src/api.ts", "kind": "code", "workstream": "docs", "text": "one" });
    assert_eq!(artifacts.upload(same).await.0, 201);
    let (store, project) = (&artifacts.fixture.app.store, artifacts.fixture.project);
    let found = async |text: &str| {
        let hash = ContentHash::parse(sha256_hex(text.as_bytes())).unwrap();
        let traces = store.artifacts_with_hash(project, &hash, 10).await.unwrap();
        traces.iter().map(|it| it.workstream.to_string()).collect::<Vec<_>>()
    };
    let path = ArtifactPath::parse("src/api.ts").unwrap();
    assert_eq!(store.artifacts_at_path(project, &path, 10).await.unwrap().len(), 2);
    assert_eq!(found("one").await.len(), 2);
    artifacts.report("src/api.ts", "two").await;
    assert_eq!(found("one").await, ["docs"]);
    assert_eq!(found("two").await, ["api"]);
    let paths = store.artifacts_at_path(project, &path, 10).await.unwrap();
    assert!(paths.iter().any(|it| it.version == 2 && it.workstream.as_str() == "api"));
}

#[tokio::test]
async fn artifacts_of_other_owners_do_not_exist() {
    let artifacts = Artifacts::new().await;
    let reported = artifacts.report("src/api.ts", "one").await;
    let path = format!("/api/artifacts/{}", reported["artifactId"].as_str().unwrap());
    for (method, action, body) in [
        ("GET", "", Value::Null),
        ("GET", "/content", Value::Null),
        ("GET", "/versions", Value::Null),
        ("GET", "/versions/1/content", Value::Null),
        ("GET", "/diff", Value::Null),
        ("POST", "/approve", json!({})),
        ("POST", "/reject", json!({ "reason": "No" })),
    ] {
        let (status, _) = artifacts.fixture.send_as("eve", method, &format!("{path}{action}"), body).await;
        assert_eq!(status, 404, "{method} {action}");
    }
}

#[tokio::test]
async fn decision_detail_names_no_rule_and_stays_in_scope() {
    let artifacts = Artifacts::with_writer(json!(["api"])).await;
    let fixture = &artifacts.fixture;
    fixture.observe(crate::fixture::permission("q1")).await;
    let (_, page) = fixture.send("GET", "/api/decisions", Value::Null).await;
    let path = format!("/decisions/{}", page["items"][0]["id"].as_str().unwrap());
    let (status, body) = artifacts.as_agent(artifacts.writer, "GET", &path, Value::Null).await;
    assert_eq!(
        (status, &body["title"], &body["state"]),
        (200, &json!("Use Bash"), &json!("pending")),
        "{body}"
    );
    assert!(!body.to_string().contains("verdict") && !body.to_string().contains("rule"), "{body}");
    let log = artifacts.log().await;
    let read = json!("read_decision");
    assert_eq!((&log[0]["access"], &log[0]["allowed"]), (&read, &json!(true)), "{log:?}");
    assert_eq!(log[0]["subject"], page["items"][0]["id"]);
    let closed = Artifacts::new().await;
    closed.fixture.observe(crate::fixture::permission("q1")).await;
    let (_, page) = closed.fixture.send("GET", "/api/decisions", Value::Null).await;
    let path = format!("/decisions/{}", page["items"][0]["id"].as_str().unwrap());
    assert_eq!(closed.as_agent(closed.writer, "GET", &path, Value::Null).await.0, 403);
    let log = closed.log().await;
    assert_eq!((&log[0]["access"], &log[0]["allowed"]), (&read, &json!(false)), "{log:?}");
}

impl Artifacts {
    async fn indexed(&self, reported: &Value, sequence: u64) {
        self.react_to(&reported["artifactId"], sequence).await;
    }

    async fn titles(&self, query: &str) -> Vec<String> {
        let path = format!("/api/projects/{}/search?query={query}", self.fixture.project);
        let (status, body) = self.fixture.send("GET", &path, Value::Null).await;
        assert_eq!(status, 200, "{body}");
        titles(&body)
    }

    async fn snapshot(&self, agent: &str, tokens: u64) -> Value {
        let path = format!("/api/projects/{}/snapshot?agentId={agent}&tokens={tokens}", self.fixture.project);
        let (status, body) = self.fixture.send("GET", &path, Value::Null).await;
        assert_eq!(status, 200, "{body}");
        body
    }
}

fn titles(body: &Value) -> Vec<String> {
    let items = body["items"].as_array().unwrap().iter();
    items.map(|it| it["title"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn search_finds_the_words_of_the_latest_version() {
    let artifacts = Artifacts::new().await;
    let orders = artifacts.report("src/orders.ts", "export const teaPrice = 5").await;
    let users = artifacts.report("src/users.ts", "login of customers, who buy tea").await;
    artifacts.indexed(&orders, 1).await;
    artifacts.indexed(&users, 1).await;
    artifacts.fixture.react().await;
    assert_eq!(artifacts.titles("tea%20price").await, ["orders.ts", "users.ts"], "more words come first");
    assert_eq!(artifacts.titles("orders").await, ["orders.ts"]);
    assert_eq!(artifacts.titles("build").await, ["Build it"], "the objective of an agent");
    artifacts.report("src/orders.ts", "export const cost = 5").await;
    artifacts.indexed(&orders, 2).await;
    artifacts.indexed(&orders, 1).await;
    assert_eq!(artifacts.titles("price").await, Vec::<String>::new(), "a word of the former version");
    assert_eq!(artifacts.titles("cost").await, ["orders.ts"]);
    for query in ["", "the%20of", "%20", &"x".repeat(501)] {
        let path = format!("/api/projects/{}/search?query={query}", artifacts.fixture.project);
        assert_eq!(artifacts.fixture.send("GET", &path, Value::Null).await.0, 422, "{query}");
    }
}

/// Objectives of an agent with enough words for several commits.
struct Updates {
    artifacts: Artifacts,
    indexed: Indexed,
}

impl Updates {
    async fn new() -> Self {
        let artifacts = Artifacts::new().await;
        let subject = IndexedSubject::Objective { id: artifacts.fixture.agent };
        let workstream = "api".to_owned().try_into().unwrap();
        Self { artifacts, indexed: Indexed { subject, workstream, title: "Words".to_owned() } }
    }

    async fn commits(&self, prefix: &str) -> Vec<Commit> {
        let words = (0..120).map(|n| format!("{prefix}{n:03}")).collect::<Vec<_>>().join(" ");
        let terms = SearchTerms::default().with(&words, 1);
        let store = &self.artifacts.fixture.app.store;
        store.index(self.artifacts.fixture.project, &self.indexed, &terms).await.unwrap()
    }

    async fn commit(&self, commit: Commit) -> bool {
        self.artifacts.fixture.app.store.commit(commit).await.is_ok()
    }

    async fn run(&self, prefix: &str) {
        for commit in self.commits(prefix).await {
            assert!(self.commit(commit).await);
        }
    }

    async fn is_found(&self, word: &str) -> bool {
        !self.artifacts.titles(word).await.is_empty()
    }
}

#[tokio::test]
async fn interrupted_update_of_the_index_is_completed() {
    let updates = Updates::new().await;
    updates.run("tea").await;
    let mut interrupted = updates.commits("milk").await;
    assert!(interrupted.len() > 2);
    assert!(updates.commit(interrupted.remove(0)).await);
    assert!(updates.is_found("milk000").await);
    updates.run("tea").await;
    assert!(updates.is_found("tea000").await && !updates.is_found("milk000").await);
}

#[tokio::test]
async fn overtaken_update_of_the_index_stops() {
    let updates = Updates::new().await;
    let overtaken = updates.commits("milk").await;
    updates.run("tea").await;
    for commit in overtaken {
        assert!(!updates.commit(commit).await);
    }
    assert!(updates.is_found("tea119").await && !updates.is_found("milk000").await);
    assert_eq!(updates.commits("tea").await.len(), 0, "the index is complete");
}

#[tokio::test]
async fn agents_search_only_what_they_may_read() {
    for (reads, found) in [(json!([]), 0), (json!(["api"]), 1)] {
        let artifacts = Artifacts::with_writer(reads).await;
        let orders = artifacts.report("src/orders.ts", "tea").await;
        artifacts.indexed(&orders, 1).await;
        let (status, body) =
            artifacts.as_agent(artifacts.writer, "GET", "/knowledge?query=tea", Value::Null).await;
        assert_eq!((status, titles(&body).len()), (200, found), "{body}");
        let log = artifacts.log().await;
        assert_eq!((&log[0]["access"], &log[0]["subject"]), (&json!("search"), &json!("tea")));
    }
}

#[tokio::test]
async fn snapshot_has_a_new_version_only_for_a_new_content() {
    let artifacts = Artifacts::with_writer(json!(["api"])).await;
    let reported = artifacts.report("src/orders.ts", "tea").await;
    artifacts.indexed(&reported, 1).await;
    artifacts.fixture.observe(crate::fixture::permission("q1")).await;
    let first = artifacts.snapshot(&artifacts.writer_agent, 4_000).await;
    assert_eq!(first["snapshotVersion"], 1);
    assert_eq!(first["workstreams"][0]["id"], "docs", "its own workstream comes first");
    assert_eq!(first["workstreams"][1]["artifactCount"], 1);
    assert_eq!(first["artifactIndex"][0]["name"], "orders.ts");
    assert_eq!(first["pendingDecisions"][0]["title"], "Use Bash");
    let builder = artifacts.fixture.agent.to_string();
    let summary = json!({
        "id": builder, "role": "Builder", "workstream": "api", "status": "waiting_on_human",
        "pluginName": "script",
    });
    assert_eq!(first["activeAgents"], json!([summary]));
    assert!(!first.to_string().contains("trust"), "{first}");
    assert_eq!(artifacts.snapshot(&artifacts.writer_agent, 4_000).await["snapshotVersion"], 1);
    artifacts.report("src/users.ts", "users").await;
    assert_eq!(artifacts.snapshot(&artifacts.writer_agent, 4_000).await["snapshotVersion"], 2);
    let own = artifacts.snapshot(&builder, 4_000).await;
    assert_eq!((&own["snapshotVersion"], own["workstreams"].as_array().unwrap().len()), (&json!(1), 1));
    assert_eq!(own["activeAgents"], json!([]));
}

#[tokio::test]
async fn snapshot_needs_an_agent_of_the_project_and_a_budget_within_limits() {
    let artifacts = Artifacts::new().await;
    let path = format!("/api/projects/{}/snapshot", artifacts.fixture.project);
    let get =
        async |query: String| artifacts.fixture.send("GET", &format!("{path}{query}"), Value::Null).await.0;
    let agent = artifacts.fixture.agent;
    assert_eq!(get(String::new()).await, 422);
    assert_eq!(get(format!("?agentId={agent}&tokens=999")).await, 422);
    assert_eq!(get(format!("?agentId={}", artifacts.fixture.session)).await, 404);
    let other =
        artifacts.fixture.send_as("eve", "GET", &format!("{path}?agentId={agent}"), Value::Null).await;
    assert_eq!(other.0, 404);
}

#[tokio::test]
async fn change_of_a_file_of_another_workstream_asks() {
    let artifacts = Artifacts::new().await;
    let rule = json!({ "predicate": { "field": "affectsMultipleWorkstreams", "op": "eq", "value": true },
        "description": "Work of others" });
    let protocol = json!({ "alwaysEscalate": [], "escalateWhen": [rule], "neverEscalate": [] });
    let project = format!("/api/projects/{}", artifacts.fixture.project);
    let change = json!({ "escalation": { "adaptive": protocol } });
    let (status, body) = artifacts.fixture.send("PATCH", &project, change).await;
    assert_eq!(status, 200, "{body}");
    let run = artifacts.fixture.run().await;
    let verdict = async |id: &str, path: &str| {
        let call = json!({ "toolCallId": id, "tool": "Write", "arguments": { "file_path": path, "content": "x" },
            "home": "/home/agent/" });
        artifacts.fixture.ask(run, &call).await.1["verdict"].clone()
    };
    assert_eq!(verdict("t1", "/w/guides/order.md").await, "allow");
    let of_writer =
        json!({ "path": "order", "sourcePath": "guides/order.md", "kind": "document", "text": "one" });
    let (status, body) = artifacts.as_agent(artifacts.writer, "POST", "/artifacts", of_writer).await;
    assert_eq!(status, 201, "{body}");
    artifacts.report("src/api.ts", "own work").await;
    assert_eq!(verdict("t2", "/w/guides/order.md").await, "ask");
    assert_eq!(verdict("t3", "/w/guides/../guides/order.md").await, "ask");
    assert_eq!(verdict("t4", "/w/src/api.ts").await, "allow", "it is the agent's own work");
}
