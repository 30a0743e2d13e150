//! Requests to a control plane on loopback.

use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, Uri};
use tokio::net::TcpListener;
use uuid::Uuid;

use super::*;
use crate::spool::tests::launch;

#[derive(Default)]
struct ControlPlane {
    /// Path, key and body.
    asked: Vec<(String, String, Value)>,
    /// Status and body of the next responses. Afterwards, all calls are allowed.
    responses: Vec<(u16, Value)>,
}

type Shared = Arc<Mutex<ControlPlane>>;

async fn respond(
    State(shared): State<Shared>,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> (StatusCode, String) {
    let mut plane = shared.lock().unwrap();
    let key = headers["authorization"].to_str().unwrap().to_owned();
    plane.asked.push((uri.path().to_owned(), key, serde_json::from_slice(&body).unwrap()));
    let allow = (200, json!({ "verdict": "allow", "verdictId": Uuid::nil() }));
    let (status, body) = if plane.responses.is_empty() { allow } else { plane.responses.remove(0) };
    (StatusCode::from_u16(status).unwrap(), body.to_string())
}

fn serve(listener: TcpListener, shared: Shared) {
    let router = Router::new().fallback(respond).with_state(shared);
    let router = router.layer(axum::extract::DefaultBodyLimit::disable());
    tokio::spawn(async move { axum::serve(listener, router).await });
}

fn authorizer(listener: &TcpListener) -> Authorizer {
    let mut launch = launch();
    launch.agent_api.url = format!("http://{}", listener.local_addr().unwrap());
    Authorizer::new(AgentApi::for_run(&launch).unwrap(), "/home/agent".into())
}

async fn given(responses: impl IntoIterator<Item = (u16, Value)>) -> (Authorizer, Shared) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let authorizer = authorizer(&listener);
    let shared = Shared::default();
    shared.lock().unwrap().responses.extend(responses);
    serve(listener, Arc::clone(&shared));
    (authorizer, shared)
}

fn call(arguments: Value) -> ProposedCall {
    ProposedCall { id: ToolCallId::parse("c1").unwrap(), tool: "Bash".into(), kind: None, arguments }
}

fn bodies(shared: &Shared) -> Vec<Value> {
    shared.lock().unwrap().asked.iter().map(|(_, _, body)| body.clone()).collect()
}

fn verdict(verdict: &str, changed: &[&str]) -> (u16, Value) {
    (
        200,
        json!({ "verdict": verdict, "verdictId": Uuid::from_u128(7), "changedBuildFiles": changed, "message": "No." }),
    )
}

#[tokio::test]
async fn request_names_the_call_with_the_token_of_the_run() {
    let (authorizer, shared) = given([]).await;
    let mut call = call(json!({ "command": "ls" }));
    call.kind = Some("execute".into());
    assert_eq!(authorizer.authorize(&call).await, Authorization::Allow);
    let asked = shared.lock().unwrap().asked.remove(0);
    let session = launch().request.session_id;
    assert_eq!(asked.0, format!("/api/agent/sessions/{session}/authorize"));
    assert_eq!(asked.1, format!("Bearer {}", launch().broker.token().as_str()));
    let body = json!({ "toolCallId": "c1", "tool": "Bash", "kind": "execute", "arguments": { "command": "ls" },
        "home": "/home/agent", "changedBuildFiles": [] });
    assert_eq!(asked.2, body);
}

#[tokio::test]
async fn changed_build_files_of_allowed_calls_are_sent() {
    let responses =
        [verdict("deny", &["denied"]), verdict("ask", &["asked"]), verdict("allow", &["allowed"])];
    let (authorizer, shared) = given(responses).await;
    let call = call(json!({}));
    assert_eq!(authorizer.authorize(&call).await, Authorization::Deny("No.".into()));
    let Authorization::Ask(ask) = authorizer.authorize(&call).await else { panic!("the owner decides") };
    assert_eq!(ask.id(), VerdictId::new(Uuid::from_u128(7)));
    assert_eq!(authorizer.authorize(&call).await, Authorization::Allow);
    authorizer.authorize(&call).await;
    assert_eq!(bodies(&shared)[3]["changedBuildFiles"], json!(["allowed"]), "the owner has not decided");
    ask.allowed();
    authorizer.authorize(&call).await;
    assert_eq!(bodies(&shared)[4]["changedBuildFiles"], json!(["allowed", "asked"]));
}

#[tokio::test]
async fn arguments_above_the_limit_are_not_sent() {
    let (authorizer, shared) = given([]).await;
    authorizer.authorize(&call(json!({ "content": "x".repeat(MAX_JUDGED_ARGUMENTS - 100) }))).await;
    authorizer.authorize(&call(json!({ "content": "x".repeat(MAX_JUDGED_ARGUMENTS) }))).await;
    let bodies = bodies(&shared);
    assert_eq!(bodies[0]["arguments"]["content"].as_str().unwrap().len(), MAX_JUDGED_ARGUMENTS - 100);
    assert_eq!(bodies[1]["arguments"], json!({ "tooLarge": true }));
}

#[tokio::test]
async fn braked_call_is_asked_again_until_it_is_allowed() {
    let braked = (409, json!({ "code": "braked" }));
    let (authorizer, shared) = given([braked, (503, Value::Null), (200, Value::Null)]).await;
    assert_eq!(authorizer.authorize(&call(json!({}))).await, Authorization::Allow);
    assert_eq!(bodies(&shared).len(), 4);
}

#[tokio::test]
async fn unreachable_control_plane_allows_nothing_until_it_is_back() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let authorizer = authorizer(&listener);
    let address = listener.local_addr().unwrap();
    drop(listener);
    let asking = tokio::spawn(async move { authorizer.authorize(&call(json!({}))).await });
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert!(!asking.is_finished());
    serve(TcpListener::bind(address).await.unwrap(), Shared::default());
    assert_eq!(asking.await.unwrap(), Authorization::Allow);
}
