//! Contract of brokers, as functions that panic on a violation. [`broker_cases`](crate::broker_cases) makes tests of them.

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

use crate::queue::{Broker, OutgoingMessage, QueueName, QueueOptions, Receipt, Received};

#[async_trait]
pub trait Subject: Send {
    fn broker(&self) -> Arc<dyn Broker>;

    /// Stops the broker like a crash of its process, and starts it again with its stored state.
    async fn restart(&mut self);

    /// Moves the broker's clock forward. With a clock that cannot be controlled it waits instead; cases for all engines wait for a
    /// few seconds at most.
    async fn advance(&self, by: Duration);
}

/// Calls the macro `$run` with `$setup` and the names of the cases for all engines.
#[macro_export]
macro_rules! broker_cases {
    ($run:ident, $setup:path) => {
        $run! { $setup;
            group_messages_are_received_in_order_one_at_a_time,
            groups_do_not_wait_for_each_other,
            unsettled_rest_of_a_batch_blocks_its_group,
            repeated_deduplication_id_is_accepted_but_not_delivered,
            unsettled_messages_are_redelivered_in_order,
            stale_receipts_do_nothing,
            released_messages_return_after_the_delay_in_order,
            a_receipt_survives_a_restart,
            depth_distinguishes_visible_and_in_flight_messages,
            a_message_received_too_often_becomes_a_dead_letter,
            a_message_that_kills_every_receiver_becomes_a_dead_letter,
            dead_letter_keeps_its_cause,
            dead_letters_are_listed_in_order_and_redriven,
            received_dead_letter_is_hidden_from_others,
            poll_times_out_empty,
            a_poll_is_woken_by_a_send,
            a_poll_is_woken_by_the_end_of_a_visibility_timeout,
            a_poll_is_woken_by_a_release,
            poll_is_woken_when_its_group_becomes_free,
            missing_queue_is_reported,
            removed_queue_loses_all_its_messages,
            queues_are_listed_by_prefix,
            options_can_be_changed,
            invalid_broker_requests_are_refused,
            a_large_batch_arrives_whole_and_in_order,
            concurrent_consumers_keep_the_order_of_each_group,
        }
    };
}

/// Like `broker_cases`, for cases that need an engine whose state and clock can be controlled.
#[macro_export]
macro_rules! own_broker_cases {
    ($run:ident, $setup:path) => {
        $run! { $setup;
            deduplication_id_expires_with_its_window,
            receipt_is_valid_until_the_next_receive,
            counts_and_messages_survive_a_restart,
            dead_letter_reappears_after_its_timeout,
            cancelled_polls_lose_no_messages,
            removal_ends_a_poll,
            removed_queue_can_be_created_again,
        }
    };
}

/// How long a case waits for an expected result.
const PATIENCE: Duration = Duration::from_secs(15);
/// A visibility timeout longer than any case.
const LONG: Duration = Duration::from_mins(10);
/// A visibility timeout that cases wait for.
const SHORT: Duration = Duration::from_secs(2);
/// The short timeout is over after this time.
const OVER: Duration = Duration::from_millis(2200);

fn name(name: &str) -> QueueName {
    QueueName::parse(name).unwrap()
}

async fn queue(broker: &Arc<dyn Broker>, visibility: Duration, max_receives: Option<u32>) -> QueueName {
    let queue = name("q.fifo");
    broker.create(&queue, QueueOptions { visibility, max_receives }).await.unwrap();
    queue
}

/// A message whose body is also its deduplication id.
fn message(group: &str, body: &str) -> OutgoingMessage {
    OutgoingMessage::new(group, body, body)
}

async fn send(broker: &Arc<dyn Broker>, queue: &QueueName, messages: Vec<OutgoingMessage>) {
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
