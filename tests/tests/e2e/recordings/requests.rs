//! Questions and plans of an agent.

use serde_json::json;

use super::recorder::Recorder;
use crate::scripts::{say, script, turn};

#[tokio::test]
async fn requests() {
    let mut on = Recorder::start("requests").await;
    let question = json!({ "question": { "id": "q1", "questions": [
        { "question": "Which colour?", "header": "Colour",
          "options": [{ "label": "Red", "description": "warm" }, { "label": "Blue" }] },
        { "question": "Which sizes?", "multiSelect": true, "options": [{ "label": "S" }, { "label": "L" }] },
    ] } });
    let plan = json!({ "plan": { "id": "p1", "text": "1. Rewrite all", "revisions": ["1. Fix the bug"] } });
    let session = on.started("session", &script(&[turn(&[question, plan, say("Carried out.")])])).await;
    session.until_status("WaitingForInput").await;
    on.get(&session.path("")).await.expect(200);
    let colour = json!({ "question": "Which colour?", "answer": "Blue" });
    let answer = session.path("/answer");
    on.post(&answer, json!({ "requestId": "q1", "answers": [colour] })).await.expect(422);
    on.post(&answer, json!({ "requestId": "q2", "answers": [colour] })).await.expect(409);
    on.post(&session.path("/plan/approve"), json!({ "requestId": "q1" })).await.expect(409);
    let sizes = json!({ "question": "Which sizes?", "answer": "S, L" });
    on.post(&answer, json!({ "requestId": "q1", "answers": [colour, sizes] })).await.expect(200);
    session.until_status("WaitingForApproval").await;
    on.get(&session.path("")).await.expect(200);
    on.get(&session.path("/plan")).await.expect(200);
    on.post(&session.path("/plan/reject"), json!({ "requestId": "p1" })).await.expect(422);
    on.post(&session.path("/plan/reject"), json!({ "requestId": "p1", "feedback": "Too much" }))
        .await
        .expect(200);
    let view = session.until("a revision", |view| view["sessionPlan"]["content"] == "1. Fix the bug").await;
    let request = view["pendingRequests"][0]["id"].clone();
    on.post(&session.path("/plan/approve"), json!({ "requestId": request })).await.expect(200);
    session.until_said("Carried out.").await;
    session.until_status("Idle").await;
    on.get(&session.path("/plan")).await.expect(200);
    on.get(&session.path("/tool-calls")).await.expect(200);
    on.get(&session.path("/activity")).await.expect(200);
    on.finish();
}
