//! A search in a long session reads a limited part of its journal per request.

use http::Method;
use pilothouse_domain::journal::Cause;
use pilothouse_domain::{AgentSessionId, SessionEvent, UserId};
use pilothouse_store::Commit;
use pilothouse_test_support::{create_session_with_run, new_session};
use serde_json::{Value, json};

use crate::fixture::ApiFixture;

/// Records one entry for each text.
async fn record(fixture: &ApiFixture, id: AgentSessionId, cause: &Cause, texts: &[String]) {
    let app = &fixture.app;
    // A transaction has a largest size.
    for some in texts.chunks(30) {
        let mut loaded = app.store.conversation(id).await.unwrap().unwrap();
        let mut commit = Commit::new();
        let logged = |text: &String| vec![SessionEvent::DecisionLogged { content: text.clone() }];
        let (last, others) = some.split_last().unwrap();
        for text in others {
            app.record_entry(&mut commit, &mut loaded, cause.clone(), logged(text)).unwrap();
        }
        app.record(&mut commit, &mut loaded, cause.clone(), logged(last)).unwrap();
        app.store.commit(commit).await.unwrap();
    }
}

/// Searches until the end. Returns the matches, and the reads of each request.
async fn search(fixture: &ApiFixture, id: AgentSessionId, query: &str) -> (Vec<Value>, Vec<usize>) {
    let (mut matches, mut reads, mut cursor) = (Vec::new(), Vec::new(), String::new());
    loop {
        let path = format!("/api/agents/sessions/{id}/search?query={query}&limit=3{cursor}");
        let (reply, used) = fixture.counted("ada", &Method::GET, &path, None).await;
        assert_eq!(reply.status, 200, "{:#}", reply.body);
        let items = reply.body["items"].as_array().unwrap();
        assert!(items.len() <= 3, "{items:#?}");
        matches.extend(items.iter().cloned());
        reads.push(used);
        match reply.body["nextCursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => return (matches, reads),
        }
    }
}

async fn session(fixture: &ApiFixture) -> AgentSessionId {
    let new = new_session(&UserId::parse("ada").unwrap(), "10");
    create_session_with_run(&fixture.app, new).await.0
}

#[tokio::test]
async fn search_reads_a_limited_number_of_entries() {
    let fixture = ApiFixture::new().await;
    let id = session(&fixture).await;
    let mut texts: Vec<_> = (0..2500).map(|n| format!("line {n}")).collect();
    texts[0] = "The needle at the begin".to_owned();
    texts[2498] = "A needle near the end".to_owned();
    record(&fixture, id, &Cause::Clock, &texts).await;

    let (matches, reads) = search(&fixture, id, "needle").await;
    let excerpts: Vec<_> = matches.iter().map(|found| &found["excerpt"]).collect();
    let expected = [&json!("Decision: A needle near the end"), &json!("Decision: The needle at the begin")];
    assert_eq!(excerpts, expected, "latest first");
    // The session, and 2,000 entries in 20 reads.
    assert_eq!(reads[0], 21);
    assert_eq!(reads.len(), 2, "the rest takes one request: {reads:?}");

    let (matches, reads) = search(&fixture, id, "missing").await;
    assert_eq!((matches.len(), reads.len()), (0, 2), "a page without a match has the cursor of the next one");
    // A full page ends the request.
    let (matches, reads) = search(&fixture, id, "line%20249").await;
    assert_eq!(matches.len(), 12, "{matches:#?}");
    assert_eq!(reads[..2], [2, 2], "{reads:?}");
    let sequences: Vec<_> = matches.iter().map(|found| found["journalSequence"].as_u64().unwrap()).collect();
    assert!(sequences.is_sorted_by(|one, next| one > next), "each once, in order: {sequences:?}");
}

#[tokio::test]
async fn search_reads_a_limited_number_of_expired_entries() {
    let fixture = ApiFixture::new().await;
    let id = session(&fixture).await;
    let mut texts: Vec<_> = (0..2500).map(|n| format!("line {n}")).collect();
    texts[2498] = "A needle near the end".to_owned();
    record(&fixture, id, &Cause::Clock, &texts).await;
    fixture.table.expire_journals_up_to(2400);
    let (matches, reads) = search(&fixture, id, "needle").await;
    assert_eq!(matches.len(), 1, "{matches:#?}");
    // The session, and 2,000 entries in 20 reads.
    assert_eq!((reads[0], reads.len()), (21, 2), "{reads:?}");
}

#[tokio::test]
async fn search_reads_a_limited_number_of_bytes() {
    let fixture = ApiFixture::new().await;
    let id = session(&fixture).await;
    let body = json!({ "content": "x".repeat(100_000) });
    let large = Cause::AgentApi { function: "agent-log".to_owned(), body };
    let mut texts: Vec<_> = (0..120).map(|n| format!("line {n}")).collect();
    texts[0] = "The needle at the begin".to_owned();
    record(&fixture, id, &large, &texts).await;
    let (matches, reads) = search(&fixture, id, "needle").await;
    assert_eq!((matches.len(), reads.len()), (1, 2), "8 MB are fewer than 120 entries: {reads:?}");
    assert!(reads.iter().all(|reads| *reads < 30), "{reads:?}");
}
