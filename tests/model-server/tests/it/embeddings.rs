//! OpenAI embeddings.

use pilothouse_model_server::{Embeddings, Failure, Script};
use serde_json::{Value, json};

use crate::support::{openai, send, serve};

fn vectors() -> Embeddings {
    Embeddings::of([("cents", vec![1.0, 0.0]), ("dollars", vec![0.5, 0.5])])
}

async fn embed(script: Embeddings, input: Value) -> (u16, Value) {
    let server = serve(json!(Script { embeddings: script, ..Script::default() })).await;
    let answer = send(openai(&server, "embeddings", &json!({ "model": "m", "input": input }))).await;
    assert_eq!((server.embeddings().len(), server.prompts().len()), (1, 0));
    answer
}

#[tokio::test]
async fn each_text_has_the_vector_of_the_script() {
    let (status, body) = embed(vectors(), json!(["prices in dollars", "prices in cents"])).await;
    assert_eq!(status, 200, "{body}");
    assert_eq!(body["data"][0], json!({ "object": "embedding", "index": 0, "embedding": [0.5, 0.5] }));
    assert_eq!(body["data"][1]["embedding"], json!([1.0, 0.0]));
    assert!(body["usage"]["total_tokens"].as_u64().is_some_and(|tokens| tokens > 4), "{body}");
    assert_eq!(embed(vectors(), json!("cents")).await.0, 200, "one text");
}

#[tokio::test]
async fn wrong_requests_for_embeddings_are_refused_like_by_the_provider() {
    for input in [json!([]), json!([""]), json!([1]), json!(null), json!("prices in euros")] {
        assert_eq!(embed(vectors(), input.clone()).await.0, 400, "{input}");
    }
    let failing = Embeddings { fail: Some(Failure::ServerError), ..vectors() };
    assert_eq!(embed(failing, json!("cents")).await.0, 500);
    let server =
        serve(json!(Script { key: Some("right".to_owned()), embeddings: vectors(), ..Script::default() }))
            .await;
    let (status, _) = send(openai(&server, "embeddings", &json!({ "model": "m", "input": "cents" }))).await;
    assert_eq!(status, 401);
}
