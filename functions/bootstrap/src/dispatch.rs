//! Determines the function for an event and runs it.

use std::sync::Arc;

use axum::Router;
use pilothouse_app::App;
use pilothouse_app::connections::Connections;
use pilothouse_app::function::{
    BatchHandler, EventContext, EventFunction, EventHandler, HttpFunction, Requirements, Subscription,
    Trigger, router_of,
};
use pilothouse_broker::QueueName;
use pilothouse_functions::catalog::{self, EVENT_FUNCTIONS};
use pilothouse_functions::realtime::authorize::Authorizer;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::failure::Failure;
use crate::queue::Batch;
use crate::{http, queue, socket, table_stream};

pub enum Named {
    Http(&'static HttpFunction),
    Event(&'static EventFunction),
}

impl Named {
    /// Finds the function of this name, if the cloud includes it.
    pub fn find(name: &str) -> Option<Self> {
        let event = EVENT_FUNCTIONS.iter().find(|function| function.name == name).map(Self::Event);
        let found = event.filter(|found| found.requirements().profiles.in_aws());
        found.or_else(|| {
            let http = catalog::cloud_functions().into_iter().find(|function| function.name == name)?;
            Some(Self::Http(http))
        })
    }

    pub const fn name(&self) -> &'static str {
        match self {
            Self::Http(function) => function.name,
            Self::Event(function) => function.name,
        }
    }

    pub const fn requirements(&self) -> &Requirements {
        match self {
            Self::Http(function) => &function.requirements,
            Self::Event(function) => &function.requirements,
        }
    }
}

pub struct FunctionDependencies {
    pub app: App,
    /// The live stream connections, if the deployment has them.
    pub connections: Option<Arc<dyn Connections>>,
    /// Checks the tokens of live streams, if the deployment has an issuer.
    pub authorizer: Option<Authorizer>,
}

pub struct Dispatch {
    dependencies: FunctionDependencies,
    function: Option<Named>,
    /// Routes to the named HTTP function, or to all of them if the shape of events decides.
    router: Router,
}

#[derive(Debug, Serialize)]
#[serde(untagged)]
pub enum LambdaResponse {
    Http(http::HttpResponse),
    Batch(queue::BatchResponse),
    Socket(socket::SocketResponse),
    Decision(socket::Decision),
    /// For triggers that ignore the response.
    Done(Value),
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Shape {
    #[serde(rename = "Records")]
    records: Vec<RecordShape>,
    #[serde(rename = "detail-type")]
    detail_type: Option<String>,
    #[serde(rename = "type")]
    kind: Option<String>,
    method_arn: Option<String>,
    request_context: Option<ContextShape>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct RecordShape {
    #[serde(rename = "eventSource")]
    source: String,
    #[serde(rename = "eventSourceARN")]
    arn: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ContextShape {
    http: Option<Value>,
    route_key: Option<String>,
    connection_id: Option<String>,
}

impl Shape {
    /// The name of the function; `http` for any with an HTTP trigger.
    fn function(&self) -> Option<&'static str> {
        if let Some(first) = self.records.first() {
            return match first.source.as_str() {
                "aws:dynamodb" => Some("relay"),
                "aws:sqs" => {
                    let queue = first.arn.rsplit(':').next()?;
                    let takers = [("events.fifo", "intake"), ("reactions.fifo", "react")];
                    let takers = takers.iter().chain(&[("pushes.fifo", "push"), ("deadlines", "clock")]);
                    let takers =
                        takers.chain(&[("announcements.fifo", "announce"), ("webhooks.fifo", "deliver")]);
                    let takers = takers.chain(&[("reviews.fifo", "coherence-review")]);
                    takers
                        .clone()
                        .find(|(name, _)| queue.ends_with(&format!("-{name}")))
                        .map(|(_, taker)| *taker)
                }
                _ => None,
            };
        }
        if self.kind.as_deref() == Some("REQUEST") && self.method_arn.is_some() {
            return Some("stream-authorize");
        }
        if let Some(context) = &self.request_context {
            return match (&context.http, &context.connection_id, context.route_key.as_deref()) {
                (Some(_), _, _) => Some("http"),
                (None, Some(_), Some("$connect")) => Some("stream-open"),
                (None, Some(_), Some("$disconnect")) => Some("stream-closed"),
                (None, Some(_), _) => Some("stream-subscribe"),
                _ => None,
            };
        }
        match self.detail_type.as_deref() {
            Some("Scheduled Event") => Some("clock"),
            Some("ECS Task State Change") => Some("runs-task-stopped"),
            _ => None,
        }
    }
}

fn read<'e, T: Deserialize<'e>>(event: &'e str, expected: &'static str) -> Result<T, Failure> {
    serde_json::from_str(event).map_err(|source| Failure::Event { expected, source })
}

impl Dispatch {
    /// Creates a dispatch for `function`, or by the shape of each event if there is none.
    pub fn new(dependencies: FunctionDependencies, function: Option<Named>) -> Self {
        let router = match &function {
            Some(Named::Http(function)) => router_of(dependencies.app.clone(), [*function]),
            Some(Named::Event(_)) => Router::new(),
            None => router_of(dependencies.app.clone(), catalog::cloud_functions()),
        };
        Self { dependencies, function, router }
    }

    /// The name of the function; `None` if the shape of events decides.
    pub fn function(&self) -> Option<&'static str> {
        self.function.as_ref().map(Named::name)
    }

    /// Runs the function for an event. After an error, Lambda is notified and the trigger retries.
    pub async fn run(&self, event: &str) -> Result<LambdaResponse, Failure> {
        let name = match &self.function {
            Some(Named::Http(_)) => "http",
            Some(Named::Event(function)) => function.name,
            None => {
                read::<Shape>(event, "event of a known function")?.function().ok_or(Failure::UnknownEvent)?
            }
        };
        if name == "http" {
            let event: http::Event = read(event, "request of an HTTP API")?;
            let span = tracing::Span::current();
            span.record("owner", event.owner());
            span.record("session", event.session());
            return http::call(self.router.clone(), event).await.map(LambdaResponse::Http);
        }
        let function = EVENT_FUNCTIONS.iter().find(|function| function.name == name);
        self.run_event_function(function.ok_or(Failure::UnknownEvent)?, event).await
    }

    async fn run_event_function(
        &self,
        function: &EventFunction,
        event: &str,
    ) -> Result<LambdaResponse, Failure> {
        let context = self.context();
        if function.requirements.access.connections && context.connections.is_none() {
            return Err(Failure::NotDeployed("the live stream"));
        }
        let Subscription { trigger, handler } = subscription_of(function, event)?;
        match (handler, trigger) {
            (EventHandler::Batch(handler), Trigger::Queue(name)) => {
                let queue = QueueName::parse(name).ok_or(Failure::NotDeployed(name))?;
                self.batch(event, &queue, handler).await
            }
            (EventHandler::Schedule(handler), _) => {
                handler(context).await?;
                Ok(LambdaResponse::Done(Value::Null))
            }
            (EventHandler::Json(handler), _) => {
                handler(context, read(event, "event of EventBridge")?).await?;
                Ok(LambdaResponse::Done(Value::Null))
            }
            (EventHandler::Connection(handler), _) => {
                let event: socket::Event = read(event, "event of a connection")?;
                tracing::Span::current().record("owner", event.owner());
                Ok(LambdaResponse::Socket(socket::call_handler(handler, context, event).await))
            }
            (EventHandler::Host, Trigger::Stream) => {
                table_stream::relay(&context.app, event).await.map(LambdaResponse::Batch)
            }
            (EventHandler::Host, Trigger::Authorizer) => {
                let authorizer = self.dependencies.authorizer.as_ref();
                let authorizer = authorizer.ok_or(Failure::NotDeployed("an issuer of tokens"))?;
                let request = read(event, "authorizer request")?;
                socket::authorize(authorizer, request).await.map(LambdaResponse::Decision)
            }
            (EventHandler::Batch(_) | EventHandler::Host, _) => Err(Failure::NotDeployed(function.name)),
        }
    }

    fn context(&self) -> EventContext {
        EventContext {
            app: self.dependencies.app.clone(),
            connections: self.dependencies.connections.clone(),
        }
    }

    async fn batch(
        &self,
        event: &str,
        queue: &QueueName,
        handler: BatchHandler,
    ) -> Result<LambdaResponse, Failure> {
        let mut batch = Batch::read(event)?;
        let outcome = handler(self.context(), batch.take_messages()).await?;
        Ok(LambdaResponse::Batch(batch.settle(self.dependencies.app.broker.as_ref(), queue, outcome).await))
    }
}

/// The subscription for an event. If there are several, events with records belong to the queue.
fn subscription_of(function: &EventFunction, event: &str) -> Result<Subscription, Failure> {
    if let [only] = function.subscriptions {
        return Ok(*only);
    }
    let has_records = !read::<Shape>(event, "event of a known function")?.records.is_empty();
    let of_queue = |subscription: &Subscription| matches!(subscription.trigger, Trigger::Queue(_));
    let found = function.subscriptions.iter().find(|subscription| of_queue(subscription) == has_records);
    found.copied().ok_or(Failure::UnknownEvent)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn every_cloud_function_has_a_dispatch_arm() {
        let known = [
            "intake",
            "react",
            "announce",
            "deliver",
            "push",
            "clock",
            "coherence-review",
            "relay",
            "runs-task-stopped",
            "stream-authorize",
            "stream-open",
            "stream-subscribe",
            "stream-closed",
        ];
        for function in EVENT_FUNCTIONS.iter().filter(|function| function.requirements.profiles.in_aws()) {
            assert!(known.contains(&function.name), "{} is in the catalog alone", function.name);
        }
        for name in known {
            assert!(Named::find(name).is_some_and(|found| found.name() == name), "{name} is here alone");
        }
    }

    #[test]
    fn embedded_only_functions_are_not_dispatched() {
        assert!(Named::find("stream-connect").is_none());
        assert!(Named::find("bootstrap").is_none());
        assert!(matches!(Named::find("sessions-start"), Some(Named::Http(_))));
    }

    #[test]
    fn event_shape_identifies_its_function() {
        let events = [
            (include_str!("../tests/fixtures/http.json"), "http"),
            (include_str!("../tests/fixtures/sqs-fifo.json"), "react"),
            (include_str!("../tests/fixtures/sqs.json"), "clock"),
            (include_str!("../tests/fixtures/dynamodb-stream.json"), "relay"),
            (include_str!("../tests/fixtures/schedule.json"), "clock"),
            (include_str!("../tests/fixtures/task-stopped.json"), "runs-task-stopped"),
            (include_str!("../tests/fixtures/authorizer.json"), "stream-authorize"),
            (include_str!("../tests/fixtures/connect.json"), "stream-open"),
            (include_str!("../tests/fixtures/message.json"), "stream-subscribe"),
            (include_str!("../tests/fixtures/disconnect.json"), "stream-closed"),
        ];
        for (event, function) in events {
            assert_eq!(serde_json::from_str::<Shape>(event).unwrap().function(), Some(function), "{event}");
        }
        for nothing in ["{}", r#"{"Records":[]}"#, r#"{"Records":[{"eventSource":"aws:s3"}]}"#] {
            assert_eq!(serde_json::from_str::<Shape>(nothing).unwrap().function(), None, "{nothing}");
        }
    }
}
