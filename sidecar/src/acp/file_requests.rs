//! File requests of the agent that wait for their turn. They run beside the driver, which handles other messages and
//! commands meanwhile. They run one at a time in the agent's order, because two paths may name the same file.

use std::collections::VecDeque;
use std::future::pending;
use std::io;

use serde_json::Value;
use tokio::task::{JoinHandle, spawn_blocking};

use crate::process::in_process::AgentThread;

/// Waiting requests from which on the driver reads no more messages, because each may contain a whole file.
const MAX_WAITING: usize = 4;

/// The response. The error is a sentence for the agent.
type Outcome = Result<Value, String>;

struct FileRequest {
    work: Box<dyn FnOnce() -> Outcome + Send>,
    respond: Box<dyn FnOnce(Outcome) + Send>,
}

pub(super) struct FileRequests {
    /// Accesses files with the agent's rights, if the agent runs as another user or is confined.
    thread: Option<AgentThread>,
    running: Option<JoinHandle<()>>,
    waiting: VecDeque<FileRequest>,
}

impl FileRequests {
    pub(super) fn new(thread: Option<AgentThread>) -> Self {
        Self { thread, running: None, waiting: VecDeque::new() }
    }

    /// Adds a request. [`Self::advance`] runs it.
    pub(super) fn push(
        &mut self,
        work: impl FnOnce() -> Outcome + Send + 'static,
        respond: impl FnOnce(Outcome) + Send + 'static,
    ) {
        self.waiting.push_back(FileRequest { work: Box::new(work), respond: Box::new(respond) });
    }

    pub(super) fn is_full(&self) -> bool {
        self.waiting.len() >= MAX_WAITING
    }

    /// Whether no request runs.
    pub(super) fn is_idle(&self) -> bool {
        self.running.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Runs the next request, and waits for its end. Cancel-safe. Never returns without a request.
    pub(super) async fn advance(&mut self) {
        if self.running.is_none() {
            let Some(request) = self.waiting.pop_front() else { return pending().await };
            self.running = Some(start(self.thread.clone(), request));
        }
        self.until_idle().await;
    }

    /// Runs all requests.
    pub(super) async fn finish(&mut self) {
        while self.running.is_some() || !self.waiting.is_empty() {
            self.advance().await;
        }
    }

    /// Refuses the requests that have not begun, and waits for the one that has. Returns whether any was refused.
    pub(super) async fn cancel(&mut self) -> bool {
        let any = !self.waiting.is_empty();
        for request in self.waiting.drain(..) {
            (request.respond)(Err("no turn runs".to_owned()));
        }
        self.until_idle().await;
        any
    }

    async fn until_idle(&mut self) {
        if let Some(running) = &mut self.running {
            // Its response is sent.
            let _ = running.await;
            self.running = None;
        }
    }
}

fn start(thread: Option<AgentThread>, request: FileRequest) -> JoinHandle<()> {
    let FileRequest { work, respond } = request;
    tokio::spawn(async move {
        let done = match thread {
            Some(thread) => thread.run(async move { work() }).await,
            None => spawn_blocking(work).await.map_err(io::Error::other),
        };
        respond(done.unwrap_or_else(|error| Err(error.to_string())));
    })
}

#[cfg(test)]
mod tests {
    use tokio::sync::{mpsc, oneshot};

    use super::*;

    /// Requests that wait for their turn, and their responses.
    struct Fixture {
        files: FileRequests,
        responses: mpsc::UnboundedSender<Outcome>,
        received: mpsc::UnboundedReceiver<Outcome>,
    }

    impl Fixture {
        fn new() -> Self {
            let (responses, received) = mpsc::unbounded_channel();
            Self { files: FileRequests::new(None), responses, received }
        }

        fn push(&mut self, work: impl FnOnce() -> Outcome + Send + 'static) {
            let responses = self.responses.clone();
            self.files.push(work, move |response| responses.send(response).unwrap());
        }

        /// Waits for another message while the first request runs.
        async fn receive_update(&mut self) {
            let (update, updated) = oneshot::channel();
            update.send(()).unwrap();
            tokio::select! {
                biased;
                () = self.files.advance() => panic!("the request has ended"),
                received = updated => received.unwrap(),
            }
        }

        fn received(&mut self) -> Vec<Outcome> {
            std::iter::from_fn(|| self.received.try_recv().ok()).collect()
        }
    }

    #[tokio::test]
    async fn update_arrives_while_a_request_runs() {
        let mut fixture = Fixture::new();
        let (release, released) = oneshot::channel();
        fixture.push(move || {
            released.blocking_recv().unwrap();
            Ok("first".into())
        });
        fixture.push(|| Ok("second".into()));
        fixture.receive_update().await;
        assert!(!fixture.files.is_idle() && fixture.received().is_empty());
        release.send(()).unwrap();
        fixture.files.finish().await;
        assert!(fixture.files.is_idle());
        assert_eq!(fixture.received(), [Ok("first".into()), Ok("second".into())], "they keep their order");
    }

    #[tokio::test]
    async fn cancelled_request_that_has_not_begun_does_not_run() {
        let mut fixture = Fixture::new();
        let (release, released) = oneshot::channel();
        fixture.push(move || {
            released.blocking_recv().unwrap();
            Ok("first".into())
        });
        fixture.push(|| Ok("second".into()));
        fixture.receive_update().await;
        release.send(()).unwrap();
        assert!(fixture.files.cancel().await);
        assert_eq!(fixture.received(), [Err("no turn runs".to_owned()), Ok("first".into())]);
        assert!(!fixture.files.cancel().await && fixture.files.is_idle());
    }

    #[tokio::test]
    async fn full_queue_takes_messages_again_after_its_next_request() {
        let mut fixture = Fixture::new();
        for _ in 0..MAX_WAITING {
            assert!(!fixture.files.is_full());
            fixture.push(|| Ok(Value::Null));
        }
        assert!(fixture.files.is_full());
        fixture.files.advance().await;
        assert!(!fixture.files.is_full());
    }
}
