//! Streams of events, which may break.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use axum::{
    body::Body,
    http::header,
    response::{IntoResponse as _, Response},
};
use bytes::Bytes;
use futures_util::stream;

use super::{Exchange, Gates, Outcome};
use crate::{failure::Failure, reply::Event};

/// The course of a stream, including its failure.
pub(super) struct StreamPlan {
    /// The events to send.
    pub(super) events: Vec<Event>,
    /// The gate after the first piece.
    pub(super) wait_inside: Option<String>,
    /// Delay between two pieces.
    pub(super) pace: Duration,
    /// Whether the connection breaks at the end.
    pub(super) breaks: bool,
    /// Half an event, sent before the break.
    pub(super) partial_event: Option<String>,
}

impl StreamPlan {
    /// The events of a reply, up to the failure if there is one.
    pub(super) fn new(mut events: Vec<Event>, failure: Option<&Failure>, error: Event) -> Self {
        let mut plan = Self {
            events: Vec::new(),
            wait_inside: None,
            pace: Duration::ZERO,
            breaks: false,
            partial_event: None,
        };
        match failure {
            Some(Failure::Cut { pieces, mid_event }) => {
                let rest = split_off(&mut events, *pieces);
                plan.breaks = true;
                plan.partial_event = rest.first().filter(|_| *mid_event).map(|event| {
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
        plan.events = events;
        plan
    }

    /// Converts to a response with server-sent events. It holds `exchange` until the last event was sent or the
    /// client has disconnected.
    pub(super) fn into_response(self, gates: Arc<Gates>, exchange: Exchange) -> Response {
        let state =
            StreamState { events: self.events.clone().into(), plan: self, gates, exchange, pieces: 0 };
        let body = stream::unfold(Some(state), |state| async move {
            let mut state = state?;
            match state.next().await {
                Some(Ok(bytes)) => Some((Ok(bytes), Some(state))),
                Some(Err(broken)) => {
                    state.exchange.end(Outcome::Failed);
                    Some((Err(broken), None))
                }
                None => {
                    state.exchange.end(Outcome::Sent);
                    None
                }
            }
        });
        let kind =
            [(header::CONTENT_TYPE, "text/event-stream; charset=utf-8"), (header::CACHE_CONTROL, "no-cache")];
        (kind, Body::from_stream(body)).into_response()
    }
}

/// A stream that is being sent.
struct StreamState {
    events: VecDeque<Event>,
    plan: StreamPlan,
    gates: Arc<Gates>,
    exchange: Exchange,
    pieces: usize,
}

impl StreamState {
    /// The next bytes, or an error to break the connection.
    async fn next(&mut self) -> Option<Result<Bytes, std::io::Error>> {
        let Some(event) = self.events.pop_front() else {
            if let Some(partial_event) = self.plan.partial_event.take() {
                return Some(Ok(partial_event.into()));
            }
            if self.plan.breaks {
                // Sends the written bytes before the next event.
                tokio::task::yield_now().await;
                return Some(Err(std::io::ErrorKind::ConnectionAborted.into()));
            }
            return None;
        };
        if self.pieces == 1
            && let Some(gate) = self.plan.wait_inside.take()
        {
            self.gates.pass(&gate).await;
        }
        if event.is_piece {
            if self.pieces > 0 && !self.plan.pace.is_zero() {
                tokio::time::sleep(self.plan.pace).await;
            }
            self.pieces += 1;
        }
        Some(Ok(event.bytes().into()))
    }
}

/// Splits after the given number of pieces. Keeps the first part and returns the rest.
fn split_off(events: &mut Vec<Event>, pieces: usize) -> Vec<Event> {
    let at =
        events.iter().enumerate().filter(|(_, event)| event.is_piece).nth(pieces).map(|(index, _)| index);
    // A reply with fewer pieces ends before its final event.
    let at = at.unwrap_or_else(|| events.len().saturating_sub(1));
    events.split_off(at)
}
