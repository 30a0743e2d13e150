//! Tests against a local cloud: `PILOTHOUSE_CLOUD=http://127.0.0.1:4566 cargo nextest run -p pilothouse-runtime --features ecs
//! --run-ignored all -E 'test(cloud::)'`. If the cloud has a container engine, `PILOTHOUSE_IMAGE` names the image of its tasks.

use std::time::Duration;

use aws_sdk_ecs::Client;
use aws_sdk_ecs::config::{BehaviorVersion, Credentials, Region};
use aws_sdk_ecs::types::{Compatibility, ContainerDefinition, NetworkMode};
use pilothouse_runtime::{AgentRuntime as _, EcsRuntime, ProcessState, StopMode};
use uuid::Uuid;

use crate::{launch, secret, settings};

const DEADLINE: Duration = Duration::from_mins(1);

fn client() -> Client {
    let endpoint =
        std::env::var("PILOTHOUSE_CLOUD").expect("PILOTHOUSE_CLOUD is the address of a local cloud");
    let config = aws_sdk_ecs::Config::builder()
        .behavior_version(BehaviorVersion::v2026_01_12())
        .region(Region::new("eu-central-1"))
        .endpoint_url(endpoint)
        .credentials_provider(Credentials::new("test", "test", None, None, "test"))
        .http_client(aws_smithy_http_client::Builder::new().build_http());
    Client::from_conf(config.build())
}

async fn until(runtime: &EcsRuntime, run: pilothouse_domain::RunId, expected: ProcessState) {
    let reached = async {
        while runtime.state(run).await != expected {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    tokio::time::timeout(DEADLINE, reached).await.unwrap_or_else(|_| panic!("it never became {expected:?}"));
}

#[tokio::test]
#[ignore = "needs a local cloud at PILOTHOUSE_CLOUD"]
async fn a_task_is_started_found_and_stopped() {
    let client = client();
    let cluster = format!("t{}", Uuid::now_v7().simple());
    client.create_cluster().cluster_name(&cluster).send().await.unwrap();
    let image = std::env::var("PILOTHOUSE_IMAGE").unwrap_or_else(|_| "localhost/pilothouse-sidecar".into());
    client
        .register_task_definition()
        .family(&cluster)
        .network_mode(NetworkMode::Host)
        .requires_compatibilities(Compatibility::Fargate)
        .cpu("256")
        .memory("512")
        .container_definitions(
            ContainerDefinition::builder().name("sidecar").image(image).essential(true).build(),
        )
        .send()
        .await
        .unwrap();
    let mut settings = settings(&cluster, &cluster);
    settings.subnets.clear();
    // Nothing listens there, so the sidecar requests its launch parameters until it is stopped.
    let runtime = EcsRuntime::new(client.clone(), settings, "http://127.0.0.1:1".into(), secret());

    let request = launch();
    assert_eq!(runtime.state(request.run_id).await, ProcessState::Unreachable);
    runtime.launch(request.clone()).await.unwrap();
    until(&runtime, request.run_id, ProcessState::Alive).await;
    assert_eq!(runtime.state(launch().run_id).await, ProcessState::Unreachable, "another run has no task");
    runtime.stop(request.session_id, request.run_id, StopMode::Kill).await.unwrap();
    until(&runtime, request.run_id, ProcessState::Dead).await;
    client.delete_cluster().cluster(&cluster).send().await.unwrap();
}
