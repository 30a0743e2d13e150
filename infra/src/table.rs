//! The table: keys and indexes as `pilothouse_store::dynamodb` uses them.

use serde_json::{Value, json};

use crate::template::{Stack, attribute, reference};

/// The partition and sort keys of the table, and of each index by name.
const KEYS: [(Option<&str>, &str, &str); 3] =
    [(None, "pk", "sk"), (Some("listing"), "l1p", "l1s"), (Some("due"), "d1p", "d1s")];

pub(crate) fn add(stack: &mut Stack) {
    let key = |partition: &str, sort: &str| {
        json!([
            { "AttributeName": partition, "KeyType": "HASH" },
            { "AttributeName": sort, "KeyType": "RANGE" },
        ])
    };
    let definitions: Vec<Value> = KEYS
        .iter()
        .flat_map(|(_, partition, sort)| [partition, sort])
        .map(|name| json!({ "AttributeName": name, "AttributeType": "S" }))
        .collect();
    let indexes: Vec<Value> = KEYS
        .iter()
        .filter_map(|(index, partition, sort)| {
            Some(json!({
                "IndexName": (*index)?,
                "KeySchema": key(partition, sort),
                "Projection": { "ProjectionType": "KEYS_ONLY" },
            }))
        })
        .collect();
    stack.add_with(
        "Table",
        "AWS::DynamoDB::Table",
        json!({
            "TableName": reference("Prefix"),
            "BillingMode": "PAY_PER_REQUEST",
            "AttributeDefinitions": definitions,
            "KeySchema": key("pk", "sk"),
            "GlobalSecondaryIndexes": indexes,
            "StreamSpecification": { "StreamViewType": "NEW_AND_OLD_IMAGES" },
            "TimeToLiveSpecification": { "AttributeName": "x", "Enabled": true },
            "PointInTimeRecoverySpecification": { "PointInTimeRecoveryEnabled": true },
            "SSESpecification": { "SSEEnabled": true },
        }),
        json!({ "DeletionPolicy": "Retain", "UpdateReplacePolicy": "Retain" }),
    );
    stack.output("TableName", &reference("Table"));
    stack.output("TableStreamArn", &attribute("Table", "StreamArn"));
}
