//! Opening, subscribing, closing.

use std::time::Duration;

use pilothouse_functions::stream::{closed, subscribe, wake};

use crate::gateway::Gateway;
use crate::stage::{Stage, connection, owner};

#[tokio::test]
async fn a_session_is_watched_from_its_first_subscription_to_the_end_of_its_last() {
    let stage = Stage::new().await;
    let (_, gateway) = Gateway::new();
    let ada = owner("ada");
    let session = stage.session(&ada).await;
    let watched = async || wake::is_watched(&stage.app.store, session).await.unwrap();
    let (one, two) = (stage.open("one", &ada).await, stage.open("two", &ada).await);
    assert!(!watched().await, "an open connection watches nothing yet");
    stage.subscribe(&gateway, &one, session, None).await;
    stage.subscribe(&gateway, &two, session, None).await;
    closed::handle(&stage.app, &one).await.unwrap();
    assert!(watched().await);
    closed::handle(&stage.app, &two).await.unwrap();
    assert!(!watched().await);
    closed::handle(&stage.app, &two).await.unwrap();
    assert_eq!(stage.app.store.connection(&two).await.unwrap(), None, "nothing is left of it");
}

#[tokio::test]
async fn a_connection_that_nobody_tells_of_is_forgotten_after_its_two_hours() {
    let stage = Stage::new().await;
    let (_, gateway) = Gateway::new();
    let ada = owner("ada");
    let session = stage.session(&ada).await;
    let one = stage.open("one", &ada).await;
    stage.subscribe(&gateway, &one, session, None).await;
    stage.pass(Duration::from_mins(119));
    assert!(wake::is_watched(&stage.app.store, session).await.unwrap());
    stage.pass(Duration::from_mins(10));
    assert!(!wake::is_watched(&stage.app.store, session).await.unwrap());
}

#[tokio::test]
async fn a_connection_follows_one_session_at_a_time() {
    let stage = Stage::new().await;
    let (_, gateway) = Gateway::new();
    let ada = owner("ada");
    let (first, second) = (stage.session(&ada).await, stage.session(&ada).await);
    let one = stage.open("one", &ada).await;
    stage.subscribe(&gateway, &one, first, None).await;
    stage.subscribe(&gateway, &one, second, None).await;
    let watched = async |session| wake::is_watched(&stage.app.store, session).await.unwrap();
    assert_eq!((watched(first).await, watched(second).await), (false, true));
}

#[tokio::test]
async fn what_cannot_be_followed_is_refused_on_the_connection() {
    let stage = Stage::new().await;
    let (posted, gateway) = Gateway::new();
    let (ada, bob) = (owner("ada"), owner("bob"));
    let session = stage.session(&ada).await;
    let (one, other) = (stage.open("one", &ada).await, stage.open("other", &bob).await);
    let code = |id| posted.problem(id).map(|problem| problem["code"].as_str().unwrap().to_owned());

    stage.subscribe(&gateway, &other, session, None).await;
    assert_eq!(code(&other).as_deref(), Some("not-found"), "of another's session");
    for cursor in ["j2", "x", "j0.x"] {
        stage.subscribe(&gateway, &one, session, Some(cursor)).await;
        assert_eq!(code(&one).as_deref(), Some("validation-failed"), "from {cursor}");
    }
    for body in ["", "{}", r#"{"action":"unsubscribe"}"#] {
        subscribe::handle(&stage.app, &*gateway, &one, body).await.unwrap();
        assert_eq!(code(&one).as_deref(), Some("validation-failed"), "{body}");
    }
    let stranger = connection("stranger");
    stage.subscribe(&gateway, &stranger, session, None).await;
    assert_eq!(code(&stranger).as_deref(), Some("unauthenticated"), "without having opened");
    stage.pass(Duration::from_mins(61));
    stage.subscribe(&gateway, &one, session, None).await;
    assert_eq!(code(&one).as_deref(), Some("unauthenticated"), "after the token's end");
    assert!(!wake::is_watched(&stage.app.store, session).await.unwrap());
}
