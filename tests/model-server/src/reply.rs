//! What goes back over HTTP: refusals, whole answers, and streams that may break.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
    time::Duration,
};

use axum::{
    body::Body,
    http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header},
    response::{IntoResponse as _, Response},
};
use bytes::Bytes;
use futures_util::stream;
use jiff::{Timestamp, ToSpan as _};
use serde_json::Value;

use crate::{
    answer::Event,
    failure::Failure,
    server::{Exchange, Gates, Outcome},
};

/// A refusal of a provider.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Refusal {
    /// The status.
    pub(crate) status: u16,
    /// Headers.
    pub(crate) headers: BTreeMap<String, String>,
    /// The body.
    pub(crate) body: Value,
}

impl Refusal {
    /// A refusal without headers of its own.
    pub(crate) fn new(status: u16, body: Value) -> Self {
        Self { status, headers: BTreeMap::new(), body }
    }

    /// As it goes over HTTP.
    pub(crate) fn into_response(self) -> Response {
        let mut headers = HeaderMap::new();
        for (name, value) in &self.headers {
            if let (Ok(name), Ok(value)) = (name.parse::<HeaderName>(), HeaderValue::from_str(value)) {
                headers.insert(name, value);
            }
        }
        let status = StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        (status, headers, axum::Json(self.body)).into_response()
    }
}

/// Adds `retry-after` as a failure wants it.
pub(crate) fn retry_after(mut refusal: Refusal, failure: &Failure) -> Refusal {
    if let Failure::RateLimited { retry_after, retry_after_date } = failure {
        let date = retry_after_date.map(http_date);
        if let Some(value) = retry_after.map(|seconds| seconds.to_string()).or(date) {
            refusal.headers.insert("retry-after".to_owned(), value);
        }
    }
    refusal
}

/// Seconds since the epoch, so many from now.
pub(crate) fn epoch_seconds(from_now: u64) -> i64 {
    Timestamp::now().as_second().saturating_add(i64::try_from(from_now).unwrap_or(i64::MAX))
}

fn http_date(from_now: u64) -> String {
    let seconds = i64::try_from(from_now).unwrap_or(i64::MAX);
    let then = Timestamp::now().checked_add(seconds.seconds()).unwrap_or(Timestamp::MAX);
    then.strftime("%a, %d %b %Y %H:%M:%S GMT").to_string()
}

/// How a stream goes, and how it goes wrong.
pub(crate) struct Course {
    /// What is sent.
    pub(crate) events: Vec<Event>,
    /// The gate after the first piece.
    pub(crate) wait_inside: Option<String>,
    /// Between two pieces.
    pub(crate) pace: Duration,
    /// Whether the connection breaks at the end.
    pub(crate) breaks: bool,
    /// Half of an event, before it breaks.
    pub(crate) torn: Option<String>,
}

impl Course {
    /// The events of an answer, up to where a failure comes.
    pub(crate) fn new(mut events: Vec<Event>, failure: Option<&Failure>, error: Event) -> Self {
        let mut course =
            Self { events: Vec::new(), wait_inside: None, pace: Duration::ZERO, breaks: false, torn: None };
        match failure {
            Some(Failure::Cut { pieces, mid_event }) => {
                let rest = split_off(&mut events, *pieces);
                course.breaks = true;
                course.torn = rest.first().filter(|_| *mid_event).map(|event| {
                    let bytes = event.bytes();
                    bytes.chars().take(bytes.chars().count() / 2).collect()
                });
            }
            Some(Failure::Short { pieces }) => {
                split_off(&mut events, *pieces);
            }
            Some(Failure::ErrorEvent { pieces }) => {
                split_off(&mut events, *pieces);
                events.push(error);
            }
            _ => {}
        }
        course.events = events;
        course
    }

    /// As a stream of server-sent events. It holds `exchange` until the last of them is sent, or the client is gone.
    pub(crate) fn into_response(self, gates: Arc<Gates>, exchange: Exchange) -> Response {
        let playing =
            Playing { events: self.events.clone().into(), course: self, gates, exchange, pieces: 0 };
        let body = stream::unfold(Some(playing), |playing| async move {
            let mut playing = playing?;
            match playing.next().await {
                Some(Ok(bytes)) => Some((Ok(bytes), Some(playing))),
                Some(Err(broken)) => {
                    playing.exchange.end(Outcome::Failed);
                    Some((Err(broken), None))
                }
                None => {
                    playing.exchange.end(Outcome::Sent);
                    None
                }
            }
        });
        let kind =
            [(header::CONTENT_TYPE, "text/event-stream; charset=utf-8"), (header::CACHE_CONTROL, "no-cache")];
        (kind, Body::from_stream(body)).into_response()
    }
}

/// A stream on its way.
struct Playing {
    events: VecDeque<Event>,
    course: Course,
    gates: Arc<Gates>,
    exchange: Exchange,
    pieces: usize,
}

impl Playing {
    /// The next bytes; an error where the connection breaks.
    async fn next(&mut self) -> Option<Result<Bytes, std::io::Error>> {
        let Some(event) = self.events.pop_front() else {
            if let Some(torn) = self.course.torn.take() {
                return Some(Ok(torn.into()));
            }
            if self.course.breaks {
                // Lets go out what was written, before nothing more does.
                tokio::task::yield_now().await;
                return Some(Err(std::io::ErrorKind::ConnectionAborted.into()));
            }
            return None;
        };
        if self.pieces == 1
            && let Some(gate) = self.course.wait_inside.take()
        {
            self.gates.pass(&gate).await;
        }
        if event.is_piece {
            if self.pieces > 0 && !self.course.pace.is_zero() {
                tokio::time::sleep(self.course.pace).await;
            }
            self.pieces += 1;
        }
        Some(Ok(event.bytes().into()))
    }
}

/// Keeps what comes before the piece after so many; gives the rest.
fn split_off(events: &mut Vec<Event>, pieces: usize) -> Vec<Event> {
    let at =
        events.iter().enumerate().filter(|(_, event)| event.is_piece).nth(pieces).map(|(index, _)| index);
    // An answer with fewer pieces ends before it says that it is over.
    let at = at.unwrap_or_else(|| events.len().saturating_sub(1));
    events.split_off(at)
}
