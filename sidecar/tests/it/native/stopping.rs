//! Pause and interrupt: nothing new happens after their acknowledgement (decision 15).

use pilothouse_domain::value::MessagePriority;
use pilothouse_model_server::{Script, Step};
use pilothouse_wire::Command;
use serde_json::json;

use super::{Agent, bash, begun, let_go, waiting};
use crate::sidecar::message;

/// Events that must not occur after a stop.
fn is_new(short: &str) -> bool {
    ["assistant_message", "turn_started", "tool_result", "turn_completed"]
        .iter()
        .any(|new| short.starts_with(new))
}

#[tokio::test]
async fn pause_waits_for_the_running_tool_and_holds_the_next() {
    let agent = Agent::idle(Script::default()).await;
    let first = waiting(&agent.work(), "first");
    agent.model.play(Script::of([
        bash(&first).and_tool("bash", json!({ "command": "touch second" })),
        Step::text("Done."),
    ]));
    agent.begin(|_| {});
    begun(&agent, "first").await;
    let pause = agent.gateway.send(Command::Pause {});
    agent.gateway.acknowledged(pause, "received").await;
    let_go(&agent, "first");
    agent.gateway.acknowledged(pause, "done").await;
    let story = agent.gateway.story();
    let at = story.iter().position(|line| line == "pause_ack done").unwrap();
    assert!(
        story[..at].iter().any(|line| line.starts_with("tool_result")),
        "earlier results are published first: {story:#?}"
    );
    assert!(!agent.work().join("second").exists());

    // A message that takes precedence is delivered when the agent continues (decision 29).
    let id = agent.gateway.send(message("hold on a moment", MessagePriority::Immediate));
    agent.gateway.acknowledged(id, "received").await;
    let resume = agent.gateway.send(Command::Resume {});
    agent.gateway.acknowledged(resume, "done").await;
    agent.gateway.acknowledged(id, "injected").await;
    agent.gateway.sees("turn_completed").await;
    let story = agent.gateway.story();
    let done = story.iter().position(|line| line == "pause_ack done").unwrap();
    let resumed = story.iter().position(|line| line == "resume_ack done").unwrap();
    assert!(!story[done..resumed].iter().any(|line| is_new(line)), "new events during the pause: {story:#?}");
    assert!(agent.last_request().to_string().contains("hold on a moment"));
    assert!(!agent.work().join("second").exists(), "the message went before the tool");
}

#[tokio::test]
async fn pause_during_a_model_call_holds_its_tool_calls() {
    let agent = Agent::says([bash("touch made").waiting("speak"), Step::text("Done.")]).await;
    agent.model.wait_for(1).await;
    let pause = agent.gateway.send(Command::Pause {});
    agent.gateway.acknowledged(pause, "received").await;
    agent.model.open("speak");
    agent.gateway.acknowledged(pause, "done").await;
    assert!(!agent.work().join("made").exists());
    assert!(
        agent.story().contains(&"tool bash".to_owned()),
        "the model's text is published before the pause is acknowledged"
    );
    let resume = agent.gateway.send(Command::Resume {});
    agent.gateway.acknowledged(resume, "done").await;
    agent.gateway.sees("turn_completed").await;
    assert!(agent.work().join("made").exists());
    assert_eq!(agent.requests().len(), 2, "nothing was asked twice");
}

#[tokio::test]
async fn an_idle_agent_is_paused_at_once_and_holds_messages() {
    let agent = Agent::says([Step::text("First."), Step::text("Second.")]).await;
    agent.gateway.sees("turn_completed").await;
    let pause = agent.gateway.send(Command::Pause {});
    agent.gateway.acknowledged(pause, "done").await;
    let held = agent.gateway.send(message("later", MessagePriority::Queued));
    agent.gateway.acknowledged(held, "received").await;
    let resume = agent.gateway.send(Command::Resume {});
    agent.gateway.acknowledged(resume, "done").await;
    agent.gateway.acknowledged(held, "injected").await;
    agent.gateway.sees_nth("turn_completed", 2).await;
    let story = agent.gateway.story();
    let at = |what: &str| story.iter().position(|line| line == what).unwrap();
    assert!(at("resume_ack done") < at("message_ack injecting"), "{story:#?}");
}

#[tokio::test]
async fn interrupt_kills_the_running_tool_and_skips_the_rest() {
    let agent = Agent::idle(Script::default()).await;
    let first = waiting(&agent.work(), "first");
    let command = format!("echo $$ > pid; {first}; touch after");
    agent.model.play(Script::of([bash(&command), Step::text("Heard you.")]));
    agent.begin(|_| {});
    begun(&agent, "first").await;
    let follows = agent.gateway.send(message("then this", MessagePriority::Queued));
    agent.gateway.acknowledged(follows, "received").await;
    let interrupt = agent.gateway.send(Command::Interrupt {});
    agent.gateway.acknowledged(interrupt, "done").await;
    agent.gateway.acknowledged(follows, "turn-over").await;
    let story = agent.gateway.story();
    assert!(!story.iter().any(|line| line.starts_with("turn_completed")), "{story:#?}");
    assert!(
        agent.story().iter().any(|line| line.starts_with("result error")),
        "the call has its result: {story:#?}"
    );
    let pid: i32 = std::fs::read_to_string(agent.work().join("pid")).unwrap().trim().parse().unwrap();
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"));
    assert!(!stat.is_ok_and(|stat| !stat.contains(") Z ")), "the tool is still there");

    let next = agent.gateway.send(message("go on", MessagePriority::Immediate));
    agent.gateway.acknowledged(next, "injected").await;
    agent.gateway.sees("turn_completed").await;
    assert!(agent.story().contains(&"text Heard you.".to_owned()), "the pairing is kept: the model answers");
    assert!(!agent.work().join("after").exists());
}

#[tokio::test]
async fn interrupt_aborts_a_model_call_and_an_idle_agent_at_once() {
    let agent =
        Agent::says([Step::text("Never heard whole.").waiting_inside("never"), Step::text("Back again.")])
            .await;
    agent.model.wait_for(1).await;
    let interrupt = agent.gateway.send(Command::Interrupt {});
    agent.gateway.acknowledged(interrupt, "done").await;
    let again = agent.gateway.send(Command::Interrupt {});
    agent.gateway.acknowledged(again, "done").await;
    let next = agent.gateway.send(message("go on", MessagePriority::Immediate));
    agent.gateway.acknowledged(next, "injected").await;
    agent.gateway.sees("assistant_message text Back again.").await;
    agent.gateway.sees("turn_completed").await;
    agent.requests();
}

#[tokio::test]
async fn a_stop_ends_the_tool_and_then_the_sidecar() {
    let agent = Agent::idle(Script::default()).await;
    let first = waiting(&agent.work(), "first");
    agent.model.play(Script::of([bash(&format!("echo $$ > pid; {first}"))]));
    agent.begin(|_| {});
    begun(&agent, "first").await;
    let stop = agent.gateway.send(Command::Stop {});
    agent.gateway.acknowledged(stop, "done").await;
    let pid: i32 = std::fs::read_to_string(agent.work().join("pid")).unwrap().trim().parse().unwrap();
    assert_eq!(agent.sidecar.ended().await.code(), Some(0));
    assert!(!std::path::Path::new(&format!("/proc/{pid}")).exists(), "the tool is still there");
}

/// The state of a process in `/proc`, such as `T`; `None` if it is gone.
fn state_of(pid: &str) -> Option<char> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit(") ").next()?.chars().next().filter(|state| !"ZX".contains(*state))
}

#[tokio::test]
async fn background_command_stops_for_a_pause_and_ends_with_the_turn() {
    let agent = Agent::idle(Script::default()).await;
    let call = waiting(&agent.work(), "call");
    let server = "echo $$ > server; echo it listens; sleep 600";
    agent.model.play(Script::of([
        Step::tool("bash", json!({ "command": server, "background": true })),
        Step::tool("bash_output", json!({ "command": 1, "wait": 60 })),
        bash(&call),
        Step::tool("bash_output", json!({ "command": 1 })),
        Step::text("Done."),
    ]));
    agent.begin(|_| {});
    begun(&agent, "call").await;
    let story = agent.story();
    for line in
        ["result ok: Background command 1 is running.", "result ok: it listens\n\nThe command is running."]
    {
        assert!(story.iter().any(|reported| reported == line), "{story:#?}");
    }
    let process = std::fs::read_to_string(agent.work().join("server")).unwrap();
    let pause = agent.gateway.send(Command::Pause {});
    agent.gateway.acknowledged(pause, "received").await;
    let_go(&agent, "call");
    agent.gateway.acknowledged(pause, "done").await;
    assert_eq!(state_of(process.trim()), Some('T'), "stopped before the pause is confirmed");
    // A message of its owner during the pause continues the turn.
    let id = agent.gateway.send(message("is it up?", MessagePriority::Immediate));
    agent.gateway.acknowledged(id, "received").await;
    agent.gateway.send(Command::Resume {});
    agent.gateway.acknowledged(id, "injected").await;
    agent.gateway.sees("turn_completed").await;
    assert_eq!(state_of(process.trim()), None, "ended before the end of the turn is reported");
    let reading = "result ok: (no new output)\n\nThe command is running.";
    assert!(agent.story().iter().any(|reported| reported == reading), "{:#?}", agent.story());
}

#[tokio::test]
async fn background_command_ends_before_an_interrupt_is_confirmed() {
    let agent = Agent::idle(Script::default()).await;
    let call = waiting(&agent.work(), "call");
    let server = "trap '' TERM; echo $$ > server; while :; do sleep 1; done";
    agent.model.play(Script::of([
        Step::tool("bash", json!({ "command": server, "background": true })),
        bash(&format!("until [ -s server ]; do sleep 0.02; done; {call}")),
        Step::text("Done."),
    ]));
    agent.begin(|_| {});
    begun(&agent, "call").await;
    let process = std::fs::read_to_string(agent.work().join("server")).unwrap();
    let interrupt = agent.gateway.send(Command::Interrupt {});
    agent.gateway.acknowledged(interrupt, "done").await;
    assert_eq!(state_of(process.trim()), None);
}
