//! Long polls, which must end as soon as a message is available.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::task::JoinSet;

use super::{LONG, PATIENCE, Subject, bodies, message, queue, receipts, receive, send};
use crate::queue::{Broker, QueueName, Received};

/// Starts a poll with nearly the longest wait, and returns once it waits.
async fn poll(broker: &Arc<dyn Broker>, q: &QueueName) -> tokio::task::JoinHandle<Vec<Received>> {
    let (broker, q) = (Arc::clone(broker), q.clone());
    let (started, begun) = tokio::sync::oneshot::channel();
    let task = tokio::spawn(async move {
        let mut receive = broker.receive(&q, 10, Duration::from_secs(19));
        // When this returns, the first attempt has found nothing.
        let first = std::future::poll_fn(|ctx| std::task::Poll::Ready(receive.as_mut().poll(ctx))).await;
        started.send(()).unwrap();
        match first {
            std::task::Poll::Ready(received) => received.unwrap(),
            std::task::Poll::Pending => receive.await.unwrap(),
        }
    });
    begun.await.unwrap();
    task
}

async fn woken(task: tokio::task::JoinHandle<Vec<Received>>) -> Vec<Received> {
    tokio::time::timeout(PATIENCE, task).await.expect("the poll is woken before its end").unwrap()
}

pub async fn poll_times_out_empty(subject: &mut dyn Subject) {
    let broker = subject.broker();
    let q = queue(&broker, LONG, None).await;
    let begun = Instant::now();
    assert!(broker.receive(&q, 10, Duration::from_millis(150)).await.unwrap().is_empty());
    assert!(begun.elapsed() >= Duration::from_millis(150));
}

/// A send wakes a poll, and each of several polls gets a message.
pub async fn a_poll_is_woken_by_a_send(subject: &mut dyn Subject) {
    let broker = subject.broker();
    let q = queue(&broker, LONG, None).await;
    let polls = [poll(&broker, &q).await, poll(&broker, &q).await, poll(&broker, &q).await];
    for group in ["a", "b", "c"] {
        send(&broker, &q, vec![message(group, group)]).await;
    }
    // Await all of them: one poll may take two messages, while another keeps waiting.
    let mut woken_polls = JoinSet::new();
    for task in polls {
        woken_polls.spawn(woken(task));
    }
    let mut got = Vec::new();
    while got.len() < 3 {
        let Some(received) = woken_polls.join_next().await else { break };
        got.extend(received.expect("a poll is woken").into_iter().map(|m| m.body));
    }
    woken_polls.abort_all();
    got.sort();
    assert_eq!(got, ["a", "b", "c"]);
}

pub async fn a_poll_is_woken_by_the_end_of_a_visibility_timeout(subject: &mut dyn Subject) {
    let broker = subject.broker();
    let q = queue(&broker, Duration::from_secs(1), None).await;
    send(&broker, &q, vec![message("g", "1")]).await;
    assert_eq!(receive(&broker, &q, 1).await.len(), 1);
    let received = woken(poll(&broker, &q).await).await;
    assert_eq!((bodies(&received), received[0].receive_count), (vec!["1"], 2));
}

/// A release wakes a poll, at once or after its delay.
pub async fn a_poll_is_woken_by_a_release(subject: &mut dyn Subject) {
    let broker = subject.broker();
    let q = queue(&broker, LONG, None).await;
    send(&broker, &q, vec![message("g", "1")]).await;
    for delay in [Duration::ZERO, Duration::from_millis(200)] {
        let received = receive(&broker, &q, 1).await;
        let task = poll(&broker, &q).await;
        broker.release(&q, &receipts(&received), delay).await.unwrap();
        let received = woken(task).await;
        assert_eq!(bodies(&received), ["1"]);
        broker.release(&q, &receipts(&received), Duration::ZERO).await.unwrap();
    }
}

/// Deleting a message in flight wakes a poll for the next message of its group.
pub async fn poll_is_woken_when_its_group_becomes_free(subject: &mut dyn Subject) {
    let broker = subject.broker();
    let q = queue(&broker, LONG, None).await;
    send(&broker, &q, vec![message("g", "1"), message("g", "2")]).await;
    let received = receive(&broker, &q, 1).await;
    let task = poll(&broker, &q).await;
    broker.delete(&q, &receipts(&received)).await.unwrap();
    assert_eq!(bodies(&woken(task).await), ["2"]);
}

/// A poll that is dropped neither loses a message nor keeps other polls waiting.
pub async fn cancelled_polls_lose_no_messages(subject: &mut dyn Subject) {
    let broker = subject.broker();
    let q = queue(&broker, LONG, None).await;
    for round in 0..30_u64 {
        let body = round.to_string();
        let given_up = poll(&broker, &q).await;
        let stays = poll(&broker, &q).await;
        send(&broker, &q, vec![message("g", &body)]).await;
        // Abort at different stages: before the wake-up, during the delivery, after it.
        for _ in 0..round % 6 {
            tokio::task::yield_now().await;
        }
        given_up.abort();
        let received = match given_up.await {
            Ok(received) => {
                stays.abort();
                // Both polls have ended; the other one received nothing.
                assert!(stays.await.map_or(true, |other| other.is_empty()));
                received
            }
            Err(_) => woken(stays).await,
        };
        assert_eq!(bodies(&received), [body.as_str()], "round {round}");
        broker.delete(&q, &receipts(&received)).await.unwrap();
    }
}
