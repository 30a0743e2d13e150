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

use crate::client::ShimClient;
use crate::error::CallError;

const FIRST_PAUSE: Duration = Duration::from_millis(100);
/// The longest pause between two attempts (S2).
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
const CONNECT: Duration = Duration::from_secs(10);
/// Messages that wait for the reader, so that a slow reader slows the shim down. Few, because each may be large.
const WAITING: usize = 64;
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
    events: mpsc::Receiver<StreamEvent>,
    task: AbortOnDropHandle<()>,
}

type Socket = WebSocketStream<MaybeTlsStream<TcpStream>>;

impl EventStream {
    /// Connects to the events of a shim. After a break, it gives up when no attempt succeeds for `patience`.
    pub async fn connect(client: &ShimClient, patience: Duration) -> Result<Self, CallError> {
        let (url, token) = (client.events_url(), client.token().to_owned());
        let socket = open(&url, &token).await?;
        let (sender, events) = mpsc::channel(WAITING);
        let task = tokio::spawn(async move { forward(socket, &url, &token, &sender, patience).await });
        Ok(Self { events, task: AbortOnDropHandle::new(task) })
    }

    /// Cancel-safe. `Gone` once the stream has ended.
    pub async fn next(&mut self) -> StreamEvent {
        self.events.recv().await.unwrap_or(StreamEvent::Gone)
    }

    /// Closes the connection, and waits until the shim has closed its side. Afterwards the shim sends nothing to it.
    pub(crate) async fn close(mut self) {
        self.events.close();
        // A shim that does not close its side loses the connection anyway.
        let _ = timeout(CLOSE, self.task).await;
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

async fn forward(
    mut socket: Socket,
    url: &str,
    token: &str,
    sender: &mpsc::Sender<StreamEvent>,
    patience: Duration,
) {
    loop {
        match read(&mut socket, sender).await {
            Ok(Broken::Connection) => {}
            Ok(Broken::Oversized) => {
                let _ = sender.send(StreamEvent::Oversized).await;
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
            let _ = sender.send(StreamEvent::Gone).await;
            return;
        };
        socket = again;
        if sender.send(StreamEvent::Reconnected).await.is_err() {
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
async fn read(socket: &mut Socket, sender: &mpsc::Sender<StreamEvent>) -> Result<Broken, Unread> {
    loop {
        let received = tokio::select! {
            received = socket.next() => received,
            () = sender.closed() => return Err(Unread),
        };
        let text = match received {
            Some(Ok(Message::Text(text))) => text.as_str().to_owned(),
            Some(Ok(Message::Binary(bytes))) => String::from_utf8_lossy(&bytes).into_owned(),
            // The library answers pings.
            Some(Ok(Message::Ping(_) | Message::Pong(_) | Message::Frame(_))) => continue,
            Some(Err(Error::Capacity(_))) => return Ok(Broken::Oversized),
            Some(Ok(Message::Close(_)) | Err(_)) | None => return Ok(Broken::Connection),
        };
        sender.send(StreamEvent::Message(text)).await.map_err(|_| Unread)?;
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
