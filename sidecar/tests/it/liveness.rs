//! A sidecar that is stopped, or whose control plane is unreachable (decision 13): what ends its agent, what pauses it,
//! and what has no effect.

use nix::sys::signal::Signal;
use pilothouse_model_server::{ModelServer, Script, Step};
use pilothouse_wire::Command;
use pilothouse_wire::launch::{OfflineLimits, SidecarLaunch};
use serde_json::{Value, json};

use crate::delivery::assert_complete;
use crate::gateway::Gateway;
use crate::guards::{ESCAPE, escaped, gone, runs};
use crate::sidecar::{Folders, Sidecar, begin, much, playing, turn};

/// A sidecar with the native agent, with a changed launch.
async fn native(
    steps: Vec<Step>,
    change: impl FnOnce(&mut SidecarLaunch),
) -> (Gateway, Folders, Sidecar, ModelServer) {
    let model = ModelServer::start(Script::of(steps)).await.unwrap();
    let gateway = Gateway::start().await;
    let folders = Folders::of_adapter(&gateway, "native");
    let mut launch = folders.launch(&gateway);
    change(&mut launch);
    folders.write_launch(&launch);
    let environment =
        [("ANTHROPIC_BASE_URL", model.base_url()), ("ANTHROPIC_API_KEY", "sk-ant-x".to_owned())];
    let sidecar = folders.start_with(&environment);
    let Command::Begin(mut begun) = begin(json!({})) else { unreachable!() };
    begun.config.model_id = "anthropic/claude-sonnet-4-5".into();
    begun.config.working_directory = folders.work().to_str().unwrap().into();
    gateway.send(Command::Begin(begun));
    (gateway, folders, sidecar, model)
}

fn bash(command: &str) -> Step {
    Step::tool("bash", json!({ "command": command }))
}

/// Stops a sidecar, but not its child processes.
async fn stop(gateway: &Gateway, sidecar: &Sidecar) {
    sidecar.signal(Signal::SIGSTOP);
    let stat = format!("/proc/{}/stat", sidecar.pid());
    let stopped = |_: &Gateway| std::fs::read_to_string(&stat).unwrap().contains(") T ").then_some(());
    gateway.until("a stopped sidecar", stopped).await;
}

/// Waits for this many failed requests, which corresponds to minutes of heartbeats.
async fn away(gateway: &Gateway, requests: usize) {
    let asked = gateway.look(|inner| inner.asked);
    gateway.until("an absence", |g| (g.look(|inner| inner.asked) > asked + requests).then_some(())).await;
}

/// Waits until a sidecar has spooled an event with this text, whether or not it was sent.
async fn spooled(gateway: &Gateway, folders: &Folders, text: &str) {
    use pilothouse_sqlite::rusqlite::{Connection, OpenFlags};
    let spool = folders.run().join("spool.db");
    let db = Connection::open_with_flags(spool, OpenFlags::SQLITE_OPEN_READ_ONLY).unwrap();
    db.busy_timeout(std::time::Duration::from_secs(5)).unwrap();
    let count = |_: &Gateway| -> Option<()> {
        let sql = "SELECT COUNT(*) FROM outgoing WHERE instr(body, ?1) > 0";
        let count: usize = db.query_row(sql, [text], |row| row.get(0)).unwrap();
        (count > 0).then_some(())
    };
    gateway.until(text, count).await;
}

/// An outage in which the sidecar pauses its agent. Ends some time after the sidecar has resumed the agent.
pub(crate) async fn outage_with_a_pause(gateway: &Gateway, folders: &Folders) {
    gateway.status(Some(503));
    spooled(gateway, folders, "offline_paused").await;
    gateway.status(None);
    gateway.sees("notice offline_resumed").await;
    let beats = gateway.heartbeats();
    gateway.until("heartbeats", |g| (g.heartbeats() > beats + 10).then_some(())).await;
}

fn noticed(gateway: &Gateway, name: &str) -> bool {
    gateway.story().contains(&format!("notice {name}"))
}

#[tokio::test]
async fn stopped_sidecar_without_a_lease_continues_with_its_agent() {
    let go_on = format!("{ESCAPE}; while [ ! -e go ]; do sleep 0.01; done");
    let (gateway, folders, sidecar, _model) = native(vec![bash(&go_on), Step::text("Done.")], |_| {}).await;
    let pid = escaped(&gateway, &folders.work()).await;
    stop(&gateway, &sidecar).await;
    std::fs::write(folders.work().join("go"), "").unwrap();
    gone(&gateway, pid).await; // The command is over, and its guard has ended what it left.
    sidecar.signal(Signal::SIGCONT);
    gateway.sees("turn_completed").await;
    assert_complete(&gateway);
    assert!(!gateway.story().iter().any(|said| said.starts_with("notice")), "{:?}", gateway.story());
}

#[tokio::test]
async fn guard_ends_the_agent_of_a_stopped_sidecar_at_lease_expiry() {
    let steps = vec![bash(&format!("{ESCAPE}; sleep 600")), Step::text("Done.")];
    let (gateway, folders, sidecar, _model) =
        native(steps, |launch| launch.request.lease_ms = Some(3000)).await;
    let pid = escaped(&gateway, &folders.work()).await;
    let beats = gateway.heartbeats();
    gateway.until("more heartbeats", |g| (g.heartbeats() > beats + 20).then_some(())).await;
    assert!(runs(pid), "accepted heartbeats renew the lease");
    stop(&gateway, &sidecar).await;
    gone(&gateway, pid).await;
    // After the continuation, the lease has expired and no work begins.
    sidecar.signal(Signal::SIGCONT);
    assert_eq!(sidecar.ended().await.code(), Some(4));
    assert!(!noticed(&gateway, "lease_expired"), "it published beyond its lease");
    assert_eq!(folders.drain().await.code(), Some(0));
    assert_complete(&gateway);
    assert!(noticed(&gateway, "lease_expired"));
    assert!(!gateway.story().iter().any(|said| said.starts_with("turn_completed")), "{:?}", gateway.story());
}

#[tokio::test]
async fn native_agent_without_cap_pauses_offline_at_its_allowance() {
    let steps = vec![
        bash("while [ ! -e go ]; do sleep 0.01; done"),
        bash("touch first"),
        bash("touch second"),
        bash("touch third"),
        Step::text("Done."),
    ];
    let limits = OfflineLimits { allowance_usd: "0.000001".parse().unwrap(), unpriced_seconds: 600.0 };
    let (gateway, folders, _sidecar, _model) = native(steps, |launch| launch.offline = limits).await;
    gateway.sees("assistant_message tool bash").await;
    gateway.status(Some(503));
    away(&gateway, 10).await;
    std::fs::write(folders.work().join("go"), "").unwrap();
    spooled(&gateway, &folders, "offline_paused").await;
    // A call that began before the pause may end.
    away(&gateway, 40).await;
    assert!(!folders.work().join("third").exists(), "it works on beyond its allowance");
    gateway.status(None);
    gateway.sees("turn_completed").await;
    assert!(folders.work().join("third").exists());
    assert!(noticed(&gateway, "offline_paused") && noticed(&gateway, "offline_resumed"));
    assert_complete(&gateway);
}

fn usage(cost: &str) -> Value {
    json!({ "usage": { "costUsd": cost } })
}

/// Plays a turn that spends half a dollar four times while the gateway is away, until `paused`.
async fn spending(allowance: Option<&str>, limits: OfflineLimits) -> (Gateway, Folders, Sidecar) {
    let gateway = Gateway::start().await;
    let folders = Folders::new(&gateway);
    let mut launch = folders.launch(&gateway);
    launch.offline = limits;
    folders.write_launch(&launch);
    let sidecar = folders.start();
    let spend = json!([{ "say": "before" }, { "wait": 1000 }, usage("0.5"), much(200), usage("0.5"), much(200),
        usage("0.5"), much(200), usage("0.5"), much(200), { "say": "after" }]);
    let Command::Begin(mut begun) = begin(json!({ "script": { "steps": [turn(spend)] } })) else {
        unreachable!()
    };
    begun.allowance_usd = allowance.map(Into::into);
    gateway.send(Command::Begin(begun));
    gateway.sees("assistant_message text before").await;
    gateway.status(Some(503));
    (gateway, folders, sidecar)
}

#[tokio::test]
async fn offline_run_may_spend_the_remainder_of_its_cap() {
    let none = OfflineLimits { allowance_usd: "0".parse().unwrap(), unpriced_seconds: 600.0 };
    for (cap, paused) in [("1", true), ("2.5", false)] {
        let (gateway, folders, _sidecar) = spending(Some(cap), none).await;
        spooled(&gateway, &folders, if paused { "offline_paused" } else { "after" }).await;
        gateway.status(None);
        gateway.sees("assistant_message text after").await;
        assert_eq!(noticed(&gateway, "offline_paused"), paused, "{cap}");
        assert_complete(&gateway);
    }
}

#[tokio::test]
async fn control_plane_pause_outlasts_an_outage() {
    let limits = OfflineLimits { allowance_usd: "0.6".parse().unwrap(), unpriced_seconds: 600.0 };
    let (gateway, folders, _sidecar) = spending(None, limits).await;
    spooled(&gateway, &folders, "offline_paused").await;
    // When the connection is back, the order is in the queue before the spooled events are sent.
    gateway.refuse_events(true);
    gateway.status(None);
    let pause = gateway.send(Command::Pause {});
    gateway.until("a taken pause", |g| (g.undeleted() == 0).then_some(())).await;
    gateway.refuse_events(false);
    gateway.acknowledged(pause, "done").await;
    let beats = gateway.heartbeats();
    gateway.until("heartbeats", |g| (g.heartbeats() > beats + 10).then_some(())).await;
    assert!(noticed(&gateway, "offline_paused") && !noticed(&gateway, "offline_resumed"));
    let resume = gateway.send(Command::Resume {});
    gateway.acknowledged(resume, "done").await;
    gateway.sees("assistant_message text after").await;
    assert_complete(&gateway);
}

/// The machine slept, or the process was stopped. No request failed.
#[tokio::test]
async fn suspended_sidecar_does_not_count_as_offline() {
    let (gateway, _folders, sidecar) = playing(json!([turn(json!([much(2000), { "say": "after" }]))])).await;
    gateway.sees_nth("assistant_message", 5).await;
    stop(&gateway, &sidecar).await;
    sidecar.signal(Signal::SIGCONT);
    gateway.sees("assistant_message text after").await;
    assert!(!noticed(&gateway, "offline_paused"));
    assert_complete(&gateway);
}
