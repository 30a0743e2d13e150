//! The stack `data`: table, bucket for large bodies, root secret, queues, topic and event bus.

use pilothouse_store::DATA_FORMAT;
use serde_json::{Value, json};

use crate::template::{Stack, attribute, private_bucket, reference, sub};
use crate::{queues, roles, table, topics};

pub(crate) fn stack() -> Stack {
    let mut stack = Stack::new("data", "state, queues, secret and vended roles");
    table::add(&mut stack);
    // `deploy` compares it before it updates the stack.
    stack.output("DataFormat", &json!(DATA_FORMAT.to_string()));
    queues::add(&mut stack);
    roles::add(&mut stack);
    add_bucket(&mut stack);
    add_secret(&mut stack);
    add_issuer(&mut stack);
    topics::add(&mut stack, "NoticesTopic", "notices", &[]);
    stack.output("NoticesTopicArn", &reference("NoticesTopic"));
    stack.add("EventBus", "AWS::Events::EventBus", json!({ "Name": reference("Prefix") }));
    stack.output("EventBusName", &reference("EventBus"));
    stack
}

fn kept() -> Value {
    json!({ "DeletionPolicy": "Retain", "UpdateReplacePolicy": "Retain" })
}

fn add_bucket(stack: &mut Stack) {
    let mut properties = private_bucket(&reference("Bucket"));
    properties["LifecycleConfiguration"] = json!({
        "Rules": [{
            "Id": "old-bodies",
            "Status": "Enabled",
            // Contents of artifacts are kept.
            "Prefix": "sessions/",
            "ExpirationInDays": reference("BlobDays"),
            "AbortIncompleteMultipartUpload": { "DaysAfterInitiation": 1 },
        }],
    });
    stack.add_with("Blobs", "AWS::S3::Bucket", properties, kept());
}

/// `{"id": "1", "secret": "…"}`: the id that derived keys contain, and the 64 random letters and digits that they are derived from.
fn add_secret(stack: &mut Stack) {
    stack.add_with(
        "RootSecret",
        "AWS::SecretsManager::Secret",
        json!({
            "Name": sub("${Prefix}/root-secret"),
            "Description": "What the keys of sessions and runs are derived from",
            "GenerateSecretString": {
                "SecretStringTemplate": "{\"id\":\"1\"}",
                "GenerateStringKey": "secret",
                "PasswordLength": 64,
                "ExcludePunctuation": true,
            },
        }),
        kept(),
    );
    stack.output("SecretArn", &attribute("RootSecret", "Id"));
}

/// The issuer's bucket. Its two public documents name the keys that sign tokens for this deployment.
fn add_issuer(stack: &mut Stack) {
    let mut properties = private_bucket(&sub("${Prefix}-issuer-${AWS::AccountId}-${AWS::Region}"));
    for setting in ["BlockPublicPolicy", "RestrictPublicBuckets"] {
        properties["PublicAccessBlockConfiguration"][setting] = json!(false);
    }
    stack.add_with("IssuerBucket", "AWS::S3::Bucket", properties, json!({ "Condition": "HasOwnIssuer" }));
    stack.add_with(
        "IssuerBucketPolicy",
        "AWS::S3::BucketPolicy",
        json!({
            "Bucket": reference("IssuerBucket"),
            "PolicyDocument": {
                "Version": "2012-10-17",
                "Statement": [{
                    "Effect": "Allow",
                    "Principal": "*",
                    "Action": ["s3:GetObject"],
                    "Resource": [sub("${IssuerBucket.Arn}/.well-known/*")],
                }],
            },
        }),
        json!({ "Condition": "HasOwnIssuer" }),
    );
    stack.output_if("HasOwnIssuer", "IssuerBucket", &reference("IssuerBucket"));
    stack.output_if("HasOwnIssuer", "IssuerDomain", &attribute("IssuerBucket", "RegionalDomainName"));
}
