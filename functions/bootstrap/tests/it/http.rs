use serde_json::{Value, json};

use crate::bootstrap_fixture::{BootstrapFixture, fixture, invoke};

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

fn body(response: &Value) -> Value {
    serde_json::from_str(response["body"].as_str().unwrap()).unwrap()
}

const START: &str = r#"{"objective":"Do it","workingDirectory":"/w","budgetCapUsd":"1"}"#;

async fn started(host: &BootstrapFixture) -> Value {
    let response =
        invoke(&host.function("sessions-start"), &request("POST", "/api/agents/sessions", Some(START))).await;
    assert_eq!(response["statusCode"], 201, "{response}");
    body(&response)["session"].clone()
}

#[tokio::test]
async fn function_trusts_the_identity_from_the_authorizer() {
    let host = BootstrapFixture::new().await;
    let list = host.function("sessions-list");
    let response = invoke(&list, &fixture("http")).await;
    assert_eq!(response["statusCode"], 200, "{response}");
    assert_eq!(response["isBase64Encoded"], false);
    assert_eq!(response["headers"]["content-type"], "application/json");
    assert_eq!(body(&response)["items"], json!([]));
}

#[tokio::test]
async fn request_without_authorizer_identity_is_refused() {
    let host = BootstrapFixture::new().await;
    let mut event = fixture("http");
    event["requestContext"].as_object_mut().unwrap().remove("authorizer");
    let response = invoke(&host.function("sessions-list"), &event).await;
    assert_eq!(response["statusCode"], 401);
    assert_eq!(response["headers"]["www-authenticate"], "Bearer");
    assert_eq!(body(&response)["code"], "unauthenticated");
}

#[tokio::test]
async fn token_that_is_not_yet_valid_is_refused() {
    let host = BootstrapFixture::new().await;
    let list = host.function("sessions-list");
    let with = |nbf: Value| {
        let mut event = fixture("http");
        event["requestContext"]["authorizer"]["jwt"]["claims"]["nbf"] = nbf;
        event
    };
    for nbf in [json!("4102444800"), json!(4_102_444_800_u64), json!("4.1024448e9"), json!("soon"), json!([])]
    {
        let response = invoke(&list, &with(nbf.clone())).await;
        assert_eq!(
            (&response["statusCode"], &body(&response)["code"]),
            (&json!(401), &json!("unauthenticated")),
            "{nbf}"
        );
    }
    for nbf in [json!("1764000000"), json!(1_764_000_000), Value::Null] {
        assert_eq!(invoke(&list, &with(nbf.clone())).await["statusCode"], 200, "{nbf}");
    }
}

#[tokio::test]
async fn command_commits_and_is_hidden_from_other_owners() {
    let host = BootstrapFixture::new().await;
    let session = started(&host).await;
    let path = format!("/api/agents/sessions/{}", session["id"].as_str().unwrap());
    let get = host.function("sessions-get");
    let mine = invoke(&get, &request("GET", &path, None)).await;
    assert_eq!((&mine["statusCode"], &body(&mine)["ownerId"]), (&json!(200), &json!("ada")), "{mine}");
    assert!(mine["headers"]["etag"].is_string());
    let mut other = request("GET", &path, None);
    other["requestContext"]["authorizer"]["jwt"]["claims"]["sub"] = "eve".into();
    assert_eq!(invoke(&get, &other).await["statusCode"], 404);
}

#[tokio::test]
async fn base64_body_and_stage_prefix_are_accepted() {
    use base64::Engine as _;
    let host = BootstrapFixture::new().await;
    let start = host.function("sessions-start");
    let mut event = request("POST", "/live/api/agents/sessions", None);
    event["requestContext"]["stage"] = "live".into();
    event["headers"]["content-type"] = "application/json".into();
    event["body"] = base64::engine::general_purpose::STANDARD.encode(START).into();
    event["isBase64Encoded"] = true.into();
    assert_eq!(invoke(&start, &event).await["statusCode"], 201);
    event["body"] = "?".into();
    assert_eq!(invoke(&start, &event).await["statusCode"], 422);
}

#[tokio::test]
async fn unknown_path_is_not_found_and_odd_characters_are_harmless() {
    let host = BootstrapFixture::new().await;
    let get = host.function("sessions-get");
    for path in ["/api/agents/sessions/%", "/api/agents/sessions/a b?c#d", "/api/agents/sessions/é", "/other"]
    {
        let response = invoke(&get, &request("GET", path, None)).await;
        assert_eq!(response["statusCode"], 404, "{path}: {response}");
    }
    assert_eq!(invoke(&get, &request("DELETE", "/api/agents/sessions/x", None)).await["statusCode"], 405);
}

#[tokio::test]
async fn unknown_parameters_are_refused() {
    let host = BootstrapFixture::new().await;
    let mut event = fixture("http");
    event["rawQueryString"] = "limt=2".into();
    assert_eq!(invoke(&host.function("sessions-list"), &event).await["statusCode"], 422);
}

#[tokio::test]
async fn path_selects_the_function_when_no_name_is_set() {
    let host = BootstrapFixture::new().await;
    let any = host.any();
    assert_eq!(invoke(&any, &fixture("http")).await["statusCode"], 200);
    assert_eq!(invoke(&any, &request("GET", "/openapi.json", None)).await["statusCode"], 200);
    let embedded_only = request("POST", "/internal/gateway/events", Some("{}"));
    assert_eq!(invoke(&any, &embedded_only).await["statusCode"], 404);
}

#[tokio::test]
async fn binary_response_is_base64_encoded() {
    use base64::Engine as _;
    use pilothouse_store::blob::BlobKey;
    let host = BootstrapFixture::new().await;
    let session = started(&host).await;
    let id = session["id"].as_str().unwrap();
    let key = BlobKey::of(&format!("sessions/{id}"), b"\xff\x00").unwrap();
    host.app.blobs.put(&key, (&b"\xff\x00"[..]).into()).await.unwrap();
    let path = format!("/api/agents/sessions/{id}/blobs/{}", key.digest());
    let response = invoke(&host.function("records-blob"), &request("GET", &path, None)).await;
    assert_eq!(
        (&response["statusCode"], &response["isBase64Encoded"]),
        (&json!(200), &json!(true)),
        "{response}"
    );
    let bytes = base64::engine::general_purpose::STANDARD.decode(response["body"].as_str().unwrap()).unwrap();
    assert_eq!(bytes, b"\xff\x00");
}
