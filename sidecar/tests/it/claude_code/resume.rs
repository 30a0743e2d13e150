//! A conversation outlives its processes: the next run resumes it after a kill, and its cost continues (decision 31).

use pilothouse_domain::value::MessagePriority;
use pilothouse_model_server::{Step, Tokens};

use super::{Agent, bash, begun, waiting};
use crate::sidecar::message;

fn cost(agent: &Agent) -> f64 {
    agent.events("usage_update").last().unwrap()["costUsd"].as_str().unwrap().parse().unwrap()
}

#[tokio::test]
async fn killed_sidecar_resumes_its_conversation_and_meter() {
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
async fn sidecar_killed_in_a_tool_resumes_with_paired_results() {
    let Some(mut agent) = Agent::idle(pilothouse_model_server::Script::default()).await else { return };
    let command = waiting(&agent.work(), "gate");
    agent.model.play(pilothouse_model_server::Script::of([bash(&command), Step::text("so it was cut off")]));
    agent.begin(|_| {});
    begun(&agent, "gate").await;
    agent.killed_and_resumed(None).await;
    agent.gateway.send(message("go on", MessagePriority::Immediate));
    agent.gateway.sees("turn_completed").await;
    // The scripted model rejects calls without results, like the real one.
    assert_eq!(agent.prompts().len(), 2);
}

#[tokio::test]
async fn process_that_ends_after_a_turn_restarts_on_a_message() {
    let Some(agent) = Agent::says([Step::text("the word is heron"), Step::text("two")]).await else { return };
    agent.gateway.sees("turn_completed").await;
    // Claude Code saves its conversation before it reports the end of the turn.
    processes_end(&agent).await;
    agent.gateway.send(message("again", MessagePriority::Queued));
    agent.gateway.sees_nth("turn_completed", 2).await;
    let second = agent.prompts()[1]["messages"].to_string();
    assert!(second.contains("do the work") && second.contains("the word is heron"), "{second}");
    assert!(!agent.story().contains(&"notice conversation_lost".to_owned()));
}

#[tokio::test]
async fn lost_conversation_restarts_with_an_account_of_it() {
    let took = Tokens { input: 1000, output: 1000, ..Tokens::default() };
    let words =
        ["the word is heron", "the word is kestrel", "three"].map(|words| Step::text(words).taking(took));
    let Some(mut agent) = Agent::with(words, |begin| begin.allowance_usd = Some("10".into())).await else {
        return;
    };
    agent.gateway.sees("turn_completed").await;
    let first_meter = agent.events("usage_update").last().unwrap()["meterId"].clone();
    processes_end(&agent).await;
    assert!(forgotten(agent.folders.root()) > 0, "the binary wrote it down");
    let id = agent.gateway.send(message("use British spelling", MessagePriority::Queued));
    agent.gateway.acknowledged(id, "injected").await;
    agent.gateway.sees_nth("turn_completed", 2).await;
    let story = agent.story();
    assert!(story.iter().any(|line| line.starts_with("notice conversation_lost")), "{story:#?}");
    assert!(agent.events("session_end").is_empty(), "{story:#?}");
    let prompts = agent.prompts();
    let (system, messages) = (prompts[1]["system"].to_string(), prompts[1]["messages"].to_string());
    assert!(system.contains("do the work") && system.contains("the word is heron"), "{system}");
    assert!(messages.contains("use British spelling") && !messages.contains("heron"), "{messages}");
    // A new conversation has its own meter, and both count (decision 31).
    let usage = agent.events("usage_update");
    let (mut meters, last) = (Vec::new(), usage.last().unwrap());
    for update in &usage {
        if !meters.contains(&update["meterId"]) {
            meters.push(update["meterId"].clone());
        }
    }
    assert_eq!(meters, [first_meter, last["meterId"].clone()], "{usage:#?}");
    assert!(agent.events("turn_started").windows(2).all(|two| two[0]["turnId"] != two[1]["turnId"]));
    // If the conversation is lost once more, the next run knows both parts.
    agent.gateway.sees("turn_completed").await;
    agent.sidecar.signal(nix::sys::signal::Signal::SIGSTOP);
    assert!(forgotten(agent.folders.root()) > 0);
    agent.killed_and_resumed(Some("go on")).await;
    agent.gateway.sees("turn_completed").await;
    let system = agent.prompts()[2]["system"].to_string();
    let at = |what: &str| system.find(what).unwrap_or_else(|| panic!("{what}: {system}"));
    assert!(at("do the work") < at("use British spelling") && at("use British spelling") < at("kestrel"));
}

async fn processes_end(agent: &Agent) {
    let claude = processes_in(&agent.work());
    assert!(!claude.is_empty());
    for process in claude {
        let _ =
            nix::sys::signal::kill(nix::unistd::Pid::from_raw(process), nix::sys::signal::Signal::SIGKILL);
    }
    let gone = |_: &crate::gateway::Gateway| processes_in(&agent.work()).is_empty().then_some(());
    agent.gateway.until("the end of a process", gone).await;
}

/// Deletes Claude Code's conversation files below a folder. Returns their number.
fn forgotten(folder: &std::path::Path) -> usize {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .map(|entry| {
            let path = entry.path();
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                return forgotten(&path);
            }
            let is_conversation = path.extension().is_some_and(|end| end == "jsonl");
            usize::from(is_conversation && std::fs::remove_file(path).is_ok())
        })
        .sum()
}

/// The agent's processes: those that run in a folder. Their guard ends with them.
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
