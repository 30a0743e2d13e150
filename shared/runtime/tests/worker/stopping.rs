//! Signals: to the whole group of a run, and to nothing else.

use std::time::Duration;

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use pilothouse_domain::{AgentSessionId, RunId};
use pilothouse_runtime::{AgentRuntime, LaunchError, ProcessState, StopMode};
use uuid::Uuid;

use crate::support::{Place, UNTIL_TOLD, request, until};

/// Ignores `SIGTERM`, as does the process that it starts.
const STUBBORN: &str = "trap '' TERM; grandchild; wait_for $dir/go";

#[tokio::test]
async fn terminate_reaches_the_sidecar() {
    let place = Place::new("trap 'exit 42' TERM; wait_for $dir/go");
    let recorder = place.recorder();
    let worker = place.worker(&recorder).await;
    let request = request();
    worker.launch(request.clone()).await.unwrap();
    place.running(request.run_id).await;
    // The trap is set right after the lock is taken; until then a signal ends the shell all the same.
    worker.stop(request.session_id, request.run_id, StopMode::Terminate).await.unwrap();
    let exit = recorder.end_of(request.run_id).await.exit;
    assert!(exit.code == Some(42) || exit.signal == Some(15), "{exit:?}");
}

#[tokio::test]
async fn kill_ends_the_whole_group_of_a_sidecar_that_ignores_terminate() {
    let place = Place::new(STUBBORN);
    let recorder = place.recorder();
    let worker = place.worker(&recorder).await;
    let request = request();
    worker.launch(request.clone()).await.unwrap();
    place.running(request.run_id).await;
    until("the grandchild runs", || place.grandchild_lives(request.run_id)).await;

    worker.stop(request.session_id, request.run_id, StopMode::Terminate).await.unwrap();
    assert_eq!(worker.state(request.run_id).await, ProcessState::Alive);
    worker.stop(request.session_id, request.run_id, StopMode::Kill).await.unwrap();
    let exit = recorder.end_of(request.run_id).await.exit;
    assert_eq!((exit.code, exit.signal), (None, Some(9)));
    assert!(exit.drained);
    until("the grandchild is gone", || !place.grandchild_lives(request.run_id)).await;
}

#[tokio::test]
async fn what_a_crashed_sidecar_leaves_behind_ends_with_it() {
    let place = Place::new("grandchild; wait_for $dir/go; kill -9 $$");
    let recorder = place.recorder();
    let worker = place.worker(&recorder).await;
    let request = request();
    worker.launch(request.clone()).await.unwrap();
    place.running(request.run_id).await;
    until("the grandchild runs", || place.grandchild_lives(request.run_id)).await;
    place.tell(request.run_id);
    let exit = recorder.end_of(request.run_id).await.exit;
    assert_eq!((exit.code, exit.signal), (None, Some(9)));
    until("the grandchild is gone", || !place.grandchild_lives(request.run_id)).await;
}

#[tokio::test]
async fn stopping_what_is_over_unknown_or_of_another_session_does_nothing_and_succeeds() {
    let place = Place::new(UNTIL_TOLD);
    let recorder = place.recorder();
    let worker = place.worker(&recorder).await;
    let request = request();
    let unknown = (AgentSessionId::new(Uuid::now_v7()), RunId::new(Uuid::now_v7()));
    worker.stop(unknown.0, unknown.1, StopMode::Kill).await.unwrap();

    worker.launch(request.clone()).await.unwrap();
    place.running(request.run_id).await;
    worker.stop(unknown.0, request.run_id, StopMode::Kill).await.unwrap();
    place.tell(request.run_id);
    assert_eq!(recorder.end_of(request.run_id).await.exit.code, Some(0));
    worker.stop(request.session_id, request.run_id, StopMode::Kill).await.unwrap();
}

#[tokio::test]
async fn a_sidecar_has_a_group_of_its_own() {
    let place = Place::new(UNTIL_TOLD);
    let recorder = place.recorder();
    let worker = place.worker(&recorder).await;
    let request = request();
    worker.launch(request.clone()).await.unwrap();
    place.running(request.run_id).await;
    let lock = std::fs::read_to_string(place.dir(request.run_id).join("lock")).unwrap();
    let pid = Pid::from_raw(lock.trim().parse().unwrap());
    assert_eq!(nix::unistd::getpgid(Some(pid)).unwrap(), pid);
    killpg(pid, Signal::SIGKILL).unwrap();
    assert_eq!(recorder.end_of(request.run_id).await.exit.signal, Some(9));
}

#[tokio::test]
async fn stop_all_leaves_nothing_and_starts_nothing() {
    let place = Place::new(STUBBORN);
    let recorder = place.recorder();
    let worker = place.worker(&recorder).await;
    let (one, two) = (request(), request());
    for request in [&one, &two] {
        worker.launch(request.clone()).await.unwrap();
        place.running(request.run_id).await;
        until("the grandchild runs", || place.grandchild_lives(request.run_id)).await;
    }
    worker.stop_all(Duration::from_millis(50)).await;
    for request in [&one, &two] {
        assert_eq!(recorder.end_of(request.run_id).await.exit.signal, Some(9));
        until("the grandchild is gone", || !place.grandchild_lives(request.run_id)).await;
    }
    assert!(matches!(worker.launch(request()).await, Err(LaunchError::Stopping)));
}
