//! Chains of sessions.

use serde_json::{Value, json};

use super::recorder::Recorder;
use crate::scripts::{say, turn};

fn exhausts() -> Value {
    turn(&[
        say("Part one"),
        json!({ "contextExhausted": {} }),
        json!({ "handoff": { "summary": "Part one was done.", "remainingWork": "Part two.", "keyDecisions": "None." } }),
    ])
}

#[tokio::test]
async fn chains() {
    let mut on = Recorder::start("chains").await;
    let mut ids = Vec::new();
    for (name, goes_on) in [
        ("completed", vec![say("Part two.")]),
        ("cancelled", vec![say("Part two."), json!({ "wait": 600_000 })]),
    ] {
        let plays = json!({ "steps": [exhausts()], "continuations": [[turn(&goes_on)]] });
        let first = on.started(name, &plays).await;
        let view = first.until("a continuation", |view| view["continuation"].is_string()).await;
        let second = first.api.session(view["continuation"].as_str().unwrap());
        on.name(&second.id, &format!("{name} continuation"));
        let chain = view["chainId"].as_str().unwrap().to_owned();
        on.name(&chain, &format!("{name} chain"));
        second.until_said("Part two.").await;
        second.until_status(if name == "completed" { "Idle" } else { "Running" }).await;
        ids.push((chain, first, second));
    }
    let path = "/api/agents/chains";
    let page = on.get(&format!("{path}?limit=1")).await.expect(200).body;
    let cursor = page["nextCursor"].as_str().unwrap();
    on.get(&format!("{path}?limit=1&cursor={cursor}")).await.expect(200);
    let [(completed, first, second), (cancelled, ..)] = &ids[..] else { unreachable!("two chains") };
    on.get(&first.path("")).await.expect(200);
    on.get(&second.path("")).await.expect(200);
    on.get(&format!("{path}/{completed}")).await.expect(200);
    on.post(&first.path("/cancel"), json!({})).await.expect(409);
    on.post(&format!("{path}/{cancelled}/complete"), json!({})).await.expect(409);
    on.post(&format!("{path}/{completed}/complete"), json!({})).await.expect(200);
    on.post(&format!("{path}/{completed}/complete"), json!({})).await.expect(409);
    on.post(&format!("{path}/{cancelled}/cancel"), json!({})).await.expect(200);
    ids[1].2.until_status("Cancelled").await;
    on.get(&format!("{path}?status=Cancelled")).await.expect(200);
    on.get(&format!("{path}?status=Asleep")).await.expect(422);
    on.finish();
}
