//! Queries over recorded data (S0 8.7; decisions 1, 38; AG-017).

use pilothouse_tests::{PATIENCE, Session};
use serde_json::{Value, json};

use crate::scripts::{say, script, short, turn};
use crate::server::{Server, started, work};

/// The history lists the sessions that were created in a time range, with outcome, cost and duration.
#[tokio::test]
async fn history_covers_a_time_range() {
    let server = Server::start(1).await;
    let mut sessions = Vec::new();
    for _ in 0..3 {
        let session = started(&server, &short()).await;
        session.until_status("Idle").await;
        sessions.push(session);
    }
    sessions[1].post("/close", json!({})).await.expect(200);
    let created = async |at: usize| sessions[at].view().await["createdAt"].as_str().unwrap().to_owned();
    let (second, third) = (created(1).await, created(2).await);
    let ids = async |query: &str| -> Vec<String> {
        let all = server.api().all(&format!("/api/agents/sessions/history{query}")).await;
        all.iter().map(|one| one["id"].as_str().unwrap().to_owned()).collect()
    };
    let [one, two, three] = [0, 1, 2].map(|at: usize| sessions[at].id.clone());
    assert_eq!(ids("").await, [three.clone(), two.clone(), one.clone()]);
    assert_eq!(ids(&format!("?dateFrom={second}")).await, [three.clone(), two.clone()]);
    assert_eq!(ids(&format!("?dateFrom={second}&dateTo={third}")).await, std::slice::from_ref(&two));
    assert_eq!(ids(&format!("?dateTo={second}")).await, [one]);
    assert_eq!(ids("?dateTo=2001-01-01T00:00:00Z").await, [] as [String; 0]);
    let range = format!("/api/agents/sessions/history?dateFrom={second}&dateTo={third}");
    let closed = &server.api().all(&range).await[0];
    assert_eq!((&closed["outcome"], &closed["status"]), (&json!("closed"), &json!("Completed")));
    assert!(closed["elapsedSeconds"].is_u64() && closed["totalCostUsd"].is_string(), "{closed}");
}

/// Sessions are found by words of their names, labels and objectives, by their owner only.
#[tokio::test]
async fn sessions_are_found_by_their_words() {
    let server = Server::start(1).await;
    let start = async |name: &str, objective: &str, labels: Value| {
        let mut body = work(&server, &short());
        body["name"] = json!(name);
        body["objective"] = json!(objective);
        body["labels"] = labels;
        let session = Session::start(&server.api(), body).await;
        session.until_status("Idle").await;
        session
    };
    let teapots = start("teapots", "Count the cups of the customers", json!({})).await;
    let cups = start("cups", "Wash up", json!({ "team": "kitchen" })).await;
    let search = async |query: &str| -> Vec<String> {
        let found = server.api().get(&format!("/api/agents/search?query={query}")).await.expect(200).body;
        let items = found["items"].as_array().unwrap().clone();
        items.iter().map(|hit| hit["session"]["name"].as_str().unwrap().to_owned()).collect()
    };
    let indexed = async || (search("cups").await.len() == 2).then_some(());
    cups.until_within(PATIENCE, "the index", indexed).await;
    assert_eq!(search("cups").await, ["cups", "teapots"], "a name counts more than an objective");
    assert_eq!(search("customers%20cups").await, ["teapots", "cups"], "more words come first");
    assert_eq!(search("Kitchen").await, ["cups"]);
    assert_eq!(search("saucers").await, [] as [String; 0]);
    let others = server.api_of("someone-else").get("/api/agents/search?query=cups").await.expect(200);
    assert_eq!(others.body["items"], json!([]));
    server.api().get("/api/agents/search?query=the").await.refused(422, "validation-failed");
    let hit = &server.api().get("/api/agents/search?query=teapots").await.expect(200).body["items"][0];
    assert_eq!((&hit["session"]["id"], &hit["matchedTerms"]), (&json!(teapots.id), &json!(1)));
}

/// Words are found in the whole journal of a session, latest first, by its owner only.
#[tokio::test]
async fn words_are_found_in_a_whole_session() {
    let server = Server::start(1).await;
    let grep = json!({ "tool": { "id": "grep", "name": "Bash", "input": { "command": "grep -rn \"needle\" src" },
        "result": "src/hay.rs:7: let needle = 1;" } });
    let steps = [
        json!({ "think": "Where is the Needle?" }),
        grep,
        json!({ "notice": { "name": "slow", "summary": "The NEEDLE is small" } }),
        json!({ "repeat": { "times": 250, "steps": [say("Again and again.")] } }),
    ];
    let session = started(&server, &script(&[turn(&steps)])).await;
    session.until_status("Idle").await;
    let lines = session.activity().await;
    let found = session.api.all(&session.path("/search?query=NEEDLE")).await;
    let types: Vec<_> = found.iter().map(|found| (&found["type"], &found["thinking"])).collect();
    let (no, yes) = (&json!(false), &json!(true));
    let expected = [
        (&json!("Notice"), no),
        (&json!("ToolCallEnd"), no),
        (&json!("ToolCallStart"), no),
        (&json!("Message"), yes),
    ];
    assert_eq!(types, expected, "{found:#?}");
    for found in &found {
        let line = lines.iter().find(|line| line["id"] == found["activityId"]).unwrap();
        assert_eq!((&line["type"], &line["timestamp"]), (&found["type"], &found["timestamp"]));
        let excerpt: Vec<char> = found["excerpt"].as_str().unwrap().chars().collect();
        let words = found["words"].as_array().unwrap();
        let at = |word: &Value, end: &str| usize::try_from(word[end].as_u64().unwrap()).unwrap();
        let words = words.iter().map(|word| String::from_iter(&excerpt[at(word, "start")..at(word, "end")]));
        assert_eq!(words.map(|word| word.to_lowercase()).collect::<Vec<_>>(), ["needle"], "{found:#}");
    }
    let call = session.api.all(&session.path("/search?query=needle%20%22%20GREP")).await;
    let ids: Vec<_> = call.iter().map(|found| &found["activityId"]).collect();
    assert_eq!(ids, [&found[2]["activityId"]], "all words, in any order");
    let (mut paged, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = session.get(&format!("/search?query=needle&limit=1{cursor}")).await.expect(200).body;
        paged.extend(page["items"].as_array().unwrap().iter().cloned());
        match page["nextCursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => break,
        }
    }
    assert_eq!(paged, found, "the pages add up to the whole list");
    let said = session.api.all(&session.path("/search?query=again")).await;
    assert_eq!(said.len(), 250, "also beyond a page");

    for query in ["", "?query=", "?query=%20%09"] {
        let refused = session.get(&format!("/search{query}")).await.refused(422, "validation-failed");
        assert_eq!(refused.violated(), ["query"], "{query}");
    }
    let long =
        session.get(&format!("/search?query={}", "x".repeat(201))).await.refused(422, "validation-failed");
    assert_eq!(long.violated(), ["query"]);
    for cursor in ["none", "j99999999", "j1.1"] {
        let refused = session.get(&format!("/search?query=x&cursor={cursor}")).await;
        assert_eq!(refused.refused(422, "validation-failed").violated(), ["cursor"], "{cursor}");
    }
    let stranger = server.api_of("someone-else");
    stranger.get(&session.path("/search?query=needle")).await.refused(404, "not-found");
}

/// A page of activity has 200 lines by default, and `since` starts with the lines received at that time.
#[tokio::test]
async fn activity_can_start_at_a_time() {
    let server = Server::start(1).await;
    let talk = json!({ "repeat": { "times": 250, "steps": [say("Again.")] } });
    let session = started(&server, &script(&[turn(&[talk, say("Done.")])])).await;
    session.until_status("Idle").await;
    let all = session.activity().await;
    let page = session.get("/activity").await.expect(200).body;
    assert!(all.len() > 250, "{}", all.len());
    assert_eq!(page["items"].as_array().unwrap().len(), 200, "the default of a page");
    for at in [0, all.len() / 2, all.len() - 1] {
        let since = all[at]["timestamp"].as_str().unwrap();
        let expected: Vec<&Value> =
            all.iter().filter(|line| line["timestamp"].as_str().unwrap() >= since).collect();
        let found = session.api.all(&session.path(&format!("/activity?since={since}"))).await;
        assert_eq!(found.iter().collect::<Vec<_>>(), expected, "since {since}");
    }
    let never = session.api.all(&session.path("/activity?since=2099-01-01T00:00:00Z")).await;
    assert_eq!(never, [] as [Value; 0]);
}

/// The first result of a call counts. A result without a call is listed as a call of its own.
#[tokio::test]
async fn results_are_listed_with_their_calls() {
    let server = Server::start(1).await;
    let result = |call: &str, text: &str, failed: bool| {
        let event = json!({ "type": "tool_result", "toolCallId": call, "content": text, "isError": failed });
        json!({ "raw": event })
    };
    let read = json!({ "tool": { "id": "read", "name": "Read", "result": "A" } });
    let steps = [read, result("read", "B", true), result("unheard", "C", false)];
    let session = started(&server, &script(&[turn(&steps)])).await;
    session.until_status("Idle").await;
    let calls = session.tool_calls().await;
    let listed: Vec<_> = calls
        .iter()
        .map(|call| json!([call["id"], call["toolName"], call["status"], call["result"]["content"]]))
        .collect();
    let expected = [json!(["read", "Read", "Success", "A"]), json!(["unheard", "unknown", "Success", "C"])];
    assert_eq!(listed, expected);
    let (mut paged, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = session.get(&format!("/tool-calls?limit=1{cursor}")).await.expect(200).body;
        paged.extend(page["items"].as_array().unwrap().iter().cloned());
        match page["nextCursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => break,
        }
    }
    assert_eq!(paged, calls, "a second result is not listed as a call");
    let events = session.get("/events").await.expect(200).body;
    let results = events["items"].as_array().unwrap().iter().filter(|e| e["eventType"] == "tool_result");
    assert_eq!(results.count(), 3, "each result is recorded: {events:#}");
}

#[tokio::test]
async fn records_that_the_agent_never_made_are_not_found() {
    let server = Server::start(1).await;
    let session = started(&server, &short()).await;
    session.until_status("Idle").await;
    for record in ["/plan", "/task-list", "/deliverables"] {
        session.get(record).await.refused(404, "not-found");
    }
}

/// The raw events of every run can be read from any sequence, in order and without gaps, each with its outcome.
#[tokio::test]
async fn raw_events_are_replayed_from_any_sequence() {
    let server = Server::start(1).await;
    let session = started(
        &server,
        &json!({ "steps": [
            { "turn": { "steps": [say("One."), { "malformed": { "type": "nonsense" } }, { "end": { "error": true } }] } },
            { "turn": { "steps": [say("Two.")] } },
        ] }),
    )
    .await;
    session.until_status("Failed").await;
    session.post("/retry", json!({})).await.expect(202);
    session.until_status("Idle").await;
    session.until_said("Two.").await;

    let all = session.api.all(&session.path("/events")).await;
    for run in [1, 2] {
        let of_run: Vec<&Value> = all.iter().filter(|event| event["run"] == run).collect();
        let sequences: Vec<u64> = of_run.iter().filter_map(|event| event["sequence"].as_u64()).collect();
        let expected: Vec<u64> = (1..=sequences.len() as u64).collect();
        assert!(sequences.len() > 3);
        assert_eq!(sequences, expected, "run {run}: no gap, and in order");
        let by_number = session.api.all(&session.path(&format!("/events?run={run}"))).await;
        assert_eq!(by_number.iter().collect::<Vec<_>>(), of_run);
        let id = of_run[0]["runId"].as_str().unwrap();
        assert_eq!(session.api.all(&session.path(&format!("/events?run={id}"))).await, by_number);
        let later = session.api.all(&session.path(&format!("/events?run={run}&from=3"))).await;
        assert_eq!(later[0]["sequence"], 3);
    }
    let quarantined: Vec<_> = all.iter().filter(|event| event["outcome"] == "quarantined").collect();
    assert_eq!(quarantined.len(), 1, "{all:#?}");
    assert_eq!(quarantined[0]["body"], json!({ "type": "nonsense" }));
    assert!(!quarantined[0]["errors"].as_array().unwrap().is_empty());
    let said = all.iter().find(|event| event["body"]["content"]["text"] == "One.").unwrap();
    assert_eq!((&said["outcome"], &said["eventType"]), (&json!("applied"), &json!("assistant_message")));

    let from = said["journalSequence"].as_u64().unwrap();
    let rest = session.api.all(&session.path(&format!("/events?from={from}"))).await;
    let expected: Vec<_> =
        all.iter().filter(|event| event["journalSequence"].as_u64().unwrap() >= from).collect();
    assert_eq!(rest.iter().collect::<Vec<_>>(), expected);
    let mut small = Vec::new();
    let mut cursor = String::new();
    loop {
        let page = session.get(&format!("/events?limit=2{cursor}")).await.expect(200).body;
        small.extend(page["items"].as_array().unwrap().iter().cloned());
        match page["nextCursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => break,
        }
    }
    assert_eq!(small, all, "the pages add up to the whole list");
}
