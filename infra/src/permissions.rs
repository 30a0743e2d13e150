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
const TAKE: &[&str] = &[
    "sqs:ReceiveMessage",
    "sqs:DeleteMessage*",
    "sqs:ChangeMessageVisibility*",
    "sqs:GetQueueAttributes",
    "sqs:GetQueueUrl",
];
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

pub(crate) fn allow(actions: &[&str], resources: &[Value]) -> Value {
    json!({ "Effect": "Allow", "Action": actions, "Resource": resources })
}

#[derive(Debug)]
pub(crate) struct Grant {
    /// The name of the permission in `infra/functions.md`. Grants with the same name allow the same actions.
    pub(crate) name: &'static str,
    /// The queues, role or function that the grant is limited to, if it differs between functions.
    pub(crate) on: Vec<String>,
    pub(crate) statement: Value,
}

impl Grant {
    fn new(name: &'static str, actions: &[&str], resources: &[Value]) -> Self {
        Self { name, on: Vec::new(), statement: allow(actions, resources) }
    }

    fn on_queues(name: &'static str, actions: &[&str], queues: &[&str]) -> Self {
        let resources: Vec<_> = queues.iter().map(|name| queue(name)).collect();
        let on = queues.iter().map(|&name| name.to_owned()).collect();
        Self { on, ..Self::new(name, actions, &resources) }
    }
}

pub(crate) fn statements(function: &Deployed) -> Vec<Value> {
    grants(function).into_iter().map(|grant| grant.statement).collect()
}

pub(crate) fn grants(function: &Deployed) -> Vec<Grant> {
    let access = &function.requirements.access;
    let log = &["logs:CreateLogStream", "logs:PutLogEvents"];
    let log = Grant::new("write log", log, &[log_streams(function.name)]);
    let mut grants = vec![Grant { on: vec![function.name.to_owned()], ..log }];
    for trigger in &function.triggers {
        match trigger {
            Trigger::Queue(name) => {
                grants.push(Grant::on_queues("receive from", TAKE, &[name]));
                // The consumer moves failing messages to the dead letters, with their cause (decision 9).
                grants.push(Grant::on_queues("send to", SEND, &[&dead_letters_of(name)]));
            }
            Trigger::Stream => {
                let actions = [
                    "dynamodb:DescribeStream",
                    "dynamodb:GetRecords",
                    "dynamodb:GetShardIterator",
                    "dynamodb:ListStreams",
                ];
                grants.push(Grant::new("read table stream", &actions, &[table("/stream/*")]));
                grants.push(Grant::on_queues("send to", SEND, &[GIVEN_UP]));
            }
            Trigger::Schedule | Trigger::WebSocket(_) | Trigger::Authorizer | Trigger::TaskStopped => {}
        }
    }
    if access.table != TableAccess::None {
        let everywhere = [table(""), table("/index/listing"), table("/index/due")];
        grants.push(Grant::new("read table", READ_ITEMS, &everywhere));
    }
    if access.table == TableAccess::Write {
        grants.push(Grant::new("write table", WRITE_ITEMS, &[table("")]));
    }
    let (mut reads, mut writes) = (Vec::new(), Vec::new());
    for (blobs, objects) in [(access.blobs, "/sessions/*"), (access.artifacts, "/artifacts/*")] {
        if matches!(blobs, BlobAccess::Read | BlobAccess::Both) {
            reads.push(bucket(objects));
        }
        if matches!(blobs, BlobAccess::Write | BlobAccess::Both) {
            writes.push(bucket(objects));
        }
    }
    if !reads.is_empty() {
        grants.push(Grant::new("read bodies", &["s3:GetObject"], &reads));
        // Without this permission, S3 reports missing objects as forbidden.
        grants.push(Grant::new("list bodies", &["s3:ListBucket"], &[bucket("")]));
    }
    if !writes.is_empty() {
        grants.push(Grant::new("write bodies", &["s3:PutObject"], &writes));
    }
    if !access.sends.is_empty() {
        grants.push(Grant::on_queues("send to", SEND, access.sends));
    }
    for (passing, pattern) in
        [(access.run_queues, "commands-*.fifo"), (access.worker_queues, "worker-*.fifo")]
    {
        if passing != DynamicQueueAccess::None {
            grants.push(Grant::on_queues("manage", MANAGE, &[pattern]));
        }
        if passing == DynamicQueueAccess::Sweep {
            // Listing cannot be limited to resources.
            grants.push(Grant::new("list queues", &["sqs:ListQueues"], &[json!("*")]));
        }
    }
    if access.dead_letters {
        let dead = SHARED_QUEUES.iter().map(|shared| queue(&dead_letters_of(shared.name)));
        let dead: Vec<_> = dead.chain([queue(GIVEN_UP)]).collect();
        grants.push(Grant::new("receive dead letters", TAKE, &dead));
    }
    if access.secret {
        let action = &["secretsmanager:GetSecretValue"];
        grants.push(Grant::new("read root secret", action, &[reference("SecretArn")]));
    }
    if access.model {
        let read = allow(&["secretsmanager:GetSecretValue"], &[reference("ModelKeyArn")]);
        let statement = only_if("HasModelKey", &read);
        grants.push(Grant { name: "read key of the model", on: Vec::new(), statement });
    }
    if access.embeddings {
        let read = allow(&["secretsmanager:GetSecretValue"], &[reference("EmbeddingsKeyArn")]);
        let statement = only_if("HasEmbeddingsKey", &read);
        grants.push(Grant { name: "read key of the embedding model", on: Vec::new(), statement });
    }
    if access.publishes {
        grants.push(Grant::new("publish to event bus", &["events:PutEvents"], &[event_bus()]));
        grants.push(Grant::new("publish to topic", &["sns:Publish"], &[topic("notices")]));
    }
    if access.connections {
        let ways = ["POST", "DELETE"].map(|method| {
            sub(format!(
                "arn:${{AWS::Partition}}:execute-api:${{AWS::Region}}:${{AWS::AccountId}}:${{StreamApiId}}/live/{method}/@connections/*"
            ))
        });
        grants.push(Grant::new("manage connections", &["execute-api:ManageConnections"], &ways));
    }
    for assumed in access.assumes {
        let name = match assumed {
            AssumedRole::Sidecar => "sidecar",
            AssumedRole::Worker => "worker",
        };
        let grant = Grant::new("assume role", &["sts:AssumeRole"], &[role(name)]);
        grants.push(Grant { on: vec![name.to_owned()], ..grant });
    }
    if access.processes {
        let on_ecs = on_ecs().into_iter();
        grants.extend(on_ecs.map(|statement| Grant { name: "run ECS tasks", on: Vec::new(), statement }));
    }
    grants
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
