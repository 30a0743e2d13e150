//! What only operators may do: those who run the deployment, not those who run sessions on it.

pub mod list_dead_letters;
pub mod redrive_dead_letters;

use pilothouse_broker::{QueueError, QueueName};
use pilothouse_domain::UserId;

use crate::app::App;
use crate::catalogue::needs::SHARED_QUEUES;
use crate::edge::Problem;

/// Refuses everybody else: to them, there is nothing here.
fn check_operator(app: &App, owner: &UserId) -> Result<(), Problem> {
    if app.fleet.as_ref().is_some_and(|fleet| fleet.operators.contains(owner)) {
        return Ok(());
    }
    Err(Problem::NotFound("only operators have this".to_owned()))
}

/// The queues that have dead letters. Not all profiles have all of them.
fn queues() -> impl Iterator<Item = QueueName> {
    SHARED_QUEUES.iter().filter_map(|queue| QueueName::parse(queue.name))
}

/// What the relay could not hand on (`aws` only): no queue is behind these letters, but a place in the table's stream.
fn relay() -> Option<QueueName> {
    QueueName::parse(RELAY)
}

/// Under what name letters of the relay are listed.
const RELAY: &str = "relay";

fn failed(error: QueueError) -> Problem {
    match error {
        QueueError::NoSuchQueue(name) => Problem::NotFound(format!("there is no queue `{name}`")),
        other => Problem::internal(other),
    }
}
