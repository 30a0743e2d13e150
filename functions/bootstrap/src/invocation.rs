//! Runs an invocation: its log fields, its metrics and its panics.

use std::any::Any;
use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Instant, SystemTime};

use futures_util::FutureExt as _;
use lambda_runtime::{Context, LambdaEvent};
use pilothouse_app::error_chain;
use pilothouse_app::{METRICS, trace};
use pilothouse_domain::TraceParent;
use serde::Deserialize;
use serde_json::value::RawValue;
use tracing::{Instrument as _, field};

use crate::dispatch::{Dispatch, LambdaResponse};
use crate::failure::Failure;
use crate::observe::{self, Exporter, INVOCATION, Span};

/// Runs invocations one after the other.
pub struct Invocations {
    dispatch: Dispatch,
    exporter: Option<Exporter>,
    cold: AtomicBool,
}

/// The parts of a request that its span records.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Traced {
    headers: TracedHeaders,
    path_parameters: Option<TracedPath>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct TracedPath {
    id: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct TracedHeaders {
    traceparent: Option<String>,
}

impl Invocations {
    pub const fn new(dispatch: Dispatch) -> Self {
        Self { dispatch, exporter: None, cold: AtomicBool::new(true) }
    }

    #[must_use]
    pub fn traced(self, exporter: Option<Exporter>) -> Self {
        Self { exporter, ..self }
    }

    /// Runs an invocation and logs at least one line. The environment remains usable after an error and after a panic, which is
    /// reported as an error.
    pub async fn run(&self, event: LambdaEvent<Box<RawValue>>) -> Result<LambdaResponse, Failure> {
        let cold_start = self.cold.swap(false, Ordering::Relaxed);
        let span = self.span(&event.context, cold_start);
        async {
            if cold_start {
                tracing::trace!(target: METRICS, cold_start = 1_u64);
            }
            let (began, began_at) = (Instant::now(), SystemTime::now());
            let traced = self.traced_part(event.payload.get());
            let xray = event.context.xray_trace_id.as_deref();
            let parent = observe::cause(traced.headers.traceparent.as_deref(), xray);
            let spans = self.exporter.as_ref().map(|_| trace::Spans::default());
            let place = self.place(parent);
            // Boxed, because it contains the futures of all functions.
            let work = Box::pin(self.dispatch.run(event.payload.get()));
            let run = trace::recorded(place, spans.clone(), work);
            let run = AssertUnwindSafe(run).catch_unwind();
            let outcome =
                run.await.unwrap_or_else(|panic| Err(Failure::Panic(panic_message(panic.as_ref()))));
            report(&outcome, began);
            if let (Some(exporter), Some(place), Some(spans)) = (&self.exporter, place, spans) {
                let span = Span {
                    name: self.name(&event.context).to_owned(),
                    place,
                    parent,
                    began: began_at,
                    request_id: event.context.request_id.clone(),
                    cold_start,
                    session: traced.path_parameters.and_then(|path| path.id),
                    failure: outcome.as_ref().err().map(|failure| error_chain(failure)),
                    messages: spans.take(),
                };
                exporter.send(&span).await;
            }
            outcome
        }
        .instrument(span)
        .await
    }

    fn name<'a>(&'a self, context: &'a Context) -> &'a str {
        self.dispatch.function().unwrap_or(&context.env_config.function_name)
    }

    /// Parses the trace fields of an event, unless nothing would use them.
    fn traced_part(&self, payload: &str) -> Traced {
        if self.exporter.is_none() && !payload.contains(trace::TRACEPARENT) {
            return Traced::default();
        }
        serde_json::from_str(payload).unwrap_or_default()
    }

    /// The trace context of an invocation: a new span if spans are exported.
    fn place(&self, parent: Option<TraceParent>) -> Option<TraceParent> {
        match &self.exporter {
            None => parent,
            Some(_) => parent.map(|parent| parent.at(rand::random())).or_else(trace::beginning),
        }
    }

    fn span(&self, context: &Context, cold_start: bool) -> tracing::Span {
        let function = self.name(context);
        tracing::info_span!(
            INVOCATION,
            function,
            request_id = context.request_id,
            trace_id = context.xray_trace_id.as_deref(),
            cold_start,
            session = field::Empty,
            owner = field::Empty,
        )
    }
}

fn report(outcome: &Result<LambdaResponse, Failure>, began: Instant) {
    let millis = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
    match outcome {
        Ok(response) => {
            let status = match response {
                LambdaResponse::Http(response) => Some(response.status()),
                LambdaResponse::Socket(response) => Some(response.status()),
                _ => None,
            };
            let failed = match response {
                LambdaResponse::Batch(response) => Some(response.batch_item_failures.len()),
                _ => None,
            };
            tracing::info!(status, failed, duration_ms = millis, "done");
        }
        Err(failure) => {
            tracing::trace!(target: METRICS, failed = 1_u64);
            let (kind, cause) = (failure.name(), error_chain(failure));
            tracing::error!(kind, cause, duration_ms = millis, "failed");
        }
    }
}

fn panic_message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "no message".to_owned())
}
