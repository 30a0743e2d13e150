//! Requests to ECS, and the interpretation of its responses.

use aws_sdk_ecs::config::http::{HttpRequest, HttpResponse};
use aws_sdk_ecs::config::{BehaviorVersion, Credentials, Region, retry::RetryConfig};
use aws_smithy_http_client::test_util::{ReplayEvent, StaticReplayClient};
use pilothouse_domain::project_agent::{UnmetRequirement, WorkspaceRequirements};
use pilothouse_runtime::ecs::session_of;
use pilothouse_runtime::{AgentRuntime as _, EcsRuntime, LaunchError, ProcessState, StopMode};
use serde_json::{Value, json};

use crate::{launch, secret, settings};

const TASK: &str = "arn:aws:ecs:eu-central-1:111122223333:task/c/1";

/// A runtime whose requests get these responses, in order.
fn responding(responses: &[(u16, Value)]) -> (EcsRuntime, StaticReplayClient) {
    let event = |(status, body): &(u16, Value)| {
        let response = HttpResponse::new((*status).try_into().unwrap(), body.to_string().into());
        ReplayEvent::new(HttpRequest::empty(), response)
    };
    let replay = StaticReplayClient::new(responses.iter().map(event).collect());
    let config = aws_sdk_ecs::Config::builder()
        .behavior_version(BehaviorVersion::v2026_01_12())
        .region(Region::new("eu-central-1"))
        .credentials_provider(Credentials::new("AKID", "secret", None, None, "test"))
        .retry_config(RetryConfig::disabled())
        .http_client(replay.clone())
        .build();
    let client = aws_sdk_ecs::Client::from_conf(config);
    (
        EcsRuntime::new(client, settings("c", "p-sidecar"), "https://pilothouse.example".into(), secret()),
        replay,
    )
}

fn asked(replay: &StaticReplayClient) -> Vec<(String, Value)> {
    let request = |r: &HttpRequest| {
        let operation = r.headers().get("x-amz-target").unwrap().rsplit('.').next().unwrap();
        (operation.to_owned(), serde_json::from_slice(r.body().bytes().unwrap()).unwrap())
    };
    replay.actual_requests().map(request).collect()
}

#[tokio::test]
async fn tasks_offer_no_disk_and_no_limits() {
    let limited = json!({ "resourceLimits": { "memoryMb": 512, "diskMb": 64 } });
    let needed: WorkspaceRequirements = serde_json::from_value(limited).unwrap();
    let offer = responding(&[]).0.workspace().unwrap();
    assert_eq!(needed.unmet(&offer), [UnmetRequirement::CpuAndMemory, UnmetRequirement::UnknownDisk]);
}

#[tokio::test]
async fn launch_is_one_task_with_only_its_token() {
    let (runtime, replay) = responding(&[(200, json!({ "tasks": [{ "taskArn": TASK }], "failures": [] }))]);
    let request = launch();
    runtime.launch(request.clone()).await.unwrap();
    let (operation, body) = asked(&replay).remove(0);
    assert_eq!(operation, "RunTask");
    let run = request.run_id.to_string();
    assert_eq!((&body["clientToken"], &body["startedBy"]), (&json!(run), &json!(run)));
    assert_eq!(session_of(body["group"].as_str().unwrap()), Some(request.session_id));
    assert_eq!(body["count"], 1);
    let token = secret().gateway_token(request.session_id, request.run_id);
    let expected = json!([{ "name": "sidecar", "environment": [
        { "name": "PILOTHOUSE_URL", "value": "https://pilothouse.example" },
        { "name": "PILOTHOUSE_SESSION_ID", "value": request.session_id.to_string() },
        { "name": "PILOTHOUSE_RUN_ID", "value": run },
        { "name": "PILOTHOUSE_TOKEN", "value": token.as_str() },
    ] }]);
    assert_eq!(body["overrides"]["containerOverrides"], expected);
    let network = &body["networkConfiguration"]["awsvpcConfiguration"];
    assert_eq!((&network["subnets"], &network["assignPublicIp"]), (&json!(["subnet-1"]), &json!("DISABLED")));
}

#[tokio::test]
async fn launch_without_capacity_or_response_is_retryable() {
    let no_room = json!({ "tasks": [], "failures": [{ "arn": TASK, "reason": "RESOURCE:MEMORY" }] });
    let throttled = json!({ "__type": "ThrottlingException", "message": "Rate exceeded" });
    for (status, response, cause) in [
        (200, no_room, "RESOURCE:MEMORY"),
        (400, throttled, "Rate exceeded"),
        (500, json!({}), "the request to ECS failed"),
    ] {
        let (runtime, _) = responding(&[(status, response)]);
        let error = runtime.launch(launch()).await.unwrap_err();
        assert!(matches!(error, LaunchError::Unreachable(_)));
        let mut chain = String::new();
        let mut next: Option<&dyn std::error::Error> = Some(&error);
        while let Some(error) = next {
            chain = format!("{chain}: {error:?} {error}");
            next = error.source();
        }
        assert!(chain.contains(cause), "{chain}");
    }
}

#[tokio::test]
async fn session_that_requires_a_worker_gets_no_task() {
    let (runtime, replay) = responding(&[]);
    let mut request = launch();
    request.worker_labels.insert("gpu".into(), "a100".into());
    runtime.launch(request).await.unwrap_err();
    assert_eq!(asked(&replay), []);
}

#[tokio::test]
async fn run_that_has_a_task_counts_as_launched() {
    let conflict = json!({ "__type": "ConflictException", "message": "in use", "resourceIds": [TASK] });
    let (runtime, _) = responding(&[(400, conflict)]);
    runtime.launch(launch()).await.unwrap();
}

#[tokio::test]
async fn task_is_alive_until_its_containers_have_stopped() {
    let (none, one) = (json!({ "taskArns": [] }), json!({ "taskArns": [TASK] }));
    let described =
        |status: &str| json!({ "tasks": [{ "taskArn": TASK, "lastStatus": status }], "failures": [] });
    let run = launch().run_id;
    let cases = [
        (vec![(200, one.clone())], ProcessState::Alive),
        (vec![(200, none.clone()), (200, none.clone())], ProcessState::Unreachable),
        (vec![(200, none.clone()), (200, one.clone()), (200, described("STOPPED"))], ProcessState::Dead),
        (vec![(200, none), (200, one), (200, described("DEPROVISIONING"))], ProcessState::Alive),
        (vec![(500, json!({}))], ProcessState::Unreachable),
    ];
    for (responses, expected) in cases {
        let (runtime, replay) = responding(&responses);
        assert_eq!(runtime.state(run).await, expected);
        assert_eq!(asked(&replay)[0].1["startedBy"], run.to_string());
    }
}

#[tokio::test]
async fn stop_ends_every_task_of_the_run_and_tolerates_none() {
    let request = launch();
    let two = json!({ "taskArns": [TASK, "other"] });
    let (runtime, replay) = responding(&[(200, two), (200, json!({})), (200, json!({}))]);
    runtime.stop(request.session_id, request.run_id, StopMode::Kill).await.unwrap();
    let stopped: Vec<_> = asked(&replay)[1..].iter().map(|(_, body)| body["task"].clone()).collect();
    assert_eq!(stopped, [json!(TASK), json!("other")]);
    let (runtime, _) = responding(&[(200, json!({ "taskArns": [] }))]);
    runtime.stop(request.session_id, request.run_id, StopMode::Terminate).await.unwrap();
    let (runtime, _) = responding(&[(500, json!({}))]);
    runtime.stop(request.session_id, request.run_id, StopMode::Kill).await.unwrap_err();
}
