//! Questions and plans of an agent (S0 8.4, decision 26).

use pilothouse_tests::Session;
use serde_json::{Value, json};

use crate::scripts::{say, script, turn};
use crate::server::{Server, started, work};

fn questions() -> Value {
    json!({ "question": { "id": "q1", "questions": [
        { "question": "Which colour?", "header": "Colour",
          "options": [{ "label": "Red", "description": "warm" }, { "label": "Blue", "description": "cold" }] },
        { "question": "Which sizes?", "multiSelect": true, "options": [{ "label": "S" }, { "label": "L" }] },
        { "question": "Anything else?" },
    ] } })
}

/// Several questions with options are answered together; the agent receives the answers as the result of its call.
#[tokio::test]
async fn several_questions_are_answered_together() {
    let server = Server::start(1).await;
    let session = started(&server, &script(&[turn(&[questions(), say("Thanks.")])])).await;
    let view = session.until_status("WaitingForInput").await;
    let request = &view["pendingRequests"][0];
    assert_eq!((&request["id"], &request["kind"]), (&json!("q1"), &json!("question")));
    assert_eq!(request["questions"][0]["options"][1]["label"], "Blue");
    assert_eq!(request["questions"][1]["multiSelect"], true);

    let answer = |question: &str, answer: &str| json!({ "question": question, "answer": answer });
    let all =
        [answer("Which colour?", "Blue"), answer("Which sizes?", "S, L"), answer("Anything else?", "Hurry")];
    let some = session.post("/answer", json!({ "requestId": "q1", "answers": all[..2] })).await;
    assert_eq!(some.refused(422, "validation-failed").violated(), ["answers"]);
    session.post("/answer", json!({ "requestId": "q2", "answers": all })).await.refused(409, "request-over");
    session.post("/plan/approve", json!({ "requestId": "q1" })).await.refused(409, "wrong-request");
    assert_eq!(session.view().await["status"], "WaitingForInput", "the session is unchanged");

    session.post("/answer", json!({ "requestId": "q1", "answers": all })).await.expect(200);
    let view = session.until_status("Idle").await;
    assert_eq!(view["pendingRequests"], json!([]));
    let calls = session.tool_calls().await;
    assert_eq!(calls[0]["toolName"], "AskUserQuestion");
    let result = calls[0]["result"]["content"].as_str().unwrap();
    assert!(["Blue", "S, L", "Hurry"].iter().all(|a| result.contains(a)), "{result}");
    assert_eq!(session.said().await, ["Thanks."]);
    session.post("/answer", json!({ "requestId": "q1", "answers": all })).await.refused(409, "request-over");
}

#[tokio::test]
async fn a_plan_is_rejected_with_feedback_revised_and_approved() {
    let server = Server::start(1).await;
    let plan = json!({ "plan": { "id": "p1", "text": "1. Rewrite all", "revisions": ["1. Fix the bug", "1. Fix it\n2. Test it"] } });
    let session = started(&server, &script(&[turn(&[plan, say("Carried out.")])])).await;
    session.get("/plan").await;
    let view = session.until_status("WaitingForApproval").await;
    let first = view["pendingRequests"][0]["id"].clone();
    assert_eq!(view["sessionPlan"]["content"], "1. Rewrite all");
    assert_eq!(view["sessionPlan"]["status"], "PendingApproval");
    let missing = session.post("/plan/reject", json!({ "requestId": first })).await;
    assert_eq!(missing.refused(422, "validation-failed").violated(), ["feedback"]);
    session.post("/plan/reject", json!({ "requestId": first, "feedback": "Too much" })).await.expect(200);

    let view = session.until("a revision", |v| v["sessionPlan"]["content"] == "1. Fix the bug").await;
    let second = view["pendingRequests"][0]["id"].clone();
    assert_ne!(second, first);
    session.post("/plan/approve", json!({ "requestId": first })).await.refused(409, "request-over");
    session
        .post("/plan/reject", json!({ "requestId": second, "feedback": "Where is the test?" }))
        .await
        .expect(200);
    let view = session.until("a third", |v| v["sessionPlan"]["content"] == "1. Fix it\n2. Test it").await;
    session.post("/plan/approve", json!({ "requestId": view["pendingRequests"][0]["id"] })).await.expect(200);
    session.until_status("Idle").await;
    assert_eq!(session.said().await, ["Carried out."]);
    let plan = session.get("/plan").await.expect(200).body;
    assert_eq!((&plan["status"], &plan["version"]), (&json!("Approved"), &json!(3)));
    let shown: Vec<_> = session.tool_calls().await;
    assert!(shown[0]["result"]["content"].as_str().unwrap().contains("Too much"), "{shown:#?}");
}

#[tokio::test]
async fn plan_without_required_approval_does_not_wait() {
    let server = Server::start(1).await;
    let mut body = work(&server, &script(&[turn(&[json!({ "plan": { "text": "1. Go" } }), say("Gone.")])]));
    body["planApprovalRequired"] = json!(false);
    let session = Session::start(&server.api(), body).await;
    let view = session.until_status("Idle").await;
    assert_eq!(
        (&view["sessionPlan"]["status"], &view["sessionPlan"]["requiresApproval"]),
        (&json!("Approved"), &json!(false))
    );
}

/// Without an answer in time, the default answer applies; without a default, the session fails (decision 26).
#[tokio::test]
async fn overdue_question_gets_the_default_answer_or_fails() {
    let server = Server::start(1).await;
    let plays =
        script(&[turn(&[json!({ "question": { "questions": [{ "question": "Which?" }] } }), say("On.")])]);
    let mut body = work(&server, &plays);
    body["requestTimeoutSeconds"] = json!(1);
    let failing = Session::start(&server.api(), body.clone()).await;
    body["defaultAnswer"] = json!("the first one");
    let going_on = Session::start(&server.api(), body).await;

    going_on.until_status("Idle").await;
    assert_eq!(going_on.said().await, ["On."]);
    let calls = going_on.tool_calls().await;
    assert!(calls[0]["result"]["content"].as_str().unwrap().contains("the first one"), "{calls:#?}");
    assert!(
        going_on
            .activity()
            .await
            .iter()
            .any(|l| l["type"] == "UserAnswer" && l["summary"].as_str().unwrap().contains("default"))
    );
    let view = failing.until_status("Failed").await;
    assert_eq!(view["failureReason"]["reason"], "Timeout");
    assert_eq!(view["pendingRequests"], json!([]));
}

/// An interrupt ends the turn and its open question (decision 26).
#[tokio::test]
async fn interrupt_closes_open_requests() {
    let server = Server::start(1).await;
    let session = started(&server, &script(&[turn(&[questions(), say("Thanks.")])])).await;
    session.until_status("WaitingForInput").await;
    session.post("/interrupt", json!({})).await.expect(202);
    let view = session.until_status("Interrupted").await;
    assert_eq!(view["pendingRequests"], json!([]));
    let answers = json!({ "requestId": "q1", "answers": [{ "question": "Which colour?", "answer": "Red" }] });
    session.post("/answer", answers).await.refused(409, "request-over");
}

/// Several open requests are answered by id, in any order (decision 26).
#[tokio::test]
async fn concurrent_requests_are_answered_by_their_ids() {
    let server = Server::start(1).await;
    let ask = |id: &str| json!({ "question": { "id": id, "wait": false, "questions": [{ "question": format!("{id}?") }] } });
    let answered = |id: &str| json!({ "waitForAnswer": id });
    let session = started(
        &server,
        &script(&[turn(&[ask("q1"), ask("q2"), answered("q2"), answered("q1"), say("Thanks.")])]),
    )
    .await;
    let open = |view: &Value| {
        let ids = view["pendingRequests"].as_array().unwrap().iter();
        ids.map(|r| r["id"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    session.until("both questions", |v| open(v) == ["q1", "q2"]).await;
    let answer =
        |id: &str| json!({ "requestId": id, "answers": [{ "question": format!("{id}?"), "answer": "yes" }] });
    let view = session.post("/answer", answer("q2")).await.expect(200).body;
    assert_eq!((&view["status"], open(&view)), (&json!("WaitingForInput"), vec!["q1".to_owned()]));
    session.post("/answer", answer("q2")).await.refused(409, "request-over");
    session.post("/answer", answer("q1")).await.expect(200);
    session.until_status("Idle").await;
    assert_eq!(session.said().await, ["Thanks."]);
}

/// If the sidecar never acknowledges an answer, it is resent once. Then the process is stopped, and the next one receives the answer as a
/// message (decisions 12, 26). The same applies to a decision on a plan.
#[tokio::test]
async fn undelivered_answer_is_sent_as_a_message() {
    let server = Server::start(20).await;
    let deaf = |command: &str| json!({ "ignore": { "command": command } });
    let ask = json!({ "question": { "id": "q1", "questions": [{ "question": "Which?" }] } });
    let asking = started(&server, &script(&[turn(&[deaf("answer"), ask, say("Thanks.")])])).await;
    let plan = json!({ "plan": { "id": "p1", "text": "1. Go" } });
    let planning = started(&server, &script(&[turn(&[deaf("plan_decision"), plan, say("Gone.")])])).await;
    asking.until_status("WaitingForInput").await;
    planning.until_status("WaitingForApproval").await;
    let answers = json!({ "requestId": "q1", "answers": [{ "question": "Which?", "answer": "Left" }] });
    asking.post("/answer", answers).await.expect(200);
    planning.post("/plan/approve", json!({ "requestId": "p1" })).await.expect(200);
    for (session, said, answer) in [(asking, "Thanks.", "Left"), (planning, "Gone.", "approved")] {
        session.until_said(said).await;
        let view = session.until_status("Idle").await;
        assert_eq!((&view["currentRun"]["ordinal"], &view["failureReason"]), (&json!(2), &Value::Null));
        let messages = session.messages().await;
        let by_owner = |m: &&Value| m["source"] == "User" && m["content"].as_str().unwrap().contains(answer);
        assert_eq!(messages.iter().filter(by_owner).count(), 1, "{messages:#?}");
    }
}

/// An answer to a session whose process died while waiting is sent as a message to a new process (decision 26).
#[tokio::test]
async fn answer_wakes_a_session_without_a_process() {
    let server = Server::start(1).await;
    let ask = json!({ "question": { "id": "q1", "questions": [{ "question": "Which?" }] } });
    let session = started(&server, &script(&[turn(&[ask, say("Thanks.")])])).await;
    session.until_status("WaitingForInput").await;
    server.sidecars().iter().for_each(pilothouse_tests::processes::Sidecar::kill9);
    let view = session.until("hibernation", |v| v["hibernated"] == true).await;
    assert_eq!(view["status"], "WaitingForInput");
    let answers =
        json!({ "requestId": "q1", "answers": [{ "question": "Which?", "answer": "The left one" }] });
    session.post("/answer", answers).await.expect(200);
    session.until_said("Thanks.").await;
    let messages = session.messages().await;
    assert!(
        messages
            .iter()
            .any(|m| m["source"] == "User" && m["content"].as_str().unwrap().contains("The left one")),
        "{messages:#?}"
    );
}

/// An agent can ask for a permission without a tool (`question_asked`). The session waits, and the agent receives the answer. The result of
/// the call, the end of the turn or the timeout closes the request (decision 26).
#[tokio::test]
async fn permission_waits_for_its_owner_and_closes_like_a_question() {
    let server = Server::start(1).await;
    let asked = |id: &str| {
        json!({ "raw": { "type": "question_asked", "requestId": id, "questions": [
            { "question": "May the agent run `rm -rf build`?", "header": "Permission",
              "options": [{ "label": "Yes" }, { "label": "No" }] },
        ] } })
    };
    let answered = |id: &str| {
        let answer = json!([{ "question": "May the agent run `rm -rf build`?", "answer": "No" }]);
        json!({ "requestId": id, "answers": answer })
    };
    let call = json!({ "raw": { "type": "assistant_message", "content":
        { "kind": "tool_use", "toolCallId": "c1", "toolName": "Bash", "input": { "command": "rm -rf build" } } } });
    let result = json!({ "raw": { "type": "tool_result", "toolCallId": "c2", "content": "timed out", "isError": true } });
    let plays = script(&[turn(&[
        call,
        asked("c1"),
        json!({ "waitForAnswer": "c1" }),
        say("Refused, then."),
        json!({ "waitForMessage": {} }),
        // The call ends without the answer.
        asked("c2"),
        json!({ "wait": 300 }),
        result,
        json!({ "waitForMessage": {} }),
        // The turn ends without the answer.
        asked("c3"),
    ])]);
    let session = started(&server, &plays).await;
    let view = session.until_status("WaitingForInput").await;
    let request = &view["pendingRequests"][0];
    assert_eq!((&request["id"], &request["kind"]), (&json!("c1"), &json!("question")));
    assert_eq!(request["questions"][0]["options"][1]["label"], "No");
    session.post("/answer", answered("c1")).await.expect(200);
    session.until_said("Refused, then.").await;
    let calls = session.tool_calls().await;
    assert_eq!(calls.len(), 1, "the question is not a separate call: {calls:#?}");
    assert!(calls[0]["result"]["content"].as_str().unwrap().contains("No"), "{calls:#?}");
    session.say("What else?", "Immediate").await;

    let closed = |activity: &[Value]| {
        let asked = activity.iter().filter(|l| l["type"] == "UserQuestion").count();
        asked >= 2
    };
    session.until_activity("the second question", closed).await;
    session.until("its end", |v| v["status"] == "Running" && v["pendingRequests"] == json!([])).await;
    session.post("/answer", answered("c2")).await.refused(409, "request-over");
    session.say("Go on.", "Immediate").await;
    let view = session.until_status("Idle").await;
    assert_eq!(view["pendingRequests"], json!([]));
    session.post("/answer", answered("c3")).await.refused(409, "request-over");

    // Without an answer the default applies.
    let plays = script(&[turn(&[asked("c1"), json!({ "waitForAnswer": "c1" }), say("On.")])]);
    let mut body = work(&server, &plays);
    body["requestTimeoutSeconds"] = json!(1);
    body["defaultAnswer"] = json!("No");
    let session = Session::start(&server.api(), body).await;
    session.until_said("On.").await;
    let activity = session.activity().await;
    let by_default =
        |l: &Value| l["summary"].as_str().unwrap().starts_with("No answer in time; default answer: No");
    assert!(activity.iter().any(by_default), "{activity:#?}");
}
