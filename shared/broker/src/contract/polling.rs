//! Long polls. What has to wake one comes while it waits, and it must not wait for its end.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::task::JoinSet;

use super::{LONG, PATIENCE, Subject, bodies, message, queue, receipts, receive, send};
use crate::queue::{Broker, QueueName, Received};

/// A poll of nearly the longest wait, in a task of its own, that has been asleep once.
async fn poll(broker: &Arc<dyn Broker>, q: &QueueName) -> tokio::task::JoinHandle<Vec<Received>> {
    let (broker, q) = (Arc::clone(broker), q.clone());
    let (started, begun) = tokio::sync::oneshot::channel();
    let task = tokio::spawn(async move {
        let mut receive = broker.receive(&q, 10, Duration::from_secs(19));
        // The first look has found nothing when this returns.
        let first = std::future::poll_fn(|cx| std::task::Poll::Ready(receive.as_mut().poll(cx))).await;
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

/// An empty poll.
pub async fn a_poll_ends_empty_at_its_time(subject: &mut dyn Subject) {
    let broker = subject.broker();
    let q = queue(&broker, LONG, None).await;
    let begun = Instant::now();
    assert!(broker.receive(&q, 10, Duration::from_millis(150)).await.unwrap().is_empty());
    assert!(begun.elapsed() >= Duration::from_millis(150));
}

/// A send wakes, and each of several polls gets its message.
pub async fn a_poll_is_woken_by_a_send(subject: &mut dyn Subject) {
    let broker = subject.broker();
    let q = queue(&broker, LONG, None).await;
    let polls = [poll(&broker, &q).await, poll(&broker, &q).await, poll(&broker, &q).await];
    for group in ["a", "b", "c"] {
        send(&broker, &q, vec![message(group, group)]).await;
    }
    // Whichever is woken: one may have taken two, and then another still waits.
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

/// The end of a visibility timeout wakes.
pub async fn a_poll_is_woken_by_the_end_of_a_visibility_timeout(subject: &mut dyn Subject) {
    let broker = subject.broker();
    let q = queue(&broker, Duration::from_secs(1), None).await;
    send(&broker, &q, vec![message("g", "1")]).await;
    assert_eq!(receive(&broker, &q, 1).await.len(), 1);
    let received = woken(poll(&broker, &q).await).await;
    assert_eq!((bodies(&received), received[0].receive_count), (vec!["1"], 2));
}

/// A release wakes, at once or after its delay.
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

/// The deletion of what was in flight wakes for what follows in the group.
pub async fn a_poll_is_woken_when_its_group_is_free(subject: &mut dyn Subject) {
    let broker = subject.broker();
    let q = queue(&broker, LONG, None).await;
    send(&broker, &q, vec![message("g", "1"), message("g", "2")]).await;
    let received = receive(&broker, &q, 1).await;
    let task = poll(&broker, &q).await;
    broker.delete(&q, &receipts(&received)).await.unwrap();
    assert_eq!(bodies(&woken(task).await), ["2"]);
}

/// A caller that gives up neither takes a message with it nor keeps the others asleep.
pub async fn polls_that_are_given_up_lose_nothing(subject: &mut dyn Subject) {
    let broker = subject.broker();
    let q = queue(&broker, LONG, None).await;
    for round in 0..30_u64 {
        let body = round.to_string();
        let given_up = poll(&broker, &q).await;
        let stays = poll(&broker, &q).await;
        send(&broker, &q, vec![message("g", &body)]).await;
        // At every stage: before it is woken, while it is handed the message, after.
        for _ in 0..round % 6 {
            tokio::task::yield_now().await;
        }
        given_up.abort();
        let received = match given_up.await {
            Ok(received) => {
                stays.abort();
                // Ended either way; what it got is for nobody else.
                assert!(stays.await.map_or(true, |other| other.is_empty()));
                received
            }
            Err(_) => woken(stays).await,
        };
        assert_eq!(bodies(&received), [body.as_str()], "round {round}");
        broker.delete(&q, &receipts(&received)).await.unwrap();
    }
}
