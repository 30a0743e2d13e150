//! The live stream of a session: one connection, and a watch that reconnects by itself.

use std::time::Duration;

use futures_util::{SinkExt as _, StreamExt as _};
use pilothouse_domain::AgentSessionId;
use pilothouse_functions::api::stream::StreamMessage;
use reqwest::header::AUTHORIZATION;
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep, timeout};
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use tokio_tungstenite::tungstenite::{Bytes, Error as SocketError, Message};
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream, connect_async};

use super::{ApiError, Client, refusal_of};

/// How long a connection may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// A quiet stream is asked for a sign of life this often.
const PING_EVERY: Duration = Duration::from_secs(20);
/// A stream that is quiet for this long, even when asked, is broken.
const SILENCE: Duration = Duration::from_secs(65);
/// The wait before the first reconnection; it doubles each time.
const FIRST_BACKOFF: Duration = Duration::from_millis(250);
/// The longest wait.
const LONGEST_BACKOFF: Duration = Duration::from_secs(10);

/// One connection to the live stream of a session.
#[derive(Debug)]
pub struct SessionStream {
    socket: WebSocketStream<MaybeTlsStream<TcpStream>>,
    heard_at: Instant,
}

impl Client {
    /// Opens the live stream: everything after the cursor `after`, or from the session's beginning.
    pub async fn stream(&self, id: AgentSessionId, after: Option<&str>) -> Result<SessionStream, ApiError> {
        let mut url = self.url(&format!("ws/agents/sessions/{id}/stream"))?;
        if url.set_scheme("ws").is_err() {
            return Err(ApiError::InvalidUrl {
                url: url.to_string(),
                why: "it cannot carry a WebSocket".into(),
            });
        }
        if let Some(after) = after {
            url.query_pairs_mut().append_pair("after", after);
        }
        let broken = |e: SocketError| match e {
            SocketError::Http(response) => {
                refusal_of(response.status(), response.body().as_deref().unwrap_or_default())
            }
            SocketError::Io(e) => ApiError::Unreachable { url: self.base().to_string(), source: Box::new(e) },
            e => ApiError::Stream(e.to_string()),
        };
        let mut request = url.as_str().into_client_request().map_err(broken)?;
        request.headers_mut().insert(AUTHORIZATION, self.authorization()?);
        let (socket, _) = timeout(CONNECT_TIMEOUT, connect_async(request))
            .await
            .map_err(|_| ApiError::Stream("the server does not answer".into()))?
            .map_err(broken)?;
        Ok(SessionStream { socket, heard_at: Instant::now() })
    }

    /// Follows the live stream, over lost connections too. Never ends by itself.
    pub fn follow(&self, id: AgentSessionId, after: Option<String>) -> Following {
        Following { client: self.clone(), id, cursor: after, stream: None, failures: 0 }
    }
}

impl SessionStream {
    /// The next message; nothing when the server closed the stream.
    pub async fn next(&mut self) -> Result<Option<StreamMessage>, ApiError> {
        loop {
            let frame = match timeout(PING_EVERY, self.socket.next()).await {
                Ok(Some(Ok(frame))) => frame,
                Ok(None | Some(Err(SocketError::ConnectionClosed | SocketError::AlreadyClosed))) => {
                    return Ok(None);
                }
                Ok(Some(Err(e))) => return Err(ApiError::Stream(e.to_string())),
                Err(_) if self.heard_at.elapsed() >= SILENCE => {
                    return Err(ApiError::Stream("the server fell silent".into()));
                }
                Err(_) => {
                    let ping = self.socket.send(Message::Ping(Bytes::new())).await;
                    ping.map_err(|e| ApiError::Stream(e.to_string()))?;
                    continue;
                }
            };
            self.heard_at = Instant::now();
            match frame {
                Message::Text(text) => {
                    let message = serde_json::from_str(&text);
                    return message.map(Some).map_err(|source| ApiError::Decode { status: 101, source });
                }
                Message::Close(_) => return Ok(None),
                _ => {}
            }
        }
    }
}

/// Follows a session over lost connections: each new one goes on after the last cursor that was seen.
#[derive(Debug)]
pub struct Following {
    client: Client,
    id: AgentSessionId,
    cursor: Option<String>,
    stream: Option<SessionStream>,
    failures: u32,
}

/// What a watch sees.
#[derive(Debug)]
pub enum Followed {
    /// A message of the stream.
    Message(Box<StreamMessage>),
    /// The connection is gone; the next call waits and connects again.
    Lost {
        /// Why, in a sentence.
        why: String,
        /// How long it will wait.
        retry_in: Duration,
    },
}

impl Following {
    /// The cursor after the last message; what to give to `--after` to go on from here.
    pub fn cursor(&self) -> Option<&str> {
        self.cursor.as_deref()
    }

    /// The next thing that happens. An error is final: a refusal, or an answer that is not understood.
    ///
    /// Nothing is lost when this is dropped before it is done.
    pub async fn next(&mut self) -> Result<Followed, ApiError> {
        let stream = match &mut self.stream {
            Some(stream) => stream,
            none => {
                if self.failures > 0 {
                    sleep(backoff(self.failures)).await;
                }
                match self.client.stream(self.id, self.cursor.as_deref()).await {
                    Ok(stream) => none.insert(stream),
                    Err(e) if e.is_transient() => return Ok(self.lost(e.to_string())),
                    Err(e) => return Err(e),
                }
            }
        };
        match stream.next().await {
            Ok(Some(message)) => {
                self.failures = 0;
                self.cursor = Some(message.cursor.clone());
                Ok(Followed::Message(Box::new(message)))
            }
            Ok(None) => Ok(self.lost("the server closed the stream".into())),
            Err(e) if e.is_transient() => Ok(self.lost(e.to_string())),
            Err(e) => Err(e),
        }
    }

    fn lost(&mut self, why: String) -> Followed {
        self.stream = None;
        self.failures = self.failures.saturating_add(1);
        Followed::Lost { why, retry_in: backoff(self.failures) }
    }
}

/// The wait after so many failures in a row.
fn backoff(failures: u32) -> Duration {
    FIRST_BACKOFF.saturating_mul(1 << failures.saturating_sub(1).min(16)).min(LONGEST_BACKOFF)
}
