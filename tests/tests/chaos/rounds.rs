//! One server with its owners: rounds of faults, then a wait until it settles. Several servers run in parallel, each in a lane.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use pilothouse_domain::Timestamp;
use pilothouse_sqlite::system_clock;
use pilothouse_tests::{Api, Machine, ServerProcess, processes};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng as _};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::check::{self, Failures, Violation};
use crate::owner::{Ledger, Owner, is_refused_for_now};
use crate::stalls::Stalls;

/// A sidecar counts as dead after 9 s and stops itself after 6 s; a missing event is requested for 3 s; a sidecar retries at least every
/// half second. A larger divisor would make undivided times matter: process starts and disk writes.
pub(crate) const DEADLINE_DIVISOR: u32 = 10;
/// Owners that send commands concurrently.
const OWNERS: u64 = 3;
/// Fewer than sessions, so that some sessions wait.
const SLOTS: u32 = 5;
/// A state that is unchanged for this time counts as settled. Longer than every deadline but those of silence and of launches, for which
/// runs and processes are compared.
const QUIET: Duration = Duration::from_secs(4);
/// Longer than a launch and the drain of a spool together.
const SETTLED: Duration = Duration::from_secs(90);
/// A message that waits starts a turn, and the script of the turn may lose an event, which is requested for more than 3 s before the
/// events after it count.
const SETTLED_FOR_EACH_MESSAGE: Duration = Duration::from_secs(5);

/// Of a lane with a small disk, of which the server keeps a part free.
const DISK_MEBIBYTES: u64 = 192;
const RESERVE_MEBIBYTES: u64 = 8;
/// Of lanes with few descriptors. Suffices for the small pool.
const FEW_DESCRIPTORS: u32 = 256;

/// In minutes.
const CLOCK_STEPS: [i64; 6] = [-60, -5, 1, 5, 60, 540];

pub(crate) struct Report {
    pub(crate) lane: u64,
    pub(crate) summary: String,
    pub(crate) violations: Vec<Violation>,
}

/// The start and the fault of each round.
#[derive(Debug, Default)]
pub(crate) struct Rounds(Vec<(Timestamp, String)>);

impl Rounds {
    fn begin(&mut self, what: String) {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
        self.0.push((Timestamp::from_millis(i64::try_from(now.as_millis()).unwrap()), what));
    }

    fn also(&mut self, what: &str) {
        let killed = &mut self.0.last_mut().unwrap().1;
        killed.push_str(if killed.is_empty() { "" } else { ", then " });
        killed.push_str(what);
    }

    /// 0 before the first round.
    pub(crate) fn at(&self, at: Timestamp) -> usize {
        self.0.partition_point(|(begun, _)| *begun <= at)
    }

    /// Whether the sidecar of this run was killed.
    pub(crate) fn killed(&self, run: &str) -> bool {
        self.0.iter().any(|(_, what)| what.contains(run))
    }

    pub(crate) fn strike(&self, round: usize) -> &str {
        round.checked_sub(1).and_then(|at| self.0.get(at)).map_or("", |(_, what)| what)
    }
}

/// Plays the rounds of one server and checks the stored data.
pub(crate) async fn run(seed: u64, lane: u64, rounds: u64) -> Report {
    let begun = Instant::now();
    let mut rng = StdRng::seed_from_u64(seed);
    // Every second lane has few descriptors, and every lane has a small disk if the test may mount one.
    let machine = Machine {
        disk_mebibytes: Some(DISK_MEBIBYTES),
        descriptors: (lane % 2 == 1).then_some(FEW_DESCRIPTORS),
    };
    let reserve = RESERVE_MEBIBYTES.to_string();
    let environment = [("PILOTHOUSE_DISK_RESERVE_MIB", reserve.as_str())];
    let mut server =
        if let Some(server) = ServerProcess::start_on(DEADLINE_DIVISOR, &environment, machine).await {
            server
        } else {
            println!("lane {lane}: only root can mount a small disk; no disk is filled");
            let machine = Machine { disk_mebibytes: None, ..machine };
            ServerProcess::start_on(DEADLINE_DIVISOR, &environment, machine).await.unwrap()
        };
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
        // A random time on purpose, without a condition to wait for.
        tokio::time::sleep(Duration::from_millis(rng.random_range(60..1500))).await;
        strike(&mut server, &mut rng, &mut history, &stalls).await;
    }
    enough.store(true, Ordering::SeqCst);
    while let Some(owner) = owners.join_next().await {
        owner.unwrap_or_else(|error| panic!("an owner of lane {lane}, seed {seed} panicked: {error}"));
    }
    let played = begun.elapsed();
    // Idle sessions keep their slots. With enough slots for all, a session that still waits was forgotten.
    widen_pool(&api).await;
    release_brakes(&api).await;
    let mut violations = settle(&server, &api, &ledger).await;
    // The sidecars follow the server before they count as isolated, so that nothing changes after settling.
    server.kill9();
    processes::kill_all(&server.data());
    let settled = begun.elapsed().saturating_sub(played);
    let (facts, found) = check::check(&server.data(), &ledger, &history, &stalls, Failures::Any).await;
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

/// Gives every session a slot, once the server has noticed the free disk space.
async fn widen_pool(api: &Api) {
    let give_up = Instant::now() + SETTLED;
    loop {
        let reply = api.patch("/api/agents/pool", json!({ "maxConcurrentSessions": 1000 })).await;
        if !is_refused_for_now(&reply) {
            reply.expect(200);
            return;
        }
        assert!(Instant::now() < give_up, "the server does not notice the free disk space: {}", reply.text);
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// Releases what owners pulled while the clock was wrong, and what they could not release.
async fn release_brakes(api: &Api) {
    for brake in api.all("/api/brakes").await.into_iter().filter(|brake| brake["released"].is_null()) {
        let path = format!("/api/brakes/{}/release", brake["id"].as_str().unwrap());
        let reply = api.post(&path, json!({})).await;
        // Its time may be over by now.
        assert!(reply.status == 200 || reply.body["code"] == "brake-over", "{}", reply.text);
    }
}

/// Mostly a kill.
async fn strike(server: &mut ServerProcess, rng: &mut StdRng, history: &mut Rounds, stalls: &Stalls) {
    let kind = rng.random_range(0..100);
    let length = Duration::from_millis(match rng.random_range(0..100) {
        0..90 => rng.random_range(20..2500),
        // Long enough for a sidecar to count as silent.
        _ => 10_000,
    });
    let (pick, room) = (rng.random_range(0..1000), rng.random_range(0..2) * RESERVE_MEBIBYTES / 2);
    let from = system_clock()();
    match kind {
        0..62 => return strike_down(server, rng, history).await,
        62..74 => freeze_one(server, pick, length, history).await,
        74..82 => {
            history.begin(format!("the server stopped for {length:?}"));
            server.freeze();
            tokio::time::sleep(length).await;
            server.thaw();
        }
        82..90 => {
            let step = CLOCK_STEPS[pick % CLOCK_STEPS.len()];
            history.begin(format!("the clock of the server {step} minutes off for {length:?}"));
            server.set_clock_offset(step * 60_000);
            tokio::time::sleep(length).await;
            server.set_clock_offset(0);
        }
        _ => {
            let Some(disk) = server.disk() else { return history.begin("nothing".to_owned()) };
            history.begin(format!("the disk full but for {room} MiB for {length:?}"));
            disk.fill(room);
            tokio::time::sleep(length).await;
            disk.clear();
        }
    }
    // Excuses deadlines while the machine could not run or write.
    stalls.note(from, system_clock()());
}

/// Suspends a sidecar for a while, if there is one.
async fn freeze_one(server: &ServerProcess, pick: usize, length: Duration, history: &mut Rounds) {
    let sidecars = server.sidecars();
    let Some(victim) = sidecars.get(pick % sidecars.len().max(1)) else {
        return history.begin("no sidecar".to_owned());
    };
    history.begin(format!("the sidecar of {} stopped for {length:?}", victim.run));
    // The sidecar may have exited or been killed meanwhile.
    let _ = kill(victim.pid, Signal::SIGSTOP);
    tokio::time::sleep(length).await;
    let _ = kill(victim.pid, Signal::SIGCONT);
}

/// The kills of one round: a server, a sidecar before, during or after the outage of its server, or only a sidecar.
pub(crate) async fn strike_down(server: &mut ServerProcess, rng: &mut StdRng, history: &mut Rounds) {
    let server_too = rng.random_bool(0.7);
    let sidecar_when = rng.random_bool(0.6).then(|| rng.random_range(0..3));
    let pick = rng.random_range(0..1000);
    let twice = rng.random_bool(0.15);
    let away = Duration::from_millis(match rng.random_range(0..100) {
        0..60 => 0,
        60..98 => rng.random_range(0..500),
        // Minutes in terms of divided deadlines.
        _ => 15_000,
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

/// Includes the process that drains a dead sidecar.
fn kill_one(server: &ServerProcess, pick: usize) -> String {
    let sidecars = server.sidecars();
    let Some(victim) = sidecars.get(pick % sidecars.len().max(1)) else { return "no sidecar".to_owned() };
    victim.kill9();
    format!("the sidecar of {}", victim.run)
}

/// Waits until no work is pending. Work that outlasts all deadlines is a violation.
pub(crate) async fn settle(server: &ServerProcess, api: &Api, ledger: &Ledger) -> Vec<Violation> {
    let give_up = Instant::now() + SETTLED + SETTLED_FOR_EACH_MESSAGE * longest_queue(api, ledger).await;
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
                    Violation::of(&id, "this did not settle within all deadlines", format!("{what}\n{tail}"))
                })
                .collect();
        }
        tokio::time::sleep(Duration::from_millis(150)).await;
    }
}

/// The number of messages in the longest queue of a session. Queues are processed at the same time.
async fn longest_queue(api: &Api, ledger: &Ledger) -> u32 {
    let mut longest = 0;
    for id in ledger.sessions() {
        let queue = api.get(&format!("/api/agents/sessions/{id}/messages/queue")).await.expect(200).body;
        longest = longest.max(queue["items"].as_array().unwrap().len());
    }
    u32::try_from(longest).unwrap()
}

/// Why a session has not settled.
fn under_way(view: &Value) -> Option<String> {
    let status = view["status"].as_str().unwrap();
    let phase = view["currentRun"]["phase"].as_str();
    let resting = match status {
        "Idle" | "Interrupted" | "Paused" => matches!(phase, None | Some("Live")),
        "Completed" | "Cancelled" | "Failed" | "ContextExhausted" => phase.is_none(),
        // Intermediate; or the agent is working, and all scripts end; or a request has a deadline.
        _ => false,
    };
    (!resting || view["cancelAccepted"] == true).then(|| format!("{status}, run {}", view["currentRun"]))
}

/// Sidecars without a session, and live runs without a sidecar.
fn strangers(server: &ServerProcess, views: &BTreeMap<String, Value>) -> Vec<String> {
    let alive: Vec<String> = server.sidecars().into_iter().map(|sidecar| sidecar.run).collect();
    let known: Vec<(&String, &str)> =
        views.iter().filter_map(|(id, view)| Some((id, view["currentRun"]["id"].as_str()?))).collect();
    let unknown = alive.iter().filter(|run| known.iter().all(|(_, known)| known != run));
    let dead = known.iter().filter(|(_, run)| alive.iter().all(|alive| alive != run));
    let unknown = unknown.map(|run| format!("{run}: the sidecar is alive but belongs to no session"));
    let dead = dead.map(|(id, run)| format!("{id}: its run {run} has no process"));
    unknown.chain(dead).collect()
}

pub(crate) fn keep(data: &Path, lane: u64) {
    if let Some(folder) = std::env::var_os("PILOTHOUSE_CHAOS_KEEP") {
        let to = Path::new(&folder).join(format!("lane-{lane}"));
        let _ = std::fs::create_dir_all(&folder);
        let copied = std::process::Command::new("cp").arg("-a").arg(data.parent().unwrap()).arg(&to).status();
        println!("the data of lane {lane} is in {} ({copied:?})", to.display());
    }
}
