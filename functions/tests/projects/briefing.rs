//! The briefing of a project (decision 87), from the stored records.

use std::time::Duration;

use pilothouse_domain::TurnId;
use pilothouse_domain::value::SessionOutcome;
use pilothouse_functions::events::intake;
use pilothouse_test_support::{received, sealed_event};

use super::authorization::call;
use super::*;

const HOUR: Duration = Duration::from_hours(1);

impl ProjectFixture {
    fn briefing_path(&self, query: &str) -> String {
        format!("/api/projects/{}/briefing{query}", self.project)
    }

    async fn briefing(&self) -> Value {
        self.got(&self.briefing_path("")).await
    }

    /// Completes so many turns that the latest entries of the session contain nothing else.
    async fn complete_many_turns(&self) {
        for turn in 0..60 {
            let turn: TurnId = format!("many-{turn}").parse().unwrap();
            self.observe(AgentFact::TurnStarted { turn: turn.clone(), message: None }).await;
            let outcome = SessionOutcome::Completed;
            self.observe(AgentFact::TurnCompleted { turn, output: None, outcome }).await;
        }
    }
}

fn texts(section: &Value) -> Vec<&str> {
    section["sentences"].as_array().unwrap().iter().map(|it| it["text"].as_str().unwrap()).collect()
}

const SECTIONS: [&str; 5] = ["attention", "finished", "risks", "automaticDecisions", "cost"];

fn count(briefing: &Value) -> u64 {
    SECTIONS.iter().map(|section| briefing[section]["count"].as_u64().unwrap()).sum()
}

/// All links of a briefing.
fn links(briefing: &Value) -> Vec<&Value> {
    let sentences = SECTIONS.iter().flat_map(|section| briefing[section]["sentences"].as_array().unwrap());
    sentences.flat_map(|sentence| sentence["links"].as_array().unwrap()).collect()
}

#[tokio::test]
async fn links_of_a_briefing_lead_to_their_events() {
    let fixture = ProjectFixture::working().await;
    fixture.spend("1.5").await;
    let run = fixture.run().await;
    for id in ["t1", "t2"] {
        assert_eq!(fixture.ask(run, &call(id, "Bash", "ls")).await.0, 200);
    }
    fixture.advance(Duration::from_secs(5));
    fixture.complete_turn(true).await;
    let scope = json!({ "type": "project", "projectId": fixture.project });
    let (_, brake) = fixture.send("POST", "/api/brake", json!({ "scope": scope, "reason": "Look" })).await;
    fixture.react_to("brake", brake["id"].as_str().unwrap(), 1).await;
    fixture.advance(Duration::from_secs(5));

    let briefing = fixture.briefing().await;
    assert_eq!(texts(&briefing["finished"]), ["Builder finished 1 turn."]);
    assert_eq!(texts(&briefing["risks"]), ["A brake stops the project: “Look”."]);
    let decided = texts(&briefing["automaticDecisions"]);
    assert!(
        matches!(decided[..], [calls] if calls.starts_with("2 calls of Bash by Builder were allowed")),
        "{decided:?}"
    );
    assert_eq!(texts(&briefing["cost"]), ["Builder spent $1.5 in 1 turn."]);
    assert_eq!(
        (&briefing["cost"]["spentUsd"], &briefing["cost"]["totalUsd"]),
        (&json!("1.5"), &json!("1.5"))
    );
    assert_eq!(briefing.get("incomplete"), None, "{briefing}");
    for link in links(&briefing) {
        let (status, body) = fixture.send("GET", link["href"].as_str().unwrap(), Value::Null).await;
        assert_eq!(status, 200, "{link}: {body}");
        match link["type"].as_str().unwrap() {
            "decision_log" => {
                let ids: Vec<_> =
                    body["items"].as_array().unwrap().iter().map(|it| &it["verdictId"]).collect();
                let entry = link["entry"].as_str().unwrap();
                assert!(
                    ids.iter().any(|id| entry == format!("verdict-{}", id.as_str().unwrap())),
                    "{entry}: {ids:?}"
                );
            }
            "session_event" => {
                let line = &body["items"][0];
                assert!(
                    line["id"].as_str().unwrap().starts_with(&format!("{}.", link["sequence"])),
                    "{link}: {line}"
                );
            }
            _ => {}
        }
    }
}

#[tokio::test]
async fn open_decisions_are_listed_also_from_before_the_period() {
    let fixture = ProjectFixture::working().await;
    fixture.observe(permission("q1")).await;
    fixture.advance(HOUR * 48);
    let briefing = fixture.briefing().await;
    assert_eq!(
        texts(&briefing["attention"]),
        ["Builder asks to call Bash with {}. It expires at 2026-05-02 12:00 UTC."]
    );
    assert_eq!(count(&briefing), 1, "nothing happened in the last 24 hours: {briefing}");
    let old = fixture.got(&fixture.briefing_path("?since=2026-05-01T13:00:00%2B01:00")).await;
    assert_eq!(old["since"], "2026-05-01T12:00:00.000Z", "of any time zone");
}

#[tokio::test]
async fn period_is_checked_and_ends_now() {
    let fixture = ProjectFixture::spawned().await;
    let briefing = fixture.briefing().await;
    assert_eq!(
        (&briefing["since"], &briefing["until"]),
        (&json!("2026-04-30T12:00:00.000Z"), &json!("2026-05-01T12:00:00.000Z"))
    );
    for wrong in
        ["tomorrow", "2026-05-01", "2026-05-01T12:00:00", "2026-05-01T12:00:01Z", "2026-01-01T00:00:00Z"]
    {
        let path = fixture.briefing_path(&format!("?since={wrong}"));
        let (status, body) = fixture.send("GET", &path, Value::Null).await;
        assert_eq!((status, &body["violations"][0]["field"]), (422, &json!("since")), "{wrong}: {body}");
    }
    let next = format!("?since={}", briefing["until"].as_str().unwrap());
    assert_eq!(count(&fixture.got(&fixture.briefing_path(&next)).await), 0, "an empty period");
}

#[tokio::test]
async fn briefings_of_other_owners_do_not_exist() {
    let fixture = ProjectFixture::working().await;
    let (status, body) = fixture.send_as("eve", "GET", &fixture.briefing_path(""), Value::Null).await;
    assert_eq!((status, &body["code"]), (404, &json!("not-found")));
    // The owner's decisions outside of the project are not part of it.
    let (_, other) = fixture.send("POST", "/api/projects", json!({ "name": "Other" })).await;
    fixture.observe(permission("q1")).await;
    let path = format!("/api/projects/{}/briefing", other["id"].as_str().unwrap());
    assert_eq!(count(&fixture.got(&path).await), 0);
}

#[tokio::test]
async fn archived_projects_have_a_briefing() {
    let fixture = ProjectFixture::working().await;
    fixture.complete_turn(false).await;
    let path = format!("/api/projects/{}/archive", fixture.project);
    assert_eq!(fixture.send("POST", &path, json!({})).await.0, 200);
    fixture.advance(HOUR);
    let briefing = fixture.briefing().await;
    assert_eq!(briefing["archivedAt"], "2026-05-01T12:00:00.000Z");
    assert_eq!(texts(&briefing["finished"]), ["Builder finished 1 turn and is idle."]);
}

#[tokio::test]
async fn spend_before_the_period_does_not_count() {
    let fixture = ProjectFixture::working().await;
    fixture.spend("2").await;
    fixture.complete_turn(false).await;
    fixture.advance(HOUR * 25);
    assert_eq!(fixture.briefing().await["cost"]["spentUsd"], "0");
    fixture.spend("2.25").await;
    fixture.advance(HOUR);
    let briefing = fixture.briefing().await;
    assert_eq!(texts(&briefing["cost"]), ["Builder spent $0.25, and $2.25 in total."]);
    assert_eq!(briefing["finished"]["count"], 0, "the turn was before");
}

#[tokio::test]
async fn long_journals_are_searched_for_the_begin() {
    let fixture = ProjectFixture::working().await;
    fixture.complete_turn(false).await;
    fixture.spend("2").await;
    fixture.advance(HOUR * 25);
    fixture.complete_many_turns().await;
    fixture.spend("3").await;
    fixture.advance(HOUR);
    let briefing = fixture.briefing().await;
    assert_eq!(texts(&briefing["cost"]), ["Builder spent $1 in 60 turns, and $3 in total."]);
    let [turns] = &briefing["finished"]["sentences"].as_array().unwrap()[..] else { panic!("{briefing}") };
    assert_eq!(
        (&turns["text"], &turns["eventCount"]),
        (&json!("Builder finished 60 turns and is idle."), &json!(60))
    );
    assert_eq!(turns["links"].as_array().unwrap().len(), 5);
    assert_eq!(briefing["incomplete"], json!(["sessions"]), "not all entries were read");
}

#[tokio::test]
async fn unknown_spend_makes_the_cost_partial() {
    let fixture = ProjectFixture::working().await;
    fixture.complete_turn(false).await;
    fixture.spend("2").await;
    fixture.complete_many_turns().await;
    fixture.advance(HOUR * 25);
    fixture.spend("3").await;
    fixture.complete_many_turns().await;
    fixture.advance(HOUR);
    let briefing = fixture.briefing().await;
    assert_eq!(
        texts(&briefing["cost"]),
        ["Builder spent $3 in total; how much of it in this period is not known."]
    );
    assert_eq!((&briefing["cost"]["isPartial"], &briefing["cost"]["totalUsd"]), (&json!(true), &json!("3")));
}

#[tokio::test]
async fn spend_is_unknown_when_the_entries_before_the_period_expired() {
    let fixture = ProjectFixture::working().await;
    fixture.spend("2").await;
    let stored = fixture.app.store.journal(fixture.session, 0, 100).await.unwrap();
    fixture.advance(HOUR * 25);
    fixture.spend("3").await;
    fixture.advance(HOUR);
    for entry in stored {
        fixture.expire_entry(entry.sequence).await;
    }
    let briefing = fixture.briefing().await;
    assert_eq!(
        texts(&briefing["cost"]),
        ["Builder spent $3 in total; how much of it in this period is not known."]
    );
    assert_eq!(briefing["incomplete"], json!(["sessions"]));
}

#[tokio::test]
async fn sessions_that_an_agent_left_count_in_the_period() {
    let mut fixture = ProjectFixture::working().await;
    fixture.spend("1").await;
    fixture.complete_turn(false).await;
    fixture.advance(HOUR * 25);
    fixture.observe(AgentFact::TurnStarted { turn: "again".parse().unwrap(), message: None }).await;
    fixture.spend("1.5").await;
    fixture.observe(AgentFact::ContextExhausted).await;
    fixture.end_run().await;
    fixture.react().await;
    let current = fixture.loaded_agent().await.value.current_session_id();
    assert_ne!(std::mem::replace(&mut fixture.session, current), current, "another session continues");
    fixture.react().await;
    fixture.start_turn().await;
    fixture.spend("0.25").await;
    fixture.advance(HOUR);
    let briefing = fixture.briefing().await;
    assert_eq!(briefing["cost"]["spentUsd"], "0.75", "of both sessions: {briefing}");
    assert_eq!(briefing["cost"]["totalUsd"], "1.75");
}

#[tokio::test]
async fn failed_agents_are_a_risk_with_their_trust() {
    let fixture = ProjectFixture::working().await;
    fixture.fail().await;
    fixture.react().await;
    fixture.react_to_agent().await;
    fixture.advance(HOUR);
    let briefing = fixture.briefing().await;
    let shown = (texts(&briefing["attention"]), texts(&briefing["risks"]));
    assert!(
        matches!((&shown.0[..], &shown.1[..]), ([asked], [trust])
            if asked.starts_with("Builder failed (AgentError) and asks how to continue")
            && trust.starts_with("The trust in Builder went from 50 to 49: 1 × task abandoned or max turns")),
        "{shown:?}"
    );
}

#[tokio::test]
async fn decision_log_is_limited_to_a_period() {
    let fixture = ProjectFixture::working().await;
    let run = fixture.run().await;
    for id in ["t1", "t2", "t3"] {
        assert_eq!(fixture.ask(run, &call(id, "Bash", "ls")).await.0, 200);
        fixture.advance(Duration::from_secs(10));
    }
    let path = format!("/api/projects/{}/decision-log", fixture.project);
    let calls = async |query: &str| {
        let page = fixture.got(&format!("{path}{query}")).await;
        let items = page["items"].as_array().unwrap().iter();
        items.map(|it| it["toolCallId"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(calls("?since=2026-05-01T12:00:10Z").await, ["t3", "t2"]);
    assert_eq!(calls("?until=2026-05-01T12:00:20Z").await, ["t2", "t1"]);
    assert_eq!(calls("?since=2026-05-01T12:00:10Z&until=2026-05-01T12:00:20Z").await, ["t2"]);
    let page = fixture.got(&format!("{path}?limit=1&since=2026-05-01T12:00:10Z")).await;
    let next = page["nextCursor"].as_str().unwrap();
    assert_eq!(calls(&format!("?since=2026-05-01T12:00:10Z&cursor={next}")).await, ["t2"]);
    let (status, _) = fixture.send("GET", &format!("{path}?cursor={next}"), Value::Null).await;
    assert_eq!(status, 422, "the cursor of another period");
}

/// A notice of the sidecar that lists files of 3 bytes.
fn list_of_files(paths: &[&str]) -> Value {
    let files = paths.iter().map(|path| {
        json!({ "path": path, "sizeBytes": 3, "changedAt": "2026-05-01T11:00:00.000Z", "reason": "never_reported" })
    });
    let detail = json!({
        "files": files.collect::<Vec<_>>(), "total": paths.len(), "totalBytes": 3 * paths.len(), "complete": true,
    });
    json!({ "type": "notice", "name": "unreported_files", "summary": "Files", "detail": detail })
}

#[tokio::test]
async fn list_of_unreported_files_ends_when_they_are_saved() {
    let fixture = ProjectFixture::working().await;
    let run = fixture.run().await;
    let report = async |sequence: u64, paths: &[&str]| {
        let sealed = sealed_event(&fixture.app, fixture.session, run, Some(sequence), list_of_files(paths));
        assert_eq!(intake::process(&fixture.app, vec![received(sealed)]).await.done.len(), 1);
        fixture.advance(Duration::from_secs(1));
    };
    let upload = async |path: &str, text: &str| {
        let body = json!({ "path": path, "kind": "document", "workstream": "api", "text": text });
        assert_eq!(fixture.send("POST", "/api/artifacts", body).await.0, 201);
        fixture.advance(Duration::from_secs(1));
    };
    let risks = async || texts(&fixture.briefing().await["risks"]).len();
    report(1, &["a.md", "b.md"]).await;
    assert_eq!(risks().await, 1);
    upload("a.md", "one").await;
    upload("b.md", "other").await;
    assert_eq!(risks().await, 1, "the artifact has another content");
    fixture.advance(Duration::from_secs(1));
    report(2, &["a.md"]).await;
    assert_eq!(risks().await, 0, "the person has saved it");
    report(3, &["c.md"]).await;
    assert_eq!(risks().await, 1);
    report(4, &[]).await;
    assert_eq!(risks().await, 0, "a later run withdraws the list");
}
