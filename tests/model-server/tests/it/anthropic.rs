//! Anthropic Messages.

use serde_json::{Value, json};

use crate::support::{asked, events, messages, says, send, serve, steps};

#[tokio::test]
async fn reply_arrives_whole() {
    let server = serve(steps(json!([
        { "text": "I look.", "tools": [{ "name": "bash", "input": { "command": "ls" } }] },
        { "text": "There is {{result}}.", "usage": { "input": 7, "output": 5, "cacheRead": 3, "cacheWrite": 2 } },
    ])))
    .await;
    let (status, first) = send(messages(&server, &asked(says("look")))).await;
    assert_eq!(status, 200);
    assert_eq!(first["stop_reason"], "tool_use");
    assert_eq!(first["content"][0], json!({ "type": "text", "text": "I look." }));
    assert_eq!(first["content"][1]["name"], "bash");
    assert_eq!(first["content"][1]["input"], json!({ "command": "ls" }));
    assert!(first["usage"]["input_tokens"].as_u64().unwrap() > 10, "{first}");

    let result =
        json!({ "type": "tool_result", "tool_use_id": first["content"][1]["id"], "content": "a.py\n" });
    let conversation = json!([
        { "role": "user", "content": "look" },
        { "role": "assistant", "content": first["content"] },
        { "role": "user", "content": [result] },
    ]);
    let (_, second) = send(messages(&server, &asked(conversation))).await;
    assert_eq!(second["content"], json!([{ "type": "text", "text": "There is a.py." }]));
    assert_eq!(second["stop_reason"], "end_turn");
    let usage = &second["usage"];
    assert_eq!((usage["input_tokens"].as_u64(), usage["output_tokens"].as_u64()), (Some(7), Some(5)));
    assert_eq!(usage["cache_read_input_tokens"], 3);
    assert_eq!(usage["cache_creation_input_tokens"], 2);
}

#[tokio::test]
async fn streamed_reply_adds_up_to_the_script() {
    let server = serve(steps(json!([{
        "thinking": "They want to see the files of this folder.", "text": "I look around first.", "chunk": 5,
        "tools": [{ "name": "bash", "input": { "command": "ls -la" } }, { "name": "read", "input": { "path": "ä.py" } }],
    }])))
    .await;
    let mut body = asked(says("look"));
    body["stream"] = json!(true);
    body["thinking"] = json!({ "type": "enabled", "budget_tokens": 1024 });
    let events = events(messages(&server, &body)).await;
    assert!(events.iter().all(|(name, data)| data["type"] == name.as_str()));
    let all = |index: u64, field: &str| -> String {
        let deltas =
            events.iter().filter(|(name, data)| name == "content_block_delta" && data["index"] == index);
        deltas.filter_map(|(_, data)| data["delta"][field].as_str()).collect()
    };
    let thinking = all(0, "thinking");
    assert_eq!(thinking, "They want to see the files of this folder.");
    assert!(!all(0, "signature").is_empty());
    assert_eq!(all(1, "text"), "I look around first.");
    assert_eq!(
        serde_json::from_str::<Value>(&all(2, "partial_json")).unwrap(),
        json!({ "command": "ls -la" })
    );
    assert_eq!(serde_json::from_str::<Value>(&all(3, "partial_json")).unwrap(), json!({ "path": "ä.py" }));
    let starts: Vec<_> = events.iter().filter(|(name, _)| name == "content_block_start").collect();
    let kinds: Vec<_> =
        starts.iter().map(|(_, data)| data["content_block"]["type"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["thinking", "text", "tool_use", "tool_use"]);
    assert_ne!(starts[2].1["content_block"]["id"], starts[3].1["content_block"]["id"]);
    let (_, end) = &events[events.len() - 2];
    assert_eq!(end["delta"]["stop_reason"], "tool_use");
    assert_eq!(events.last().unwrap().0, "message_stop");
}

#[tokio::test]
async fn thoughts_are_sent_only_on_request() {
    let server = serve(steps(json!([{ "thinking": "Hm.", "text": "Yes.", "repeat": true }]))).await;
    let (_, plain) = send(messages(&server, &asked(says("well?")))).await;
    assert_eq!(plain["content"], json!([{ "type": "text", "text": "Yes." }]));
}

#[tokio::test]
async fn cache_contains_earlier_requests() {
    let server = serve(steps(json!([{ "text": "Yes.", "repeat": true }]))).await;
    let mut body = asked(says("well?"));
    body["system"] =
        json!([{ "type": "text", "text": "x".repeat(4000), "cache_control": { "type": "ephemeral" } }]);
    let (_, first) = send(messages(&server, &body)).await;
    let (_, second) = send(messages(&server, &body)).await;
    let written = first["usage"]["cache_creation_input_tokens"].as_u64().unwrap();
    assert!(written > 1000, "{first}");
    assert_eq!(first["usage"]["cache_read_input_tokens"], 0);
    assert_eq!(second["usage"]["cache_read_input_tokens"].as_u64(), Some(written));
    assert_eq!(second["usage"]["cache_creation_input_tokens"], 0);
}

#[tokio::test]
async fn tokens_are_counted_and_models_listed() {
    let server = serve(steps(json!([{ "text": "Yes." }]))).await;
    let body = json!({ "model": "m", "messages": [{ "role": "user", "content": "x".repeat(400) }] });
    let count = |body: &Value| {
        let url = format!("{}/v1/messages/count_tokens", server.base_url());
        reqwest::Client::new()
            .post(url)
            .header("x-api-key", "k")
            .header("anthropic-version", "2023-06-01")
            .json(body)
    };
    let (status, counted) = send(count(&body)).await;
    assert_eq!(status, 200);
    assert!(counted["input_tokens"].as_u64().unwrap() > 100);

    let url = format!("{}/v1/models", server.base_url());
    let client = reqwest::Client::new();
    let (_, listed) =
        send(client.get(&url).header("x-api-key", "k").header("anthropic-version", "2023-06-01")).await;
    assert_eq!(listed["data"][0]["type"], "model");
    let (_, one) = send(client.get(format!("{url}/gpt-5")).bearer_auth("k")).await;
    assert_eq!(one["object"], "model");
    assert_eq!(send(client.get(format!("{url}/none")).bearer_auth("k")).await.0, 404);
    assert!(server.prompts().is_empty(), "none of this used up a step");
    assert_eq!(server.requests().len(), 4);
}

#[tokio::test]
async fn side_requests_of_a_runtime_consume_no_step() {
    let server = serve(steps(json!([{ "text": "The work." }]))).await;
    // Side requests of Claude Code: a check of the quota, and a title for the session.
    let quota = json!({ "model": "claude-haiku-4-5", "max_tokens": 1, "messages": says("quota") });
    assert_eq!(send(messages(&server, &quota)).await.0, 200);
    let mut title = asked(says("<session>\nfix it\n</session>"));
    title["system"] = json!([
        { "type": "text", "text": "You are a Claude agent, built on Anthropic's Claude Agent SDK." },
        { "type": "text", "text": "Generate a concise, sentence-case title (3-7 words) that captures the main topic" },
    ]);
    title["tools"] = json!([]);
    title["output_config"] = json!({ "format": { "type": "json_schema", "schema": {} } });
    let (_, titled) = send(messages(&server, &title)).await;
    let text = titled["content"][0]["text"].as_str().unwrap();
    assert!(serde_json::from_str::<Value>(text).unwrap()["title"].is_string());
    let (_, work) = send(messages(&server, &asked(says("fix it")))).await;
    assert_eq!(work["content"][0]["text"], "The work.");
    assert_eq!(server.prompts().len(), 1);
}
