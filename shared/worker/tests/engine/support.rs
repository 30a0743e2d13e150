//! A data folder with a fake sidecar, and ports that record calls.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use nix::fcntl::{Flock, FlockArg};
use pilothouse_domain::{AgentSessionId, RunId};
use pilothouse_runtime::{ClaimError, ReportError, RunEvents};
use pilothouse_test_support::launch_request;
use pilothouse_wire::RootSecret;
use pilothouse_wire::launch::{LaunchRequest, RunAccessIssuer, RunExit};
use pilothouse_worker::{ClaimOutcome, Environment, Ports, RunClaims, Timing, Worker, WorkerConfig};
use tokio::time::{Instant, sleep};

/// Behaviour of a sidecar: run until the test releases it, then exit with 0.
pub(crate) const UNTIL_RELEASED: &str = "wait_for $dir/go";

/// A data folder with a fake sidecar.
pub(crate) struct WorkerFixture {
    folder: PathBuf,
    _temporary: Option<tempfile::TempDir>,
}

impl WorkerFixture {
    pub(crate) fn new(behaviour: &str) -> Self {
        let temporary = tempfile::tempdir().unwrap();
        let fixture = Self { folder: temporary.path().canonicalize().unwrap(), _temporary: Some(temporary) };
        fs::write(fixture.data().join("behaviour"), behaviour).unwrap();
        fixture.drain("exit 0");
        fixture
    }

    /// The fixture of another process.
    pub(crate) fn existing(folder: PathBuf) -> Self {
        Self { folder, _temporary: None }
    }

    pub(crate) fn drain(&self, behaviour: &str) {
        fs::write(self.data().join("drain"), behaviour).unwrap();
    }

    pub(crate) fn data(&self) -> &Path {
        &self.folder
    }

    pub(crate) fn dir(&self, run: RunId) -> PathBuf {
        self.data().join("runs").join(run.to_string())
    }

    pub(crate) fn config(&self) -> WorkerConfig {
        let fake = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/engine/fake_sidecar.sh");
        let mut config = WorkerConfig::new(self.data(), fake);
        config.timing = Timing {
            poll_interval: Duration::from_millis(20),
            start_grace: Duration::from_millis(100),
            session_lock: Duration::from_millis(100),
            survivor_grace: Duration::from_millis(500),
            drain_timeout: Duration::from_secs(10),
            first_retry_delay: Duration::from_millis(1),
            max_retry_delay: Duration::from_millis(10),
        };
        config.environment = Environment::inherited();
        config
    }

    pub(crate) fn recorder(&self) -> Arc<Recorder> {
        Arc::new(Recorder { runs: self.data().join("runs"), ..Recorder::default() })
    }

    pub(crate) async fn worker(&self, recorder: &Arc<Recorder>) -> Worker {
        Worker::start(self.config(), recorder.ports()).await.unwrap()
    }

    /// How many sidecars were started.
    pub(crate) fn started(&self) -> usize {
        fs::read_to_string(self.data().join("started")).map_or(0, |text| text.lines().count())
    }

    /// How often a run was drained.
    pub(crate) fn drains(&self, run: RunId) -> usize {
        fs::read_to_string(self.dir(run).join("drains")).map_or(0, |text| text.lines().count())
    }

    /// Waits until the sidecar of a run holds its lock.
    pub(crate) async fn running(&self, run: RunId) {
        let lock = self.dir(run).join("lock");
        wait_until("the sidecar runs", || fs::read_to_string(&lock).is_ok_and(|pid| pid.ends_with('\n')))
            .await;
    }

    /// Whether the grandchild of a run lives, according to the lock that it holds.
    pub(crate) fn grandchild_lives(&self, run: RunId) -> bool {
        is_locked(&self.dir(run).join("grandchild.lock"))
    }

    pub(crate) fn release(&self, run: RunId) {
        File::create(self.dir(run).join("go")).unwrap();
    }
}

pub(crate) fn is_locked(path: &Path) -> bool {
    File::open(path).is_ok_and(|file| Flock::lock(file, FlockArg::LockExclusiveNonblock).is_err())
}

pub(crate) fn secret() -> RootSecret {
    RootSecret::new("test", vec![7; 32]).unwrap()
}

pub(crate) fn request() -> LaunchRequest {
    LaunchRequest { retry_count: 2, ..launch_request() }
}

/// Waits for a condition, at most 20 seconds.
pub(crate) async fn wait_until(what: &str, condition: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_mins(1);
    while !condition() {
        assert!(Instant::now() < deadline, "timed out: {what}");
        sleep(Duration::from_millis(5)).await;
    }
}

/// A reported exit.
#[derive(Debug, Clone)]
pub(crate) struct ReportedExit {
    pub(crate) session: AgentSessionId,
    pub(crate) run: RunId,
    pub(crate) exit: RunExit,
    /// How often the run had been drained before the report.
    pub(crate) drains_before: usize,
}

/// Both ports of a worker: returns the configured claims, fails the configured number of calls, and records all.
#[derive(Default)]
pub(crate) struct Recorder {
    runs: PathBuf,
    /// The result of claims; `None` means [`ClaimOutcome::Claimed`].
    pub(crate) claim: Mutex<Option<ClaimOutcome>>,
    pub(crate) claims: AtomicUsize,
    pub(crate) claims_to_fail: AtomicUsize,
    pub(crate) reports_to_refuse: AtomicUsize,
    pub(crate) reports_refused: AtomicUsize,
    /// While it is away, it refuses reports.
    pub(crate) is_away: AtomicBool,
    /// How often the worker asked whether it is away.
    pub(crate) ready_checks: AtomicUsize,
    reported: Mutex<Vec<ReportedExit>>,
}

impl Recorder {
    pub(crate) fn ports(self: &Arc<Self>) -> Ports {
        Ports { claims: Arc::clone(self) as _, events: Arc::clone(self) as _ }
    }

    pub(crate) fn reported(&self) -> Vec<ReportedExit> {
        self.reported.lock().unwrap().clone()
    }

    /// Waits until the exit of a run is reported and recorded, and returns it. It must have been reported once.
    pub(crate) async fn exit_of(&self, run: RunId) -> ReportedExit {
        let finished = self.runs.join(run.to_string()).join("finished");
        wait_until("the exit is reported and recorded", || finished.exists()).await;
        let mut reported: Vec<_> =
            self.reported().into_iter().filter(|reported| reported.run == run).collect();
        assert_eq!(reported.len(), 1, "{reported:?}");
        reported.remove(0)
    }
}

/// Decrements a counter. Returns whether it was above zero.
fn decrement(left: &AtomicUsize) -> bool {
    left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |n| n.checked_sub(1)).is_ok()
}

#[async_trait]
impl RunClaims for Recorder {
    async fn claim(&self, request: &LaunchRequest) -> Result<ClaimOutcome, ClaimError> {
        self.claims.fetch_add(1, Ordering::SeqCst);
        if decrement(&self.claims_to_fail) {
            return Err(ClaimError("the store is away".into()));
        }
        let access = RunAccessIssuer::via_gateway("http://127.0.0.1:1").issue(&secret(), request);
        Ok(self.claim.lock().unwrap().clone().unwrap_or(ClaimOutcome::Claimed(Box::new(access))))
    }
}

#[async_trait]
impl RunEvents for Recorder {
    async fn report_exit(
        &self,
        session: AgentSessionId,
        run: RunId,
        exit: RunExit,
    ) -> Result<(), ReportError> {
        if self.is_away.load(Ordering::SeqCst) || decrement(&self.reports_to_refuse) {
            self.reports_refused.fetch_add(1, Ordering::SeqCst);
            return Err(ReportError("the queue is away".into()));
        }
        let drains = fs::read_to_string(self.runs.join(run.to_string()).join("drains"));
        let drains_before = drains.map_or(0, |text| text.lines().count());
        self.reported.lock().unwrap().push(ReportedExit { session, run, exit, drains_before });
        Ok(())
    }

    async fn is_ready(&self) -> bool {
        self.ready_checks.fetch_add(1, Ordering::SeqCst);
        !self.is_away.load(Ordering::SeqCst)
    }
}
