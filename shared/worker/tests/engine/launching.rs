//! From the launch request to the reported exit.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::Duration;

use pilothouse_runtime::{AgentRuntime, LaunchError, ProcessState};
use pilothouse_wire::launch::{BrokerAccess, SidecarLaunch};
use pilothouse_worker::{ClaimOutcome, StartError, Worker, free_disk};

use crate::support::{UNTIL_RELEASED, WorkerFixture, request, secret, wait_until};

#[tokio::test]
async fn a_run_is_started_drained_and_reported_once() {
    let fixture = WorkerFixture::new(UNTIL_RELEASED);
    let recorder = fixture.recorder();
    let worker = fixture.worker(&recorder).await;
    let request = request();
    assert_eq!(worker.state(request.run_id).await, ProcessState::Unknown);

    worker.launch(request.clone()).await.unwrap();
    fixture.running(request.run_id).await;
    assert_eq!(worker.state(request.run_id).await, ProcessState::Alive);
    assert!(recorder.reported().is_empty());

    fixture.release(request.run_id);
    let reported = recorder.exit_of(request.run_id).await;
    assert_eq!(reported.session, request.session_id);
    assert_eq!((reported.exit.code, reported.exit.signal, reported.exit.detail), (Some(0), None, None));
    assert!(reported.exit.drained);
    assert_eq!(reported.drains_before, 1, "reported before it was drained");
    assert_eq!(fixture.drains(request.run_id), 1);
    assert_eq!(worker.state(request.run_id).await, ProcessState::Dead);
}

#[tokio::test]
async fn worker_offers_the_free_disk_of_its_data_folder() {
    let fixture = WorkerFixture::new(UNTIL_RELEASED);
    let worker = fixture.worker(&fixture.recorder()).await;
    let offered = worker.workspace().unwrap().free_disk_mb.unwrap();
    let free = free_disk(fixture.data()).unwrap() / (1024 * 1024);
    // Other tests write to the same disk.
    assert!(offered.abs_diff(free) < 1024, "{offered} of {free} MiB");
}

#[tokio::test]
async fn the_exit_contains_the_log_tail_of_a_failed_sidecar() {
    let fixture = WorkerFixture::new("echo 'no such adapter' >&2; exit 7");
    let recorder = fixture.recorder();
    let worker = fixture.worker(&recorder).await;
    let request = request();
    worker.launch(request.clone()).await.unwrap();
    let exit = recorder.exit_of(request.run_id).await.exit;
    assert_eq!((exit.code, exit.signal), (Some(7), None));
    let detail = exit.detail.unwrap();
    assert!(detail.contains("code 7") && detail.contains("no such adapter"), "{detail}");
}

#[tokio::test]
async fn concurrent_launches_of_a_run_start_one_process() {
    let fixture = WorkerFixture::new(UNTIL_RELEASED);
    let recorder = fixture.recorder();
    let worker = fixture.worker(&recorder).await;
    let request = request();
    let (one, two, three) = tokio::join!(
        worker.launch(request.clone()),
        worker.launch(request.clone()),
        worker.launch(request.clone()),
    );
    assert!(one.is_ok() && two.is_ok() && three.is_ok());
    fixture.running(request.run_id).await;
    worker.launch(request.clone()).await.unwrap();
    fixture.release(request.run_id);
    recorder.exit_of(request.run_id).await;
    worker.launch(request.clone()).await.unwrap();
    assert_eq!(worker.state(request.run_id).await, ProcessState::Dead);
    assert_eq!(fixture.started(), 1);
    assert_eq!(recorder.claims.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn runs_of_others_and_ended_runs_are_not_started() {
    let fixture = WorkerFixture::new(UNTIL_RELEASED);
    let recorder = fixture.recorder();
    let worker = fixture.worker(&recorder).await;
    for outcome in [ClaimOutcome::HeldByOther, ClaimOutcome::RunIsOver] {
        *recorder.claim.lock().unwrap() = Some(outcome);
        let request = request();
        worker.launch(request.clone()).await.unwrap();
        assert!(!fixture.dir(request.run_id).exists());
        assert_eq!(worker.state(request.run_id).await, ProcessState::Unknown);
    }
    assert_eq!(fixture.started(), 0);
}

#[tokio::test]
async fn a_launch_can_be_retried_after_a_failed_claim() {
    let fixture = WorkerFixture::new("exit 0");
    let recorder = fixture.recorder();
    recorder.claims_to_fail.store(1, Ordering::SeqCst);
    let worker = fixture.worker(&recorder).await;
    let request = request();
    assert!(matches!(worker.launch(request.clone()).await, Err(LaunchError::Claim(_))));
    assert!(!fixture.dir(request.run_id).exists());
    worker.launch(request.clone()).await.unwrap();
    recorder.exit_of(request.run_id).await;
    assert_eq!(fixture.started(), 1);
}

#[tokio::test]
async fn a_launch_completes_without_its_caller() {
    let fixture = WorkerFixture::new("exit 0");
    let recorder = fixture.recorder();
    let worker = fixture.worker(&recorder).await;
    let request = request();
    let run = request.run_id;
    // Polled once and dropped: the launch has begun, and nothing waits for it.
    tokio::select! {
        biased;
        answer = worker.launch(request) => unreachable!("it did not wait: {answer:?}"),
        () = std::future::ready(()) => {}
    }
    recorder.exit_of(run).await;
}

#[tokio::test]
async fn a_missing_program_is_refused_at_start_and_reported_later() {
    let fixture = WorkerFixture::new("exit 0");
    let recorder = fixture.recorder();
    let mut config = fixture.config();
    config.sidecar = fixture.data().join("sidecar");
    let refused = Worker::start(config.clone(), recorder.ports()).await;
    assert!(matches!(refused, Err(StartError::Sidecar { .. })));

    fs::copy("/bin/true", &config.sidecar).unwrap();
    let worker = Worker::start(config.clone(), recorder.ports()).await.unwrap();
    fs::remove_file(&config.sidecar).unwrap();
    let request = request();
    worker.launch(request.clone()).await.unwrap();
    let exit = recorder.exit_of(request.run_id).await.exit;
    assert_eq!((exit.code, exit.signal), (None, None));
    assert!(exit.detail.unwrap().contains("could not be started"));
    assert!(exit.drained, "there was nothing to drain");
}

#[tokio::test]
async fn a_report_is_retried_until_it_is_accepted() {
    let fixture = WorkerFixture::new("exit 0");
    let recorder = fixture.recorder();
    recorder.reports_to_refuse.store(4, Ordering::SeqCst);
    let worker = fixture.worker(&recorder).await;
    let request = request();
    worker.launch(request.clone()).await.unwrap();
    recorder.exit_of(request.run_id).await;
    assert_eq!(recorder.reports_refused.load(Ordering::SeqCst), 4);
    assert_eq!(fixture.drains(request.run_id), 1);
}

#[tokio::test]
async fn a_failed_or_hanging_drain_does_not_block_the_report() {
    let fixture = WorkerFixture::new("exit 0");
    let recorder = fixture.recorder();
    let mut config = fixture.config();
    config.timing.drain_timeout = Duration::from_secs(1);
    let worker = Worker::start(config, recorder.ports()).await.unwrap();
    for behaviour in ["exit 1", "grandchild; wait_for $dir/never"] {
        fixture.drain(behaviour);
        let request = request();
        worker.launch(request.clone()).await.unwrap();
        let reported = recorder.exit_of(request.run_id).await;
        assert!(!reported.exit.drained, "{behaviour}");
        assert!(reported.drains_before >= 1);
        wait_until("what it started is ended too", || !fixture.grandchild_lives(request.run_id)).await;
    }
}

/// However long the control plane is away, and also if it returns too late for the attempt to drain that is under way.
#[tokio::test]
async fn a_spool_is_drained_after_an_outage() {
    let fixture = WorkerFixture::new("exit 0");
    let recorder = fixture.recorder();
    let mut config = fixture.config();
    config.timing.drain_timeout = Duration::from_millis(300);
    let worker = Worker::start(config, recorder.ports()).await.unwrap();
    for behaviour in ["test -e $dir/online", "test -e $dir/online || wait_for $dir/never"] {
        fixture.drain(behaviour);
        recorder.is_away.store(true, Ordering::SeqCst);
        recorder.ready_checks.store(0, Ordering::SeqCst);
        let request = request();
        worker.launch(request.clone()).await.unwrap();
        // The second attempt also begins without the control plane, and may not notice that it returns.
        let checked = || recorder.ready_checks.load(Ordering::SeqCst) >= 2;
        wait_until("another attempt", || checked() && fixture.drains(request.run_id) >= 2).await;
        fs::File::create(fixture.dir(request.run_id).join("online")).unwrap();
        recorder.is_away.store(false, Ordering::SeqCst);
        let reported = recorder.exit_of(request.run_id).await;
        assert!(reported.exit.drained, "{behaviour}: {reported:?}");
    }
}

#[tokio::test]
async fn a_spool_is_drained_again_before_a_repeated_report() {
    let fixture = WorkerFixture::new("exit 0");
    fixture.drain("test -e $dir/again || { touch $dir/again; wait_for $dir/never; }");
    let recorder = fixture.recorder();
    recorder.reports_to_refuse.store(3, Ordering::SeqCst);
    let mut config = fixture.config();
    config.timing.drain_timeout = Duration::from_millis(300);
    let worker = Worker::start(config, recorder.ports()).await.unwrap();
    let request = request();
    worker.launch(request.clone()).await.unwrap();
    let reported = recorder.exit_of(request.run_id).await;
    assert!(reported.exit.drained && reported.drains_before >= 2, "{reported:?}");
}

#[tokio::test]
async fn a_drain_that_makes_progress_is_not_ended() {
    let fixture = WorkerFixture::new("exit 0");
    fixture.drain(
        r#"batches=0
        while [ $batches -lt 25 ]; do sleep 0.1; echo sent >> "$dir/spool.db"; batches=$((batches + 1)); done"#,
    );
    let recorder = fixture.recorder();
    let mut config = fixture.config();
    config.timing.drain_timeout = Duration::from_secs(2);
    let worker = Worker::start(config, recorder.ports()).await.unwrap();
    let request = request();
    worker.launch(request.clone()).await.unwrap();
    let reported = recorder.exit_of(request.run_id).await;
    assert!(reported.exit.drained && reported.drains_before == 1, "{reported:?}");
}

#[tokio::test]
async fn a_killed_drain_is_retried() {
    let fixture = WorkerFixture::new("exit 0");
    fixture.drain("test -e $dir/again || { touch $dir/again; kill -9 $$; }; exit 0");
    let recorder = fixture.recorder();
    let worker = fixture.worker(&recorder).await;
    let request = request();
    worker.launch(request.clone()).await.unwrap();
    let reported = recorder.exit_of(request.run_id).await;
    assert!(reported.exit.drained && reported.drains_before == 2, "{reported:?}");
}

#[tokio::test]
async fn a_second_sidecar_leaves_the_run_to_the_first() {
    // The lock holder simulates a sidecar of the same run that this worker did not start.
    let holder = r#"
        exec 9>&-
        setsid sh -c 'exec 9>> "$1/lock"; flock 9; echo $$ > "$1/lock"; : > "$1/held"
            tries=0; while [ ! -e "$1/go" ] && [ $tries -lt 1500 ]; do sleep 0.02 9>&-; tries=$((tries + 1)); done
        ' holder "$dir" &
        wait_for "$dir/held"
        exit 3"#;
    let fixture = WorkerFixture::new(holder);
    let recorder = fixture.recorder();
    let worker = fixture.worker(&recorder).await;
    let request = request();
    worker.launch(request.clone()).await.unwrap();
    let log = fixture.dir(request.run_id).join("held");
    wait_until("the other holds the lock", || log.exists()).await;
    assert_eq!(worker.state(request.run_id).await, ProcessState::Alive);
    assert!(recorder.reported().is_empty(), "the end of the wrong sidecar was reported");
    fixture.release(request.run_id);
    let exit = recorder.exit_of(request.run_id).await.exit;
    assert_eq!((exit.code, exit.signal), (None, None), "nobody saw how the other ended");
}

#[tokio::test]
async fn a_sidecar_sees_only_the_inherited_environment() {
    let fixture = WorkerFixture::new(r#"env > "$dir/env""#);
    let recorder = fixture.recorder();
    let mut config = fixture.config();
    config.environment = config.environment.with("CHOSEN_BY_CONFIG", "yes").with("PILOTHOUSE_SECRET", "no");
    config.environment = config.environment.passing(["CARGO_PKG_NAME", "NOT_SET_ANYWHERE"]);
    let worker = Worker::start(config, recorder.ports()).await.unwrap();
    let request = request();
    worker.launch(request.clone()).await.unwrap();
    recorder.exit_of(request.run_id).await;

    assert!(std::env::var_os("CARGO_MANIFEST_DIR").is_some(), "there is nothing that could leak");
    let seen = fs::read_to_string(fixture.dir(request.run_id).join("env")).unwrap();
    let mut names: Vec<&str> =
        seen.lines().filter_map(|line| line.split_once('=')).map(|(name, _)| name).collect();
    names.retain(|name| !["PWD", "OLDPWD", "SHLVL", "_"].contains(name)); // the shell's own
    names.sort_unstable();
    let inherited = pilothouse_worker::engine::environment::INHERITED;
    let mut expected: Vec<&str> =
        inherited.into_iter().filter(|name| std::env::var_os(name).is_some()).collect();
    expected.extend(["CHOSEN_BY_CONFIG", "CARGO_PKG_NAME"]);
    expected.sort_unstable();
    assert_eq!(names, expected);
}

#[tokio::test]
async fn hidden_paths_are_absolute() {
    let fixture = WorkerFixture::new(UNTIL_RELEASED);
    let recorder = fixture.recorder();
    let mut config = fixture.config();
    config.secrets.file = Some("secrets.json".into());
    config.hidden = vec!["credentials".into()];
    config.confine_agents = true;
    let worker = Worker::start(config, recorder.ports()).await.unwrap();
    let request = request();
    worker.launch(request.clone()).await.unwrap();
    fixture.running(request.run_id).await;
    let launch = fs::read(fixture.dir(request.run_id).join("launch.json")).unwrap();
    let launch: SidecarLaunch = serde_json::from_slice(&launch).unwrap();
    let here = std::env::current_dir().unwrap();
    let expected = [fixture.data().to_owned(), here.join("credentials"), here.join("secrets.json")];
    assert_eq!(launch.confinement.unwrap().hidden, expected);
    fixture.release(request.run_id);
    recorder.exit_of(request.run_id).await;
}

#[tokio::test]
async fn the_run_directory_is_private_and_complete() {
    let fixture = WorkerFixture::new(UNTIL_RELEASED);
    let recorder = fixture.recorder();
    let worker = fixture.worker(&recorder).await;
    let request = request();
    let (session, run) = (request.session_id, request.run_id);
    worker.launch(request.clone()).await.unwrap();
    fixture.running(run).await;

    let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o777;
    let dir = fixture.dir(run);
    let home = fixture.data().join("sessions").join(session.to_string());
    assert_eq!(mode(&fixture.data().join("runs")), 0o700);
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

    fixture.release(run);
    recorder.exit_of(run).await;
}

#[tokio::test]
async fn removed_runs_stay_finished() {
    let fixture = WorkerFixture::new("exit 0");
    let recorder = fixture.recorder();
    let mut config = fixture.config();
    config.retention.count = 1;
    let worker = Worker::start(config, recorder.ports()).await.unwrap();
    let (first, second) = (request(), request());
    worker.launch(first.clone()).await.unwrap();
    recorder.exit_of(first.run_id).await;
    worker.launch(second.clone()).await.unwrap();
    wait_until("the older run is temporary", || !fixture.dir(first.run_id).exists()).await;
    assert!(fixture.dir(second.run_id).join("finished").exists());
    assert_eq!(recorder.reported().len(), 2);
}
