//! Traces across queues (W3C Trace Context): where the work at hand stands in one, and a span for each message.
//!
//! A request's place is kept with the journal entries of its commit. The relay hands it on with the entry, a reaction
//! puts it into the command, the sidecar into what answers the command, and so the intake of an acknowledgement is a
//! child of the request behind it. Nobody decides anything by it.
//!
//! Whoever sends spans somewhere runs the function within [`recorded`]. Where nobody does, places are carried on as they
//! came and nothing is measured.

use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use axum::extract::Request;
use axum::middleware::Next;
use axum::response::Response;
use http::HeaderMap;
use pilothouse_domain::{AgentSessionId, RunId, TraceParent};

/// The header of W3C Trace Context.
pub const TRACEPARENT: &str = "traceparent";

tokio::task_local! {
    static HERE: Here;
}

#[derive(Debug, Clone)]
struct Here {
    place: Option<TraceParent>,
    spans: Option<Spans>,
}

/// What a span is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct About {
    /// The function that works on the message; the span's name.
    pub function: &'static str,
    /// Where the message came from: a queue, by its logical name, or `journal`.
    pub source: &'static str,
    /// The session.
    pub session: AgentSessionId,
    /// The run, where the message names one.
    pub run: Option<RunId>,
    /// What the message says, in a word: the type of an event, `journal_entry`.
    pub kind: String,
}

/// A span that was begun.
#[derive(Debug, Clone)]
pub struct Recorded {
    /// Where it stands itself.
    pub place: TraceParent,
    /// The span that it is a child of.
    pub parent: Option<TraceParent>,
    /// Whether its parent came with the message, and is no part of the same invocation.
    pub remote: bool,
    /// When it began.
    pub began: SystemTime,
    /// When it ended; none: it goes on for as long as its invocation.
    pub ended: Option<SystemTime>,
    /// What it is about.
    pub about: About,
    /// Why it failed.
    pub failure: Option<String>,
}

/// The spans of one invocation. Clones are the same spans.
#[derive(Debug, Clone, Default)]
pub struct Spans(Arc<Mutex<Vec<Recorded>>>);

impl Spans {
    /// Takes them out, in the order in which they began.
    pub fn take(&self) -> Vec<Recorded> {
        std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn with<T>(&self, change: impl FnOnce(&mut Vec<Recorded>) -> T) -> T {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// The place of the work at hand: what it commits and sends goes on from there.
pub fn here() -> Option<TraceParent> {
    HERE.try_with(|here| here.place).ok().flatten()
}

/// Runs work at a place, and its messages each at one of their own, recorded in `spans`.
pub async fn recorded<F: Future>(place: Option<TraceParent>, spans: Option<Spans>, work: F) -> F::Output {
    HERE.scope(Here { place, spans }, work).await
}

/// A random place: the beginning of a trace.
pub fn beginning() -> Option<TraceParent> {
    TraceParent::new(rand::random(), rand::random())
}

/// The place that a request names.
pub fn of_headers(headers: &HeaderMap) -> Option<TraceParent> {
    headers.get(TRACEPARENT)?.to_str().ok()?.parse().ok()
}

/// Runs a request at the place that it names. One that names none has none, and costs nothing.
pub async fn of_request(request: Request, next: Next) -> Response {
    match of_headers(request.headers()) {
        Some(place) => recorded(Some(place), None, next.run(request)).await,
        None => next.run(request).await,
    }
}

/// The work on one message.
#[derive(Debug)]
pub struct Span {
    place: Option<TraceParent>,
    at: Option<(Spans, usize)>,
}

/// Begins the work on a message that came from `parent`. What it is about is asked only where spans are recorded.
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
    /// What is sent and committed goes on from here.
    pub const fn place(&self) -> Option<TraceParent> {
        self.place
    }

    /// Runs the work itself, at its place.
    pub async fn run<F: Future>(&self, work: F) -> F::Output {
        let spans = self.at.as_ref().map(|(spans, _)| spans.clone());
        recorded(self.place, spans, work).await
    }

    /// The work is over.
    pub fn end(self, failure: Option<&dyn std::error::Error>) {
        let Some((spans, at)) = self.at else { return };
        let failure = failure.map(crate::intake::chain);
        spans.with(|spans| {
            // Gone, when they were taken meanwhile.
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
    async fn where_nobody_records_a_place_is_carried_on_as_it_came_and_nothing_is_asked() {
        assert_eq!(here(), None);
        let span = begin(Some(place(1)), || unreachable!("nobody records"));
        assert_eq!(span.run(async { here() }).await, Some(place(1)));
        assert_eq!(begin(None, || unreachable!("nobody records")).run(async { here() }).await, None);
        span.end(None);
    }

    #[tokio::test]
    async fn a_message_is_a_child_of_what_it_came_from_else_of_its_invocation() {
        let spans = Spans::default();
        recorded(Some(place(1)), Some(spans.clone()), async {
            let remote = begin(Some(TraceParent::new(9, 5).unwrap()), about);
            assert_eq!(remote.run(async { here() }).await, remote.place());
            remote.end(Some(&std::io::Error::other("why")));
            let _own = begin(None, about);
        })
        .await;
        let told = spans.take();
        assert_eq!(told[0].place.trace_id(), TraceParent::new(9, 5).unwrap().trace_id());
        assert_eq!((told[0].parent, told[0].remote), (TraceParent::new(9, 5), true));
        assert_eq!(told[0].failure.as_deref(), Some("why"));
        assert_eq!((told[1].parent, told[1].remote), (Some(place(1)), false));
        assert!(told[0].ended.is_some() && told[1].ended.is_none());
    }
}
