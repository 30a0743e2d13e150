//! One server with its owner: rounds of kills, and settling down after them.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use pilothouse_domain::Timestamp;
use pilothouse_tests::{Api, ServerProcess, processes};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng as _};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::check::{self, Violation};
use crate::owner::{Ledger, Owner};
use crate::stalls::Stalls;

/// By how much deadlines are divided: a sidecar counts as dead after 9 s, stops by itself after 6 s, is asked for what is
/// missing for 3 s, and waits half a second at most between two tries to reach the server. Much less, and what is not
/// divided counts: how long processes take to start, and disks to write.
pub(crate) const HURRY: u32 = 10;
/// Who commands at once.
const OWNERS: u64 = 3;
/// Slots of the pool: fewer than sessions, so that some wait.
const SLOTS: u32 = 5;
/// How long nothing may change for everything to count as settled: longer than any deadline but that of a silence and
/// of a launch, for which runs and processes are compared.
const QUIET: Duration = Duration::from_secs(4);
/// How long settling may take: longer than a launch and the draining of a spool together.
const SETTLED: Duration = Duration::from_secs(90);

/// What a lane found.
pub(crate) struct Report {
    pub(crate) lane: u64,
    pub(crate) summary: String,
    pub(crate) violations: Vec<Violation>,
}

/// When each round began.
#[derive(Debug, Default)]
pub(crate) struct Rounds(Vec<(Timestamp, String)>);

impl Rounds {
    fn begin(&mut self, what: String) {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
        self.0.push((Timestamp::from_millis(i64::try_from(now.as_millis()).unwrap()), what));
    }

    /// Adds to what was killed in the latest round.
    fn also(&mut self, what: &str) {
        let killed = &mut self.0.last_mut().unwrap().1;
        killed.push_str(if killed.is_empty() { "" } else { ", then " });
        killed.push_str(what);
    }

    /// The round of a moment, 0 before the first.
    pub(crate) fn at(&self, at: Timestamp) -> usize {
        self.0.partition_point(|(begun, _)| *begun <= at)
    }

    /// What was killed in a round.
    pub(crate) fn strike(&self, round: usize) -> &str {
        round.checked_sub(1).and_then(|at| self.0.get(at)).map_or("", |(_, what)| what)
    }
}

/// Plays the rounds of one server and checks what is left.
pub(crate) async fn run(seed: u64, lane: u64, rounds: u64) -> Report {
    let begun = Instant::now();
    let mut rng = StdRng::seed_from_u64(seed);
    let mut server = ServerProcess::start(HURRY).await;
    let stalls = Stalls::watch(server.data().parent().unwrap());
    let api = server.api();
    api.patch("/api/agents/pool", json!({ "maxConcurrentSessions": SLOTS })).await.expect(200);

    let ledger = Arc::new(Ledger::default());
    let enough = Arc::new(AtomicBool::new(false));
    let mut owners = JoinSet::new();
    for n in 0..OWNERS {
        let rng = StdRng::seed_from_u64(seed.wrapping_mul(31).wrapping_add(n));
        let owner = Owner::new(api.clone(), server.work_folder(), Arc::clone(&ledger), rng);
        let enough = Arc::clone(&enough);
        owners.spawn(async move { owner.command(&enough).await });
    }
    let mut history = Rounds::default();
    for _ in 0..rounds {
        // The point of the kill is what is random here; there is no condition to wait for.
        tokio::time::sleep(Duration::from_millis(rng.random_range(60..1500))).await;
        strike(&mut server, &mut rng, &mut history).await;
    }
    enough.store(true, Ordering::SeqCst);
    while let Some(owner) = owners.join_next().await {
        owner.unwrap_or_else(|error| panic!("an owner of lane {lane}, seed {seed} broke off: {error}"));
    }
    let played = begun.elapsed();
    // Idle sessions keep their slots. With enough for all, whoever still waits is forgotten.
    api.patch("/api/agents/pool", json!({ "maxConcurrentSessions": 1000 })).await.expect(200);
    let mut violations = settle(&mut server, &api, &ledger).await;
    // First the server, and then, before they count as isolated, the sidecars: what is stored now is what is checked.
    server.kill9();
    processes::kill_all(&server.data());
    let settled = begun.elapsed().saturating_sub(played);
    let (facts, found) = check::check(&server.data(), &ledger, &history, &stalls).await;
    violations.extend(found);
    if !violations.is_empty() {
        keep(&server.data(), lane);
    }
    let summary = format!(
        "lane {lane}: {rounds} rounds in {played:.1?}, settled in {settled:.1?}; {facts}; {}; {}",
        stalls.summary(),
        ledger.summary()
    );
    Report { lane, summary, violations }
}

/// One round's kills: a server, a sidecar before, while or after it is away, or a sidecar alone.
async fn strike(server: &mut ServerProcess, rng: &mut StdRng, history: &mut Rounds) {
    let server_too = rng.random_bool(0.7);
    let sidecar_when = rng.random_bool(0.6).then(|| rng.random_range(0..3));
    let pick = rng.random_range(0..1000);
    let twice = rng.random_bool(0.15);
    let away = Duration::from_millis(match rng.random_range(0..100) {
        0..60 => 0,
        60..98 => rng.random_range(0..500),
        // So long that sidecars stop their agents by themselves.
        _ => 6600,
    });
    history.begin(String::new());
    if !server_too || sidecar_when == Some(0) {
        history.also(&kill_one(server, pick));
    }
    if !server_too {
        return;
    }
    server.kill9();
    history.also(&format!("the server, away for {away:?}"));
    if sidecar_when == Some(1) {
        history.also(&kill_one(server, pick));
    }
    tokio::time::sleep(away).await;
    server.restart().await;
    if twice {
        tokio::time::sleep(Duration::from_millis(rng.random_range(0..150))).await;
        history.also("the server again");
        server.restart().await;
    }
    if sidecar_when == Some(2) {
        history.also(&kill_one(server, pick));
    }
}

/// Kills a sidecar, or the process that drains what one has left, if there is any.
fn kill_one(server: &ServerProcess, pick: usize) -> String {
    let sidecars = server.sidecars();
    let Some(victim) = sidecars.get(pick % sidecars.len().max(1)) else { return "no sidecar".to_owned() };
    victim.kill9();
    format!("the sidecar of {}", victim.run)
}

/// Waits until nothing is under way any more; what still is after all deadlines is a violation.
async fn settle(server: &mut ServerProcess, api: &Api, ledger: &Ledger) -> Vec<Violation> {
    let give_up = Instant::now() + SETTLED;
    let mut before = BTreeMap::new();
    let mut quiet_since = Instant::now();
    loop {
        let mut now = BTreeMap::new();
        let mut open = Vec::new();
        for id in ledger.sessions() {
            let view = api.get(&format!("/api/agents/sessions/{id}")).await.expect(200).body;
            if let Some(why) = under_way(&view) {
                open.push(format!("{id}: {why}"));
            }
            now.insert(id, view);
        }
        open.extend(strangers(server, &now));
        let cursors = |views: &BTreeMap<String, Value>| {
            views.iter().map(|(id, view)| (id.clone(), view["cursor"].clone())).collect::<Vec<_>>()
        };
        if cursors(&before) != cursors(&now) || !open.is_empty() {
            quiet_since = Instant::now();
        }
        before = now;
        if quiet_since.elapsed() >= QUIET {
            return Vec::new();
        }
        if Instant::now() >= give_up {
            let log = server.log();
            return open
                .into_iter()
                .map(|what| {
                    let id = what.split(':').next().unwrap_or_default().to_owned();
                    let lines: Vec<_> = log.lines().filter(|line| line.contains(&id)).collect();
                    let tail = lines[lines.len().saturating_sub(8)..].join("\n");
                    Violation::of(
                        &id,
                        "this has not settled although all deadlines have passed",
                        format!("{what}\n{tail}"),
                    )
                })
                .collect();
        }
        tokio::time::sleep(Duration::from_millis(150)).await;
    }
}

/// Why a session is not at rest.
fn under_way(view: &Value) -> Option<String> {
    let status = view["status"].as_str().unwrap();
    let phase = view["currentRun"]["phase"].as_str();
    let resting = match status {
        "Idle" | "Interrupted" | "Paused" => matches!(phase, None | Some("Live")),
        "Completed" | "Cancelled" | "Failed" | "ContextExhausted" => phase.is_none(),
        // Intermediate; or an agent at work, and all their scripts end; or a request that has a deadline.
        _ => false,
    };
    (!resting || view["cancelAccepted"] == true).then(|| format!("{status}, run {}", view["currentRun"]))
}

/// Sidecars that no session knows, and runs that count as live and have none.
fn strangers(server: &ServerProcess, views: &BTreeMap<String, Value>) -> Vec<String> {
    let alive: Vec<String> = server.sidecars().into_iter().map(|sidecar| sidecar.run).collect();
    let known: Vec<(&String, &str)> =
        views.iter().filter_map(|(id, view)| Some((id, view["currentRun"]["id"].as_str()?))).collect();
    let unknown = alive.iter().filter(|run| known.iter().all(|(_, known)| known != run));
    let dead = known.iter().filter(|(_, run)| alive.iter().all(|alive| alive != run));
    let unknown = unknown.map(|run| format!("{run}: a sidecar is alive that no session knows"));
    let dead = dead.map(|(id, run)| format!("{id}: its run {run} has no process"));
    unknown.chain(dead).collect()
}

fn keep(data: &Path, lane: u64) {
    if let Some(folder) = std::env::var_os("PILOTHOUSE_CHAOS_KEEP") {
        let to = Path::new(&folder).join(format!("lane-{lane}"));
        let _ = std::fs::create_dir_all(&folder);
        let copied = std::process::Command::new("cp").arg("-a").arg(data.parent().unwrap()).arg(&to).status();
        println!("the data of lane {lane} are in {} ({copied:?})", to.display());
    }
}
