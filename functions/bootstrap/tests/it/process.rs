//! Runs the program with a fake Runtime API and a fake cloud.

use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};

use crate::bootstrap_fixture::fixture;
use crate::fake::{FakeResponse, Request, environment, serve};

/// A process that is killed when the test ends.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Runs the program as a function. Returns what it posts to the Runtime API, with the path.
fn run(
    function: &str,
    events: Vec<Value>,
    cloud: fn(&Request) -> FakeResponse,
) -> (Running, Receiver<(String, Value)>) {
    let (post, posted) = channel();
    let events = Arc::new(Mutex::new(events.into_iter()));
    let runtime_api = serve(move |request| {
        let path = request.head.split(' ').nth(1).unwrap_or_default().to_owned();
        if !path.ends_with("/next") {
            post.send((path, serde_json::from_str(&request.body).unwrap())).unwrap();
            return FakeResponse::json("202 Accepted", "{}");
        }
        let Some(event) = events.lock().unwrap().next() else { return FakeResponse::Never };
        let headers = "lambda-runtime-aws-request-id: request-1\r\nlambda-runtime-deadline-ms: 4102444800000\r\n\
                       lambda-runtime-invoked-function-arn: arn:aws:lambda:eu-central-1:1:function:f\r\n";
        FakeResponse::Now("200 OK", headers.to_owned(), event.to_string())
    });
    let child = Command::new(env!("CARGO_BIN_EXE_bootstrap"))
        .env_clear()
        .envs(environment(function, &runtime_api, &serve(cloud)))
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    (Running(child), posted)
}

fn next(posted: &Receiver<(String, Value)>) -> (String, Value) {
    posted.recv_timeout(Duration::from_secs(30)).unwrap()
}

fn nothing(_: &Request) -> FakeResponse {
    FakeResponse::json("200 OK", "{}")
}

#[test]
fn events_are_processed_in_turn_and_a_bad_one_is_harmless() {
    let mut good = fixture("http");
    good["rawPath"] = "/openapi.json".into();
    good["rawQueryString"] = "".into();
    let (_running, posted) = run("openapi", vec![json!({ "no": "event" }), good], nothing);
    let (path, refused) = next(&posted);
    assert_eq!(path, "/2018-06-01/runtime/invocation/request-1/error");
    assert_eq!(refused["errorType"], "Pilothouse.Event");
    let (path, answered) = next(&posted);
    assert_eq!(path, "/2018-06-01/runtime/invocation/request-1/response");
    assert_eq!(answered["statusCode"], 200);
    assert!(answered["body"].as_str().unwrap().contains("\"openapi\""));
}

#[test]
fn missing_table_is_reported_before_the_first_event() {
    let (mut running, posted) = run("sessions-get", Vec::new(), |_| {
        FakeResponse::json(
            "400 Bad Request",
            r#"{"__type":"com.amazonaws.dynamodb.v20120810#ResourceNotFoundException","message":"not found"}"#,
        )
    });
    let (path, refused) = next(&posted);
    assert_eq!(path, "/2018-06-01/runtime/init/error");
    assert_eq!(refused["errorType"], "Pilothouse.Table");
    assert!(refused["errorMessage"].as_str().unwrap().contains("no table `test`"), "{refused}");
    assert!(!running.0.wait().unwrap().success());
}

#[test]
fn expired_credentials_are_reported() {
    let (_running, posted) = run("sessions-get", Vec::new(), |_| {
        FakeResponse::json(
            "400 Bad Request",
            r#"{"__type":"com.amazon.coral.service#ExpiredTokenException","message":"The token has expired"}"#,
        )
    });
    let error_message = next(&posted).1["errorMessage"].to_string();
    assert!(
        error_message.contains("credentials") && error_message.contains("The token has expired"),
        "{error_message}"
    );
}

#[test]
fn invalid_secret_is_reported_without_its_value() {
    let (_running, posted) = run("intake", Vec::new(), |request| {
        let secret = request.head.contains("secretsmanager");
        FakeResponse::json("200 OK", if secret { r#"{"SecretString":"hush"}"# } else { "{}" })
    });
    let (_, refused) = next(&posted);
    assert_eq!(refused["errorType"], "Pilothouse.Secret");
    assert!(!refused["errorMessage"].as_str().unwrap().contains("hush"), "{refused}");
}
