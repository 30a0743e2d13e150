//! Brakes on many agents of a project, while the server (with its worker) and sidecars are killed.

use std::sync::Arc;
use std::time::{Duration, Instant};

use pilothouse_tests::{Api, ServerProcess, processes};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng as _};
use reqwest::Method;
use serde_json::{Value, json};

use crate::check::{self, Failures, Violation};
use crate::owner::{Ledger, Owner};
use crate::rounds::{self, DEADLINE_DIVISOR, Rounds};
use crate::stalls::Stalls;

/// Most agents of a project. Further sessions have no project.
const AGENTS: usize = 50;
/// Kills while a brake is in force.
const STRIKES: u32 = 3;
/// Longer than every deadline of a stop, a launch and a drain together.
const PATIENCE: Duration = Duration::from_mins(1);
/// Processor time for one more sidecar to start, to stop and to be published, on two cores with other work.
const PATIENCE_FOR_EACH: Duration = Duration::from_millis(400);

/// The most agents that two cores can serve if each does something every [`PERIOD_MS`], within the usual divided deadlines. More agents do
/// less, and have longer deadlines.
const CROWD: usize = 200;
const PERIOD_MS: u32 = 700;

fn crowds(agents: usize) -> u32 {
    u32::try_from(agents.div_ceil(CROWD)).unwrap()
}

/// One of `agents` that always do something. It begins anew where its process was lost.
fn busy(agents: usize) -> Value {
    let period = PERIOD_MS * crowds(agents);
    let call = json!({ "name": "Bash", "input": { "command": "ls" }, "result": "a file" });
    let steps = json!([{ "say": "One more step." }, { "tool": call }, { "wait": period }]);
    let endless = json!([{ "repeat": { "times": 5000, "steps": steps } }]);
    json!({ "steps": [{ "turn": { "steps": endless } }], "onMessage": endless })
}

struct Fleet {
    server: ServerProcess,
    owner: Owner,
    project: Value,
    scope: Value,
    script: Value,
    sessions: Vec<String>,
    started: u32,
    history: Rounds,
}

impl Fleet {
    async fn start(sessions: usize, ledger: &Arc<Ledger>, rng: &mut StdRng) -> Self {
        let server = ServerProcess::start((DEADLINE_DIVISOR / crowds(sessions)).max(1)).await;
        let api = server.api();
        api.patch("/api/agents/pool", json!({ "maxConcurrentSessions": sessions })).await.expect(200);
        let project = json!({ "name": "Shop", "workstreams": [{ "id": "api", "name": "API" }] });
        let project = api.post("/api/projects", project).await.expect(201).body;
        let scope = if sessions > AGENTS {
            json!({ "type": "all" })
        } else {
            json!({ "type": "project", "projectId": project["id"] })
        };
        let owner =
            Owner::new(api, server.work_folder(), Arc::clone(ledger), StdRng::seed_from_u64(rng.random()));
        let mut fleet = Self {
            server,
            owner,
            project,
            scope,
            script: busy(sessions),
            sessions: Vec::new(),
            started: 0,
            history: Rounds::default(),
        };
        for n in 0..sessions {
            let started = fleet.begin(n).await;
            fleet.sessions.push(started);
        }
        fleet.until_all_run().await;
        fleet
    }

    /// Starts the `n`th session, and returns its id.
    async fn begin(&mut self, n: usize) -> String {
        let folder = self.server.work_folder();
        self.started += 1;
        // The check identifies a session by its name.
        let objective = format!("Build part {}", self.started);
        let (function, path, body) = if n < AGENTS {
            let brief = json!({ "role": format!("Builder {n}"), "workstream": "api", "adapter": "script",
                "providerConfig": { "script": self.script } });
            let body = json!({ "projectId": self.project["id"], "brief": brief, "objective": objective, "name": objective,
                "workingDirectory": folder, "budgetCapUsd": "5" });
            ("agents-spawn", "/api/agents/spawn", body)
        } else {
            let body = json!({ "workingDirectory": folder, "objective": objective, "name": objective, "budgetCapUsd": "5",
                "adapterOptions": { "script": self.script } });
            ("sessions-start", "/api/agents/sessions", body)
        };
        let reply = self.owner.ask(function, "", Method::POST, path.to_owned(), body).await;
        // 202: the slot of the session that it replaces may not be free yet.
        assert!(matches!(reply.status, 201 | 202), "{:#}", reply.body);
        reply.body["session"]["id"].as_str().unwrap().to_owned()
    }

    fn patience(&self) -> Duration {
        PATIENCE + PATIENCE_FOR_EACH * u32::try_from(self.sessions.len()).unwrap()
    }

    async fn view(&self, n: usize) -> Value {
        self.server.api().get(&format!("/api/agents/sessions/{}", self.sessions[n])).await.expect(200).body
    }

    /// Waits until all agents work. Replaces each session that failed because its sidecar was killed.
    async fn until_all_run(&mut self) {
        let give_up = Instant::now() + self.patience();
        for n in 0..self.sessions.len() {
            loop {
                let view = self.view(n).await;
                // The end of a killed sidecar may not be reported yet.
                let killed = |run: &str| self.history.killed(run);
                if view["status"] == "Running" && !view["currentRun"]["id"].as_str().is_some_and(killed) {
                    break;
                }
                assert!(Instant::now() < give_up, "not Running: {view:#}");
                if view["status"] == "Failed" {
                    // The check compares the run that ended with the kills.
                    let failure = &view["failureReason"];
                    let message = failure["message"].as_str().unwrap_or_default();
                    let ended = message.starts_with("The sidecar's process ended");
                    assert!(ended && failure["reason"] == "InfrastructureError", "{view:#}");
                    self.sessions[n] = self.begin(n).await;
                }
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
    }

    /// The sessions whose agents do not work, which no brake needs to stop.
    async fn without_run(&self) -> Vec<Value> {
        let mut found = Vec::new();
        for n in 0..self.sessions.len() {
            let view = self.view(n).await;
            if view["currentRun"].is_null() || view["status"] == "Failed" {
                found.push(view);
            }
        }
        found
    }

    async fn until_all_cancelled(&self) {
        let give_up = Instant::now() + self.patience();
        for n in 0..self.sessions.len() {
            loop {
                let view = self.view(n).await;
                if view["status"] == "Cancelled" {
                    break;
                }
                assert!(Instant::now() < give_up, "not Cancelled: {view:#}");
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
    }

    /// Pulls a brake, kills while the agents stop, and releases the brake when all stops are confirmed. Often kills while they resume.
    async fn round(&mut self, rng: &mut StdRng, after: &mut StdRng) {
        let behavior = if rng.random_bool(0.8) { "pause" } else { "kill" };
        let body = json!({ "scope": self.scope, "behavior": behavior, "reason": "They do the wrong thing" });
        let pulled = self.owner.ask("brake-pull", "-", Method::POST, "/api/brake".to_owned(), body).await;
        let pulled = pulled.expect(202).body;
        let all_are_held = pulled["sessionCount"] == self.sessions.len();
        assert!(all_are_held, "not held: {:#?}", self.without_run().await);
        let brake = format!("/api/brakes/{}", pulled["id"].as_str().unwrap());
        for _ in 0..rng.random_range(1..=STRIKES) {
            // A random time on purpose, without a condition to wait for.
            tokio::time::sleep(Duration::from_millis(rng.random_range(0..1200))).await;
            rounds::strike_down(&mut self.server, rng, &mut self.history).await;
        }
        self.until_confirmed(&self.server.api(), &brake).await;
        let release = format!("{brake}/release");
        self.owner.ask("brakes-release", "-", Method::POST, release, json!({})).await.expect(200);
        if after.random_bool(0.6) {
            tokio::time::sleep(Duration::from_millis(after.random_range(0..300))).await;
            rounds::strike_down(&mut self.server, after, &mut self.history).await;
        }
        self.until_all_run().await;
    }

    async fn until_confirmed(&self, api: &Api, brake: &str) {
        let give_up = Instant::now() + self.patience();
        loop {
            let view = api.get(brake).await.expect(200).body;
            if view["confirmedCount"] == view["sessionCount"] {
                return;
            }
            assert!(Instant::now() < give_up, "not all stops are confirmed: {view:#}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    async fn cancel_all(&mut self) {
        for id in self.sessions.clone() {
            let path = format!("/api/agents/sessions/{id}/cancel");
            self.owner.ask("sessions-cancel", &id, Method::POST, path, json!({})).await;
        }
        self.until_all_cancelled().await;
    }
}

/// Plays the rounds, and checks the stored data. Returns a summary and the violations.
pub(crate) async fn run(seed: u64, rounds: u64, sessions: usize) -> (String, Vec<Violation>) {
    let begun = Instant::now();
    let mut rng = StdRng::seed_from_u64(seed);
    let ledger = Arc::new(Ledger::default());
    let mut fleet = Fleet::start(sessions, &ledger, &mut rng).await;
    let stalls = Stalls::watch(fleet.server.data().parent().unwrap());
    // Kills after a release do not change the other decisions of a seed.
    let mut after = StdRng::seed_from_u64(!seed);
    for _ in 0..rounds {
        fleet.round(&mut rng, &mut after).await;
    }
    fleet.cancel_all().await;
    let mut violations = rounds::settle(&fleet.server, &fleet.server.api(), &ledger).await;
    fleet.server.kill9();
    processes::kill_all(&fleet.server.data());
    let killed = Failures::OfKilledSidecars;
    let (facts, found) = check::check(&fleet.server.data(), &ledger, &fleet.history, &stalls, killed).await;
    violations.extend(found);
    if !violations.is_empty() {
        rounds::keep(&fleet.server.data(), 100);
    }
    let summary = format!(
        "{rounds} brakes on {sessions} sessions in {:.1?}; {facts}; {}; {}",
        begun.elapsed(),
        stalls.summary(),
        ledger.summary()
    );
    (summary, violations)
}
