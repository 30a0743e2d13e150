//! The agent loop in this process, with a model that answers immediately: the cost of a turn without the model.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use async_trait::async_trait;
use futures_util::{StreamExt as _, stream};
use pilothouse_agent::message::{AssistantContent, AssistantMessage, StopReason, ToolCall, Usage};
use pilothouse_agent::model::registry::{Api, ModelConfig, ModelRegistry, ProviderConfig, Secret};
use pilothouse_agent::model::{Delta, LanguageModel, ModelError, ModelRequest, ModelStream, ToolSpec};
use pilothouse_agent::session::{AgentSession, PromptOptions, Prompted, SessionConfig, Start};
use pilothouse_agent::tool::{Tool, ToolContext, ToolOutput};
use pilothouse_domain::Timestamp;
use serde_json::{Value, json};

use crate::figures::figure;

/// A model that calls a tool a given number of times and then ends the turn.
struct Scripted {
    left: AtomicUsize,
}

#[async_trait]
impl LanguageModel for Scripted {
    async fn stream(&self, request: ModelRequest) -> Result<ModelStream, ModelError> {
        let left = self.left.load(Ordering::Relaxed);
        self.left.store(left.saturating_sub(1), Ordering::Relaxed);
        let text = "I look at the next file and see what it says.".to_owned();
        let mut content = vec![AssistantContent::Text { text: text.clone() }];
        if left > 0 {
            let arguments = json!({ "path": "src/main.rs", "lines": 40 });
            content.push(AssistantContent::ToolCall(ToolCall {
                id: format!("call_{left}"),
                name: "nothing".into(),
                arguments,
            }));
        }
        let answer = AssistantMessage {
            content,
            provider: request.provider,
            model: request.model,
            usage: Usage { input: 100, output: 20, ..Usage::default() },
            stop_reason: if left > 0 { StopReason::ToolUse } else { StopReason::Stop },
            error: None,
            timestamp: Timestamp::from_millis(0),
        };
        Ok(stream::iter([Ok(Delta::Text(text)), Ok(Delta::Done(answer))]).boxed())
    }
}

/// A tool without an effect. Its arguments are validated.
struct Nothing {
    spec: ToolSpec,
}

impl Nothing {
    fn new() -> Self {
        let properties =
            json!({ "path": { "type": "string" }, "lines": { "type": "integer", "minimum": 1 } });
        let input_schema = json!({ "type": "object", "properties": properties, "required": ["path"] });
        Self { spec: ToolSpec { name: "nothing".into(), description: "Does nothing.".into(), input_schema } }
    }
}

#[async_trait]
impl Tool for Nothing {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    async fn run(&self, _arguments: Value, _context: ToolContext) -> ToolOutput {
        ToolOutput::text("fn main() {}\n".repeat(20))
    }
}

/// Its only model has a very large context window.
pub(crate) fn registry(base_url: Option<String>) -> ModelRegistry {
    ModelRegistry::new().with(ProviderConfig {
        name: "scripted".into(),
        api: Api::AnthropicMessages,
        base_url,
        api_key: Some(Secret::new("test")),
        keyless: false,
        returns_thoughts: None,
        models: vec![ModelConfig {
            id: "scripted-1".into(),
            context_window: Some(1_000_000_000),
            max_output_tokens: Some(4096),
            price: None,
            vision: None,
            thinking: Some(false),
            thinking_levels: None,
        }],
    })
}

/// Prints the cost of a turn in conversations of several lengths.
pub(crate) async fn turns() {
    for turns in [50, 500, 2000] {
        let folder = tempfile::tempdir().unwrap();
        let model = Arc::new(Scripted { left: AtomicUsize::new(turns) });
        let sessions = folder.path().join("sessions");
        let mut config = SessionConfig::new(folder.path(), sessions, model, Arc::new(registry(None)));
        config.model = Some("scripted/scripted-1".into());
        config.tools = vec![Arc::new(Nothing::new())];
        let (session, mut events) = AgentSession::open(config, Start::New { parent: None }).unwrap();
        let counting = tokio::spawn(async move {
            let mut count = 0;
            while events.recv().await.is_some() {
                count += 1;
            }
            count
        });
        let begun = Instant::now();
        let ended = session.prompt("look at every file", PromptOptions::default()).await.unwrap();
        let took = begun.elapsed();
        assert!(matches!(ended, Prompted::Ended(_)));
        let size = std::fs::metadata(session.state().file).unwrap().len();
        drop(session);
        let event_count: usize = counting.await.unwrap();
        let each = took.as_secs_f64() * 1e6 / turns as f64;
        figure(
            &format!("loop: a turn with one tool call, {turns} in a row"),
            format!(
                "{each:.0} µs each, {:.1} events and {} bytes of tree a turn",
                event_count as f64 / turns as f64,
                size / turns as u64
            ),
        );
    }
}
