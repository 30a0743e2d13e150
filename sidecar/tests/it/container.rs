//! A container that knows only its run's token.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use pilothouse_wire::launch::BrokerAccess;
use serde_json::json;

use crate::delivery::assert_complete;
use crate::gateway::Gateway;
use crate::sidecar::{Folders, Sidecar, begin, much, turn};

fn environment(gateway: &Gateway, home: &Path) -> Vec<(&'static str, String)> {
    let token = gateway.secret.gateway_token(gateway.session, gateway.run);
    vec![
        ("PILOTHOUSE_URL", gateway.url.clone()),
        ("PILOTHOUSE_SESSION_ID", gateway.session.to_string()),
        ("PILOTHOUSE_RUN_ID", gateway.run.to_string()),
        ("PILOTHOUSE_TOKEN", token.as_str().to_owned()),
        ("PILOTHOUSE_HOME", home.to_str().unwrap().to_owned()),
    ]
}

fn started(gateway: &Gateway, folders: &Folders) -> (PathBuf, Sidecar) {
    let home = folders.root().join("var");
    let mut launch = folders.launch(gateway);
    launch.request.working_directory = folders.root().join("work").to_str().unwrap().into();
    if let BrokerAccess::Gateway { url, token, .. } = launch.broker {
        launch.broker = BrokerAccess::Sqs { url, token };
    }
    gateway.with(|inner| inner.cloud.launch = Some(launch));
    let sidecar = Sidecar::container(&environment(gateway, &home));
    (home, sidecar)
}

#[tokio::test]
async fn container_fetches_its_launch_and_keeps_it_private() {
    let gateway = Gateway::start().await;
    let folders = Folders::new(&gateway);
    let (home, sidecar) = started(&gateway, &folders);
    gateway.send(begin(json!({ "script": { "steps": [turn(json!([much(20)]))] } })));
    gateway.sees("turn_completed").await;
    let run = home.join("runs").join(gateway.run.to_string());
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&run), mode(&run.join("launch.json"))), (0o700, 0o600));
    assert!(folders.root().join("work").is_dir());
    assert!(home.join("sessions").join(gateway.session.to_string()).is_dir());
    sidecar.signal(nix::sys::signal::Signal::SIGTERM);
    assert_eq!(sidecar.ended().await.code(), Some(0));
    assert_complete(&gateway);
}

#[tokio::test]
async fn container_polls_for_its_launch_and_exits_when_the_run_ends() {
    let gateway = Gateway::start().await;
    gateway.status(Some(503));
    let folders = Folders::new(&gateway);
    let (_, sidecar) = started(&gateway, &folders);
    gateway.until("requests", |g| g.look(|inner| (inner.asked > 1).then_some(()))).await;
    gateway.status(Some(410));
    assert_eq!(sidecar.ended().await.code(), Some(5));
}

#[tokio::test]
async fn container_stops_at_once_while_polling() {
    let gateway = Gateway::start().await;
    gateway.status(Some(503));
    let folders = Folders::new(&gateway);
    let (_, sidecar) = started(&gateway, &folders);
    gateway.until("requests", |g| g.look(|inner| (inner.asked > 0).then_some(()))).await;
    sidecar.signal(nix::sys::signal::Signal::SIGTERM);
    assert_eq!(sidecar.ended().await.code(), Some(0));
}
