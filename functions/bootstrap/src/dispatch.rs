//! Which function an event is for, and running it.

use std::sync::Arc;

use axum::Router;
use pilothouse_broker::{QueueName, Received};
use pilothouse_functions::catalogue::{self, EVENT_FUNCTIONS, EventFunction, HttpFunction, needs};
use pilothouse_functions::queues::{self, Settlement};
use pilothouse_functions::runs::task_stopped;
use pilothouse_functions::stream::authorize::Authorizer;
use pilothouse_functions::stream::connections::Connections;
use pilothouse_functions::stream::push;
use pilothouse_functions::webhooks::deliver;
use pilothouse_functions::{App, clock, intake, reactions, telling};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::failure::Failure;
use crate::queue::Batch;
use crate::{http, queue, socket, table_stream};

/// A function of the catalogue.
pub enum Named {
    /// One that HTTP triggers.
    Http(Box<HttpFunction>),
    /// One that something else triggers.
    Event(&'static EventFunction),
}

impl Named {
    /// The function of this name, where the cloud has it.
    pub fn find(name: &str) -> Option<Self> {
        let event = EVENT_FUNCTIONS.iter().find(|function| function.name == name).map(Self::Event);
        let found = event.filter(|found| found.needs().profiles.in_aws());
        found.or_else(|| {
            let http = catalogue::cloud_functions().into_iter().find(|function| function.name == name)?;
            Some(Self::Http(Box::new(http)))
        })
    }

    /// Its name.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Http(function) => function.name,
            Self::Event(function) => function.name,
        }
    }

    /// What it needs.
    pub const fn needs(&self) -> &needs::Needs {
        match self {
            Self::Http(function) => &function.needs,
            Self::Event(function) => &function.needs,
        }
    }
}

/// What functions run on.
pub struct Ground {
    /// State, queues and what else functions share.
    pub app: App,
    /// The connections of the live stream, where the deployment has one.
    pub connections: Option<Arc<dyn Connections>>,
    /// Who checks tokens of those who open a live stream, where the deployment has an issuer.
    pub authorizer: Option<Authorizer>,
}

/// Runs events by the function that they are for.
pub struct Dispatch {
    ground: Ground,
    function: Option<Named>,
    /// The one HTTP function; all of them, where the shape of events decides.
    router: Router,
}

/// What Lambda is answered.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub enum Answer {
    /// Of an HTTP API.
    Http(http::Answer),
    /// Of a batch.
    Batch(queue::Answer),
    /// Of a connection.
    Socket(socket::Answer),
    /// Of an authorizer.
    Decision(socket::Decision),
    /// Nobody reads it.
    Done(Value),
}

/// Enough of any event to see what it is.
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
    /// The name of the function; `http` for any that HTTP triggers.
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
    /// Runs `function`; where there is none, whichever an event is for.
    pub fn new(ground: Ground, function: Option<Named>) -> Self {
        let router = match &function {
            Some(Named::Http(function)) => catalogue::router_of(ground.app.clone(), [function.as_ref()]),
            Some(Named::Event(_)) => Router::new(),
            None => catalogue::router_of(ground.app.clone(), &catalogue::cloud_functions()),
        };
        Self { ground, function, router }
    }

    /// Its name; none where the shape of events decides.
    pub fn function(&self) -> Option<&'static str> {
        self.function.as_ref().map(Named::name)
    }

    /// Runs the function that an event is for.
    ///
    /// # Errors
    /// The event cannot be read, or the function failed as a whole: Lambda is told, and what triggered it tries again.
    pub async fn run(&self, event: &str) -> Result<Answer, Failure> {
        let name = match &self.function {
            Some(Named::Http(_)) => "http",
            Some(Named::Event(function)) => function.name,
            None => {
                read::<Shape>(event, "event that is known here")?.function().ok_or(Failure::UnknownEvent)?
            }
        };
        let app = &self.ground.app;
        match name {
            "http" => {
                let event: http::Event = read(event, "request of an HTTP API")?;
                let span = tracing::Span::current();
                span.record("owner", event.owner());
                span.record("session", event.session());
                http::call(self.router.clone(), event).await.map(Answer::Http)
            }
            "intake" => {
                self.batch(event, &queues::events(), async |batch| intake::process(app, batch).await).await
            }
            "react" => {
                self.batch(event, &queues::reactions(), async |batch| reactions::process(app, batch).await)
                    .await
            }
            "announce" => {
                self.batch(event, &queues::announcements(), async |batch| telling::process(app, batch).await)
                    .await
            }
            "deliver" => {
                self.batch(event, &queues::webhooks(), async |batch| deliver::process(app, batch).await).await
            }
            "push" => {
                let connections = self.connections()?;
                self.batch(event, &queues::pushes(), async |batch| {
                    push::process(app, connections, batch).await
                })
                .await
            }
            "clock" if !read::<Shape>(event, "event of the clock")?.records.is_empty() => {
                self.batch(event, &queues::deadlines(), async |batch| clock::process(app, batch).await).await
            }
            "clock" => {
                let due = clock::sweep(app).await?;
                let orphans = clock::orphans::sweep(app).await?;
                tracing::info!(due, orphans, "swept");
                Ok(Answer::Done(Value::Null))
            }
            "runs-task-stopped" => {
                let change = read(event, "change of a task of ECS")?;
                task_stopped::handle(app, change).await?;
                Ok(Answer::Done(Value::Null))
            }
            "relay" => table_stream::relay(app, event).await.map(Answer::Batch),
            "stream-authorize" => {
                let authorizer = self.ground.authorizer.as_ref();
                let authorizer = authorizer.ok_or(Failure::NotDeployed("an issuer of tokens"))?;
                let asked = read(event, "question to an authorizer")?;
                socket::authorize(authorizer, asked).await.map(Answer::Decision)
            }
            "stream-open" | "stream-subscribe" | "stream-closed" => self.socket(name, event).await,
            other => Err(Failure::NotDeployed(other)),
        }
    }

    fn connections(&self) -> Result<&Arc<dyn Connections>, Failure> {
        self.ground.connections.as_ref().ok_or(Failure::NotDeployed("the live stream"))
    }

    async fn socket(&self, name: &str, event: &str) -> Result<Answer, Failure> {
        let app = &self.ground.app;
        let event: socket::Event = read(event, "event of a connection")?;
        tracing::Span::current().record("owner", event.owner());
        let answer = match name {
            "stream-open" => socket::opened(app, &event).await,
            "stream-subscribe" => socket::subscribed(app, self.connections()?.as_ref(), &event).await,
            _ => socket::ended(app, &event).await,
        };
        Ok(Answer::Socket(answer))
    }

    async fn batch(
        &self,
        event: &str,
        queue: &QueueName,
        process: impl AsyncFnOnce(Vec<Received>) -> Settlement,
    ) -> Result<Answer, Failure> {
        let mut batch = Batch::read(event)?;
        let settlement = process(batch.take_messages()).await;
        Ok(Answer::Batch(batch.settle(self.ground.app.broker.as_ref(), queue, settlement).await))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn every_function_of_the_cloud_has_its_own_arm() {
        let known = [
            "intake",
            "react",
            "announce",
            "deliver",
            "push",
            "clock",
            "relay",
            "runs-task-stopped",
            "stream-authorize",
            "stream-open",
            "stream-subscribe",
            "stream-closed",
        ];
        for function in EVENT_FUNCTIONS.iter().filter(|function| function.needs.profiles.in_aws()) {
            assert!(known.contains(&function.name), "{} is in the catalogue alone", function.name);
        }
        for name in known {
            assert!(Named::find(name).is_some_and(|found| found.name() == name), "{name} is here alone");
        }
    }

    #[test]
    fn functions_of_the_embedded_server_alone_are_none() {
        assert!(Named::find("stream-connect").is_none());
        assert!(Named::find("bootstrap").is_none());
        assert!(matches!(Named::find("sessions-start"), Some(Named::Http(_))));
    }

    #[test]
    fn the_shape_of_an_event_says_whose_it_is() {
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
