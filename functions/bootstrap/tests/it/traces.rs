//! Follows one trace from a request over three queues to the acknowledgement of its command.

use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use lambda_runtime::{Context, LambdaEvent};
use pilothouse_app::queues;
use pilothouse_bootstrap::invocation::Invocations;
use pilothouse_bootstrap::observe::Exporter;
use pilothouse_broker::{QueueName, Received};
use pilothouse_domain::{AgentSessionId, EnvelopeId, RunId, Timestamp, TraceParent};
use pilothouse_wire::command::IssuedCommand;
use pilothouse_wire::envelope::{PROTOCOL_VERSION, Signer};
use pilothouse_wire::event::{Ack, AckStep};
use pilothouse_wire::{Command, Envelope, RawEvent, Signed};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::bootstrap_fixture::{BootstrapFixture, fixture};
use crate::fake;
use crate::relay::{image, record};

const REQUEST: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";

#[derive(Debug)]
struct Seen {
    name: String,
    trace: String,
    id: String,
    parent: Option<String>,
    links: Vec<String>,
    attributes: BTreeMap<String, String>,
}

/// A collector that accepts spans and returns them.
fn collector() -> (String, Receiver<Vec<Seen>>) {
    let (sender, spans) = channel();
    let address = fake::serve(move |request| {
        assert!(request.head.starts_with("post /v1/traces "), "{}", request.head);
        sender.send(decoded(&request.body)).unwrap();
        fake::FakeResponse::json("200 OK", "{}")
    });
    (format!("http://{address}"), spans)
}

fn decoded(body: &str) -> Vec<Seen> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let document: Value = serde_json::from_str(body).unwrap();
    let spans = document["resourceSpans"][0]["scopeSpans"][0]["spans"].as_array().unwrap().iter();
    let seen = spans.map(|span| {
        let times =
            ["startTimeUnixNano", "endTimeUnixNano"].map(|name| text(&span[name]).parse::<u64>().unwrap());
        assert!(times[0] <= times[1], "{span}");
        let attributes = span["attributes"].as_array().unwrap().iter();
        Seen {
            name: text(&span["name"]),
            trace: text(&span["traceId"]),
            id: text(&span["spanId"]),
            parent: span["parentSpanId"].as_str().map(ToOwned::to_owned),
            links: span["links"].as_array().into_iter().flatten().map(|link| text(&link["spanId"])).collect(),
            attributes: attributes
                .map(|one| (text(&one["key"]), text(&one["value"]["stringValue"])))
                .collect(),
        }
    });
    seen.collect()
}

struct Cloud {
    host: BootstrapFixture,
    collector: Option<String>,
    relayed: usize,
}

impl Cloud {
    async fn new(collector: Option<String>) -> Self {
        Self { host: BootstrapFixture::new().await, collector, relayed: 0 }
    }

    async fn invoke(&self, function: &str, event: &Value) -> Value {
        let endpoint = self.collector.clone();
        let exporter = Exporter::from_environment(|name| {
            (name == "OTEL_EXPORTER_OTLP_ENDPOINT").then(|| endpoint.clone()).flatten()
        });
        let invocations = Invocations::new(self.host.function(function)).traced(exporter);
        let payload = RawValue::from_string(event.to_string()).unwrap();
        let response = invocations.run(LambdaEvent::new(payload, Context::default())).await.unwrap();
        serde_json::to_value(response).unwrap()
    }

    async fn post(&self, function: &str, path: &str, traceparent: Option<&str>, body: &Value) -> Value {
        let mut event = fixture("http");
        event["rawPath"] = path.into();
        let session = path.strip_prefix("/api/agents/sessions/").and_then(|rest| rest.split('/').next());
        if let Some(session) = session {
            event["pathParameters"] = json!({ "id": session });
        }
        event["rawQueryString"] = "".into();
        event["requestContext"]["http"]["method"] = "POST".into();
        event["headers"]["content-type"] = "application/json".into();
        if let Some(traceparent) = traceparent {
            event["headers"]["traceparent"] = traceparent.into();
        }
        event["body"] = body.to_string().into();
        let response = self.invoke(function, &event).await;
        let body = response["body"].as_str().unwrap();
        assert!(response["statusCode"].as_u64().unwrap() < 300, "{response}");
        serde_json::from_str(body).unwrap()
    }

    /// Relays the items written since the last call, and processes the reactions.
    async fn relay_and_react(&mut self) {
        let written = self.host.engines.table.feed(0, 1000).await.unwrap().into_iter().skip(self.relayed);
        let records: Vec<_> = written.enumerate().map(|(n, (_, item))| record(n, image(&item))).collect();
        self.relayed += records.len();
        let relayed = self.invoke("relay", &json!({ "Records": records })).await;
        assert_eq!(relayed["batchItemFailures"], json!([]));
        self.drain(&queues::reactions(), "react").await;
    }

    /// Processes all messages of a queue with a function.
    async fn drain(&self, queue: &QueueName, function: &str) {
        loop {
            let received = self.host.app.broker.receive(queue, 10, Duration::ZERO).await.unwrap();
            if received.is_empty() {
                return;
            }
            let records: Vec<_> = received.iter().map(of_queue).collect();
            let response = self.invoke(function, &json!({ "Records": records })).await;
            assert_eq!(response["batchItemFailures"], json!([]));
            let receipts: Vec<_> = received.into_iter().map(|message| message.receipt).collect();
            self.host.app.broker.delete(queue, &receipts).await.unwrap();
        }
    }

    /// Passes an event of a run's sidecar to the intake, as if from the events queue.
    async fn say(
        &self,
        sender: (AgentSessionId, RunId),
        sequence: u64,
        place: Option<TraceParent>,
        body: RawEvent,
    ) {
        let secret = &self.host.app.secret;
        let envelope = Envelope {
            protocol_version: PROTOCOL_VERSION,
            session_id: sender.0,
            run_id: sender.1,
            message_id: EnvelopeId::new(uuid(u128::from(sequence))),
            sequence: Some(sequence),
            time: Timestamp::from_millis(0),
            occurred_at: None,
            traceparent: place,
            body,
        };
        let key = secret.envelope_key(sender.1);
        let signed = Signed::seal(&envelope, secret.id(), Signer::Sidecar, &key).unwrap();
        let message = Received {
            receipt: pilothouse_broker::Receipt("receipt".to_owned()),
            group: sender.0.to_string(),
            body: serde_json::to_string(&signed).unwrap(),
            receive_count: 1,
            redriven: false,
        };
        let response = self.invoke("intake", &json!({ "Records": [of_queue(&message)] })).await;
        assert_eq!(response["batchItemFailures"], json!([]));
    }

    /// The commands that wait for the sidecar.
    async fn commands(&self, run: RunId) -> Vec<Envelope<IssuedCommand>> {
        let received =
            self.host.app.broker.receive(&queues::commands(run), 10, Duration::ZERO).await.unwrap();
        let receipts: Vec<_> = received.iter().map(|message| message.receipt.clone()).collect();
        self.host.app.broker.delete(&queues::commands(run), &receipts).await.unwrap();
        received.iter().map(|message| serde_json::from_str(&message.body).unwrap()).collect()
    }
}

fn uuid(n: u128) -> uuid::Uuid {
    uuid::Uuid::from_u128(n)
}

fn of_queue(message: &Received) -> Value {
    let mut record = fixture("sqs-fifo")["Records"][0].clone();
    record["messageId"] = message.receipt.0.clone().into();
    record["receiptHandle"] = message.receipt.0.clone().into();
    record["attributes"]["MessageGroupId"] = message.group.clone().into();
    record["body"] = message.body.clone().into();
    record
}

fn ready() -> RawEvent {
    RawEvent::SidecarReady {
        sidecar_version: "1".to_owned(),
        adapter: "script".to_owned(),
        capabilities: pilothouse_domain::value::Capabilities::default(),
    }
}

/// A session with a running agent. The requests and events so far belong to other traces.
async fn running(cloud: &mut Cloud) -> (AgentSessionId, RunId) {
    let body = json!({ "objective": "Do it", "workingDirectory": "/w", "budgetCapUsd": "1" });
    let started = cloud.post("sessions-start", "/api/agents/sessions", None, &body).await;
    let id: AgentSessionId = started["session"]["id"].as_str().unwrap().parse().unwrap();
    cloud.relay_and_react().await;
    let session = cloud.host.app.store.session(id).await.unwrap().unwrap();
    let run = session.run().unwrap().id;
    cloud.say((id, run), 1, None, ready()).await;
    cloud.relay_and_react().await;
    let begin = cloud.commands(run).await.remove(0);
    let done = Ack { command_id: begin.body.command_id, step: AckStep::Done };
    cloud.say((id, run), 2, begin.traceparent, RawEvent::BeginAck(done)).await;
    cloud.relay_and_react().await;
    (id, run)
}

#[tokio::test]
async fn request_trace_continues_to_the_command_acknowledgement() {
    let (address, spans) = collector();
    let mut cloud = Cloud::new(Some(address)).await;
    let (id, run) = running(&mut cloud).await;
    assert!(spans.try_iter().count() > 0);

    let path = format!("/api/agents/sessions/{id}/cancel");
    cloud.post("sessions-cancel", &path, Some(REQUEST), &json!({})).await;
    cloud.relay_and_react().await;
    let stop =
        cloud.commands(run).await.into_iter().find(|sent| sent.body.command == Command::Stop {}).unwrap();
    let received = Ack { command_id: stop.body.command_id, step: AckStep::Received };
    cloud.say((id, run), 3, stop.traceparent, RawEvent::StopAck(received)).await;

    let all: Vec<_> = spans.try_iter().flatten().collect();
    let of_trace: Vec<_> = all.iter().filter(|span| span.trace == TRACE).collect();
    let one = |name: &str| {
        let found: Vec<_> = of_trace.iter().filter(|span| span.name == name).collect();
        assert_eq!(found.len(), 1, "{name}: {all:#?}");
        found[0]
    };
    let chain = ["sessions-cancel", "relay", "react", "intake"].map(one);
    assert_eq!(chain[0].parent.as_deref(), Some("b7ad6b7169203331"));
    for pair in chain.windows(2) {
        assert_eq!(pair[1].parent.as_ref(), Some(&pair[0].id), "{pair:#?}");
    }
    assert_eq!(stop.traceparent.unwrap().span_id(), chain[2].id);
    for span in chain {
        assert_eq!(span.attributes["pilothouse.session.id"], id.to_string(), "{span:?}");
    }
    let intake = chain[3];
    assert_eq!(intake.attributes["pilothouse.run.id"], run.to_string());
    assert_eq!(intake.attributes["pilothouse.message.kind"], "stop_ack");
    assert_eq!(intake.attributes["messaging.destination.name"], "events.fifo");
    let invocation = all.iter().find(|span| span.id == intake.links[0]).unwrap();
    assert_eq!((invocation.name.as_str(), &invocation.links[0]), ("intake", &chain[2].id));
    assert_ne!(invocation.trace, TRACE, "a batch may have messages of many traces");
}

#[tokio::test]
async fn without_a_collector_the_trace_context_passes_unchanged() {
    let mut cloud = Cloud::new(None).await;
    let (id, run) = running(&mut cloud).await;
    let path = format!("/api/agents/sessions/{id}/cancel");
    cloud.post("sessions-cancel", &path, Some(REQUEST), &json!({})).await;
    cloud.relay_and_react().await;
    let stop =
        cloud.commands(run).await.into_iter().find(|sent| sent.body.command == Command::Stop {}).unwrap();
    assert_eq!(stop.traceparent.unwrap().to_string(), REQUEST);
    let entries = cloud.host.app.store.journal(id, 0, 100).await.unwrap();
    let traced = entries.iter().filter(|entry| entry.traceparent.is_some()).count();
    assert_eq!(traced, 1, "nothing is made up: {entries:#?}");
}
