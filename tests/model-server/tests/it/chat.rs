//! OpenAI Chat Completions.

use serde_json::{Value, json};

use crate::support::{events, openai, says, send, serve, steps};

#[tokio::test]
async fn reply_arrives_whole_and_its_result_is_accepted() {
    let server = serve(steps(json!([
        { "text": "I look.", "tools": [{ "name": "bash", "input": { "command": "ls" } }] },
        { "text": "{{result}}" },
    ])))
    .await;
    let (status, first) =
        send(openai(&server, "chat/completions", &json!({ "model": "m", "messages": says("look") }))).await;
    assert_eq!(status, 200);
    let choice = &first["choices"][0];
    assert_eq!(choice["finish_reason"], "tool_calls");
    assert_eq!(choice["message"]["content"], "I look.");
    let call = &choice["message"]["tool_calls"][0];
    assert_eq!(call["function"]["arguments"], r#"{"command":"ls"}"#);
    let total = first["usage"]["total_tokens"].as_u64().unwrap();
    let parts = ["prompt_tokens", "completion_tokens"].map(|part| first["usage"][part].as_u64().unwrap());
    assert_eq!(total, parts.iter().sum::<u64>());

    let conversation = json!([
        { "role": "system", "content": "You help." },
        { "role": "user", "content": [{ "type": "text", "text": "look" }] },
        { "role": "assistant", "content": null, "tool_calls": [call] },
        { "role": "tool", "tool_call_id": call["id"], "content": "a.py" },
    ]);
    let (status, second) =
        send(openai(&server, "chat/completions", &json!({ "model": "m", "messages": conversation }))).await;
    assert_eq!((status, &second["choices"][0]["message"]["content"]), (200, &json!("a.py")));
    assert_eq!(second["choices"][0]["finish_reason"], "stop");
}

#[tokio::test]
async fn streamed_reply_adds_up_to_the_script() {
    let server = serve(steps(json!([{
        "thinking": "Well now.", "text": "I look around first.", "chunk": 4,
        "tools": [{ "name": "bash", "input": { "command": "ls" } }, { "name": "read", "input": { "path": "a.py" } }],
        "usage": { "input": 90, "output": 11, "cacheRead": 10 },
    }])))
    .await;
    let body = json!({
        "model": "m", "stream": true, "stream_options": { "include_usage": true }, "messages": says("look"),
    });
    let events = events(openai(&server, "chat/completions", &body)).await;
    assert_eq!(events.last().unwrap().1, json!("[DONE]"));
    let deltas: Vec<_> = events.iter().map(|(_, data)| &data["choices"][0]["delta"]).collect();
    let all = |field: &str| deltas.iter().filter_map(|delta| delta[field].as_str()).collect::<String>();
    assert_eq!(all("content"), "I look around first.");
    assert_eq!(all("reasoning_content"), "Well now.");
    let arguments = |index: u64| -> String {
        let parts = deltas.iter().map(|delta| &delta["tool_calls"][0]).filter(|part| part["index"] == index);
        parts.filter_map(|part| part["function"]["arguments"].as_str()).collect()
    };
    assert_eq!(arguments(0), r#"{"command":"ls"}"#);
    assert_eq!(arguments(1), r#"{"path":"a.py"}"#);
    let usage = &events[events.len() - 2].1["usage"];
    assert_eq!((usage["prompt_tokens"].as_u64(), usage["completion_tokens"].as_u64()), (Some(100), Some(11)));
    assert_eq!(usage["prompt_tokens_details"]["cached_tokens"], 10);
    let reasons: Vec<_> =
        events.iter().filter_map(|(_, data)| data["choices"][0]["finish_reason"].as_str()).collect();
    assert_eq!(reasons, ["tool_calls"]);
}

#[tokio::test]
async fn usage_is_sent_only_on_request() {
    let server = serve(steps(json!([{ "text": "Yes." }]))).await;
    let body = json!({ "model": "m", "stream": true, "messages": says("look") });
    let events = events(openai(&server, "chat/completions", &body)).await;
    assert!(events.iter().all(|(_, data)| data.get("usage").is_none()));
}

#[tokio::test]
async fn refusal_cut_off_and_broken_arguments_can_be_scripted() {
    let server = serve(steps(json!([
        { "text": "I cannot help with that.", "stop": "refusal" },
        { "text": "Once upon a", "stop": "length" },
        { "text": "", "stop": "contentFilter" },
        { "tools": [{ "name": "bash", "rawInput": "{\"command\": " }] },
    ])))
    .await;
    let body = json!({ "model": "m", "messages": says("look") });
    let mut choices = Vec::new();
    for _ in 0..4 {
        let (_, reply) = send(openai(&server, "chat/completions", &body)).await;
        choices.push(reply["choices"][0].clone());
    }
    assert_eq!(choices[0]["message"]["refusal"], "I cannot help with that.");
    assert_eq!(choices[0]["message"]["content"], Value::Null);
    assert_eq!(choices[1]["finish_reason"], "length");
    assert_eq!(choices[2]["finish_reason"], "content_filter");
    assert_eq!(choices[3]["message"]["tool_calls"][0]["function"]["arguments"], "{\"command\": ");
}
