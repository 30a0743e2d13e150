//! HTTP APIs: the event as a request, and the answer.

use serde_json::{Value, json};

use crate::ground::{Stage, answer, fixture};

fn request(method: &str, path: &str, body: Option<&str>) -> Value {
    let mut event = fixture("http");
    event["rawPath"] = path.into();
    event["rawQueryString"] = "".into();
    event["requestContext"]["http"]["method"] = method.into();
    if let Some(body) = body {
        event["headers"]["content-type"] = "application/json".into();
        event["body"] = body.into();
    }
    event
}

fn body(answer: &Value) -> Value {
    serde_json::from_str(answer["body"].as_str().unwrap()).unwrap()
}

const START: &str = r#"{"objective":"Do it","workingDirectory":"/w","budgetCapUsd":"1"}"#;

async fn started(stage: &Stage) -> Value {
    let answer =
        answer(&stage.function("sessions-start"), &request("POST", "/api/agents/sessions", Some(START)))
            .await;
    assert_eq!(answer["statusCode"], 201, "{answer}");
    body(&answer)["session"].clone()
}

#[tokio::test]
async fn a_function_answers_whom_the_authorizer_of_the_api_has_verified() {
    let stage = Stage::new().await;
    let list = stage.function("sessions-list");
    let answered = answer(&list, &fixture("http")).await;
    assert_eq!(answered["statusCode"], 200, "{answered}");
    assert_eq!(answered["isBase64Encoded"], false);
    assert_eq!(answered["headers"]["content-type"], "application/json");
    assert_eq!(body(&answered)["items"], json!([]));
}

#[tokio::test]
async fn a_request_that_nobody_verified_is_refused_whatever_token_it_brings() {
    let stage = Stage::new().await;
    let mut event = fixture("http");
    event["requestContext"].as_object_mut().unwrap().remove("authorizer");
    let answered = answer(&stage.function("sessions-list"), &event).await;
    assert_eq!(answered["statusCode"], 401);
    assert_eq!(answered["headers"]["www-authenticate"], "Bearer");
    assert_eq!(body(&answered)["code"], "unauthenticated");
}

#[tokio::test]
async fn a_command_commits_and_another_owner_does_not_see_it() {
    let stage = Stage::new().await;
    let session = started(&stage).await;
    let path = format!("/api/agents/sessions/{}", session["id"].as_str().unwrap());
    let get = stage.function("sessions-get");
    let mine = answer(&get, &request("GET", &path, None)).await;
    assert_eq!((&mine["statusCode"], &body(&mine)["ownerId"]), (&json!(200), &json!("ada")), "{mine}");
    assert!(mine["headers"]["etag"].is_string());
    let mut other = request("GET", &path, None);
    other["requestContext"]["authorizer"]["jwt"]["claims"]["sub"] = "eve".into();
    assert_eq!(answer(&get, &other).await["statusCode"], 404);
}

#[tokio::test]
async fn a_body_may_be_base64_and_a_path_may_begin_with_its_stage() {
    use base64::Engine as _;
    let stage = Stage::new().await;
    let start = stage.function("sessions-start");
    let mut event = request("POST", "/live/api/agents/sessions", None);
    event["requestContext"]["stage"] = "live".into();
    event["headers"]["content-type"] = "application/json".into();
    event["body"] = base64::engine::general_purpose::STANDARD.encode(START).into();
    event["isBase64Encoded"] = true.into();
    assert_eq!(answer(&start, &event).await["statusCode"], 201);
    event["body"] = "?".into();
    assert_eq!(answer(&start, &event).await["statusCode"], 422);
}

#[tokio::test]
async fn what_is_no_path_of_the_function_is_not_found_and_odd_letters_do_no_harm() {
    let stage = Stage::new().await;
    let get = stage.function("sessions-get");
    for path in ["/api/agents/sessions/%", "/api/agents/sessions/a b?c#d", "/api/agents/sessions/é", "/other"]
    {
        let answered = answer(&get, &request("GET", path, None)).await;
        assert_eq!(answered["statusCode"], 404, "{path}: {answered}");
    }
    assert_eq!(answer(&get, &request("DELETE", "/api/agents/sessions/x", None)).await["statusCode"], 405);
}

#[tokio::test]
async fn parameters_that_a_function_does_not_know_are_refused_as_on_the_embedded_server() {
    let stage = Stage::new().await;
    let mut event = fixture("http");
    event["rawQueryString"] = "limt=2".into();
    assert_eq!(answer(&stage.function("sessions-list"), &event).await["statusCode"], 422);
}

#[tokio::test]
async fn without_a_name_the_path_says_which_function_it_is() {
    let stage = Stage::new().await;
    let any = stage.any();
    assert_eq!(answer(&any, &fixture("http")).await["statusCode"], 200);
    assert_eq!(answer(&any, &request("GET", "/openapi.json", None)).await["statusCode"], 200);
    let embedded_only = request("POST", "/internal/gateway/events", Some("{}"));
    assert_eq!(answer(&any, &embedded_only).await["statusCode"], 404);
}

#[tokio::test]
async fn bytes_that_are_no_text_are_answered_in_base64() {
    use base64::Engine as _;
    use pilothouse_store::blob::BlobKey;
    let stage = Stage::new().await;
    let session = started(&stage).await;
    let id = session["id"].as_str().unwrap();
    let key = BlobKey::of(&format!("sessions/{id}"), b"\xff\x00").unwrap();
    stage.app.blobs.put(&key, (&b"\xff\x00"[..]).into()).await.unwrap();
    let path = format!("/api/agents/sessions/{id}/blobs/{}", key.digest());
    let answered = answer(&stage.function("records-blob"), &request("GET", &path, None)).await;
    assert_eq!(
        (&answered["statusCode"], &answered["isBase64Encoded"]),
        (&json!(200), &json!(true)),
        "{answered}"
    );
    let bytes = base64::engine::general_purpose::STANDARD.decode(answered["body"].as_str().unwrap()).unwrap();
    assert_eq!(bytes, b"\xff\x00");
}
