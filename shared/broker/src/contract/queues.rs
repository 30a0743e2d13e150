use std::time::Duration;

use super::{LONG, OVER, PATIENCE, SHORT, Subject, bodies, message, name, queue, receipts, receive, send};
use crate::queue::{Depth, MAX_MESSAGE_BYTES, OutgoingMessage, QueueError, QueueOptions, Receipt, Received};

fn missing(receipt: &Receipt) -> Received {
    let (group, body) = ("g".to_owned(), "1".to_owned());
    Received { receipt: receipt.clone(), group, body, receive_count: 1, redriven: false }
}

/// Every operation but removal fails with an error for a missing queue.
pub async fn missing_queue_is_reported(subject: &mut dyn Subject) {
    let broker = subject.broker();
    let q = name("missing.fifo");
    let receipt = Receipt("1-1".to_owned());
    let errors = [
        broker.send(&q, vec![message("g", "1")]).await.err(),
        broker.receive(&q, 1, Duration::ZERO).await.err(),
        broker.delete(&q, std::slice::from_ref(&receipt)).await.err(),
        broker.release(&q, std::slice::from_ref(&receipt), Duration::ZERO).await.err(),
        broker.dead_letter(&q, &missing(&receipt), "x").await.err(),
        broker.receive_dead_letters(&q, 1).await.err(),
        broker.release_dead_letters(&q, std::slice::from_ref(&receipt)).await.err(),
        broker.forget(&q, &receipt).await.err(),
        broker.dead_letter_depth(&q).await.err(),
        broker.depth(&q).await.err(),
    ];
    for error in errors {
        assert!(matches!(error, Some(QueueError::NoSuchQueue(name)) if name == "missing.fifo"));
    }
    broker.remove(&q).await.unwrap();
}

/// A removed queue is missing for existing and new clients.
pub async fn removed_queue_loses_all_its_messages(subject: &mut dyn Subject) {
    let broker = subject.broker();
    let q = queue(&broker, LONG, None).await;
    send(&broker, &q, vec![message("g", "1"), message("g", "2")]).await;
    let received = receive(&broker, &q, 1).await;
    broker.dead_letter(&q, &received[0], "x").await.unwrap();
    broker.remove(&q).await.unwrap();
    drop(broker);
    for round in 0..2 {
        let broker = subject.broker();
        let sent = broker.send(&q, vec![message("g", "4")]).await;
        assert!(matches!(sent, Err(QueueError::NoSuchQueue(_))), "round {round}");
        let dead = broker.receive_dead_letters(&q, 1).await;
        assert!(matches!(dead, Err(QueueError::NoSuchQueue(_))), "round {round}");
        assert!(broker.list("").await.unwrap().is_empty(), "round {round}");
        drop(broker);
        subject.restart().await;
    }
}

pub async fn removed_queue_can_be_created_again(subject: &mut dyn Subject) {
    let broker = subject.broker();
    let q = queue(&broker, LONG, None).await;
    send(&broker, &q, vec![message("g", "1"), message("g", "2"), message("h", "3")]).await;
    let received = receive(&broker, &q, 1).await;
    broker.dead_letter(&q, &received[0], "x").await.unwrap();
    let received = receive(&broker, &q, 1).await;
    broker.remove(&q).await.unwrap();
    let sent = broker.send(&q, vec![message("g", "4")]).await;
    assert!(matches!(sent, Err(QueueError::NoSuchQueue(_))));
    drop(broker);
    subject.restart().await;
    let broker = subject.broker();
    assert!(broker.list("").await.unwrap().is_empty());
    let q = queue(&broker, LONG, None).await;
    assert_eq!(broker.depth(&q).await.unwrap(), Depth::default());
    assert_eq!(broker.dead_letter_depth(&q).await.unwrap(), 0);
    send(&broker, &q, vec![message("g", "1")]).await;
    broker.delete(&q, &receipts(&received)).await.unwrap();
    assert_eq!(
        bodies(&receive(&broker, &q, 10).await),
        ["1"],
        "nothing of the old queue affects the new one"
    );
}

pub async fn removal_ends_a_poll(subject: &mut dyn Subject) {
    let broker = subject.broker();
    let q = queue(&broker, LONG, None).await;
    let polls: Vec<_> = (0..3)
        .map(|_| {
            let (broker, q) = (subject.broker(), q.clone());
            tokio::spawn(async move { broker.receive(&q, 1, Duration::from_secs(19)).await })
        })
        .collect();
    broker.remove(&q).await.unwrap();
    for task in polls {
        let result = tokio::time::timeout(PATIENCE, task).await.expect("the poll ends").unwrap();
        assert!(matches!(result, Err(QueueError::NoSuchQueue(_))));
    }
}

pub async fn queues_are_listed_by_prefix(subject: &mut dyn Subject) {
    let broker = subject.broker();
    let options = QueueOptions { visibility: LONG, max_receives: None };
    for queue in ["run-b.fifo", "events.fifo", "run-a.fifo"] {
        let options = QueueOptions { max_receives: queue.starts_with("run-").then_some(3), ..options };
        broker.create(&name(queue), options).await.unwrap();
    }
    let both = [name("run-a.fifo"), name("run-b.fifo")];
    assert_eq!(broker.list("run-").await.unwrap(), both, "queues of dead letters are not listed");
    assert_eq!(broker.list("").await.unwrap().len(), 3);
    assert!(broker.list("x").await.unwrap().is_empty());
    broker.remove(&name("run-a.fifo")).await.unwrap();
    drop(broker);
    subject.restart().await;
    assert_eq!(subject.broker().list("run-").await.unwrap(), [name("run-b.fifo")]);
}

pub async fn options_can_be_changed(subject: &mut dyn Subject) {
    let broker = subject.broker();
    let q = queue(&broker, LONG, None).await;
    send(&broker, &q, vec![message("g", "1")]).await;
    queue(&broker, SHORT, Some(1)).await;
    drop(broker);
    subject.restart().await;
    let broker = subject.broker();
    assert_eq!(bodies(&receive(&broker, &q, 1).await), ["1"]);
    subject.advance(OVER).await;
    assert!(receive(&broker, &q, 1).await.is_empty());
    assert_eq!(broker.dead_letter_depth(&q).await.unwrap(), 1);
    queue(&broker, LONG, Some(1)).await;
    queue(&broker, LONG, Some(1)).await;
    assert_eq!(broker.dead_letter_depth(&q).await.unwrap(), 1, "dead letters stay");
}

/// Limits. An invalid message of a batch fails alone.
pub async fn invalid_broker_requests_are_refused(subject: &mut dyn Subject) {
    let broker = subject.broker();
    let q = queue(&broker, LONG, None).await;
    let eleven = (0..11).map(|n| message("g", &n.to_string())).collect();
    assert!(matches!(broker.send(&q, eleven).await, Err(QueueError::Invalid(_))));
    assert!(matches!(broker.receive(&q, 0, Duration::ZERO).await, Err(QueueError::Invalid(_))));
    assert!(matches!(broker.receive(&q, 11, Duration::ZERO).await, Err(QueueError::Invalid(_))));
    assert!(matches!(broker.receive(&q, 1, Duration::from_secs(21)).await, Err(QueueError::Invalid(_))));

    let outcome = broker
        .send(
            &q,
            vec![
                message("g", "1"),
                OutgoingMessage { body: "x".repeat(MAX_MESSAGE_BYTES + 1), ..message("g", "2") },
                OutgoingMessage { delay: Duration::from_secs(1), ..message("g", "3") },
                OutgoingMessage { group: String::new(), ..message("g", "4") },
                OutgoingMessage { body: "y".repeat(MAX_MESSAGE_BYTES), ..message("g", "5") },
            ],
        )
        .await
        .unwrap();
    let failed: Vec<_> = outcome.failed.iter().map(|(position, _)| *position).collect();
    assert_eq!(failed, [1, 2, 3]);
    assert!(outcome.failed.iter().all(|(_, e)| matches!(e, QueueError::Invalid(_))));
    let received = receive(&broker, &q, 10).await;
    assert_eq!(received.len(), 2);
    assert_eq!(received[1].body.len(), MAX_MESSAGE_BYTES);
    assert!(broker.send(&q, Vec::new()).await.unwrap().failed.is_empty());
    assert!(matches!(broker.receive_dead_letters(&q, 11).await, Err(QueueError::Invalid(_))));
}

pub async fn a_large_batch_arrives_whole_and_in_order(subject: &mut dyn Subject) {
    let broker = subject.broker();
    let q = queue(&broker, LONG, None).await;
    let large = |n: u32| OutgoingMessage {
        body: format!("{n}{}", "x".repeat(MAX_MESSAGE_BYTES - 1)),
        ..message("g", &n.to_string())
    };
    send(&broker, &q, (0..10).map(large).collect()).await;
    let mut order = String::new();
    while order.len() < 10 {
        // A receive may return fewer messages than there are.
        let received = receive(&broker, &q, 10).await;
        assert!(!received.is_empty(), "only {order} arrived");
        assert!(received.iter().all(|m| m.body.len() == MAX_MESSAGE_BYTES));
        order.extend(received.iter().filter_map(|m| m.body.chars().next()));
        broker.delete(&q, &receipts(&received)).await.unwrap();
    }
    assert_eq!(order, "0123456789");
}
