//! Sessions of the native agent on a real server with a real sidecar: latency of steering and throughput of tokens.

use std::time::{Duration, Instant};

use pilothouse_model_server::{ModelServer, Request, Script};
use pilothouse_tests::{ServerProcess, Session};
use serde_json::{Value, json};

use crate::figures::{figure, times};

const STEERED: usize = 20;
/// Characters in a token of the script.
const TOKEN: usize = 4;
/// Tokens in the long answer.
const TOKENS: usize = 20_000;

struct Live {
    models: ModelServer,
    server: ServerProcess,
}

impl Live {
    async fn start(script: Value) -> Self {
        let models = ModelServer::start(Script::from_value(script).unwrap()).await.unwrap();
        let environment =
            [("ANTHROPIC_BASE_URL", models.base_url()), ("ANTHROPIC_API_KEY", "test".to_owned())];
        let environment = environment.each_ref().map(|(name, value)| (*name, value.as_str()));
        let server = ServerProcess::start_with(1, &environment).await;
        Self { models, server }
    }

    async fn session(&self) -> Session {
        let folder = self.server.work_folder();
        let body = json!({
            "workingDirectory": folder, "objective": "look around", "adapter": "native", "modelId": "claude-sonnet-4-5",
            "budgetCapUsd": "1000",
        });
        Session::start(&self.server.api(), body).await
    }
}

/// Measures the time from the acceptance of a steering message to the model request that contains it. The agent runs tools of 20 ms
/// meanwhile, so a message waits for at most one of them.
pub(crate) async fn steering() {
    let call = json!({ "name": "bash", "input": { "command": "sleep 0.02" } });
    // Reports little usage, so that the context window does not fill up.
    let usage = json!({ "input": 1000, "output": 10 });
    let step = json!({ "text": "I work.", "tools": vec![call; 40], "usage": usage, "repeat": true });
    let live = Live::start(json!({ "conversations": [{ "steps": [step] }] })).await;
    let session = live.session().await;
    live.models.wait_for(1).await;
    let mut took = Vec::new();
    for n in 0..STEERED {
        // Sends the message at some point within the batch.
        tokio::time::sleep(Duration::from_millis(150 + 37 * n as u64 % 100)).await;
        let words = format!("look at part {n} instead");
        session.say(&words, "Immediate").await;
        let accepted = Instant::now();
        let has_instruction = |request: &Request| request.text().contains(&words);
        let asked = live.models.wait_until(|all| all.last().is_some_and(has_instruction)).await;
        took.push(
            asked
                .iter()
                .find(|request| has_instruction(request))
                .unwrap()
                .received
                .saturating_duration_since(accepted),
        );
    }
    times("steering: accepted to told the model, tools of 20 ms", took);
    live.server.sidecars().iter().for_each(pilothouse_tests::processes::Sidecar::kill9);
}

/// Streams a long answer token by token, and measures until the control plane has it in the conversation.
pub(crate) async fn tokens() {
    let text: String =
        (0..TOKENS).map(|n| format!("{n:>3} ").chars().take(TOKEN).collect::<String>()).collect();
    let text = text.trim().to_owned();
    let step = json!({ "text": text, "chunk": TOKEN });
    let live = Live::start(json!({ "conversations": [{ "steps": [step] }] })).await;
    let session = live.session().await;
    let asked = live.models.wait_for(1).await;
    session.until_messages("the long answer", |all| all.iter().any(|m| m["source"] == "Agent")).await;
    let took = asked[0].received.elapsed();
    figure(
        &format!("tokens: an answer of {TOKENS}, model to conversation"),
        format!("{:.0}/s, {:.2} s in all", TOKENS as f64 / took.as_secs_f64(), took.as_secs_f64()),
    );
}
