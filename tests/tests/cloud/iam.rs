//! Tests the role of every function: it allows exactly what the catalog lists for the function.
//!
//! Where the attempts are allowed, they have no effect as far as possible; a role that may delete the table does delete it. Deploy again
//! after a failure.

use std::collections::BTreeSet;

use futures_util::{StreamExt as _, stream};
use pilothouse_app::function::Trigger;
use pilothouse_app::function::requirements::{
    Access, AssumedRole, BlobAccess, DynamicQueueAccess, SHARED_QUEUES, TableAccess, dead_letters_of,
};
use pilothouse_functions::catalog::{EVENT_FUNCTIONS, cloud_functions};
use reqwest::Method;
use serde_json::{Value, json};

use crate::caller::{Caller, Request};
use crate::deployment::Deployment;

/// Functions that are tested concurrently.
const AT_ONCE: usize = 8;
/// Functions try to write these objects: a body of a session, and the content of an artifact.
const OBJECT: &str = "sessions/trial/trial";
const ARTIFACT: &str = "artifacts/trial/trial";

#[derive(Clone)]
struct Function {
    name: &'static str,
    access: Access,
    triggers: Vec<Trigger>,
}

fn functions() -> Vec<Function> {
    let of_http = cloud_functions().into_iter();
    let of_http =
        of_http.map(|f| Function { name: f.name, access: f.requirements.access, triggers: Vec::new() });
    let of_events = EVENT_FUNCTIONS.iter().filter(|f| f.requirements.profiles.in_aws());
    of_http
        .chain(of_events.map(|f| Function {
            name: f.name,
            access: f.requirements.access,
            triggers: f.triggers().collect(),
        }))
        .collect()
}

struct Attempt {
    what: String,
    request: Request,
    /// According to the catalog.
    wanted: bool,
}

struct Attempts<'a> {
    to: &'a Deployment,
    all: Vec<Attempt>,
}

impl Attempts<'_> {
    fn add(&mut self, what: impl Into<String>, wanted: bool, request: Request) {
        self.all.push(Attempt { what: what.into(), request, wanted });
    }

    fn never(&mut self, what: impl Into<String>, request: Request) {
        self.add(what, false, request);
    }

    /// `queue` is a logical name.
    fn queue(&mut self, wanted: bool, action: &str, queue: &str) {
        // Invalid or empty requests, so that an allowed function does not take messages from their receiver.
        let more = match action {
            "ReceiveMessage" => json!({ "MaxNumberOfMessages": 0 }),
            "SendMessageBatch" | "DeleteMessageBatch" | "ChangeMessageVisibilityBatch" => {
                json!({ "Entries": [] })
            }
            "DeleteMessage" => json!({ "ReceiptHandle": "none" }),
            "ChangeMessageVisibility" => json!({ "ReceiptHandle": "none", "VisibilityTimeout": 0 }),
            "SetQueueAttributes" => json!({ "Attributes": {} }),
            _ => json!({}),
        };
        let request = self.to.sqs(action, &self.to.queue(queue), more);
        self.add(format!("{action} on {queue}"), wanted, request);
    }

    fn table(&mut self, access: &Access) {
        let (reads, writes) = (access.table != TableAccess::None, access.table == TableAccess::Write);
        for (kind, wanted) in [(TableAccess::Read, reads), (TableAccess::Write, writes)] {
            for request in self.to.items(kind) {
                let target = request.headers.iter().find(|(name, _)| *name == "x-amz-target").unwrap();
                let what = format!("{} {}", target.1, request.body);
                self.add(what, wanted, request);
            }
        }
        let table = json!({ "TableName": self.to.table });
        for action in
            ["Scan", "DescribeTable", "UpdateTable", "DeleteTable", "UpdateTimeToLive", "CreateBackup"]
        {
            self.never(action, self.to.dynamodb(action, &table));
        }
        let other = json!({ "TableName": "another", "Key": { "pk": { "S": "a" }, "sk": { "S": "b" } } });
        // No function needs these, because functions write whole items under conditions.
        let own = json!({ "TableName": self.to.table, "Key": other["Key"] });
        for action in ["UpdateItem", "ExecuteStatement"] {
            self.never(action, self.to.dynamodb(action, &own));
        }
        for action in ["GetItem", "DeleteItem"] {
            self.never(format!("{action} of another table"), self.to.dynamodb(action, &other));
        }
    }

    fn shared_queues(&mut self, function: &Function) {
        let Function { access, triggers, .. } = function;
        for shared in SHARED_QUEUES {
            let (queue, dead) = (shared.name, dead_letters_of(shared.name));
            let sends = access.sends.contains(&queue);
            let takes = triggers.contains(&Trigger::Queue(shared.name));
            self.queue(sends, "SendMessageBatch", queue);
            // The message lacks a required field.
            self.queue(sends, "SendMessage", queue);
            for action in
                ["ReceiveMessage", "DeleteMessage", "DeleteMessageBatch", "ChangeMessageVisibilityBatch"]
            {
                self.queue(takes, action, queue);
                self.queue(access.dead_letters, action, &dead);
            }
            self.queue(takes, "SendMessageBatch", &dead);
            for action in ["PurgeQueue", "DeleteQueue", "SetQueueAttributes", "AddPermission"] {
                self.queue(false, action, queue);
                self.queue(false, action, &dead);
            }
        }
        self.queue(triggers.contains(&Trigger::Stream), "SendMessage", "relay-dead");
        self.queue(access.dead_letters, "ReceiveMessage", "relay-dead");
        self.queue(false, "PurgeQueue", "relay-dead");
    }

    fn passing_queues(&mut self, access: &Access) {
        for (passing, queue) in
            [(access.run_queues, "commands-trial.fifo"), (access.worker_queues, "worker-trial.fifo")]
        {
            let manages = passing != DynamicQueueAccess::None;
            let new = self.to.new_queue(&self.to.queue(queue));
            self.add(format!("CreateQueue {queue}"), manages, new);
            for action in ["SendMessage", "SendMessageBatch", "GetQueueAttributes", "DeleteQueue"] {
                self.queue(manages, action, queue);
            }
            for action in ["ReceiveMessage", "DeleteMessage", "ChangeMessageVisibility", "PurgeQueue"] {
                self.queue(false, action, queue);
            }
        }
        let lists = [access.run_queues, access.worker_queues].contains(&DynamicQueueAccess::Sweep);
        self.add("ListQueues", lists, self.to.list_queues());
        self.never("CreateQueue of another name", self.to.new_queue(&self.to.queue("events-2.fifo")));
        let foreign = self.to.sqs("SendMessage", "another-commands-trial.fifo", json!({}));
        self.never("SendMessage to another deployment", foreign);
    }

    fn objects(&mut self, access: &Access) {
        let (to, bucket) = (self.to, self.to.bucket.as_str());
        let mut lists = false;
        for (access, object) in [(access.blobs, OBJECT), (access.artifacts, ARTIFACT)] {
            let reads = matches!(access, BlobAccess::Read | BlobAccess::Both);
            let writes = matches!(access, BlobAccess::Write | BlobAccess::Both);
            self.add(format!("GetObject {object}"), reads, to.s3(Method::GET, bucket, object, ""));
            self.add(format!("PutObject {object}"), writes, to.s3(Method::PUT, bucket, object, "trial"));
            self.never(format!("DeleteObject {object}"), to.s3(Method::DELETE, bucket, object, ""));
            lists |= reads;
        }
        self.add("ListBucket", lists, to.s3(Method::GET, bucket, "?list-type=2", ""));
        self.never("DeleteBucket", to.s3(Method::DELETE, bucket, "", ""));
        self.never("PutBucketPolicy", to.s3(Method::PUT, bucket, "?policy", "{}"));
        for (bucket, object) in
            [(bucket, "trial"), (&to.code_bucket, "code/trial"), (&to.issuer_bucket, ".well-known/trial")]
        {
            self.never(format!("PutObject {bucket}/{object}"), to.s3(Method::PUT, bucket, object, "trial"));
        }
        self.never("GetObject outside of both", to.s3(Method::GET, bucket, "trial", ""));
        self.never("GetObject of code", to.s3(Method::GET, &to.code_bucket, "code/trial", ""));
    }

    fn secrets(&mut self, access: &Access) {
        let (to, arn) = (self.to, self.to.secret_arn.as_str());
        self.add("GetSecretValue", access.secret, to.secret("GetSecretValue", arn, json!({})));
        self.never("GetSecretValue of another", to.secret("GetSecretValue", "another", json!({})));
        self.never("PutSecretValue", to.secret("PutSecretValue", arn, json!({ "SecretString": "" })));
        for action in ["DescribeSecret", "DeleteSecret", "RotateSecret"] {
            self.never(action, to.secret(action, arn, json!({})));
        }
    }

    fn roles(&mut self, function: &Function, own_role: &str) {
        let (to, assumes) = (self.to, function.access.assumes);
        self.add("sidecar's role", assumes.contains(&AssumedRole::Sidecar), to.assume(&to.sidecar_role));
        self.add("worker's role", assumes.contains(&AssumedRole::Worker), to.assume(&to.worker_role));
        self.never("its own role", to.assume(own_role));
        let own = own_role.rsplit('/').next().unwrap();
        let policy = "arn:aws:iam::aws:policy/none";
        for (action, fields) in [
            ("CreateUser", vec![("UserName", "trial")]),
            ("CreateAccessKey", vec![("UserName", "trial")]),
            ("ListRoles", vec![]),
            ("GetRolePolicy", vec![("RoleName", own), ("PolicyName", function.name)]),
            ("PutRolePolicy", vec![("RoleName", own), ("PolicyName", "trial"), ("PolicyDocument", "{}")]),
            ("AttachRolePolicy", vec![("RoleName", own), ("PolicyArn", policy)]),
            ("UpdateAssumeRolePolicy", vec![("RoleName", own), ("PolicyDocument", "{}")]),
        ] {
            self.never(action, to.iam(action, &fields));
        }
    }

    fn others(&mut self, function: &Function) {
        let (to, access) = (self.to, &function.access);
        for method in [Method::POST, Method::DELETE] {
            let what = format!("{method} to a connection");
            self.add(what, access.connections, to.connection(method));
        }
        self.never("GET of a connection", to.connection(Method::GET));
        // If the stream triggers a function, the emulator does not check this part of the role.
        if !function.triggers.contains(&Trigger::Stream) {
            self.never("DescribeStream", to.stream());
        }

        let on_ecs = access.processes && to.on_ecs;
        let (cluster, task) = (to.prefix.as_str(), format!("{}-sidecar:1", to.prefix));
        self.add(
            "RunTask",
            on_ecs,
            to.ecs("RunTask", &json!({ "cluster": cluster, "taskDefinition": task })),
        );
        for action in ["StopTask", "DescribeTasks"] {
            let body = json!({ "cluster": cluster, "task": "none", "tasks": ["none"] });
            self.add(action, on_ecs, to.ecs(action, &body));
        }
        for action in ["RegisterTaskDefinition", "DeleteCluster", "ExecuteCommand"] {
            let body = json!({ "cluster": cluster, "family": "trial", "task": "none" });
            self.never(action, to.ecs(action, &body));
        }

        // Not the function's own log: the emulator checks the log group where AWS checks its streams.
        let line = json!({ "logStreamName": "none", "logEvents": [] });
        let other = if function.name == "intake" { "relay" } else { "intake" };
        self.never("PutLogEvents of another", to.logs("PutLogEvents", other, line));
        let none = json!({ "logStreamName": "none" });
        self.never("DeleteLogStream", to.logs("DeleteLogStream", function.name, none));
        self.never("Invoke", to.lambda(Method::POST, other, "/invocations", "{}"));
        self.never("UpdateFunctionCode", to.lambda(Method::PUT, other, "/code", "{}"));
        self.never(
            "UpdateFunctionConfiguration",
            to.lambda(Method::PUT, function.name, "/configuration", "{}"),
        );

        let entry = json!({ "Entries": [{ "Source": "trial", "DetailType": "trial", "Detail": "{}", "EventBusName": to.bus }] });
        let publishes = function.access.publishes;
        self.add("PutEvents", publishes, to.events("PutEvents", &entry));
        self.add("Publish", publishes, to.sns("Publish", &[("TopicArn", &to.topic), ("Message", "trial")]));
        let stack = format!("{}-trial", to.prefix);
        self.never("DeleteStack", to.cloudformation("DeleteStack", &[("StackName", &stack)]));
    }
}

/// All attempts of a function with their expected outcomes.
fn attempts(to: &Deployment, function: &Function, role: &str) -> Vec<Attempt> {
    let mut attempts = Attempts { to, all: Vec::new() };
    attempts.table(&function.access);
    attempts.shared_queues(function);
    attempts.passing_queues(&function.access);
    attempts.objects(&function.access);
    attempts.secrets(&function.access);
    attempts.roles(function, role);
    attempts.others(function);
    attempts.all
}

/// The attempts whose outcome differs from the catalog, and the number of attempts.
async fn violations(to: &Deployment, function: &Function) -> (Vec<String>, usize) {
    let Some(role) = to.role_of(function.name).await else {
        return (vec![format!("{} is not deployed", function.name)], 0);
    };
    let caller: Caller = to.with_role(&role).await;
    let attempts = attempts(to, function, &role);
    let mut wrong = Vec::new();
    for Attempt { what, request, wanted } in &attempts {
        let response = caller.send(request).await;
        if response.denied() == *wanted {
            let so = if *wanted { "is denied, but needs it" } else { "is allowed, but must not be" };
            wrong.push(format!("{} {so}: {what} ({} {})", function.name, response.status, response.code));
        }
    }
    (wrong, attempts.len())
}

/// Reports all violations of all functions.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a deployment on a local cloud that evaluates policies"]
async fn every_role_allows_exactly_what_its_function_needs() {
    let to = &Deployment::open().await;
    let tried: Vec<_> = stream::iter(functions())
        .map(|function| async move { violations(to, &function).await })
        .buffer_unordered(AT_ONCE)
        .collect()
        .await;
    // Removes resources of allowed attempts.
    for object in [OBJECT, ARTIFACT] {
        to.root().send(&to.s3(Method::DELETE, &to.bucket, object, "")).await;
    }
    for queue in ["commands-trial.fifo", "worker-trial.fifo"] {
        to.root().send(&to.sqs("DeleteQueue", &to.queue(queue), json!({}))).await;
    }
    let attempts: usize = tried.iter().map(|(_, attempts)| attempts).sum();
    let violations: BTreeSet<_> = tried.into_iter().flat_map(|(wrong, _)| wrong).collect();
    assert!(
        violations.is_empty(),
        "{} of {attempts}:\n{}",
        violations.len(),
        Vec::from_iter(violations).join("\n")
    );
    assert!(attempts > 100 * functions().len(), "only {attempts} attempts");
}

#[tokio::test]
#[ignore = "needs a deployment on a local cloud that evaluates policies"]
async fn no_two_functions_share_a_role() {
    let to = Deployment::open().await;
    let mut roles = BTreeSet::new();
    for function in functions() {
        let role = to.role_of(function.name).await;
        let role = role.unwrap_or_else(|| panic!("{} is not deployed", function.name));
        assert!(roles.insert(role), "{} shares its role with another function", function.name);
    }
    let all = to.root().send(&to.lambda_list()).await.done();
    let deployed = all["Functions"].as_array().unwrap().iter();
    let ours = |function: &&Value| {
        let name = function["FunctionName"].as_str().unwrap_or_default();
        name.strip_prefix(&to.prefix).is_some_and(|rest| rest.starts_with('-'))
    };
    assert_eq!(
        deployed.filter(ours).count(),
        roles.len(),
        "a function is deployed that is not in the catalog"
    );
}
