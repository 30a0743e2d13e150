//! A data folder with a fake sidecar, and ports that record.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use nix::fcntl::{Flock, FlockArg};
use pilothouse_domain::{AgentSessionId, RunId};
use pilothouse_runtime::{
    ClaimError, ClaimOutcome, Environment, Ports, ReportError, RunClaims, RunEvents, Timing, Worker,
    WorkerConfig,
};
use pilothouse_wire::RootSecret;
use pilothouse_wire::launch::{Entrance, LaunchRequest, RunExit};
use tokio::time::{Instant, sleep};
use uuid::Uuid;

/// Runs until the test says so, and exits with 0.
pub(crate) const UNTIL_TOLD: &str = "wait_for $dir/go";

/// A data folder.
pub(crate) struct Place {
    folder: PathBuf,
    _removed_at_the_end: Option<tempfile::TempDir>,
}

impl Place {
    pub(crate) fn new(behaviour: &str) -> Self {
        let removed = tempfile::tempdir().unwrap();
        let place =
            Self { folder: removed.path().canonicalize().unwrap(), _removed_at_the_end: Some(removed) };
        fs::write(place.data().join("behaviour"), behaviour).unwrap();
        place.drain("exit 0");
        place
    }

    /// The place of another process.
    pub(crate) fn existing(folder: PathBuf) -> Self {
        Self { folder, _removed_at_the_end: None }
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
        let fake = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/worker/fake_sidecar.sh");
        let mut config = WorkerConfig::new(self.data(), fake);
        config.timing = Timing {
            poll: Duration::from_millis(20),
            start_grace: Duration::from_millis(100),
            drain_limit: Duration::from_secs(10),
            first_retry: Duration::from_millis(1),
            longest_retry: Duration::from_millis(10),
        };
        config.environment = Environment::chosen();
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

    /// Waits until the sidecar of a run has its lock.
    pub(crate) async fn running(&self, run: RunId) {
        let lock = self.dir(run).join("lock");
        until("the sidecar runs", || fs::read_to_string(&lock).is_ok_and(|pid| pid.ends_with('\n'))).await;
    }

    /// Whether the grandchild of a run lives, told by the lock that it holds.
    pub(crate) fn grandchild_lives(&self, run: RunId) -> bool {
        is_locked(&self.dir(run).join("grandchild.lock"))
    }

    pub(crate) fn tell(&self, run: RunId) {
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
    LaunchRequest {
        session_id: AgentSessionId::new(Uuid::now_v7()),
        run_id: RunId::new(Uuid::now_v7()),
        ordinal: 1,
        retry_count: 2,
        adapter: "script".to_owned(),
        working_directory: "/tmp".to_owned(),
        worker_labels: std::collections::BTreeMap::new(),
    }
}

/// Waits for a condition, for 20 seconds at most.
pub(crate) async fn until(what: &str, condition: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while !condition() {
        assert!(Instant::now() < deadline, "it did not come to this in time: {what}");
        sleep(Duration::from_millis(5)).await;
    }
}

/// An end that was told.
#[derive(Debug, Clone)]
pub(crate) struct Told {
    pub(crate) session: AgentSessionId,
    pub(crate) run: RunId,
    pub(crate) exit: RunExit,
    /// How often the run had been drained at that moment.
    pub(crate) drains_before: usize,
}

/// Both ports of a worker: answers claims as it is set to, refuses as many calls as it is set to, and records.
#[derive(Default)]
pub(crate) struct Recorder {
    runs: PathBuf,
    /// The answer to claims; nothing is [`ClaimOutcome::Claimed`].
    pub(crate) claim: Mutex<Option<ClaimOutcome>>,
    pub(crate) claims: AtomicUsize,
    pub(crate) claims_to_fail: AtomicUsize,
    pub(crate) reports_to_refuse: AtomicUsize,
    pub(crate) reports_refused: AtomicUsize,
    told: Mutex<Vec<Told>>,
}

impl Recorder {
    pub(crate) fn ports(self: &Arc<Self>) -> Ports {
        Ports { claims: Arc::clone(self) as _, events: Arc::clone(self) as _ }
    }

    pub(crate) fn told(&self) -> Vec<Told> {
        self.told.lock().unwrap().clone()
    }

    /// Waits until the end of a run is told and noted, and returns it. It must have been told once.
    pub(crate) async fn end_of(&self, run: RunId) -> Told {
        let finished = self.runs.join(run.to_string()).join("finished");
        until("the end is told and noted", || finished.exists()).await;
        let mut told: Vec<_> = self.told().into_iter().filter(|told| told.run == run).collect();
        assert_eq!(told.len(), 1, "{told:?}");
        told.remove(0)
    }
}

/// Counts down to zero. Whether it had not reached it yet.
fn use_up(left: &AtomicUsize) -> bool {
    left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |n| n.checked_sub(1)).is_ok()
}

#[async_trait]
impl RunClaims for Recorder {
    async fn claim(&self, request: &LaunchRequest) -> Result<ClaimOutcome, ClaimError> {
        self.claims.fetch_add(1, Ordering::SeqCst);
        if use_up(&self.claims_to_fail) {
            return Err(ClaimError("the store is away".into()));
        }
        let access = Entrance::gateway("http://127.0.0.1:1").admit(&secret(), request);
        Ok(self.claim.lock().unwrap().clone().unwrap_or(ClaimOutcome::Claimed(Box::new(access))))
    }
}

#[async_trait]
impl RunEvents for Recorder {
    async fn exited(&self, session: AgentSessionId, run: RunId, exit: RunExit) -> Result<(), ReportError> {
        if use_up(&self.reports_to_refuse) {
            self.reports_refused.fetch_add(1, Ordering::SeqCst);
            return Err(ReportError("the queue is away".into()));
        }
        let drains = fs::read_to_string(self.runs.join(run.to_string()).join("drains"));
        let drains_before = drains.map_or(0, |text| text.lines().count());
        self.told.lock().unwrap().push(Told { session, run, exit, drains_before });
        Ok(())
    }
}
