//! The lease of a run (decision 13): how long the agent may continue after the last accepted publish.
//!
//! The sidecar measures the lease with [`boot_time`], which includes suspensions of the machine, and writes its end to
//! a file that the guards of all agent processes read. Publisher, heartbeat, model calls and tool starts check the
//! lease first. A run without a lease, as on a worker, never expires.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use pilothouse_agent::process::lease::{LeaseFile, boot_time};
use tokio::time::Instant;
use tracing::warn;

/// Interval between two readings of the clock. A longer timer would be late after a suspension, which timers do not
/// count.
const POLL: Duration = Duration::from_secs(1);

/// A point in time by two clocks.
#[derive(Debug, Clone, Copy)]
pub struct Moment {
    /// By the clock of the lease; zero if the run has none.
    boot: Duration,
    at: Instant,
}

impl Moment {
    fn now(boot: Duration) -> Self {
        Self { boot, at: Instant::now() }
    }

    /// The time by the clock of timers.
    pub const fn at(self) -> Instant {
        self.at
    }
}

/// A clock that includes suspensions of the machine.
pub type BootClock = Arc<dyn Fn() -> Duration + Send + Sync>;

/// The lease of one run. Cheap to clone.
#[derive(Clone, Default)]
pub struct Lease(Option<Arc<Held>>);

struct Held {
    length: Duration,
    clock: BootClock,
    path: PathBuf,
    file: LeaseFile,
    /// Milliseconds of the clock.
    until: AtomicU64,
}

impl Lease {
    /// Starts a lease of this length on the machine's clock. Without a length the lease never expires.
    pub fn begin(length: Option<Duration>, path: &Path) -> io::Result<Self> {
        length.map_or(Ok(Self::default()), |length| Self::begin_by(length, path, Arc::new(boot_time)))
    }

    /// Like [`Self::begin`], with another clock.
    pub fn begin_by(length: Duration, path: &Path, clock: BootClock) -> io::Result<Self> {
        let until = clock() + length;
        let file = LeaseFile::create(path, until)?;
        let until = AtomicU64::new(millis(until));
        Ok(Self(Some(Arc::new(Held { length, clock, path: path.to_owned(), file, until }))))
    }

    /// The file that guards read. `None` if the run has no lease.
    pub fn file(&self) -> Option<PathBuf> {
        self.0.as_ref().map(|held| held.path.clone())
    }

    /// The time to pass to [`Self::renew`], read before a publish. `None` once the lease has expired.
    pub fn before_publish(&self) -> Option<Moment> {
        match &self.0 {
            None => Some(Moment::now(Duration::ZERO)),
            Some(held) => {
                let now = (held.clock)();
                (millis(now) < held.until.load(Ordering::SeqCst)).then(|| Moment::now(now))
            }
        }
    }

    /// Extends the lease from `sent`, the time before the accepted publish. An expired lease stays expired, because
    /// guards may have acted on it.
    pub fn renew(&self, sent: Moment) {
        let Some(held) = &self.0 else { return };
        if self.is_expired() {
            return;
        }
        let until = sent.boot + held.length;
        held.until.fetch_max(millis(until), Ordering::SeqCst);
        if let Err(error) = held.file.set(until) {
            warn!(%error, "failed to write the lease; the guards end the agent when the previous one expires");
        }
    }

    pub fn is_expired(&self) -> bool {
        self.before_publish().is_none()
    }

    pub async fn expired(&self) {
        let Some(held) = &self.0 else { return std::future::pending().await };
        while let Some(Moment { boot: now, .. }) = self.before_publish() {
            let left = Duration::from_millis(held.until.load(Ordering::SeqCst)).saturating_sub(now);
            tokio::time::sleep(left.min(POLL)).await;
        }
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A lease of one minute, and the milliseconds of its clock.
    fn lease(dir: &Path) -> (Lease, Arc<AtomicU64>) {
        let time = Arc::new(AtomicU64::new(5_000_000));
        let read = Arc::clone(&time);
        let clock = Arc::new(move || Duration::from_millis(read.load(Ordering::SeqCst)));
        (Lease::begin_by(Duration::from_mins(1), &dir.join("lease"), clock).unwrap(), time)
    }

    #[tokio::test]
    async fn a_run_without_a_lease_never_expires() {
        let dir = tempfile::tempdir().unwrap();
        let lease = Lease::begin(None, &dir.path().join("lease")).unwrap();
        assert!(!lease.is_expired() && lease.file().is_none());
        tokio::select! {
            biased;
            () = lease.expired() => panic!("it expired"),
            () = std::future::ready(()) => {}
        }
    }

    #[test]
    fn lease_counts_from_the_sending_of_accepted_events() {
        let dir = tempfile::tempdir().unwrap();
        let (lease, time) = lease(dir.path());
        let sent = lease.before_publish().unwrap();
        time.fetch_add(50_000, Ordering::SeqCst);
        lease.renew(sent);
        time.fetch_add(9_999, Ordering::SeqCst);
        assert!(!lease.is_expired());
        let sent = lease.before_publish().unwrap();
        lease.renew(sent);
        time.fetch_add(59_999, Ordering::SeqCst);
        assert!(!lease.is_expired());
        time.fetch_add(1, Ordering::SeqCst);
        assert!(lease.is_expired());
    }

    /// The response arrives after a jump of the clock.
    #[tokio::test]
    async fn an_expired_lease_is_not_renewed() {
        let dir = tempfile::tempdir().unwrap();
        let (lease, time) = lease(dir.path());
        let sent = lease.before_publish().unwrap();
        time.fetch_add(3_600_000, Ordering::SeqCst);
        lease.renew(sent);
        assert!(lease.is_expired());
        lease.expired().await;
    }

    #[tokio::test(start_paused = true)]
    async fn a_suspension_is_noticed_within_a_second_of_waking() {
        let dir = tempfile::tempdir().unwrap();
        let (lease, time) = lease(dir.path());
        let start = tokio::time::Instant::now();
        let suspend = async {
            tokio::time::sleep(Duration::from_secs(10)).await;
            time.fetch_add(7_200_000, Ordering::SeqCst);
        };
        tokio::join!(lease.expired(), suspend);
        assert!(start.elapsed() <= Duration::from_secs(11));
    }
}
