//! Alarms and the dashboard.

use pilothouse_app::function::Trigger;
use pilothouse_app::function::requirements::{SHARED_QUEUES, WEBHOOKS, dead_letters_of};
use serde_json::{Value, json};

use crate::contexts::{Deployed, deployed};
use crate::names::logical;
use crate::queues::GIVEN_UP;
use crate::template::{Stack, named, reference, sub};
use crate::topics;

/// The maximum age of the oldest message of a queue, in seconds. Intake and reactions usually take less than one.
const TOO_OLD: u32 = 120;

struct Alarm {
    id: String,
    about: String,
    namespace: &'static str,
    metric: &'static str,
    dimension: (&'static str, Value),
    statistic: &'static str,
    above: u32,
    /// The number of minutes, of five, that must exceed the threshold.
    minutes: u32,
}

pub(crate) fn stack() -> Stack {
    let mut stack = Stack::new("operations", "alarms and dashboard");
    topics::add(&mut stack, "AlarmTopic", "alarms", &["cloudwatch.amazonaws.com"]);
    stack.add_with(
        "AlarmMail",
        "AWS::SNS::Subscription",
        json!({ "TopicArn": reference("AlarmTopic"), "Protocol": "email", "Endpoint": reference("AlarmEmail") }),
        json!({ "Condition": "HasAlarmEmail" }),
    );
    stack.output("AlarmTopicArn", &reference("AlarmTopic"));
    for alarm in alarms() {
        stack.add(&alarm.id, "AWS::CloudWatch::Alarm", properties(&alarm));
    }
    stack.add(
        "Dashboard",
        "AWS::CloudWatch::Dashboard",
        json!({ "DashboardName": sub("${Prefix}-${AWS::Region}"), "DashboardBody": sub(dashboard().to_string()) }),
    );
    stack
}

fn properties(alarm: &Alarm) -> Value {
    json!({
        "AlarmName": named(&alarm.id),
        "AlarmDescription": alarm.about,
        "Namespace": alarm.namespace,
        "MetricName": alarm.metric,
        "Dimensions": [{ "Name": alarm.dimension.0, "Value": alarm.dimension.1 }],
        "Statistic": alarm.statistic,
        "Period": 60,
        "EvaluationPeriods": 5,
        "DatapointsToAlarm": alarm.minutes,
        "Threshold": alarm.above,
        "ComparisonOperator": "GreaterThanThreshold",
        "TreatMissingData": "notBreaching",
        "AlarmActions": [reference("AlarmTopic")],
        "OKActions": [reference("AlarmTopic")],
    })
}

fn alarms() -> Vec<Alarm> {
    let mut alarms = Vec::new();
    let dead_of_queues = SHARED_QUEUES.iter().map(|queue| dead_letters_of(queue.name));
    for dead in dead_of_queues.chain([GIVEN_UP.to_owned()]) {
        alarms.push(Alarm {
            id: format!("{}Letters", logical(&dead)),
            about: format!("There are dead letters in {dead}; look at their causes, then redrive them"),
            namespace: "AWS/SQS",
            metric: "ApproximateNumberOfMessagesVisible",
            dimension: ("QueueName", named(&dead)),
            statistic: "Maximum",
            above: 0,
            minutes: 1,
        });
    }
    // Deliveries to webhooks wait for hours between attempts.
    for queue in SHARED_QUEUES.iter().filter(|queue| queue.name != WEBHOOKS) {
        alarms.push(Alarm {
            id: format!("{}Age", logical(queue.name)),
            about: format!("Messages wait too long in {}", queue.name),
            namespace: "AWS/SQS",
            metric: "ApproximateAgeOfOldestMessage",
            dimension: ("QueueName", named(queue.name)),
            statistic: "Maximum",
            above: TOO_OLD,
            minutes: 3,
        });
    }
    // No alarm for lost reports of stopped tasks: a run without a report ends by its lease.
    let watched =
        |function: &&Deployed| function.route.is_none() && !function.triggers.contains(&Trigger::TaskStopped);
    for function in deployed().iter().filter(watched) {
        alarms.extend(alarms_of(function));
    }
    alarms.push(Alarm {
        id: "ApiErrors".to_owned(),
        about: "The HTTP API answers with errors of its own".to_owned(),
        namespace: "AWS/ApiGateway",
        metric: "5xx",
        dimension: ("ApiId", reference("ApiId")),
        statistic: "Sum",
        above: 0,
        minutes: 2,
    });
    alarms.push(Alarm {
        id: "Conflicts".to_owned(),
        about: "Transactions get into each other's way more often than retries are for".to_owned(),
        namespace: "AWS/DynamoDB",
        metric: "TransactionConflict",
        dimension: ("TableName", reference("Prefix")),
        statistic: "Sum",
        above: 300,
        minutes: 3,
    });
    alarms
}

fn alarms_of(function: &Deployed) -> Vec<Alarm> {
    let id = logical(function.name);
    let alarm = |what: &str, about: String, metric, above| Alarm {
        id: format!("{id}{what}"),
        about,
        namespace: "AWS/Lambda",
        metric,
        dimension: ("FunctionName", named(function.name)),
        statistic: if metric == "IteratorAge" { "Maximum" } else { "Sum" },
        above,
        minutes: 2,
    };
    let mut alarms = vec![
        alarm("Errors", format!("`{}` fails", function.name), "Errors", 0),
        alarm("Throttles", format!("`{}` is throttled", function.name), "Throttles", 0),
    ];
    if function.triggers.contains(&Trigger::Stream) {
        let about = format!("`{}` lags behind the table", function.name);
        alarms.push(alarm("Age", about, "IteratorAge", TOO_OLD * 1000));
    }
    alarms
}

fn dashboard() -> Value {
    let queues = |metric: &str, names: &[String]| -> Vec<Value> {
        let line = |name: &String| json!(["AWS/SQS", metric, "QueueName", format!("${{Prefix}}-{name}")]);
        names.iter().map(line).collect()
    };
    let functions = |metric: &str| -> Vec<Value> {
        deployed()
            .iter()
            .filter(|function| function.route.is_none())
            .map(|function| {
                json!(["AWS/Lambda", metric, "FunctionName", format!("${{Prefix}}-{}", function.name)])
            })
            .collect()
    };
    let live: Vec<String> = SHARED_QUEUES.iter().map(|queue| queue.name.to_owned()).collect();
    let dead: Vec<String> =
        SHARED_QUEUES.iter().map(|queue| dead_letters_of(queue.name)).chain([GIVEN_UP.to_owned()]).collect();
    let api = |metric: &str| json!(["AWS/ApiGateway", metric, "ApiId", "${ApiId}"]);
    // Metrics of the functions, over all deployments in the account.
    let ours = |metric: &str| json!(["Pilothouse", metric]);
    let table = |metric: &str| json!(["AWS/DynamoDB", metric, "TableName", "${Prefix}"]);
    let widgets = [
        ("Requests", "Sum", vec![api("Count"), api("4xx"), api("5xx")]),
        ("Latency of requests, p95 in ms", "p95", vec![api("Latency"), api("IntegrationLatency")]),
        ("Messages in queues", "Maximum", queues("ApproximateNumberOfMessagesVisible", &live)),
        ("Oldest message, seconds", "Maximum", queues("ApproximateAgeOfOldestMessage", &live)),
        ("Dead letters", "Maximum", queues("ApproximateNumberOfMessagesVisible", &dead)),
        ("Invocations", "Sum", functions("Invocations")),
        ("Duration, p95 in ms", "p95", functions("Duration")),
        ("Errors", "Sum", functions("Errors")),
        ("From an agent to the journal, p95 in ms", "p95", vec![ours("EventLag")]),
        ("Commands and events", "Sum", vec![ours("Commands"), ours("EventsApplied")]),
        (
            "Lost races, failures, quarantine",
            "Sum",
            vec![ours("Conflicts"), ours("Failures"), ours("EventsQuarantined")],
        ),
        (
            "Table: capacity and conflicts",
            "Sum",
            vec![
                table("ConsumedReadCapacityUnits"),
                table("ConsumedWriteCapacityUnits"),
                table("TransactionConflict"),
                table("ConditionalCheckFailedRequests"),
            ],
        ),
    ];
    let widgets: Vec<Value> = widgets
        .into_iter()
        .enumerate()
        .map(|(at, (title, statistic, metrics))| {
            json!({
                "type": "metric",
                "x": (at % 3) * 8,
                "y": (at / 3) * 6,
                "width": 8,
                "height": 6,
                "properties": {
                    "title": title,
                    "region": "${AWS::Region}",
                    "stat": statistic,
                    "period": 60,
                    "metrics": metrics,
                },
            })
        })
        .collect();
    json!({ "widgets": widgets })
}
