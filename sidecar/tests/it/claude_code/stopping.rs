//! Pause and interrupt provably stop, and a process that dies ends with all its descendants (decisions 15 and 29).

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use pilothouse_domain::value::MessagePriority;
use pilothouse_model_server::{Script, Step};
use pilothouse_wire::Command;

use super::{Agent, bash, begun, gone, let_go, waiting};
use crate::gateway::Gateway;
use crate::sidecar::message;

/// New activity after an acknowledgement: a message, a call, the beginning of a turn.
fn new_after(gateway: &Gateway, ack: &str) -> Vec<String> {
    let story = gateway.story();
    let from = story.iter().position(|line| line == ack).unwrap();
    let until = story
        .iter()
        .skip(from)
        .position(|line| line == "resume_ack received")
        .map_or(story.len(), |at| from + at);
    story[from..until]
        .iter()
        .filter(|line| line.starts_with("assistant_message") || line.starts_with("turn_started"))
        .cloned()
        .collect()
}

#[tokio::test]
async fn pause_in_a_model_call_waits_for_it_and_blocks_new_work() {
    let steps =
        [Step { wait_inside: Some("speak".into()), ..bash("echo one").clone() }, Step::text("the end")];
    let Some(agent) = Agent::says(steps).await else { return };
    agent.asked(1).await;
    let pause = agent.gateway.send(Command::Pause {});
    agent.gateway.acknowledged(pause, "received").await;
    assert!(!agent.gateway.story().contains(&"pause_ack done".to_owned()), "the model speaks");
    agent.model.open("speak");
    agent.gateway.acknowledged(pause, "done").await;
    let steering = agent.gateway.send(message("wait for me", MessagePriority::Immediate));
    agent.gateway.acknowledged(steering, "received").await;
    assert_eq!(new_after(&agent.gateway, "pause_ack done"), [""; 0]);
    assert_eq!(agent.prompts().len(), 1, "no model call");
    let resume = agent.gateway.send(Command::Resume {});
    agent.gateway.acknowledged(resume, "done").await;
    agent.gateway.sees("turn_completed").await;
    assert!(agent.story().contains(&"result ok: one".to_owned()), "{:#?}", agent.story());
    assert!(agent.prompts()[1].to_string().contains("wait for me"), "it goes before anything else");
}

#[tokio::test]
async fn pause_in_a_tool_waits_for_it_and_holds_the_rest() {
    let Some(agent) = Agent::idle(Script::default()).await else { return };
    let command = waiting(&agent.work(), "gate");
    agent.model.play(Script::of([bash(&command), Step::text("the end")]));
    agent.begin(|_| {});
    begun(&agent, "gate").await;
    let pause = agent.gateway.send(Command::Pause {});
    agent.gateway.acknowledged(pause, "received").await;
    let beats = agent.gateway.heartbeats();
    agent.gateway.until("time passes", |gateway| (gateway.heartbeats() > beats + 1).then_some(())).await;
    assert!(!agent.gateway.story().contains(&"pause_ack done".to_owned()), "its command runs");
    let_go(&agent, "gate");
    agent.gateway.acknowledged(pause, "done").await;
    agent.gateway.sees("tool_result").await;
    assert_eq!(new_after(&agent.gateway, "pause_ack done"), [""; 0]);
    assert_eq!(agent.prompts().len(), 1, "the result is held back from the model");
    let resume = agent.gateway.send(Command::Resume {});
    agent.gateway.acknowledged(resume, "done").await;
    agent.gateway.sees("turn_completed").await;
}

#[tokio::test]
async fn interrupt_ends_the_turn_its_tool_and_queued_messages() {
    let Some(agent) = Agent::idle(Script::default()).await else { return };
    let command = waiting(&agent.work(), "gate");
    agent.model.play(Script::of([bash(&command), Step::text("after")]));
    agent.begin(|_| {});
    let shell = begun(&agent, "gate").await;
    let steering = agent.gateway.send(message("the-steering-words", MessagePriority::Immediate));
    agent.gateway.acknowledged(steering, "injecting").await;
    let queued = agent.gateway.send(message("the-queued-words", MessagePriority::Queued));
    let interrupt = agent.gateway.send(Command::Interrupt {});
    agent.gateway.acknowledged(interrupt, "done").await;
    agent.gateway.acknowledged(steering, "interrupted").await;
    agent.gateway.acknowledged(queued, "interrupted").await;
    gone(&agent, shell).await;
    assert!(agent.events("turn_completed").is_empty() && agent.events("session_end").is_empty());
    // It continues with the next message.
    agent.gateway.send(message("go on", MessagePriority::Queued));
    agent.gateway.sees("turn_completed").await;
    assert_eq!(new_after(&agent.gateway, "interrupt_ack done").len(), 2, "{:#?}", agent.gateway.story());
    let second = agent.prompts()[1]["messages"].to_string();
    assert!(second.contains("go on"));
    assert!(
        !second.contains("the-steering-words") && !second.contains("the-queued-words"),
        "they wait for their owner"
    );
}

#[tokio::test]
async fn interrupt_while_paused_calls_no_model() {
    let Some(agent) = Agent::says([bash("echo one"), Step::text("two")]).await else { return };
    agent.gateway.sees("assistant_message tool Bash").await;
    let pause = agent.gateway.send(Command::Pause {});
    agent.gateway.acknowledged(pause, "done").await;
    let before = agent.prompts().len();
    let interrupt = agent.gateway.send(Command::Interrupt {});
    agent.gateway.acknowledged(interrupt, "done").await;
    assert_eq!(agent.prompts().len(), before);
    assert!(agent.events("session_end").is_empty(), "{:#?}", agent.story());
    agent.gateway.send(message("go on", MessagePriority::Queued));
    agent.gateway.sees("turn_completed").await;
}

#[tokio::test]
async fn interrupt_stops_background_subagents() {
    let task = serde_json::json!({ "description": "Look", "prompt": "look around", "run_in_background": true,
        "subagent_type": "general-purpose" });
    let conversation = |when: &str, steps: Vec<Step>| pilothouse_model_server::Conversation {
        when: Some(when.into()),
        steps,
        ..pilothouse_model_server::Conversation::default()
    };
    let conversations = vec![
        conversation(
            "do the work",
            vec![Step::tool("Task", task), Step::text("it looks"), Step::text("after")],
        ),
        conversation("look around", vec![Step::text("never said").waiting("never")]),
    ];
    let Some(agent) = Agent::idle(Script { conversations, ..Script::default() }).await else { return };
    agent.begin(|_| {});
    // The turn ends in the same way, whether its result arrives before or after the interrupt.
    agent.gateway.sees("assistant_message text it looks").await;
    agent.asked(3).await;
    let interrupt = agent.gateway.send(Command::Interrupt {});
    agent.gateway.acknowledged(interrupt, "done").await;
    agent.gateway.sees("subagent_ended").await;
    // Claude Code reports that its prompt was refused, and begins no turn.
    agent.gateway.sees("notice informational").await;
    let story = agent.story();
    assert_eq!(story.iter().filter(|line| *line == "notice interrupted").count(), 1, "{story:#?}");
    assert!(agent.events("turn_completed").is_empty(), "{story:#?}");
    agent.gateway.send(message("go on", MessagePriority::Queued));
    agent.gateway.sees("turn_completed").await;
    let new = new_after(&agent.gateway, "interrupt_ack done");
    assert_eq!(new.len(), 2, "a turn and its answer, the owner's: {:#?}", agent.gateway.story());
    assert!(agent.prompts().last().unwrap()["messages"].to_string().contains("go on"));
}

#[tokio::test]
async fn process_killed_in_a_turn_ends_once_and_leaves_nothing() {
    let Some(agent) = Agent::idle(Script::default()).await else { return };
    let command = waiting(&agent.work(), "gate");
    agent.model.play(Script::of([bash(&command)]));
    agent.begin(|_| {});
    let shell = begun(&agent, "gate").await;
    kill(parent_of(shell), Signal::SIGKILL).unwrap();
    agent.gateway.sees("session_end stream_ended").await;
    gone(&agent, shell).await;
    let ends = agent.events("session_end");
    assert_eq!(ends.len(), 1);
    assert!(ends[0]["message"].as_str().unwrap().contains("by the signal 9"), "{ends:#?}");
    let late = agent.gateway.send(message("hello?", MessagePriority::Immediate));
    agent.gateway.acknowledged(late, "no-agent").await;
}

#[tokio::test]
async fn sidecar_kill_ends_the_agent_and_its_tools() {
    let Some(agent) = Agent::idle(Script::default()).await else { return };
    let command = waiting(&agent.work(), "gate");
    agent.model.play(Script::of([bash(&command)]));
    agent.begin(|_| {});
    let shell = begun(&agent, "gate").await;
    let claude = parent_of(shell).as_raw();
    agent.sidecar.signal(Signal::SIGKILL);
    gone(&agent, claude).await;
    gone(&agent, shell).await;
}

#[tokio::test]
async fn a_stop_ends_the_agent_and_its_tools() {
    let Some(agent) = Agent::idle(Script::default()).await else { return };
    let command = waiting(&agent.work(), "gate");
    agent.model.play(Script::of([bash(&command)]));
    agent.begin(|_| {});
    let shell = begun(&agent, "gate").await;
    let stop = agent.gateway.send(Command::Stop {});
    agent.gateway.acknowledged(stop, "done").await;
    assert!(!std::path::Path::new(&format!("/proc/{shell}")).exists(), "nothing is left when it is done");
    assert!(agent.sidecar.ended().await.success());
}

fn parent_of(process: i32) -> Pid {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap();
    let parent = stat.rsplit_once(')').unwrap().1.split_whitespace().nth(1).unwrap();
    Pid::from_raw(parent.parse().unwrap())
}
