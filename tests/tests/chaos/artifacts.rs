//! Agents of a project report artifacts while the server (with its worker) and sidecars are killed.

use std::collections::BTreeSet;
use std::time::Duration;

use pilothouse_tests::{Api, ServerProcess, Session};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng as _};
use serde_json::{Value, json};

use crate::rounds::{self, DEADLINE_DIVISOR, Rounds};

const AGENTS: usize = 4;
/// The reports of an agent, and those of each of its turns.
const REPORTS: usize = 48;
const REPORTS_OF_TURN: usize = 4;
/// Longer than the deadlines of a launch, a drain and a recovery together.
const PATIENCE: Duration = Duration::from_mins(3);
const DONE: &str = "Everything is reported.";

fn path(agent: usize, part: usize) -> String {
    format!("part-{agent}-{part}.md")
}

fn content(agent: usize, part: usize) -> String {
    format!("Part {part} of agent {agent}.")
}

/// Reports each part once. The step that a kill cut off is repeated.
fn reporting(agent: usize) -> Value {
    let report = |part: usize| {
        let input = json!({ "path": path(agent, part), "kind": "document", "text": content(agent, part) });
        json!({ "ownTool": { "id": format!("r{part}"), "name": "report_artifact", "input": input } })
    };
    let turns = (0..REPORTS).step_by(REPORTS_OF_TURN).map(|first| {
        let reports =
            (first..first + REPORTS_OF_TURN).flat_map(|part| [report(part), json!({ "wait": 150 })]);
        json!({ "turn": { "steps": reports.collect::<Vec<_>>() } })
    });
    let steps: Vec<_> = turns.chain([json!({ "turn": { "steps": [{ "say": DONE }] } })]).collect();
    json!({ "steps": steps, "onMessage": [{ "say": "I continue." }] })
}

struct Fleet {
    server: ServerProcess,
    agents: Vec<String>,
}

impl Fleet {
    async fn start() -> Self {
        let server = ServerProcess::start(DEADLINE_DIVISOR).await;
        let api = server.api();
        // Crashes in a row soon need a person.
        let conditions = json!({ "minTrustScore": 0, "cooldownMs": 0, "maxConsecutiveCrashes": 2 });
        let project = json!({
            "name": "Shop", "workstreams": [{ "id": "api", "name": "API" }],
            "crashRecovery": { "autoRestart": true, "autoRestartConditions": conditions },
        });
        let project = api.post("/api/projects", project).await.expect(201).body;
        let mut agents = Vec::new();
        for n in 0..AGENTS {
            let brief = json!({ "role": format!("Builder {n}"), "workstream": "api", "adapter": "script",
                "providerConfig": { "script": reporting(n) } });
            let body = json!({ "projectId": project["id"], "brief": brief, "objective": "Report every part",
                "workingDirectory": server.work_folder(), "budgetCapUsd": "5" });
            let spawned = api.post("/api/agents/spawn", body).await.expect(201).body;
            agents.push(spawned["agent"]["id"].as_str().unwrap().to_owned());
        }
        Self { server, agents }
    }

    /// Waits until every agent has said that it is done, and resolves the recoveries that wait for a decision. Panics if an agent can
    /// neither continue nor be recovered.
    async fn until_done(&self) {
        let api = self.server.api();
        for agent in &self.agents {
            let look = async || {
                for decision in api.all("/api/decisions?kind=crash_recovery").await {
                    recover(&api, &decision).await;
                }
                let session = session_of(&api, agent).await;
                if session.said().await.iter().any(|text| text == DONE) {
                    return Some(());
                }
                let view = session.view().await;
                // A kill between two turns ends an agent that has nothing to recover. Like a person, say that it has not finished.
                if view["status"] == "Idle" && view["hibernated"] == true {
                    session.say("Go on.", "Queued").await;
                }
                None
            };
            session_of(&api, agent).await.until_within(PATIENCE, DONE, look).await;
        }
    }
}

/// The current session of an agent.
async fn session_of(api: &Api, agent: &str) -> Session {
    let view = api.get(&format!("/api/agents/{agent}")).await.expect(200).body;
    api.session(view["sessionId"].as_str().unwrap())
}

/// Resolves the decision with the first option that the control plane accepts.
async fn recover(api: &Api, decision: &Value) {
    let path = format!("/api/decisions/{}/resolve", decision["id"].as_str().unwrap());
    for option in ["resume", "restart"] {
        let body = json!({ "resolutionType": "choose_option", "chosenOptionId": option });
        let reply = api.post(&path, body).await;
        // The policy may have been faster.
        if reply.status < 300 || reply.body["code"] == "decision-over" {
            return;
        }
    }
}

/// Plays the rounds, and returns the violations.
pub(crate) async fn run(seed: u64, rounds: u64) -> Vec<String> {
    let mut rng = StdRng::seed_from_u64(seed);
    let mut history = Rounds::default();
    let mut fleet = Fleet::start().await;
    for _ in 0..rounds {
        // The kill comes at a random time, so there is no condition to wait for.
        tokio::time::sleep(Duration::from_millis(rng.random_range(0..800))).await;
        rounds::strike_down(&mut fleet.server, &mut rng, &mut history).await;
    }
    fleet.until_done().await;
    let api = fleet.server.api();
    let mut violations = artifacts(&api, &fleet.agents).await;
    for agent in &fleet.agents {
        violations.extend(events(&api, agent).await);
    }
    violations
}

/// The parts whose report succeeded. The tool fails while the server is away, and the script continues.
async fn uploaded(api: &Api, agents: &[String]) -> BTreeSet<(usize, usize)> {
    let mut uploaded = BTreeSet::new();
    for listed in api.all("/api/agents/sessions").await {
        let session = api.session(listed["id"].as_str().unwrap());
        let view = session.view().await;
        let agent = agents.iter().position(|id| view["project"]["agentId"] == id.as_str()).unwrap();
        for call in session.tool_calls().await {
            let part = call["id"].as_str().and_then(|id| id.strip_prefix('r')).and_then(|id| id.parse().ok());
            if let Some(part) = part.filter(|_| call["status"] == "Success") {
                uploaded.insert((agent, part));
            }
        }
    }
    uploaded
}

/// Every uploaded part is stored once, and every stored part has its content.
async fn artifacts(api: &Api, agents: &[String]) -> Vec<String> {
    let uploaded = uploaded(api, agents).await;
    let stored = api.all("/api/artifacts").await;
    let mut violations = Vec::new();
    if uploaded.len() < AGENTS * REPORTS / 2 {
        violations.push(format!("only {} parts were uploaded", uploaded.len()));
    }
    for agent in 0..AGENTS {
        for part in 0..REPORTS {
            let path = path(agent, part);
            let of_part: Vec<_> = stored.iter().filter(|it| it["path"] == path.as_str()).collect();
            let artifact = match of_part[..] {
                [artifact] => artifact,
                [] if !uploaded.contains(&(agent, part)) => continue,
                _ => {
                    violations.push(format!("{path} is stored {} times", of_part.len()));
                    continue;
                }
            };
            if artifact["version"] != 1 {
                violations.push(format!("{path} has repeated versions: {artifact}"));
            }
            let id = artifact["id"].as_str().unwrap();
            let text = api.get(&format!("/api/artifacts/{id}/content")).await.expect(200).text;
            if text != content(agent, part) {
                violations.push(format!("{path} has the content {text:?}"));
            }
        }
    }
    violations
}

/// No event of a run was applied twice.
async fn events(api: &Api, agent: &str) -> Vec<String> {
    let events = api.all(&session_of(api, agent).await.path("/events")).await;
    let mut seen = BTreeSet::new();
    let repeated = events.iter().filter(|it| it["outcome"] == "applied" && it["sequence"].is_number());
    repeated
        .filter(|it| !seen.insert((it["runId"].to_string(), it["sequence"].as_u64())))
        .map(|it| format!("{agent}: applied twice: {it}"))
        .collect()
}
