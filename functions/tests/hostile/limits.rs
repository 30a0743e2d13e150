//! Limits hold for concurrent requests.

use std::sync::Arc;

use http::Method;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::fixture::{ApiFixture, Reply};

async fn at_once(
    fixture: &Arc<ApiFixture>,
    count: usize,
    request: impl Fn(usize) -> (String, Value),
) -> Vec<Reply> {
    let mut sent = JoinSet::new();
    for at in 0..count {
        let (fixture, (path, body)) = (Arc::clone(fixture), request(at));
        sent.spawn(async move {
            // Retries after too many write conflicts.
            loop {
                let reply = fixture.send(Ok("ada"), &Method::POST, &path, Some(body.clone())).await;
                if reply.body["code"] != "version-conflict" {
                    return reply;
                }
            }
        });
    }
    sent.join_all().await
}

fn accepted(replies: &[Reply]) -> usize {
    replies.iter().filter(|reply| reply.status < 300).count()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn concurrent_registrations_keep_the_limit_of_twenty_webhooks() {
    let fixture = Arc::new(ApiFixture::new().await);
    let replies = at_once(&fixture, 60, |at| {
        ("/api/webhooks".to_owned(), json!({ "url": format!("https://e{at}.example/") }))
    })
    .await;
    assert_eq!(accepted(&replies), 20);
    assert!(replies.iter().all(|reply| matches!(reply.status, 201 | 422)), "{replies:#?}");
    let kept = fixture.send(Ok("ada"), &Method::GET, "/api/webhooks", None).await;
    let kept = kept.body["items"].as_array().unwrap();
    assert_eq!(kept.len(), 20);
    // A removed webhook frees one place.
    let path = format!("/api/webhooks/{}", kept[0]["id"].as_str().unwrap());
    assert_eq!(fixture.send(Ok("ada"), &Method::DELETE, &path, None).await.status, 204);
    let replies =
        at_once(&fixture, 5, |_| ("/api/webhooks".to_owned(), json!({ "url": "https://late.example/" })))
            .await;
    assert_eq!(accepted(&replies), 1);
}

/// The other limits of an owner are on aggregates, which are committed under the version that was checked.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn concurrent_requests_keep_the_limits_of_names_and_parts() {
    let fixture = Arc::new(ApiFixture::new().await);
    let one = |name: &str| json!({ "name": name, "description": "How" });
    let replies = at_once(&fixture, 20, |_| ("/api/agents/skills".to_owned(), one("Testing"))).await;
    assert_eq!(accepted(&replies), 1, "{replies:#?}");
    assert!(replies.iter().all(|r| r.status == 201 || r.body["code"] == "name-taken"), "{replies:#?}");

    // The limit is twenty skills per template.
    let template = json!({
        "name": "Triage", "modelId": "small", "allowedTools": ["Read"], "defaultBudgetCapUsd": "2",
    });
    let template = fixture.send(Ok("ada"), &Method::POST, "/api/agents/templates", Some(template)).await;
    let template = template.body["id"].as_str().unwrap();
    let mut skills = Vec::new();
    for at in 0..25 {
        let made = fixture
            .send(Ok("ada"), &Method::POST, "/api/agents/skills", Some(one(&format!("Skill {at}"))))
            .await;
        skills.push(made.body["id"].as_str().unwrap().to_owned());
    }
    let replies = at_once(&fixture, 25, |at| {
        (format!("/api/agents/templates/{template}/skills/{}", skills[at]), json!({}))
    })
    .await;
    assert_eq!(accepted(&replies), 20, "{replies:#?}");
}
