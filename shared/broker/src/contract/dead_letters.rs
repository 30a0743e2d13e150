use std::sync::Arc;
use std::time::Duration;

use super::{LONG, OVER, SHORT, Subject, bodies, message, queue, receipts, receive, send};
use crate::queue::{
    Broker, DEAD_LETTER_VISIBILITY_TIMEOUT, DeadLetter, Depth, OutgoingMessage, QueueName, Receipt,
};

/// A message at the limit of receives becomes a dead letter with a cause; the rest of its group is delivered.
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
    let dead = broker.receive_dead_letters(&q, 10).await.unwrap();
    assert_eq!(dead.len(), 1);
    assert_eq!((dead[0].body.as_str(), dead[0].group.as_str(), dead[0].receive_count), ("bad", "g", 3));
    assert!(!dead[0].cause.is_empty());
    broker.delete(&q, &receipts(&received)).await.unwrap();
    assert_eq!(broker.depth(&q).await.unwrap(), Depth::default());
}

pub async fn a_message_that_kills_every_receiver_becomes_a_dead_letter(subject: &mut dyn Subject) {
    let broker = subject.broker();
    let q = queue(&broker, SHORT, Some(3)).await;
    send(&broker, &q, vec![message("g", "poison"), message("g", "good")]).await;
    drop(broker);
    for round in 1..=3 {
        let broker = subject.broker();
        let received = receive(&broker, &q, 1).await;
        assert_eq!((bodies(&received), received[0].receive_count), (vec!["poison"], round));
        drop(broker);
        subject.restart().await;
        subject.advance(OVER).await;
    }
    let broker = subject.broker();
    assert_eq!(bodies(&receive(&broker, &q, 1).await), ["good"]);
    assert_eq!(broker.dead_letter_depth(&q).await.unwrap(), 1);
}

pub async fn dead_letter_keeps_its_cause(subject: &mut dyn Subject) {
    let broker = subject.broker();
    let q = queue(&broker, LONG, None).await;
    send(&broker, &q, vec![message("g", "1"), message("g", "2")]).await;
    assert!(broker.receive_dead_letters(&q, 10).await.unwrap().is_empty());
    let received = receive(&broker, &q, 1).await;
    broker.dead_letter(&q, &received[0], "cannot be read").await.unwrap();
    assert_eq!(bodies(&receive(&broker, &q, 1).await), ["2"], "the rest of the group is delivered");
    drop(broker);
    subject.restart().await;
    let broker = subject.broker();
    let dead = broker.receive_dead_letters(&q, 10).await.unwrap();
    assert_eq!(dead.len(), 1);
    assert_eq!(
        (dead[0].body.as_str(), dead[0].cause.as_str(), dead[0].receive_count),
        ("1", "cannot be read", 1)
    );
}

async fn dead_lettered(broker: &Arc<dyn Broker>, q: &QueueName, messages: &[(&str, &str)]) {
    for (group, body) in messages {
        send(broker, q, vec![message(group, body)]).await;
        let received = receive(broker, q, 1).await;
        broker.dead_letter(q, &received[0], "test").await.unwrap();
    }
}

/// Redrive: dead letters are received, sent with a new deduplication id and marked, and deleted. A message that fails again becomes
/// a dead letter again.
pub async fn dead_letters_are_listed_in_order_and_redriven(subject: &mut dyn Subject) {
    let broker = subject.broker();
    let q = queue(&broker, LONG, None).await;
    dead_lettered(&broker, &q, &[("g", "0"), ("g", "1"), ("g", "2"), ("g", "3"), ("g", "4")]).await;
    let mut order = Vec::new();
    while broker.dead_letter_depth(&q).await.unwrap() > 0 {
        let dead = broker.receive_dead_letters(&q, 3).await.unwrap();
        assert!(!dead.is_empty(), "only {order:?} came");
        for DeadLetter { id, receipt, group, body, .. } in dead {
            let again = OutgoingMessage {
                redriven: true,
                ..OutgoingMessage::new(group, format!("redrive-{id}"), body.clone())
            };
            send(&broker, &q, vec![again]).await;
            broker.forget(&q, &receipt).await.unwrap();
            broker.forget(&q, &receipt).await.unwrap();
            order.push(body);
        }
    }
    assert_eq!(order, ["0", "1", "2", "3", "4"]);
    send(&broker, &q, vec![message("h", "new")]).await;
    let received = receive(&broker, &q, 10).await;
    let (again, new): (Vec<_>, Vec<_>) = received.into_iter().partition(|m| m.redriven);
    assert_eq!(bodies(&again), ["0", "1", "2", "3", "4"]);
    assert_eq!(bodies(&new), ["new"]);

    broker.dead_letter(&q, &again[0], "again").await.unwrap();
    let dead = broker.receive_dead_letters(&q, 10).await.unwrap();
    assert_eq!((dead.len(), dead[0].body.as_str(), dead[0].cause.as_str()), (1, "0", "again"));
}

/// Two operators do not receive the same dead letter at the same time.
pub async fn received_dead_letter_is_hidden_from_others(subject: &mut dyn Subject) {
    let broker = subject.broker();
    let q = queue(&broker, LONG, None).await;
    dead_lettered(&broker, &q, &[("g", "1"), ("g", "2"), ("h", "3")]).await;
    let first = broker.receive_dead_letters(&q, 1).await.unwrap();
    assert_eq!(first[0].body, "1");
    let others = broker.receive_dead_letters(&q, 10).await.unwrap();
    assert_eq!(
        others.iter().map(|d| d.body.as_str()).collect::<Vec<_>>(),
        ["3"],
        "the group of the first is blocked"
    );
    assert_eq!(broker.dead_letter_depth(&q).await.unwrap(), 3);

    broker.release_dead_letters(&q, std::slice::from_ref(&first[0].receipt)).await.unwrap();
    let again = broker.receive_dead_letters(&q, 10).await.unwrap();
    assert_eq!(again.iter().map(|d| d.body.as_str()).collect::<Vec<_>>(), ["1", "2"]);
    assert_eq!(again[0].id, first[0].id);
    broker.forget(&q, &first[0].receipt).await.unwrap();
    broker
        .release_dead_letters(&q, &[first[0].receipt.clone(), Receipt("nonsense".to_owned())])
        .await
        .unwrap();
    assert!(broker.receive_dead_letters(&q, 10).await.unwrap().is_empty(), "the receipt was stale");
    assert_eq!(broker.dead_letter_depth(&q).await.unwrap(), 3);
}

/// A dead letter that was received and not deleted becomes visible again.
pub async fn dead_letter_reappears_after_its_timeout(subject: &mut dyn Subject) {
    let broker = subject.broker();
    let q = queue(&broker, LONG, None).await;
    dead_lettered(&broker, &q, &[("g", "1"), ("g", "2")]).await;
    let first = broker.receive_dead_letters(&q, 10).await.unwrap();
    subject.advance(DEAD_LETTER_VISIBILITY_TIMEOUT.saturating_sub(Duration::from_secs(5))).await;
    assert!(broker.receive_dead_letters(&q, 10).await.unwrap().is_empty());
    subject.advance(Duration::from_secs(6)).await;
    let second = broker.receive_dead_letters(&q, 10).await.unwrap();
    assert_eq!(second.len(), first.len());
    assert!(second.iter().zip(&first).all(|(b, a)| b.id == a.id && b.receipt != a.receipt));
}
