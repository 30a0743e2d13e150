//! Requests that violate a protocol get the provider's error, and use no step.

use serde_json::{Value, json};

use crate::support::{asked, messages, openai, says, send, serve, steps};

fn call(id: &str) -> Value {
    json!({ "type": "tool_use", "id": id, "name": "bash", "input": {} })
}

fn result(id: &str) -> Value {
    json!({ "type": "tool_result", "tool_use_id": id, "content": "done" })
}

#[tokio::test]
async fn anthropic_refuses_unpaired_calls() {
    let server = serve(steps(json!([{ "text": "Yes.", "repeat": true }]))).await;
    let user = |content: Value| json!({ "role": "user", "content": content });
    let assistant = |content: Value| json!({ "role": "assistant", "content": content });
    let cases = [
        (
            json!([user(json!("a")), assistant(json!([call("t1")])), user(json!("b"))]),
            "without `tool_result` blocks",
        ),
        (
            json!([
                user(json!("a")),
                assistant(json!([call("t1"), call("t2")])),
                user(json!([result("t1")]))
            ]),
            "immediately after: t2",
        ),
        (
            // Text before the results separates them from their calls.
            json!([
                user(json!("a")),
                assistant(json!([call("t1")])),
                user(json!([{ "type": "text", "text": "b" }, result("t1")]))
            ]),
            "without `tool_result` blocks",
        ),
        (json!([user(json!([result("t1")]))]), "unexpected `tool_use_id` found"),
        (
            json!([
                user(json!("a")),
                assistant(json!([call("t1")])),
                user(json!([result("t1"), result("t1")]))
            ]),
            "single result",
        ),
        (
            json!([
                user(json!("a")),
                assistant(json!([call("t1")])),
                user(json!([result("t1")])),
                assistant(json!([call("t1")])),
                user(json!([result("t1")]))
            ]),
            "must be unique",
        ),
        (json!([user(json!(""))]), "must be non-empty"),
        (json!([user(json!([]))]), "non-empty content"),
        (json!([]), "at least one message"),
        (json!([{ "role": "tool", "content": "a" }]), "Unexpected role"),
        (json!([{ "role": "system", "content": "a" }]), "Unexpected role"),
        (json!([assistant(json!("a"))]), "first message must use"),
        (json!([user(json!("a")), assistant(json!("b"))]), "must end with a user message"),
        (
            json!([
                user(json!("a")),
                assistant(json!([{ "type": "thinking", "thinking": "x", "signature": "forged" }])),
                user(json!("b"))
            ]),
            "Invalid `signature`",
        ),
        (json!([user(json!([{ "type": "video" }]))]), "is not expected"),
    ];
    for (conversation, words) in cases {
        let (status, body) = send(messages(&server, &asked(conversation.clone()))).await;
        assert_eq!(
            (status, &body["error"]["type"]),
            (400, &json!("invalid_request_error")),
            "{conversation}"
        );
        let message = body["error"]["message"].as_str().unwrap();
        assert!(message.contains(words), "{conversation}: {message}");
    }
    assert!(server.prompts().iter().all(|prompt| prompt.is_refused() && prompt.step.is_none()));
}

#[tokio::test]
async fn anthropic_accepts_split_results_and_a_system_message() {
    let server = serve(steps(json!([{ "text": "Yes." }]))).await;
    let conversation = json!([
        { "role": "user", "content": "a" },
        { "role": "assistant", "content": [call("t1"), call("t2")] },
        { "role": "user", "content": [result("t2")] },
        { "role": "system", "content": "Be quick." },
        { "role": "user", "content": [result("t1"), { "type": "text", "text": "b" }] },
    ]);
    let request = messages(&server, &asked(conversation))
        .header("anthropic-beta", "mid-conversation-system-2026-04-07");
    let (status, body) = send(request).await;
    assert_eq!(status, 200, "{body}");
}

#[tokio::test]
async fn anthropic_requires_its_thoughts_back() {
    let server = serve(steps(json!([
        { "thinking": "Hm.", "tools": [{ "name": "bash", "input": {} }] },
        { "text": "Yes." },
    ])))
    .await;
    let ask = |conversation: Value| {
        let mut body = asked(conversation);
        body["thinking"] = json!({ "type": "enabled", "budget_tokens": 1024 });
        messages(&server, &body)
    };
    let (_, first) = send(ask(says("look"))).await;
    let [thought, used] = [0, 1].map(|index| first["content"][index].clone());
    assert_eq!(thought["type"], "thinking");
    let with = |content: Value| {
        json!([
            { "role": "user", "content": "look" },
            { "role": "assistant", "content": content },
            { "role": "user", "content": [result(used["id"].as_str().unwrap())] },
        ])
    };
    let (status, body) = send(ask(with(json!([used])))).await;
    assert_eq!(status, 400);
    assert!(body["error"]["message"].as_str().unwrap().contains("Expected `thinking`"));
    assert_eq!(send(ask(with(json!([thought, used])))).await.0, 200);
}

#[tokio::test]
async fn anthropic_checks_keys_limits_and_tools() {
    let server = serve(json!({ "key": "right", "conversations": [{ "steps": [{ "text": "Yes." }] }] })).await;
    let (status, body) = send(messages(&server, &asked(says("a")))).await;
    assert_eq!((status, &body["error"]["type"]), (401, &json!("authentication_error")));
    let mut faults = vec![];
    let mut fault = |change: fn(&mut Value), words: &'static str| {
        let mut body = asked(says("a"));
        change(&mut body);
        faults.push((body, words));
    };
    fault(|body| body["max_tokens"] = json!(0), "max_tokens");
    fault(|body| body["model"] = Value::Null, "model: Field required");
    fault(
        |body| body["thinking"] = json!({ "type": "enabled", "budget_tokens": 4096 }),
        "must be greater than",
    );
    fault(|body| body["thinking"] = json!({ "type": "enabled", "budget_tokens": 10 }), "1024");
    fault(|body| body["tools"] = json!([{ "name": "a b", "input_schema": { "type": "object" } }]), "pattern");
    fault(|body| body["tools"] = json!([{ "name": "a", "input_schema": {} }]), "input_schema");
    for (body, words) in faults {
        let url = format!("{}/v1/messages", server.base_url());
        let request =
            reqwest::Client::new().post(url).bearer_auth("right").header("anthropic-version", "2023-06-01");
        let (status, reply) = send(request.json(&body)).await;
        assert_eq!(status, 400, "{body}");
        assert!(reply["error"]["message"].as_str().unwrap().contains(words), "{reply}");
    }
}

#[tokio::test]
async fn chat_refuses_unpaired_calls() {
    let server = serve(steps(json!([{ "text": "Yes.", "repeat": true }]))).await;
    let user = json!({ "role": "user", "content": "a" });
    let call = json!({ "id": "c1", "type": "function", "function": { "name": "bash", "arguments": "{}" } });
    let calls = json!({ "role": "assistant", "content": null, "tool_calls": [call] });
    let done = json!({ "role": "tool", "tool_call_id": "c1", "content": "done" });
    let cases = [
        (json!([user, calls, user]), "did not have response messages: c1"),
        (json!([user, calls]), "did not have response messages: c1"),
        (json!([user, done]), "must be a response to a preceeding message"),
        (json!([user, calls, done, done]), "must be a response to a preceeding message"),
        (json!([]), "empty array"),
        (json!([{ "role": "user", "content": [] }]), "empty array"),
        (json!([{ "role": "user", "content": null }]), "got null"),
        (json!([{ "role": "assistant", "content": null }]), "got null"),
        (json!([{ "role": "robot", "content": "a" }]), "Invalid value: 'robot'"),
        (
            json!([user, { "role": "assistant", "tool_calls": [{ "id": "c", "function": { "name": "b", "arguments": {} } }] }]),
            "expected a string",
        ),
    ];
    for (conversation, words) in cases {
        let body = json!({ "model": "m", "messages": conversation });
        let (status, reply) = send(openai(&server, "chat/completions", &body)).await;
        assert_eq!(status, 400, "{body}");
        assert!(reply["error"]["message"].as_str().unwrap().contains(words), "{reply}");
    }
    let (status, _) = send(openai(
        &server,
        "chat/completions",
        &json!({ "model": "m", "messages": says("a"), "tools": [] }),
    ))
    .await;
    assert_eq!(status, 400);
    let fine = json!({ "model": "m", "messages": [user, calls, done] });
    assert_eq!(send(openai(&server, "chat/completions", &fine)).await.0, 200);
}

#[tokio::test]
async fn responses_refuses_unpaired_calls() {
    let server = serve(steps(json!([{ "text": "Yes.", "repeat": true }]))).await;
    let user = json!({ "role": "user", "content": "a" });
    let call = json!({ "type": "function_call", "call_id": "c1", "name": "bash", "arguments": "{}" });
    let done = json!({ "type": "function_call_output", "call_id": "c1", "output": "done" });
    let cases = [
        (json!([user, call]), "No tool output found for function call c1"),
        (json!([user, done]), "No tool call found"),
        (json!([user, done, call]), "No tool output found"),
        (json!([user, call, done, done]), "No tool call found"),
        (json!([]), "empty array"),
        (json!([{ "role": "robot", "content": "a" }]), "Invalid value: 'robot'"),
        (json!([{ "role": "user", "content": [{ "type": "output_text", "text": "a" }] }]), "Invalid value"),
        (json!([{ "type": "dance" }]), "Invalid value: 'dance'"),
    ];
    for (input, words) in cases {
        let (status, reply) =
            send(openai(&server, "responses", &json!({ "model": "m", "input": input }))).await;
        assert_eq!(status, 400, "{input}");
        assert!(reply["error"]["message"].as_str().unwrap().contains(words), "{reply}");
    }
    let fine = json!({ "model": "m", "input": [user, call, done] });
    assert_eq!(send(openai(&server, "responses", &fine)).await.0, 200);
}
