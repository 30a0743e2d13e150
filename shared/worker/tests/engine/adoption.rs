use std::fs;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::Ordering;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use pilothouse_runtime::{AgentRuntime, ProcessState, StopError, StopMode};
use pilothouse_wire::launch::{LaunchRequest, RunAccessIssuer};
use pilothouse_worker::{ClaimOutcome, StartError, Worker};

use crate::support::{UNTIL_RELEASED, WorkerFixture, request, secret, wait_until};

const DATA: &str = "RUNTIME_TEST_DATA";
const REQUEST: &str = "RUNTIME_TEST_REQUEST";

/// Not a test: the server process that other tests start and kill. Its reports are refused.
#[tokio::test]
#[ignore = "runs as the server of other tests"]
async fn server_to_be_killed() {
    let (Some(data), Ok(request)) = (std::env::var_os(DATA), std::env::var(REQUEST)) else { return };
    let fixture = WorkerFixture::existing(PathBuf::from(data));
    let recorder = fixture.recorder();
    recorder.reports_to_refuse.store(usize::MAX, Ordering::SeqCst);
    let worker = fixture.worker(&recorder).await;
    worker.launch(serde_json::from_str(&request).unwrap()).await.unwrap();
    tokio::time::timeout(Duration::from_mins(1), std::future::pending::<()>()).await.unwrap_err();
}

pub(crate) struct Server(Child);

impl Server {
    pub(crate) fn start(fixture: &WorkerFixture, request: &LaunchRequest) -> Self {
        let child = Command::new(std::env::current_exe().unwrap())
            .args(["--ignored", "--exact", "adoption::server_to_be_killed"])
            .env(DATA, fixture.data())
            .env(REQUEST, serde_json::to_string(request).unwrap())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn();
        Self(child.unwrap())
    }

    pub(crate) fn kill(mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

pub(crate) fn sidecar(fixture: &WorkerFixture, request: &LaunchRequest) -> Pid {
    let lock = fs::read_to_string(fixture.dir(request.run_id).join("lock")).unwrap();
    Pid::from_raw(lock.trim().parse().unwrap())
}

#[tokio::test]
async fn the_next_worker_reports_exits_of_a_dropped_worker_once() {
    let fixture = WorkerFixture::new(UNTIL_RELEASED);
    let recorder = fixture.recorder();
    let worker = fixture.worker(&recorder).await;
    let request = request();
    worker.launch(request.clone()).await.unwrap();
    fixture.running(request.run_id).await;
    drop(worker);

    let worker = fixture.worker(&recorder).await;
    assert_eq!(worker.state(request.run_id).await, ProcessState::Alive);
    worker.launch(request.clone()).await.unwrap();
    assert!(recorder.reported().is_empty());
    fixture.release(request.run_id);
    assert!(recorder.exit_of(request.run_id).await.exit.drained);
    assert_eq!(fixture.started(), 1);

    drop(worker);
    let _worker = fixture.worker(&recorder).await;
    recorder.exit_of(request.run_id).await;
}

#[tokio::test]
async fn a_sidecar_of_a_killed_server_is_adopted() {
    let fixture = WorkerFixture::new(UNTIL_RELEASED);
    let request = request();
    let server = Server::start(&fixture, &request);
    fixture.running(request.run_id).await;
    server.kill();

    let recorder = fixture.recorder();
    let worker = fixture.worker(&recorder).await;
    assert_eq!(worker.state(request.run_id).await, ProcessState::Alive);
    worker.launch(request.clone()).await.unwrap();
    fixture.release(request.run_id);
    let reported = recorder.exit_of(request.run_id).await;
    assert_eq!(reported.session, request.session_id);
    assert_eq!((reported.exit.code, reported.exit.signal), (None, None));
    assert!(reported.exit.drained);
    assert_eq!(reported.drains_before, 1);
    assert_eq!(fixture.started(), 1);
}

#[tokio::test]
async fn an_exit_without_a_server_is_drained_and_reported() {
    let fixture = WorkerFixture::new(UNTIL_RELEASED);
    let request = request();
    let server = Server::start(&fixture, &request);
    fixture.running(request.run_id).await;
    server.kill();
    fixture.release(request.run_id);
    let lock = fixture.dir(request.run_id).join("lock");
    wait_until("the sidecar is gone", || !crate::support::is_locked(&lock)).await;

    let recorder = fixture.recorder();
    let _worker = fixture.worker(&recorder).await;
    let reported = recorder.exit_of(request.run_id).await;
    assert!(reported.exit.drained && reported.drains_before == 1, "{reported:?}");
}

#[tokio::test]
async fn a_recorded_exit_survives_a_kill_before_the_report() {
    let fixture = WorkerFixture::new("exit 7");
    let request = request();
    let server = Server::start(&fixture, &request);
    let noted = fixture.dir(request.run_id).join("exited.json");
    wait_until("the end is noted as drained", || {
        fs::read_to_string(&noted).is_ok_and(|text| text.contains("\"drained\": true"))
    })
    .await;
    server.kill();

    let recorder = fixture.recorder();
    let _worker = fixture.worker(&recorder).await;
    let exit = recorder.exit_of(request.run_id).await.exit;
    assert_eq!((exit.code, exit.drained), (Some(7), true));
    assert_eq!(fixture.drains(request.run_id), 1, "drained twice");
}

#[tokio::test]
async fn an_adopted_process_group_can_be_killed() {
    let fixture = WorkerFixture::new("trap '' TERM; grandchild; wait_for $dir/go");
    let request = request();
    let server = Server::start(&fixture, &request);
    fixture.running(request.run_id).await;
    wait_until("the grandchild runs", || fixture.grandchild_lives(request.run_id)).await;
    server.kill();

    let recorder = fixture.recorder();
    let worker = fixture.worker(&recorder).await;
    worker.stop(request.session_id, request.run_id, StopMode::Terminate).await.unwrap();
    assert_eq!(worker.state(request.run_id).await, ProcessState::Alive);
    worker.stop(request.session_id, request.run_id, StopMode::Kill).await.unwrap();
    recorder.exit_of(request.run_id).await;
    wait_until("the grandchild is gone", || !fixture.grandchild_lives(request.run_id)).await;
}

#[tokio::test]
async fn processes_of_a_crashed_adopted_sidecar_are_killed() {
    let fixture = WorkerFixture::new("grandchild; wait_for $dir/go");
    let request = request();
    let server = Server::start(&fixture, &request);
    fixture.running(request.run_id).await;
    wait_until("the grandchild runs", || fixture.grandchild_lives(request.run_id)).await;
    server.kill();

    let recorder = fixture.recorder();
    let _worker = fixture.worker(&recorder).await;
    tokio::task::yield_now().await; // on this single thread, the worker checks the lock now
    kill(sidecar(&fixture, &request), Signal::SIGKILL).unwrap();
    recorder.exit_of(request.run_id).await;
    wait_until("the grandchild is gone", || !fixture.grandchild_lives(request.run_id)).await;
}

/// Creates what a server leaves that was killed after it prepared a run and before it started the process.
fn prepared(fixture: &WorkerFixture, request: &LaunchRequest) {
    let dir = fixture.dir(request.run_id);
    fs::create_dir_all(&dir).unwrap();
    let access = RunAccessIssuer::via_gateway("").issue(&secret(), request);
    let launch = access.launch(request.clone(), String::new());
    fs::write(dir.join("launch.json"), serde_json::to_vec(&launch).unwrap()).unwrap();
}

#[tokio::test]
async fn a_prepared_run_is_started_by_the_next_worker() {
    let fixture = WorkerFixture::new("exit 0");
    let request = request();
    prepared(&fixture, &request);
    let recorder = fixture.recorder();
    let worker = fixture.worker(&recorder).await;
    worker.launch(request.clone()).await.unwrap();
    let exit = recorder.exit_of(request.run_id).await.exit;
    assert_eq!((exit.code, exit.drained), (Some(0), true));
    worker.launch(request).await.unwrap();
    assert_eq!(fixture.started(), 1);
}

#[tokio::test]
async fn a_prepared_run_that_ended_is_not_started() {
    let fixture = WorkerFixture::new("exit 0");
    let request = request();
    prepared(&fixture, &request);
    let recorder = fixture.recorder();
    *recorder.claim.lock().unwrap() = Some(ClaimOutcome::RunIsOver);
    let _worker = fixture.worker(&recorder).await;
    let exit = recorder.exit_of(request.run_id).await.exit;
    assert!(exit.detail.unwrap().contains("never started"));
    assert!(exit.drained, "there was nothing to drain");
    assert_eq!(fixture.started(), 0);
}

#[tokio::test]
async fn an_unidentified_process_is_not_signalled() {
    let fixture = WorkerFixture::new("exit 0");
    let request = request();
    prepared(&fixture, &request);
    // A sidecar has acquired its lock and not written its process id yet.
    let lock = fs::File::create(fixture.dir(request.run_id).join("lock")).unwrap();
    lock.lock().unwrap();
    let recorder = fixture.recorder();
    let mut config = fixture.config();
    config.timing.start_grace = Duration::from_mins(1);
    let worker = Worker::start(config, recorder.ports()).await.unwrap();
    let stopped = worker.stop(request.session_id, request.run_id, StopMode::Kill).await;
    assert!(matches!(stopped, Err(StopError::Unverified { .. })), "{stopped:?}");
}

#[tokio::test]
async fn unstarted_run_is_stopped_at_once() {
    let fixture = WorkerFixture::new("exit 0");
    let request = request();
    prepared(&fixture, &request);
    let recorder = fixture.recorder();
    let mut config = fixture.config();
    config.timing.start_grace = Duration::from_mins(1);
    let worker = Worker::start(config, recorder.ports()).await.unwrap();
    worker.stop(request.session_id, request.run_id, StopMode::Kill).await.unwrap();
    let exit = recorder.exit_of(request.run_id).await.exit;
    assert!(exit.detail.unwrap().contains("never started"));
}

#[tokio::test]
async fn a_process_id_in_a_released_lock_is_not_signalled() {
    let fixture = WorkerFixture::new("exit 0");
    let request = request();
    prepared(&fixture, &request);
    // A process that reuses the id of an ended sidecar and leads a group.
    let mut bystander = Command::new("sleep").arg("60").process_group(0).spawn().unwrap();
    fs::write(fixture.dir(request.run_id).join("lock"), format!("{}\n", bystander.id())).unwrap();
    let recorder = fixture.recorder();
    let worker = fixture.worker(&recorder).await;
    worker.stop(request.session_id, request.run_id, StopMode::Kill).await.unwrap();
    recorder.exit_of(request.run_id).await;
    worker.stop(request.session_id, request.run_id, StopMode::Kill).await.unwrap();
    assert!(bystander.try_wait().unwrap().is_none(), "a stranger was signalled");
    bystander.kill().unwrap();
    bystander.wait().unwrap();
}

#[tokio::test]
async fn an_invalid_run_directory_is_kept_and_ignored() {
    let fixture = WorkerFixture::new("exit 0");
    let (torn, empty, whole) = (request(), request(), request());
    prepared(&fixture, &torn);
    fs::write(fixture.dir(torn.run_id).join("launch.json"), "{\"sessionId\":").unwrap();
    fs::create_dir(fixture.dir(empty.run_id)).unwrap();
    prepared(&fixture, &whole);
    let recorder = fixture.recorder();
    let worker = fixture.worker(&recorder).await;
    recorder.exit_of(whole.run_id).await;
    for left in [&torn, &empty] {
        worker.launch(left.clone()).await.unwrap();
        assert!(fixture.dir(left.run_id).exists());
        assert_eq!(worker.state(left.run_id).await, ProcessState::Unreachable, "a process may live there");
    }
    assert_eq!(recorder.reported().len(), 1);
    assert_eq!(fixture.started(), 1, "the whole one, which was never started");
}

#[tokio::test(start_paused = true)]
async fn two_workers_do_not_share_a_data_folder() {
    let fixture = WorkerFixture::new("exit 0");
    let recorder = fixture.recorder();
    let _worker = fixture.worker(&recorder).await;
    let second = Worker::start(fixture.config(), recorder.ports()).await;
    assert!(matches!(second, Err(StartError::InUse { .. })));
}
