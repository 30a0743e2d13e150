//! The briefing of a project (decision 87).

use std::process::Command;

use pilothouse_api::briefing::{Briefing, BriefingSection};
use pilothouse_domain::ProjectId;
use pilothouse_tests::{PATIENCE, Session, programs};
use serde_json::{Value, json};

use crate::authorization::bash;
use crate::projects::{project, spawned};
use crate::scripts::{endless, script, turn, with_output};
use crate::server::Server;

fn texts(section: &BriefingSection) -> Vec<&str> {
    section.sentences.iter().map(|sentence| sentence.text.as_str()).collect()
}

/// Makes two calls, spends a quarter of a dollar, and asks.
fn asking() -> Value {
    let usage = json!({ "usage": { "costUsd": "0.25", "tokens": { "inputTokens": 100 } } });
    let question = json!({ "question": { "id": "q1", "questions": [{ "question": "Which store?" }] } });
    script(&[turn(&[bash("c1", "ls", "a"), bash("c2", "ls -la", "b"), usage, question])])
}

async fn briefing_when(
    server: &Server,
    session: &Session,
    project: ProjectId,
    what: &str,
    is: impl Fn(&Briefing) -> bool,
) -> Briefing {
    let look = async || {
        let briefing = server.client().briefing(project, None).await.unwrap();
        is(&briefing).then_some(briefing)
    };
    session.until_within(PATIENCE, what, look).await
}

/// A project with an agent that asks, one whose output was approved, and one that was killed.
async fn project_with_agents(server: &Server) -> (ProjectId, Session) {
    let api = server.api();
    let shop = project(&api, "Shop").await;
    let (_, asking) = spawned(server, &shop, "Builder", &asking()).await;
    let (_, done) = spawned(server, &shop, "Writer", &with_output()).await;
    let (_, killed) = spawned(server, &shop, "Tester", &endless()).await;
    asking.until_status("WaitingForInput").await;
    let review = async || {
        let waiting = api.all("/api/decisions").await;
        waiting.into_iter().find(|decision| decision["kind"] == "output_review")
    };
    let review = done.until_within(PATIENCE, "the review", review).await;
    let path = format!("/api/decisions/{}/resolve", review["id"].as_str().unwrap());
    api.post(&path, json!({ "resolutionType": "approve" })).await.expect(200);
    done.until_status("Completed").await;
    killed.until_said("Working.").await;
    killed.post("/cancel", json!({})).await.expect(202);
    killed.until_status("Cancelled").await;
    (shop["id"].as_str().unwrap().parse().unwrap(), asking)
}

#[tokio::test]
async fn briefing_of_a_project_has_all_sections() {
    let server = Server::start(1).await;
    let (project, session) = project_with_agents(&server).await;
    let has_all = |briefing: &Briefing| {
        let all = [&briefing.attention, &briefing.finished, &briefing.risks, &briefing.cost.section];
        all.iter().all(|section| section.count > 0)
            && texts(&briefing.automatic_decisions).iter().any(|text| text.contains("The trust in Writer"))
    };
    let briefing = briefing_when(&server, &session, project, "all sections", has_all).await;
    let attention = texts(&briefing.attention);
    assert!(
        matches!(attention[..], [asked] if asked.starts_with("Builder asks “Which store?”")),
        "{attention:?}"
    );
    assert_eq!(texts(&briefing.finished), ["Writer completed its objective “Build it” after 1 turn."]);
    assert_eq!(texts(&briefing.risks), ["Tester was cancelled."]);
    let decided = texts(&briefing.automatic_decisions);
    assert!(
        decided.iter().any(|text| text.starts_with("2 calls of Bash by Builder were allowed")),
        "{decided:?}"
    );
    assert_eq!(texts(&briefing.cost.section), ["Builder spent $0.25."]);
    assert_eq!(
        (briefing.cost.spent_usd, briefing.cost.total_usd),
        ("0.25".parse().unwrap(), "0.25".parse().unwrap())
    );

    let all = [
        &briefing.attention,
        &briefing.finished,
        &briefing.risks,
        &briefing.automatic_decisions,
        &briefing.cost.section,
    ];
    for link in all.iter().flat_map(|section| &section.sentences).flat_map(|sentence| &sentence.links) {
        let body = server.api().get(&link.href).await.expect(200).body;
        assert_ne!(body["items"], json!([]), "{} leads to nothing", link.href);
        server.api_of("eve").get(&link.href).await.refused(404, "not-found");
    }
    let path = format!("/api/projects/{project}/briefing");
    server.api_of("eve").get(&path).await.refused(404, "not-found");
    let next = server.client().briefing(project, Some(briefing.until)).await.unwrap();
    assert_eq!(
        (next.finished.count, next.risks.count, next.automatic_decisions.count),
        (0, 0, 0),
        "{next:#?}"
    );
    assert_eq!(next.attention.count, 1, "the question still waits");
    let old = format!("{path}?since=2000-01-01T00:00:00Z");
    assert_eq!(server.api().get(&old).await.expect(422).violated(), ["since"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn command_prints_the_briefing() {
    let server = Server::start(1).await;
    let (_, session) = project_with_agents(&server).await;
    let run = |arguments: &[&str]| {
        let mut command = Command::new(programs::pilothouse());
        command
            .arg("briefing")
            .args(arguments)
            .args(["--url", server.url(), "--data"])
            .arg(server.keys_folder());
        let output = command.output().unwrap();
        let (shown, error) =
            (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
        (output.status.success(), shown, error)
    };
    let (ok, shown, error) = run(&["Shop", "--since", "2h"]);
    assert!(ok, "{error}");
    for part in [
        "Shop  since 2 h ago",
        "Attention (1)\n- Builder asks “Which store?”",
        "    /api/decisions/",
        "Cost: $0.25",
    ] {
        assert!(shown.contains(part), "no {part:?} in {shown}");
    }
    let (_, json, error) = run(&["--json"]);
    let briefing: Briefing =
        serde_json::from_str(&json).unwrap_or_else(|wrong| panic!("{wrong}: {json}{error}"));
    assert_eq!(briefing.attention.count, 1);
    session.api.post("/api/projects", json!({ "name": "Other" })).await.expect(201);
    let (ok, _, error) = run(&[]);
    assert!(!ok && error.contains("name a project"), "{error}");
    let (ok, _, error) = run(&["Shop", "--since", "2999-01-01T00:00:00Z"]);
    assert!(!ok && error.contains("must be in the past"), "{error}");
}
