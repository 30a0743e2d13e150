//! Entries, subscriptions and pushes at the same time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use pilothouse_functions::queues;
use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};

use crate::gateway::{Fate, Gateway};
use crate::stage::{Stage, owner};

const ENTRIES: u64 = 60;
const WATCHERS: usize = 6;

/// A pause of a random number of turns of the scheduler.
async fn idle(rng: &mut StdRng) {
    for _ in 0..rng.random_range(0..40) {
        tokio::task::yield_now().await;
    }
}

/// While one commits entries and hands them on, others subscribe at random times from random cursors, some of them anew
/// on the same connection, and posts are refused now and then. In the end each has every entry after its cursor.
async fn everything_arrives(seed: u64) {
    let stage = Arc::new(Stage::new().await);
    let (posted, gateway) = Gateway::new();
    let ada = owner("ada");
    let session = stage.session(&ada).await;
    let over = Arc::new(AtomicBool::new(false));

    let pushing = {
        let (stage, gateway, over) = (Arc::clone(&stage), Arc::clone(&gateway), Arc::clone(&over));
        tokio::spawn(async move {
            while !over.load(Ordering::SeqCst) {
                stage.push_all(&gateway).await;
                tokio::task::yield_now().await;
            }
        })
    };
    let writing = {
        let (stage, mut rng) = (Arc::clone(&stage), StdRng::seed_from_u64(seed));
        tokio::spawn(async move {
            for _ in 0..ENTRIES {
                stage.happens(session, rng.random_range(1..4)).await;
                idle(&mut rng).await;
            }
        })
    };
    let mut watching = Vec::new();
    for n in 0..WATCHERS {
        let id = stage.open(&format!("w{n}"), &ada).await;
        let (stage, gateway, posted) = (Arc::clone(&stage), Arc::clone(&gateway), Arc::clone(&posted));
        let mut rng = StdRng::seed_from_u64(seed * 100 + n as u64);
        watching.push(tokio::spawn(async move {
            for _ in 0..n * 4 {
                idle(&mut rng).await;
            }
            let now = stage.app.store.session(session).await.unwrap().unwrap().journal_sequence();
            let first = format!("j{}", rng.random_range(0..=now));
            posted.after(&id, rng.random_range(0..30), Fate::Refused(1));
            stage.subscribe(&gateway, &id, session, Some(&first)).await;
            if n % 2 == 0 {
                idle(&mut rng).await;
                // As a client does now and then: from where it stands.
                let last = posted.cursors(&id).pop().unwrap_or_else(|| first.clone());
                stage.subscribe(&gateway, &id, session, Some(&last)).await;
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
        let depth = stage.app.broker.depth(&queues::pushes()).await.unwrap();
        if depth.visible + depth.in_flight == 0 {
            break;
        }
        assert!(tokio::time::Instant::now() < deadline, "seed {seed}: the pushes do not end: {depth:?}");
        tokio::task::yield_now().await;
    }
    over.store(true, Ordering::SeqCst);
    pushing.await.unwrap();

    let entries = stage.app.store.journal(session, 0, 1000).await.unwrap();
    let current = stage.app.store.session(session).await.unwrap().unwrap();
    let all: Vec<String> = entries
        .iter()
        .flat_map(|entry| pilothouse_functions::stream::messages(entry, &current))
        .map(|message| message.cursor)
        .collect();
    for (id, first) in watchers {
        let place = all.iter().position(|cursor| *cursor == first).map_or(0, |at| at + 1);
        assert_eq!(posted.kept(&id, Some(&first)), all[place..], "seed {seed}, {id} after {first}");
        assert!(posted.times_caught_up(&id) > 0, "seed {seed}, {id}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn every_entry_arrives_whenever_a_connection_subscribes() {
    for seed in 0..8 {
        everything_arrives(seed).await;
    }
}
