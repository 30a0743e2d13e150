//! Sidecars in containers, with `fake_engine.sh` as the engine.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use pilothouse_domain::project_agent::WorkspaceRequirements;
use pilothouse_runtime::{AgentRuntime as _, ProcessState, StopMode};
use pilothouse_wire::launch::{LaunchRequest, SidecarLaunch};
use pilothouse_worker::{Containers, Ports, StartError, Worker};

use crate::support::{self, Recorder, UNTIL_RELEASED, WorkerFixture, is_locked, secret, wait_until};

const IMAGE: &str = "the-image";

/// Creates a file `escaped` in the data folder, if the worker runs it.
const WRITE_EVIL_PROGRAM: &str = r#"
    printf '#!/bin/sh\n: > "%s/escaped"\n' "$data" > "$dir/evil"
    chmod +x "$dir/evil""#;

/// A launch in a working directory that does not contain the data folder.
fn request() -> LaunchRequest {
    LaunchRequest { working_directory: env!("CARGO_MANIFEST_DIR").to_owned(), ..support::request() }
}

struct Engine {
    folder: PathBuf,
    image: &'static str,
}

impl Engine {
    fn new(fixture: &WorkerFixture, image: &'static str) -> Self {
        let folder = fixture.data().join("engine");
        fs::create_dir(&folder).unwrap();
        let fakes = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/engine");
        symlink(fakes.join("fake_engine.sh"), folder.join("engine")).unwrap();
        symlink(fakes.join("fake_sidecar.sh"), folder.join("sidecar")).unwrap();
        Self { folder, image }
    }

    async fn worker(&self, fixture: &WorkerFixture, recorder: &Arc<Recorder>) -> Worker {
        Worker::start(self.config(fixture), recorder.ports()).await.unwrap()
    }

    fn config(&self, fixture: &WorkerFixture) -> pilothouse_worker::WorkerConfig {
        let mut config = fixture.config();
        let options = vec!["--network=host".to_owned()];
        config.containers =
            Some(Containers { engine: self.folder.join("engine"), image: self.image.to_owned(), options });
        config.environment = config.environment.with("TOKEN_OF_THE_TEST", "very-secret");
        config
    }

    fn said(&self) -> String {
        fs::read_to_string(self.folder.join("said")).unwrap()
    }

    /// Kills the client of a run, and leaves its container.
    fn kill_client(&self, request: &LaunchRequest) {
        let file = self.folder.join(format!("containers/pilothouse-{}.client", request.run_id));
        let pid = fs::read_to_string(file).unwrap().trim().parse().unwrap();
        kill(Pid::from_raw(pid), Signal::SIGKILL).unwrap();
    }
}

async fn launched(worker: &Worker, fixture: &WorkerFixture) -> LaunchRequest {
    let request = request();
    worker.launch(request.clone()).await.unwrap();
    fixture.running(request.run_id).await;
    request
}

#[tokio::test]
async fn a_container_gets_its_folders_and_no_visible_secrets() {
    let fixture = WorkerFixture::new(UNTIL_RELEASED);
    let (engine, recorder) = (Engine::new(&fixture, IMAGE), fixture.recorder());
    let worker = engine.worker(&fixture, &recorder).await;
    let request = launched(&worker, &fixture).await;
    assert_eq!(worker.state(request.run_id).await, ProcessState::Alive);
    let said = engine.said();
    let dir = fixture.dir(request.run_id);
    let home = fixture.data().join("sessions").join(request.session_id.to_string());
    let working_directory = Path::new(&request.working_directory).canonicalize().unwrap();
    for (folder, inside) in
        [(&dir, &dir), (&home, &home), (&working_directory, &PathBuf::from(&request.working_directory))]
    {
        let mount = format!("--mount type=bind,source={},target={} ", folder.display(), inside.display());
        assert!(said.contains(&mount), "{said}");
    }
    let launch = dir.join("launch.json");
    let read_only = format!("--mount type=bind,source={0},target={0},readonly ", launch.display());
    assert!(said.contains(&read_only), "{said}");
    assert!(said.ends_with(&format!("--network=host {IMAGE} run {}\n", dir.display())), "{said}");
    assert!(said.contains("--env TOKEN_OF_THE_TEST ") && !said.contains("--env PATH "), "{said}");
    let key = secret().envelope_key(request.run_id);
    let key = serde_json::to_value(&key).unwrap();
    assert!(!said.contains("very-secret") && !said.contains(key.as_str().unwrap()), "{said}");

    fixture.release(request.run_id);
    let exit = recorder.exit_of(request.run_id).await.exit;
    assert_eq!((exit.code, exit.drained), (Some(0), true));
}

#[tokio::test]
async fn run_directory_cannot_name_the_engine() {
    let behaviour = format!(
        r#"{WRITE_EVIL_PROGRAM}
        printf %s "$dir/evil" > "$dir/engine"; : > "$dir/ready"; wait_for "$dir/go""#
    );
    let fixture = WorkerFixture::new(&behaviour);
    let (engine, recorder) = (Engine::new(&fixture, IMAGE), fixture.recorder());
    let worker = engine.worker(&fixture, &recorder).await;
    let request = launched(&worker, &fixture).await;
    wait_until("the record is written", || fixture.dir(request.run_id).join("ready").exists()).await;
    worker.stop(request.session_id, request.run_id, StopMode::Kill).await.unwrap();
    assert_eq!(recorder.exit_of(request.run_id).await.exit.code, Some(137));
    assert!(!fixture.data().join("escaped").exists(), "the worker ran a program of the agent");
    let record = fixture.data().join("engines").join(request.run_id.to_string());
    wait_until("the record of the engine is removed", || !record.exists()).await;
}

/// Earlier versions kept the engine in the run directory.
#[tokio::test]
async fn container_of_an_earlier_version_is_killed_by_the_configured_engine() {
    let behaviour = format!(
        r#"{WRITE_EVIL_PROGRAM}
        printf %s "$dir/evil" > "$dir/engine"; : > "$dir/ready"; wait_for "$dir/go""#
    );
    let fixture = WorkerFixture::new(&behaviour);
    let (engine, recorder) = (Engine::new(&fixture, IMAGE), fixture.recorder());
    let worker = engine.worker(&fixture, &recorder).await;
    let request = launched(&worker, &fixture).await;
    wait_until("the record is written", || fixture.dir(request.run_id).join("ready").exists()).await;
    drop(worker);
    fs::remove_file(fixture.data().join("engines").join(request.run_id.to_string())).unwrap();

    let worker = engine.worker(&fixture, &recorder).await;
    worker.stop(request.session_id, request.run_id, StopMode::Kill).await.unwrap();
    recorder.exit_of(request.run_id).await;
    assert!(!fixture.data().join("escaped").exists(), "the worker ran a program of the agent");
}

#[tokio::test]
async fn container_that_marks_its_run_as_finished_is_adopted() {
    let fixture = WorkerFixture::new(r#": > "$dir/finished"; : > "$dir/ready"; wait_for "$dir/go""#);
    let (engine, recorder) = (Engine::new(&fixture, IMAGE), fixture.recorder());
    let worker = engine.worker(&fixture, &recorder).await;
    let request = launched(&worker, &fixture).await;
    wait_until("the run is marked", || fixture.dir(request.run_id).join("ready").exists()).await;
    drop(worker);

    let worker = engine.worker(&fixture, &recorder).await;
    assert_eq!(worker.state(request.run_id).await, ProcessState::Alive);
    worker.stop(request.session_id, request.run_id, StopMode::Kill).await.unwrap();
    wait_until("its exit is reported", || !recorder.reported().is_empty()).await;
}

#[tokio::test]
async fn container_that_forges_its_exit_is_killed_before_the_report() {
    let behaviour =
        r#"echo '{"code":0,"drained":true}' > "$dir/exited.json"; : > "$dir/ready"; wait_for "$dir/go""#;
    let fixture = WorkerFixture::new(behaviour);
    let (engine, recorder) = (Engine::new(&fixture, IMAGE), fixture.recorder());
    let worker = engine.worker(&fixture, &recorder).await;
    let request = launched(&worker, &fixture).await;
    let dir = fixture.dir(request.run_id);
    wait_until("the exit is forged", || dir.join("ready").exists()).await;
    drop(worker);

    let _worker = engine.worker(&fixture, &recorder).await;
    recorder.exit_of(request.run_id).await;
    let killed = fs::read_to_string(engine.folder.join("killed")).unwrap();
    assert!(killed.contains(&request.run_id.to_string()), "it was reported before it was killed");
    wait_until("the container has ended", || !is_locked(&dir.join("lock"))).await;
}

#[tokio::test]
async fn container_with_an_exit_that_cannot_be_read_is_adopted() {
    for exit in [r#"echo x > "$dir/exited.json""#, r#"mkfifo "$dir/exited.json""#] {
        let behaviour = format!(r#"{exit}; : > "$dir/ready"; wait_for "$dir/go""#);
        let fixture = WorkerFixture::new(&behaviour);
        let (engine, recorder) = (Engine::new(&fixture, IMAGE), fixture.recorder());
        let worker = engine.worker(&fixture, &recorder).await;
        let request = launched(&worker, &fixture).await;
        let dir = fixture.dir(request.run_id);
        wait_until("the exit is forged", || dir.join("ready").exists()).await;
        drop(worker);

        let worker = engine.worker(&fixture, &recorder).await;
        assert!(worker.runs().iter().any(|(_, run, _)| *run == request.run_id), "{exit}");
        fs::write(dir.join("go"), "").unwrap();
        recorder.exit_of(request.run_id).await;
    }
}

#[tokio::test]
async fn link_in_place_of_the_log_is_not_followed() {
    let behaviour = r#"rm "$dir/sidecar.log"; ln -s "$data/secrets.json" "$dir/sidecar.log"; exit 7"#;
    let fixture = WorkerFixture::new(behaviour);
    let secrets = fixture.data().join("secrets.json");
    fs::write(&secrets, "very-secret\n").unwrap();
    fixture.drain("echo drained");
    let (engine, recorder) = (Engine::new(&fixture, IMAGE), fixture.recorder());
    let worker = engine.worker(&fixture, &recorder).await;
    let request = request();
    worker.launch(request.clone()).await.unwrap();
    let exit = recorder.exit_of(request.run_id).await.exit;
    assert_eq!((exit.code, exit.drained), (Some(7), true));
    assert!(!exit.detail.unwrap().contains("very-secret"), "the owner of the session sees the detail");
    assert_eq!(fs::read_to_string(secrets).unwrap(), "very-secret\n", "the drain wrote to it");
}

#[tokio::test]
async fn working_directory_with_hidden_paths_is_not_mounted() {
    let fixture = WorkerFixture::new(UNTIL_RELEASED);
    let (engine, recorder) = (Engine::new(&fixture, IMAGE), fixture.recorder());
    let outside = tempfile::tempdir().unwrap();
    let mut config = engine.config(&fixture);
    config.hidden = vec![outside.path().join("credentials")];
    let worker = Worker::start(config, recorder.ports()).await.unwrap();
    let data = fixture.data();
    for folder in [data, data.parent().unwrap(), &data.join("runs"), outside.path()] {
        let working_directory = folder.to_str().unwrap().to_owned();
        let request = LaunchRequest { working_directory, ..request() };
        worker.launch(request.clone()).await.unwrap();
        let detail = recorder.exit_of(request.run_id).await.exit.detail.unwrap();
        let (what, advice) = ("the sidecar could not be started", "choose another working directory");
        assert!(detail.contains(what) && detail.contains(advice), "{}: {detail}", folder.display());
    }
    assert_eq!(fixture.started(), 0);
}

#[tokio::test]
async fn sidecar_in_a_container_hides_the_run_directory_if_agents_are_confined() {
    let fixture = WorkerFixture::new("exit 0");
    let (engine, recorder) = (Engine::new(&fixture, IMAGE), fixture.recorder());
    let mut config = engine.config(&fixture);
    config.confine_agents = true;
    let worker = Worker::start(config, recorder.ports()).await.unwrap();
    let request = request();
    worker.launch(request.clone()).await.unwrap();
    recorder.exit_of(request.run_id).await;
    let dir = fixture.dir(request.run_id);
    let launch: SidecarLaunch = serde_json::from_slice(&fs::read(dir.join("launch.json")).unwrap()).unwrap();
    assert_eq!((launch.confinement, launch.hidden_where_supported), (None, vec![dir]));
}

#[tokio::test]
async fn signals_reach_the_container() {
    let fixture = WorkerFixture::new("trap 'exit 42' TERM; : > $dir/ready; wait_for $dir/go");
    let (engine, recorder) = (Engine::new(&fixture, IMAGE), fixture.recorder());
    let worker = engine.worker(&fixture, &recorder).await;
    let first = launched(&worker, &fixture).await;
    wait_until("the trap is set", || fixture.dir(first.run_id).join("ready").exists()).await;
    worker.stop(first.session_id, first.run_id, StopMode::Terminate).await.unwrap();
    assert_eq!(recorder.exit_of(first.run_id).await.exit.code, Some(42));

    let second = launched(&worker, &fixture).await;
    worker.stop(second.session_id, second.run_id, StopMode::Kill).await.unwrap();
    assert_eq!(recorder.exit_of(second.run_id).await.exit.code, Some(137));
    // An ended run stays ended.
    worker.stop(second.session_id, second.run_id, StopMode::Kill).await.unwrap();
}

#[tokio::test]
async fn container_outlives_client_and_worker_and_is_adopted() {
    let fixture = WorkerFixture::new(UNTIL_RELEASED);
    let (engine, recorder) = (Engine::new(&fixture, IMAGE), fixture.recorder());
    let worker = engine.worker(&fixture, &recorder).await;
    let (one, other) = (launched(&worker, &fixture).await, launched(&worker, &fixture).await);
    engine.kill_client(&one);
    drop(worker);

    let worker = engine.worker(&fixture, &recorder).await;
    engine.kill_client(&other);
    for request in [&one, &other] {
        assert_eq!(worker.state(request.run_id).await, ProcessState::Alive);
    }
    assert!(recorder.reported().is_empty());
    worker.stop(one.session_id, one.run_id, StopMode::Kill).await.unwrap();
    assert!(recorder.exit_of(one.run_id).await.exit.drained);
    fixture.release(other.run_id);
    assert!(recorder.exit_of(other.run_id).await.exit.drained);
}

#[tokio::test]
async fn a_client_that_ends_before_its_container_does_not_end_the_run() {
    let fixture = WorkerFixture::new(UNTIL_RELEASED);
    let (engine, recorder) = (Engine::new(&fixture, IMAGE), fixture.recorder());
    let worker = engine.worker(&fixture, &recorder).await;
    let request = launched(&worker, &fixture).await;
    engine.kill_client(&request);
    worker.stop_all(Duration::from_secs(10)).await;
    // It was terminated through the engine; its exit status is unknown.
    let exit = recorder.exit_of(request.run_id).await.exit;
    assert_eq!((exit.code, exit.signal, exit.drained), (None, None, true));
}

#[tokio::test]
async fn errors_of_the_engine_are_reported() {
    let fixture = WorkerFixture::new(UNTIL_RELEASED);
    let (engine, recorder) = (Engine::new(&fixture, "another"), fixture.recorder());
    let worker = engine.worker(&fixture, &recorder).await;
    let request = request();
    worker.launch(request.clone()).await.unwrap();
    let exit = recorder.exit_of(request.run_id).await.exit;
    assert_eq!(exit.code, Some(125));
    assert!(exit.detail.as_deref().is_some_and(|words| words.contains("no such image: another")), "{exit:?}");
}

/// The brief of an agent may name an image.
#[tokio::test]
async fn image_of_the_brief_replaces_that_of_the_worker() {
    let fixture = WorkerFixture::new(UNTIL_RELEASED);
    let (engine, recorder) = (Engine::new(&fixture, IMAGE), fixture.recorder());
    let worker = engine.worker(&fixture, &recorder).await;
    let workspace = WorkspaceRequirements { base_image: Some("unknown".into()), ..Default::default() };
    let request = LaunchRequest { workspace: Some(Box::new(workspace)), ..request() };
    worker.launch(request.clone()).await.unwrap();
    let exit = recorder.exit_of(request.run_id).await.exit;
    assert!(exit.detail.as_deref().is_some_and(|words| words.contains("no such image: unknown")), "{exit:?}");
}

#[tokio::test]
async fn a_worker_does_not_start_without_its_engine() {
    let fixture = WorkerFixture::new(UNTIL_RELEASED);
    let engine = Engine::new(&fixture, IMAGE);
    let mut config = engine.config(&fixture);
    config.containers.as_mut().unwrap().engine = "/nowhere/docker".into();
    let recorder = fixture.recorder();
    let ports: Ports = recorder.ports();
    let Err(error) = Worker::start(config, ports).await else { panic!("it started") };
    assert!(matches!(error, StartError::Engine { .. }), "{error}");
}
