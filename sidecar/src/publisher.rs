//! Publishes the spool in order: an envelope is sent only after its predecessor was accepted. Where requests are billed, envelopes
//! that are not urgent are sent together ([`BatchWindow`]). The receipt of a command waits briefly for the outcome.

use std::sync::Arc;
use std::time::Duration;

use pilothouse_wire::gateway::SendEntry;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};
use tracing::{debug, warn};

use crate::batching::BatchWindow;
use crate::broker::{Broker, BrokerError};
use crate::faults::Faults;
use crate::lease::{Lease, Moment};
use crate::link::Link;
use crate::retry::Backoff;
use crate::spool::{Batch, BatchEntry, Spool, SpoolError, Urgency};

/// The limit of SQS.
const MAX_ENTRIES: usize = 10;
/// Approximate size limit of a request, which limits the time until a response.
const MAX_BYTES: usize = 256 * 1024;
/// The longest wait of a receipt. A person does not notice it, and most commands are carried out within it.
const RECEIPT_WAIT: Duration = Duration::from_millis(50);

#[derive(Debug, thiserror::Error)]
pub enum PublishError {
    /// The broker refused the run for good.
    #[error("the broker refuses this run")]
    Rejected(#[source] BrokerError),
    #[error(transparent)]
    Spool(#[from] SpoolError),
    /// No publish was accepted for the length of the run's lease.
    #[error("the lease of this run has expired")]
    LeaseExpired,
}

/// State that an accepted publish updates.
#[derive(Clone, Default)]
pub struct Connection {
    pub link: Arc<Link>,
    /// How long the agent may run without the control plane.
    pub lease: Lease,
}

impl Connection {
    /// Records that a request sent at `sent` was accepted.
    pub fn published(&self, sent: Moment) {
        self.link.published(sent.at());
        self.lease.renew(sent);
    }
}

/// What became of a batch.
struct Accepted {
    /// Number of accepted entries.
    count: usize,
    /// What the spool had afterwards.
    next: Option<Batch>,
}

pub struct Publisher {
    spool: Spool,
    broker: Broker,
    window: BatchWindow,
    connection: Connection,
    faults: Faults,
    backoff: Backoff,
    drained: watch::Sender<bool>,
}

impl Publisher {
    /// Creates a publisher that waits for `backoff` after a failed request. The receiver is true while everything in
    /// the spool is accepted.
    pub fn new(
        spool: Spool,
        broker: Broker,
        window: BatchWindow,
        connection: Connection,
        faults: Faults,
        backoff: Backoff,
    ) -> (Self, watch::Receiver<bool>) {
        let (drained, watcher) = watch::channel(false);
        (Self { spool, broker, window, connection, faults, backoff, drained }, watcher)
    }

    /// Publishes until the broker refuses the run for good.
    pub async fn run(self) -> PublishError {
        loop {
            if let Err(e) = self.drain().await {
                return e;
            }
            self.spool.changed().await;
        }
    }

    /// Publishes until the spool is empty, without a time limit.
    pub async fn drain(&self) -> Result<(), PublishError> {
        let mut backoff = self.backoff.clone();
        let mut waiting_since = None;
        let mut next = None;
        loop {
            let batch = self.next_batch(next.take(), &mut waiting_since).await?;
            if batch.entries.is_empty() {
                return Ok(());
            }
            self.faults.while_silent().await;
            let size = batch.entries.len();
            let sent = self.connection.lease.before_publish().ok_or(PublishError::LeaseExpired)?;
            match self.send(batch, sent).await? {
                Ok(Accepted { count, next: found }) if count == size => {
                    backoff.reset();
                    waiting_since = None;
                    next = found;
                }
                Ok(Accepted { count: accepted, next: _ }) => {
                    if accepted == 0 {
                        self.connection.link.failed();
                    }
                    debug!(accepted, size, "the broker accepted part of a batch");
                    tokio::time::sleep(backoff.failed()).await;
                }
                Err(e) if e.is_final() => return Err(PublishError::Rejected(e)),
                Err(e) => {
                    self.connection.link.failed();
                    let wait = backoff.failed();
                    warn!(error = &e as &dyn std::error::Error, ?wait, "events wait");
                    tokio::time::sleep(wait).await;
                }
            }
        }
    }

    /// The next envelopes to send, as soon as they are due; none if none waits. `found` is what the spool had a moment ago.
    /// `waiting_since` is the time at which the first of them was found.
    async fn next_batch(
        &self,
        mut found: Option<Batch>,
        waiting_since: &mut Option<Instant>,
    ) -> Result<Batch, SpoolError> {
        loop {
            let batch = match found.take() {
                Some(batch) => batch,
                None => self.spool.batch(MAX_ENTRIES, MAX_BYTES).await?,
            };
            let is_empty = batch.entries.is_empty();
            self.drained.send_replace(is_empty);
            let since = *waiting_since.get_or_insert_with(Instant::now);
            let (has_progress, has_receipt) = (batch.has(Urgency::Progress), batch.has(Urgency::Receipt));
            let progress_is_due = has_progress && self.window.is_over(since);
            let receipt_is_due = has_receipt && since + RECEIPT_WAIT <= Instant::now();
            if is_empty || batch.is_due() || progress_is_due || receipt_is_due {
                return Ok(batch);
            }
            tokio::select! {
                () = self.spool.changed() => {}
                () = self.window.over(since), if has_progress => {}
                () = sleep_until(since + RECEIPT_WAIT), if has_receipt => {}
            }
        }
    }

    /// Uploads the blobs of a batch, then sends it.
    async fn send(&self, batch: Batch, sent: Moment) -> Result<Result<Accepted, BrokerError>, SpoolError> {
        if let (true, Some(last)) = (batch.has_blobs, batch.last_sequence()) {
            while let Some(blob) = self.spool.next_blob(last).await? {
                let sha256 = blob.sha256.clone();
                if let Err(e) = self.broker.put_blob(blob).await {
                    return Ok(Err(e));
                }
                self.spool.blob_stored(sha256).await?;
            }
        }
        let entries = batch.entries;
        let deliveries: Vec<_> = entries.iter().map(|entry| (entry.sequence, entry.attempt)).collect();
        let entries = entries.into_iter().map(|BatchEntry { message_id, attempt, body, .. }| SendEntry {
            deduplication_id: format!("{message_id}:{attempt}"),
            body,
        });
        match self.broker.send(entries.collect()).await {
            Ok(result) => {
                let accepted: Vec<_> =
                    result.accepted.iter().filter_map(|at| deliveries.get(*at).copied()).collect();
                let count = accepted.len();
                if count == 0 {
                    return Ok(Ok(Accepted { count, next: None }));
                }
                self.connection.published(sent);
                let next = self.spool.accepted(accepted, MAX_ENTRIES, MAX_BYTES).await?;
                Ok(Ok(Accepted { count, next: Some(next) }))
            }
            Err(e) => Ok(Err(e)),
        }
    }
}

#[cfg(test)]
mod tests {
    use pilothouse_domain::CommandId;
    use pilothouse_wire::command::IssuedCommand;
    use pilothouse_wire::event::{Ack, AckStep};
    use pilothouse_wire::launch::BrokerAccess;
    use pilothouse_wire::{Command, RawEvent};
    use uuid::Uuid;

    use super::*;
    use crate::broker::Purpose;
    use crate::spool::Outgoing;
    use crate::spool::tests::{launch, open};

    /// Keeps the paused clock from advancing while the runtime waits for the spool's thread: tokio does not advance it during a blocking
    /// task. Tests advance it themselves.
    struct HeldClock(std::sync::mpsc::Sender<()>);

    impl HeldClock {
        fn hold() -> Self {
            let (held, released) = std::sync::mpsc::channel();
            tokio::task::spawn_blocking(move || released.recv());
            Self(held)
        }
    }

    impl Drop for HeldClock {
        fn drop(&mut self) {
            let _ = self.0.send(());
        }
    }

    /// Without a broker: the tests take the batches and mark them as accepted.
    fn publisher(spool: &Spool, window: &BatchWindow) -> Arc<Publisher> {
        let mut launch = launch();
        if let BrokerAccess::Gateway { url, .. } = &mut launch.broker {
            "http://127.0.0.1:1".clone_into(url);
        }
        let broker = Broker::new(&launch, Purpose::Run).unwrap();
        let (connection, backoff) = (Connection::default(), Backoff::broker(Duration::from_secs(15)));
        let made =
            Publisher::new(spool.clone(), broker, window.clone(), connection, Faults::default(), backoff);
        Arc::new(made.0)
    }

    fn window() -> BatchWindow {
        BatchWindow::of_run(Duration::from_secs(15))
    }

    /// The sequences of the next batch, once it is due.
    fn next(publisher: &Arc<Publisher>) -> tokio::task::JoinHandle<Vec<u64>> {
        let publisher = Arc::clone(publisher);
        tokio::spawn(async move {
            let entries = publisher.next_batch(None, &mut None).await.unwrap().entries;
            let deliveries = entries.iter().map(|entry| (entry.sequence, entry.attempt)).collect();
            publisher.spool.accepted(deliveries, MAX_ENTRIES, MAX_BYTES).await.unwrap();
            entries.iter().map(|entry| entry.sequence).collect()
        })
    }

    fn quiet() -> Outgoing {
        Outgoing::event(RawEvent::LogChunk { stream: "agent".into(), content: "x".into() }).unwrap()
    }

    fn urgent() -> Outgoing {
        let turn_id = pilothouse_domain::TurnId::parse("t1".to_owned()).unwrap();
        Outgoing::event(RawEvent::TurnStarted { turn_id, message_id: None }).unwrap()
    }

    /// Lets the publisher read the spool after a change. The spool carries out requests in their order.
    async fn settle(spool: &Spool) {
        for _ in 0..10 {
            spool.last_sequence().await.unwrap();
            tokio::task::yield_now().await;
        }
    }

    #[tokio::test(start_paused = true)]
    async fn quiet_events_are_sent_together_after_two_seconds() {
        let dir = tempfile::tempdir().unwrap();
        let spool = open(dir.path());
        let _held = HeldClock::hold();
        spool.append(quiet()).await.unwrap();
        let batch = next(&publisher(&spool, &window()));
        settle(&spool).await;
        tokio::time::advance(Duration::from_millis(1900)).await;
        spool.append_all(vec![quiet(), quiet()]).await.unwrap();
        settle(&spool).await;
        assert!(!batch.is_finished(), "the first event waits for two seconds");
        tokio::time::advance(Duration::from_millis(200)).await;
        assert_eq!(batch.await.unwrap(), [1, 2, 3]);
    }

    #[tokio::test(start_paused = true)]
    async fn urgent_event_is_sent_at_once_behind_all_before_it() {
        let dir = tempfile::tempdir().unwrap();
        let spool = open(dir.path());
        let _held = HeldClock::hold();
        let publisher = publisher(&spool, &window());
        spool.append_all(vec![quiet(), quiet()]).await.unwrap();
        let batch = next(&publisher);
        settle(&spool).await;
        assert!(!batch.is_finished());
        spool.append(urgent()).await.unwrap();
        assert_eq!(batch.await.unwrap(), [1, 2, 3]);
        spool.append(quiet()).await.unwrap();
        let later = next(&publisher);
        settle(&spool).await;
        assert!(!later.is_finished(), "events after it wait again");
        later.abort();
    }

    /// The confirmation of a pause or a stop follows everything that the agent reported before.
    #[tokio::test(start_paused = true)]
    async fn confirmation_of_a_command_releases_what_waits() {
        let dir = tempfile::tempdir().unwrap();
        let spool = open(dir.path());
        let _held = HeldClock::hold();
        let publisher = publisher(&spool, &window());
        let command_id = CommandId::new(Uuid::from_u128(9));
        let issued = IssuedCommand { command_id, attempt: 1, command: Command::Pause {} };
        spool.take(issued, None, None).await.unwrap();
        spool.append_all(vec![quiet(), quiet()]).await.unwrap();
        let batch = next(&publisher);
        settle(&spool).await;
        assert!(!batch.is_finished());
        let done = RawEvent::PauseAck(Ack { command_id, step: AckStep::Done });
        spool.acknowledge(command_id, done, true).await.unwrap();
        assert_eq!(batch.await.unwrap(), [1, 2, 3]);
    }

    /// Many commands are carried out at once. Then both acknowledgements share a request, a commit and an invocation.
    #[tokio::test(start_paused = true)]
    async fn receipt_of_a_command_waits_briefly_for_the_outcome() {
        for (window, quick) in [(BatchWindow::default(), true), (window(), true), (window(), false)] {
            let dir = tempfile::tempdir().unwrap();
            let spool = open(dir.path());
            let _held = HeldClock::hold();
            let publisher = publisher(&spool, &window);
            let command_id = CommandId::new(Uuid::from_u128(9));
            let issued = IssuedCommand { command_id, attempt: 1, command: Command::Pause {} };
            let ack = |step| RawEvent::PauseAck(Ack { command_id, step });
            spool.take(issued, None, Some(ack(AckStep::Received))).await.unwrap();
            let batch = next(&publisher);
            settle(&spool).await;
            assert!(!batch.is_finished());
            if quick {
                tokio::time::advance(Duration::from_millis(40)).await;
                spool.acknowledge(command_id, ack(AckStep::Done), true).await.unwrap();
                assert_eq!(batch.await.unwrap(), [1, 2]);
            } else {
                tokio::time::advance(RECEIPT_WAIT).await;
                assert_eq!(batch.await.unwrap(), [1]);
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn end_of_the_run_releases_what_waits() {
        let dir = tempfile::tempdir().unwrap();
        let spool = open(dir.path());
        let _held = HeldClock::hold();
        let window = window();
        spool.append(quiet()).await.unwrap();
        let batch = next(&publisher(&spool, &window));
        settle(&spool).await;
        assert!(!batch.is_finished());
        window.close();
        assert_eq!(batch.await.unwrap(), [1]);
    }

    #[tokio::test(start_paused = true)]
    async fn full_batches_do_not_wait() {
        let dir = tempfile::tempdir().unwrap();
        let spool = open(dir.path());
        let _held = HeldClock::hold();
        let publisher = publisher(&spool, &window());
        spool.append_all((0..12).map(|_| quiet()).collect()).await.unwrap();
        assert_eq!(next(&publisher).await.unwrap(), (1..=10).collect::<Vec<_>>());
        let rest = next(&publisher);
        settle(&spool).await;
        assert!(!rest.is_finished(), "two events do not fill a batch");
        spool.append_all((0..8).map(|_| quiet()).collect()).await.unwrap();
        assert_eq!(rest.await.unwrap(), (11..=20).collect::<Vec<_>>());
    }

    #[tokio::test(start_paused = true)]
    async fn requested_repetition_does_not_wait() {
        let dir = tempfile::tempdir().unwrap();
        let spool = open(dir.path());
        let _held = HeldClock::hold();
        let publisher = publisher(&spool, &window());
        spool.append_all(vec![quiet(), quiet()]).await.unwrap();
        spool.accepted(vec![(1, 1), (2, 1)], MAX_ENTRIES, MAX_BYTES).await.unwrap();
        let replay = Command::Replay { from_sequence: 1, to_sequence: 1 };
        let command_id = CommandId::new(Uuid::from_u128(9));
        let issued = IssuedCommand { command_id, attempt: 1, command: replay };
        spool.take(issued, None, None).await.unwrap();
        assert_eq!(next(&publisher).await.unwrap(), [1]);
    }

    #[tokio::test(start_paused = true)]
    async fn nothing_waits_through_an_embedded_server() {
        let dir = tempfile::tempdir().unwrap();
        let spool = open(dir.path());
        let _held = HeldClock::hold();
        spool.append(quiet()).await.unwrap();
        assert_eq!(next(&publisher(&spool, &BatchWindow::default())).await.unwrap(), [1]);
    }
}
