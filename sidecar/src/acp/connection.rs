//! JSON-RPC over the agent's pipes. One channel yields all messages in order, so the last text of a turn precedes the
//! end of the turn.
//!
//! An agent that writes faster than the driver processes its messages waits, because its output is not read. While the driver itself
//! waits for a response, which follows the other messages, its output is read on, up to a larger limit.

use std::sync::Arc;

use agent_client_protocol::v1::{ConnectionTo, Dispatch, Responder};
use agent_client_protocol::{Agent, Client, Lines, UntypedMessage};
use futures_util::{sink, stream};
use pilothouse_wire::RawEvent;
use serde_json::Value;
use tokio::io::{AsyncWriteExt as _, BufReader};
use tokio::process::{ChildStdin, ChildStdout};
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{Notify, mpsc, oneshot};
use tokio::task::AbortHandle;

use crate::adapter::EventSink;
use crate::kit::agent_process::Pipes;
use crate::kit::byte_budget::{ByteBudget, Held};
use crate::kit::json::memory_of;
use crate::kit::lines::{Line, MAX_LINE_BYTES, SKIPPED, read_line};

/// Limits of the messages that the driver has not processed yet.
#[derive(Debug, Clone, Copy)]
pub(super) struct Backlog {
    /// Bytes from which on the agent waits.
    bytes: usize,
    /// Bytes while the driver waits for a response, such as that to `session/load`. An agent that sends more is disconnected.
    bytes_in_request: usize,
    /// An agent that sends more is disconnected.
    messages: usize,
}

/// The number is out of reach while the agent waits, because each message counts at least 1 KiB.
pub(super) const BACKLOG: Backlog =
    Backlog { bytes: 64 * 1024 * 1024, bytes_in_request: 256 * 1024 * 1024, messages: 100_000 };

#[derive(Debug)]
pub(super) enum Inbound {
    /// The method and the parameters.
    Notification(String, Value),
    /// The method, the parameters and the responder.
    Request(String, Value, Responder),
    /// The response to the prompt with this number.
    Prompted(u64, Result<Value, agent_client_protocol::Error>),
    /// The response to the steering message with this number.
    Steered(u64, Result<Value, agent_client_protocol::Error>),
    /// The agent's output has ended.
    Closed,
}

impl Inbound {
    /// In bytes.
    fn memory(&self) -> usize {
        match self {
            Self::Notification(_, parameters) | Self::Request(_, parameters, _) => memory_of(parameters),
            Self::Prompted(_, Ok(response)) | Self::Steered(_, Ok(response)) => memory_of(response),
            Self::Prompted(_, Err(error)) | Self::Steered(_, Err(error)) => {
                error.message.len() + error.data.as_ref().map_or(0, memory_of)
            }
            Self::Closed => 0,
        }
    }
}

/// Gives messages to the driver.
struct Inbox {
    messages: mpsc::Sender<(Inbound, Held)>,
    budget: ByteBudget,
    most_bytes: usize,
    /// Notified when a message did not fit.
    overflow: Notify,
}

impl Inbox {
    /// The connection cannot wait here for the driver, which may wait for a response on it. A message without room ends the
    /// connection, because a lost one would leave the driver with a wrong picture of the agent.
    fn put(&self, message: Inbound) {
        if self.budget.used() >= self.most_bytes {
            self.overflow.notify_one();
            return;
        }
        let held = self.budget.hold(message.memory());
        // Without a driver nobody needs the message.
        if let Err(TrySendError::Full(_)) = self.messages.try_send((message, held)) {
            self.overflow.notify_one();
        }
    }
}

/// The agent's messages for the driver.
pub(super) struct InboundMessages(mpsc::Receiver<(Inbound, Held)>);

impl InboundMessages {
    /// Cancel-safe.
    pub(super) async fn next(&mut self) -> Inbound {
        self.0.recv().await.map_or(Inbound::Closed, |(message, _)| message)
    }

    /// `None` if no message waits.
    pub(super) fn next_waiting(&mut self) -> Option<Inbound> {
        self.0.try_recv().ok().map(|(message, _)| message)
    }
}

/// The connection to an agent. Dropping it closes the agent's input.
pub(super) struct Connection {
    peer: ConnectionTo<Agent>,
    inbox: Arc<Inbox>,
    _close: oneshot::Sender<()>,
    task: AbortHandle,
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Connection {
    pub(super) async fn open(
        pipes: Pipes,
        events: EventSink,
        backlog: Backlog,
    ) -> Result<(Self, InboundMessages), String> {
        let Pipes { stdin, stdout } = pipes;
        let (messages, receiver) = mpsc::channel(backlog.messages);
        let (budget, most_bytes) = (ByteBudget::new(backlog.bytes), backlog.bytes_in_request);
        let inbox = Arc::new(Inbox { messages, budget, most_bytes, overflow: Notify::new() });
        let (opened, connection) = oneshot::channel();
        let (close, closed) = oneshot::channel::<()>();
        let transport = Lines::new(outgoing(stdin), incoming(stdout, events, inbox.budget.clone()));
        let [forwarding, watching, ending] = std::array::from_fn(|_| Arc::clone(&inbox));
        let task = tokio::spawn(async move {
            let ended = Client
                .v1()
                .on_receive_dispatch(
                    async move |dispatch: Dispatch, _: ConnectionTo<Agent>| forward(&forwarding, dispatch),
                    agent_client_protocol::on_receive_dispatch!(),
                )
                .connect_with(transport, async move |peer: ConnectionTo<Agent>| {
                    let _ = opened.send(peer.clone());
                    tokio::select! {
                        () = peer.incoming_closed() => {}
                        _ = closed => {}
                        () = watching.overflow.notified() => {
                            tracing::warn!(?backlog, "the agent sends more than can be processed, and is disconnected");
                        }
                    }
                    Ok(())
                })
                .await;
            if let Err(error) = ended {
                tracing::debug!(code = ?error.code, "the connection to the agent ended");
            }
            let held = ending.budget.hold(0);
            let _ = ending.messages.send((Inbound::Closed, held)).await;
        });
        let task = task.abort_handle();
        let peer = connection.await.map_err(|_| "failed to connect to the agent".to_owned())?;
        Ok((Self { peer, inbox, _close: close, task }, InboundMessages(receiver)))
    }

    /// Sends a request and waits for the response. Must not run in the connection's own task, which reads the response.
    pub(super) async fn request(
        &self,
        method: &str,
        parameters: Value,
    ) -> Result<Value, agent_client_protocol::Error> {
        // The driver takes no messages meanwhile, and the response follows them.
        let _reads_on = self.inbox.budget.exempt();
        self.peer.send_request(UntypedMessage::new(method, parameters)?).block_task().await
    }

    pub(super) fn is_closed(&self) -> bool {
        self.peer.is_incoming_closed() || self.peer.termination().is_some()
    }

    pub(super) fn notify(&self, method: &str, parameters: Value) {
        let sent =
            UntypedMessage::new(method, parameters).and_then(|message| self.peer.send_notification(message));
        if let Err(error) = sent {
            // `Closed` reports the end of the connection.
            tracing::debug!(code = ?error.code, method, "failed to send a notification");
        }
    }

    /// Sends a prompt. Its response arrives on the channel.
    pub(super) fn prompt(&self, number: u64, parameters: Value) {
        self.send("session/prompt", parameters, move |response| Inbound::Prompted(number, response));
    }

    /// Sends a message into the current turn. Its response arrives on the channel.
    pub(super) fn steer(&self, number: u64, parameters: Value) {
        self.send("_session/steering", parameters, move |response| Inbound::Steered(number, response));
    }

    fn send(
        &self,
        method: &str,
        parameters: Value,
        inbound: impl Fn(Result<Value, agent_client_protocol::Error>) -> Inbound + Clone + Send + 'static,
    ) {
        let (inbox, answered) = (Arc::clone(&self.inbox), inbound.clone());
        let sent = UntypedMessage::new(method, parameters).and_then(|message| {
            self.peer.send_request(message).on_receiving_result(async move |response| {
                inbox.put(answered(response));
                Ok(())
            })
        });
        if let Err(error) = sent {
            self.inbox.put(inbound(Err(error)));
        }
    }
}

fn forward(inbox: &Inbox, dispatch: Dispatch) -> Result<(), agent_client_protocol::Error> {
    match dispatch {
        Dispatch::Request(message, responder) => {
            let (method, parameters) = message.into_parts();
            inbox.put(Inbound::Request(method, parameters, responder));
            Ok(())
        }
        Dispatch::Notification(message) => {
            let (method, parameters) = message.into_parts();
            inbox.put(Inbound::Notification(method, parameters));
            Ok(())
        }
        Dispatch::Response(response, router) => router.route_with_result(response),
    }
}

fn outgoing(stdin: ChildStdin) -> impl futures_util::Sink<String, Error = std::io::Error> + Send + 'static {
    sink::unfold(stdin, |mut stdin, mut line: String| async move {
        line.push('\n');
        stdin.write_all(line.as_bytes()).await?;
        stdin.flush().await?;
        Ok(stdin)
    })
}

/// The lines from the agent, each as soon as it has room. Lines that are not JSON objects go to the log, because programs print to
/// standard output by mistake.
fn incoming(
    stdout: ChildStdout,
    events: EventSink,
    budget: ByteBudget,
) -> impl futures_util::Stream<Item = std::io::Result<String>> + Send + 'static {
    let state = (BufReader::with_capacity(64 * 1024, stdout), events, budget);
    stream::unfold(state, |(mut reader, events, budget)| async move {
        loop {
            // The connection first forwards the previous line, which then counts.
            tokio::task::yield_now().await;
            budget.room().await;
            let line = match read_line(&mut reader, MAX_LINE_BYTES).await {
                Ok(Some(Line::Whole(line))) => String::from_utf8_lossy(&line).into_owned(),
                Ok(Some(Line::TooLong)) => {
                    log_stray_output(&events, SKIPPED.to_owned()).await;
                    continue;
                }
                // An incomplete last line is not a message.
                Ok(Some(Line::Unfinished(_)) | None) => return None,
                Err(e) => return Some((Err(e), (reader, events, budget))),
            };
            if line.trim_start().starts_with('{') {
                return Some((Ok(line), (reader, events, budget)));
            }
            if !line.trim().is_empty() {
                log_stray_output(&events, line).await;
            }
        }
    })
}

async fn log_stray_output(events: &EventSink, content: String) {
    let content = pilothouse_domain::text::cut(&content, 4000);
    // If the spool is broken, another task ends the run.
    let _ = events.emit(RawEvent::LogChunk { stream: "agent".into(), content }).await;
}

#[cfg(test)]
mod tests {
    use std::process::Stdio;
    use std::time::Duration;

    use serde_json::json;
    use tempfile::TempDir;
    use tokio::process::{Child, Command};
    use tokio::task::yield_now;
    use tokio::time::timeout;

    use super::*;
    use crate::spool::tests::open as spool;

    const UPDATES: u64 = 100;
    const LENGTH: usize = 100_000;
    /// Sends numbered updates of about `LENGTH` bytes.
    const FLOOD: &str = r#"n=0
        while [ $n -lt 100 ]; do
            printf '{"jsonrpc":"2.0","method":"session/update","params":{"n":%d,"text":"%0100000d"}}\n' $n 0
            n=$((n+1))
        done"#;

    /// A fake agent that runs a shell script.
    struct FakeAgent {
        connection: Connection,
        inbound: InboundMessages,
        _process: Child,
        _run: TempDir,
    }

    impl FakeAgent {
        async fn start(script: &str, backlog: Backlog) -> Self {
            let mut process = Command::new("sh")
                .args(["-c", script])
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .kill_on_drop(true)
                .spawn()
                .unwrap();
            let pipes =
                Pipes { stdin: process.stdin.take().unwrap(), stdout: process.stdout.take().unwrap() };
            let run = tempfile::tempdir().unwrap();
            let events = EventSink::new(spool(run.path()));
            let (connection, inbound) = Connection::open(pipes, events, backlog).await.unwrap();
            Self { connection, inbound, _process: process, _run: run }
        }

        fn waiting(&self) -> usize {
            self.connection.inbox.budget.used()
        }

        /// The numbers of all updates until the end of the connection.
        async fn updates(&mut self) -> Vec<Option<u64>> {
            let mut updates = Vec::new();
            loop {
                match self.inbound.next().await {
                    Inbound::Notification(_, parameters) => updates.push(parameters["n"].as_u64()),
                    Inbound::Closed => return updates,
                    other => panic!("{other:?}"),
                }
            }
        }
    }

    #[tokio::test]
    async fn flood_of_an_agent_waits_and_arrives_in_order() {
        let limit = 10 * LENGTH;
        let mut agent = FakeAgent::start(FLOOD, Backlog { bytes: limit, ..BACKLOG }).await;
        let all = async {
            while agent.waiting() < limit {
                yield_now().await;
            }
            // Without a bound, the other updates would arrive meanwhile.
            for _ in 0..10_000 {
                assert!(agent.waiting() < limit + 2 * LENGTH, "{}", agent.waiting());
                yield_now().await;
            }
            agent.updates().await
        };
        let updates = timeout(Duration::from_mins(1), all).await.unwrap();
        assert_eq!(updates, (0..UPDATES).map(Some).collect::<Vec<_>>());
    }

    /// A driver that waits for a response takes no messages, for example while an agent repeats a conversation that it loads.
    #[tokio::test]
    async fn response_behind_more_than_the_limit_arrives() {
        let answer = r#"printf '{"jsonrpc":"2.0","id":%s,"result":{"loaded":true}}\n' "$id""#;
        let script = format!(
            "read -r request\nid=$(printf '%s' \"$request\" | sed -E 's/.*\"id\":(\"[^\"]*\"|[0-9]+).*/\\1/')\n{FLOOD}\n{answer}"
        );
        let mut agent = FakeAgent::start(&script, Backlog { bytes: LENGTH, ..BACKLOG }).await;
        let all = async {
            let response = agent.connection.request("_test/load", json!({})).await.unwrap();
            assert_eq!(response, json!({ "loaded": true }));
            agent.updates().await
        };
        let updates = timeout(Duration::from_mins(1), all).await.unwrap();
        assert_eq!(updates, (0..UPDATES).map(Some).collect::<Vec<_>>());
    }

    #[tokio::test]
    async fn agent_that_floods_a_waiting_driver_is_disconnected() {
        let flood = r#"exec yes '{"jsonrpc":"2.0","method":"session/update","params":{}}'"#;
        for (backlog, most) in [
            (Backlog { messages: 10, ..BACKLOG }, 10),
            (Backlog { bytes: 1, bytes_in_request: 50_000, ..BACKLOG }, 50),
        ] {
            let mut agent = FakeAgent::start(flood, backlog).await;
            let all = async {
                agent.connection.request("_test/load", json!({})).await.unwrap_err();
                agent.updates().await
            };
            let updates = timeout(Duration::from_mins(1), all).await.unwrap().len();
            assert!((1..=most).contains(&updates), "{updates} of {most}");
        }
    }
}
