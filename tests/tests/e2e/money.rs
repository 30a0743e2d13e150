//! Budgets (decisions 31, 32).

use pilothouse_tests::{PATIENCE, Session};
use serde_json::{Value, json};

use crate::projects::{project, spawned};
use crate::scripts::{say, script, turn};
use crate::server::{Server, work};

fn spends(usd: &str) -> Value {
    json!({ "usage": { "costUsd": usd, "tokens": { "inputTokens": 1000, "outputTokens": 100 } } })
}

async fn with_cap(server: &Server, cap: &str, plays: &Value) -> Session {
    let mut body = work(server, plays);
    body["budgetCapUsd"] = json!(cap);
    Session::start(&server.api(), body).await
}

/// The owner and the agent are warned once at the threshold. At the cap the session pauses until the cap is raised.
#[tokio::test]
async fn budget_warns_once_and_the_cap_pauses_until_raised() {
    let server = Server::start(1).await;
    let heard = json!({ "waitForMessage": {} });
    let plays = script(&[turn(&[
        spends("0.05"),
        spends("0.02"),
        say("Near."),
        spends("0.02"),
        heard,
        say("Told: {{message}}"),
        spends("0.005"),
        say("Nearer."),
        spends("0.025"),
        json!({ "wait": 50 }),
        say("Over."),
        // Longer than a pause takes to reach the agent.
        json!({ "wait": 3000 }),
        say("On."),
        spends("0.01"),
    ])]);
    let session = with_cap(&server, "0.1", &plays).await;
    let view = session.until("the cap", |v| v["status"] == "Paused").await;
    let budget = &view["budget"];
    assert_eq!(budget["exhausted"], true);
    assert_eq!(
        (&budget["estimatedCostUsd"], &budget["overshootUsd"], &budget["remainingUsd"]),
        (&json!("0.12"), &json!("0.02"), &json!("0"))
    );
    assert_eq!(budget["percentUsed"].as_str().unwrap().split('.').next(), Some("120"));

    let activity = session.activity().await;
    let count =
        |part: &str| activity.iter().filter(|l| l["summary"].as_str().unwrap().contains(part)).count();
    assert_eq!(count("of the budget is spent"), 1, "{activity:#?}");
    assert_eq!(count("The budget is spent"), 1, "{activity:#?}");
    let messages = session.messages().await;
    let system: Vec<_> = messages.iter().filter(|m| m["source"] == "System").collect();
    assert_eq!(system.len(), 1, "the agent is warned once: {messages:#?}");
    assert!(system[0]["content"].as_str().unwrap().contains("90%"), "{system:#?}");
    assert!(session.said().await.iter().any(|s| s.starts_with("Told: Budget notice")));

    session.post("/resume", json!({})).await.refused(409, "budget-exhausted");
    assert_eq!(
        session
            .patch("/budget", json!({ "capUsd": "0.12" }))
            .await
            .refused(422, "cap-below-spend")
            .violated(),
        ["capUsd"]
    );
    assert_eq!(session.view().await["budget"]["hardCapUsd"], "0.1");
    let view = session.patch("/budget", json!({ "capUsd": "0.5" })).await.expect(200).body;
    assert_eq!((&view["status"], &view["budget"]["exhausted"]), (&json!("Paused"), &json!(false)));
    session.post("/resume", json!({})).await.expect(202);
    let view = session.until_status("Idle").await;
    assert_eq!(view["budget"]["estimatedCostUsd"], "0.13");
    assert_eq!(view["budget"]["tokensUsed"], 6 * 1100);
}

/// Without budget, a message is accepted and held until the cap is raised.
#[tokio::test]
async fn messages_wait_for_budget() {
    let server = Server::start(1).await;
    let session = with_cap(&server, "0.1", &script(&[turn(&[say("Spent."), spends("0.1")])])).await;
    // The turn may end before the pause reaches the agent, which also leaves the session without budget.
    session.until("rest", |v| v["status"] == "Idle" || v["status"] == "Paused").await;
    let view = session.view().await;
    assert_eq!(view["budget"]["exhausted"], true);
    session.say("More, please.", "Queued").await;
    assert_eq!(session.queue().await["items"][0]["sent"], false);
    session.patch("/budget", json!({ "capUsd": "1" })).await.expect(200);
    if session.view().await["status"] == "Paused" {
        session.post("/resume", json!({})).await.expect(202);
    }
    session.until_said("You said: More, please.").await;
}

/// Meters report running totals: spend adds up once by model and subagent, across turns and runs.
#[tokio::test]
async fn spend_adds_up_by_model_and_subagent() {
    let server = Server::start(1).await;
    let plays = script(&[turn(&[
        json!({ "usage": { "costUsd": "0.10", "model": "large", "tokens": { "inputTokens": 10, "cacheReadTokens": 5 } } }),
        json!({ "duplicate": say("twice") }),
        json!({ "subagent": { "id": "sub-1", "objective": "Look", "model": "small", "steps": [
            say("Looking."),
            { "tool": { "name": "Read", "input": { "path": "a" }, "result": "A" } },
            { "usage": { "costUsd": "0.01", "model": "small", "tokens": { "inputTokens": 7 } } },
        ] } }),
        json!({ "usage": { "costUsd": "0.005", "model": "large", "tokens": { "outputTokens": 3 }, "context": { "tokens": 5000, "limit": 200_000 } } }),
    ])]);
    let session = with_cap(&server, "5", &plays).await;
    session.until_status("Idle").await;
    let metrics = session.get("/metrics").await.expect(200).body;
    assert_eq!(metrics["totalCostUsd"], "0.115");
    let by_model = &metrics["tokenUsageByModel"];
    assert_eq!(
        (
            &by_model["large"]["inputTokens"],
            &by_model["large"]["outputTokens"],
            &by_model["large"]["cacheReadTokens"]
        ),
        (&json!(10), &json!(3), &json!(5))
    );
    assert_eq!(by_model["small"]["inputTokens"], 7);
    let costs = json!({ "large": "0.105", "small": "0.01" });
    assert_eq!(metrics["costUsdByModel"], costs);
    assert_eq!(metrics["contextWindow"]["totalTokens"], 5000);
    assert_eq!(metrics["contextWindow"]["usagePercent"].as_str().unwrap().trim_end_matches('0'), "2.5");
    let listed = session.api.all("/api/agents/sessions").await;
    assert_eq!(listed[0]["contextWindowUsagePercent"], "2.5");
    assert_eq!(listed[0]["costUsdByModel"], costs);
    let subagent = &metrics["subAgentMetrics"][0];
    assert_eq!(
        (&subagent["id"], &subagent["totalCostUsd"], &subagent["status"]),
        (&json!("sub-1"), &json!("0.01"), &json!("Completed"))
    );
    assert_eq!(subagent["costUsdByModel"], json!({ "small": "0.01" }));
    assert_eq!(session.api.all(&session.path("/messages?subAgentId=sub-1")).await[0]["content"], "Looking.");
    assert_eq!(
        session.api.all(&session.path("/tool-calls?subAgentId=sub-1")).await[0]["result"]["content"],
        "A"
    );
}

/// The cap of a project stops its agents, and costs them no trust. After it is raised and the brake released, they continue.
#[tokio::test]
async fn spending_cap_of_a_project_stops_its_agents() {
    let server = Server::start(1).await;
    let api = server.api();
    let shop = project(&api, "Shop").await;
    let path = format!("/api/projects/{}", shop["id"].as_str().unwrap());
    let cap = |usd: &str| json!({ "spendingCap": { "usd": usd, "warnAtPercent": 50 } });
    api.patch(&path, cap("0.1")).await.expect(200);
    let plays = script(&[turn(&[
        spends("0.06"),
        spends("0.06"),
        say("Working."),
        json!({ "wait": 3000 }),
        say("On."),
        json!({ "wait": 600_000 }),
    ])]);
    let (agent, session) = spawned(&server, &shop, "Builder", &plays).await;
    session.until("the brake", |view| view["status"] == "Paused").await;
    let spending = api.get(&path).await.expect(200).body["spending"].clone();
    assert_eq!(spending["overshootUsd"], "0.02");
    let brake = spending["brakeId"].as_str().unwrap().to_owned();
    let view = api.get(&format!("/api/brakes/{brake}")).await.expect(200).body;
    assert_eq!(view["initiatedBy"], "system");
    let kinds = async || {
        let notifications = api.all("/api/notifications").await;
        let kind = |it: &Value| it["kind"].as_str().unwrap().to_owned();
        let kinds: Vec<_> = notifications.iter().map(kind).collect();
        (kinds.iter().any(|kind| kind == "budget-exhausted")).then_some(kinds)
    };
    let kinds = session.until_within(PATIENCE, "the notifications", kinds).await;
    assert_eq!(kinds.iter().filter(|kind| *kind == "budget-warning").count(), 1, "{kinds:?}");

    api.patch(&path, cap("5")).await.expect(200);
    assert_eq!(session.view().await["status"], "Paused", "a raised cap does not release the brake");
    api.post(&format!("/api/brakes/{brake}/release"), json!({})).await.expect(200);
    session.until_said("On.").await;
    assert_eq!(api.get(&format!("/api/trust/{agent}")).await.expect(200).body["exactScore"], 50.0);
    assert_eq!(api.get(&path).await.expect(200).body["spending"].get("brakeId"), None);
}
