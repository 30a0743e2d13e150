//! What is posted, in which order, and what becomes of connections that take nothing.

use std::sync::Arc;
use std::time::Duration;

use pilothouse_functions::api::stream::parse_cursor;
use pilothouse_functions::stream::{push, wake};
use pilothouse_store::CommitError;

use crate::gateway::{Fate, Gateway};
use crate::stage::{Stage, owner};

/// The cursors of entries with `lines` lines each, from the entry after `after` to `last`.
fn expected(after: u64, last: u64, lines: usize) -> Vec<String> {
    let of_entry = |entry: u64| {
        (1..lines).map(move |n| format!("j{}.{n}", entry - 1)).chain(std::iter::once(format!("j{entry}")))
    };
    (after + 1..=last).flat_map(of_entry).collect()
}

#[tokio::test]
async fn a_connection_gets_everything_after_its_cursor_in_order_and_is_told_once_that_it_has_it() {
    let stage = Stage::new().await;
    let (posted, gateway) = Gateway::new();
    let ada = owner("ada");
    let session = stage.session(&ada).await;
    for _ in 0..5 {
        stage.happens(session, 2).await;
    }
    let (late, new) = (stage.open("late", &ada).await, stage.open("new", &ada).await);
    stage.subscribe(&gateway, &late, session, Some("j3.1")).await;
    stage.push_all(&gateway).await;
    assert_eq!(posted.cursors(&late), ["j4", "j4.1", "j5", "j5.1", "j6"]);
    stage.subscribe(&gateway, &new, session, Some("j6")).await;
    stage.happens(session, 1).await;
    assert_eq!(stage.push_all(&gateway).await, 0);
    assert_eq!(posted.cursors(&late).last().unwrap(), "j7");
    assert_eq!(posted.cursors(&new), ["j7"]);
    assert_eq!([&late, &new].map(|id| posted.times_caught_up(id)), [1, 1]);
    let told = posted.messages(&late)[5].clone();
    assert_eq!(told.cursor, "j6", "after what there was, before what is new");
}

#[tokio::test]
async fn who_is_far_behind_catches_up_over_several_pushes() {
    let stage = Stage::new().await;
    let (posted, gateway) = Gateway::new();
    let ada = owner("ada");
    let session = stage.session(&ada).await;
    for _ in 0..450 {
        stage.happens(session, 1).await;
    }
    let one = stage.open("one", &ada).await;
    stage.subscribe(&gateway, &one, session, Some("j1")).await;
    push::push(&stage.app, &gateway, session).await.unwrap();
    assert_eq!(posted.cursors(&one).len(), 200, "one push is bounded");
    assert_eq!(posted.times_caught_up(&one), 0);
    stage.push_all(&gateway).await;
    assert_eq!(posted.cursors(&one), expected(1, 451, 1));
    assert_eq!(posted.times_caught_up(&one), 1);
}

#[tokio::test]
async fn nothing_is_lost_when_a_push_is_killed_before_it_moves_the_cursor() {
    let stage = Stage::new().await;
    let (posted, gateway) = Gateway::new();
    let ada = owner("ada");
    let session = stage.session(&ada).await;
    for _ in 0..4 {
        stage.happens(session, 2).await;
    }
    let one = stage.open("one", &ada).await;
    stage.subscribe(&gateway, &one, session, Some("j1")).await;
    for killed_at in [1, 3, 8] {
        // It hangs at its next post, and dies there: whatever was posted is not remembered.
        posted.after(&one, killed_at, Fate::Hangs);
        let before = posted.messages(&one).len();
        let (app, connections) = (stage.app.clone(), Arc::clone(&gateway));
        let dying = tokio::spawn(async move { push::push(&app, &connections, session).await });
        while posted.messages(&one).len() < before + killed_at {
            assert!(!dying.is_finished(), "it ended before it was killed");
            tokio::task::yield_now().await;
        }
        dying.abort();
        assert!(dying.await.unwrap_err().is_cancelled());
    }
    posted.heal(&one);
    stage.push_all(&gateway).await;
    assert!(posted.cursors(&one).len() > 8, "some came twice");
    assert_eq!(posted.kept(&one, Some("j1")), expected(1, 5, 2));
}

#[tokio::test]
async fn a_connection_that_is_gone_is_forgotten() {
    let stage = Stage::new().await;
    let (posted, gateway) = Gateway::new();
    let ada = owner("ada");
    let session = stage.session(&ada).await;
    let (gone, here) = (stage.open("gone", &ada).await, stage.open("here", &ada).await);
    stage.subscribe(&gateway, &gone, session, None).await;
    stage.subscribe(&gateway, &here, session, None).await;
    posted.after(&gone, 0, Fate::Gone);
    assert_eq!(stage.push_all(&gateway).await, 0);
    assert_eq!(stage.app.store.connection(&gone).await.unwrap(), None);
    let watchers = stage.app.store.watchers(session).await.unwrap();
    assert_eq!(watchers.iter().map(|(id, _)| id).collect::<Vec<_>>(), [&here]);
}

#[tokio::test]
async fn a_connection_that_takes_nothing_holds_nobody_up_and_is_closed() {
    let stage = Stage::new().await;
    let (posted, gateway) = Gateway::new();
    let ada = owner("ada");
    let session = stage.session(&ada).await;
    let (stuck, here) = (stage.open("stuck", &ada).await, stage.open("here", &ada).await);
    stage.subscribe(&gateway, &stuck, session, None).await;
    stage.subscribe(&gateway, &here, session, None).await;
    posted.after(&stuck, 0, Fate::Hangs);
    let pushing = stage.push_all(&gateway);
    let served = async {
        while posted.times_caught_up(&here) == 0 {
            tokio::task::yield_now().await;
        }
        assert!(!posted.is_closed(&stuck), "the others do not wait until it is given up");
    };
    let ((), failed) = tokio::join!(served, pushing);
    assert_eq!(failed, 0);
    assert!(posted.is_closed(&stuck));
    assert_eq!(stage.app.store.connection(&stuck).await.unwrap(), None);
}

#[tokio::test]
async fn a_post_that_is_refused_for_a_moment_is_repeated_in_its_place() {
    let stage = Stage::new().await;
    let (posted, gateway) = Gateway::new();
    let ada = owner("ada");
    let session = stage.session(&ada).await;
    stage.happens(session, 3).await;
    let one = stage.open("one", &ada).await;
    stage.subscribe(&gateway, &one, session, Some("j1")).await;
    posted.after(&one, 1, Fate::Refused(2));
    assert_eq!(stage.push_all(&gateway).await, 0);
    assert_eq!(posted.cursors(&one), expected(1, 2, 3));
}

#[tokio::test]
async fn a_push_that_can_neither_post_nor_close_comes_again() {
    let stage = Stage::new().await;
    let (posted, gateway) = Gateway::new();
    let ada = owner("ada");
    let session = stage.session(&ada).await;
    stage.happens(session, 3).await;
    let one = stage.open("one", &ada).await;
    stage.subscribe(&gateway, &one, session, Some("j1")).await;
    posted.after(&one, 1, Fate::Refused(6));
    posted.keep_open(true);
    assert_eq!(stage.push_all(&gateway).await, 2, "three tries each");
    assert_eq!(posted.cursors(&one), expected(1, 2, 3), "what was posted before is not posted again");
}

#[tokio::test]
async fn who_may_not_watch_any_more_gets_nothing_and_is_closed() {
    let stage = Stage::new().await;
    let (posted, gateway) = Gateway::new();
    let (ada, bob) = (owner("ada"), owner("bob"));
    let session = stage.session(&ada).await;
    let (ended, foreign) = (stage.open("ended", &ada).await, stage.open("foreign", &ada).await);
    stage.subscribe(&gateway, &ended, session, Some("j1")).await;
    stage.subscribe(&gateway, &foreign, session, Some("j1")).await;
    stage.push_all(&gateway).await;

    // As if the session had been bob's when he subscribed.
    let mut watcher = stage.app.store.watcher(session, &foreign).await.unwrap().unwrap();
    watcher.value.owner = bob;
    watcher.value.token_ends = stage.app.now() + Duration::from_hours(9);
    stage.app.store.move_watcher(session, &foreign, &watcher).await.unwrap();
    stage.pass(Duration::from_mins(61));
    stage.happens(session, 1).await;
    assert_eq!(stage.push_all(&gateway).await, 0);
    for id in [&ended, &foreign] {
        assert!(posted.cursors(id).is_empty(), "{id}");
        assert!(posted.is_closed(id), "{id}");
    }
    assert!(!wake::is_watched(&stage.app.store, session).await.unwrap());
}

#[tokio::test]
async fn a_cursor_that_a_push_holds_does_not_overwrite_a_new_subscription() {
    let stage = Stage::new().await;
    let (_, gateway) = Gateway::new();
    let ada = owner("ada");
    let session = stage.session(&ada).await;
    stage.happens(session, 1).await;
    let one = stage.open("one", &ada).await;
    stage.subscribe(&gateway, &one, session, Some("j2")).await;
    let mut held = stage.app.store.watcher(session, &one).await.unwrap().unwrap();
    stage.subscribe(&gateway, &one, session, Some("j1")).await;
    held.value.caught_up = true;
    let moved = stage.app.store.move_watcher(session, &one, &held).await;
    assert!(matches!(moved, Err(CommitError::Conflict)), "{moved:?}");
    let watcher = stage.app.store.watcher(session, &one).await.unwrap().unwrap().value;
    assert_eq!((watcher.after, watcher.seen, watcher.caught_up), (1, 0, false));
    assert_eq!(parse_cursor("j1"), Some((watcher.after, watcher.seen)));
}
