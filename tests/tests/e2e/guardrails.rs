//! Guardrails of a brief on texts for its agent and on outputs (S2 `GuardrailPolicy`; decision 79).

use pilothouse_tests::{PATIENCE, Session};
use serde_json::{Value, json};

use crate::projects::project;
use crate::scripts::{say, script, turn, works_until_message};
use crate::server::Server;

/// An agent of a project with its decision log.
struct Guarded {
    session: Session,
    log: String,
}

impl Guarded {
    async fn spawn(server: &Server, plays: &Value, policy: &Value) -> Self {
        let shop = project(&server.api(), "Shop").await;
        let body = json!({
            "projectId": shop["id"],
            "brief": { "role": "Counter", "workstream": "api", "adapter": "script",
                "providerConfig": { "script": plays }, "guardrailPolicy": policy },
            "objective": "Count the tea",
            "workingDirectory": server.work_folder(),
            "budgetCapUsd": "5",
        });
        let session = Session::spawn(&server.api(), body).await;
        let log = format!("/api/projects/{}/decision-log", shop["id"].as_str().unwrap());
        Self { session, log }
    }

    /// Waits until the decision log has this many guardrails, and returns their levels and names, oldest first.
    async fn trips(&self, number: usize) -> Vec<[String; 2]> {
        let logged = async || {
            let log = self.session.api.all(&self.log).await;
            let trips = log.iter().filter(|entry| entry["type"] == "guardrail").rev();
            let text = |value: &Value| value.as_str().unwrap().to_owned();
            let trips: Vec<_> =
                trips.map(|trip| [text(&trip["level"]), text(&trip["guardrail"]["name"])]).collect();
            (trips.len() >= number).then_some(trips)
        };
        self.session.until_within(PATIENCE, "guardrails in the decision log", logged).await
    }
}

fn prices(action: &str) -> Value {
    json!({ "outputGuardrails": [{ "name": "no prices", "action": action, "description": "Prices stay out",
        "condition": { "result": [{ "at": "/price", "matches": "*" }] } }] })
}

fn with_result(result: &Value) -> Value {
    json!({ "output": { "outputLineCount": 1, "filesChanged": 0, "testsAdded": 0, "allTestsPassing": true, "result": result } })
}

#[tokio::test]
async fn blocked_message_never_reaches_the_agent() {
    let server = Server::start(1).await;
    let policy = json!({ "inputGuardrails": [{ "name": "no cards", "action": "block",
        "condition": { "text": ["*card*"] } }] });
    let guarded = Guarded::spawn(&server, &works_until_message(), &policy).await;
    let session = &guarded.session;
    session.until_said("Working.").await;
    let steering = json!({ "content": "my card is 4711", "priority": "Immediate" });
    let refused = session.post("/messages/queue", steering).await.refused(409, "guardrail-blocked");
    assert!(refused.body["detail"].as_str().unwrap().contains("`no cards`"), "{}", refused.text);
    session.say("hello", "Immediate").await;
    session.until_said("Told: hello").await;
    let said = session.said().await;
    assert_eq!(said, ["Working.", "Told: hello"]);
    assert_eq!(guarded.trips(1).await, [["input", "no cards"]]);
    let message = "The guardrail \"no cards\" refused a message to the agent";
    session.until_activity(message, |lines| lines.iter().any(|line| line["summary"] == message)).await;
}

#[tokio::test]
async fn agent_corrects_an_output_that_a_guardrail_blocks() {
    let server = Server::start(1).await;
    let mut plays = script(&[turn(&[say("Counted."), with_result(&json!({ "price": 7 }))])]);
    plays["onMessage"] = json!([say("Told: {{message}}"), with_result(&json!({ "total": 3 }))]);
    let guarded = Guarded::spawn(&server, &plays, &prices("block")).await;
    let session = &guarded.session;
    let view = session.until("output", |view| view["hasPendingReview"] == true).await;
    assert_eq!(
        (&view["output"]["result"], &view["metrics"]["turnCount"]),
        (&json!({ "total": 3 }), &json!(2))
    );
    assert_eq!(view["output"].get("guardrails"), None, "{view}");
    let said = session.said().await.join("\n");
    assert!(said.contains("- the result is not allowed: Prices stay out"), "{said}");
    assert!(!said.contains("no prices"), "the agent does not learn the name: {said}");
    assert_eq!(guarded.trips(1).await, [["output", "no prices"]]);
}

#[tokio::test]
async fn output_that_stays_blocked_becomes_a_review() {
    let server = Server::start(1).await;
    let wrong = [say("Counted."), with_result(&json!({ "price": 7 }))];
    let mut plays = script(&[turn(&wrong)]);
    plays["onMessage"] = json!(wrong);
    let guarded = Guarded::spawn(&server, &plays, &prices("block")).await;
    let session = &guarded.session;
    let view = session.until("output", |view| view["hasPendingReview"] == true).await;
    assert_eq!(view["metrics"]["turnCount"], 3, "two corrections");
    assert_eq!(view["output"]["guardrails"][0]["name"], "no prices");
    assert_eq!(guarded.trips(3).await.len(), 3);
}

#[tokio::test]
async fn output_that_a_guardrail_asks_about_becomes_an_urgent_review() {
    let server = Server::start(1).await;
    let plays = script(&[turn(&[say("Counted."), with_result(&json!({ "price": 7 }))])]);
    let guarded = Guarded::spawn(&server, &plays, &prices("ask")).await;
    let session = &guarded.session;
    let view = session.until("output", |view| view["hasPendingReview"] == true).await;
    assert_eq!(view["metrics"]["turnCount"], 1, "it is not returned");
    let found = session.api.all(&format!("/api/decisions?session={}", session.id)).await;
    assert_eq!((&found[0]["kind"], &found[0]["severity"]), (&json!("output_review"), &json!("high")));
    assert_eq!(found[0]["output"]["guardrails"][0]["action"], "ask", "{found:#?}");
}

#[tokio::test]
async fn submitted_output_that_is_blocked_is_returned_with_the_reason() {
    let server = Server::start(1).await;
    let guarded = Guarded::spawn(&server, &works_until_message(), &prices("block")).await;
    let session = &guarded.session;
    session.until_said("Working.").await;
    let path = format!("/api/agent/sessions/{}/output", session.id);
    let submit = |result: Value| json!({ "outputLineCount": 0, "filesChanged": 0, "testsAdded": 0, "allTestsPassing": true, "result": result });
    let agent = server.api_with(Some(session.api_key().to_owned()));
    let returned = agent.post(&path, submit(json!({ "price": 7 }))).await.expect(202).body;
    let reasons = json!([{ "path": "", "message": "is not allowed: Prices stay out" }]);
    assert_eq!((&returned["accepted"], &returned["violations"]), (&json!(false), &reasons));
    assert!(!returned.to_string().contains("no prices"), "{returned}");
    let accepted = agent.post(&path, submit(json!({ "total": 7 }))).await.expect(202).body;
    assert_eq!(accepted["accepted"], true);
}
