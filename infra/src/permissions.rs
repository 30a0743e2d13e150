//! The statements of a function's role, generated from its access in the catalogue. Each statement names its actions and
//! resources.

use pilothouse_app::function::Trigger;
use pilothouse_app::function::requirements::{
    AssumedRole, BlobAccess, DynamicQueueAccess, SHARED_QUEUES, TableAccess, dead_letters_of,
};
use serde_json::{Value, json};

use crate::contexts::Deployed;
use crate::names::{bucket, ecs, event_bus, log_streams, queue, role, table, topic};
use crate::queues::GIVEN_UP;
use crate::template::{only_if, reference, sub};

/// Send one or several messages. A pattern, because local clouds use a separate name for the batch action.
const SEND: &[&str] = &["sqs:SendMessage*", "sqs:GetQueueUrl"];
/// Receive, delete and release one or several messages.
const TAKE: &[&str] = &[
    "sqs:ReceiveMessage",
    "sqs:DeleteMessage*",
    "sqs:ChangeMessageVisibility*",
    "sqs:GetQueueAttributes",
    "sqs:GetQueueUrl",
];
/// Create, send to, inspect and delete queues.
const MANAGE: &[&str] = &[
    "sqs:CreateQueue",
    "sqs:DeleteQueue",
    "sqs:SetQueueAttributes",
    "sqs:GetQueueAttributes",
    "sqs:SendMessage*",
    "sqs:GetQueueUrl",
];
const READ_ITEMS: &[&str] = &["dynamodb:GetItem", "dynamodb:BatchGetItem", "dynamodb:Query"];
const WRITE_ITEMS: &[&str] =
    &["dynamodb:PutItem", "dynamodb:DeleteItem", "dynamodb:BatchWriteItem", "dynamodb:ConditionCheckItem"];

/// An allow statement.
pub(crate) fn allow(actions: &[&str], resources: &[Value]) -> Value {
    json!({ "Effect": "Allow", "Action": actions, "Resource": resources })
}

/// The statements of a function's role.
pub(crate) fn statements(function: &Deployed) -> Vec<Value> {
    let access = &function.requirements.access;
    let mut statements =
        vec![allow(&["logs:CreateLogStream", "logs:PutLogEvents"], &[log_streams(function.name)])];
    for trigger in &function.triggers {
        match trigger {
            Trigger::Queue(name) => {
                statements.push(allow(TAKE, &[queue(name)]));
                // The consumer moves failing messages to the dead letters, with their cause (decision 9).
                statements.push(allow(SEND, &[queue(&dead_letters_of(name))]));
            }
            Trigger::Stream => {
                let actions = [
                    "dynamodb:DescribeStream",
                    "dynamodb:GetRecords",
                    "dynamodb:GetShardIterator",
                    "dynamodb:ListStreams",
                ];
                statements.push(allow(&actions, &[table("/stream/*")]));
                statements.push(allow(SEND, &[queue(GIVEN_UP)]));
            }
            Trigger::Schedule | Trigger::WebSocket(_) | Trigger::Authorizer | Trigger::TaskStopped => {}
        }
    }
    if access.table != TableAccess::None {
        let everywhere = [table(""), table("/index/listing"), table("/index/due")];
        statements.push(allow(READ_ITEMS, &everywhere));
    }
    if access.table == TableAccess::Write {
        statements.push(allow(WRITE_ITEMS, &[table("")]));
    }
    if matches!(access.blobs, BlobAccess::Read | BlobAccess::Both) {
        statements.push(allow(&["s3:GetObject"], &[bucket("/sessions/*")]));
        // Without this permission, S3 reports missing objects as forbidden.
        statements.push(allow(&["s3:ListBucket"], &[bucket("")]));
    }
    if matches!(access.blobs, BlobAccess::Write | BlobAccess::Both) {
        statements.push(allow(&["s3:PutObject"], &[bucket("/sessions/*")]));
    }
    if !access.sends.is_empty() {
        let queues: Vec<_> = access.sends.iter().map(|name| queue(name)).collect();
        statements.push(allow(SEND, &queues));
    }
    for (passing, pattern) in
        [(access.run_queues, "commands-*.fifo"), (access.worker_queues, "worker-*.fifo")]
    {
        if passing != DynamicQueueAccess::None {
            statements.push(allow(MANAGE, &[queue(pattern)]));
        }
        if passing == DynamicQueueAccess::Sweep {
            // Listing cannot be limited to resources.
            statements.push(allow(&["sqs:ListQueues"], &[json!("*")]));
        }
    }
    if access.dead_letters {
        let dead = SHARED_QUEUES.iter().map(|shared| queue(&dead_letters_of(shared.name)));
        let dead: Vec<_> = dead.chain([queue(GIVEN_UP)]).collect();
        statements.push(allow(TAKE, &dead));
    }
    if access.secret {
        statements.push(allow(&["secretsmanager:GetSecretValue"], &[reference("SecretArn")]));
    }
    if access.publishes {
        statements.push(allow(&["events:PutEvents"], &[event_bus()]));
        statements.push(allow(&["sns:Publish"], &[topic("notices")]));
    }
    if access.connections {
        // Post to connections and close them.
        let ways = ["POST", "DELETE"].map(|method| {
            sub(format!(
                "arn:${{AWS::Partition}}:execute-api:${{AWS::Region}}:${{AWS::AccountId}}:${{StreamApiId}}/live/{method}/@connections/*"
            ))
        });
        statements.push(allow(&["execute-api:ManageConnections"], &ways));
    }
    for assumed in access.assumes {
        let name = match assumed {
            AssumedRole::Sidecar => "sidecar",
            AssumedRole::Worker => "worker",
        };
        statements.push(allow(&["sts:AssumeRole"], &[role(name)]));
    }
    if access.processes {
        statements.extend(on_ecs());
    }
    statements
}

/// Run, describe and stop tasks, if sidecars run on ECS.
fn on_ecs() -> Vec<Value> {
    let mut pass = allow(&["iam:PassRole"], &[role("task"), role("task-start")]);
    pass["Condition"] = json!({ "StringEquals": { "iam:PassedToService": "ecs-tasks.amazonaws.com" } });
    let statements = [
        allow(
            &["ecs:RunTask", "ecs:TagResource"],
            &[ecs("task-definition/${Prefix}-sidecar:*"), ecs("task/${Prefix}/*")],
        ),
        allow(&["ecs:DescribeTasks", "ecs:StopTask"], &[ecs("task/${Prefix}/*")]),
        allow(&["ecs:ListTasks"], &[ecs("container-instance/${Prefix}/*")]),
        pass,
    ];
    statements.iter().map(|statement| only_if("RunsOnEcs", statement)).collect()
}
