//! The templates agree with the catalog and grant no further permissions.

#![allow(clippy::unwrap_used)] // a missing value fails the test

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::LazyLock;

use pilothouse_app::function::requirements::{
    BlobAccess, DynamicQueueAccess, Profiles, SHARED_QUEUES, TableAccess, dead_letters_of,
};
use pilothouse_app::function::{CallerKind, Trigger};
use pilothouse_console::{Asset, CONTENT_SECURITY_POLICY, Console, SECURITY_HEADERS};
use pilothouse_functions::catalog::{EVENT_FUNCTIONS, HTTP_FUNCTIONS};
use pilothouse_infra::{Deployed, Stack, console_files, deployed, files, logical, overview, stacks};
use serde_json::{Value, json};

/// The variable that makes the test write the table.
const EXPORT: &str = "PILOTHOUSE_EXPORT";

/// The properties of all resources of a type, with their logical ids.
fn of_kind(kind: &str) -> Vec<(String, Value)> {
    static ALL: LazyLock<Vec<(String, Value)>> = LazyLock::new(|| {
        let documents: Vec<_> = stacks().iter().map(Stack::document).collect();
        let resources = documents.iter().flat_map(|document| document["Resources"].as_object().unwrap());
        resources.map(|(id, resource)| (id.clone(), resource.clone())).collect()
    });
    let of_kind = ALL.iter().filter(|(_, resource)| resource["Type"] == kind);
    of_kind.map(|(id, resource)| (id.clone(), resource["Properties"].clone())).collect()
}

fn lambda(function: &Deployed) -> Value {
    let all = of_kind("AWS::Lambda::Function").into_iter().map(|(_, properties)| properties);
    let found: Vec<_> = all.filter(|properties| properties["Handler"] == function.name).collect();
    assert_eq!(found.len(), 1, "{} is deployed exactly once", function.name);
    found.into_iter().next().unwrap()
}

fn role(function: &Deployed) -> Vec<Value> {
    let id = format!("{}Role", logical(function.name));
    let roles = of_kind("AWS::IAM::Role");
    let (_, role) = roles.iter().find(|(known, _)| *known == id).unwrap();
    statements(role)
}

/// The statements of a role, including conditional ones.
fn statements(role: &Value) -> Vec<Value> {
    let of_policy = |policy: &Value| policy["PolicyDocument"]["Statement"].as_array().unwrap().clone();
    let all = role["Policies"].as_array().into_iter().flatten().flat_map(of_policy);
    all.map(
        |statement| if statement["Fn::If"].is_array() { statement["Fn::If"][1].clone() } else { statement },
    )
    .collect()
}

fn strings(value: &Value) -> Vec<String> {
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    value.as_array().map_or_else(|| vec![text(value)], |all| all.iter().map(text).collect())
}

/// Whether a role allows an action on a resource whose text contains `on`.
fn allows(statements: &[Value], action: &str, on: &str) -> bool {
    statements.iter().any(|statement| {
        let matches = |pattern: &String| match pattern.strip_suffix('*') {
            Some(beginning) => action.starts_with(beginning),
            None => pattern == action,
        };
        strings(&statement["Action"]).iter().any(matches)
            && strings(&statement["Resource"]).iter().any(|resource| resource.contains(on))
    })
}

/// The committed table of functions agrees with the templates.
#[test]
fn the_table_of_functions_is_up_to_date() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("functions.md");
    let table = overview();
    if std::env::var_os(EXPORT).is_some() {
        fs::write(&file, &table).unwrap();
    }
    let committed = fs::read_to_string(&file).unwrap_or_default();
    assert!(
        committed == table,
        "infra/functions.md is out of date; run the tests with {EXPORT}=1 to export it"
    );
}

/// The table names every function once, with the permissions of its role.
#[test]
fn the_table_of_functions_is_complete() {
    let table = overview();
    for function in deployed() {
        let rows = table.lines().filter(|row| row.starts_with(&format!("| `{}` |", function.name)));
        assert_eq!(rows.count(), 1, "{}", function.name);
        for action in role(&function).iter().flat_map(|statement| strings(&statement["Action"])) {
            assert!(table.contains(&format!("`{action}`")), "{}: {action}", function.name);
        }
    }
}

/// The program writes the templates of this crate, and the manifest that `infra/deploy` reads.
#[test]
fn the_program_writes_all_templates() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("templates");
    let status = std::process::Command::new(env!("CARGO_BIN_EXE_pilothouse-infra")).arg(&folder).status();
    assert!(status.unwrap().success());
    for (name, text) in files() {
        assert!(fs::read_to_string(folder.join(&name)).unwrap() == text, "{name}");
        let document: Value = serde_json::from_str(&text).unwrap();
        let section = if name == "manifest.json" { "functions" } else { "Resources" };
        assert!(!document[section].is_null(), "{name} has no {section}");
    }
}

/// The limits of `CloudFormation`: 500 resources, 1 MB and 200 parameters for a template.
#[test]
fn every_stack_is_within_the_limits() {
    for stack in stacks() {
        let document = stack.document();
        let count = |section: &str| document[section].as_object().map_or(0, serde_json::Map::len);
        assert!(count("Resources") < 500, "{} has {} resources", stack.name, count("Resources"));
        assert!(count("Parameters") < 200 && count("Outputs") < 200, "{}", stack.name);
        assert!(document.to_string().len() < 1_000_000, "{}", stack.name);
        for (name, parameter) in document["Parameters"].as_object().into_iter().flatten() {
            assert!(parameter["Description"].as_str().is_some_and(|text| !text.is_empty()), "{name}");
        }
    }
}

/// Each function of the AWS profile is deployed once, and there are no others.
#[test]
fn every_function_is_deployed_with_what_it_needs() {
    let of_http = HTTP_FUNCTIONS.iter().map(|f| (f.name, f.requirements.profiles));
    let of_events = EVENT_FUNCTIONS.iter().map(|f| (f.name, f.requirements.profiles));
    let wanted: BTreeSet<_> = of_http
        .chain(of_events)
        .filter(|(_, profiles)| *profiles != Profiles::Embedded)
        .map(|(name, _)| name.to_owned())
        .collect();
    let handlers: Vec<_> = of_kind("AWS::Lambda::Function")
        .iter()
        .map(|(_, properties)| properties["Handler"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(handlers.len(), wanted.len());
    assert_eq!(handlers.into_iter().collect::<BTreeSet<_>>(), wanted);

    let logs: Vec<_> = of_kind("AWS::Logs::LogGroup").into_iter().map(|(_, log)| log).collect();
    for function in deployed() {
        let properties = lambda(&function);
        assert_eq!(properties["FunctionName"]["Fn::Sub"], format!("${{Prefix}}-{}", function.name));
        assert_eq!(properties["MemorySize"], function.requirements.memory_mb);
        assert_eq!(properties["Timeout"], function.requirements.timeout_seconds);
        assert_eq!(properties["Runtime"], "provided.al2023");
        assert_eq!(properties["Role"]["Fn::GetAtt"][0], format!("{}Role", logical(function.name)));
        assert_eq!(properties["Code"]["S3Key"]["Ref"], "CodeKey");
        let name = format!("/aws/lambda/${{Prefix}}-{}", function.name);
        let log = logs.iter().find(|log| log["LogGroupName"]["Fn::Sub"] == name).unwrap();
        assert!(log["RetentionInDays"].is_object(), "{name} has no retention");
        if function.route.is_some() {
            assert!(
                function.requirements.timeout_seconds <= 29,
                "API Gateway does not wait for {}",
                function.name
            );
        }
    }
}

/// The routes agree with the OpenAPI document. A route has an authorizer if and only if owners call it.
#[test]
fn routes_match_the_openapi_document() {
    let document = pilothouse_functions::catalog::openapi::document();
    let mut documented = BTreeSet::new();
    for (path, methods) in document["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            if operation["x-profile"] != "embedded" {
                documented.insert(format!("{} {path}", method.to_uppercase()));
            }
        }
    }
    let (mut of_api, mut of_sidecars) = (BTreeSet::new(), BTreeSet::new());
    let integrations: BTreeMap<_, _> = of_kind("AWS::ApiGatewayV2::Integration").into_iter().collect();
    let routes: BTreeMap<_, _> = of_kind("AWS::ApiGatewayV2::Route").into_iter().collect();
    let functions: Vec<_> =
        HTTP_FUNCTIONS.iter().filter(|f| f.requirements.profiles != Profiles::Embedded).collect();
    for function in &functions {
        let id = logical(function.name);
        let route = &routes[&format!("{id}Route")];
        let key = route["RouteKey"].as_str().unwrap();
        assert_eq!(key, format!("{} {}", function.verb.as_str(), function.path));
        let authorized = function.caller == CallerKind::Owner;
        assert_eq!(route["AuthorizationType"] == "JWT", authorized, "{key}");
        assert_eq!(route["AuthorizerId"]["Ref"] == "Owners", authorized, "{key}");
        let target = format!("integrations/${{{id}Integration}}");
        assert_eq!(route["Target"]["Fn::Sub"], target);
        let uri = integrations[&format!("{id}Integration")]["IntegrationUri"]["Fn::Sub"].as_str().unwrap();
        assert!(uri.ends_with(&format!(":function:${{Prefix}}-{}", function.name)), "{uri}");
        let known = if function.caller == CallerKind::Sidecar { &mut of_sidecars } else { &mut of_api };
        assert!(known.insert(key.to_owned()), "{key} exists twice");
    }
    assert_eq!(of_api, documented);
    let declared = routes.values().filter(|route| route["ApiId"]["Ref"] == "Api").count();
    assert_eq!(declared, functions.len());
}

/// Each trigger has an event source, and there are no others.
#[test]
fn every_trigger_has_its_source() {
    let sources = of_kind("AWS::Lambda::EventSourceMapping");
    let routes = of_kind("AWS::ApiGatewayV2::Route");
    let (mut wanted, mut sockets) = (0, 0);
    for function in deployed() {
        let id = format!("{}Function", logical(function.name));
        let of_function: Vec<_> =
            sources.iter().filter(|(_, source)| source["FunctionName"]["Ref"] == id).collect();
        for trigger in &function.triggers {
            match trigger {
                Trigger::Queue(queue) => {
                    wanted += 1;
                    let arn = format!(":${{Prefix}}-{queue}");
                    let (_, source) = of_function
                        .iter()
                        .find(|(_, source)| {
                            source["EventSourceArn"]["Fn::Sub"].as_str().is_some_and(|it| it.ends_with(&arn))
                        })
                        .unwrap();
                    assert_eq!(source["FunctionResponseTypes"][0], "ReportBatchItemFailures");
                    assert!(
                        source.get("FilterCriteria").is_none(),
                        "a filter deletes what it does not match"
                    );
                }
                Trigger::Stream => {
                    wanted += 1;
                    let (_, source) = of_function.first().unwrap();
                    assert_eq!(source["EventSourceArn"]["Ref"], "TableStreamArn");
                    assert_eq!(source["FunctionResponseTypes"][0], "ReportBatchItemFailures");
                    assert_eq!(source["BisectBatchOnFunctionError"], true);
                    assert!(source["MaximumRetryAttempts"].as_u64().is_some());
                    assert!(source["DestinationConfig"]["OnFailure"]["Destination"].is_object());
                }
                Trigger::Schedule => {
                    let schedules = of_kind("AWS::Scheduler::Schedule");
                    let (_, schedule) = schedules.first().unwrap();
                    assert_eq!(schedule["Target"]["Arn"]["Fn::GetAtt"][0], id);
                    assert_eq!(schedule["ScheduleExpression"], "rate(1 minute)");
                }
                Trigger::TaskStopped => {
                    let documents: Vec<_> = stacks().iter().map(Stack::document).collect();
                    let all =
                        documents.iter().flat_map(|document| document["Resources"].as_object().unwrap());
                    let rules: Vec<_> = all.filter(|(_, it)| it["Type"] == "AWS::Events::Rule").collect();
                    let [(name, rule)] = rules[..] else { panic!("one rule, not {rules:?}") };
                    assert_eq!(rule["Condition"], "RunsOnEcs", "only ECS has tasks");
                    let rule = &rule["Properties"];
                    assert_eq!(rule["Targets"][0]["Arn"]["Fn::GetAtt"][0], id);
                    let detail = &rule["EventPattern"]["detail"];
                    assert_eq!(detail["lastStatus"], serde_json::json!(["STOPPED"]));
                    let cluster = detail["clusterArn"][0]["Fn::Sub"].as_str().unwrap();
                    assert!(cluster.ends_with(":cluster/${Prefix}"), "{cluster}");
                    let permissions = of_kind("AWS::Lambda::Permission");
                    let of_rule =
                        permissions.iter().find(|(_, it)| it["SourceArn"]["Fn::GetAtt"][0] == *name);
                    assert_eq!(of_rule.unwrap().1["FunctionName"]["Fn::GetAtt"][0], id);
                }
                Trigger::WebSocket(key) => {
                    sockets += 1;
                    let (_, route) = routes.iter().find(|(_, route)| route["RouteKey"] == *key).unwrap();
                    assert_eq!(route["AuthorizationType"] == "CUSTOM", *key == "$connect", "{key}");
                }
                Trigger::Authorizer => {
                    let authorizers = of_kind("AWS::ApiGatewayV2::Authorizer");
                    let mut uris =
                        authorizers.iter().map(|(_, it)| it["AuthorizerUri"]["Fn::Sub"].to_string());
                    assert!(uris.any(|uri| uri.contains(&format!("${{Prefix}}-{}/", function.name))));
                }
            }
        }
        let called = function.route.is_some()
            || function
                .triggers
                .iter()
                .any(|t| matches!(t, Trigger::WebSocket(_) | Trigger::Authorizer | Trigger::TaskStopped));
        let permissions = of_kind("AWS::Lambda::Permission");
        let may_be_called = permissions.iter().any(|(_, it)| it["FunctionName"]["Fn::GetAtt"][0] == id);
        assert_eq!(may_be_called, called, "{}", function.name);
    }
    assert_eq!(sources.len(), wanted);
    assert_eq!(routes.iter().filter(|(_, route)| route["ApiId"]["Ref"] == "StreamApi").count(), sockets);
}

/// Only origins that the deployment names may call the API, and never with cookies.
#[test]
fn other_origins_are_refused_unless_configured() {
    let apis = of_kind("AWS::ApiGatewayV2::Api");
    let (_, api) = apis.iter().find(|(_, api)| api["ProtocolType"] == "HTTP").unwrap();
    let [condition, cors, otherwise] = &api["CorsConfiguration"]["Fn::If"].as_array().unwrap()[..] else {
        panic!("CORS under a condition, not {api}")
    };
    assert_eq!((condition, &otherwise["Ref"]), (&"HasAllowedOrigins".into(), &"AWS::NoValue".into()));
    assert_eq!(cors["AllowOrigins"]["Fn::Split"][1]["Ref"], "AllowedOrigins");
    assert!(cors.get("AllowCredentials").is_none());
    let sent = strings(&cors["AllowHeaders"]);
    for header in ["authorization", "if-match", "idempotency-key"] {
        assert!(sent.iter().any(|it| it == header), "{header}");
    }
    assert!(strings(&cors["ExposeHeaders"]).iter().any(|it| it == "etag"));
}

/// Each queue has a dead-letter queue of its type, and a visibility timeout of six times the timeout of its consumer.
#[test]
fn queues_outlast_their_consumers() {
    let queues = of_kind("AWS::SQS::Queue");
    let queue = |name: &str| {
        let name = format!("${{Prefix}}-{name}");
        queues.iter().find(|(_, queue)| queue["QueueName"]["Fn::Sub"] == name).unwrap().1.clone()
    };
    for shared in SHARED_QUEUES {
        let (live, dead) = (queue(shared.name), queue(&dead_letters_of(shared.name)));
        assert_eq!(live["FifoQueue"], dead["FifoQueue"]);
        assert_eq!(live["FifoQueue"] == true, shared.name.strip_suffix(".fifo").is_some());
        assert_eq!(live["RedrivePolicy"]["maxReceiveCount"], shared.max_receives);
        let consumers: Vec<_> =
            deployed().into_iter().filter(|f| f.triggers.contains(&Trigger::Queue(shared.name))).collect();
        assert_eq!(consumers.len(), 1, "{} has one consumer", shared.name);
        assert_eq!(
            live["VisibilityTimeout"],
            6 * consumers[0].requirements.timeout_seconds,
            "{}",
            shared.name
        );
    }
}

/// Actions that IAM cannot limit to resources.
const WITHOUT_RESOURCES: [&str; 2] = ["sqs:ListQueues", "ecr:GetAuthorizationToken"];

/// No role has a wildcard action or resource.
#[test]
fn no_role_has_a_wildcard_action_or_resource() {
    let mut seen = 0;
    for (id, role) in of_kind("AWS::IAM::Role") {
        for statement in statements(&role) {
            seen += 1;
            assert_eq!(statement["Effect"], "Allow");
            let actions = strings(&statement["Action"]);
            for action in &actions {
                let (service, name) = action.split_once(':').unwrap();
                assert!(!service.contains('*') && !name.starts_with('*'), "{id} may {action}");
                assert!(!name.contains('*') || service == "sqs", "{id} may {action}");
            }
            for resource in strings(&statement["Resource"]) {
                let bare =
                    resource == "*" && actions.iter().all(|it| WITHOUT_RESOURCES.contains(&it.as_str()));
                assert!(resource != "*" || bare, "{id} may {actions:?} on everything");
            }
        }
        let trust = role["AssumeRolePolicyDocument"]["Statement"].as_array().unwrap();
        assert!(trust.iter().all(|it| it["Principal"].is_object()), "{id} can be assumed by anyone");
    }
    assert!(seen > 100);
}

/// A role allows exactly the access that the catalog declares.
#[test]
fn each_role_allows_what_the_catalogue_says() {
    for function in deployed() {
        let (access, role) = (function.requirements.access, role(&function));
        let may = |action: &str, on: &str| allows(&role, action, on);
        let name = function.name;
        assert!(may("logs:PutLogEvents", &format!("/aws/lambda/${{Prefix}}-{name}:")), "{name} may log");

        let (reads, writes) = (access.table != TableAccess::None, access.table == TableAccess::Write);
        for action in ["dynamodb:GetItem", "dynamodb:Query", "dynamodb:BatchGetItem"] {
            assert_eq!(may(action, "table/${Prefix}"), reads, "{name}: {action}");
            assert_eq!(may(action, "index/due"), reads, "{name}: {action}");
        }
        for action in ["PutItem", "DeleteItem", "BatchWriteItem", "ConditionCheckItem"] {
            assert_eq!(may(&format!("dynamodb:{action}"), "table/${Prefix}"), writes, "{name}: {action}");
        }
        for action in ["Scan", "UpdateItem", "DeleteTable"] {
            assert!(!may(&format!("dynamodb:{action}"), ""), "{name}: {action}");
        }

        for (blobs, objects) in [(access.blobs, "sessions"), (access.artifacts, "artifacts")] {
            let objects = format!("${{Bucket}}/{objects}/*");
            let reads_blobs = matches!(blobs, BlobAccess::Read | BlobAccess::Both);
            let writes_blobs = matches!(blobs, BlobAccess::Write | BlobAccess::Both);
            assert_eq!(may("s3:GetObject", &objects), reads_blobs, "{name}: {objects}");
            assert_eq!(may("s3:PutObject", &objects), writes_blobs, "{name}: {objects}");
        }
        assert_eq!(may("events:PutEvents", "event-bus/${Prefix}"), access.publishes, "{name}");
        assert_eq!(may("sns:Publish", "${Prefix}-notices"), access.publishes, "{name}");
        assert_eq!(may("secretsmanager:GetSecretValue", "SecretArn"), access.secret, "{name}");
        assert_eq!(may("secretsmanager:GetSecretValue", "ModelKeyArn"), access.model, "{name}");
        assert_eq!(may("secretsmanager:GetSecretValue", "EmbeddingsKeyArn"), access.embeddings, "{name}");
        assert_eq!(may("execute-api:ManageConnections", "StreamApiId"), access.connections, "{name}");
        assert_eq!(may("sts:AssumeRole", ""), !access.assumes.is_empty(), "{name}");
        assert_eq!(may("ecs:RunTask", "task-definition/"), access.processes, "{name}");
        assert_eq!(may("iam:PassRole", "role/"), access.processes, "{name}");

        for shared in SHARED_QUEUES {
            let (queue, dead) = (format!("-{}", shared.name), format!("-{}", dead_letters_of(shared.name)));
            let ends = |action: &str, with: &str| {
                role.iter().any(|statement| {
                    allows(std::slice::from_ref(statement), action, with)
                        && strings(&statement["Resource"])
                            .iter()
                            .any(|it| it.trim_end_matches(['"', '}']).ends_with(with))
                })
            };
            let takes = function.triggers.contains(&Trigger::Queue(shared.name));
            assert_eq!(ends("sqs:SendMessageBatch", &queue), access.sends.contains(&shared.name), "{name}");
            assert_eq!(ends("sqs:ReceiveMessage", &queue), takes, "{name} receives from {queue}");
            assert_eq!(ends("sqs:ChangeMessageVisibilityBatch", &queue), takes, "{name}");
            assert_eq!(ends("sqs:SendMessage", &dead), takes, "{name} sends to {dead}");
            assert_eq!(ends("sqs:ReceiveMessage", &dead), access.dead_letters, "{name} handles {dead}");
        }
        assert_eq!(
            may("sqs:ReceiveMessage", "-relay-dead"),
            access.dead_letters,
            "{name} lists given-up records"
        );
        for (passing, queues) in [(access.run_queues, "commands-*"), (access.worker_queues, "worker-*")] {
            assert_eq!(may("sqs:CreateQueue", queues), passing != DynamicQueueAccess::None, "{name}");
            assert_eq!(may("sqs:SendMessage", queues), passing != DynamicQueueAccess::None, "{name}");
            assert!(!may("sqs:ReceiveMessage", queues), "{name} receives other consumers' messages");
        }
        let streams = function.triggers.contains(&Trigger::Stream);
        assert_eq!(may("dynamodb:GetRecords", "/stream/"), streams, "{name}");
    }
}

/// Roles of sidecars and workers have only the intended permissions, and only functions that declare it may assume them.
#[test]
fn vended_roles_are_narrow() {
    let roles: BTreeMap<_, _> = of_kind("AWS::IAM::Role").into_iter().collect();
    let (sidecar, worker) = (statements(&roles["SidecarRole"]), statements(&roles["WorkerRole"]));
    for (action, on) in [
        ("sqs:SendMessageBatch", "${Prefix}-events.fifo"),
        ("sqs:ReceiveMessage", "commands-*"),
        ("sqs:DeleteMessageBatch", "commands-*"),
        ("s3:PutObject", "/sessions/"),
    ] {
        assert!(allows(&sidecar, action, on), "a sidecar may {action} on {on}");
    }
    assert!(!allows(&sidecar, "sqs:SendMessage", "commands-") && !allows(&sidecar, "s3:GetObject", ""));
    assert!(allows(&worker, "sqs:ReceiveMessage", "worker-*"));
    assert!(!allows(&worker, "sqs:SendMessage", "") && !allows(&worker, "sqs:ReceiveMessage", "commands-"));
    for role in [&sidecar, &worker] {
        assert!(
            !role.iter().any(|it| it.to_string().contains("dynamodb")),
            "a sidecar or worker can read the table"
        );
    }
    for function in deployed().iter().filter(|f| !f.requirements.access.assumes.is_empty()) {
        let trusted: String = ["SidecarRole", "WorkerRole"]
            .iter()
            .map(|role| roles[*role]["AssumeRolePolicyDocument"].to_string())
            .collect();
        assert!(trusted.contains(&format!("-{}\"", function.name)), "{} is trusted", function.name);
    }
}

/// Lambda uses the function's role to read from queues and the stream, and to send failed records. A local cloud does not check
/// this, so this test does.
#[test]
fn role_allows_the_calls_of_its_event_sources() {
    let sources = of_kind("AWS::Lambda::EventSourceMapping");
    assert!(!sources.is_empty());
    for (source, properties) in sources {
        let function = deployed()
            .into_iter()
            .find(|function| {
                properties["FunctionName"]["Ref"] == format!("{}Function", logical(function.name))
            })
            .unwrap();
        let role = role(&function);
        // On exactly this resource, not on a pattern.
        let check = |actions: &[&str], resource: &Value| {
            for action in actions {
                let of_resource = role.iter().filter(|statement| {
                    statement["Resource"].as_array().is_some_and(|all| all.contains(resource))
                });
                let allowed = of_resource.cloned().collect::<Vec<_>>();
                assert!(allows(&allowed, action, ""), "{source}: {} may not {action}", function.name);
            }
        };
        if properties["EventSourceArn"]["Ref"] == "TableStreamArn" {
            // The name of the stream contains its creation time.
            let stream =
                "arn:${AWS::Partition}:dynamodb:${AWS::Region}:${AWS::AccountId}:table/${Prefix}/stream/*";
            let actions = ["DescribeStream", "GetRecords", "GetShardIterator", "ListStreams"]
                .map(|action| format!("dynamodb:{action}"));
            check(&actions.each_ref().map(String::as_str), &serde_json::json!({ "Fn::Sub": stream }));
            check(&["sqs:SendMessage"], &properties["DestinationConfig"]["OnFailure"]["Destination"]);
        } else {
            let actions = ["sqs:ReceiveMessage", "sqs:DeleteMessage", "sqs:GetQueueAttributes"];
            check(&actions, &properties["EventSourceArn"]);
        }
    }
}

/// The role of the schedule may only invoke its function.
#[test]
fn schedule_role_calls_only_its_function() {
    let (roles, schedules) = (of_kind("AWS::IAM::Role"), of_kind("AWS::Scheduler::Schedule"));
    assert!(!schedules.is_empty());
    for (name, schedule) in schedules {
        let id = schedule["Target"]["RoleArn"]["Fn::GetAtt"][0].as_str().unwrap();
        let (_, role) = roles.iter().find(|(known, _)| known == id).unwrap();
        let statements = statements(role);
        assert_eq!(statements.len(), 1, "{name}");
        assert_eq!(statements[0]["Action"], serde_json::json!(["lambda:InvokeFunction"]), "{name}");
        assert_eq!(statements[0]["Resource"], serde_json::json!([schedule["Target"]["Arn"]]), "{name}");
        let trust = &role["AssumeRolePolicyDocument"]["Statement"][0];
        assert_eq!(trust["Principal"]["Service"], "scheduler.amazonaws.com");
        assert!(trust["Condition"]["StringEquals"]["aws:SourceAccount"].is_object(), "only of this account");
    }
}

/// The default policy of SNS lets the whole account publish. Each topic has a policy that requires a permission of the role.
#[test]
fn topic_policies_delegate_publishing_to_roles() {
    let (topics, policies) = (of_kind("AWS::SNS::Topic"), of_kind("AWS::SNS::TopicPolicy"));
    assert!(!topics.is_empty());
    for (topic, _) in topics {
        let (_, policy) = policies.iter().find(|(_, policy)| policy["Topics"][0]["Ref"] == topic).unwrap();
        for statement in policy["PolicyDocument"]["Statement"].as_array().unwrap() {
            let (principal, condition) = (&statement["Principal"], &statement["Condition"]);
            let account = principal["AWS"]["Fn::Sub"].as_str().is_some_and(|it| it.ends_with(":root"));
            let service = principal["Service"].is_string()
                && condition["StringEquals"]["aws:SourceAccount"]["Ref"] == "AWS::AccountId";
            assert!(account || service, "{topic}: {statement}");
        }
    }
}

/// The properties of the only resource of a type.
fn only(kind: &str) -> Value {
    let mut all = of_kind(kind);
    assert_eq!(all.len(), 1, "{kind}");
    all.remove(0).1
}

#[test]
fn only_the_distribution_reads_the_files_of_the_console() {
    let buckets: BTreeMap<_, _> = of_kind("AWS::S3::Bucket").into_iter().collect();
    let bucket = &buckets["Files"];
    assert!(bucket["BucketEncryption"].is_object());
    for block in ["BlockPublicAcls", "BlockPublicPolicy", "IgnorePublicAcls", "RestrictPublicBuckets"] {
        assert_eq!(bucket["PublicAccessBlockConfiguration"][block], true, "{block}");
    }
    let policies = of_kind("AWS::S3::BucketPolicy");
    let (_, policy) = policies.iter().find(|(_, policy)| policy["Bucket"]["Ref"] == "Files").unwrap();
    let [read, plain] = &policy["PolicyDocument"]["Statement"].as_array().unwrap()[..] else {
        panic!("two statements, not {policy}")
    };
    assert_eq!((&read["Effect"], &read["Action"]), (&json!("Allow"), &json!(["s3:GetObject"])));
    assert_eq!(read["Principal"], json!({ "Service": "cloudfront.amazonaws.com" }));
    let source = read["Condition"]["StringEquals"]["aws:SourceArn"]["Fn::Sub"].as_str().unwrap();
    assert!(source.ends_with(":distribution/${Distribution}"), "{source}");
    assert_eq!((&plain["Effect"], &plain["Action"]), (&json!("Deny"), &json!(["s3:*"])));
    assert_eq!(plain["Condition"], json!({ "Bool": { "aws:SecureTransport": "false" } }));
    assert_eq!(strings(&plain["Resource"]).len(), 2, "the bucket and its objects");
}

#[test]
fn distribution_forwards_what_the_console_requests() {
    let distribution = only("AWS::CloudFront::Distribution")["DistributionConfig"].clone();
    let origin = |id: &str| {
        let origins = distribution["Origins"].as_array().unwrap();
        origins.iter().find(|origin| origin["Id"] == id).unwrap().clone()
    };
    let files = &distribution["DefaultCacheBehavior"];
    assert_eq!(files["AllowedMethods"], json!(["GET", "HEAD"]));
    assert_eq!(files["FunctionAssociations"][0]["EventType"], "viewer-request");
    assert!(files["ResponseHeadersPolicyId"].is_object());
    let bucket = origin(files["TargetOriginId"].as_str().unwrap());
    assert_eq!(bucket["DomainName"]["Fn::GetAtt"], json!(["Files", "RegionalDomainName"]));
    assert!(bucket["OriginAccessControlId"].is_object());

    let behaviors = distribution["CacheBehaviors"].as_array().unwrap();
    let behavior_of = |path: &str| {
        let matches = |pattern: &str| match pattern.strip_suffix('*') {
            Some(beginning) => path.starts_with(beginning),
            None => path == pattern,
        };
        behaviors.iter().find(|it| matches(it["PathPattern"].as_str().unwrap())).unwrap_or(files)
    };
    let host_of = |path: &str| {
        let origin = origin(behavior_of(path)["TargetOriginId"].as_str().unwrap());
        origin["DomainName"]["Fn::Sub"].as_str().unwrap_or_default().to_owned()
    };
    let routes = deployed().into_iter().filter_map(|function| function.route);
    let by_token = routes.filter(|route| route.by_token).map(|route| route.key);
    for route in by_token.chain(["GET /openapi.json".to_owned()]) {
        let (method, path) = route.split_once(' ').unwrap();
        assert!(host_of(path).starts_with("${ApiId}.execute-api."), "{path}");
        assert!(strings(&behavior_of(path)["AllowedMethods"]).iter().any(|it| it == method), "{route}");
    }
    let stages = of_kind("AWS::ApiGatewayV2::Stage");
    let (_, stage) = stages.iter().find(|(_, stage)| stage["ApiId"]["Ref"] == "StreamApi").unwrap();
    let stage = format!("/{}", stage["StageName"].as_str().unwrap());
    assert!(host_of(&stage).starts_with("${StreamApiId}.execute-api."), "{stage}");
    let socket = Path::new(env!("CARGO_MANIFEST_DIR")).join("../console/src/live/socket.ts");
    assert!(fs::read_to_string(socket).unwrap().contains(&format!("{stage}?token=")), "{stage}");
    for page in ["/", "/login", "/sessions", "/assets/index-1.js"] {
        assert_eq!(host_of(page), "", "{page}");
    }
}

/// Two owners request the same addresses with different tokens.
#[test]
fn distribution_keeps_no_response_of_an_api() {
    let distribution = only("AWS::CloudFront::Distribution")["DistributionConfig"].clone();
    for behavior in distribution["CacheBehaviors"].as_array().unwrap() {
        // The managed policies `CachingDisabled` and `AllViewerExceptHostHeader`.
        assert_eq!(behavior["CachePolicyId"], "4135ea2d-6df8-44a3-9df3-4b5a84be39ad", "{behavior}");
        assert_eq!(behavior["OriginRequestPolicyId"], "b689b0a8-53d0-40ab-baf2-38738e2966ac", "{behavior}");
        assert_eq!(behavior["ViewerProtocolPolicy"], "https-only", "{behavior}");
    }
    let errors = distribution["CustomErrorResponses"].as_array().unwrap();
    for status in [400, 403, 404, 405, 414, 500, 501, 502, 503, 504] {
        let error = errors.iter().find(|error| error["ErrorCode"] == status).unwrap();
        assert_eq!(*error, json!({ "ErrorCode": status, "ErrorCachingMinTTL": 0 }), "the body stays");
    }
}

#[test]
fn console_has_the_headers_of_the_embedded_server() {
    let policy = only("AWS::CloudFront::ResponseHeadersPolicy")["ResponseHeadersPolicyConfig"].clone();
    let security = &policy["SecurityHeadersConfig"];
    assert_eq!(security["ContentSecurityPolicy"]["ContentSecurityPolicy"], CONTENT_SECURITY_POLICY);
    let others = policy["CustomHeadersConfig"]["Items"].as_array().unwrap();
    for (name, value) in SECURITY_HEADERS {
        let found = match name {
            "x-content-type-options" => value == "nosniff" && security["ContentTypeOptions"].is_object(),
            "referrer-policy" => security["ReferrerPolicy"]["ReferrerPolicy"] == value,
            _ => others.iter().any(|header| header["Header"] == name && header["Value"] == value),
        };
        assert!(found, "{name}");
    }
    assert!(security["StrictTransportSecurity"]["AccessControlMaxAgeSec"].as_u64() > Some(86_400));
    let function = only("AWS::CloudFront::Function");
    let code = function["FunctionCode"].as_str().unwrap();
    assert!(code.contains("function handler(event)") && code.len() < 10_240, "the limit of CloudFront");
}

#[test]
fn page_of_the_console_is_uploaded_after_its_files() {
    const CONSOLE: Console = Console {
        page: r#"<meta name="pilothouse-profile" content="embedded" />"#,
        assets: &[
            Asset { path: "/assets/app-1.css", gzip: b"css" },
            Asset { path: "/assets/app-1.js", gzip: b"js" },
            Asset { path: "/assets/app-2.js", gzip: b"js" },
            Asset { path: "/push-worker.js", gzip: b"worker" },
        ],
    };
    let uploads = console_files::uploads(&CONSOLE);
    let page = uploads.last().unwrap();
    assert_eq!(page.files[0].0, "index.html");
    assert!(String::from_utf8_lossy(&page.files[0].1).contains(r#"content="aws""#));
    assert!(!page.is_gzip && page.cache_control == "no-cache");

    let folder = tempfile::tempdir().unwrap();
    console_files::write(&uploads, folder.path()).unwrap();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("values.py");
    let list = folder.path().join("uploads.json");
    let output = Command::new("python3").arg(script).arg("uploads").arg(list).output().unwrap();
    let mut uploaded = Vec::new();
    for line in String::from_utf8(output.stdout).unwrap().lines() {
        let fields: Vec<_> = line.split('\t').collect();
        let option = |name: &str| fields.iter().position(|it| *it == name).map(|at| fields[at + 1]);
        let is_gzip = option("--content-encoding") == Some("gzip");
        for file in ["assets/app-1.css", "assets/app-1.js", "assets/app-2.js", "push-worker.js", "index.html"]
        {
            if folder.path().join(fields[0]).join(file).is_file() {
                let cache = option("--cache-control").unwrap().to_owned();
                uploaded.push((file, option("--content-type").unwrap().to_owned(), cache, is_gzip));
            }
        }
    }
    let immutable = "public, max-age=31536000, immutable";
    let wanted = [
        ("assets/app-1.css", "text/css; charset=utf-8", immutable, true),
        ("assets/app-1.js", "text/javascript; charset=utf-8", immutable, true),
        ("assets/app-2.js", "text/javascript; charset=utf-8", immutable, true),
        ("push-worker.js", "text/javascript; charset=utf-8", "no-cache", true),
        ("index.html", "text/html; charset=utf-8", "no-cache", false),
    ];
    let wanted =
        wanted.map(|(file, kind, cache, is_gzip)| (file, kind.to_owned(), cache.to_owned(), is_gzip));
    assert_eq!(uploaded, wanted);
}

/// `infra/deploy` runs this check before it updates the stack.
#[test]
fn deploying_over_data_of_another_format_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let (described, template) = (folder.path().join("stacks.json"), folder.path().join("data.json"));
    let data =
        stacks().iter().map(Stack::document).find(|it| it["Outputs"].get("DataFormat").is_some()).unwrap();
    let current = data["Outputs"]["DataFormat"]["Value"].as_str().unwrap();
    fs::write(&template, data.to_string()).unwrap();
    let check = |stacks: Value| {
        fs::write(&described, json!({ "Stacks": stacks }).to_string()).unwrap();
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("values.py");
        let mut command = Command::new("python3");
        let output =
            command.arg(script).arg("format").arg(&described).arg("it-data").arg(&template).output().unwrap();
        (output.status.success(), String::from_utf8(output.stderr).unwrap())
    };
    let stack = |status: &str, outputs: Value| json!([{ "StackName": "it-data", "StackStatus": status, "Outputs": outputs }]);
    let format = |version: &str| json!([{ "OutputKey": "DataFormat", "OutputValue": version }]);

    assert_eq!(check(json!([])), (true, String::new()));
    assert_eq!(check(stack("ROLLBACK_COMPLETE", json!([]))), (true, String::new()));
    assert_eq!(check(stack("UPDATE_COMPLETE", format(current))), (true, String::new()));
    let (accepted, sentence) = check(stack("UPDATE_COMPLETE", format("0")));
    assert!(!accepted && sentence.contains("has the stored format 0"), "{sentence}");
    let (accepted, sentence) = check(stack("CREATE_COMPLETE", json!([])));
    assert!(!accepted && sentence.contains("no version of its format"), "{sentence}");
}
