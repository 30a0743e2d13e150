//! Concurrent entries, subscriptions and pushes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use pilothouse_app::queues;
use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};

use crate::fixture::{StreamFixture, owner};
use crate::gateway::{Fate, Gateway};

const ENTRIES: u64 = 60;
const WATCHERS: usize = 6;

/// Yields to the scheduler a random number of times.
async fn idle(rng: &mut StdRng) {
    for _ in 0..rng.random_range(0..40) {
        tokio::task::yield_now().await;
    }
}

/// One task commits and relays entries, while others subscribe at random times from random cursors, some of them twice on the same
/// connection, and some posts are refused. In the end every watcher has every entry after its cursor.
async fn everything_arrives(seed: u64) {
    let fixture = Arc::new(StreamFixture::new().await);
    let (posted, gateway) = Gateway::new();
    let ada = owner("ada");
    let session = fixture.session(&ada).await;
    let over = Arc::new(AtomicBool::new(false));

    let pushing = {
        let (fixture, gateway, over) = (Arc::clone(&fixture), Arc::clone(&gateway), Arc::clone(&over));
        tokio::spawn(async move {
            while !over.load(Ordering::SeqCst) {
                fixture.push_all(&gateway).await;
                tokio::task::yield_now().await;
            }
        })
    };
    let writing = {
        let (fixture, mut rng) = (Arc::clone(&fixture), StdRng::seed_from_u64(seed));
        tokio::spawn(async move {
            for _ in 0..ENTRIES {
                fixture.happens(session, rng.random_range(1..4)).await;
                idle(&mut rng).await;
            }
        })
    };
    let mut watching = Vec::new();
    for n in 0..WATCHERS {
        let id = fixture.open(&format!("w{n}"), &ada).await;
        let (fixture, gateway, posted) = (Arc::clone(&fixture), Arc::clone(&gateway), Arc::clone(&posted));
        let mut rng = StdRng::seed_from_u64(seed * 100 + n as u64);
        watching.push(tokio::spawn(async move {
            for _ in 0..n * 4 {
                idle(&mut rng).await;
            }
            let now = fixture.app.store.session(session).await.unwrap().unwrap().journal_sequence();
            let first = format!("j{}", rng.random_range(0..=now));
            posted.after(&id, rng.random_range(0..30), Fate::Refused(1));
            fixture.subscribe(&gateway, &id, session, Some(&first)).await;
            if n % 2 == 0 {
                idle(&mut rng).await;
                // A client may subscribe again from its last cursor.
                let last = posted.cursors(&id).pop().unwrap_or_else(|| first.clone());
                fixture.subscribe(&gateway, &id, session, Some(&last)).await;
            }
            (id, first)
        }));
    }
    writing.await.unwrap();
    let mut watchers = Vec::new();
    for task in watching {
        watchers.push(task.await.unwrap());
    }
    let deadline = tokio::time::Instant::now() + Duration::from_secs(30);
    loop {
        let depth = fixture.app.broker.depth(&queues::pushes()).await.unwrap();
        if depth.visible + depth.in_flight == 0 {
            break;
        }
        assert!(tokio::time::Instant::now() < deadline, "seed {seed}: the pushes do not finish: {depth:?}");
        tokio::task::yield_now().await;
    }
    over.store(true, Ordering::SeqCst);
    pushing.await.unwrap();

    let entries = fixture.app.store.journal(session, 0, 1000).await.unwrap();
    let current = fixture.app.store.session(session).await.unwrap().unwrap();
    let all: Vec<String> = entries
        .iter()
        .flat_map(|entry| pilothouse_app::live_stream::messages(entry, &current))
        .map(|message| message.cursor)
        .collect();
    for (id, first) in watchers {
        let place = all.iter().position(|cursor| *cursor == first).map_or(0, |at| at + 1);
        assert_eq!(posted.kept(&id, Some(&first)), all[place..], "seed {seed}, {id} after {first}");
        assert!(posted.times_caught_up(&id) > 0, "seed {seed}, {id}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn concurrent_subscription_receives_every_entry() {
    for seed in 0..8 {
        everything_arrives(seed).await;
    }
}
