//! Coherence issues that a model reviews: a server process, real agents, and a scripted model on loopback (decision 91).

use std::os::unix::fs::PermissionsExt as _;

use pilothouse_model_server::{Embeddings, Failure, ModelServer, Script, Step};
use pilothouse_tests::{Api, PATIENCE, Session};
use serde_json::{Value, json};

use crate::artifacts::{Agent, builder, own_tool, project, writer};
use crate::server::Server;

/// The model is asked again after seconds instead of minutes.
const DIVISOR: u32 = 20;
const HOUR_MILLIS: i64 = 3_600_000;
const KEY: &str = "sk-of-the-server";

fn judgment(issue: &Value) -> String {
    json!({ "results": [{
        "candidateId": issue["id"], "confirmed": true, "category": "contradiction", "severity": "high",
        "explanation": "The decision is cents, the guide says dollars.", "suggestedResolution": "Say cents in the guide.",
    }] })
    .to_string()
}

/// The models of the server: the decision and the guide are about the same subject, the taxes are not.
fn says(steps: Vec<Step>) -> Script {
    let vectors = [
        ("unit are prices", vec![1.0, 0.0]),
        ("prices are dollars", vec![0.9, 0.44]),
        ("19 %", vec![0.0, 1.0]),
        ("7 %", vec![0.0, -1.0]),
    ];
    Script { key: Some(KEY.to_owned()), embeddings: Embeddings::of(vectors), ..Script::of(steps) }
}

/// An agent asks in which unit prices are, names an artifact, and waits for the choice.
fn asks_for_the_unit(artifact: &Value) -> [Value; 2] {
    let option = |id: &str, label: &str| json!({ "id": id, "label": label, "tradeoffs": "none" });
    let asked = json!({
        "type": "question_asked", "requestId": "d1",
        "questions": [{ "question": "In which unit are prices?", "options": [{ "label": "Cents" }, { "label": "Dollars" }] }],
        "proposal": {
            "options": [option("c", "Cents"), option("d", "Dollars")], "recommendedOptionId": "c",
            "affectedArtifactIds": [artifact],
        },
    });
    [json!({ "raw": asked }), json!({ "waitForAnswer": "d1" })]
}

/// The brief without context updates, because one would be the message that its script waits for.
fn without_updates(mut brief: Value) -> Value {
    brief["contextInjectionPolicy"] =
        json!({ "reactiveEvents": [], "periodicIntervalMinutes": null, "stalenessThreshold": null });
    brief
}

/// A person chooses cents.
async fn choose_cents(api: &Api, building: &Agent, project: &str) {
    building.session.until_status("WaitingForInput").await;
    let open = api.get(&format!("/api/decisions?kind=option&projectId={project}")).await.expect(200).body;
    let resolve = format!("/api/decisions/{}/resolve", open["items"][0]["id"].as_str().unwrap());
    let cents =
        json!({ "resolutionType": "choose_option", "chosenOptionId": "c", "rationale": "They are exact." });
    api.post(&resolve, cents).await.expect(202);
}

/// The issue that `fits`, once there is one.
async fn issue(api: &Api, session: &Session, what: &str, fits: impl Fn(&Value) -> bool) -> Value {
    let look = async || {
        let issues = api.get("/api/coherence").await.expect(200).body["items"].as_array().unwrap().clone();
        issues.into_iter().find(&fits)
    };
    session.until_within(PATIENCE, what, look).await
}

fn is_about(issue: &Value, path: &str) -> bool {
    issue["source"]["check"] == "file_conflict" && issue["title"].as_str().unwrap().contains(path)
}

#[tokio::test]
async fn model_confirms_a_contradiction_that_a_person_decides() {
    let outage = Step::text("unused").failing([Failure::ServerError]);
    let model = ModelServer::start(says(vec![outage])).await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let key = folder.path().join("model.key");
    std::fs::write(&key, format!("{KEY}\n")).unwrap();
    std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o600)).unwrap();
    let environment = [
        ("PILOTHOUSE_MODEL_URL", model.openai_base_url()),
        ("PILOTHOUSE_MODEL", "mini".to_owned()),
        ("PILOTHOUSE_MODEL_PRICE", "1000/2000".to_owned()),
        ("PILOTHOUSE_MODEL_KEY_FILE", key.display().to_string()),
        ("PILOTHOUSE_EMBEDDINGS_URL", model.openai_base_url()),
        ("PILOTHOUSE_EMBEDDINGS_KEY_FILE", key.display().to_string()),
        ("NO_PROXY", "127.0.0.1".to_owned()),
    ];
    let environment: Vec<_> = environment.iter().map(|(name, value)| (*name, value.as_str())).collect();
    let server = Server::start_with(DIVISOR, &environment).await;
    let api = server.api();
    let project = project(&api).await;
    let path = format!("/api/projects/{project}");
    // A failed review, one more, and no third one in the hour.
    api.patch(&path, json!({ "coherence": { "layer2MaxReviewsPerHour": 2 } })).await.expect(200);
    let folder = server.work_folder();
    std::fs::create_dir_all(&folder).unwrap();
    let file = |path: &str| json!({ "path": path, "kind": "document" });
    std::fs::write(folder.join("guide.md"), "The guide: prices are dollars.").unwrap();
    let writes = [
        own_tool("w1", "report_artifact", &file("guide.md")),
        json!({ "waitForMessage": {} }),
        own_tool("w2", "report_artifact", &file("tax.md")),
    ];
    let writing = Agent::spawn(&server, without_updates(writer(&["api"])), &writes).await;
    let guide: Value = serde_json::from_str(&writing.result("w1").await.1).unwrap();
    let reports_taxes = [json!({ "waitForMessage": {} }), own_tool("b1", "report_artifact", &file("tax.md"))];
    let builds = [&asks_for_the_unit(&guide["artifactId"])[..], &reports_taxes].concat();
    let building = Agent::spawn(&server, without_updates(builder()), &builds).await;
    choose_cents(&api, &building, &project).await;
    let audit = api.post("/api/coherence/audit", json!({})).await.expect(200).body;
    assert_eq!((&audit["engine"], &audit["misalignedPairs"]), (&json!("embeddings"), &json!(1)), "{audit}");

    // During an outage the issue stays open and unconfirmed.
    let failed = |it: &Value| it["source"]["check"] == "same_subject" && it["review"]["state"] == "failed";
    let unreviewed = issue(&api, &writing.session, "the failed review", failed).await;
    assert_eq!(
        (&unreviewed["status"]["state"], &unreviewed["review"]["failure"]),
        (&json!("open"), &json!("unavailable"))
    );
    assert_eq!(unreviewed["affectedArtifactIds"], json!([guide["artifactId"]]));

    // The model is back. Its first answer is not valid.
    model.play(says(vec![Step::text("It is real."), Step::text(judgment(&unreviewed))]));
    let confirmed = |it: &Value| it["id"] == unreviewed["id"] && it["review"]["state"] == "confirmed";
    let confirmed = issue(&api, &writing.session, "the confirmation", confirmed).await;
    assert_eq!((&confirmed["severity"], &confirmed["category"]), (&json!("high"), &json!("contradiction")));
    let prompts = model.prompts();
    assert_eq!(prompts.len(), 3);
    let texts = prompts[2].body.to_string();
    for text in
        ["In which unit are prices?", "They are exact.", "prices are dollars", "Your answer was invalid"]
    {
        assert!(texts.contains(text), "{texts}");
    }

    // The limit of the hour: another conflict waits.
    std::fs::write(folder.join("tax.md"), "19 %").unwrap();
    building.session.say("Go on", "Immediate").await;
    building.result("b1").await;
    std::fs::write(folder.join("tax.md"), "7 %").unwrap();
    writing.session.say("Go on", "Immediate").await;
    writing.result("w2").await;
    let held = issue(&api, &writing.session, "the second conflict", |it| is_about(it, "tax.md")).await;
    model.play(says(vec![Step::text(judgment(&held))]));
    assert_eq!(held.get("review"), None);

    // A person resolves the decision, which settles the issue.
    let inbox = api.get(&format!("/api/decisions?kind=coherence_review&projectId={project}")).await;
    let inbox = inbox.expect(200).body;
    let decision = &inbox["items"][0];
    assert_eq!((&decision["issueId"], &decision["severity"]), (&unreviewed["id"], &json!("high")));
    let resolve = format!("/api/decisions/{}/resolve", decision["id"].as_str().unwrap());
    let choice = json!({ "resolutionType": "choose_option", "chosenOptionId": "resolve" });
    api.post(&resolve, choice.clone()).await.expect(200);
    api.post(&resolve, choice).await.expect(409);
    let settled =
        api.get(&format!("/api/coherence/{}", unreviewed["id"].as_str().unwrap())).await.expect(200).body;
    assert_eq!(settled["status"]["resolution"], "Say cents in the guide.");

    // Tokens and dollars are visible.
    let score = api.get(&format!("{path}/coherence")).await.expect(200).body;
    assert_eq!(score["reviews"]["reviews"], 2, "{score}");
    assert!(score["reviews"]["inputTokens"].as_u64().unwrap() > 0, "{score}");
    assert_ne!(score["reviews"]["spentUsd"], "0", "{score}");

    assert_eq!(model.prompts().len(), 3, "the second conflict waits");
    server.set_clock_offset(HOUR_MILLIS);
    let reviewed = |it: &Value| it["id"] == held["id"] && it["review"]["state"] == "confirmed";
    issue(&api, &writing.session, "the review of the next hour", reviewed).await;
}
