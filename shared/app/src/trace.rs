//! Trace context across queues (W3C Trace Context), and a span for each message.
//!
//! The context of a request is stored with the journal entries of its commit. The relay passes it on with the entry, a reaction
//! puts it into the command, and the sidecar puts it into its response. The intake of an acknowledgement is thus a child of the
//! request. No decision depends on it.
//!
//! A host that exports spans runs the function within [`recorded`]. Otherwise contexts are passed on unchanged and nothing is
//! measured.

use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use axum::extract::Request;
use axum::middleware::Next;
use axum::response::Response;
use http::HeaderMap;
use pilothouse_domain::{AgentSessionId, RunId, TraceParent};

pub const TRACEPARENT: &str = "traceparent";

tokio::task_local! {
    static HERE: Here;
}

#[derive(Debug, Clone)]
struct Here {
    place: Option<TraceParent>,
    spans: Option<Spans>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct About {
    /// Also the name of the span.
    pub function: &'static str,
    /// A queue, by its logical name, or `journal`.
    pub source: &'static str,
    pub session: AgentSessionId,
    pub run: Option<RunId>,
    /// The type of an event, or `journal_entry`.
    pub kind: String,
}

#[derive(Debug, Clone)]
pub struct Recorded {
    pub place: TraceParent,
    pub parent: Option<TraceParent>,
    /// Whether the parent came with the message, so that it is not part of the same invocation.
    pub remote: bool,
    pub began: SystemTime,
    /// None: the span ends with its invocation.
    pub ended: Option<SystemTime>,
    pub about: About,
    pub failure: Option<String>,
}

/// The spans of one invocation. Clones share the same spans.
#[derive(Debug, Clone, Default)]
pub struct Spans(Arc<Mutex<Vec<Recorded>>>);

impl Spans {
    /// Removes and returns the spans, in the order of their starts.
    pub fn take(&self) -> Vec<Recorded> {
        std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn with<T>(&self, change: impl FnOnce(&mut Vec<Recorded>) -> T) -> T {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// The current trace context, which is the parent of everything that is committed and sent.
pub fn here() -> Option<TraceParent> {
    HERE.try_with(|here| here.place).ok().flatten()
}

/// Runs work in a context. The spans of its messages are added to `spans`.
pub async fn recorded<F: Future>(place: Option<TraceParent>, spans: Option<Spans>, work: F) -> F::Output {
    HERE.scope(Here { place, spans }, work).await
}

/// A random context that starts a new trace.
pub fn beginning() -> Option<TraceParent> {
    TraceParent::new(rand::random(), rand::random())
}

pub fn of_headers(headers: &HeaderMap) -> Option<TraceParent> {
    headers.get(TRACEPARENT)?.to_str().ok()?.parse().ok()
}

/// Runs a request in the context that its headers name. A request without one has none, at no cost.
pub async fn of_request(request: Request, next: Next) -> Response {
    match of_headers(request.headers()) {
        Some(place) => recorded(Some(place), None, next.run(request)).await,
        None => next.run(request).await,
    }
}

#[derive(Debug)]
pub struct Span {
    place: Option<TraceParent>,
    at: Option<(Spans, usize)>,
}

/// Starts the span of a message with the parent `parent`. `about` is called only if spans are recorded.
pub fn begin(parent: Option<TraceParent>, about: impl FnOnce() -> About) -> Span {
    let here = HERE.try_with(|here| here.spans.clone().map(|spans| (spans, here.place))).ok().flatten();
    let Some((spans, invocation)) = here else { return Span { place: parent, at: None } };
    let origin = parent.or(invocation);
    let Some(place) = origin.map(|origin| origin.at(rand::random())).or_else(beginning) else {
        return Span { place: parent, at: None };
    };
    let recorded = Recorded {
        place,
        parent: origin,
        remote: parent.is_some(),
        began: SystemTime::now(),
        ended: None,
        about: about(),
        failure: None,
    };
    let at = spans.with(|spans| {
        spans.push(recorded);
        spans.len() - 1
    });
    Span { place: Some(place), at: Some((spans, at)) }
}

impl Span {
    /// The context of the span, for everything that is sent and committed.
    pub const fn place(&self) -> Option<TraceParent> {
        self.place
    }

    /// Runs the work in the context of the span.
    pub async fn run<F: Future>(&self, work: F) -> F::Output {
        let spans = self.at.as_ref().map(|(spans, _)| spans.clone());
        recorded(self.place, spans, work).await
    }

    pub fn end(self, failure: Option<&dyn std::error::Error>) {
        let Some((spans, at)) = self.at else { return };
        let failure = failure.map(crate::error_chain);
        spans.with(|spans| {
            // The span is missing if the spans were taken in the meantime.
            if let Some(span) = spans.get_mut(at) {
                span.ended = Some(SystemTime::now());
                span.failure = failure;
            }
        });
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn place(span: u64) -> TraceParent {
        TraceParent::new(7, span).unwrap()
    }

    fn about() -> About {
        About {
            function: "intake",
            source: "events.fifo",
            session: "01900000-0000-7000-8000-000000000001".parse().unwrap(),
            run: None,
            kind: "pause_ack".to_owned(),
        }
    }

    #[tokio::test]
    async fn unrecorded_trace_context_is_passed_on_unchanged() {
        assert_eq!(here(), None);
        let span = begin(Some(place(1)), || unreachable!("spans are not recorded"));
        assert_eq!(span.run(async { here() }).await, Some(place(1)));
        assert_eq!(begin(None, || unreachable!("spans are not recorded")).run(async { here() }).await, None);
        span.end(None);
    }

    #[tokio::test]
    async fn message_is_a_child_of_its_cause_or_its_invocation() {
        let spans = Spans::default();
        recorded(Some(place(1)), Some(spans.clone()), async {
            let remote = begin(Some(TraceParent::new(9, 5).unwrap()), about);
            assert_eq!(remote.run(async { here() }).await, remote.place());
            remote.end(Some(&std::io::Error::other("why")));
            let _own = begin(None, about);
        })
        .await;
        let records = spans.take();
        assert_eq!(records[0].place.trace_id(), TraceParent::new(9, 5).unwrap().trace_id());
        assert_eq!((records[0].parent, records[0].remote), (TraceParent::new(9, 5), true));
        assert_eq!(records[0].failure.as_deref(), Some("why"));
        assert_eq!((records[1].parent, records[1].remote), (Some(place(1)), false));
        assert!(records[0].ended.is_some() && records[1].ended.is_none());
    }
}
