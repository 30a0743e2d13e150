//! The inbox.

use serde_json::json;

use super::recorder::Recorder;
use crate::scripts::{say, script, turn};

#[tokio::test]
async fn decisions() {
    let mut on = Recorder::start("decisions").await;
    let question = json!({ "question": { "id": "o1", "questions": [
        { "question": "Which colour?", "options": [{ "label": "Red", "description": "warm" }, { "label": "Blue" }] },
    ] } });
    let plan = json!({ "plan": { "id": "p1", "text": "1. Fix the bug" } });
    let asking = on.started("asking", &script(&[turn(&[question, say("Thanks.")])])).await;
    asking.until_status("WaitingForInput").await;
    let planning = on.started("planning", &script(&[turn(&[plan, say("Carried out.")])])).await;
    planning.until_status("WaitingForApproval").await;
    let listed = on.get("/api/decisions?counts=true").await.expect(200).body;
    let id = |at: usize| listed["items"][at]["id"].as_str().unwrap().to_owned();
    let (option, plan) = (id(0), id(1));
    on.get("/api/decisions?state=open").await.expect(422);
    on.get(&format!("/api/decisions/{plan}")).await.expect(200);
    let resolve = format!("/api/decisions/{option}/resolve");
    on.post(&resolve, json!({ "resolutionType": "approve", "chosenOptionId": "2" })).await.expect(422);
    on.post(&resolve, json!({ "resolutionType": "choose_option", "chosenOptionId": "2" })).await.expect(202);
    asking.until_said("Thanks.").await;
    on.post(&resolve, json!({ "resolutionType": "choose_option", "chosenOptionId": "1" })).await.expect(409);
    on.get("/api/decisions?state=resolved").await.expect(200);
    planning.post("/cancel", json!({})).await;
    planning.until_status("Cancelled").await;
    on.get(&format!("/api/decisions/{plan}")).await.expect(200);
    on.finish();
}
