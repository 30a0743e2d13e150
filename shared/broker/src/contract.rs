//! What every broker promises, as functions that panic when it does not. [`broker_cases`](crate::broker_cases) makes
//! tests of them.

// A suite speaks by panicking, wherever it is compiled.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::missing_panics_doc)]

mod consumers;
mod dead_letters;
mod delivery;
mod polling;
mod queues;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

pub use consumers::*;
pub use dead_letters::*;
pub use delivery::*;
pub use polling::*;
pub use queues::*;

use crate::queue::{Broker, Outgoing, QueueName, QueueOptions, Receipt, Received};

/// A broker under test.
#[async_trait]
pub trait Subject: Send {
    /// The broker as it is now.
    fn broker(&self) -> Arc<dyn Broker>;

    /// Ends the broker as a crash of its process would, and starts it again on what it had stored.
    async fn restart(&mut self);

    /// Makes its clock, which goes on by itself, jump ahead. Where the clock is somebody else's, there is nothing to do
    /// but wait: the cases for every engine ask for no more than some seconds.
    async fn advance(&self, by: Duration);
}

/// Calls the macro `$run` with `$setup` and the names of the cases for every engine.
#[macro_export]
macro_rules! broker_cases {
    ($run:ident, $setup:path) => {
        $run! { $setup;
            messages_of_a_group_come_in_order_one_receive_at_a_time,
            groups_do_not_wait_for_each_other,
            what_is_left_of_a_batch_holds_back_its_group,
            a_repeated_deduplication_id_is_accepted_and_not_delivered,
            unsettled_messages_come_again_in_their_old_order,
            stale_receipts_do_nothing,
            released_messages_come_after_the_delay_in_their_old_order,
            a_receipt_survives_a_restart,
            depth_tells_visible_and_in_flight_apart,
            a_message_received_too_often_becomes_a_dead_letter,
            a_message_that_kills_every_receiver_becomes_a_dead_letter,
            a_buried_message_keeps_its_cause,
            dead_letters_are_shown_in_order_and_redriven,
            a_dead_letter_is_hidden_while_somebody_has_it,
            a_poll_ends_empty_at_its_time,
            a_poll_is_woken_by_a_send,
            a_poll_is_woken_by_the_end_of_a_visibility_timeout,
            a_poll_is_woken_by_a_release,
            a_poll_is_woken_when_its_group_is_free,
            a_missing_queue_is_told,
            a_removed_queue_takes_everything_with_it,
            queues_are_listed_by_prefix,
            options_can_be_changed,
            impossible_requests_are_refused,
            a_large_batch_arrives_whole_and_in_order,
            consumers_side_by_side_keep_the_order_of_each_group,
        }
    };
}

/// The same for the cases that only an engine can pass whose state and clock are its own.
#[macro_export]
macro_rules! own_broker_cases {
    ($run:ident, $setup:path) => {
        $run! { $setup;
            a_deduplication_id_is_forgotten_when_its_window_is_over,
            a_receipt_is_good_until_the_next_receive,
            counts_and_messages_survive_a_restart,
            a_dead_letter_is_shown_again_in_time,
            polls_that_are_given_up_lose_nothing,
            removal_ends_a_poll,
            a_queue_can_be_made_anew,
        }
    };
}

/// How long a case waits for what has to come.
const PATIENCE: Duration = Duration::from_secs(15);
/// A visibility timeout that no case outlives.
const LONG: Duration = Duration::from_mins(10);
/// One that cases wait for.
const SHORT: Duration = Duration::from_secs(2);
/// When it is over.
const OVER: Duration = Duration::from_millis(2200);

fn name(name: &str) -> QueueName {
    QueueName::parse(name).unwrap()
}

async fn queue(broker: &Arc<dyn Broker>, visibility: Duration, max_receives: Option<u32>) -> QueueName {
    let queue = name("q.fifo");
    broker.create(&queue, QueueOptions { visibility, max_receives }).await.unwrap();
    queue
}

/// A message whose body is its deduplication id too.
fn message(group: &str, body: &str) -> Outgoing {
    Outgoing::new(group, body, body)
}

async fn send(broker: &Arc<dyn Broker>, queue: &QueueName, messages: Vec<Outgoing>) {
    let outcome = broker.send(queue, messages).await.unwrap();
    assert!(outcome.failed.is_empty(), "{:?}", outcome.failed);
}

async fn receive(broker: &Arc<dyn Broker>, queue: &QueueName, max: usize) -> Vec<Received> {
    broker.receive(queue, max, Duration::ZERO).await.unwrap()
}

fn bodies(received: &[Received]) -> Vec<&str> {
    received.iter().map(|m| m.body.as_str()).collect()
}

fn receipts(received: &[Received]) -> Vec<Receipt> {
    received.iter().map(|m| m.receipt.clone()).collect()
}
