//! The roles whose temporary credentials sidecars and workers get. A session policy restricts the credentials to one run or
//! worker.

use pilothouse_app::function::requirements::{AssumedRole, EVENTS};
use serde_json::{Value, json};

use crate::contexts::deployed;
use crate::names::{bucket, queue, role, role_name};
use crate::permissions::allow;
use crate::template::{Stack, attribute, sub};

/// Sidecars and workers know the addresses of their queues and need no permission to look them up.
const SEND: &[&str] = &["sqs:SendMessage*"];
const TAKE: &[&str] = &["sqs:ReceiveMessage", "sqs:DeleteMessage*", "sqs:ChangeMessageVisibility*"];

pub(crate) fn sidecar_statements() -> [Value; 3] {
    [
        allow(SEND, &[queue(EVENTS)]),
        allow(TAKE, &[queue("commands-*.fifo")]),
        allow(&["s3:PutObject"], &[bucket("/sessions/*")]),
    ]
}

pub(crate) fn worker_statements() -> [Value; 1] {
    [allow(TAKE, &[queue("worker-*.fifo")])]
}

pub(crate) fn add(stack: &mut Stack) {
    for (id, name, assumed, statements) in [
        ("SidecarRole", "sidecar", AssumedRole::Sidecar, &sidecar_statements()[..]),
        ("WorkerRole", "worker", AssumedRole::Worker, &worker_statements()[..]),
    ] {
        stack.add(
            id,
            "AWS::IAM::Role",
            json!({
                "RoleName": sub(role_name(name)),
                "MaxSessionDuration": 3600,
                "AssumeRolePolicyDocument": trust(assumed),
                "Policies": [{
                    "PolicyName": name,
                    "PolicyDocument": { "Version": "2012-10-17", "Statement": statements },
                }],
            }),
        );
        stack.output(&format!("{id}Arn"), &attribute(id, "Arn"));
    }
}

/// Only functions that issue credentials of a role may assume it.
fn trust(assumed: AssumedRole) -> Value {
    let vendors: Vec<Value> = deployed()
        .iter()
        .filter(|function| function.requirements.access.assumes.contains(&assumed))
        .map(|function| role(function.name))
        .collect();
    json!({
        "Version": "2012-10-17",
        "Statement": [{
            "Effect": "Allow",
            "Action": "sts:AssumeRole",
            // A principal must exist when the policy is created, and these roles are created later.
            "Principal": { "AWS": sub("arn:${AWS::Partition}:iam::${AWS::AccountId}:root") },
            "Condition": { "ArnEquals": { "aws:PrincipalArn": vendors } },
        }],
    })
}
