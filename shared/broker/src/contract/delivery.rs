use std::time::Duration;

use super::{LONG, OVER, SHORT, Subject, bodies, message, queue, receipts, receive, send};
use crate::queue::{DEDUPLICATION_WINDOW, Depth, OutgoingMessage, Receipt};

/// Messages of a group are received in order, and only while no earlier receive of the group is in flight.
pub async fn group_messages_are_received_in_order_one_at_a_time(subject: &mut dyn Subject) {
    let broker = subject.broker();
    let q = queue(&broker, LONG, None).await;
    for batch in 0..3 {
        send(&broker, &q, (0..5).map(|n| message("g", &(batch * 5 + n).to_string())).collect()).await;
    }
    let first = receive(&broker, &q, 10).await;
    assert_eq!(bodies(&first), ["0", "1", "2", "3", "4", "5", "6", "7", "8", "9"]);
    assert!(first.iter().all(|m| m.receive_count == 1 && m.group == "g"));
    assert!(receive(&broker, &q, 10).await.is_empty(), "the group has messages in flight");
    broker.delete(&q, &receipts(&first)).await.unwrap();
    let second = receive(&broker, &q, 10).await;
    assert_eq!(bodies(&second), ["10", "11", "12", "13", "14"]);
    broker.delete(&q, &receipts(&second)).await.unwrap();
    assert!(receive(&broker, &q, 10).await.is_empty());
    assert_eq!(broker.depth(&q).await.unwrap(), Depth::default());
}

/// A group in flight does not block others. One receive may return several groups.
pub async fn groups_do_not_wait_for_each_other(subject: &mut dyn Subject) {
    let broker = subject.broker();
    let q = queue(&broker, LONG, None).await;
    send(&broker, &q, vec![message("a", "a1"), message("a", "a2"), message("b", "b1"), message("c", "c1")])
        .await;
    assert_eq!(bodies(&receive(&broker, &q, 1).await), ["a1"]);
    let mut rest: Vec<_> = receive(&broker, &q, 10).await.into_iter().map(|m| m.body).collect();
    rest.sort();
    assert_eq!(rest, ["b1", "c1"]);
}

/// A group is available only after all messages of an earlier receive are settled.
pub async fn unsettled_rest_of_a_batch_blocks_its_group(subject: &mut dyn Subject) {
    let broker = subject.broker();
    let q = queue(&broker, LONG, None).await;
    send(&broker, &q, vec![message("g", "1"), message("g", "2"), message("g", "3")]).await;
    let first = receive(&broker, &q, 2).await;
    broker.delete(&q, &receipts(&first[..1])).await.unwrap();
    assert!(receive(&broker, &q, 10).await.is_empty());
    broker.release(&q, &receipts(&first[1..]), Duration::ZERO).await.unwrap();
    assert_eq!(bodies(&receive(&broker, &q, 10).await), ["2", "3"]);
}

/// Deduplication within a batch, later, after deletion and after a restart; separately for each queue.
pub async fn repeated_deduplication_id_is_accepted_but_not_delivered(subject: &mut dyn Subject) {
    let broker = subject.broker();
    let q = queue(&broker, LONG, None).await;
    send(&broker, &q, vec![message("g", "1"), message("g", "1"), message("g", "2")]).await;
    let first = receive(&broker, &q, 10).await;
    assert_eq!(bodies(&first), ["1", "2"]);
    broker.delete(&q, &receipts(&first)).await.unwrap();
    send(&broker, &q, vec![message("g", "1"), message("h", "2")]).await;
    drop(broker);
    subject.restart().await;
    let broker = subject.broker();
    send(&broker, &q, vec![message("g", "1")]).await;
    assert!(receive(&broker, &q, 10).await.is_empty());

    let other = super::name("other.fifo");
    let options = crate::QueueOptions { visibility: LONG, max_receives: None };
    broker.create(&other, options).await.unwrap();
    send(&broker, &other, vec![message("g", "1")]).await;
    assert_eq!(bodies(&receive(&broker, &other, 10).await), ["1"]);
}

pub async fn deduplication_id_expires_with_its_window(subject: &mut dyn Subject) {
    let broker = subject.broker();
    let q = queue(&broker, LONG, None).await;
    send(&broker, &q, vec![message("g", "1")]).await;
    let first = receive(&broker, &q, 10).await;
    broker.delete(&q, &receipts(&first)).await.unwrap();
    subject.advance(DEDUPLICATION_WINDOW.saturating_sub(Duration::from_mins(1))).await;
    send(&broker, &q, vec![message("g", "1")]).await;
    assert!(receive(&broker, &q, 10).await.is_empty());

    subject.advance(Duration::from_secs(61)).await;
    send(&broker, &q, vec![message("g", "1")]).await;
    assert_eq!(bodies(&receive(&broker, &q, 10).await), ["1"]);
    for window in 0..3 {
        subject.advance(DEDUPLICATION_WINDOW + Duration::from_secs(1)).await;
        let again = OutgoingMessage { body: format!("again {window}"), ..message("h", "1") };
        send(&broker, &q, vec![again.clone(), again]).await;
        let received = receive(&broker, &q, 10).await;
        assert_eq!(received.iter().filter(|m| m.group == "h").count(), 1, "window {window}");
        broker.delete(&q, &receipts(&received)).await.unwrap();
    }
}

pub async fn unsettled_messages_are_redelivered_in_order(subject: &mut dyn Subject) {
    let broker = subject.broker();
    let q = queue(&broker, SHORT, None).await;
    send(&broker, &q, vec![message("g", "1"), message("g", "2"), message("g", "3")]).await;
    let first = receive(&broker, &q, 2).await;
    assert!(receive(&broker, &q, 10).await.is_empty());
    subject.advance(OVER).await;
    let again = receive(&broker, &q, 10).await;
    assert_eq!(bodies(&again), ["1", "2", "3"]);
    assert_eq!(again.iter().map(|m| m.receive_count).collect::<Vec<_>>(), [2, 2, 1]);
    assert!(again.iter().all(|m| !receipts(&first).contains(&m.receipt)));
}

/// Receipts of messages that were received again or deleted, and invalid receipts.
pub async fn stale_receipts_do_nothing(subject: &mut dyn Subject) {
    let broker = subject.broker();
    let q = queue(&broker, LONG, None).await;
    send(&broker, &q, vec![message("g", "1")]).await;
    let first = receive(&broker, &q, 1).await;
    broker.release(&q, &receipts(&first), Duration::ZERO).await.unwrap();
    let second = receive(&broker, &q, 1).await;
    broker.delete(&q, &receipts(&first)).await.unwrap();
    broker.release(&q, &receipts(&first), Duration::ZERO).await.unwrap();
    broker.dead_letter(&q, &first[0], "stale").await.unwrap();
    broker.delete(&q, &[Receipt("nonsense".to_owned()), Receipt(String::new())]).await.unwrap();
    assert!(receive(&broker, &q, 10).await.is_empty(), "still in flight");
    assert_eq!(broker.dead_letter_depth(&q).await.unwrap(), 0);
    assert_eq!(broker.depth(&q).await.unwrap().in_flight, 1);
    broker.delete(&q, &receipts(&second)).await.unwrap();
    broker.delete(&q, &receipts(&second)).await.unwrap();
    assert_eq!(broker.depth(&q).await.unwrap(), Depth::default());
}

/// A receipt whose timeout is over stays valid until the message is received again.
pub async fn receipt_is_valid_until_the_next_receive(subject: &mut dyn Subject) {
    let broker = subject.broker();
    let q = queue(&broker, Duration::from_mins(1), None).await;
    send(&broker, &q, vec![message("g", "1"), message("g", "2")]).await;
    let first = receive(&broker, &q, 2).await;
    subject.advance(Duration::from_secs(61)).await;
    broker.delete(&q, &receipts(&first[..1])).await.unwrap();
    let second = receive(&broker, &q, 10).await;
    assert_eq!(bodies(&second), ["2"], "the late receipt deleted its message");
    broker.delete(&q, &receipts(&first[1..])).await.unwrap();
    assert_eq!(broker.depth(&q).await.unwrap().in_flight, 1, "the other one was received again");
}

pub async fn released_messages_return_after_the_delay_in_order(subject: &mut dyn Subject) {
    let broker = subject.broker();
    let q = queue(&broker, LONG, None).await;
    send(&broker, &q, vec![message("g", "1"), message("g", "2"), message("g", "3")]).await;
    let first = receive(&broker, &q, 3).await;
    broker.release(&q, &receipts(&first), Duration::ZERO).await.unwrap();
    let second = receive(&broker, &q, 3).await;
    assert_eq!(bodies(&second), ["1", "2", "3"]);
    broker.release(&q, &receipts(&second), SHORT).await.unwrap();
    send(&broker, &q, vec![message("g", "4")]).await;
    assert!(receive(&broker, &q, 10).await.is_empty(), "later messages wait");
    subject.advance(OVER).await;
    let third = receive(&broker, &q, 10).await;
    assert_eq!(bodies(&third), ["1", "2", "3", "4"]);
    assert_eq!(third[0].receive_count, 3);
}

/// Messages, their order and their receive counts are durable. After a restart, messages in flight are visible.
pub async fn counts_and_messages_survive_a_restart(subject: &mut dyn Subject) {
    let broker = subject.broker();
    let q = queue(&broker, LONG, None).await;
    send(&broker, &q, (0..4).map(|n| message("g", &n.to_string())).collect()).await;
    let first = receive(&broker, &q, 2).await;
    broker.delete(&q, &receipts(&first[..1])).await.unwrap();
    drop(broker);
    subject.restart().await;
    let broker = subject.broker();
    send(&broker, &q, vec![message("g", "4")]).await;
    let received = receive(&broker, &q, 10).await;
    assert_eq!(bodies(&received), ["1", "2", "3", "4"]);
    assert_eq!(received.iter().map(|m| m.receive_count).collect::<Vec<_>>(), [2, 1, 1, 1]);
}

/// A consumer that outlives the broker can settle its messages.
pub async fn a_receipt_survives_a_restart(subject: &mut dyn Subject) {
    let broker = subject.broker();
    let q = queue(&broker, LONG, None).await;
    send(&broker, &q, vec![message("g", "1"), message("g", "2")]).await;
    let received = receive(&broker, &q, 1).await;
    drop(broker);
    subject.restart().await;
    let broker = subject.broker();
    broker.delete(&q, &receipts(&received)).await.unwrap();
    assert_eq!(bodies(&receive(&broker, &q, 10).await), ["2"]);
}

pub async fn depth_distinguishes_visible_and_in_flight_messages(subject: &mut dyn Subject) {
    let broker = subject.broker();
    let q = queue(&broker, SHORT, None).await;
    send(&broker, &q, vec![message("a", "1"), message("a", "2"), message("b", "3")]).await;
    assert_eq!(broker.depth(&q).await.unwrap(), Depth { visible: 3, in_flight: 0 });
    let first = receive(&broker, &q, 1).await;
    assert_eq!(broker.depth(&q).await.unwrap(), Depth { visible: 2, in_flight: 1 });
    subject.advance(OVER).await;
    assert_eq!(broker.depth(&q).await.unwrap(), Depth { visible: 3, in_flight: 0 });
    let again = receive(&broker, &q, 10).await;
    broker.delete(&q, &receipts(&first)).await.unwrap();
    let depth = broker.depth(&q).await.unwrap();
    assert_eq!(depth, Depth { visible: 0, in_flight: 3 }, "the receipt was stale");
    broker.delete(&q, &receipts(&again)).await.unwrap();
    assert_eq!(broker.depth(&q).await.unwrap(), Depth::default());
}
