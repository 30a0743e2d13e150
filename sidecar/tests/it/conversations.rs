//! Conversations of a scripted agent (S1 5, 9).

use pilothouse_domain::value::{Adjustment, ConversationTarget, MessagePriority};
use pilothouse_wire::Command;
use serde_json::{Value, json};

use crate::gateway::Gateway;
use crate::sidecar::{message, playing, turn};

async fn adjust(gateway: &Gateway, adjustment: Adjustment, step: &str) {
    let id = gateway.send(Command::Adjust { adjustment });
    gateway.acknowledged(id, step).await;
}

/// The conversation, the last turn, and whether it is current, of each branch in the latest report.
fn branches(gateway: &Gateway) -> Vec<[Value; 3]> {
    let delivered = gateway.delivered();
    let reported = delivered.iter().rfind(|event| event.kind() == "conversations").unwrap();
    let of =
        |branch: &Value| ["conversationId", "lastTurnId", "isCurrent"].map(|field| branch[field].clone());
    reported.body["branches"].as_array().unwrap().iter().map(of).collect()
}

#[tokio::test]
async fn scripted_agent_begins_switches_and_labels_conversations() {
    let (gateway, _folders, _sidecar) = playing(json!([turn(json!([{ "say": "hi" }]))])).await;
    gateway.sees("turn_completed").await;
    adjust(&gateway, Adjustment::NewConversation {}, "done").await;
    let [first, second] = [json!("script-1"), json!("script-1-2")];
    let turn_1 = json!("turn-1-1");
    assert_eq!(
        branches(&gateway),
        [[first.clone(), turn_1.clone(), json!(false)], [second.clone(), Value::Null, json!(true)]]
    );
    gateway.send(message("there", MessagePriority::Queued));
    gateway.sees("turn_completed turn-1-2").await;
    assert_eq!(branches(&gateway)[1], [second.clone(), json!("turn-1-2"), json!(true)]);

    let target = ConversationTarget::ConversationId("script-1".into());
    adjust(&gateway, Adjustment::SwitchConversation { target }, "done").await;
    assert_eq!(branches(&gateway)[0], [first, turn_1, json!(true)]);
    let label = Adjustment::LabelTurn { turn_id: None, label: Some("a start".into()) };
    adjust(&gateway, label, "done").await;
    let delivered = gateway.delivered();
    let reported = delivered.iter().rfind(|event| event.kind() == "conversations").unwrap();
    assert_eq!(reported.body["labels"], json!([{ "turnId": "turn-1-1", "label": "a start" }]));

    let target = ConversationTarget::ConversationId("script-9".into());
    adjust(&gateway, Adjustment::SwitchConversation { target }, "invalid").await;
    let elsewhere = Some("turn-1-2".parse().unwrap());
    adjust(&gateway, Adjustment::LabelTurn { turn_id: elsewhere, label: None }, "invalid").await;
}
