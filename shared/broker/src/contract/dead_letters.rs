//! Dead letters.

use std::time::Duration;

use super::{LONG, Subject, bodies, message, queue, receipts, receive, send};
use crate::queue::{Depth, Outgoing};

/// The limit of receives: the message goes alone, with a cause, and its group goes on.
pub async fn a_message_received_too_often_becomes_a_dead_letter(subject: &mut dyn Subject) {
    let broker = subject.broker();
    let q = queue(&broker, LONG, Some(3)).await;
    send(&broker, &q, vec![message("g", "bad"), message("g", "good")]).await;
    for round in 1..=3 {
        let received = receive(&broker, &q, 1).await;
        assert_eq!((bodies(&received), received[0].receive_count), (vec!["bad"], round));
        broker.release(&q, &receipts(&received), Duration::ZERO).await.unwrap();
    }
    let received = receive(&broker, &q, 1).await;
    assert_eq!(bodies(&received), ["good"]);
    let dead = broker.dead_letters(&q, 0, 10).await.unwrap();
    assert_eq!(dead.len(), 1);
    assert_eq!((dead[0].body.as_str(), dead[0].group.as_str(), dead[0].receive_count), ("bad", "g", 3));
    assert!(!dead[0].cause.is_empty());
    broker.delete(&q, &receipts(&received)).await.unwrap();
    assert_eq!(broker.depth(&q).await.unwrap(), Depth::default());
}

/// A poison message: every receive ends in a crash.
pub async fn a_message_that_kills_every_receiver_becomes_a_dead_letter(subject: &mut dyn Subject) {
    let broker = subject.broker();
    let q = queue(&broker, LONG, Some(3)).await;
    send(&broker, &q, vec![message("g", "poison"), message("g", "good")]).await;
    drop(broker);
    for round in 1..=3 {
        let broker = subject.broker();
        let received = receive(&broker, &q, 1).await;
        assert_eq!((bodies(&received), received[0].receive_count), (vec!["poison"], round));
        drop(broker);
        subject.restart().await;
    }
    let broker = subject.broker();
    assert_eq!(bodies(&receive(&broker, &q, 1).await), ["good"]);
    assert_eq!(broker.dead_letters(&q, 0, 10).await.unwrap().len(), 1);
}

/// Burying by hand.
pub async fn a_buried_message_keeps_its_cause(subject: &mut dyn Subject) {
    let broker = subject.broker();
    let q = queue(&broker, LONG, None).await;
    send(&broker, &q, vec![message("g", "1"), message("g", "2")]).await;
    let received = receive(&broker, &q, 1).await;
    broker.bury(&q, &received[0].receipt, "cannot be read").await.unwrap();
    assert_eq!(bodies(&receive(&broker, &q, 1).await), ["2"], "the group goes on");
    drop(broker);
    subject.restart().await;
    let broker = subject.broker();
    let dead = broker.dead_letters(&q, 0, 10).await.unwrap();
    assert_eq!(dead.len(), 1);
    assert_eq!(
        (dead[0].body.as_str(), dead[0].cause.as_str(), dead[0].receive_count),
        ("1", "cannot be read", 1)
    );
}

/// Redrive: read, sent with a new deduplication id, forgotten.
pub async fn dead_letters_are_read_in_pages_and_sent_again(subject: &mut dyn Subject) {
    let broker = subject.broker();
    let q = queue(&broker, LONG, None).await;
    for n in 0..5 {
        send(&broker, &q, vec![message("g", &n.to_string())]).await;
        let received = receive(&broker, &q, 1).await;
        broker.bury(&q, &received[0].receipt, "test").await.unwrap();
    }
    let first = broker.dead_letters(&q, 0, 3).await.unwrap();
    let second = broker.dead_letters(&q, first[2].id, 3).await.unwrap();
    let all: Vec<_> = first.iter().chain(&second).collect();
    assert_eq!(all.iter().map(|d| d.body.as_str()).collect::<Vec<_>>(), ["0", "1", "2", "3", "4"]);
    assert!(all.windows(2).all(|pair| pair[0].id < pair[1].id));
    for dead in &all {
        let again = Outgoing { deduplication_id: format!("redrive-{}", dead.id), ..message("g", &dead.body) };
        send(&broker, &q, vec![again]).await;
        assert!(broker.forget(&q, dead.id).await.unwrap());
        assert!(!broker.forget(&q, dead.id).await.unwrap(), "it was forgotten already");
    }
    assert!(broker.dead_letters(&q, 0, 10).await.unwrap().is_empty());
    assert_eq!(bodies(&receive(&broker, &q, 10).await), ["0", "1", "2", "3", "4"]);
}
