//! Functions, each with a role, a log group, event sources and invocation permissions.

use serde_json::json;

use crate::contexts::{Deployed, context, deployed};
use crate::environment;
use crate::names::{logical, role_name};
use crate::permissions;
use crate::sources;
use crate::template::{Stack, attribute, named, reference, sub};

pub(crate) fn stacks() -> Vec<Stack> {
    let mut stacks: Vec<Stack> = Vec::new();
    for function in deployed() {
        let name = context(function.name);
        let at = stacks.iter().position(|stack| stack.name == name).unwrap_or_else(|| {
            stacks.push(Stack::new(name, "functions"));
            stacks.len() - 1
        });
        if let Some(stack) = stacks.get_mut(at) {
            add(stack, &function);
        }
    }
    stacks
}

fn add(stack: &mut Stack, function: &Deployed) {
    let id = logical(function.name);
    let (role, log, lambda) = (format!("{id}Role"), format!("{id}Log"), format!("{id}Function"));
    stack.add(
        &role,
        "AWS::IAM::Role",
        json!({
            "RoleName": sub(role_name(function.name)),
            "AssumeRolePolicyDocument": {
                "Version": "2012-10-17",
                "Statement": [{
                    "Effect": "Allow",
                    "Action": "sts:AssumeRole",
                    "Principal": { "Service": "lambda.amazonaws.com" },
                }],
            },
            "Policies": [{
                "PolicyName": function.name,
                "PolicyDocument": { "Version": "2012-10-17", "Statement": permissions::statements(function) },
            }],
        }),
    );
    stack.add(
        &log,
        "AWS::Logs::LogGroup",
        json!({
            "LogGroupName": sub(format!("/aws/lambda/${{Prefix}}-{}", function.name)),
            "RetentionInDays": reference("LogDays"),
        }),
    );
    stack.add_with(
        &lambda,
        "AWS::Lambda::Function",
        json!({
            "FunctionName": named(function.name),
            "Description": function.summary,
            "Runtime": "provided.al2023",
            "Architectures": [reference("Architecture")],
            "Handler": function.name,
            "Code": { "S3Bucket": reference("CodeBucket"), "S3Key": reference("CodeKey") },
            "Role": attribute(&role, "Arn"),
            "MemorySize": function.requirements.memory_mb,
            "Timeout": function.requirements.timeout_seconds,
            "Environment": { "Variables": environment::variables() },
            // Each function logs its invocations. The platform's lines would double the cost of logs. Application logs are not
            // filtered here, because functions filter their own.
            "LoggingConfig": {
                "LogFormat": "JSON",
                "SystemLogLevel": reference("PlatformLogLevel"),
                "ApplicationLogLevel": "TRACE",
            },
        }),
        json!({ "DependsOn": [&log] }),
    );
    sources::add(stack, function, &lambda);
}
