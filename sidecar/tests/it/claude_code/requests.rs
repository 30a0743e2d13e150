//! Requests to the owner: permissions, questions, plans (decision 26).

use pilothouse_domain::ToolCallId;
use pilothouse_domain::value::Answer;
use pilothouse_model_server::Step;
use pilothouse_wire::Command;
use serde_json::{Value, json};

use super::Agent;

fn write(name: &str) -> Step {
    Step::tool("Write", json!({ "file_path": name, "content": "hello\n" }))
}

/// The waiting request: its call and its first question.
async fn asked(agent: &Agent, nth: usize) -> (ToolCallId, Value) {
    let body = agent.gateway.until("a question", |_| agent.events("question_asked").get(nth).cloned()).await;
    (serde_json::from_value(body["requestId"].clone()).unwrap(), body["questions"][0].clone())
}

async fn answer(agent: &Agent, request_id: ToolCallId, question: &Value, answer: &str) {
    let question = question["question"].as_str().unwrap().to_owned();
    let answers = vec![Answer { question, answer: answer.into() }];
    let id = agent.gateway.send(Command::Answer { request_id, answers, modified_input: None });
    agent.gateway.acknowledged(id, "done").await;
}

#[tokio::test]
async fn owner_denies_or_grants_a_permission_for_the_session() {
    let steps = [write("a.txt"), write("b.txt"), write("c.txt"), Step::text("the end")];
    let Some(agent) = Agent::with(steps, |begin| begin.config.allowed_tools.clear()).await else { return };
    let (call, question) = asked(&agent, 0).await;
    assert!(question["question"].as_str().unwrap().contains("Write"), "{question}");
    answer(&agent, call, &question, "not that name").await;
    let (call, question) = asked(&agent, 1).await;
    answer(&agent, call.clone(), &question, "Allow for this session").await;
    agent.gateway.sees("turn_completed").await;
    let there = |name: &str| agent.work().join(name).exists();
    assert_eq!((there("a.txt"), there("b.txt"), there("c.txt")), (false, true, true));
    assert_eq!(agent.events("question_asked").len(), 2, "the third was allowed with the second");
    assert!(agent.story().iter().any(|line| line.contains("not that name")), "the agent gets the reason");
    let again =
        agent.gateway.send(Command::Answer { request_id: call, answers: vec![], modified_input: None });
    agent.gateway.acknowledged(again, "invalid").await;
}

#[tokio::test]
async fn agent_question_gets_its_answer() {
    let input = json!({ "questions": [{ "question": "Which colour?", "header": "Colour", "multiSelect": false,
        "options": [{ "label": "Red", "description": "r" }, { "label": "Blue", "description": "b" }] }] });
    let Some(agent) = Agent::says([Step::tool("AskUserQuestion", input), Step::text("so be it")]).await
    else {
        return;
    };
    agent.gateway.sees("assistant_message tool AskUserQuestion").await;
    let call = agent.events("assistant_message").last().unwrap()["content"]["toolCallId"].clone();
    answer(&agent, serde_json::from_value(call).unwrap(), &json!({ "question": "Which colour?" }), "Blue")
        .await;
    agent.gateway.sees("turn_completed").await;
    assert!(agent.prompts()[1].to_string().contains("Blue"));
}

#[tokio::test]
async fn plan_is_revised_until_its_owner_approves() {
    let plan = |text: &str| Step::tool("ExitPlanMode", json!({ "plan": text }));
    let steps = [plan("# One"), plan("# Two"), write("a.txt"), Step::text("carried out")];
    let change = |begin: &mut pilothouse_wire::command::Begin| {
        begin.config.adapter_options = json!({ "startInPlanMode": true, "permissionMode": "acceptEdits" });
    };
    let Some(agent) = Agent::with(steps, change).await else { return };
    let shown = |nth: usize| {
        let agent = &agent;
        async move {
            let plans = |_: &crate::gateway::Gateway| {
                let messages = agent.events("assistant_message");
                let calls = messages.iter().filter(|e| e["content"]["toolName"] == "ExitPlanMode");
                calls.map(|e| e["content"]["toolCallId"].clone()).nth(nth)
            };
            serde_json::from_value::<ToolCallId>(agent.gateway.until("a plan", plans).await).unwrap()
        }
    };
    let decide = |request_id, approved, feedback: Option<&str>| Command::PlanDecision {
        request_id,
        approved,
        feedback: feedback.map(str::to_owned),
    };
    let first = shown(0).await;
    agent.gateway.send(decide(first, false, Some("smaller steps")));
    let second = shown(1).await;
    agent.gateway.send(decide(second, true, None));
    agent.gateway.sees("turn_completed").await;
    assert!(agent.prompts()[1].to_string().contains("smaller steps"));
    assert!(agent.work().join("a.txt").exists(), "{:#?}", agent.story());
}

#[tokio::test]
async fn plan_without_required_approval_runs_at_once() {
    let steps = [Step::tool("ExitPlanMode", json!({ "plan": "# One" })), Step::text("carried out")];
    let Some(agent) = Agent::with(steps, |begin| begin.config.options.plan_approval_required = false).await
    else {
        return;
    };
    agent.gateway.sees("turn_completed").await;
}
