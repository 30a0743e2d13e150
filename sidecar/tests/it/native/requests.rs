//! Questions and plans (decision 26).

use pilothouse_domain::value::Answer;
use pilothouse_model_server::Step;
use pilothouse_wire::Command;
use serde_json::json;

use super::Agent;

async fn call(agent: &Agent, tool: &str, nth: usize) -> pilothouse_domain::ToolCallId {
    let at = agent.gateway.sees_nth(&format!("assistant_message tool {tool}"), nth).await;
    agent.gateway.delivered()[at].body["content"]["toolCallId"].as_str().unwrap().parse().unwrap()
}

fn question() -> Step {
    let questions = json!([{ "question": "Red or blue?", "header": "Colour", "multiSelect": false,
        "options": [{ "label": "Red", "description": "as fire" }, { "label": "Blue", "description": "as the sea" }] }]);
    Step::tool("AskUserQuestion", json!({ "questions": questions }))
}

fn answer(request_id: pilothouse_domain::ToolCallId) -> Command {
    let answers = vec![Answer { question: "Red or blue?".into(), answer: "Blue".into() }];
    Command::Answer { request_id, answers, modified_input: None }
}

#[tokio::test]
async fn question_waits_for_its_answer_even_while_paused() {
    let agent = Agent::says([question(), Step::text("Blue it is.")]).await;
    let request = call(&agent, "AskUserQuestion", 1).await;
    let wrong = agent.gateway.send(Command::PlanDecision {
        request_id: request.clone(),
        approved: true,
        feedback: None,
    });
    agent.gateway.acknowledged(wrong, "invalid").await;
    let pause = agent.gateway.send(Command::Pause {});
    agent.gateway.acknowledged(pause, "done").await;
    let answered = agent.gateway.send(answer(request.clone()));
    agent.gateway.acknowledged(answered, "done").await;
    agent.gateway.sees("tool_result").await;
    assert_eq!(agent.requests().len(), 1, "it is paused");
    let resume = agent.gateway.send(Command::Resume {});
    agent.gateway.acknowledged(resume, "done").await;
    agent.gateway.sees("turn_completed").await;
    assert!(agent.last_request().to_string().contains("Blue"));
    let late = agent.gateway.send(answer(request));
    agent.gateway.acknowledged(late, "invalid").await;
}

#[tokio::test]
async fn an_interrupt_withdraws_a_question() {
    let agent = Agent::says([question(), Step::text("Never mind.")]).await;
    let request = call(&agent, "AskUserQuestion", 1).await;
    let interrupt = agent.gateway.send(Command::Interrupt {});
    agent.gateway.acknowledged(interrupt, "done").await;
    assert!(agent.story().iter().any(|line| line.starts_with("result error")));
    let late = agent.gateway.send(answer(request));
    agent.gateway.acknowledged(late, "invalid").await;
}

#[tokio::test]
async fn planning_agent_changes_nothing_before_approval() {
    let plan = |text: &str| Step::tool("ExitPlanMode", json!({ "plan": text }));
    let touch = || Step::tool("bash", json!({ "command": "touch made" }));
    let agent = Agent::says([
        Step::tool("EnterPlanMode", json!({})),
        touch(),
        plan("First idea"),
        plan("Second idea"),
        touch(),
        Step::text("Done."),
    ])
    .await;
    let first = call(&agent, "ExitPlanMode", 1).await;
    assert!(!agent.work().join("made").exists(), "it plans");
    let rejected =
        Command::PlanDecision { request_id: first, approved: false, feedback: Some("smaller".into()) };
    let id = agent.gateway.send(rejected);
    agent.gateway.acknowledged(id, "done").await;
    let second = call(&agent, "ExitPlanMode", 2).await;
    assert!(agent.last_request().to_string().contains("smaller"));
    let id = agent.gateway.send(Command::PlanDecision { request_id: second, approved: true, feedback: None });
    agent.gateway.acknowledged(id, "done").await;
    agent.gateway.sees("turn_completed").await;
    assert!(agent.work().join("made").exists());
}
