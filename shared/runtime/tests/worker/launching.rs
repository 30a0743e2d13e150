//! From the request to the reported end.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::Duration;

use pilothouse_runtime::{AgentRuntime, ClaimOutcome, LaunchError, ProcessState, StartError, Worker};
use pilothouse_wire::launch::{BrokerAccess, SidecarLaunch};

use crate::support::{Place, UNTIL_TOLD, request, secret, until};

#[tokio::test]
async fn a_run_is_started_drained_and_told_once_in_this_order() {
    let place = Place::new(UNTIL_TOLD);
    let recorder = place.recorder();
    let worker = place.worker(&recorder).await;
    let request = request();
    assert_eq!(worker.state(request.run_id).await, ProcessState::Unknown);

    worker.launch(request.clone()).await.unwrap();
    place.running(request.run_id).await;
    assert_eq!(worker.state(request.run_id).await, ProcessState::Alive);
    assert!(recorder.told().is_empty());

    place.tell(request.run_id);
    let told = recorder.end_of(request.run_id).await;
    assert_eq!(told.session, request.session_id);
    assert_eq!((told.exit.code, told.exit.signal, told.exit.detail), (Some(0), None, None));
    assert!(told.exit.drained);
    assert_eq!(told.drains_before, 1, "told before it was drained");
    assert_eq!(place.drains(request.run_id), 1);
    assert_eq!(worker.state(request.run_id).await, ProcessState::Dead);
}

#[tokio::test]
async fn the_last_words_of_a_sidecar_that_failed_are_told() {
    let place = Place::new("echo 'no such adapter' >&2; exit 7");
    let recorder = place.recorder();
    let worker = place.worker(&recorder).await;
    let request = request();
    worker.launch(request.clone()).await.unwrap();
    let exit = recorder.end_of(request.run_id).await.exit;
    assert_eq!((exit.code, exit.signal), (Some(7), None));
    let detail = exit.detail.unwrap();
    assert!(detail.contains("code 7") && detail.contains("no such adapter"), "{detail}");
}

#[tokio::test]
async fn launches_of_the_same_run_start_one_process() {
    let place = Place::new(UNTIL_TOLD);
    let recorder = place.recorder();
    let worker = place.worker(&recorder).await;
    let request = request();
    let (one, two, three) = tokio::join!(
        worker.launch(request.clone()),
        worker.launch(request.clone()),
        worker.launch(request.clone()),
    );
    assert!(one.is_ok() && two.is_ok() && three.is_ok());
    place.running(request.run_id).await;
    worker.launch(request.clone()).await.unwrap();
    place.tell(request.run_id);
    recorder.end_of(request.run_id).await;
    worker.launch(request.clone()).await.unwrap();
    assert_eq!(worker.state(request.run_id).await, ProcessState::Dead);
    assert_eq!(place.started(), 1);
    assert_eq!(recorder.claims.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn a_run_that_is_claimed_by_another_or_over_is_not_started() {
    let place = Place::new(UNTIL_TOLD);
    let recorder = place.recorder();
    let worker = place.worker(&recorder).await;
    for outcome in [ClaimOutcome::HeldByOther, ClaimOutcome::RunIsOver] {
        *recorder.claim.lock().unwrap() = Some(outcome);
        let request = request();
        worker.launch(request.clone()).await.unwrap();
        assert!(!place.dir(request.run_id).exists());
        assert_eq!(worker.state(request.run_id).await, ProcessState::Unknown);
    }
    assert_eq!(place.started(), 0);
}

#[tokio::test]
async fn a_launch_whose_claim_failed_can_be_given_again() {
    let place = Place::new("exit 0");
    let recorder = place.recorder();
    recorder.claims_to_fail.store(1, Ordering::SeqCst);
    let worker = place.worker(&recorder).await;
    let request = request();
    assert!(matches!(worker.launch(request.clone()).await, Err(LaunchError::Claim(_))));
    assert!(!place.dir(request.run_id).exists());
    worker.launch(request.clone()).await.unwrap();
    recorder.end_of(request.run_id).await;
    assert_eq!(place.started(), 1);
}

#[tokio::test]
async fn a_caller_that_stops_waiting_leaves_a_whole_launch() {
    let place = Place::new("exit 0");
    let recorder = place.recorder();
    let worker = place.worker(&recorder).await;
    let request = request();
    let run = request.run_id;
    // Polled once and dropped: the launch is under way, and nobody waits for it.
    tokio::select! {
        biased;
        answer = worker.launch(request) => unreachable!("it did not wait: {answer:?}"),
        () = std::future::ready(()) => {}
    }
    recorder.end_of(run).await;
}

#[tokio::test]
async fn a_program_that_cannot_be_run_is_refused_at_start_and_told_as_an_end_later() {
    let place = Place::new("exit 0");
    let recorder = place.recorder();
    let mut config = place.config();
    config.sidecar = place.data().join("sidecar");
    let refused = Worker::start(config.clone(), recorder.ports()).await;
    assert!(matches!(refused, Err(StartError::Sidecar { .. })));

    fs::copy("/bin/true", &config.sidecar).unwrap();
    let worker = Worker::start(config.clone(), recorder.ports()).await.unwrap();
    fs::remove_file(&config.sidecar).unwrap();
    let request = request();
    worker.launch(request.clone()).await.unwrap();
    let exit = recorder.end_of(request.run_id).await.exit;
    assert_eq!((exit.code, exit.signal), (None, None));
    assert!(exit.detail.unwrap().contains("could not be started"));
    assert!(exit.drained, "there was nothing to drain");
}

#[tokio::test]
async fn an_end_is_told_again_until_it_is_accepted() {
    let place = Place::new("exit 0");
    let recorder = place.recorder();
    recorder.reports_to_refuse.store(4, Ordering::SeqCst);
    let worker = place.worker(&recorder).await;
    let request = request();
    worker.launch(request.clone()).await.unwrap();
    recorder.end_of(request.run_id).await;
    assert_eq!(recorder.reports_refused.load(Ordering::SeqCst), 4);
    assert_eq!(place.drains(request.run_id), 1);
}

#[tokio::test]
async fn a_drain_that_fails_or_hangs_does_not_hold_back_the_end() {
    let place = Place::new("exit 0");
    let recorder = place.recorder();
    let mut config = place.config();
    config.timing.drain_limit = Duration::from_millis(300);
    let worker = Worker::start(config, recorder.ports()).await.unwrap();
    for behaviour in ["exit 1", "grandchild; wait_for $dir/never"] {
        place.drain(behaviour);
        let request = request();
        worker.launch(request.clone()).await.unwrap();
        let told = recorder.end_of(request.run_id).await;
        assert!(!told.exit.drained, "{behaviour}");
        assert!(told.drains_before >= 1);
        until("what it started is ended too", || !place.grandchild_lives(request.run_id)).await;
    }
}

#[tokio::test]
async fn a_drain_that_is_killed_is_begun_again() {
    let place = Place::new("exit 0");
    place.drain("test -e $dir/again || { touch $dir/again; kill -9 $$; }; exit 0");
    let recorder = place.recorder();
    let worker = place.worker(&recorder).await;
    let request = request();
    worker.launch(request.clone()).await.unwrap();
    let told = recorder.end_of(request.run_id).await;
    assert!(told.exit.drained && told.drains_before == 2, "{told:?}");
}

#[tokio::test]
async fn a_sidecar_that_finds_the_lock_taken_makes_way_for_the_one_that_has_it() {
    // The process that holds the lock stands for a sidecar of the same run that this worker did not start.
    let holder = r#"
        exec 9>&-
        setsid sh -c 'exec 9>> "$1/lock"; flock 9; echo $$ > "$1/lock"; : > "$1/held"
            tries=0; while [ ! -e "$1/go" ] && [ $tries -lt 1500 ]; do sleep 0.02 9>&-; tries=$((tries + 1)); done
        ' holder "$dir" &
        wait_for "$dir/held"
        exit 3"#;
    let place = Place::new(holder);
    let recorder = place.recorder();
    let worker = place.worker(&recorder).await;
    let request = request();
    worker.launch(request.clone()).await.unwrap();
    let log = place.dir(request.run_id).join("held");
    until("the other holds the lock", || log.exists()).await;
    assert_eq!(worker.state(request.run_id).await, ProcessState::Alive);
    assert!(recorder.told().is_empty(), "the end of the wrong sidecar was told");
    place.tell(request.run_id);
    let exit = recorder.end_of(request.run_id).await.exit;
    assert_eq!((exit.code, exit.signal), (None, None), "nobody saw how the other ended");
}

#[tokio::test]
async fn a_sidecar_sees_the_chosen_environment_and_no_other() {
    let place = Place::new(r#"env > "$dir/env""#);
    let recorder = place.recorder();
    let mut config = place.config();
    config.environment = config.environment.with("CHOSEN_BY_CONFIG", "yes").with("PILOTHOUSE_SECRET", "no");
    let worker = Worker::start(config, recorder.ports()).await.unwrap();
    let request = request();
    worker.launch(request.clone()).await.unwrap();
    recorder.end_of(request.run_id).await;

    assert!(std::env::var_os("CARGO_MANIFEST_DIR").is_some(), "there is nothing that could leak");
    let seen = fs::read_to_string(place.dir(request.run_id).join("env")).unwrap();
    let mut names: Vec<&str> =
        seen.lines().filter_map(|line| line.split_once('=')).map(|(name, _)| name).collect();
    names.retain(|name| !["PWD", "OLDPWD", "SHLVL", "_"].contains(name)); // the shell's own
    names.sort_unstable();
    let chosen = pilothouse_runtime::environment::CHOSEN;
    let mut expected: Vec<&str> =
        chosen.into_iter().filter(|name| std::env::var_os(name).is_some()).collect();
    expected.push("CHOSEN_BY_CONFIG");
    expected.sort_unstable();
    assert_eq!(names, expected);
}

#[tokio::test]
async fn the_run_directory_is_private_and_says_what_the_sidecar_needs() {
    let place = Place::new(UNTIL_TOLD);
    let recorder = place.recorder();
    let worker = place.worker(&recorder).await;
    let request = request();
    let (session, run) = (request.session_id, request.run_id);
    worker.launch(request.clone()).await.unwrap();
    place.running(run).await;

    let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o777;
    let dir = place.dir(run);
    let home = place.data().join("sessions").join(session.to_string());
    assert_eq!(mode(&place.data().join("runs")), 0o700);
    assert_eq!(mode(&dir), 0o700);
    assert_eq!(mode(&home), 0o700);
    assert_eq!(mode(&dir.join("launch.json")), 0o600);
    assert_eq!(mode(&dir.join("sidecar.log")), 0o600);

    let launch: SidecarLaunch = serde_json::from_slice(&fs::read(dir.join("launch.json")).unwrap()).unwrap();
    let secret = secret();
    assert_eq!(launch.request, request);
    assert_eq!(launch.session_home, home.to_str().unwrap());
    assert_eq!(launch.key_id, "test");
    assert_eq!(launch.envelope_key, secret.envelope_key(run));
    assert_eq!(launch.agent_api.api_key, secret.api_key(session, 2));
    let BrokerAccess::Gateway { token, .. } = &launch.broker else { panic!("not the gateway") };
    assert_eq!(*token, secret.gateway_token(session, run));

    place.tell(run);
    recorder.end_of(run).await;
}

#[tokio::test]
async fn finished_runs_are_removed_and_stay_over() {
    let place = Place::new("exit 0");
    let recorder = place.recorder();
    let mut config = place.config();
    config.retention.count = 1;
    let worker = Worker::start(config, recorder.ports()).await.unwrap();
    let (first, second) = (request(), request());
    worker.launch(first.clone()).await.unwrap();
    recorder.end_of(first.run_id).await;
    worker.launch(second.clone()).await.unwrap();
    until("the older run is removed", || !place.dir(first.run_id).exists()).await;
    assert!(place.dir(second.run_id).join("finished").exists());
    assert_eq!(recorder.told().len(), 2);
}
