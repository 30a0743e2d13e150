//! Requests to every service that a function could call. They name missing resources or are invalid, so that only the permission matters.

use pilothouse_app::function::requirements::TableAccess;
use reqwest::Method;
use serde_json::{Value, json};

use crate::caller::Request;
use crate::deployment::Deployment;

fn partition_of(index: &str) -> &'static str {
    if index == "listing" { "l1p" } else { "d1p" }
}

fn with(mut body: Value, more: Value) -> Value {
    if let (Value::Object(body), Value::Object(more)) = (&mut body, more) {
        body.extend(more);
    }
    body
}

impl Deployment {
    /// A request in the JSON protocol.
    fn json(&self, service: &'static str, version: &str, target: &str, body: &Value) -> Request {
        let headers = vec![
            ("content-type", format!("application/x-amz-json-{version}")),
            ("x-amz-target", target.to_owned()),
        ];
        let url = format!("{}/", self.endpoint);
        Request { service, method: Method::POST, url, headers, body: body.to_string() }
    }

    /// A request in the query protocol.
    fn query(&self, service: &'static str, version: &str, action: &str, fields: &[(&str, &str)]) -> Request {
        let mut form = reqwest::Url::parse("http://form/").unwrap();
        form.query_pairs_mut()
            .append_pair("Action", action)
            .append_pair("Version", version)
            .extend_pairs(fields);
        let headers = vec![("content-type", "application/x-www-form-urlencoded".to_owned())];
        let (url, body) = (format!("{}/", self.endpoint), form.query().unwrap_or_default().to_owned());
        Request { service, method: Method::POST, url, headers, body }
    }

    fn rest(&self, service: &'static str, method: Method, path: &str, body: &str) -> Request {
        let url = format!("{}{path}", self.endpoint);
        Request { service, method, url, headers: Vec::new(), body: body.to_owned() }
    }

    /// `queue` is a full name.
    pub(crate) fn sqs(&self, action: &str, queue: &str, more: Value) -> Request {
        let url = format!("{}/{}/{queue}", self.endpoint, self.account);
        self.json("sqs", "1.0", &format!("AmazonSQS.{action}"), &with(json!({ "QueueUrl": url }), more))
    }

    pub(crate) fn new_queue(&self, queue: &str) -> Request {
        let body = json!({ "QueueName": queue, "Attributes": { "FifoQueue": "true" } });
        self.json("sqs", "1.0", "AmazonSQS.CreateQueue", &body)
    }

    pub(crate) fn list_queues(&self) -> Request {
        self.json("sqs", "1.0", "AmazonSQS.ListQueues", &json!({ "QueueNamePrefix": self.prefix }))
    }

    pub(crate) fn dynamodb(&self, action: &str, body: &Value) -> Request {
        self.json("dynamodb", "1.0", &format!("DynamoDB_20120810.{action}"), body)
    }

    /// For an object, or for the bucket with a query such as `?policy`.
    pub(crate) fn s3(&self, method: Method, bucket: &str, object: &str, body: &str) -> Request {
        let joint = if object.starts_with('?') { "" } else { "/" };
        self.rest("s3", method, &format!("/{bucket}{joint}{object}"), body)
    }

    pub(crate) fn secret(&self, action: &str, id: &str, more: Value) -> Request {
        let body = with(json!({ "SecretId": id }), more);
        self.json("secretsmanager", "1.1", &format!("secretsmanager.{action}"), &body)
    }

    pub(crate) fn assume(&self, role: &str) -> Request {
        let fields = [("RoleArn", role), ("RoleSessionName", "trial")];
        self.query("sts", "2011-06-15", "AssumeRole", &fields)
    }

    pub(crate) fn iam(&self, action: &str, fields: &[(&str, &str)]) -> Request {
        self.query("iam", "2010-05-08", action, fields)
    }

    pub(crate) fn sns(&self, action: &str, fields: &[(&str, &str)]) -> Request {
        self.query("sns", "2010-03-31", action, fields)
    }

    pub(crate) fn cloudformation(&self, action: &str, fields: &[(&str, &str)]) -> Request {
        self.query("cloudformation", "2010-05-15", action, fields)
    }

    pub(crate) fn events(&self, action: &str, body: &Value) -> Request {
        self.json("events", "1.1", &format!("AWSEvents.{action}"), body)
    }

    pub(crate) fn logs(&self, action: &str, function: &str, more: Value) -> Request {
        let body = with(json!({ "logGroupName": format!("/aws/lambda/{}-{function}", self.prefix) }), more);
        self.json("logs", "1.1", &format!("Logs_20140328.{action}"), &body)
    }

    pub(crate) fn ecs(&self, action: &str, body: &Value) -> Request {
        let target = format!("AmazonEC2ContainerServiceV20141113.{action}");
        self.json("ecs", "1.1", &target, body)
    }

    /// `rest` is a path such as `/configuration`.
    pub(crate) fn lambda(&self, method: Method, function: &str, rest: &str, body: &str) -> Request {
        self.rest("lambda", method, &format!("/2015-03-31/functions/{}-{function}{rest}", self.prefix), body)
    }

    pub(crate) fn lambda_list(&self) -> Request {
        self.rest("lambda", Method::GET, "/2015-03-31/functions/?MaxItems=1000", "")
    }

    /// A request for a connection of the live stream.
    pub(crate) fn connection(&self, method: Method) -> Request {
        let url = format!("{}/@connections/none", self.stream_endpoint);
        Request { service: "execute-api", method, url, headers: Vec::new(), body: String::new() }
    }

    /// A request for the stream of the table.
    pub(crate) fn stream(&self) -> Request {
        let body = json!({ "StreamArn": self.stream_arn });
        self.json("dynamodb", "1.0", "DynamoDBStreams_20120810.DescribeStream", &body)
    }

    /// All reads or writes, with a missing item and conditions that fail.
    pub(crate) fn items(&self, access: TableAccess) -> Vec<Request> {
        let (table, key) = (self.table.as_str(), json!({ "pk": { "S": "TRIAL" }, "sk": { "S": "TRIAL" } }));
        let of = |more: Value| with(json!({ "TableName": table }), more);
        let partition = |names: Value, condition: &str| {
            json!({
                "KeyConditionExpression": condition,
                "ExpressionAttributeNames": names,
                "ExpressionAttributeValues": { ":it": { "S": "TRIAL" } },
            })
        };
        let index = |name: &str| {
            let mut body = of(partition(json!({ "#it": partition_of(name) }), "#it = :it"));
            body["IndexName"] = json!(name);
            self.dynamodb("Query", &body)
        };
        let never = "attribute_exists(pk)";
        match access {
            TableAccess::None => Vec::new(),
            TableAccess::Read => vec![
                self.dynamodb("GetItem", &of(json!({ "Key": key }))),
                self.dynamodb("BatchGetItem", &json!({ "RequestItems": { table: { "Keys": [key] } } })),
                self.dynamodb("Query", &of(partition(json!({ "#it": "pk" }), "#it = :it"))),
                index("listing"),
                index("due"),
            ],
            TableAccess::Write => {
                let check = of(json!({ "Key": key, "ConditionExpression": never }));
                let batch = json!({ "RequestItems": { table: [{ "DeleteRequest": { "Key": key } }] } });
                vec![
                    self.dynamodb("PutItem", &of(json!({ "Item": key, "ConditionExpression": never }))),
                    self.dynamodb("DeleteItem", &of(json!({ "Key": key }))),
                    self.dynamodb("BatchWriteItem", &batch),
                    self.dynamodb(
                        "TransactWriteItems",
                        &json!({ "TransactItems": [{ "ConditionCheck": check }] }),
                    ),
                ]
            }
        }
    }
}
