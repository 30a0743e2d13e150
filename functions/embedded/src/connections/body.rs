//! Request bodies with a time limit, and response bodies that keep their request active.

use std::future::Future as _;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody};
use hyper::body::{Frame, SizeHint};
use tokio::time::{Instant, Sleep};

use super::Request;

/// Longest silence within a body.
const MAX_SILENCE: Duration = Duration::from_secs(15);
/// Time limit of a whole body, in addition to the time that [`MIN_RATE`] allows.
const BODY_TIMEOUT: Duration = Duration::from_secs(30);
/// Minimum bytes in a second.
const MIN_RATE: u32 = 64 * 1024;

#[derive(Debug, thiserror::Error)]
#[error("the body did not arrive in time")]
struct TooSlow;

/// Reading fails if the body arrives too slowly. Time counts from the first read.
pub(super) struct TimedBody<B> {
    inner: B,
    started: Option<Instant>,
    read: u64,
    /// When reading fails unless data arrives.
    silent: Option<Pin<Box<Sleep>>>,
}

impl<B> TimedBody<B> {
    pub(super) const fn new(inner: B) -> Self {
        Self { inner, started: None, read: 0, silent: None }
    }
}

impl<B> HttpBody for TimedBody<B>
where
    B: HttpBody<Data = Bytes> + Unpin,
    B::Error: Into<axum::BoxError>,
{
    type Data = Bytes;
    type Error = axum::BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        ctx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::BoxError>>> {
        let this = &mut *self;
        let started = *this.started.get_or_insert_with(Instant::now);
        if let Poll::Ready(frame) = Pin::new(&mut this.inner).poll_frame(ctx) {
            this.silent = None;
            let length = |frame: &Frame<Bytes>| frame.data_ref().map_or(0, Bytes::len) as u64;
            this.read += frame.as_ref().map_or(0, |frame| frame.as_ref().map_or(0, length));
            return Poll::Ready(frame.map(|frame| frame.map_err(Into::into)));
        }
        let earned = Duration::from_secs(this.read / u64::from(MIN_RATE));
        let until = (Instant::now() + MAX_SILENCE).min(started + BODY_TIMEOUT + earned);
        let silent = this.silent.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(until)));
        ready!(silent.as_mut().poll(ctx));
        Poll::Ready(Some(Err(Box::new(TooSlow))))
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

/// Keeps its request active until the body is sent or dropped.
pub(super) struct RequestBoundBody {
    inner: Body,
    _request: Request,
}

impl RequestBoundBody {
    pub(super) const fn new(inner: Body, request: Request) -> Self {
        Self { inner, _request: request }
    }
}

impl HttpBody for RequestBoundBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        ctx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.inner).poll_frame(ctx)
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::collections::VecDeque;

    use super::*;

    /// Yields each chunk after its pause, then stalls.
    struct SlowBody(VecDeque<(Duration, usize)>, Option<Pin<Box<Sleep>>>);

    impl HttpBody for SlowBody {
        type Data = Bytes;
        type Error = std::convert::Infallible;

        fn poll_frame(
            mut self: Pin<&mut Self>,
            ctx: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
            let Some((pause, length)) = self.0.front().copied() else { return Poll::Pending };
            ready!(self.1.get_or_insert_with(|| Box::pin(tokio::time::sleep(pause))).as_mut().poll(ctx));
            self.0.pop_front();
            self.1 = None;
            Poll::Ready(Some(Ok(Frame::data(vec![0; length].into()))))
        }
    }

    /// Returns after how long reading these chunks fails, and how many bytes were read.
    async fn fails_after(pieces: impl IntoIterator<Item = (Duration, usize)>) -> (Duration, u64) {
        let started = Instant::now();
        let mut body = TimedBody::new(SlowBody(pieces.into_iter().collect(), None));
        loop {
            if std::future::poll_fn(|ctx| Pin::new(&mut body).poll_frame(ctx)).await.unwrap().is_err() {
                return (started.elapsed(), body.read);
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_stalled_or_trickling_body_fails() {
        assert_eq!(fails_after([]).await.0.as_secs(), MAX_SILENCE.as_secs());
        let second = Duration::from_secs(1);
        assert_eq!(fails_after([(second, 10)]).await.0.as_secs(), 1 + MAX_SILENCE.as_secs());
        let (after, read) = fails_after((0..1000).map(|_| (second, 1))).await;
        assert!(after <= BODY_TIMEOUT + second && read < 40, "{after:?}, {read} bytes");
        // A body that is fast enough may be long.
        let (after, read) = fails_after((0..100).map(|_| (second, 100 * 1024))).await;
        assert_eq!((after.as_secs(), read), (100 + MAX_SILENCE.as_secs(), 100 * 100 * 1024));
    }
}
