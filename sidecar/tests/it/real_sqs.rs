//! SQS and S3 of a local cloud: `PILOTHOUSE_CLOUD=http://127.0.0.1:4566 cargo nextest run -p pilothouse-sidecar
//! --run-ignored all -E 'test(real_sqs::)'`. The gateway of these tests only grants credentials.

use std::collections::HashMap;

use aws_sdk_sqs::Client;
use aws_sdk_sqs::config::{BehaviorVersion, Credentials, Region};
use aws_sdk_sqs::types::QueueAttributeName;
use pilothouse_domain::Timestamp;
use pilothouse_wire::gateway::RunCredentials;
use pilothouse_wire::keys::sha256_hex;
use pilothouse_wire::{Command, Signed};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::gateway::{DEADLINE, Gateway};
use crate::sidecar::{Folders, begin, much, turn};

/// Queues and a bucket for one test.
struct Cloud {
    client: Client,
    granted: RunCredentials,
}

impl Cloud {
    async fn start(gateway: &Gateway) -> Self {
        let endpoint = std::env::var("PILOTHOUSE_CLOUD").expect("the address of a local cloud");
        let config = aws_sdk_sqs::Config::builder()
            .behavior_version(BehaviorVersion::v2026_01_12())
            .region(Region::new("eu-central-1"))
            .endpoint_url(&endpoint)
            .credentials_provider(Credentials::new("test", "test", None, None, "test"))
            .http_client(aws_smithy_http_client::Builder::new().build_http());
        let client = Client::from_conf(config.build());
        let name = format!("t{}", Uuid::now_v7().simple());
        let region = "<CreateBucketConfiguration><LocationConstraint>eu-central-1</LocationConstraint></CreateBucketConfiguration>";
        let bucket =
            reqwest::Client::new().put(format!("{endpoint}/{name}")).body(region).send().await.unwrap();
        assert!(bucket.status().is_success(), "{bucket:?}");
        let mut urls = Vec::new();
        for queue in ["events", "commands"] {
            let made = client
                .create_queue()
                .queue_name(format!("{name}-{queue}.fifo"))
                .attributes(QueueAttributeName::FifoQueue, "true");
            urls.push(made.send().await.unwrap().queue_url.unwrap());
        }
        let granted = RunCredentials {
            access_key_id: "test".into(),
            secret_access_key: "test".into(),
            session_token: "test".into(),
            expires_at: Timestamp::from_millis(32_503_680_000_000),
            region: "eu-central-1".into(),
            endpoint: Some(endpoint),
            commands_queue_url: urls.pop().unwrap(),
            events_queue_url: urls.pop().unwrap(),
            bucket: name,
            blob_prefix: format!("sessions/{}", gateway.session),
        };
        gateway.with(|inner| inner.cloud.elsewhere = Some(granted.clone()));
        Self { client, granted }
    }

    async fn command(&self, gateway: &Gateway, command: Command) {
        let (id, body) = gateway.issued(command);
        let sent = self
            .client
            .send_message()
            .queue_url(&self.granted.commands_queue_url)
            .message_group_id(gateway.session.to_string())
            .message_deduplication_id(format!("{id}:1"))
            .message_body(body);
        sent.send().await.unwrap();
    }

    /// The sequenced envelopes in order, up to the first of this type.
    async fn events_to(&self, gateway: &Gateway, last: &str) -> Vec<Value> {
        let key = gateway.secret.envelope_key(gateway.run);
        let mut events: Vec<Value> = Vec::new();
        let all = async {
            while events.last().is_none_or(|event| event["body"]["type"] != last) {
                let queue = &self.granted.events_queue_url;
                let received = self.client.receive_message().queue_url(queue).max_number_of_messages(10);
                for message in received.wait_time_seconds(2).send().await.unwrap().messages() {
                    let signed = Signed::parse(message.body().unwrap()).unwrap();
                    signed.open(&key).expect("it is authentic");
                    let event: Value = serde_json::from_str(signed.envelope.get()).unwrap();
                    if event["sequence"].is_u64() {
                        events.push(event);
                    }
                    let receipt = message.receipt_handle().unwrap();
                    let deleted = self.client.delete_message().queue_url(queue).receipt_handle(receipt);
                    deleted.send().await.unwrap();
                }
            }
        };
        tokio::time::timeout(DEADLINE, all).await.unwrap_or_else(|_| panic!("waited for {last} in vain"));
        events
    }

    async fn remove(&self) {
        for queue in [&self.granted.events_queue_url, &self.granted.commands_queue_url] {
            // A queue may be deleted already.
            let _ = self.client.delete_queue().queue_url(queue).send().await;
        }
    }
}

#[tokio::test]
#[ignore = "needs a local cloud at PILOTHOUSE_CLOUD"]
async fn real_sqs_carries_a_run_until_its_queue_is_deleted() {
    let gateway = Gateway::start().await;
    let cloud = Cloud::start(&gateway).await;
    let folders = Folders::in_the_cloud(&gateway);
    let sidecar = folders.start();
    let text = "0123456789abcdef".repeat(20_000);
    let tool = json!({ "tool": { "name": "Bash", "result": text } });
    let steps = json!([turn(json!([much(60), tool]))]);
    cloud.command(&gateway, begin(json!({ "script": { "steps": steps } }))).await;
    let events = cloud.events_to(&gateway, "turn_completed").await;
    let sequences: Vec<_> = events.iter().map(|event| event["sequence"].as_u64().unwrap()).collect();
    assert_eq!(sequences, (1..=sequences.len() as u64).collect::<Vec<_>>());
    let mut kinds: HashMap<&str, usize> = HashMap::new();
    for event in &events {
        *kinds.entry(event["body"]["type"].as_str().unwrap()).or_default() += 1;
    }
    assert_eq!((kinds["sidecar_ready"], kinds["tool_result"]), (1, 1), "{kinds:?}");

    let RunCredentials { endpoint, bucket, blob_prefix, .. } = &cloud.granted;
    let blob =
        format!("{}/{bucket}/{blob_prefix}/{}", endpoint.as_ref().unwrap(), sha256_hex(text.as_bytes()));
    assert_eq!(reqwest::get(blob).await.unwrap().text().await.unwrap(), text);

    let queue = &cloud.granted.commands_queue_url;
    cloud.client.delete_queue().queue_url(queue).send().await.unwrap();
    assert_eq!(sidecar.ended().await.code(), Some(5));
    cloud.remove().await;
}

#[tokio::test]
#[ignore = "needs a local cloud at PILOTHOUSE_CLOUD"]
async fn a_command_leaves_the_queue_once_it_is_spooled() {
    let gateway = Gateway::start().await;
    let cloud = Cloud::start(&gateway).await;
    let folders = Folders::in_the_cloud(&gateway);
    let sidecar = folders.start();
    cloud.command(&gateway, begin(json!({ "script": { "steps": [turn(json!([much(10_000)]))] } }))).await;
    cloud.events_to(&gateway, "turn_started").await;
    cloud.command(&gateway, Command::Stop {}).await;
    assert_eq!(sidecar.ended().await.code(), Some(0));
    let queue = &cloud.granted.commands_queue_url;
    let left = cloud
        .client
        .get_queue_attributes()
        .queue_url(queue)
        .attribute_names(QueueAttributeName::ApproximateNumberOfMessages)
        .attribute_names(QueueAttributeName::ApproximateNumberOfMessagesNotVisible);
    let left = left.send().await.unwrap().attributes.unwrap();
    assert!(left.values().all(|count| count == "0"), "{left:?}");
    cloud.remove().await;
}
