//! The events of a shim: a `WebSocket` that is connected again when it breaks.

use std::time::Duration;

use futures_util::StreamExt as _;
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, timeout};
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use tokio_tungstenite::tungstenite::http::header::{AUTHORIZATION, HeaderValue};
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;
use tokio_tungstenite::tungstenite::{Error, Message};
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream, connect_async_with_config};
use tokio_util::task::AbortOnDropHandle;

use crate::byte_budget::{ByteBudget, Held};
use crate::client::ShimClient;
use crate::error::CallError;

const FIRST_PAUSE: Duration = Duration::from_millis(100);
/// The longest pause between two attempts (S2).
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
const CONNECT: Duration = Duration::from_secs(10);
/// Messages that wait for the reader, so that a slow reader slows the shim down.
const WAITING: usize = 64;
/// In bytes, of all messages that wait. A larger message waits alone.
const WAITING_BYTES: usize = 64 * 1024 * 1024;
/// How long the shim may take to close its side of the connection.
const CLOSE: Duration = Duration::from_secs(2);
/// In bytes, of a message: a checkpoint of 50 MB (S2), and what surrounds it.
const MAX_MESSAGE: usize = 64 * 1024 * 1024;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StreamEvent {
    Message(String),
    /// The connection broke and was opened again. Events may be missing.
    Reconnected,
    /// No connection for the given time.
    Gone,
    /// A message was longer than 64 MiB. The stream has ended, because a replay would send the message again.
    Oversized,
}

/// Dropping it breaks the connection.
#[derive(Debug)]
pub struct EventStream {
    events: mpsc::Receiver<(StreamEvent, Held)>,
    task: AbortOnDropHandle<()>,
}

type Socket = WebSocketStream<MaybeTlsStream<TcpStream>>;

impl EventStream {
    /// Connects to the events of a shim. After a break, it gives up when no attempt succeeds for `patience`.
    pub async fn connect(client: &ShimClient, patience: Duration) -> Result<Self, CallError> {
        Self::within(ByteBudget::new(WAITING_BYTES), client, patience).await
    }

    async fn within(budget: ByteBudget, client: &ShimClient, patience: Duration) -> Result<Self, CallError> {
        let (url, token) = (client.events_url(), client.token().to_owned());
        let socket = open(&url, &token).await?;
        let (events, receiver) = mpsc::channel(WAITING);
        let waiting = Waiting { events, budget };
        let task = tokio::spawn(async move { forward(socket, &url, &token, &waiting, patience).await });
        Ok(Self { events: receiver, task: AbortOnDropHandle::new(task) })
    }

    /// Cancel-safe. `Gone` once the stream has ended.
    pub async fn next(&mut self) -> StreamEvent {
        self.events.recv().await.map_or(StreamEvent::Gone, |(event, _)| event)
    }

    /// Closes the connection, and waits until the shim has closed its side. Afterwards the shim sends nothing to it.
    pub(crate) async fn close(mut self) {
        self.events.close();
        // A shim that does not close its side loses the connection anyway.
        let _ = timeout(CLOSE, self.task).await;
    }
}

/// The events that wait for the reader.
struct Waiting {
    events: mpsc::Sender<(StreamEvent, Held)>,
    budget: ByteBudget,
}

impl Waiting {
    async fn add(&self, event: StreamEvent) -> Result<(), Unread> {
        let bytes = match &event {
            StreamEvent::Message(text) => text.len(),
            StreamEvent::Reconnected | StreamEvent::Gone | StreamEvent::Oversized => 0,
        };
        let held = tokio::select! {
            held = self.budget.take(bytes) => held,
            () = self.events.closed() => return Err(Unread),
        };
        self.events.send((event, held)).await.map_err(|_| Unread)
    }
}

async fn open(url: &str, token: &str) -> Result<Socket, CallError> {
    let failed = |e: Error| CallError::Unreachable(e.to_string());
    let limits =
        WebSocketConfig::default().max_message_size(Some(MAX_MESSAGE)).max_frame_size(Some(MAX_MESSAGE));
    let mut request = url.into_client_request().map_err(failed)?;
    let bearer = HeaderValue::from_str(&format!("Bearer {token}"));
    request.headers_mut().insert(AUTHORIZATION, bearer.map_err(|e| CallError::Unreachable(e.to_string()))?);
    match timeout(CONNECT, connect_async_with_config(request, Some(limits), false)).await {
        Ok(connected) => Ok(connected.map_err(failed)?.0),
        Err(_) => Err(CallError::TimedOut(CONNECT)),
    }
}

async fn forward(mut socket: Socket, url: &str, token: &str, waiting: &Waiting, patience: Duration) {
    loop {
        match read(&mut socket, waiting).await {
            Ok(Broken::Connection) => {}
            Ok(Broken::Oversized) => {
                let _ = waiting.add(StreamEvent::Oversized).await;
                return;
            }
            Err(Unread) => {
                if socket.close(None).await.is_ok() {
                    while let Some(Ok(_)) = socket.next().await {}
                }
                return;
            }
        }
        let Some(again) = reopen(url, token, patience).await else {
            // The reader has gone as well, or learns of it.
            let _ = waiting.add(StreamEvent::Gone).await;
            return;
        };
        socket = again;
        if waiting.add(StreamEvent::Reconnected).await.is_err() {
            return;
        }
    }
}

/// The reader of the events has been dropped.
struct Unread;

/// Why reading ended.
enum Broken {
    Connection,
    Oversized,
}

/// Reads until the connection breaks.
async fn read(socket: &mut Socket, waiting: &Waiting) -> Result<Broken, Unread> {
    loop {
        let received = tokio::select! {
            received = socket.next() => received,
            () = waiting.events.closed() => return Err(Unread),
        };
        let text = match received {
            Some(Ok(Message::Text(text))) => text.as_str().to_owned(),
            Some(Ok(Message::Binary(bytes))) => String::from_utf8_lossy(&bytes).into_owned(),
            // The library answers pings.
            Some(Ok(Message::Ping(_) | Message::Pong(_) | Message::Frame(_))) => continue,
            Some(Err(Error::Capacity(_))) => return Ok(Broken::Oversized),
            Some(Ok(Message::Close(_)) | Err(_)) | None => return Ok(Broken::Connection),
        };
        waiting.add(StreamEvent::Message(text)).await?;
    }
}

async fn reopen(url: &str, token: &str, patience: Duration) -> Option<Socket> {
    let until = Instant::now() + patience;
    let mut pause = FIRST_PAUSE;
    loop {
        sleep(pause).await;
        if let Ok(socket) = open(url, token).await {
            return Some(socket);
        }
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return None;
        }
        pause = (pause * 2).min(LONGEST_PAUSE).min(left);
    }
}

#[cfg(test)]
mod tests {
    use futures_util::SinkExt as _;
    use tokio::net::TcpListener;

    use super::*;

    const MESSAGES: usize = 100;
    const LENGTH: usize = 128 * 1024;

    /// A fake shim: it only sends numbered messages to its first connection, as fast as they are read.
    async fn flooding_shim() -> ShimClient {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        tokio::spawn(async move {
            let (connection, _) = listener.accept().await.unwrap();
            let mut socket = tokio_tungstenite::accept_async(connection).await.unwrap();
            for number in 0..MESSAGES {
                let number = number.to_string();
                let text = "0".repeat(LENGTH - number.len()) + &number;
                if socket.send(Message::Text(text.into())).await.is_err() {
                    return;
                }
            }
            while let Some(Ok(_)) = socket.next().await {}
        });
        ShimClient::new(port, "token", "agent", Duration::from_mins(1)).unwrap()
    }

    #[tokio::test]
    async fn flood_of_a_shim_waits_and_arrives_in_order() {
        let client = flooding_shim().await;
        let limit = 8 * LENGTH;
        let budget = ByteBudget::new(limit);
        let mut stream = EventStream::within(budget.clone(), &client, Duration::from_mins(1)).await.unwrap();
        let all = async {
            while budget.used() + LENGTH < limit {
                tokio::task::yield_now().await;
            }
            // Without a bound, 64 messages would arrive meanwhile.
            for _ in 0..10_000 {
                assert!(budget.used() <= limit);
                tokio::task::yield_now().await;
            }
            for number in 0..MESSAGES {
                let StreamEvent::Message(text) = stream.next().await else { panic!("the stream ended") };
                assert_eq!((text.len(), text.parse().ok()), (LENGTH, Some(number)));
                assert!(budget.used() <= limit);
            }
        };
        timeout(Duration::from_mins(1), all).await.unwrap();
        stream.close().await;
    }

    #[tokio::test]
    async fn closed_stream_does_not_wait_for_room() {
        let client = flooding_shim().await;
        let budget = ByteBudget::new(LENGTH);
        let stream = EventStream::within(budget.clone(), &client, Duration::from_mins(1)).await.unwrap();
        while budget.used() == 0 {
            tokio::task::yield_now().await;
        }
        let EventStream { mut events, task } = stream;
        // The unread message keeps its bytes.
        events.close();
        timeout(Duration::from_mins(1), task).await.unwrap().unwrap();
        assert!(budget.used() > 0);
    }
}
