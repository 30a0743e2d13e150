//! Coherence issues: found when agents report and recommend, flagged by agents, reported and settled by people (decision 88).

use futures_util::future::join;
use pilothouse_domain::artifact::{ArtifactAuthor, ArtifactPath, artifact_id};
use pilothouse_domain::session::AgentFact;
use pilothouse_domain::value::{Capabilities, OptionAssessment, OptionProposal, ProposedOption};
use pilothouse_domain::{AgentSessionId, ToolCallId};
use pilothouse_store::{Commit, Loaded, ScanMark};
use serde_json::{Value, json};

use crate::artifacts::{Artifacts, violations};

impl Artifacts {
    pub(crate) async fn issues(&self, query: &str) -> Vec<Value> {
        let (status, page) = self.fixture.send("GET", &format!("/api/coherence?{query}"), Value::Null).await;
        assert_eq!(status, 200, "{page}");
        page["items"].as_array().unwrap().clone()
    }

    pub(crate) async fn only_issue(&self) -> Value {
        let issues = self.issues("").await;
        assert_eq!(issues.len(), 1, "{issues:?}");
        issues[0].clone()
    }

    /// The Writer reports the file `path`.
    pub(crate) async fn write(&self, path: &str, text: &str) -> Value {
        let body = json!({ "path": path, "sourcePath": path, "kind": "code", "text": text });
        let (status, body) = self.as_agent(self.writer, "POST", "/artifacts", body).await;
        assert!(matches!(status, 200 | 201), "{body}");
        body
    }

    pub(crate) async fn settle(&self, issue: &Value, action: &str, body: Value) -> (u16, Value) {
        let path = format!("/api/coherence/{}/{action}", issue["id"].as_str().unwrap());
        self.fixture.send("POST", &path, body).await
    }

    pub(crate) async fn score(&self) -> Value {
        let path = format!("/api/projects/{}/coherence", self.fixture.project);
        let (status, report) = self.fixture.send("GET", &path, Value::Null).await;
        assert_eq!(status, 200, "{report}");
        report
    }

    pub(crate) async fn react_to_issue(&self, issue: &Value, sequence: u64) {
        self.fixture.react_to("coherence-issue", issue["id"].as_str().unwrap(), sequence).await;
    }
}

fn check(issue: &Value) -> &str {
    issue["source"]["check"].as_str().unwrap()
}

#[tokio::test]
async fn file_that_two_agents_report_is_an_issue_at_once() {
    let artifacts = Artifacts::new().await;
    artifacts.report("src/api.ts", "one").await;
    assert_eq!(artifacts.issues("").await, [] as [Value; 0]);
    let second = artifacts.write("src/api.ts", "two").await;
    let issue = artifacts.only_issue().await;
    assert_eq!((check(&issue), &issue["severity"]), ("file_conflict", &json!("high")));
    assert_eq!(issue["status"], json!({ "state": "open" }));
    assert!(issue["affectedArtifactIds"].as_array().unwrap().contains(&second["artifactId"]));
    assert_eq!(issue["affectedWorkstreams"], json!(["docs", "api"]));
    let path = format!("/api/coherence/{}", issue["id"].as_str().unwrap());
    assert_eq!(artifacts.fixture.send("GET", &path, Value::Null).await, (200, issue.clone()));
    assert_eq!(artifacts.fixture.send_as("eve", "GET", &path, Value::Null).await.0, 404);
}

#[tokio::test]
async fn pair_is_raised_once_however_often_it_is_found() {
    let artifacts = Artifacts::new().await;
    let first = artifacts.report("src/api.ts", "one").await["artifactId"].clone();
    let second = artifacts.write("src/api.ts", "two").await["artifactId"].clone();
    artifacts.report("src/api.ts", "three").await;
    artifacts.write("src/api.ts", "four").await;
    for _ in 0..2 {
        artifacts.react_to(&first, 1).await;
        artifacts.react_to(&second, 2).await;
    }
    let issue = artifacts.only_issue().await;
    artifacts.settle(&issue, "dismiss", json!({})).await;
    artifacts.report("src/api.ts", "five").await;
    assert_eq!(artifacts.only_issue().await["status"]["state"], "dismissed");
}

#[tokio::test]
async fn resolved_conflict_is_open_again_with_the_next_version() {
    let artifacts = Artifacts::new().await;
    let first = artifacts.report("src/api.ts", "one").await["artifactId"].clone();
    artifacts.write("src/api.ts", "two").await;
    let issue = artifacts.only_issue().await;
    artifacts.fixture.advance(std::time::Duration::from_secs(1));
    let (status, resolved) = artifacts.settle(&issue, "resolve", json!({ "resolution": "Merged" })).await;
    assert_eq!((status, &resolved["status"]["state"]), (200, &json!("resolved")));
    artifacts.react_to(&first, 1).await;
    assert_eq!(artifacts.only_issue().await["status"]["state"], "resolved", "a late message");
    artifacts.fixture.advance(std::time::Duration::from_secs(1));
    artifacts.report("src/api.ts", "three").await;
    assert_eq!(artifacts.only_issue().await["status"]["state"], "open");
}

/// Of two reports that are committed at the same time, neither transaction sees the other one.
#[tokio::test]
async fn reports_at_the_same_time_raise_their_conflict_once() {
    for _ in 0..3 {
        let artifacts = Artifacts::new().await;
        let (first, second) =
            join(artifacts.report("src/api.ts", "one"), artifacts.write("src/api.ts", "two")).await;
        Box::pin(join(
            artifacts.react_to(&first["artifactId"], 1),
            artifacts.react_to(&second["artifactId"], 1),
        ))
        .await;
        assert_eq!(check(&artifacts.only_issue().await), "file_conflict");
    }
}

#[tokio::test]
async fn same_content_of_two_workstreams_is_a_duplicate() {
    let artifacts = Artifacts::new().await;
    artifacts.report("src/money.ts", "round(x)").await;
    let copy = artifacts.write("lib/rounding.ts", "round(x)").await;
    let issue = artifacts.only_issue().await;
    assert_eq!((check(&issue), &issue["category"]), ("duplicate_artifact", &json!("duplication")));
    assert_eq!(issue["severity"], "low");
    let body = json!({ "path": "people.ts", "kind": "code", "workstream": "api", "text": "round(x)" });
    assert_eq!(artifacts.upload(body).await.0, 201);
    assert_eq!(artifacts.issues("").await.len(), 2, "people's uploads are checked, too: {copy}");
}

#[tokio::test]
async fn versions_of_two_agents_conflict_within_the_window() {
    let artifacts = Artifacts::new().await;
    let agent = json!({
        "brief": { "role": "Reviewer", "workstream": "api" },
        "objective": "Review it", "workingDirectory": "/w3", "budgetCapUsd": "5",
    });
    let (_, spawned) = artifacts.fixture.send("POST", "/api/agents/spawn", agent).await;
    let reviewer: AgentSessionId = spawned["session"]["id"].as_str().unwrap().parse().unwrap();
    artifacts.fixture.observe_in(reviewer, AgentFact::SidecarReady(Capabilities::default())).await;
    let reported = artifacts.report("src/api.ts", "one").await;
    let revision = json!({
        "artifactId": reported["artifactId"], "kind": "code", "expectedVersion": 1, "text": "two",
    });
    let (status, body) = artifacts.as_agent(reviewer, "POST", "/artifacts", revision).await;
    assert_eq!(status, 201, "{body}");
    assert_eq!(check(&artifacts.only_issue().await), "concurrent_versions");
}

#[tokio::test]
async fn artifact_from_an_unreadable_workstream_is_a_violation() {
    let artifacts = Artifacts::new().await;
    let source = artifacts.write("guide.md", "Guide").await["artifactId"].clone();
    let body = json!({ "path": "a.md", "kind": "document", "text": "A", "sourceArtifactIds": [source] });
    let (status, _) = artifacts.as_agent(artifacts.fixture.session, "POST", "/artifacts", body).await;
    assert_eq!(status, 201);
    let issue = artifacts.only_issue().await;
    assert_eq!((check(&issue), &issue["severity"]), ("dependency_violation", &json!("medium")));
    assert_eq!(issue["affectedWorkstreams"], json!(["api", "docs"]));
}

/// A proposal of options about an artifact, of which the agent recommends one.
pub(crate) fn proposes(request: &str, recommended: &str, artifact: &Value) -> AgentFact {
    let option = |label: &str| ProposedOption {
        id: label.to_owned(),
        label: label.to_owned(),
        description: None,
        tradeoffs: None,
    };
    let assessment = OptionAssessment {
        recommended_option_id: Some(recommended.to_owned()),
        affected_artifact_ids: vec![artifact.as_str().unwrap().to_owned(), "elsewhere".to_owned()],
        ..OptionAssessment::default()
    };
    let proposal = OptionProposal { options: vec![option("SQLite"), option("Redis")], assessment };
    AgentFact::QuestionAsked {
        request: ToolCallId::parse(request).unwrap(),
        questions: vec![proposal.as_question("Which store?".to_owned())],
        approval: None,
        proposal: Some(proposal),
        timeout: None,
    }
}

#[tokio::test]
async fn different_recommendations_for_an_artifact_are_an_issue() {
    let artifacts = Artifacts::new().await;
    let artifact = artifacts.report("src/store.ts", "one").await["artifactId"].clone();
    let writer = artifacts.writer;
    artifacts
        .fixture
        .observe_in(writer, AgentFact::TurnStarted { turn: "t".parse().unwrap(), message: None })
        .await;
    artifacts.fixture.observe(proposes("q1", "SQLite", &artifact)).await;
    artifacts.fixture.react().await;
    assert_eq!(artifacts.issues("").await, [] as [Value; 0]);
    artifacts.fixture.observe_in(writer, proposes("q2", "Redis", &artifact)).await;
    for _ in 0..2 {
        artifacts.fixture.react_of(writer).await;
        artifacts.fixture.react().await;
    }
    let issue = artifacts.only_issue().await;
    assert_eq!((check(&issue), &issue["category"]), ("decision_conflict", &json!("contradiction")));
    assert_eq!((&issue["severity"], &issue["affectedArtifactIds"]), (&json!("high"), &json!([artifact])));
    let agents = issue["affectedAgentIds"].as_array().unwrap();
    assert_eq!(agents.len(), 2, "{issue}");
    for agent in [json!(artifacts.fixture.agent), json!(artifacts.writer_agent)] {
        assert!(agents.contains(&agent), "{agent} is missing: {issue}");
    }
}

#[tokio::test]
async fn issues_are_filtered_and_paged_with_the_open_ones_first() {
    let artifacts = Artifacts::new().await;
    for n in 0..3 {
        artifacts.report(&format!("{n}.ts"), &format!("a{n}")).await;
        artifacts.write(&format!("{n}.ts"), &format!("b{n}")).await;
        artifacts.fixture.advance(std::time::Duration::from_secs(1));
    }
    artifacts.write("copy.ts", "a0").await;
    let issues = artifacts.issues("").await;
    assert_eq!(issues.len(), 4);
    artifacts.settle(&issues[0], "dismiss", json!({ "reason": "On purpose" })).await;
    artifacts.settle(&issues[1], "confirm", Value::Null).await;
    let states = |issues: &[Value]| {
        issues.iter().map(|it| it["status"]["state"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(states(&artifacts.issues("").await), ["confirmed", "open", "open", "dismissed"]);
    assert_eq!(artifacts.issues("state=open").await.len(), 2);
    assert_eq!(artifacts.issues("state=dismissed").await[0]["status"]["reason"], "On purpose");
    assert_eq!(artifacts.issues("severity=low").await.len(), 1);
    assert_eq!(artifacts.issues("category=contradiction&workstream=docs").await.len(), 3);
    let (_, page) = artifacts.fixture.send("GET", "/api/coherence?limit=3", Value::Null).await;
    let next = page["nextCursor"].as_str().unwrap();
    let rest = artifacts.issues(&format!("limit=3&cursor={next}")).await;
    assert_eq!((page["items"].as_array().unwrap().len(), states(&rest)), (3, vec!["dismissed".to_owned()]));
    for (query, field) in
        [("state=lost", "state"), ("severity=none", "severity"), ("workstream=/", "workstream")]
    {
        let refused = artifacts.fixture.send("GET", &format!("/api/coherence?{query}"), Value::Null).await;
        assert_eq!((refused.0, violations(&refused.1)), (422, vec![field]), "{refused:?}");
    }
}

#[tokio::test]
async fn score_falls_with_an_issue_and_rises_when_it_is_settled() {
    let artifacts = Artifacts::new().await;
    assert_eq!(artifacts.score().await["score"], 100);
    artifacts.report("src/api.ts", "one").await;
    artifacts.write("src/api.ts", "two").await;
    let report = artifacts.score().await;
    assert_eq!((&report["score"], &report["trend"]), (&json!(92), &json!("declining")));
    assert_eq!(report["openIssues"]["high"], 1);
    let issue = artifacts.only_issue().await;
    artifacts.settle(&issue, "confirm", Value::Null).await;
    assert_eq!(artifacts.score().await["score"], 92, "a confirmed issue is not settled");
    artifacts.settle(&issue, "resolve", json!({ "resolution": "Merged" })).await;
    assert_eq!(artifacts.score().await["score"], 100);
    let path = format!("/api/projects/{}/coherence", artifacts.fixture.project);
    assert_eq!(artifacts.fixture.send_as("eve", "GET", &path, Value::Null).await.0, 404);
}

fn flagged(title: &str, artifacts: &[&Value]) -> Value {
    json!({
        "title": title, "description": "The guide says cents, the code says dollars.",
        "category": "contradiction", "affectedArtifactIds": artifacts,
    })
}

#[tokio::test]
async fn agent_flags_an_issue_once_and_confirmation_raises_its_trust() {
    let artifacts = Artifacts::with_writer(json!(["api"])).await;
    let code = artifacts.report("src/price.ts", "dollars").await["artifactId"].clone();
    let body = flagged("Units differ", &[&code]);
    let (status, first) = artifacts.as_agent(artifacts.writer, "POST", "/coherence", body.clone()).await;
    assert_eq!((status, &first["state"]), (201, &json!("open")), "{first}");
    let (status, again) = artifacts.as_agent(artifacts.writer, "POST", "/coherence", body).await;
    assert_eq!((status, &again["issueId"]), (200, &first["issueId"]));
    let issue = artifacts.only_issue().await;
    assert_eq!(issue["source"]["agentId"], json!(artifacts.writer_agent));
    assert_eq!(
        (&issue["severity"], &issue["affectedWorkstreams"]),
        (&json!("medium"), &json!(["api", "docs"]))
    );
    let logged = artifacts.log().await;
    assert_eq!((&logged[0]["access"], &logged[0]["allowed"]), (&json!("flag_coherence"), &json!(true)));
    let trust = async || {
        let path = format!("/api/trust/{}", artifacts.writer_agent);
        artifacts.fixture.send("GET", &path, Value::Null).await.1["score"].as_f64().unwrap()
    };
    let before = trust().await;
    artifacts.settle(&issue, "confirm", Value::Null).await;
    artifacts.react_to_issue(&issue, 2).await;
    artifacts.react_to_issue(&issue, 2).await;
    assert!((trust().await - before - 1.0).abs() < 0.01, "{before}");
    let (status, body) = artifacts.settle(&issue, "dismiss", json!({})).await;
    assert_eq!((status, &body["code"]), (409, &json!("coherence-confirmed")));
}

#[tokio::test]
async fn agent_is_not_informed_of_the_issue_that_it_flagged() {
    let artifacts = Artifacts::new().await;
    let fixture = &artifacts.fixture;
    let mode = json!({ "projectId": fixture.project, "mode": "orchestrator" });
    assert_eq!(fixture.send("PUT", "/api/control-mode", mode).await.0, 200);
    let code = artifacts.report("src/price.ts", "dollars").await["artifactId"].clone();
    let mut body = flagged("Units differ", &[&code]);
    body["severity"] = json!("high");
    let (status, flagged) = artifacts.as_agent(fixture.session, "POST", "/coherence", body).await;
    assert_eq!(status, 201, "{flagged}");
    artifacts.react_to_issue(&artifacts.only_issue().await, 1).await;
    assert_eq!(fixture.pending().await, None);
}

#[tokio::test]
async fn agent_flags_only_what_it_may_read() {
    let artifacts = Artifacts::new().await;
    let code = artifacts.report("src/price.ts", "dollars").await["artifactId"].clone();
    let (status, body) =
        artifacts.as_agent(artifacts.writer, "POST", "/coherence", flagged("Units", &[&code])).await;
    assert_eq!((status, &body["code"]), (403, &json!("outside-workstream")));
    assert_eq!(artifacts.issues("").await, [] as [Value; 0]);
    let logged = artifacts.log().await;
    assert_eq!((&logged[0]["access"], &logged[0]["allowed"]), (&json!("flag_coherence"), &json!(false)));
    let project = json!(artifacts.fixture.project);
    let (status, body) =
        artifacts.as_agent(artifacts.writer, "POST", "/coherence", flagged("Units", &[&project])).await;
    assert_eq!((status, violations(&body)), (422, vec!["affectedArtifactIds"]));
    let bad =
        json!({ "title": "", "description": "", "category": "odd", "affectedWorkstreams": ["docs", "docs"] });
    let (status, body) = artifacts.as_agent(artifacts.writer, "POST", "/coherence", bad).await;
    let mut named = violations(&body);
    named.sort_unstable();
    assert_eq!((status, named), (422, vec!["affectedWorkstreams", "category", "description", "title"]));
}

#[tokio::test]
async fn issue_of_a_person_costs_the_authors_trust_once() {
    let artifacts = Artifacts::new().await;
    let code = artifacts.report("src/price.ts", "dollars").await["artifactId"].clone();
    let before: f64 = artifacts.fixture.score().await.parse().unwrap();
    let (status, issue) =
        artifacts.fixture.send("POST", "/api/coherence", flagged("Units differ", &[&code])).await;
    assert_eq!((status, &issue["source"]["type"]), (201, &json!("person")), "{issue}");
    assert_eq!(issue["affectedAgentIds"], json!([artifacts.fixture.agent]));
    artifacts.react_to_issue(&issue, 1).await;
    artifacts.react_to_issue(&issue, 1).await;
    let after: f64 = artifacts.fixture.score().await.parse().unwrap();
    assert!((before - after - 2.0).abs() < 0.01, "{before} {after}");
    let unknown = json!({
        "title": "T", "description": "D", "category": "gap", "affectedWorkstreams": ["moon"],
    });
    let (status, body) = artifacts.fixture.send("POST", "/api/coherence", unknown).await;
    assert_eq!((status, violations(&body)), (422, vec!["affectedWorkstreams"]));
    assert_eq!(artifacts.fixture.send_as("eve", "POST", "/api/coherence", flagged("T", &[])).await.0, 422);
}

#[tokio::test]
async fn snapshot_names_issues_of_readable_workstreams() {
    let artifacts = Artifacts::new().await;
    artifacts.report("src/api.ts", "one").await;
    artifacts.write("src/api.ts", "two").await;
    let issue = artifacts.only_issue().await;
    let path =
        format!("/api/projects/{}/snapshot?agentId={}", artifacts.fixture.project, artifacts.fixture.agent);
    let (_, snapshot) = artifacts.fixture.send("GET", &path, Value::Null).await;
    let expected = json!([{
        "id": issue["id"], "title": "contradiction with a workstream that you may not read",
        "severity": "high", "category": "contradiction", "affectedWorkstreams": ["api"],
    }]);
    assert_eq!(snapshot["recentCoherenceIssues"], expected, "{snapshot}");
}

#[tokio::test]
async fn session_journal_has_the_issue_that_its_report_raised() {
    let artifacts = Artifacts::new().await;
    artifacts.report("src/api.ts", "one").await;
    artifacts.write("src/api.ts", "two").await;
    let issue = artifacts.only_issue().await;
    let entries = artifacts.fixture.app.store.journal(artifacts.writer, 0, 1000).await.unwrap();
    let events = entries.iter().flat_map(|entry| &entry.events);
    let raised: Vec<_> = events
        .filter(|event| event.name() == "CoherenceIssueRaisedEvent")
        .map(|event| serde_json::to_value(event).unwrap())
        .collect();
    assert_eq!(raised.len(), 1);
    assert_eq!((&raised[0]["issueId"], &raised[0]["title"]), (&issue["id"], &issue["title"]));
    let author = ArtifactAuthor::Agent {
        agent_id: artifacts.fixture.agent,
        session_id: artifacts.fixture.session,
        run_id: None,
        tool_call_id: None,
    };
    let id = artifact_id(artifacts.fixture.project, &author, &ArtifactPath::parse("src/api.ts").unwrap());
    assert!(raised[0]["affectedArtifactIds"].as_array().unwrap().contains(&json!(id)));
}

/// A text of some words, with a different end.
fn guide(end: &str) -> String {
    format!(
        "Order totals are computed on the server from quantities and unit prices in cents. VAT is added last. {end}"
    )
}

#[tokio::test]
async fn audit_finds_similar_texts_of_other_workstreams_once() {
    let artifacts = Artifacts::new().await;
    artifacts.report("totals.ts", &guide("Clients display them.")).await;
    artifacts.write("guide.md", &guide("The page shows them.")).await;
    artifacts.write("other.md", "Logs are rotated daily and kept for two weeks on each host.").await;
    let image = json!({ "path": "a.png", "kind": "design", "workstream": "api", "mimeType": "image/png", "base64": "iVBORw0KGgo=" });
    assert_eq!(artifacts.upload(image).await.0, 201);
    let audit = async || artifacts.fixture.send("POST", "/api/coherence/audit", json!({})).await;
    let (status, first) = audit().await;
    assert_eq!(status, 200, "{first}");
    assert_eq!((&first["comparedArtifacts"], &first["skippedArtifacts"]), (&json!(3), &json!(1)));
    assert_eq!((&first["similarPairs"], &first["raisedIssues"]), (&json!(1), &json!(1)));
    let issue = artifacts.only_issue().await;
    assert_eq!((&issue["source"]["type"], &issue["severity"]), (&json!("similarity"), &json!("medium")));
    assert_eq!(issue["category"], "duplication");
    assert_eq!(audit().await.1["raisedIssues"], 0);
    assert_eq!(artifacts.fixture.send_as("eve", "POST", "/api/coherence/audit", json!({})).await.0, 422);
}

#[tokio::test]
async fn scan_runs_ten_ticks_after_the_one_before() {
    let artifacts = Artifacts::new().await;
    let first = artifacts.report("totals.ts", &guide("Clients display them.")).await;
    artifacts.react_to(&first["artifactId"], 1).await;
    let second = artifacts.write("guide.md", &guide("The page shows them.")).await;
    artifacts.react_to(&second["artifactId"], 1).await;
    assert_eq!(artifacts.issues("").await, [] as [Value; 0], "the first report was scanned just now");
    artifacts.fixture.advance(std::time::Duration::from_secs(9));
    let early = artifacts.report("early.ts", "Backups are tested every month.").await;
    artifacts.react_to(&early["artifactId"], 1).await;
    assert_eq!(artifacts.issues("").await, [] as [Value; 0], "nine ticks are too early");
    artifacts.fixture.advance(std::time::Duration::from_secs(1));
    let third = artifacts.report("unrelated.ts", "Logs are rotated daily and kept for two weeks.").await;
    artifacts.react_to(&third["artifactId"], 1).await;
    assert_eq!(artifacts.only_issue().await["source"]["type"], "similarity");
}

#[tokio::test]
async fn version_that_a_scan_did_not_see_is_compared_later() {
    let artifacts = Artifacts::new().await;
    artifacts.report("totals.ts", &guide("Clients display them.")).await;
    artifacts.write("guide.md", &guide("The page shows them.")).await;
    artifacts.fixture.advance(std::time::Duration::from_secs(1));
    // A scan for which the list of artifacts was not complete yet.
    let (app, project) = (&artifacts.fixture.app, artifacts.fixture.project);
    let scanned_at = app.now();
    let tick = app.project_time(project).await.unwrap().unwrap().tick(scanned_at).unwrap();
    let mark = ScanMark { tick, scanned_at, embedded_at: None, failed_embeddings: 0 };
    let mut commit = Commit::new();
    commit.scan_mark(project, &Loaded::new(mark)).unwrap();
    app.store.commit(commit).await.unwrap();
    artifacts.fixture.advance(std::time::Duration::from_secs(10));
    let third = artifacts.report("unrelated.ts", "Logs are rotated daily and kept for two weeks.").await;
    artifacts.react_to(&third["artifactId"], 1).await;
    assert_eq!(artifacts.only_issue().await["source"]["type"], "similarity");
}
