//! Browsers that are logged out while they send a request (decision 99).

use std::time::Duration;

use axum::body::Body;
use http::{Method, Request};
use pilothouse_app::App;
use pilothouse_app::http::CurrentLogin;
use pilothouse_app::http::auth::VerifiedOwner;
use pilothouse_domain::console_login::{ConsoleLogin, ConsoleLogins};
use pilothouse_domain::text::DeviceName;
use pilothouse_domain::{ConsoleLoginId, UserId};
use pilothouse_store::Commit;
use serde_json::json;
use uuid::Uuid;

use crate::fixture::{ApiFixture, Reply};

fn ada() -> UserId {
    UserId::parse("ada").unwrap()
}

async fn change_logins(app: &App, change: impl FnOnce(&mut ConsoleLogins)) {
    let mut logins = app.store.console_logins(&ada()).await.unwrap();
    change(&mut logins.value);
    let mut commit = Commit::new();
    commit.console_logins(&ada(), &logins).unwrap();
    app.store.commit(commit).await.unwrap();
}

async fn log_in(app: &App) -> ConsoleLoginId {
    let (id, now) = (ConsoleLoginId::new(Uuid::now_v7()), app.now());
    let login = ConsoleLogin {
        id,
        device: DeviceName::try_from("A phone".to_owned()).unwrap(),
        created_at: now,
        last_seen_at: now,
        expires_at: now + Duration::from_hours(1),
    };
    change_logins(app, |logins| drop(logins.add(login, now))).await;
    id
}

/// Sends the request of a browser to be notified, after its login was admitted.
async fn subscribe(fixture: &ApiFixture, login: ConsoleLoginId) -> Reply {
    let body = json!({
        "endpoint": format!("https://push.example/{login}"),
        "device": "A phone",
        "keys": {
            "p256dh": "BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4",
            "auth": "BTBZMqHH6r4Tts7J_aSIgg",
        },
    });
    let request = Request::builder().method(Method::POST).uri("/api/web-push/subscriptions");
    let request = request.header("content-type", "application/json");
    let mut request = request.body(Body::from(body.to_string())).unwrap();
    request.extensions_mut().insert(VerifiedOwner(ada()));
    request.extensions_mut().insert(CurrentLogin(Some(login)));
    fixture.send_request(request).await
}

#[tokio::test]
async fn browser_that_is_logged_out_meanwhile_is_not_notified() {
    let fixture = ApiFixture::new().await;
    let (lost, kept) = (log_in(&fixture.app).await, log_in(&fixture.app).await);
    assert_eq!(subscribe(&fixture, kept).await.status, 201);
    let app = fixture.app.clone();
    // The request has read its login, and is about to commit.
    fixture.table.before_next_commit(Box::pin(async move {
        change_logins(&app, |logins| assert!(logins.remove(lost))).await;
    }));
    let refused = subscribe(&fixture, lost).await;
    assert_eq!((refused.status, &refused.body["code"]), (401, &json!("unauthenticated")));
    let notified = fixture.app.store.web_push_subscriptions(&ada()).await.unwrap().value;
    let logins: Vec<_> = notified.items().iter().map(|browser| browser.login_id).collect();
    assert_eq!(logins, [Some(kept)]);
}

/// The person learns from a notification that there is a reason to log in again.
#[tokio::test]
async fn browser_whose_login_expires_stays_subscribed() {
    let fixture = ApiFixture::new().await;
    let expired = log_in(&fixture.app).await;
    assert_eq!(subscribe(&fixture, expired).await.status, 201);
    fixture.clock.advance(Duration::from_hours(2));
    let next = log_in(&fixture.app).await;
    let notified = fixture.app.store.web_push_subscriptions(&ada()).await.unwrap().value;
    assert_eq!(notified.items().len(), 1);
    assert_eq!(subscribe(&fixture, expired).await.status, 401);
    assert_eq!(subscribe(&fixture, next).await.status, 201);
}
