//! The shared queues, each with a dead-letter queue.

use pilothouse_app::function::requirements::{SHARED_QUEUES, dead_letters_of};
use pilothouse_app::function::{EventFunction, Trigger};
use pilothouse_functions::catalog::EVENT_FUNCTIONS;
use serde_json::{Value, json};

use crate::names::logical;
use crate::template::{Stack, attribute, named};

/// The retention of dead letters in seconds: 14 days, the maximum of SQS.
const KEPT: u32 = 14 * 24 * 60 * 60;
/// The logical name of the dead-letter queue for records of the table's stream. It cannot be a FIFO queue.
pub(crate) const GIVEN_UP: &str = "relay-dead";

fn timeout_of_consumer(queue: &str) -> u32 {
    let takes =
        |function: &&EventFunction| function.triggers().any(|t| t == Trigger::Queue(queue_of_catalog(queue)));
    EVENT_FUNCTIONS.iter().find(takes).map_or(30, |f| f.requirements.timeout_seconds)
}

fn queue_of_catalog(name: &str) -> &'static str {
    SHARED_QUEUES.iter().find(|queue| queue.name == name).map_or("", |queue| queue.name)
}

fn properties(name: &str, more: Value) -> Value {
    let mut properties = json!({ "QueueName": named(name), "SqsManagedSseEnabled": true });
    if name.strip_suffix(".fifo").is_some() {
        properties["FifoQueue"] = json!(true);
        // Throughput limit and deduplication apply to each message group.
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
                    // SQS recommends six times the timeout of the consumer.
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
