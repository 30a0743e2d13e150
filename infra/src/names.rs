//! Names and ARNs of resources, which are known before the resources exist.

use serde_json::Value;

use crate::template::sub;

/// The logical id of a name: `SessionsStart` for `sessions-start`, `Events` for `events.fifo`.
pub fn logical(name: &str) -> String {
    name.trim_end_matches(".fifo")
        .split(|c: char| !c.is_ascii_alphanumeric())
        .flat_map(|word| {
            let mut letters = word.chars();
            letters.next().map(|first| first.to_ascii_uppercase()).into_iter().chain(letters)
        })
        .collect()
}

/// The ARN of a resource of this account and region.
fn arn(service: &str, resource: &str) -> Value {
    sub(format!("arn:${{AWS::Partition}}:{service}:${{AWS::Region}}:${{AWS::AccountId}}:{resource}"))
}

/// The ARN of a queue, by its logical name; `*` in it is a pattern.
pub(crate) fn queue(name: &str) -> Value {
    arn("sqs", &format!("${{Prefix}}-{name}"))
}

pub(crate) fn function(name: &str) -> Value {
    arn("lambda", &format!("function:${{Prefix}}-{name}"))
}

/// The URI with which authorizers and WebSocket integrations of API Gateway invoke a function.
pub(crate) fn invocation(name: &str) -> Value {
    sub(format!(
        "arn:${{AWS::Partition}}:apigateway:${{AWS::Region}}:lambda:path/2015-03-31/functions/\
         arn:${{AWS::Partition}}:lambda:${{AWS::Region}}:${{AWS::AccountId}}:function:${{Prefix}}-{name}/invocations"
    ))
}

/// The ARN of the table (`""`) or of a part, such as `/index/due`.
pub(crate) fn table(part: &str) -> Value {
    arn("dynamodb", &format!("table/${{Prefix}}{part}"))
}

pub(crate) fn log_streams(function: &str) -> Value {
    arn("logs", &format!("log-group:/aws/lambda/${{Prefix}}-{function}:*"))
}

pub(crate) fn event_bus() -> Value {
    arn("events", "event-bus/${Prefix}")
}

pub(crate) fn topic(name: &str) -> Value {
    arn("sns", &format!("${{Prefix}}-{name}"))
}

/// The ARN of the bucket for large bodies, or of objects in it.
pub(crate) fn bucket(part: &str) -> Value {
    sub(format!("arn:${{AWS::Partition}}:s3:::${{Bucket}}{part}"))
}

/// The name of a function's role. It contains the region, because roles are global.
pub(crate) fn role_name(name: &str) -> String {
    format!("${{Prefix}}-${{AWS::Region}}-{name}")
}

/// The name of a resource of `CloudFront`. It contains the region for the same reason.
pub(crate) fn regional(name: &str) -> Value {
    sub(role_name(name))
}

/// The host of an API, by the parameter with its id.
pub(crate) fn execute_api(api: &str) -> Value {
    sub(format!("${{{api}}}.execute-api.${{AWS::Region}}.${{AWS::URLSuffix}}"))
}

pub(crate) fn role(name: &str) -> Value {
    sub(format!("arn:${{AWS::Partition}}:iam::${{AWS::AccountId}}:role/{}", role_name(name)))
}

/// The ARN of an ECS resource.
pub(crate) fn ecs(resource: &str) -> Value {
    arn("ecs", resource)
}
