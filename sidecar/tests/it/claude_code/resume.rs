//! A conversation outlives its processes: killed sidecars resume it, and what it costs is counted on (ruling 31).

use pilothouse_domain::value::MessagePriority;
use pilothouse_model_server::{Step, Tokens};

use super::{Agent, bash, begun, waiting};
use crate::sidecar::message;

fn cost(agent: &Agent) -> f64 {
    agent.events("usage_update").last().unwrap()["costUsd"].as_str().unwrap().parse().unwrap()
}

#[tokio::test]
async fn a_killed_sidecar_resumes_the_same_conversation_and_its_meter_goes_on() {
    let took = Tokens { input: 1000, output: 1000, ..Tokens::default() };
    let steps = [Step::text("the word is heron").taking(took), Step::text("heron").taking(took)];
    let Some(mut agent) = Agent::says(steps).await else { return };
    agent.gateway.sees("turn_completed").await;
    let (meter, spent) = (agent.events("usage_update").last().unwrap()["meterId"].clone(), cost(&agent));
    agent.killed_and_resumed(Some("what was the word?")).await;
    agent.gateway.sees("turn_completed").await;
    let second = agent.prompts()[1].to_string();
    assert!(second.contains("do the work") && second.contains("the word is heron"));
    assert_eq!(agent.events("usage_update").last().unwrap()["meterId"], meter);
    assert!((cost(&agent) - 2.0 * spent).abs() < 1e-9, "{} after {spent}", cost(&agent));
}

#[tokio::test]
async fn killed_in_a_tool_it_resumes_with_calls_and_results_paired() {
    let Some(mut agent) = Agent::idle(pilothouse_model_server::Script::default()).await else { return };
    let command = waiting(&agent.work(), "gate");
    agent.model.play(pilothouse_model_server::Script::of([bash(&command), Step::text("so it was cut off")]));
    agent.begin(|_| {});
    begun(&agent, "gate").await;
    agent.killed_and_resumed(None).await;
    agent.gateway.send(message("go on", MessagePriority::Immediate));
    agent.gateway.sees("turn_completed").await;
    // The scripted model refuses calls without results, as the real one does.
    assert_eq!(agent.prompts().len(), 2);
}

#[tokio::test]
async fn a_process_that_ends_between_turns_is_started_again_by_the_next_message() {
    let Some(agent) = Agent::says([Step::text("one"), Step::text("two")]).await else { return };
    agent.gateway.sees("turn_completed").await;
    // The binary writes its conversation down a little later; what it had not is lost with it.
    agent
        .gateway
        .until("what it wrote down", |_| wrote_down(agent.folders.root(), "one").then_some(()))
        .await;
    let claude = processes_in(&agent.work());
    assert!(!claude.is_empty());
    for process in claude {
        let _ =
            nix::sys::signal::kill(nix::unistd::Pid::from_raw(process), nix::sys::signal::Signal::SIGKILL);
    }
    agent
        .gateway
        .until("a process that is gone", |_| processes_in(&agent.work()).is_empty().then_some(()))
        .await;
    agent.gateway.send(message("again", MessagePriority::Queued));
    agent.gateway.sees_nth("turn_completed", 2).await;
    assert!(agent.prompts()[1].to_string().contains("do the work"));
}

/// Whether a conversation below a folder has an answer of the model.
fn wrote_down(folder: &std::path::Path, answer: &str) -> bool {
    std::fs::read_dir(folder).into_iter().flatten().flatten().any(|entry| {
        let path = entry.path();
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            return wrote_down(&path, answer);
        }
        let is_answer =
            |line: &str| line.contains("\"assistant\"") && line.contains(&format!("\"text\":\"{answer}\""));
        path.extension().is_some_and(|end| end == "jsonl")
            && std::fs::read_to_string(path).is_ok_and(|text| text.lines().any(is_answer))
    })
}

/// The agent's processes: those that work in a folder. Their guard ends with them.
fn processes_in(folder: &std::path::Path) -> Vec<i32> {
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    pids.filter(|pid| std::fs::read_link(format!("/proc/{pid}/cwd")).is_ok_and(|cwd| cwd == folder))
        .filter(|pid| {
            let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
            name.starts_with("claude")
        })
        .collect()
}
