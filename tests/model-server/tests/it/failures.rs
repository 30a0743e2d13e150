//! Failures, and the recovery from them.

use pilothouse_model_server::Outcome::{self, Failed, Sent};
use serde_json::{Value, json};

use crate::support::{asked, messages, openai, parse, read, says, send, serve, soon, steps};

#[tokio::test]
async fn failures_precede_the_reply_in_order() {
    let failures = json!([
        { "kind": "rateLimited", "retryAfter": 7 }, { "kind": "rateLimited", "retryAfterDate": 60 },
        { "kind": "overloaded" }, { "kind": "serverError" }, { "kind": "unauthorized" },
        { "kind": "overflow" }, { "kind": "quotaExceeded", "resetsIn": 3600 },
        { "kind": "status", "status": 418, "headers": { "x-tea": "yes" } },
    ]);
    let server = serve(steps(json!([{ "text": "At last.", "fail": failures }]))).await;
    let mut statuses = Vec::new();
    let mut bodies: Vec<Value> = Vec::new();
    let mut headers = Vec::new();
    for _ in 0..9 {
        let response = soon(messages(&server, &asked(says("go"))).send()).await.unwrap();
        statuses.push(response.status().as_u16());
        headers.push(response.headers().clone());
        bodies.push(soon(response.json()).await.unwrap());
    }
    assert_eq!(statuses, [429, 429, 529, 500, 401, 400, 429, 418, 200]);
    assert_eq!(headers[0]["retry-after"], "7");
    assert!(headers[1]["retry-after"].to_str().unwrap().ends_with(" GMT"), "{:?}", headers[1]);
    assert_eq!(bodies[2]["error"]["type"], "overloaded_error");
    assert!(bodies[5]["error"]["message"].as_str().unwrap().starts_with("prompt is too long: "));
    assert_eq!(headers[6]["anthropic-ratelimit-unified-status"], "rejected");
    assert!(
        headers[6]["anthropic-ratelimit-unified-reset"].to_str().unwrap().parse::<i64>().unwrap()
            > 1_700_000_000
    );
    assert_eq!(headers[7]["x-tea"], "yes");
    assert_eq!(bodies[8]["content"][0]["text"], "At last.");
    assert!(server.prompts().iter().all(|prompt| prompt.step == Some(0) && !prompt.is_refused()));
}

#[tokio::test]
async fn openai_fails_with_its_own_error_format() {
    let failures = json!([
        { "kind": "overloaded" }, { "kind": "overflow" }, { "kind": "quotaExceeded" },
        { "kind": "quotaExceeded", "resetsIn": 60 }, { "kind": "rateLimited" },
    ]);
    let server = serve(steps(json!([{ "text": "At last.", "fail": failures }]))).await;
    let body = json!({ "model": "m", "messages": says("go") });
    let mut errors = Vec::new();
    for _ in 0..6 {
        let (status, reply) = send(openai(&server, "chat/completions", &body)).await;
        errors.push((status, reply["error"].clone()));
    }
    assert_eq!(errors[0].0, 503);
    assert_eq!((errors[1].0, &errors[1].1["code"]), (400, &json!("context_length_exceeded")));
    assert!(errors[1].1["message"].as_str().unwrap().contains("maximum context length"));
    assert_eq!((errors[2].0, &errors[2].1["code"]), (429, &json!("insufficient_quota")));
    assert_eq!((errors[3].0, &errors[3].1["resets_in_seconds"]), (429, &json!(60)));
    assert_eq!((errors[4].0, &errors[4].1["code"]), (429, &json!("rate_limit_exceeded")));
    assert_eq!(errors[5].0, 200);
}

#[tokio::test]
async fn streams_break_in_several_ways() {
    let failures = json!([
        { "kind": "cut", "pieces": 2 }, { "kind": "cut", "pieces": 1, "midEvent": true },
        { "kind": "short", "pieces": 2 }, { "kind": "errorEvent", "pieces": 1 },
    ]);
    let server = serve(steps(json!([{ "text": "one two three four", "chunk": 4, "fail": failures }]))).await;
    let mut body = asked(says("go"));
    body["stream"] = json!(true);
    let mut streams = Vec::new();
    for _ in 0..5 {
        let response = soon(messages(&server, &body).send()).await.unwrap();
        assert_eq!(response.status(), 200);
        streams.push(read(response).await);
    }
    let said = |text: &str| -> String {
        parse(text).iter().filter_map(|(_, data)| data["delta"]["text"].as_str().map(str::to_owned)).collect()
    };
    assert_eq!((said(&streams[0].0).as_str(), streams[0].1), ("one two ", false), "cut between two events");
    assert!(!streams[1].1 && !streams[1].0.ends_with("\n\n"), "cut in an event: {:?}", streams[1]);
    assert_eq!((said(&streams[2].0).as_str(), streams[2].1), ("one two ", true), "ends too early");
    assert!(!streams[2].0.contains("message_stop"));
    assert_eq!(parse(&streams[3].0).last().unwrap().0, "error");
    assert!(streams[4].1 && streams[4].0.contains("message_stop"));
    assert_eq!(said(&streams[4].0), "one two three four");
    let outcomes: Vec<_> = server.prompts().iter().map(|prompt| prompt.outcome).collect();
    assert_eq!(outcomes, [Failed, Failed, Sent, Sent, Sent]);
}

#[tokio::test]
async fn server_hangs_until_the_client_disconnects() {
    let server = serve(steps(json!([{ "text": "At last.", "fail": [{ "kind": "hang" }] }]))).await;
    let request = messages(&server, &asked(says("go")));
    let hanging = tokio::spawn(async move { request.send().await });
    soon(server.wait_for(1)).await;
    hanging.abort();
    soon(server.wait_until(|all| all[0].outcome == Outcome::Gone)).await;
    assert_eq!(send(messages(&server, &asked(says("go")))).await.0, 200);
}

#[tokio::test]
async fn a_large_conversation_overflows_a_small_window() {
    let script = json!({ "contextWindow": 1000, "conversations": [{ "steps": [{ "text": "Yes." }] }] });
    let server = serve(script).await;
    let (status, body) = send(messages(&server, &asked(says(&"x".repeat(8000))))).await;
    assert_eq!(status, 400);
    let message = body["error"]["message"].as_str().unwrap();
    assert!(message.starts_with("prompt is too long") && message.ends_with("> 1000 maximum"), "{message}");
    assert_eq!(send(messages(&server, &asked(says("short")))).await.0, 200);
}

#[tokio::test]
async fn garbage_is_no_json() {
    let server = serve(steps(json!([{ "text": "Yes.", "fail": [{ "kind": "garbage" }] }]))).await;
    let response = soon(messages(&server, &asked(says("go"))).send()).await.unwrap();
    assert_eq!(response.status(), 200);
    assert!(soon(response.json::<Value>()).await.is_err());
}
