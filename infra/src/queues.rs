//! The queues that are always there, each with its dead letters.

use pilothouse_functions::catalogue::needs::{SHARED_QUEUES, dead_letters_of};
use pilothouse_functions::catalogue::{EVENT_FUNCTIONS, Trigger};
use serde_json::{Value, json};

use crate::names::logical;
use crate::template::{Stack, attribute, named};

/// How long dead letters are kept, in seconds: as long as SQS can, 14 days.
const KEPT: u32 = 14 * 24 * 60 * 60;
/// The logical name of the queue that is told which records of the table's stream were given up. No FIFO queue can be.
pub(crate) const GIVEN_UP: &str = "relay-dead";

/// The timeout of the function that takes from a queue, in seconds.
fn timeout_of_consumer(queue: &str) -> u32 {
    let takes = |triggers: &[Trigger]| triggers.contains(&Trigger::Queue(queue_of_catalogue(queue)));
    EVENT_FUNCTIONS.iter().find(|f| takes(f.triggers)).map_or(30, |f| f.needs.timeout_seconds)
}

fn queue_of_catalogue(name: &str) -> &'static str {
    SHARED_QUEUES.iter().find(|queue| queue.name == name).map_or("", |queue| queue.name)
}

fn properties(name: &str, more: Value) -> Value {
    let mut properties = json!({ "QueueName": named(name), "SqsManagedSseEnabled": true });
    if name.strip_suffix(".fifo").is_some() {
        properties["FifoQueue"] = json!(true);
        // Groups do not share a limit, nor deduplication ids.
        properties["DeduplicationScope"] = json!("messageGroup");
        properties["FifoThroughputLimit"] = json!("perMessageGroupId");
    }
    if let (Value::Object(more), Some(properties)) = (more, properties.as_object_mut()) {
        properties.extend(more);
    }
    properties
}

pub(crate) fn add(stack: &mut Stack) {
    for queue in SHARED_QUEUES {
        let dead = dead_letters_of(queue.name);
        stack.add(
            format!("{}Queue", logical(&dead)),
            "AWS::SQS::Queue",
            properties(&dead, json!({ "MessageRetentionPeriod": KEPT })),
        );
        stack.add(
            format!("{}Queue", logical(queue.name)),
            "AWS::SQS::Queue",
            properties(
                queue.name,
                json!({
                    "MessageRetentionPeriod": KEPT,
                    // SQS's own advice: six times the timeout of who takes from it.
                    "VisibilityTimeout": 6 * timeout_of_consumer(queue.name),
                    "RedrivePolicy": {
                        "deadLetterTargetArn": attribute(&format!("{}Queue", logical(&dead)), "Arn"),
                        "maxReceiveCount": queue.max_receives,
                    },
                }),
            ),
        );
    }
    stack.add(
        format!("{}Queue", logical(GIVEN_UP)),
        "AWS::SQS::Queue",
        properties(GIVEN_UP, json!({ "MessageRetentionPeriod": KEPT })),
    );
}
