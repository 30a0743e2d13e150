//! The triggers of functions: event sources, the schedule, and invocation permissions for the two APIs.

use pilothouse_app::function::Trigger;
use pilothouse_functions::events::relay::RELAYED_KINDS;
use serde_json::{Value, json};

use crate::contexts::Deployed;
use crate::names::{ecs, logical, queue};
use crate::queues::GIVEN_UP;
use crate::template::{Stack, attribute, named, reference, sub};

/// The batch size. SQS returns at most ten messages of a FIFO queue.
const MESSAGES: u32 = 10;
const RECORDS: u32 = 100;

pub(crate) fn add(stack: &mut Stack, function: &Deployed, lambda: &str) {
    if function.route.is_some() {
        permit(stack, function, lambda, "Api", "apigateway.amazonaws.com", &execute("ApiId"));
    }
    for trigger in &function.triggers {
        match trigger {
            Trigger::Queue(name) => add_queue(stack, lambda, name),
            Trigger::Stream => add_stream(stack, lambda),
            Trigger::Schedule => add_schedule(stack, function, lambda),
            Trigger::TaskStopped => add_rule(stack, function, lambda),
            Trigger::WebSocket(_) | Trigger::Authorizer => {
                permit(
                    stack,
                    function,
                    lambda,
                    "Stream",
                    "apigateway.amazonaws.com",
                    &execute("StreamApiId"),
                );
            }
        }
    }
}

/// The ARN of all stages and routes of an API.
fn execute(api: &str) -> Value {
    sub(format!("arn:${{AWS::Partition}}:execute-api:${{AWS::Region}}:${{AWS::AccountId}}:${{{api}}}/*"))
}

fn permit(stack: &mut Stack, function: &Deployed, lambda: &str, by: &str, principal: &str, source: &Value) {
    stack.add(
        format!("{}From{by}", logical(function.name)),
        "AWS::Lambda::Permission",
        json!({
            "Action": "lambda:InvokeFunction",
            "FunctionName": attribute(lambda, "Arn"),
            "Principal": principal,
            "SourceArn": source,
        }),
    );
}

fn add_queue(stack: &mut Stack, lambda: &str, name: &str) {
    stack.add(
        format!("{lambda}From{}", logical(name)),
        "AWS::Lambda::EventSourceMapping",
        json!({
            "EventSourceArn": queue(name),
            "FunctionName": reference(lambda),
            "BatchSize": MESSAGES,
            "FunctionResponseTypes": ["ReportBatchItemFailures"],
        }),
    );
}

/// Delivers only items of the [`RELAYED_KINDS`].
fn add_stream(stack: &mut Stack, lambda: &str) {
    let pattern = json!({
        "eventName": ["INSERT", "MODIFY"],
        "dynamodb": { "NewImage": { "k": { "S": RELAYED_KINDS } } },
    });
    stack.add(
        format!("{lambda}FromTable"),
        "AWS::Lambda::EventSourceMapping",
        json!({
            "EventSourceArn": reference("TableStreamArn"),
            "FunctionName": reference(lambda),
            "StartingPosition": "TRIM_HORIZON",
            "BatchSize": RECORDS,
            "ParallelizationFactor": 4,
            "FilterCriteria": { "Filters": [{ "Pattern": pattern.to_string() }] },
            "FunctionResponseTypes": ["ReportBatchItemFailures"],
            "BisectBatchOnFunctionError": true,
            "MaximumRetryAttempts": 1000,
            // The stream keeps its records for a day.
            "MaximumRecordAgeInSeconds": 24 * 60 * 60,
            "DestinationConfig": { "OnFailure": { "Destination": queue(GIVEN_UP) } },
        }),
    );
}

/// Stopped tasks of the deployment's cluster, if sidecars run on ECS.
fn add_rule(stack: &mut Stack, function: &Deployed, lambda: &str) {
    let rule = format!("{}Rule", logical(function.name));
    let on_ecs = json!({ "Condition": "RunsOnEcs" });
    stack.add_with(
        &rule,
        "AWS::Events::Rule",
        json!({
            "Name": named(function.name),
            "Description": "Runs whose ECS task has stopped",
            "EventPattern": {
                "source": ["aws.ecs"],
                "detail-type": ["ECS Task State Change"],
                "detail": { "clusterArn": [ecs("cluster/${Prefix}")], "lastStatus": ["STOPPED"] },
            },
            // EventBridge retries for a day. A run without a report ends by its lease.
            "Targets": [{ "Id": function.name, "Arn": attribute(lambda, "Arn") }],
        }),
        on_ecs.clone(),
    );
    stack.add_with(
        format!("{}FromRule", logical(function.name)),
        "AWS::Lambda::Permission",
        json!({
            "Action": "lambda:InvokeFunction",
            "FunctionName": attribute(lambda, "Arn"),
            "Principal": "events.amazonaws.com",
            "SourceArn": attribute(&rule, "Arn"),
        }),
        on_ecs,
    );
}

fn add_schedule(stack: &mut Stack, function: &Deployed, lambda: &str) {
    let id = logical(function.name);
    let role = format!("{id}ScheduleRole");
    stack.add(
        &role,
        "AWS::IAM::Role",
        json!({
            "AssumeRolePolicyDocument": {
                "Version": "2012-10-17",
                "Statement": [{
                    "Effect": "Allow",
                    "Action": "sts:AssumeRole",
                    "Principal": { "Service": "scheduler.amazonaws.com" },
                    "Condition": { "StringEquals": { "aws:SourceAccount": reference("AWS::AccountId") } },
                }],
            },
            "Policies": [{
                "PolicyName": "invoke",
                "PolicyDocument": {
                    "Version": "2012-10-17",
                    "Statement": [{
                        "Effect": "Allow",
                        "Action": ["lambda:InvokeFunction"],
                        "Resource": [attribute(lambda, "Arn")],
                    }],
                },
            }],
        }),
    );
    stack.add(
        format!("{id}Schedule"),
        "AWS::Scheduler::Schedule",
        json!({
            "Name": named(function.name),
            "ScheduleExpression": "rate(1 minute)",
            "FlexibleTimeWindow": { "Mode": "OFF" },
            "Target": {
                "Arn": attribute(lambda, "Arn"),
                "RoleArn": attribute(&role, "Arn"),
                // The next invocation follows in a minute.
                "RetryPolicy": { "MaximumRetryAttempts": 0, "MaximumEventAgeInSeconds": 60 },
            },
        }),
    );
}
