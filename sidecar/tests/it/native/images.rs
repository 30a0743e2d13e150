//! Images of the objective and of messages (decision 100).

use pilothouse_domain::value::{ContentHash, MessageImage, MessagePriority};
use pilothouse_model_server::{ModelServer, Script, Step};
use serde_json::{Value, json};

use super::{Agent, bash, begun, environment, let_go, waiting};
use crate::gateway::{GIF, Gateway, PNG, base64};
use crate::sidecar::{Folders, message_with};

/// The type and the bytes of each image of a request, in order.
fn images(request: &Value) -> Vec<(String, String)> {
    let messages = request["messages"].as_array().unwrap().iter();
    let blocks = messages.filter_map(|message| message["content"].as_array()).flatten();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let images = blocks.filter(|block| block["type"] == "image").map(|block| &block["source"]);
    images.map(|source| (text(&source["media_type"]), text(&source["data"]))).collect()
}

fn image(kind: &str, bytes: &[u8]) -> (String, String) {
    (kind.to_owned(), base64(bytes))
}

#[tokio::test]
async fn model_sees_the_images_of_the_objective_and_of_messages() {
    let agent = Agent::idle(Script::of([Step::text("One."), Step::text("Two.")])).await;
    let (first, second) = (agent.gateway.image(PNG), agent.gateway.image(GIF));
    agent.begin(|begin| begin.images = vec![first]);
    agent.gateway.sees("turn_completed").await;
    assert_eq!(images(&agent.last_request()), [image("image/png", PNG)]);
    let id = agent.gateway.send(message_with("look", vec![second], MessagePriority::Queued));
    agent.gateway.acknowledged(id, "injected").await;
    agent.gateway.sees_nth("turn_completed", 2).await;
    assert_eq!(images(&agent.last_request()), [image("image/png", PNG), image("image/gif", GIF)]);
    let sealed: String = agent.gateway.delivered().iter().map(|event| event.sealed.clone()).collect();
    assert!(!sealed.contains(&base64(PNG)), "events carry no images");
}

#[tokio::test]
async fn image_of_an_immediate_message_enters_the_turn() {
    let agent = Agent::idle(Script::default()).await;
    let first = waiting(&agent.work(), "first");
    agent.model.play(Script::of([bash(&first), Step::text("I see.")]));
    agent.begin(|_| {});
    begun(&agent, "first").await;
    let shown = agent.gateway.image(PNG);
    let id = agent.gateway.send(message_with("look", vec![shown], MessagePriority::Immediate));
    agent.gateway.acknowledged(id, "received").await;
    let_go(&agent, "first");
    agent.gateway.acknowledged(id, "injected").await;
    agent.gateway.sees("turn_completed").await;
    assert_eq!(images(&agent.last_request()), [image("image/png", PNG)]);
}

#[tokio::test]
async fn model_without_vision_gets_the_text_and_the_owner_a_notice() {
    let model = ModelServer::start(Script::of([Step::text("I see nothing.")])).await.unwrap();
    let gateway = Gateway::start().await;
    let folders = Folders::of_adapter(&gateway, "native");
    let file = folders.root().join("models.json");
    let price = json!({ "input": "1", "output": "1", "cacheRead": "1", "cacheWrite": "1" });
    let blind = json!({ "id": "blind", "contextWindow": 100_000, "maxOutputTokens": 4_096, "vision": false,
        "price": price });
    let provider = json!({ "name": "other", "api": "anthropic-messages", "apiKeyEnv": "ANTHROPIC_API_KEY",
        "baseUrl": format!("{}/v1/", model.base_url()), "models": [blind] });
    std::fs::write(&file, json!({ "providers": [provider] }).to_string()).unwrap();
    let models = ("PILOTHOUSE_MODELS", file.to_str().unwrap().to_owned());
    let variables: Vec<_> = environment(&model).into_iter().chain([models]).collect();
    let sidecar = folders.start_with(&variables);
    let agent = Agent { gateway, folders, model, sidecar };
    let shown = agent.gateway.image(PNG);
    agent.begin(|begin| {
        begin.config.model_id = "other/blind".into();
        begin.images = vec![shown];
    });
    let at = agent.gateway.sees("notice images_left_out").await;
    let notice = agent.gateway.delivered()[at].body.clone();
    assert!(notice["summary"].as_str().unwrap().contains("other/blind cannot see images"), "{notice}");
    agent.gateway.sees("turn_completed").await;
    let request = agent.last_request();
    assert!(images(&request).is_empty(), "{request:#}");
    assert!(request.to_string().contains("An image was here"), "{request:#}");
}

#[tokio::test]
async fn message_arrives_without_an_image_that_cannot_be_loaded() {
    let agent = Agent::says([Step::text("One."), Step::text("Two.")]).await;
    agent.gateway.sees("turn_completed").await;
    let shown = agent.gateway.image(PNG);
    let lost = MessageImage { sha256: ContentHash::parse("a".repeat(64)).unwrap(), ..shown.clone() };
    let id = agent.gateway.send(message_with("look", vec![lost, shown], MessagePriority::Queued));
    agent.gateway.acknowledged(id, "injected").await;
    agent.gateway.sees_nth("turn_completed", 2).await;
    let delivered = agent.gateway.delivered();
    let notice = delivered.iter().find(|event| event.body["name"] == "images_left_out").unwrap();
    assert_eq!(notice.body["detail"]["count"], 1, "{:#?}", notice.body);
    let request = agent.last_request();
    assert!(request.to_string().contains("look"));
    assert_eq!(images(&request), [image("image/png", PNG)]);
}
