//! From what a function may touch, as the catalogue says, to the statements of its role. Each names its actions and its
//! resources; nothing is allowed on everything.

use pilothouse_functions::catalogue::Trigger;
use pilothouse_functions::catalogue::needs::{
    AssumedRole, BlobAccess, PassingQueues, SHARED_QUEUES, TableAccess, dead_letters_of,
};
use serde_json::{Value, json};

use crate::contexts::Deployed;
use crate::names::{bucket, ecs, event_bus, log_streams, queue, role, table, topic};
use crate::queues::GIVEN_UP;
use crate::template::{only_if, reference, sub};

/// Sends, one or many: with the pattern, as local clouds know the batch action by a name of its own.
const SEND: &[&str] = &["sqs:SendMessage*", "sqs:GetQueueUrl"];
/// Receives, deletes and gives back, one or many.
const TAKE: &[&str] = &[
    "sqs:ReceiveMessage",
    "sqs:DeleteMessage*",
    "sqs:ChangeMessageVisibility*",
    "sqs:GetQueueAttributes",
    "sqs:GetQueueUrl",
];
/// Makes, fills, looks at and removes.
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

/// A statement that allows.
pub(crate) fn allow(actions: &[&str], resources: &[Value]) -> Value {
    json!({ "Effect": "Allow", "Action": actions, "Resource": resources })
}

/// What a function may do.
pub(crate) fn statements(function: &Deployed) -> Vec<Value> {
    let access = &function.needs.access;
    let mut statements =
        vec![allow(&["logs:CreateLogStream", "logs:PutLogEvents"], &[log_streams(function.name)])];
    for trigger in function.triggers {
        match trigger {
            Trigger::Queue(name) => {
                statements.push(allow(TAKE, &[queue(name)]));
                // What keeps failing is buried by who takes it, with its cause (ruling 9).
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
        // Without it, S3 calls what is missing forbidden.
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
        if passing != PassingQueues::None {
            statements.push(allow(MANAGE, &[queue(pattern)]));
        }
        if passing == PassingQueues::Sweep {
            // Listing knows no resources.
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
        // To post to one, and to close it.
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

/// Runs, looks at and stops tasks, where ECS runs sidecars.
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
