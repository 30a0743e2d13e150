//! Gemini's `generateContent`.

use pilothouse_model_server::ModelServer;
use reqwest::RequestBuilder;
use serde_json::{Value, json};

use crate::support::{events, send, serve, steps};

fn generate(server: &ModelServer, method: &str, body: &Value) -> RequestBuilder {
    let url = format!("{}/v1beta/models/gemini-2.5-pro:{method}", server.base_url());
    reqwest::Client::new().post(url).header("x-goog-api-key", "test").json(body)
}

fn user(text: &str) -> Value {
    json!({ "role": "user", "parts": [{ "text": text }] })
}

#[tokio::test]
async fn call_is_sent_and_its_response_is_accepted() {
    let server = serve(steps(json!([
        { "text": "I look.", "tools": [{ "name": "shell", "input": { "command": "ls" } }] },
        { "text": "{{result}}" },
    ])))
    .await;
    let asked = json!({ "contents": [user("look")] });
    let (status, first) = send(generate(&server, "generateContent", &asked)).await;
    assert_eq!((status, &first["candidates"][0]["finishReason"]), (200, &json!("STOP")));
    let said = &first["candidates"][0]["content"];
    let call = &said["parts"][1]["functionCall"];
    assert_eq!((&call["name"], &call["args"]), (&json!("shell"), &json!({ "command": "ls" })));

    let unanswered = json!({ "contents": [user("look"), said] });
    assert_eq!(send(generate(&server, "generateContent", &unanswered)).await.0, 400);
    let response = json!({ "functionResponse": { "id": call["id"], "name": "shell", "response": { "output": "a.py" } } });
    let answered = json!({ "contents": [user("look"), said, { "role": "user", "parts": [response] }] });
    let (status, second) = send(generate(&server, "generateContent", &answered)).await;
    assert_eq!(
        (status, &second["candidates"][0]["content"]["parts"][0]["text"]),
        (200, &json!("a.py")),
        "{second}"
    );
}

#[tokio::test]
async fn stream_adds_up_to_the_script() {
    let server = serve(steps(json!([{
        "text": "I look around first.", "chunk": 4, "tools": [{ "name": "shell", "input": { "command": "ls" } }],
        "usage": { "input": 90, "output": 11, "cacheRead": 10 },
    }])))
    .await;
    let events =
        events(generate(&server, "streamGenerateContent?alt=sse", &json!({ "contents": [user("look")] })))
            .await;
    let parts: Vec<_> =
        events.iter().map(|(_, data)| &data["candidates"][0]["content"]["parts"][0]).collect();
    let text: String = parts.iter().filter_map(|part| part["text"].as_str()).collect();
    assert_eq!(text, "I look around first.");
    assert_eq!(parts.iter().filter(|part| part["functionCall"]["name"] == "shell").count(), 1);
    let (_, last) = events.last().unwrap();
    assert_eq!(last["candidates"][0]["finishReason"], "STOP");
    assert_eq!(last["usageMetadata"]["totalTokenCount"], 111);
}

#[tokio::test]
async fn a_request_without_a_key_is_refused() {
    let server = serve(steps(json!([{ "text": "never" }]))).await;
    let url = format!("{}/v1beta/models/m:generateContent", server.base_url());
    let (status, body) =
        send(reqwest::Client::new().post(url).json(&json!({ "contents": [user("hi")] }))).await;
    assert_eq!((status, &body["error"]["status"]), (401, &json!("UNAUTHENTICATED")));
}
