//! JSON-RPC over the agent's pipes. One channel yields all messages in order, so the last text of a turn precedes the
//! end of the turn.

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
use crate::kit::lines::{Line, MAX_LINE_BYTES, SKIPPED, read_line};

/// Messages that the driver has not processed yet. An agent that sends more is disconnected.
pub(super) const MAX_BACKLOG: usize = 100_000;

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

/// Gives messages to the driver.
struct Inbox {
    messages: mpsc::Sender<Inbound>,
    /// Notified when a message did not fit.
    overflow: Notify,
}

impl Inbox {
    /// The connection cannot wait for the driver, which may wait for a response on it. A message without room ends the connection,
    /// because a lost one would leave the driver with a wrong picture of the agent.
    fn put(&self, message: Inbound) {
        // Without a driver nobody needs the message.
        if let Err(TrySendError::Full(_)) = self.messages.try_send(message) {
            self.overflow.notify_one();
        }
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
    /// The receiver yields the agent's messages, of which at most `backlog` may wait.
    pub(super) async fn open(
        pipes: Pipes,
        events: EventSink,
        backlog: usize,
    ) -> Result<(Self, mpsc::Receiver<Inbound>), String> {
        let Pipes { stdin, stdout } = pipes;
        let (messages, receiver) = mpsc::channel(backlog);
        let inbox = Arc::new(Inbox { messages, overflow: Notify::new() });
        let (opened, connection) = oneshot::channel();
        let (close, closed) = oneshot::channel::<()>();
        let transport = Lines::new(outgoing(stdin), incoming(stdout, events));
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
                            tracing::warn!(backlog, "the agent sends more than can be processed, and is disconnected");
                        }
                    }
                    Ok(())
                })
                .await;
            if let Err(error) = ended {
                tracing::debug!(code = ?error.code, "the connection to the agent ended");
            }
            let _ = ending.messages.send(Inbound::Closed).await;
        });
        let task = task.abort_handle();
        let peer = connection.await.map_err(|_| "failed to connect to the agent".to_owned())?;
        Ok((Self { peer, inbox, _close: close, task }, receiver))
    }

    /// Sends a request and waits for the response. Must not run in the connection's own task, which reads the response.
    pub(super) async fn request(
        &self,
        method: &str,
        parameters: Value,
    ) -> Result<Value, agent_client_protocol::Error> {
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

/// The lines from the agent. Lines that are not JSON objects go to the log, because programs print to standard output
/// by mistake.
fn incoming(
    stdout: ChildStdout,
    events: EventSink,
) -> impl futures_util::Stream<Item = std::io::Result<String>> + Send + 'static {
    let state = (BufReader::with_capacity(64 * 1024, stdout), events);
    stream::unfold(state, |(mut reader, events)| async move {
        loop {
            let line = match read_line(&mut reader, MAX_LINE_BYTES).await {
                Ok(Some(Line::Whole(line))) => String::from_utf8_lossy(&line).into_owned(),
                Ok(Some(Line::TooLong)) => {
                    log_stray_output(&events, SKIPPED.to_owned()).await;
                    continue;
                }
                // An incomplete last line is not a message.
                Ok(Some(Line::Unfinished(_)) | None) => return None,
                Err(e) => return Some((Err(e), (reader, events))),
            };
            if line.trim_start().starts_with('{') {
                return Some((Ok(line), (reader, events)));
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

    use tokio::process::Command;
    use tokio::time::timeout;

    use super::*;
    use crate::spool::tests::open as spool;

    #[tokio::test]
    async fn agent_that_floods_its_driver_is_disconnected() {
        let update = r#"{"jsonrpc":"2.0","method":"session/update","params":{}}"#;
        let mut agent = Command::new("yes")
            .arg(update)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let pipes = Pipes { stdin: agent.stdin.take().unwrap(), stdout: agent.stdout.take().unwrap() };
        let run = tempfile::tempdir().unwrap();
        let (connection, mut inbound) =
            Connection::open(pipes, EventSink::new(spool(run.path())), 10).await.unwrap();
        let all = async {
            // The driver reads nothing meanwhile.
            while !connection.is_closed() {
                tokio::task::yield_now().await;
            }
            let mut updates = 0;
            loop {
                match inbound.recv().await.unwrap() {
                    Inbound::Notification(..) => updates += 1,
                    Inbound::Closed => return updates,
                    other => panic!("{other:?}"),
                }
            }
        };
        assert_eq!(timeout(Duration::from_mins(1), all).await.unwrap(), 10);
    }
}
