use http::Method;
use pilothouse_app::function::{CallerKind, HttpFunction};
use pilothouse_domain::UserId;
use pilothouse_functions::catalog::HTTP_FUNCTIONS;
use pilothouse_test_support::{create_session_with_run, new_session};
use serde_json::{Value, json};

use crate::fixture::ApiFixture;

/// The path of a function with `values` for its parameters, or `None` if it has other parameters.
fn path_of(function: &HttpFunction, values: &[(&str, &str)]) -> Option<String> {
    let path = values.iter().fold(function.path.to_owned(), |path, (name, value)| path.replace(name, value));
    (path != function.path && !path.contains('{')).then_some(path)
}

/// A valid body for a function, or `None` for functions that the test skips.
fn body_of(function: &HttpFunction) -> Option<Value> {
    Some(match (function.input, function.name) {
        (None, _) | (_, "sessions-interrupt" | "sessions-cancel" | "sessions-retry") => json!({}),
        (_, "sessions-budget") => json!({ "capUsd": "9" }),
        (_, "messages-enqueue") => json!({ "content": "Hello" }),
        (_, "sessions-adjust") => json!({ "modelId": "large" }),
        (_, "skills-update" | "templates-update") => json!({ "description": "Ours now" }),
        _ => return None,
    })
}

#[tokio::test]
async fn a_path_that_is_not_utf8_is_not_found() {
    let fixture = ApiFixture::new().await;
    let token = token_of(&fixture).await;
    let mut asked = 0;
    for function in HTTP_FUNCTIONS.iter().filter(|function| function.requirements.profiles.embedded()) {
        if !function.path.contains('{') {
            continue;
        }
        let mut path = function.path.to_owned();
        while let (Some(from), Some(to)) = (path.find('{'), path.find('}')) {
            path.replace_range(from..=to, "%ff%fe");
        }
        let caller = match function.caller {
            CallerKind::Owner => Ok("ada"),
            CallerKind::Sidecar => Err(token.as_str()),
            CallerKind::Agent | CallerKind::Anyone => continue,
        };
        let reply = fixture.send(caller, &function.verb.method(), &path, Some(json!({}))).await;
        // A body that is refused before the path is parsed is answered with 422.
        assert!(matches!(reply.status, 404 | 422), "{}: {} {:#}", function.name, reply.status, reply.body);
        assert!(reply.body["code"].is_string(), "{}: {:#}", function.name, reply.body);
        asked += usize::from(reply.status == 404);
    }
    assert!(asked > 30, "{asked}");
}

async fn token_of(fixture: &ApiFixture) -> String {
    let (session, run) =
        create_session_with_run(&fixture.app, new_session(&UserId::parse("ada").unwrap(), "10")).await;
    fixture.app.secret.gateway_token(session, run).as_str().to_owned()
}

#[tokio::test]
async fn excessive_waiting_time_is_a_violation() {
    let fixture = ApiFixture::new().await;
    let token = token_of(&fixture).await;
    let path = "/internal/gateway/commands/receive";
    for seconds in ["-1", "-0.001", "3600.5", "9223372036854775808", "18446744073709551616", "1e300"] {
        let body: Value = serde_json::from_str(&format!("{{\"max\":1,\"waitSeconds\":{seconds}}}")).unwrap();
        let reply = fixture.send(Err(&token), &Method::POST, path, Some(body)).await;
        assert_eq!((reply.status, &reply.body["code"]), (422, &json!("validation-failed")), "{seconds}");
        assert_eq!(reply.body["violations"][0]["field"], "waitSeconds", "{seconds}");
    }
    for field in ["requestTimeoutSeconds", "idleTimeoutSeconds", "pausedTimeoutSeconds"] {
        for seconds in ["-1", "9223372036854775808", "1e300"] {
            let body = format!(
                "{{\"workingDirectory\":\"/tmp\",\"objective\":\"x\",\"budgetCapUsd\":\"1\",\"{field}\":{seconds}}}"
            );
            let body = serde_json::from_str(&body).unwrap();
            let reply = fixture.send(Ok("ada"), &Method::POST, "/api/agents/sessions", Some(body)).await;
            assert_eq!(reply.status, 422, "{field} {seconds}: {:#}", reply.body);
            assert_eq!(reply.body["violations"][0]["field"], *field, "{seconds}");
        }
    }
}

#[tokio::test]
async fn foreign_and_unknown_ids_cost_the_same_reads() {
    const NOBODYS: &str = "01900000-0000-7000-8000-00000000ffff";
    let fixture = ApiFixture::new().await;
    let (session, _) =
        create_session_with_run(&fixture.app, new_session(&UserId::parse("ada").unwrap(), "10")).await;
    let session = session.to_string();
    let make = async |path: &str, body: Value| {
        let made = fixture.send(Ok("ada"), &Method::POST, path, Some(body)).await;
        assert_eq!(made.status, 201, "{:#}", made.body);
        made.body["id"].as_str().or(made.body["webhook"]["id"].as_str()).unwrap().to_owned()
    };
    let skill = make("/api/agents/skills", json!({ "name": "Testing", "description": "How" })).await;
    let template = json!({
        "name": "Triage", "modelId": "small", "allowedTools": ["Read"], "defaultBudgetCapUsd": "2",
    });
    let template = make("/api/agents/templates", template).await;
    let webhook = make("/api/webhooks", json!({ "url": "https://example.com/" })).await;

    let mut asked = 0;
    for function in HTTP_FUNCTIONS.iter().filter(|function| function.caller == CallerKind::Owner) {
        let Some(body) = body_of(function) else { continue };
        let id = match function.path {
            path if path.contains("/sessions/{id}") => &session,
            path if path.contains("/skills/{id}") => &skill,
            path if path.contains("/templates/{id}") => &template,
            path if path.contains("/webhooks/{id}") => &webhook,
            _ => continue,
        };
        let ask = async |id: &str| {
            let path = path_of(function, &[("{id}", id), ("{messageId}", NOBODYS), ("{skillId}", NOBODYS)])?;
            Some(fixture.counted("mallory", &function.verb.method(), &path, Some(body.clone())).await)
        };
        let (Some(theirs), Some(nobodys)) = (ask(id).await, ask(NOBODYS).await) else { continue };
        assert_eq!(theirs, nobodys, "{}", function.name);
        assert_eq!(theirs.0.status, 404, "{}: {:#}", function.name, theirs.0.body);
        asked += 1;
    }
    assert!(asked > 30, "{asked}");
}
