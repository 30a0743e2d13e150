use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::{LONG, Subject, message, queue, receipts};
use crate::queue::Depth;

const GROUPS: usize = 16;
const PER_GROUP: usize = 60;
const CONSUMERS: usize = 6;

/// Each message is received once and in the order of its group, although consumers sometimes release what they received.
pub async fn concurrent_consumers_keep_the_order_of_each_group(subject: &mut dyn Subject) {
    let broker = subject.broker();
    let q = queue(&broker, LONG, None).await;
    let seen: Arc<Mutex<HashMap<String, Vec<usize>>>> = Arc::default();
    let settled = Arc::new(AtomicUsize::new(0));

    let mut tasks = Vec::new();
    for group in 0..GROUPS {
        let (broker, q) = (Arc::clone(&broker), q.clone());
        tasks.push(tokio::spawn(async move {
            for n in (0..PER_GROUP).step_by(6) {
                let batch = (n..n + 6)
                    .map(|n| crate::OutgoingMessage {
                        deduplication_id: format!("{group}-{n}"),
                        ..message(&format!("g{group}"), &n.to_string())
                    })
                    .collect();
                assert!(broker.send(&q, batch).await.unwrap().failed.is_empty());
            }
        }));
    }
    for consumer in 0..CONSUMERS {
        let (broker, q) = (Arc::clone(&broker), q.clone());
        let (seen, settled) = (Arc::clone(&seen), Arc::clone(&settled));
        tasks.push(tokio::spawn(async move {
            let mut round = consumer;
            while settled.load(Ordering::SeqCst) < GROUPS * PER_GROUP {
                let received = broker.receive(&q, 10, Duration::from_millis(100)).await.unwrap();
                round += 1;
                if round.is_multiple_of(5) {
                    broker.release(&q, &receipts(&received), Duration::ZERO).await.unwrap();
                    continue;
                }
                for message in &received {
                    let n = message.body.parse().unwrap();
                    seen.lock().unwrap().entry(message.group.clone()).or_default().push(n);
                }
                broker.delete(&q, &receipts(&received)).await.unwrap();
                settled.fetch_add(received.len(), Ordering::SeqCst);
            }
        }));
    }
    for task in tasks {
        task.await.unwrap();
    }
    let seen = std::mem::take(&mut *seen.lock().unwrap());
    assert_eq!(seen.len(), GROUPS);
    for (group, order) in &seen {
        assert!(order.iter().copied().eq(0..PER_GROUP), "{group}: {order:?}");
    }
    assert_eq!(broker.depth(&q).await.unwrap(), Depth::default());
}
