//! The two roles that are vended: what a sidecar or a worker may do at most. Whoever hands out credentials of one
//! narrows them, by a session policy, to a single run or worker.

use pilothouse_functions::catalogue::needs::{AssumedRole, EVENTS};
use serde_json::{Value, json};

use crate::contexts::deployed;
use crate::names::{bucket, queue, role, role_name};
use crate::permissions::allow;
use crate::template::{Stack, attribute, sub};

/// Who is vended credentials is told the addresses of its queues, and looks at none.
const SEND: &[&str] = &["sqs:SendMessage*"];
const TAKE: &[&str] = &["sqs:ReceiveMessage", "sqs:DeleteMessage*", "sqs:ChangeMessageVisibility*"];

pub(crate) fn add(stack: &mut Stack) {
    let sidecar = [
        allow(SEND, &[queue(EVENTS)]),
        allow(TAKE, &[queue("commands-*.fifo")]),
        allow(&["s3:PutObject"], &[bucket("/sessions/*")]),
    ];
    let worker = [allow(TAKE, &[queue("worker-*.fifo")])];
    for (id, name, assumed, statements) in [
        ("SidecarRole", "sidecar", AssumedRole::Sidecar, &sidecar[..]),
        ("WorkerRole", "worker", AssumedRole::Worker, &worker[..]),
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

/// Only the functions that hand out its credentials may take a role on.
fn trust(assumed: AssumedRole) -> Value {
    let vendors: Vec<Value> = deployed()
        .iter()
        .filter(|function| function.needs.access.assumes.contains(&assumed))
        .map(|function| role(function.name))
        .collect();
    json!({
        "Version": "2012-10-17",
        "Statement": [{
            "Effect": "Allow",
            "Action": "sts:AssumeRole",
            // A principal must exist when it is named, and these roles come later.
            "Principal": { "AWS": sub("arn:${AWS::Partition}:iam::${AWS::AccountId}:root") },
            "Condition": { "ArnEquals": { "aws:PrincipalArn": vendors } },
        }],
    })
}
