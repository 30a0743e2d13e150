//! Signals reach the process group of a run, and nothing else.

use std::time::Duration;

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use pilothouse_domain::{AgentSessionId, RunId};
use pilothouse_runtime::{AgentRuntime, LaunchError, ProcessState, StopMode};
use uuid::Uuid;

use crate::support::{UNTIL_RELEASED, WorkerFixture, request, wait_until};

/// Ignores `SIGTERM`, and so does the process that it starts.
const STUBBORN: &str = "trap '' TERM; grandchild; wait_for $dir/go";

#[tokio::test]
async fn terminate_reaches_the_sidecar() {
    let fixture = WorkerFixture::new("trap 'exit 42' TERM; wait_for $dir/go");
    let recorder = fixture.recorder();
    let worker = fixture.worker(&recorder).await;
    let request = request();
    worker.launch(request.clone()).await.unwrap();
    fixture.running(request.run_id).await;
    // The trap is set right after the lock is acquired; until then a signal ends the shell.
    worker.stop(request.session_id, request.run_id, StopMode::Terminate).await.unwrap();
    let exit = recorder.exit_of(request.run_id).await.exit;
    assert!(exit.code == Some(42) || exit.signal == Some(15), "{exit:?}");
}

#[tokio::test]
async fn kill_ends_the_group_of_a_sidecar_that_ignores_terminate() {
    let fixture = WorkerFixture::new(STUBBORN);
    let recorder = fixture.recorder();
    let worker = fixture.worker(&recorder).await;
    let request = request();
    worker.launch(request.clone()).await.unwrap();
    fixture.running(request.run_id).await;
    wait_until("the grandchild runs", || fixture.grandchild_lives(request.run_id)).await;

    worker.stop(request.session_id, request.run_id, StopMode::Terminate).await.unwrap();
    assert_eq!(worker.state(request.run_id).await, ProcessState::Alive);
    worker.stop(request.session_id, request.run_id, StopMode::Kill).await.unwrap();
    let exit = recorder.exit_of(request.run_id).await.exit;
    assert_eq!((exit.code, exit.signal), (None, Some(9)));
    assert!(exit.drained);
    wait_until("the grandchild is gone", || !fixture.grandchild_lives(request.run_id)).await;
}

#[tokio::test]
async fn processes_of_a_crashed_sidecar_are_killed() {
    let fixture = WorkerFixture::new("grandchild; wait_for $dir/go; kill -9 $$");
    let recorder = fixture.recorder();
    let worker = fixture.worker(&recorder).await;
    let request = request();
    worker.launch(request.clone()).await.unwrap();
    fixture.running(request.run_id).await;
    wait_until("the grandchild runs", || fixture.grandchild_lives(request.run_id)).await;
    fixture.release(request.run_id);
    let exit = recorder.exit_of(request.run_id).await.exit;
    assert_eq!((exit.code, exit.signal), (None, Some(9)));
    wait_until("the grandchild is gone", || !fixture.grandchild_lives(request.run_id)).await;
}

#[tokio::test]
async fn stopping_ended_unknown_or_foreign_runs_succeeds() {
    let fixture = WorkerFixture::new(UNTIL_RELEASED);
    let recorder = fixture.recorder();
    let worker = fixture.worker(&recorder).await;
    let request = request();
    let unknown = (AgentSessionId::new(Uuid::now_v7()), RunId::new(Uuid::now_v7()));
    worker.stop(unknown.0, unknown.1, StopMode::Kill).await.unwrap();

    worker.launch(request.clone()).await.unwrap();
    fixture.running(request.run_id).await;
    worker.stop(unknown.0, request.run_id, StopMode::Kill).await.unwrap();
    fixture.release(request.run_id);
    assert_eq!(recorder.exit_of(request.run_id).await.exit.code, Some(0));
    worker.stop(request.session_id, request.run_id, StopMode::Kill).await.unwrap();
}

#[tokio::test]
async fn a_sidecar_has_its_own_process_group() {
    let fixture = WorkerFixture::new(UNTIL_RELEASED);
    let recorder = fixture.recorder();
    let worker = fixture.worker(&recorder).await;
    let request = request();
    worker.launch(request.clone()).await.unwrap();
    fixture.running(request.run_id).await;
    let lock = std::fs::read_to_string(fixture.dir(request.run_id).join("lock")).unwrap();
    let pid = Pid::from_raw(lock.trim().parse().unwrap());
    assert_eq!(nix::unistd::getpgid(Some(pid)).unwrap(), pid);
    killpg(pid, Signal::SIGKILL).unwrap();
    assert_eq!(recorder.exit_of(request.run_id).await.exit.signal, Some(9));
}

#[tokio::test]
async fn stop_all_ends_all_runs_and_refuses_launches() {
    let fixture = WorkerFixture::new(STUBBORN);
    let recorder = fixture.recorder();
    let worker = fixture.worker(&recorder).await;
    let (one, two) = (request(), request());
    for request in [&one, &two] {
        worker.launch(request.clone()).await.unwrap();
        fixture.running(request.run_id).await;
        wait_until("the grandchild runs", || fixture.grandchild_lives(request.run_id)).await;
    }
    worker.stop_all(Duration::from_millis(50)).await;
    for request in [&one, &two] {
        assert_eq!(recorder.exit_of(request.run_id).await.exit.signal, Some(9));
        wait_until("the grandchild is gone", || !fixture.grandchild_lives(request.run_id)).await;
    }
    assert!(matches!(worker.launch(request()).await, Err(LaunchError::Stopping)));
}
