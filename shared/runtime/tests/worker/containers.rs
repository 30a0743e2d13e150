//! Sidecars in containers: `fake_engine.sh` stands in for the engine, as it says itself.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use pilothouse_runtime::{AgentRuntime as _, Containers, Ports, ProcessState, StartError, StopMode, Worker};
use pilothouse_wire::launch::LaunchRequest;

use crate::support::{Place, Recorder, UNTIL_TOLD, request, secret, until};

const IMAGE: &str = "the-image";

struct Engine {
    folder: PathBuf,
    image: &'static str,
}

impl Engine {
    fn new(place: &Place, image: &'static str) -> Self {
        let folder = place.data().join("engine");
        fs::create_dir(&folder).unwrap();
        let fakes = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/worker");
        symlink(fakes.join("fake_engine.sh"), folder.join("engine")).unwrap();
        symlink(fakes.join("fake_sidecar.sh"), folder.join("sidecar")).unwrap();
        Self { folder, image }
    }

    async fn worker(&self, place: &Place, recorder: &Arc<Recorder>) -> Worker {
        Worker::start(self.config(place), recorder.ports()).await.unwrap()
    }

    fn config(&self, place: &Place) -> pilothouse_runtime::WorkerConfig {
        let mut config = place.config();
        let options = vec!["--network=host".to_owned()];
        config.containers =
            Some(Containers { engine: self.folder.join("engine"), image: self.image.to_owned(), options });
        config.environment = config.environment.with("TOKEN_OF_THE_TEST", "very-secret");
        config
    }

    /// What the engine was told, an argument after the other.
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

async fn launched(worker: &Worker, place: &Place) -> LaunchRequest {
    let request = request();
    worker.launch(request.clone()).await.unwrap();
    place.running(request.run_id).await;
    request
}

#[tokio::test]
async fn a_sidecar_runs_with_its_folders_where_they_are_and_no_secret_in_sight() {
    let place = Place::new(UNTIL_TOLD);
    let (engine, recorder) = (Engine::new(&place, IMAGE), place.recorder());
    let worker = engine.worker(&place, &recorder).await;
    let request = launched(&worker, &place).await;
    assert_eq!(worker.state(request.run_id).await, ProcessState::Alive);
    let said = engine.said();
    let dir = place.dir(request.run_id);
    let home = place.data().join("sessions").join(request.session_id.to_string());
    for folder in [dir.as_path(), home.as_path(), Path::new("/tmp")] {
        let mount = format!("--mount type=bind,source={0},target={0} ", folder.display());
        assert!(said.contains(&mount), "{said}");
    }
    assert!(said.ends_with(&format!("--network=host {IMAGE} run {}\n", dir.display())), "{said}");
    assert!(said.contains("--env TOKEN_OF_THE_TEST ") && !said.contains("--env PATH "), "{said}");
    let key = secret().envelope_key(request.run_id);
    let key = serde_json::to_value(&key).unwrap();
    assert!(!said.contains("very-secret") && !said.contains(key.as_str().unwrap()), "{said}");

    place.tell(request.run_id);
    let exit = recorder.end_of(request.run_id).await.exit;
    assert_eq!((exit.code, exit.drained), (Some(0), true));
}

#[tokio::test]
async fn signals_go_to_the_container() {
    let place = Place::new("trap 'exit 42' TERM; : > $dir/ready; wait_for $dir/go");
    let (engine, recorder) = (Engine::new(&place, IMAGE), place.recorder());
    let worker = engine.worker(&place, &recorder).await;
    let first = launched(&worker, &place).await;
    until("the trap is set", || place.dir(first.run_id).join("ready").exists()).await;
    worker.stop(first.session_id, first.run_id, StopMode::Terminate).await.unwrap();
    assert_eq!(recorder.end_of(first.run_id).await.exit.code, Some(42));

    let second = launched(&worker, &place).await;
    worker.stop(second.session_id, second.run_id, StopMode::Kill).await.unwrap();
    assert_eq!(recorder.end_of(second.run_id).await.exit.code, Some(137));
    // Over is over.
    worker.stop(second.session_id, second.run_id, StopMode::Kill).await.unwrap();
}

#[tokio::test]
async fn a_container_outlives_its_client_and_its_worker_and_is_adopted() {
    let place = Place::new(UNTIL_TOLD);
    let (engine, recorder) = (Engine::new(&place, IMAGE), place.recorder());
    let worker = engine.worker(&place, &recorder).await;
    let (one, other) = (launched(&worker, &place).await, launched(&worker, &place).await);
    engine.kill_client(&one);
    drop(worker);

    let worker = engine.worker(&place, &recorder).await;
    engine.kill_client(&other);
    for request in [&one, &other] {
        assert_eq!(worker.state(request.run_id).await, ProcessState::Alive);
    }
    assert!(recorder.told().is_empty());
    worker.stop(one.session_id, one.run_id, StopMode::Kill).await.unwrap();
    assert!(recorder.end_of(one.run_id).await.exit.drained);
    place.tell(other.run_id);
    assert!(recorder.end_of(other.run_id).await.exit.drained);
}

#[tokio::test]
async fn a_client_that_ends_before_its_container_does_not_end_the_run() {
    let place = Place::new(UNTIL_TOLD);
    let (engine, recorder) = (Engine::new(&place, IMAGE), place.recorder());
    let worker = engine.worker(&place, &recorder).await;
    let request = launched(&worker, &place).await;
    engine.kill_client(&request);
    worker.stop_all(Duration::from_secs(10)).await;
    // It was asked to end through the engine, and what nobody saw is not told as if somebody had.
    let exit = recorder.end_of(request.run_id).await.exit;
    assert_eq!((exit.code, exit.signal, exit.drained), (None, None, true));
}

#[tokio::test]
async fn what_the_engine_refuses_is_told_in_its_words() {
    let place = Place::new(UNTIL_TOLD);
    let (engine, recorder) = (Engine::new(&place, "another"), place.recorder());
    let worker = engine.worker(&place, &recorder).await;
    let request = request();
    worker.launch(request.clone()).await.unwrap();
    let exit = recorder.end_of(request.run_id).await.exit;
    assert_eq!(exit.code, Some(125));
    assert!(exit.detail.as_deref().is_some_and(|words| words.contains("no such image: another")), "{exit:?}");
}

#[tokio::test]
async fn a_worker_does_not_start_without_its_engine() {
    let place = Place::new(UNTIL_TOLD);
    let engine = Engine::new(&place, IMAGE);
    let mut config = engine.config(&place);
    config.containers.as_mut().unwrap().engine = "/nowhere/docker".into();
    let recorder = place.recorder();
    let ports: Ports = recorder.ports();
    let Err(error) = Worker::start(config, ports).await else { panic!("it started") };
    assert!(matches!(error, StartError::Engine { .. }), "{error}");
}
