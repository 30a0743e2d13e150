//! One invocation: what every line of it carries, what is counted, and what becomes of a panic.

use std::any::Any;
use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Instant, SystemTime};

use futures_util::FutureExt as _;
use lambda_runtime::{Context, LambdaEvent};
use pilothouse_functions::METRICS;
use pilothouse_functions::intake::chain;
use serde::Deserialize;
use serde_json::value::RawValue;
use tracing::{Instrument as _, field};

use crate::dispatch::{Answer, Dispatch};
use crate::failure::Failure;
use crate::observe::{Exporter, INVOCATION, Span, TraceContext};

/// Runs invocations, one after the other.
pub struct Invocations {
    dispatch: Dispatch,
    exporter: Option<Exporter>,
    cold: AtomicBool,
}

/// What of an event stands in a trace.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Traced {
    headers: TracedHeaders,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct TracedHeaders {
    traceparent: Option<String>,
}

impl Invocations {
    /// Nothing was invoked yet.
    pub const fn new(dispatch: Dispatch) -> Self {
        Self { dispatch, exporter: None, cold: AtomicBool::new(true) }
    }

    /// With spans to a collector.
    #[must_use]
    pub fn traced(self, exporter: Option<Exporter>) -> Self {
        Self { exporter, ..self }
    }

    /// Runs one, and logs at least one line.
    ///
    /// # Errors
    /// What [`Dispatch::run`] fails with, and panics. This environment can go on after either.
    pub async fn run(&self, event: LambdaEvent<Box<RawValue>>) -> Result<Answer, Failure> {
        let cold_start = self.cold.swap(false, Ordering::Relaxed);
        let span = self.span(&event.context, cold_start);
        async {
            if cold_start {
                tracing::trace!(target: METRICS, cold_start = 1_u64);
            }
            let (began, began_at) = (Instant::now(), SystemTime::now());
            let run = AssertUnwindSafe(self.dispatch.run(event.payload.get())).catch_unwind();
            let outcome = run.await.unwrap_or_else(|panic| Err(Failure::Panic(said(panic.as_ref()))));
            report(&outcome, began);
            if let Some(exporter) = &self.exporter {
                exporter.send(&self.traced_span(&event, began_at, cold_start, &outcome)).await;
            }
            outcome
        }
        .instrument(span)
        .await
    }

    fn name<'a>(&'a self, context: &'a Context) -> &'a str {
        self.dispatch.function().unwrap_or(&context.env_config.function_name)
    }

    fn traced_span(
        &self,
        event: &LambdaEvent<Box<RawValue>>,
        began: SystemTime,
        cold_start: bool,
        outcome: &Result<Answer, Failure>,
    ) -> Span {
        let headers = serde_json::from_str::<Traced>(event.payload.get()).unwrap_or_default().headers;
        let xray = event.context.xray_trace_id.as_deref();
        Span {
            name: self.name(&event.context).to_owned(),
            context: TraceContext::of(headers.traceparent.as_deref(), xray),
            began,
            request_id: event.context.request_id.clone(),
            cold_start,
            failure: outcome.as_ref().err().map(|failure| chain(failure)),
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

fn report(outcome: &Result<Answer, Failure>, began: Instant) {
    let millis = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
    match outcome {
        Ok(answer) => {
            let status = match answer {
                Answer::Http(answer) => Some(answer.status()),
                Answer::Socket(answer) => Some(answer.status()),
                _ => None,
            };
            let again = match answer {
                Answer::Batch(answer) => Some(answer.batch_item_failures.len()),
                _ => None,
            };
            tracing::info!(status, again, duration_ms = millis, "done");
        }
        Err(failure) => {
            tracing::trace!(target: METRICS, failed = 1_u64);
            let (kind, cause) = (failure.name(), chain(failure));
            tracing::error!(kind, cause, duration_ms = millis, "failed");
        }
    }
}

fn said(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "no message".to_owned())
}
