//! Shared parts of the functions that list and redrive dead letters. Only operators of a deployment may call them.

use pilothouse_app::App;
use pilothouse_app::function::requirements::SHARED_QUEUES;
use pilothouse_app::http::Problem;
use pilothouse_broker::{QueueError, QueueName};
use pilothouse_domain::UserId;

/// Operators only; everyone else gets "not found".
pub(crate) fn check_operator(app: &App, owner: &UserId) -> Result<(), Problem> {
    if app.fleet.as_ref().is_some_and(|fleet| fleet.operators.contains(owner)) {
        return Ok(());
    }
    Err(Problem::NotFound("only operators have this".to_owned()))
}

/// The queues that have dead letters. A profile may lack some of them.
pub(crate) fn queues() -> impl Iterator<Item = QueueName> {
    SHARED_QUEUES.iter().filter_map(|queue| QueueName::parse(queue.name))
}

/// The dead letters of the relay (`aws` only). They name records of the table's stream instead of messages of a queue.
pub(crate) fn relay() -> Option<QueueName> {
    QueueName::parse(RELAY)
}

/// The name under which the relay's dead letters are listed.
pub(crate) const RELAY: &str = "relay";

pub(crate) fn failed(error: QueueError) -> Problem {
    match error {
        QueueError::NoSuchQueue(name) => Problem::NotFound(format!("there is no queue `{name}`")),
        other => Problem::internal(other),
    }
}
