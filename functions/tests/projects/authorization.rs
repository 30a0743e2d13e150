//! Verdicts on tool calls, and the requests for permission that name them (decision 75).

use axum::body::Body;
use http::{Request, header};
use pilothouse_domain::{RunId, VerdictId};
use pilothouse_functions::events::intake;
use pilothouse_test_support::{received, sealed_event};
use serde_json::{Value, json};
use tower::ServiceExt as _;
use uuid::Uuid;

use crate::fixture::ProjectFixture;

pub(crate) fn call(id: &str, tool: &str, command: &str) -> Value {
    json!({ "toolCallId": id, "tool": tool, "arguments": { "command": command }, "home": "/home/agent/" })
}

impl ProjectFixture {
    pub(crate) async fn run(&self) -> RunId {
        self.app.store.session(self.session).await.unwrap().unwrap().run().unwrap().id
    }

    /// Asks for a verdict with the token of `run`.
    pub(crate) async fn ask(&self, run: RunId, call: &Value) -> (u16, Value) {
        let token = self.app.secret.gateway_token(self.session, run);
        let path = format!("/api/agent/sessions/{}/authorize", self.session);
        let request = Request::post(path).header(header::AUTHORIZATION, format!("Bearer {}", token.as_str()));
        let request = request.body(Body::from(call.to_string())).unwrap();
        let response = pilothouse_functions::router(self.app.clone()).oneshot(request).await.unwrap();
        let status = response.status().as_u16();
        let body = axum::body::to_bytes(response.into_body(), 1 << 20).await.unwrap();
        (status, serde_json::from_slice(&body).unwrap())
    }

    pub(crate) async fn verdict(&self, call: &Value) -> VerdictId {
        let (status, body) = self.ask(self.run().await, call).await;
        assert_eq!(status, 200, "{body}");
        serde_json::from_value(body["verdictId"].clone()).unwrap()
    }

    pub(crate) async fn log(&self) -> Vec<Value> {
        let path = format!("/api/projects/{}/decision-log", self.project);
        let (status, page) = self.send("GET", &path, Value::Null).await;
        assert_eq!(status, 200, "{page}");
        page["items"].as_array().unwrap().clone()
    }

    /// The sidecar asks for permission for a call.
    pub(crate) async fn ask_permission(
        &self,
        sequence: u64,
        call: &str,
        tool: &str,
        verdict: VerdictId,
    ) -> Value {
        let approval =
            json!({ "toolName": tool, "input": {}, "allow": "Allow", "deny": "Deny", "verdictId": verdict });
        self.ask_for_approval(sequence, call, &approval).await
    }

    async fn ask_for_approval(&self, sequence: u64, call: &str, approval: &Value) -> Value {
        let event = json!({ "type": "question_asked", "requestId": call,
            "questions": [{ "question": "May it?", "options": [{ "label": "Allow" }, { "label": "Deny" }] }],
            "approval": approval });
        let sealed = sealed_event(&self.app, self.session, self.run().await, Some(sequence), event);
        assert_eq!(intake::process(&self.app, vec![received(sealed)]).await.done.len(), 1);
        let (_, page) = self.send("GET", "/api/decisions", Value::Null).await;
        let items = page["items"].as_array().unwrap().iter();
        items.clone().find(|decision| decision["requestId"] == *call).unwrap().clone()
    }
}

#[tokio::test]
async fn a_verdict_needs_the_token_of_the_current_run() {
    let fixture = ProjectFixture::working().await;
    let run = fixture.run().await;
    let other = RunId::new(Uuid::from_u128(7));
    assert_eq!(fixture.ask(other, &call("t1", "Bash", "ls")).await.0, 401);
    let (status, body) = fixture.ask(run, &call("t1", "Bash", "ls")).await;
    assert_eq!((status, &body["verdict"]), (200, &json!("allow")));
    fixture.end_run().await;
    let (status, body) = fixture.ask(run, &call("t2", "Bash", "ls")).await;
    assert_eq!((status, &body["code"]), (401, &json!("unauthenticated")), "the run is over");
}

#[tokio::test]
async fn a_repeated_question_has_one_entry_in_the_log() {
    let fixture = ProjectFixture::working().await;
    let first = fixture.verdict(&call("t1", "Bash", "rm -rf build")).await;
    assert_eq!(fixture.verdict(&call("t1", "Bash", "rm -rf build")).await, first);
    assert_ne!(fixture.verdict(&call("t2", "Bash", "rm -rf build")).await, first);
    let log = fixture.log().await;
    assert_eq!(log.len(), 2, "{log:#?}");
    assert!(!serde_json::to_string(&log).unwrap().contains("rm -rf"), "arguments are not stored");
}

#[tokio::test]
async fn long_input_of_an_approval_is_kept_whole() {
    let fixture = ProjectFixture::working().await;
    let approval =
        |input: &Value| json!({ "toolName": "Bash", "input": input, "allow": "Allow", "deny": "Deny" });
    let short = json!({ "command": "ls" });
    let decision = fixture.ask_for_approval(1, "t1", &approval(&short)).await;
    assert_eq!((&decision["input"], decision.get("inputBlob")), (&json!(short.to_string()), None));

    let long = json!({ "command": format!("echo {}; rm -rf src", "tea ".repeat(1000)) });
    let decision = fixture.ask_for_approval(2, "t2", &approval(&long)).await;
    assert!(!decision["input"].as_str().unwrap().contains("rm -rf"), "{decision}");
    let path = fixture.session_path(&format!("/blobs/{}", decision["inputBlob"].as_str().unwrap()));
    assert_eq!(fixture.send("GET", &path, Value::Null).await, (200, long.clone()));

    // The sidecar has cut the input, and stored the whole one.
    let mut cut = approval(&long);
    cut["inputBlob"] = json!("0a".repeat(32));
    let decision = fixture.ask_for_approval(3, "t3", &cut).await;
    assert_eq!(decision["inputBlob"], cut["inputBlob"]);
}

#[tokio::test]
async fn no_verdict_is_given_from_the_commit_of_a_brake_on() {
    let fixture = ProjectFixture::working().await;
    // No reaction runs, so the session does not know of the brake yet.
    let body = json!({ "scope": { "type": "project", "projectId": fixture.project }, "reason": "Stop" });
    let (status, body) = fixture.send("POST", "/api/brake", body).await;
    assert_eq!((status, &body["sessionCount"]), (202, &json!(1)));
    let (status, body) = fixture.ask(fixture.run().await, &call("t1", "Bash", "ls")).await;
    assert_eq!((status, &body["code"]), (409, &json!("braked")));
    assert_eq!(fixture.log().await, [] as [Value; 0]);
}

#[tokio::test]
async fn a_bad_question_names_every_violation() {
    let fixture = ProjectFixture::working().await;
    let mut wrong = call("t1", "Bash", "ls");
    wrong["home"] = json!("somewhere");
    wrong["changedBuildFiles"] = json!(vec!["/x"; 201]);
    let (status, body) = fixture.ask(fixture.run().await, &wrong).await;
    let fields: Vec<_> =
        body["violations"].as_array().unwrap().iter().map(|it| it["field"].clone()).collect();
    assert_eq!((status, fields), (422, vec![json!("changedBuildFiles"), json!("home")]));
}

/// Only the verdict that asked about this call of this tool counts for the inbox.
#[tokio::test]
async fn a_request_for_permission_counts_only_its_own_verdict() {
    let fixture = ProjectFixture::working().await;
    let asked = fixture.verdict(&call("t1", "Bash", "rm -rf build")).await;
    let allowed = fixture.verdict(&call("t3", "Bash", "ls")).await;
    let unknown = VerdictId::new(Uuid::from_u128(9));
    let own = fixture.ask_permission(1, "t1", "Bash", asked).await;
    assert_eq!(own["verdict"]["verdictId"], json!(asked));
    assert_eq!(
        (&own["severity"], &own["blastRadius"]),
        (&own["verdict"]["effect"]["severity"], &own["verdict"]["effect"]["blastRadius"])
    );
    let wrong = [("t2", "Bash", asked), ("t3", "Bash", allowed), ("t4", "Bash", unknown)];
    for (sequence, (call, tool, verdict)) in (2..).zip(wrong) {
        let decision = fixture.ask_permission(sequence, call, tool, verdict).await;
        assert_eq!(decision.get("verdict"), None, "{call}");
        assert_eq!((&decision["severity"], &decision["blastRadius"]), (&json!("high"), &json!("unknown")));
    }
    let write = fixture.verdict(&call("t5", "Bash", "rm -rf build")).await;
    assert_eq!(fixture.ask_permission(5, "t5", "Write", write).await.get("verdict"), None, "another tool");
    let other = ProjectFixture::working().await;
    assert!(other.app.store.logged_verdict(asked).await.unwrap().is_none());
}

/// An approval of all further calls is refused where it could not have an effect.
#[tokio::test]
async fn an_approval_that_could_not_have_an_effect_is_refused() {
    let fixture = ProjectFixture::working().await;
    let verdict = fixture.verdict(&call("t1", "Bash", "rm -rf build")).await;
    let decision = fixture.ask_permission(1, "t1", "Bash", verdict).await;
    let path = format!("/api/decisions/{}/resolve", decision["id"].as_str().unwrap());
    let always = json!({ "resolutionType": "approve", "alwaysApprove": true });
    let (status, body) = fixture.send("POST", &path, always.clone()).await;
    assert_eq!((status, &body["violations"][0]["field"]), (422, &json!("alwaysApprove")));
    assert_eq!(fixture.send("POST", &path, json!({ "resolutionType": "approve" })).await.0, 202);
    let verdict = fixture.verdict(&call("t2", "Bash", "npm install tea")).await;
    let decision = fixture.ask_permission(2, "t2", "Bash", verdict).await;
    let path = format!("/api/decisions/{}/resolve", decision["id"].as_str().unwrap());
    assert_eq!(fixture.send("POST", &path, always).await.0, 202);
    let (_, body) = fixture.ask(fixture.run().await, &call("t3", "Bash", "npm install cups")).await;
    assert_eq!(body["verdict"], "allow");
}

/// The guardrails of the brief come before every other rule, and hold for the next call.
#[tokio::test]
async fn guardrails_of_the_brief_deny_and_ask() {
    let fixture = ProjectFixture::working().await;
    let guarded = json!({
        "role": "Builder", "workstream": "api",
        "escalationProtocol": { "neverEscalate": ["Bash"] },
        "guardrailPolicy": { "toolGuardrails": [
            { "name": "no production", "action": "block",
              "condition": { "tool": "Bash", "arguments": [{ "at": "/command", "matches": "*--env prod*" }] } },
            { "name": "deletions", "action": "ask", "condition": { "actionKinds": ["delete"] } },
            { "name": "shell", "description": "Look at it later", "action": "log", "condition": { "tool": "Bash" } },
        ] },
    });
    let run = fixture.run().await;
    let denied = call("t1", "Bash", "deploy --env prod");
    assert_ne!(fixture.ask(run, &denied).await.1["verdict"], "deny");
    let path = format!("/api/agents/{}/brief", fixture.agent);
    let (status, agent) = fixture.send("PATCH", &path, guarded).await;
    assert_eq!(status, 200, "{agent}");
    assert_eq!(agent["brief"]["guardrailPolicy"]["toolGuardrails"][1]["name"], "deletions");

    let (_, body) = fixture.ask(run, &denied).await;
    assert_eq!(body["verdict"], "deny");
    assert!(!body.to_string().contains("production"), "the agent does not learn the rule: {body}");
    assert_eq!(fixture.ask(run, &call("t2", "Bash", "ls")).await.1["verdict"], "allow");
    let verdict = fixture.verdict(&call("t3", "Bash", "rm -rf build")).await;
    let log = fixture.log().await;
    let logged = |id: &str| log.iter().find(|entry| entry["toolCallId"] == *id).unwrap();
    assert_eq!(logged("t1")["rule"], json!({ "type": "guardrail", "name": "no production" }));
    assert_eq!((&logged("t2")["verdict"], &logged("t2")["notices"]), (&json!("allow"), &json!(["shell"])));
    assert_eq!(logged("t3")["rule"], json!({ "type": "guardrail", "name": "deletions" }));

    let decision = fixture.ask_permission(1, "t3", "Bash", verdict).await;
    let path = format!("/api/decisions/{}/resolve", decision["id"].as_str().unwrap());
    let always = json!({ "resolutionType": "approve", "alwaysApprove": true });
    let (status, body) = fixture.send("POST", &path, always).await;
    assert_eq!((status, &body["violations"][0]["field"]), (422, &json!("alwaysApprove")), "{body}");
}

#[tokio::test]
async fn bad_guardrails_name_every_violation() {
    let fixture = ProjectFixture::working().await;
    let brief = json!({
        "role": "Builder", "workstream": "api",
        "guardrailPolicy": { "toolGuardrails": [
            { "name": "a", "action": "block", "condition": {} },
            { "name": "a", "action": "ask", "condition": { "arguments": [{ "at": "command", "matches": "x" }] } },
        ] },
    });
    let path = format!("/api/agents/{}/brief", fixture.agent);
    let fields = async |brief: Value| {
        let (status, body) = fixture.send("PATCH", &path, brief).await;
        assert_eq!(status, 422, "{body}");
        let violations = body["violations"].as_array().unwrap().clone();
        violations.iter().map(|it| it["field"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let root = "guardrailPolicy.toolGuardrails";
    let expected =
        ["[0].condition", "[1].name", "[1].condition.arguments[0].at"].map(|path| format!("{root}{path}"));
    assert_eq!(fields(brief).await, expected);
    let wrong = json!({ "name": "", "action": "explode", "condition": { "tool": "a b", "exitCode": 1 } });
    let policy = json!({ "toolGuardrails": [wrong] });
    let found = fields(json!({ "role": "Builder", "workstream": "api", "guardrailPolicy": policy })).await;
    for field in ["[0].name", "[0].action", "[0].condition.tool", "[0].condition.exitCode"] {
        assert!(found.contains(&format!("{root}{field}")), "{found:?}");
    }
    // The output of a tool is no condition either, and a guardrail on input cannot ask.
    let output = json!({ "name": "o", "action": "block", "condition": { "result": [], "output": "x" } });
    let input = json!({ "name": "i", "action": "block", "condition": { "exitCode": 1 } });
    let found =
        fields(json!({ "guardrailPolicy": { "outputGuardrails": [output], "inputGuardrails": [input] } }))
            .await;
    for field in ["outputGuardrails[0].condition.output", "inputGuardrails[0].condition.exitCode"] {
        assert!(found.contains(&format!("guardrailPolicy.{field}")), "{found:?}");
    }
    let asks = json!({ "name": "a", "action": "ask", "condition": { "text": ["x"] } });
    let empty = json!({ "name": "a", "action": "block", "condition": { "result": [] } });
    let found =
        fields(json!({ "guardrailPolicy": { "inputGuardrails": [asks], "outputGuardrails": [empty] } }))
            .await;
    let expected = ["inputGuardrails[0].action", "outputGuardrails[0].name", "outputGuardrails[0].condition"];
    assert_eq!(found, expected.map(|field| format!("guardrailPolicy.{field}")));
}

#[tokio::test]
async fn reported_risk_makes_a_verdict_stricter_only() {
    let fixture = ProjectFixture::working().await;
    let run = fixture.run().await;
    let write = |id: &str, reported: Value| {
        json!({ "toolCallId": id, "tool": "Write", "arguments": { "file_path": "/w/a.txt", "content": "x" },
            "home": "/home/agent/", "reported": reported })
    };
    let (_, calm) = fixture.ask(run, &write("t1", json!({ "severity": "low", "confidence": 0.9 }))).await;
    assert_eq!(calm["verdict"], "allow");
    let risky = json!({ "severity": "high", "blastRadius": "large", "confidence": 0.1 });
    assert_eq!(fixture.ask(run, &write("t2", risky)).await.1["verdict"], "ask");
    let mut deletion = call("t3", "Bash", "rm -rf build");
    deletion["reported"] = json!({ "severity": "low", "blastRadius": "trivial", "confidence": 1.0 });
    assert_eq!(fixture.ask(run, &deletion).await.1["verdict"], "ask", "a deletion always needs a person");
    let (status, body) = fixture.ask(run, &write("t4", json!({ "severity": "none" }))).await;
    assert_eq!((status, &body["violations"][0]["field"]), (422, &json!("reported")), "{body}");
}
