//! What a new worker does with the runs of the one before it.

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::Ordering;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use pilothouse_runtime::{AgentRuntime, ProcessState, StartError, StopError, StopMode, Worker};
use pilothouse_wire::launch::{AgentApiAccess, BrokerAccess, LaunchRequest, SidecarLaunch};

use crate::support::{Place, UNTIL_TOLD, request, secret, until};

const DATA: &str = "RUNTIME_TEST_DATA";
const REQUEST: &str = "RUNTIME_TEST_REQUEST";

/// Not a test: the server that other tests start as a process of its own and kill. No report of it is accepted.
#[tokio::test]
#[ignore = "runs as the server of other tests"]
async fn server_to_be_killed() {
    let (Some(data), Ok(request)) = (std::env::var_os(DATA), std::env::var(REQUEST)) else { return };
    let place = Place::existing(PathBuf::from(data));
    let recorder = place.recorder();
    recorder.reports_to_refuse.store(usize::MAX, Ordering::SeqCst);
    let worker = place.worker(&recorder).await;
    worker.launch(serde_json::from_str(&request).unwrap()).await.unwrap();
    tokio::time::timeout(Duration::from_mins(1), std::future::pending::<()>()).await.unwrap_err();
}

struct Server(Child);

impl Server {
    fn start(place: &Place, request: &LaunchRequest) -> Self {
        let child = Command::new(std::env::current_exe().unwrap())
            .args(["--ignored", "--exact", "adoption::server_to_be_killed"])
            .env(DATA, place.data())
            .env(REQUEST, serde_json::to_string(request).unwrap())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn();
        Self(child.unwrap())
    }

    fn kill(mut self) {
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

fn sidecar(place: &Place, request: &LaunchRequest) -> Pid {
    let lock = fs::read_to_string(place.dir(request.run_id).join("lock")).unwrap();
    Pid::from_raw(lock.trim().parse().unwrap())
}

#[tokio::test]
async fn a_dropped_worker_leaves_its_sidecars_and_the_next_tells_their_end_once() {
    let place = Place::new(UNTIL_TOLD);
    let recorder = place.recorder();
    let worker = place.worker(&recorder).await;
    let request = request();
    worker.launch(request.clone()).await.unwrap();
    place.running(request.run_id).await;
    drop(worker);

    let worker = place.worker(&recorder).await;
    assert_eq!(worker.state(request.run_id).await, ProcessState::Alive);
    worker.launch(request.clone()).await.unwrap();
    assert!(recorder.told().is_empty());
    place.tell(request.run_id);
    assert!(recorder.end_of(request.run_id).await.exit.drained);
    assert_eq!(place.started(), 1);

    drop(worker);
    let _worker = place.worker(&recorder).await;
    recorder.end_of(request.run_id).await;
}

#[tokio::test]
async fn a_sidecar_of_a_killed_server_is_adopted_and_its_end_told_once() {
    let place = Place::new(UNTIL_TOLD);
    let request = request();
    let server = Server::start(&place, &request);
    place.running(request.run_id).await;
    server.kill();

    let recorder = place.recorder();
    let worker = place.worker(&recorder).await;
    assert_eq!(worker.state(request.run_id).await, ProcessState::Alive);
    worker.launch(request.clone()).await.unwrap();
    place.tell(request.run_id);
    let told = recorder.end_of(request.run_id).await;
    assert_eq!(told.session, request.session_id);
    assert_eq!((told.exit.code, told.exit.signal), (None, None));
    assert!(told.exit.drained);
    assert_eq!(told.drains_before, 1);
    assert_eq!(place.started(), 1);
}

#[tokio::test]
async fn a_sidecar_that_ended_while_there_was_no_server_is_drained_and_told() {
    let place = Place::new(UNTIL_TOLD);
    let request = request();
    let server = Server::start(&place, &request);
    place.running(request.run_id).await;
    server.kill();
    place.tell(request.run_id);
    let lock = place.dir(request.run_id).join("lock");
    until("the sidecar is gone", || !crate::support::is_locked(&lock)).await;

    let recorder = place.recorder();
    let _worker = place.worker(&recorder).await;
    let told = recorder.end_of(request.run_id).await;
    assert!(told.exit.drained && told.drains_before == 1, "{told:?}");
}

#[tokio::test]
async fn how_a_run_ended_is_known_after_a_kill_between_its_end_and_the_report() {
    let place = Place::new("exit 7");
    let request = request();
    let server = Server::start(&place, &request);
    let noted = place.dir(request.run_id).join("exited.json");
    until("the end is noted as drained", || {
        fs::read_to_string(&noted).is_ok_and(|text| text.contains("\"drained\": true"))
    })
    .await;
    server.kill();

    let recorder = place.recorder();
    let _worker = place.worker(&recorder).await;
    let exit = recorder.end_of(request.run_id).await.exit;
    assert_eq!((exit.code, exit.drained), (Some(7), true));
    assert_eq!(place.drains(request.run_id), 1, "drained twice");
}

#[tokio::test]
async fn an_adopted_group_can_be_killed_whole() {
    let place = Place::new("trap '' TERM; grandchild; wait_for $dir/go");
    let request = request();
    let server = Server::start(&place, &request);
    place.running(request.run_id).await;
    until("the grandchild runs", || place.grandchild_lives(request.run_id)).await;
    server.kill();

    let recorder = place.recorder();
    let worker = place.worker(&recorder).await;
    worker.stop(request.session_id, request.run_id, StopMode::Terminate).await.unwrap();
    assert_eq!(worker.state(request.run_id).await, ProcessState::Alive);
    worker.stop(request.session_id, request.run_id, StopMode::Kill).await.unwrap();
    recorder.end_of(request.run_id).await;
    until("the grandchild is gone", || !place.grandchild_lives(request.run_id)).await;
}

#[tokio::test]
async fn what_a_crashed_adopted_sidecar_leaves_behind_ends_with_it() {
    let place = Place::new("grandchild; wait_for $dir/go");
    let request = request();
    let server = Server::start(&place, &request);
    place.running(request.run_id).await;
    until("the grandchild runs", || place.grandchild_lives(request.run_id)).await;
    server.kill();

    let recorder = place.recorder();
    let _worker = place.worker(&recorder).await;
    tokio::task::yield_now().await; // on this one thread, the worker has its first look at the lock now
    kill(sidecar(&place, &request), Signal::SIGKILL).unwrap();
    recorder.end_of(request.run_id).await;
    until("the grandchild is gone", || !place.grandchild_lives(request.run_id)).await;
}

/// Lays down what a server leaves that was killed after it prepared a run and before it started the process.
fn prepared(place: &Place, request: &LaunchRequest) {
    let dir = place.dir(request.run_id);
    fs::create_dir_all(&dir).unwrap();
    let (session, run, secret) = (request.session_id, request.run_id, secret());
    let launch = SidecarLaunch {
        request: request.clone(),
        envelope_key: secret.envelope_key(run),
        key_id: secret.id().to_owned(),
        broker: BrokerAccess::Gateway { url: String::new(), token: secret.gateway_token(session, run) },
        session_home: String::new(),
        agent_api: AgentApiAccess { url: String::new(), api_key: String::new() },
        heartbeat_seconds: 15.0,
        isolation_seconds: 60.0,
    };
    fs::write(dir.join("launch.json"), serde_json::to_vec(&launch).unwrap()).unwrap();
}

#[tokio::test]
async fn a_run_that_was_prepared_and_never_started_is_told_as_over_and_not_started() {
    let place = Place::new("exit 0");
    let request = request();
    prepared(&place, &request);
    let recorder = place.recorder();
    let worker = place.worker(&recorder).await;
    worker.launch(request.clone()).await.unwrap();
    let exit = recorder.end_of(request.run_id).await.exit;
    assert!(exit.detail.unwrap().contains("never started"));
    assert!(exit.drained, "there was nothing to drain");
    assert_eq!(place.started(), 0);
}

#[tokio::test]
async fn a_process_that_has_not_shown_itself_is_not_signalled() {
    let place = Place::new("exit 0");
    let request = request();
    prepared(&place, &request);
    // The moment in which a sidecar has taken its lock and not written its process id yet.
    let lock = fs::File::create(place.dir(request.run_id).join("lock")).unwrap();
    lock.lock().unwrap();
    let recorder = place.recorder();
    let mut config = place.config();
    config.timing.start_grace = Duration::from_mins(1);
    let worker = Worker::start(config, recorder.ports()).await.unwrap();
    let stopped = worker.stop(request.session_id, request.run_id, StopMode::Kill).await;
    assert!(matches!(stopped, Err(StopError::Unverified { .. })), "{stopped:?}");
}

#[tokio::test]
async fn a_run_that_never_started_is_stopped_at_once() {
    let place = Place::new("exit 0");
    let request = request();
    prepared(&place, &request);
    let recorder = place.recorder();
    let mut config = place.config();
    config.timing.start_grace = Duration::from_mins(1);
    let worker = Worker::start(config, recorder.ports()).await.unwrap();
    worker.stop(request.session_id, request.run_id, StopMode::Kill).await.unwrap();
    let exit = recorder.end_of(request.run_id).await.exit;
    assert!(exit.detail.unwrap().contains("never started"));
}

#[tokio::test]
async fn a_process_id_in_a_free_lock_is_not_signalled() {
    let place = Place::new("exit 0");
    let request = request();
    prepared(&place, &request);
    // A process that has the id of a sidecar that is gone, and leads a group.
    let mut bystander = Command::new("sleep").arg("60").process_group(0).spawn().unwrap();
    fs::write(place.dir(request.run_id).join("lock"), format!("{}\n", bystander.id())).unwrap();
    let recorder = place.recorder();
    let worker = place.worker(&recorder).await;
    worker.stop(request.session_id, request.run_id, StopMode::Kill).await.unwrap();
    recorder.end_of(request.run_id).await;
    worker.stop(request.session_id, request.run_id, StopMode::Kill).await.unwrap();
    assert!(bystander.try_wait().unwrap().is_none(), "a stranger was signalled");
    bystander.kill().unwrap();
    bystander.wait().unwrap();
}

#[tokio::test]
async fn a_torn_directory_is_kept_and_holds_up_nothing() {
    let place = Place::new("exit 0");
    let (torn, empty, whole) = (request(), request(), request());
    prepared(&place, &torn);
    fs::write(place.dir(torn.run_id).join("launch.json"), "{\"sessionId\":").unwrap();
    fs::create_dir(place.dir(empty.run_id)).unwrap();
    prepared(&place, &whole);
    let recorder = place.recorder();
    let worker = place.worker(&recorder).await;
    recorder.end_of(whole.run_id).await;
    for left in [&torn, &empty] {
        worker.launch(left.clone()).await.unwrap();
        assert!(place.dir(left.run_id).exists());
        assert_eq!(worker.state(left.run_id).await, ProcessState::Unknown);
    }
    assert_eq!(recorder.told().len(), 1);
    assert_eq!(place.started(), 0);
}

#[tokio::test(start_paused = true)]
async fn two_workers_do_not_share_a_data_folder() {
    let place = Place::new("exit 0");
    let recorder = place.recorder();
    let _worker = place.worker(&recorder).await;
    let second = Worker::start(place.config(), recorder.ports()).await;
    assert!(matches!(second, Err(StartError::InUse { .. })));
}
