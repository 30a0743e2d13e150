use std::sync::Arc;
use std::time::Duration;

use pilothouse_api::stream::parse_cursor;
use pilothouse_functions::realtime::{push, push_queue};
use pilothouse_store::{CommitError, Followed};

use crate::fixture::{StreamFixture, owner};
use crate::gateway::{Fate, Gateway};

/// The cursors of entries with `lines` lines each, from the entry after `after` to `last`.
fn expected(after: u64, last: u64, lines: usize) -> Vec<String> {
    let of_entry = |entry: u64| {
        (1..lines).map(move |n| format!("j{}.{n}", entry - 1)).chain(std::iter::once(format!("j{entry}")))
    };
    (after + 1..=last).flat_map(of_entry).collect()
}

#[tokio::test]
async fn push_sends_entries_after_the_cursor_in_order() {
    let fixture = StreamFixture::new().await;
    let (posted, gateway) = Gateway::new();
    let ada = owner("ada");
    let session = fixture.session(&ada).await;
    for _ in 0..5 {
        fixture.happens(session, 2).await;
    }
    let (late, new) = (fixture.open("late", &ada).await, fixture.open("new", &ada).await);
    fixture.subscribe(&gateway, &late, session, Some("j3.1")).await;
    fixture.push_all(&gateway).await;
    assert_eq!(posted.cursors(&late), ["j4", "j4.1", "j5", "j5.1", "j6"]);
    fixture.subscribe(&gateway, &new, session, Some("j6")).await;
    fixture.happens(session, 1).await;
    assert_eq!(fixture.push_all(&gateway).await, 0);
    assert_eq!(posted.cursors(&late).last().unwrap(), "j7");
    assert_eq!(posted.cursors(&new), ["j7"]);
    assert_eq!([&late, &new].map(|id| posted.times_caught_up(id)), [1, 1]);
    let caught_up = posted.messages(&late)[5].clone();
    assert_eq!(caught_up.cursor, "j6", "after the existing entries, before the new one");
}

#[tokio::test]
async fn distant_cursor_catches_up_over_several_pushes() {
    let fixture = StreamFixture::new().await;
    let (posted, gateway) = Gateway::new();
    let ada = owner("ada");
    let session = fixture.session(&ada).await;
    for _ in 0..450 {
        fixture.happens(session, 1).await;
    }
    let one = fixture.open("one", &ada).await;
    fixture.subscribe(&gateway, &one, session, Some("j1")).await;
    push::push(&fixture.app, &gateway, session).await.unwrap();
    assert_eq!(posted.cursors(&one).len(), 200, "one push is bounded");
    assert_eq!(posted.times_caught_up(&one), 0);
    fixture.push_all(&gateway).await;
    assert_eq!(posted.cursors(&one), expected(1, 451, 1));
    assert_eq!(posted.times_caught_up(&one), 1);
}

#[tokio::test]
async fn killed_push_loses_nothing_before_it_moves_the_cursor() {
    let fixture = StreamFixture::new().await;
    let (posted, gateway) = Gateway::new();
    let ada = owner("ada");
    let session = fixture.session(&ada).await;
    for _ in 0..4 {
        fixture.happens(session, 2).await;
    }
    let one = fixture.open("one", &ada).await;
    fixture.subscribe(&gateway, &one, session, Some("j1")).await;
    for killed_at in [1, 3, 8] {
        // The push hangs at its next post and is aborted there, so that its progress is not stored.
        posted.after(&one, killed_at, Fate::Hangs);
        let before = posted.messages(&one).len();
        let (app, connections) = (fixture.app.clone(), Arc::clone(&gateway));
        let dying = tokio::spawn(async move { push::push(&app, &connections, session).await });
        while posted.messages(&one).len() < before + killed_at {
            assert!(!dying.is_finished(), "it ended before it was killed");
            tokio::task::yield_now().await;
        }
        dying.abort();
        assert!(dying.await.unwrap_err().is_cancelled());
    }
    posted.heal(&one);
    fixture.push_all(&gateway).await;
    assert!(posted.cursors(&one).len() > 8, "some were posted twice");
    assert_eq!(posted.kept(&one, Some("j1")), expected(1, 5, 2));
}

#[tokio::test]
async fn closed_connection_is_forgotten() {
    let fixture = StreamFixture::new().await;
    let (posted, gateway) = Gateway::new();
    let ada = owner("ada");
    let session = fixture.session(&ada).await;
    let (gone, here) = (fixture.open("gone", &ada).await, fixture.open("here", &ada).await);
    fixture.subscribe(&gateway, &gone, session, None).await;
    fixture.subscribe(&gateway, &here, session, None).await;
    posted.after(&gone, 0, Fate::Gone);
    assert_eq!(fixture.push_all(&gateway).await, 0);
    assert_eq!(fixture.app.store.connection(&gone).await.unwrap(), None);
    let watchers = fixture.app.store.watchers(&Followed::Session(session)).await.unwrap();
    assert_eq!(watchers.iter().map(|(id, _)| id).collect::<Vec<_>>(), [&here]);
}

#[tokio::test]
async fn stuck_connection_delays_nobody_and_is_closed() {
    let fixture = StreamFixture::new().await;
    let (posted, gateway) = Gateway::new();
    let ada = owner("ada");
    let session = fixture.session(&ada).await;
    let (stuck, here) = (fixture.open("stuck", &ada).await, fixture.open("here", &ada).await);
    fixture.subscribe(&gateway, &stuck, session, None).await;
    fixture.subscribe(&gateway, &here, session, None).await;
    posted.after(&stuck, 0, Fate::Hangs);
    let pushing = fixture.push_all(&gateway);
    let served = async {
        while posted.times_caught_up(&here) == 0 {
            tokio::task::yield_now().await;
        }
        assert!(!posted.is_closed(&stuck), "the others do not wait for its timeout");
    };
    let ((), failed) = tokio::join!(served, pushing);
    assert_eq!(failed, 0);
    assert!(posted.is_closed(&stuck));
    assert_eq!(fixture.app.store.connection(&stuck).await.unwrap(), None);
}

#[tokio::test]
async fn temporarily_refused_post_is_retried_in_order() {
    let fixture = StreamFixture::new().await;
    let (posted, gateway) = Gateway::new();
    let ada = owner("ada");
    let session = fixture.session(&ada).await;
    fixture.happens(session, 3).await;
    let one = fixture.open("one", &ada).await;
    fixture.subscribe(&gateway, &one, session, Some("j1")).await;
    posted.after(&one, 1, Fate::Refused(2));
    assert_eq!(fixture.push_all(&gateway).await, 0);
    assert_eq!(posted.cursors(&one), expected(1, 2, 3));
}

#[tokio::test]
async fn push_that_can_neither_post_nor_close_is_retried() {
    let fixture = StreamFixture::new().await;
    let (posted, gateway) = Gateway::new();
    let ada = owner("ada");
    let session = fixture.session(&ada).await;
    fixture.happens(session, 3).await;
    let one = fixture.open("one", &ada).await;
    fixture.subscribe(&gateway, &one, session, Some("j1")).await;
    posted.after(&one, 1, Fate::Refused(6));
    posted.keep_open(true);
    assert_eq!(fixture.push_all(&gateway).await, 2, "three tries each");
    assert_eq!(posted.cursors(&one), expected(1, 2, 3), "posted entries are not repeated");
}

#[tokio::test]
async fn watcher_without_access_gets_nothing_and_is_closed() {
    let fixture = StreamFixture::new().await;
    let (posted, gateway) = Gateway::new();
    let (ada, bob) = (owner("ada"), owner("bob"));
    let session = fixture.session(&ada).await;
    let (ended, foreign) = (fixture.open("ended", &ada).await, fixture.open("foreign", &ada).await);
    fixture.subscribe(&gateway, &ended, session, Some("j1")).await;
    fixture.subscribe(&gateway, &foreign, session, Some("j1")).await;
    fixture.push_all(&gateway).await;

    // As if the session had belonged to bob when he subscribed.
    let mut watcher =
        fixture.app.store.watcher(&Followed::Session(session), &foreign).await.unwrap().unwrap();
    watcher.value.owner = bob;
    watcher.value.token_ends = fixture.app.now() + Duration::from_hours(9);
    fixture.app.store.move_watcher(&Followed::Session(session), &foreign, &watcher).await.unwrap();
    fixture.pass(Duration::from_mins(61));
    fixture.happens(session, 1).await;
    assert_eq!(fixture.push_all(&gateway).await, 0);
    for id in [&ended, &foreign] {
        assert!(posted.cursors(id).is_empty(), "{id}");
        assert!(posted.is_closed(id), "{id}");
    }
    assert!(!push_queue::is_watched(&fixture.app.store, &session.into()).await.unwrap());
}

#[tokio::test]
async fn push_does_not_overwrite_the_cursor_of_a_new_subscription() {
    let fixture = StreamFixture::new().await;
    let (_, gateway) = Gateway::new();
    let ada = owner("ada");
    let session = fixture.session(&ada).await;
    fixture.happens(session, 1).await;
    let one = fixture.open("one", &ada).await;
    fixture.subscribe(&gateway, &one, session, Some("j2")).await;
    let mut held = fixture.app.store.watcher(&Followed::Session(session), &one).await.unwrap().unwrap();
    fixture.subscribe(&gateway, &one, session, Some("j1")).await;
    held.value.caught_up = true;
    let moved = fixture.app.store.move_watcher(&Followed::Session(session), &one, &held).await;
    assert!(matches!(moved, Err(CommitError::Conflict)), "{moved:?}");
    let watcher = fixture.app.store.watcher(&Followed::Session(session), &one).await.unwrap().unwrap().value;
    assert_eq!((watcher.after, watcher.seen, watcher.caught_up), (1, 0, false));
    assert_eq!(parse_cursor("j1"), Some((watcher.after, watcher.seen)));
}
