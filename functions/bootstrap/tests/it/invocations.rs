use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, channel};

use lambda_runtime::{Context, Diagnostic, LambdaEvent};
use pilothouse_bootstrap::Failure;
use pilothouse_bootstrap::invocation::Invocations;
use pilothouse_bootstrap::observe::{Sink, subscriber};
use serde_json::Value;
use serde_json::value::RawValue;
use tracing::subscriber::{DefaultGuard, set_default};

use crate::bootstrap_fixture::{BootstrapFixture, fixture};

fn event(payload: &Value) -> LambdaEvent<Box<RawValue>> {
    let mut context = Context::default();
    "request-1".clone_into(&mut context.request_id);
    context.xray_trace_id = Some("Root=1-5e6722a7-cc56xmpl46db7ae02d4da47e".to_owned());
    LambdaEvent::new(RawValue::from_string(payload.to_string()).unwrap(), context)
}

fn listen() -> (Receiver<String>, DefaultGuard) {
    let (sender, lines) = channel();
    (lines, set_default(subscriber(Sink::Test(sender), None)))
}

fn read(lines: &Receiver<String>) -> Vec<Value> {
    lines.try_iter().map(|line| serde_json::from_str(&line).unwrap()).collect()
}

#[tokio::test]
async fn panic_fails_its_invocation_but_not_the_environment() {
    let host = BootstrapFixture::new().await;
    let (lines, _guard) = listen();
    let invocations = Invocations::new(host.function("pool-get"));
    let mut request = fixture("http");
    request["rawPath"] = "/api/agents/pool".into();
    request["rawQueryString"] = "".into();
    // The function `clock` reads the clock first.
    let clock = Invocations::new(host.function("clock"));
    host.broken_clock.store(true, Ordering::SeqCst);
    let failed = clock.run(event(&fixture("schedule"))).await.unwrap_err();
    assert!(matches!(&failed, Failure::Panic(said) if said == "the clock is broken"), "{failed}");
    let diagnostic = Diagnostic::from(failed);
    assert_eq!(diagnostic.error_type, "Pilothouse.Panic");
    assert_eq!(diagnostic.error_message, "the function panicked: the clock is broken");
    clock.run(event(&fixture("schedule"))).await.unwrap();
    invocations.run(event(&request)).await.unwrap();
    let lines = read(&lines);
    assert!(lines.iter().any(|line| line["Failures"] == 1.0 && line["function"] == "clock"), "{lines:?}");
}

#[tokio::test]
async fn every_invocation_logs_a_line_with_its_identity() {
    let host = BootstrapFixture::new().await;
    let (lines, _guard) = listen();
    let invocations = Invocations::new(host.function("sessions-list"));
    let request = fixture("http");
    for _ in 0..2 {
        invocations.run(event(&request)).await.unwrap();
    }
    let lines = read(&lines);
    let done: Vec<_> = lines.iter().filter(|line| line["message"] == "done").collect();
    assert_eq!(done.len(), 2, "{lines:?}");
    assert_eq!(done[0]["function"], "sessions-list");
    assert_eq!(done[0]["requestId"], "request-1");
    assert_eq!(done[0]["traceId"], "Root=1-5e6722a7-cc56xmpl46db7ae02d4da47e");
    assert_eq!(done[0]["owner"], "ada");
    assert_eq!(done[0]["status"], 200);
    assert_eq!((&done[0]["coldStart"], &done[1]["coldStart"]), (&true.into(), &false.into()));
    let metrics: Vec<_> = lines.iter().filter(|line| line["_aws"].is_object()).collect();
    assert_eq!(metrics.len(), 1, "only the cold start counts: {metrics:?}");
    assert_eq!(metrics[0]["ColdStarts"], 1.0);
}

#[tokio::test]
async fn unknown_event_has_a_named_error() {
    let host = BootstrapFixture::new().await;
    let (lines, _guard) = listen();
    let invocations = Invocations::new(host.any());
    let failed = invocations.run(event(&serde_json::json!({ "key": "value" }))).await.unwrap_err();
    assert_eq!(Diagnostic::from(failed).error_type, "Pilothouse.UnknownEvent");
    assert!(read(&lines).iter().any(|line| line["kind"] == "Pilothouse.UnknownEvent"));
}
