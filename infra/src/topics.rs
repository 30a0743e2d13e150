//! Topics with explicit policies. The default policy of SNS lets every role of the account publish, independent of the role's
//! permissions.

use serde_json::{Value, json};

use crate::template::{Stack, named, reference, sub};

/// Adds a topic. Roles of the account need a permission to publish; the AWS `services` may publish for this account.
pub(crate) fn add(stack: &mut Stack, id: &str, name: &str, services: &[&str]) {
    stack.add(id, "AWS::SNS::Topic", json!({ "TopicName": named(name) }));
    let publishing = |principal: Value| {
        json!({
            "Effect": "Allow",
            "Principal": principal,
            "Action": ["sns:Publish"],
            "Resource": [reference(id)],
        })
    };
    let mut statements =
        vec![publishing(json!({ "AWS": sub("arn:${AWS::Partition}:iam::${AWS::AccountId}:root") }))];
    for service in services {
        let mut statement = publishing(json!({ "Service": service }));
        statement["Condition"] =
            json!({ "StringEquals": { "aws:SourceAccount": reference("AWS::AccountId") } });
        statements.push(statement);
    }
    stack.add(
        format!("{id}Policy"),
        "AWS::SNS::TopicPolicy",
        json!({
            "Topics": [reference(id)],
            "PolicyDocument": { "Version": "2012-10-17", "Statement": statements },
        }),
    );
}
