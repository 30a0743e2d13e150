//! Two runs of one session never overlap on a worker (decision 13).

use std::fs::{self, File};
use std::sync::atomic::Ordering;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use pilothouse_domain::RunId;
use pilothouse_runtime::{AgentRuntime, LaunchError, ProcessState};
use pilothouse_wire::launch::LaunchRequest;
use pilothouse_worker::{ClaimOutcome, Worker};
use uuid::Uuid;

use crate::adoption::{Server, sidecar};
use crate::support::{UNTIL_RELEASED, WorkerFixture, is_locked, request, wait_until};

/// Leaves a process outside the group that shares the session lock, like an agent's process whose guard was killed.
const SURVIVOR: &str = r#"
    home=$(echo "$data"/sessions/*)
    setsid sh -c 'exec 8<"$1/lock"; flock -s 8; : >"$2/survives.lock"; exec 9>"$2/survives.lock"; flock 9; : >"$2/survives"
        tries=0; while [ ! -e "$2/release" ] && [ $tries -lt 3000 ]; do sleep 0.02; tries=$((tries + 1)); done
    ' survivor "$home" "$dir" 9>&- &
    wait_for "$dir/survives"
    wait_for "$dir/go"
"#;

fn next_of(request: &LaunchRequest) -> LaunchRequest {
    LaunchRequest { run_id: RunId::new(Uuid::now_v7()), ordinal: request.ordinal + 1, ..request.clone() }
}

/// A run whose sidecar was killed and left a process behind.
async fn survived(fixture: &WorkerFixture, worker: &Worker) -> LaunchRequest {
    let request = request();
    worker.launch(request.clone()).await.unwrap();
    fixture.running(request.run_id).await;
    let survives = fixture.dir(request.run_id).join("survives");
    wait_until("there is a survivor", || survives.exists()).await;
    kill(sidecar(fixture, &request), Signal::SIGKILL).unwrap();
    request
}

#[tokio::test]
async fn a_run_waits_for_processes_of_the_previous_run() {
    let fixture = WorkerFixture::new(SURVIVOR);
    let recorder = fixture.recorder();
    let mut config = fixture.config();
    config.timing.survivor_grace = Duration::from_mins(1);
    let worker = Worker::start(config, recorder.ports()).await.unwrap();
    let first = survived(&fixture, &worker).await;
    wait_until("the sidecar is gone", || !is_locked(&fixture.dir(first.run_id).join("lock"))).await;

    let second = next_of(&first);
    let refused = worker.launch(second.clone()).await;
    assert!(matches!(refused, Err(LaunchError::SessionBusy { session }) if session == first.session_id));
    assert_eq!(recorder.claims.load(Ordering::SeqCst), 1, "the second run was not claimed");
    assert!(recorder.reported().is_empty(), "an end was reported while something of the run lives");

    File::create(fixture.dir(first.run_id).join("release")).unwrap();
    recorder.exit_of(first.run_id).await;
    fs::write(fixture.data().join("behaviour"), "exit 0").unwrap();
    worker.launch(second.clone()).await.unwrap();
    recorder.exit_of(second.run_id).await;
}

#[tokio::test]
async fn survivors_are_killed_before_the_exit_is_reported() {
    let fixture = WorkerFixture::new(SURVIVOR);
    let recorder = fixture.recorder();
    let worker = fixture.worker(&recorder).await;
    let run = survived(&fixture, &worker).await.run_id;
    recorder.exit_of(run).await;
    assert!(!is_locked(&fixture.dir(run).join("survives.lock")), "it lives");
}

/// A machine may sleep and its processes may be suspended: the run continues, and no second one starts.
#[tokio::test]
async fn a_suspended_sidecar_keeps_its_run() {
    let fixture = WorkerFixture::new(UNTIL_RELEASED);
    let recorder = fixture.recorder();
    let worker = fixture.worker(&recorder).await;
    let request = request();
    worker.launch(request.clone()).await.unwrap();
    fixture.running(request.run_id).await;
    let pid = sidecar(&fixture, &request);
    kill(pid, Signal::SIGSTOP).unwrap();
    assert!(matches!(worker.launch(next_of(&request)).await, Err(LaunchError::SessionBusy { .. })));
    assert_eq!(worker.state(request.run_id).await, ProcessState::Alive);
    kill(pid, Signal::SIGCONT).unwrap();
    fixture.release(request.run_id);
    let exit = recorder.exit_of(request.run_id).await.exit;
    assert_eq!((exit.code, exit.signal), (Some(0), None));
}

#[tokio::test]
async fn a_sidecar_keeps_the_lock_of_a_killed_worker() {
    let fixture = WorkerFixture::new(UNTIL_RELEASED);
    let request = request();
    let server = Server::start(&fixture, &request);
    fixture.running(request.run_id).await;
    server.kill();

    let recorder = fixture.recorder();
    let worker = fixture.worker(&recorder).await;
    assert!(matches!(worker.launch(next_of(&request)).await, Err(LaunchError::SessionBusy { .. })));
    fixture.release(request.run_id);
    recorder.exit_of(request.run_id).await;
    assert_eq!(fixture.started(), 1);
}

#[tokio::test]
async fn killing_lost_runs_waits_for_their_end() {
    let fixture = WorkerFixture::new("trap '' TERM; grandchild; wait_for $dir/go");
    let recorder = fixture.recorder();
    let worker = fixture.worker(&recorder).await;
    let (lost, kept) = (request(), request());
    for request in [&lost, &kept] {
        worker.launch(request.clone()).await.unwrap();
        fixture.running(request.run_id).await;
    }
    let pid: Pid = sidecar(&fixture, &lost);
    // Runs that the worker does not have need no end.
    worker.kill_lost_runs(&[lost.run_id, RunId::new(Uuid::now_v7())]).await;
    assert_eq!(worker.state(lost.run_id).await, ProcessState::Dead);
    assert_eq!(worker.state(kept.run_id).await, ProcessState::Alive);
    assert!(kill(pid, None).is_err(), "its sidecar lives");
    let next = next_of(&lost);
    worker.launch(next.clone()).await.unwrap();
    fixture.running(next.run_id).await;
    for run in [kept.run_id, next.run_id] {
        fixture.release(run);
        recorder.exit_of(run).await;
    }
}

/// The heartbeats of a worker wait for its lost runs, so a launch that is given up must not keep them waiting.
#[tokio::test]
async fn killing_lost_runs_does_not_wait_for_abandoned_launches() {
    let fixture = WorkerFixture::new("exit 0");
    let recorder = fixture.recorder();
    *recorder.claim.lock().unwrap() = Some(ClaimOutcome::RunIsOver);
    let mut config = fixture.config();
    config.timing.session_lock = Duration::from_mins(1);
    let worker = Worker::start(config, recorder.ports()).await.unwrap();
    let lost = request();
    let home = fixture.data().join("sessions").join(lost.session_id.to_string());
    fs::create_dir_all(&home).unwrap();
    let holder = File::create(home.join("lock")).unwrap();
    holder.lock().unwrap();

    let kill = async {
        wait_until("the launch waits for the lock", || !worker.runs().is_empty()).await;
        let runs = [lost.run_id];
        tokio::join!(worker.kill_lost_runs(&runs), async { drop(holder) });
    };
    let kill = tokio::time::timeout(Duration::from_mins(1), kill);
    let (launched, killed) = tokio::join!(worker.launch(lost.clone()), kill);
    launched.unwrap();
    killed.unwrap();
    assert_eq!(recorder.claims.load(Ordering::SeqCst), 1);
    assert_eq!(worker.state(lost.run_id).await, ProcessState::Unknown);
    assert_eq!(fixture.started(), 0);
}
