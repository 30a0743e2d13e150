//! OpenAI Responses.

use serde_json::json;

use crate::support::{events, openai, send, serve, steps};

#[tokio::test]
async fn reply_arrives_whole_and_its_result_is_accepted() {
    let server = serve(steps(json!([
        { "text": "I look.", "tools": [{ "name": "bash", "input": { "command": "ls" } }] },
        { "text": "{{result}}" },
    ])))
    .await;
    let (status, first) = send(openai(&server, "responses", &json!({ "model": "m", "input": "look" }))).await;
    assert_eq!((status, &first["status"]), (200, &json!("completed")));
    assert_eq!(first["output"][0]["content"][0]["text"], "I look.");
    let call = &first["output"][1];
    assert_eq!(call["arguments"], r#"{"command":"ls"}"#);

    let input = json!([
        { "role": "user", "content": [{ "type": "input_text", "text": "look" }] },
        first["output"][0], call,
        { "type": "function_call_output", "call_id": call["call_id"], "output": "a.py" },
    ]);
    let (status, second) = send(openai(&server, "responses", &json!({ "model": "m", "input": input }))).await;
    assert_eq!((status, &second["output"][0]["content"][0]["text"]), (200, &json!("a.py")), "{second}");
}

#[tokio::test]
async fn streamed_reply_adds_up_to_the_script() {
    let server = serve(steps(json!([{
        "thinking": "Well now.", "text": "I look around first.", "chunk": 4,
        "tools": [{ "name": "bash", "input": { "command": "ls" } }],
        "usage": { "input": 90, "output": 11, "cacheRead": 10 },
    }])))
    .await;
    let events =
        events(openai(&server, "responses", &json!({ "model": "m", "stream": true, "input": "look" }))).await;
    for (place, (name, data)) in events.iter().enumerate() {
        assert_eq!(
            (data["type"].as_str().unwrap(), data["sequence_number"].as_u64()),
            (name.as_str(), Some(place as u64))
        );
    }
    let all = |event: &str| -> String {
        events
            .iter()
            .filter(|(name, _)| name == event)
            .filter_map(|(_, data)| data["delta"].as_str())
            .collect()
    };
    assert_eq!(all("response.reasoning_summary_text.delta"), "Well now.");
    assert_eq!(all("response.output_text.delta"), "I look around first.");
    assert_eq!(all("response.function_call_arguments.delta"), r#"{"command":"ls"}"#);
    let (name, end) = events.last().unwrap();
    assert_eq!(name, "response.completed");
    assert_eq!(end["response"]["usage"]["total_tokens"], 111);
    let kinds: Vec<_> =
        end["response"]["output"].as_array().unwrap().iter().map(|item| item["type"].clone()).collect();
    assert_eq!(kinds, [json!("reasoning"), json!("message"), json!("function_call")]);
}

#[tokio::test]
async fn a_reply_at_the_limit_is_incomplete() {
    let server = serve(steps(json!([{ "text": "Once upon a", "stop": "length" }]))).await;
    let events =
        events(openai(&server, "responses", &json!({ "model": "m", "stream": true, "input": "look" }))).await;
    let (name, end) = events.last().unwrap();
    assert_eq!(name, "response.incomplete");
    assert_eq!(end["response"]["incomplete_details"]["reason"], "max_output_tokens");
}
