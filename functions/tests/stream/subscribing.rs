use std::time::Duration;

use pilothouse_domain::AgentSessionId;
use pilothouse_functions::realtime::{closed, push_queue, subscribe};

use crate::fixture::{StreamFixture, connection, owner};
use crate::gateway::Gateway;

#[tokio::test]
async fn session_is_watched_while_it_has_subscriptions() {
    let fixture = StreamFixture::new().await;
    let (_, gateway) = Gateway::new();
    let ada = owner("ada");
    let session = fixture.session(&ada).await;
    let watched = async || push_queue::is_watched(&fixture.app.store, &session.into()).await.unwrap();
    let (one, two) = (fixture.open("one", &ada).await, fixture.open("two", &ada).await);
    assert!(!watched().await, "an open connection follows no session yet");
    fixture.subscribe(&gateway, &one, session, None).await;
    fixture.subscribe(&gateway, &two, session, None).await;
    closed::delete_connection(&fixture.app, &one).await.unwrap();
    assert!(watched().await);
    closed::delete_connection(&fixture.app, &two).await.unwrap();
    assert!(!watched().await);
    closed::delete_connection(&fixture.app, &two).await.unwrap();
    assert_eq!(fixture.app.store.connection(&two).await.unwrap(), None, "its record is deleted");
}

#[tokio::test]
async fn connection_without_a_disconnect_event_expires() {
    let fixture = StreamFixture::new().await;
    let (_, gateway) = Gateway::new();
    let ada = owner("ada");
    let session = fixture.session(&ada).await;
    let one = fixture.open("one", &ada).await;
    fixture.subscribe(&gateway, &one, session, None).await;
    fixture.pass(Duration::from_mins(119));
    assert!(push_queue::is_watched(&fixture.app.store, &session.into()).await.unwrap());
    fixture.pass(Duration::from_mins(10));
    assert!(!push_queue::is_watched(&fixture.app.store, &session.into()).await.unwrap());
}

#[tokio::test]
async fn a_connection_follows_one_session_at_a_time() {
    let fixture = StreamFixture::new().await;
    let (_, gateway) = Gateway::new();
    let ada = owner("ada");
    let (first, second) = (fixture.session(&ada).await, fixture.session(&ada).await);
    let one = fixture.open("one", &ada).await;
    fixture.subscribe(&gateway, &one, first, None).await;
    fixture.subscribe(&gateway, &one, second, None).await;
    let watched = async |session: AgentSessionId| {
        push_queue::is_watched(&fixture.app.store, &session.into()).await.unwrap()
    };
    assert_eq!((watched(first).await, watched(second).await), (false, true));
}

#[tokio::test]
async fn invalid_subscription_is_refused_on_the_connection() {
    let fixture = StreamFixture::new().await;
    let (posted, gateway) = Gateway::new();
    let (ada, bob) = (owner("ada"), owner("bob"));
    let session = fixture.session(&ada).await;
    let (one, other) = (fixture.open("one", &ada).await, fixture.open("other", &bob).await);
    let code = |id| posted.problem(id).map(|problem| problem["code"].as_str().unwrap().to_owned());

    fixture.subscribe(&gateway, &other, session, None).await;
    assert_eq!(code(&other).as_deref(), Some("not-found"), "another owner's session");
    for cursor in ["j2", "x", "j0.x"] {
        fixture.subscribe(&gateway, &one, session, Some(cursor)).await;
        assert_eq!(code(&one).as_deref(), Some("validation-failed"), "from {cursor}");
    }
    for body in ["", "{}", r#"{"action":"unsubscribe"}"#] {
        subscribe::subscribe_connection(&fixture.app, &*gateway, &one, body).await.unwrap();
        assert_eq!(code(&one).as_deref(), Some("validation-failed"), "{body}");
    }
    let stranger = connection("stranger");
    fixture.subscribe(&gateway, &stranger, session, None).await;
    assert_eq!(code(&stranger).as_deref(), Some("unauthenticated"), "without having opened");
    fixture.pass(Duration::from_mins(61));
    fixture.subscribe(&gateway, &one, session, None).await;
    assert_eq!(code(&one).as_deref(), Some("unauthenticated"), "after the token's end");
    assert!(!push_queue::is_watched(&fixture.app.store, &session.into()).await.unwrap());
}
