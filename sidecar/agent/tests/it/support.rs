//! A scripted model, scriptable tools, and a session with them.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use futures_util::{StreamExt, stream};
use pilothouse_agent::event::{AgentOutcome, SessionEvent};
use pilothouse_agent::message::{
    AgentMessage, AssistantContent, AssistantMessage, StopReason, ToolCall, Usage, UserContent,
};
use pilothouse_agent::model::registry::{Api, ModelConfig, ModelRegistry, ProviderConfig, Secret};
use pilothouse_agent::model::{Delta, LanguageModel, ModelError, ModelRequest, ModelStream, ToolSpec};
use pilothouse_agent::session::{AgentSession, PromptOptions, Prompted, RetryPolicy, SessionConfig, Start};
use pilothouse_agent::tool::{SharedTool, Tool, ToolContext, ToolOutput};
use pilothouse_domain::Timestamp;
use serde_json::{Value, json};
use tokio::sync::{Notify, mpsc};

#[derive(Clone)]
pub(crate) enum Reply {
    Say(AssistantMessage),
    Fail(ModelError),
    /// Sends a piece, and then nothing until it is cancelled.
    Hang(&'static str),
    /// Sends a piece, and then ends the stream.
    Break(&'static str),
}

/// A fake model that gives prepared replies and checks each request like a provider.
#[derive(Default)]
pub(crate) struct Scripted {
    replies: Mutex<VecDeque<Reply>>,
    otherwise: Option<Reply>,
    requests: Mutex<Vec<ModelRequest>>,
    came: Notify,
}

impl Scripted {
    pub(crate) fn new(replies: impl IntoIterator<Item = Reply>) -> Arc<Self> {
        Arc::new(Self { replies: Mutex::new(replies.into_iter().collect()), ..Self::default() })
    }

    pub(crate) fn then_always(replies: impl IntoIterator<Item = Reply>, otherwise: Reply) -> Arc<Self> {
        let replies = Mutex::new(replies.into_iter().collect());
        Arc::new(Self { replies, otherwise: Some(otherwise), ..Self::default() })
    }

    pub(crate) fn requests(&self) -> Vec<ModelRequest> {
        self.requests.lock().unwrap().clone()
    }

    /// Waits for this many requests.
    pub(crate) async fn wait_for(&self, count: usize) {
        within(async {
            loop {
                let came = self.came.notified();
                if self.requests.lock().unwrap().len() >= count {
                    return;
                }
                came.await;
            }
        })
        .await;
    }
}

#[async_trait]
impl LanguageModel for Scripted {
    async fn stream(&self, request: ModelRequest) -> Result<ModelStream, ModelError> {
        check_pairing(&request.messages);
        self.requests.lock().unwrap().push(request);
        self.came.notify_waiters();
        let reply = self.replies.lock().unwrap().pop_front().or_else(|| self.otherwise.clone());
        let delta = |text: &str| Ok(Delta::Text(text.to_owned()));
        Ok(match reply.expect("the script is over") {
            Reply::Say(reply) => {
                let thoughts: Vec<_> = reply.content.iter().filter_map(thought).collect();
                let said = [delta(&reply.text()), Ok(Delta::Done(reply))];
                stream::iter(thoughts.into_iter().map(Ok).chain(said)).boxed()
            }
            Reply::Fail(error) => return Err(error),
            Reply::Hang(text) => stream::iter([delta(text)]).chain(stream::pending()).boxed(),
            Reply::Break(text) => stream::iter([delta(text)]).boxed(),
        })
    }
}

fn thought(block: &AssistantContent) -> Option<Delta> {
    match block {
        AssistantContent::Thinking { thinking, .. } => Some(Delta::Thinking(thinking.clone())),
        AssistantContent::Text { .. } | AssistantContent::ToolCall(_) => None,
    }
}

/// The rule of all providers: each call has exactly one result, directly after it.
pub(crate) fn check_pairing(messages: &[Arc<AgentMessage>]) {
    let mut at = 0;
    while at < messages.len() {
        match &*messages[at] {
            AgentMessage::Assistant(reply) => {
                for call in reply.tool_calls() {
                    at += 1;
                    match messages.get(at).map(|message| &**message) {
                        Some(AgentMessage::ToolResult(result)) if result.tool_call_id == call.id => {}
                        other => panic!("the call {} has {other:?} after it in {messages:#?}", call.id),
                    }
                }
                at += 1;
            }
            AgentMessage::ToolResult(result) => {
                panic!("{} has no call in {messages:#?}", result.tool_call_id)
            }
            AgentMessage::BashExecution(_) => panic!("a model got an unconverted command"),
            AgentMessage::User(_) => at += 1,
        }
    }
    assert!(
        matches!(
            messages.last().map(|message| &**message),
            Some(AgentMessage::User(_) | AgentMessage::ToolResult(_))
        ),
        "{messages:#?}"
    );
}

pub(crate) fn usage(input: u64, output: u64) -> Usage {
    Usage { input, output, ..Usage::default() }
}

fn reply(content: Vec<AssistantContent>, stop_reason: StopReason) -> AssistantMessage {
    AssistantMessage {
        content,
        provider: "test".into(),
        model: "small".into(),
        usage: usage(100, 10),
        stop_reason,
        error: None,
        timestamp: Timestamp::from_millis(0),
    }
}

pub(crate) fn say(text: &str) -> Reply {
    Reply::Say(reply(vec![AssistantContent::Text { text: text.into() }], StopReason::Stop))
}

/// A reply with a thought.
pub(crate) fn thinking(thought: &str, text: &str) -> Reply {
    let thought = AssistantContent::Thinking { thinking: thought.into(), signature: None };
    Reply::Say(reply(vec![thought, AssistantContent::Text { text: text.into() }], StopReason::Stop))
}

pub(crate) fn say_taking(text: &str, usage: Usage) -> Reply {
    let content = vec![AssistantContent::Text { text: text.into() }];
    Reply::Say(AssistantMessage { usage, ..reply(content, StopReason::Stop) })
}

pub(crate) fn call(calls: &[(&str, &str, Value)]) -> Reply {
    call_taking(calls, usage(100, 10))
}

pub(crate) fn call_taking(calls: &[(&str, &str, Value)], usage: Usage) -> Reply {
    let content = calls.iter().map(|(id, name, arguments)| {
        AssistantContent::ToolCall(ToolCall {
            id: (*id).into(),
            name: (*name).into(),
            arguments: arguments.clone(),
        })
    });
    Reply::Say(AssistantMessage { usage, ..reply(content.collect(), StopReason::ToolUse) })
}

pub(crate) fn transient(message: &str, retry_after: Option<Duration>) -> Reply {
    Reply::Fail(ModelError::Transient { message: message.into(), status: Some(529), retry_after })
}

pub(crate) fn overflow() -> Reply {
    Reply::Fail(ModelError::ContextOverflow { message: "too long".into() })
}

type Does = dyn Fn(Value, ToolContext) -> ToolOutput + Send + Sync;

/// A tool with the given behaviour. `echo` takes a text and an optional number.
pub(crate) struct TestTool {
    spec: ToolSpec,
    does: Box<Does>,
}

impl TestTool {
    pub(crate) fn named(
        name: &str,
        does: impl Fn(Value, ToolContext) -> ToolOutput + Send + Sync + 'static,
    ) -> SharedTool {
        let input_schema = json!({
            "type": "object",
            "properties": { "text": { "type": "string" }, "count": { "type": "integer", "minimum": 1 } },
            "required": ["text"],
            "additionalProperties": false,
        });
        Self::accepting(name, input_schema, does)
    }

    pub(crate) fn accepting(
        name: &str,
        input_schema: Value,
        does: impl Fn(Value, ToolContext) -> ToolOutput + Send + Sync + 'static,
    ) -> SharedTool {
        let spec = ToolSpec { name: name.into(), description: "A tool of a test.".into(), input_schema };
        Arc::new(Self { spec, does: Box::new(does) })
    }

    pub(crate) fn echo() -> SharedTool {
        Self::named("echo", |arguments, context| {
            let text = arguments["text"].as_str().unwrap_or_default().to_owned();
            let _ = context.progress.send(format!("progress of {text}"));
            ToolOutput::text(text)
        })
    }
}

#[async_trait]
impl Tool for TestTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    async fn run(&self, arguments: Value, context: ToolContext) -> ToolOutput {
        (self.does)(arguments, context)
    }
}

/// A tool that runs until it is released or cancelled.
pub(crate) struct Gated {
    spec: ToolSpec,
    pub(crate) started: Notify,
    pub(crate) open: Notify,
}

impl Gated {
    pub(crate) fn new(name: &str) -> Arc<Self> {
        let input_schema = json!({ "type": "object" });
        let spec = ToolSpec { name: name.into(), description: "Waits.".into(), input_schema };
        Arc::new(Self { spec, started: Notify::new(), open: Notify::new() })
    }
}

#[async_trait]
impl Tool for Gated {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    async fn run(&self, _: Value, context: ToolContext) -> ToolOutput {
        self.started.notify_one();
        tokio::select! {
            () = self.open.notified() => ToolOutput::text("done"),
            () = context.cancelled.cancelled() => ToolOutput::error("cut off"),
        }
    }
}

/// A registry with two models of a provider `test`, both with prices.
pub(crate) fn registry() -> Arc<ModelRegistry> {
    registry_of(Api::AnthropicMessages, None, 10_000)
}

pub(crate) fn registry_of(api: Api, base_url: Option<String>, context_window: u64) -> Arc<ModelRegistry> {
    let model = |id: &str, thinking| -> ModelConfig {
        serde_json::from_value(json!({
            "id": id, "contextWindow": context_window, "maxOutputTokens": 4_000, "thinking": thinking,
            "price": { "input": "3", "output": "15", "cacheRead": "0.3", "cacheWrite": "3.75" },
        }))
        .unwrap()
    };
    let models = vec![model("small", false), model("large", true)];
    let api_key = Some(Secret::new("sk-test-key"));
    Arc::new(ModelRegistry::new().with(ProviderConfig {
        name: "test".into(),
        api,
        base_url,
        api_key,
        keyless: false,
        returns_thoughts: None,
        models,
    }))
}

/// The configuration of sessions in a temporary folder.
pub(crate) struct SessionSetup {
    pub(crate) folder: tempfile::TempDir,
    pub(crate) config: SessionConfig,
}

impl SessionSetup {
    pub(crate) fn new(model: Arc<dyn LanguageModel>, tools: Vec<SharedTool>) -> Self {
        Self::with_registry(model, tools, registry())
    }

    pub(crate) fn with_registry(
        model: Arc<dyn LanguageModel>,
        tools: Vec<SharedTool>,
        registry: Arc<ModelRegistry>,
    ) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut config = SessionConfig::new(folder.path(), folder.path().join("sessions"), model, registry);
        config.tools = tools;
        config.retry = RetryPolicy {
            base_delay: Duration::from_millis(1),
            max_delay: Duration::from_millis(5),
            max_retries: Some(3),
            ..RetryPolicy::default()
        };
        Self { folder, config }
    }

    pub(crate) fn open(&self) -> Open {
        Open::start(self.config.clone(), Start::New { parent: None })
    }
}

pub(crate) struct Open {
    pub(crate) session: AgentSession,
    pub(crate) events: mpsc::UnboundedReceiver<SessionEvent>,
}

impl Open {
    pub(crate) fn start(config: SessionConfig, start: Start) -> Self {
        let (session, events) = AgentSession::open(config, start).unwrap();
        Self { session, events }
    }

    pub(crate) async fn prompt(&self, text: &str) -> AgentOutcome {
        match within(self.session.prompt(text, PromptOptions::default())).await.unwrap() {
            Prompted::Ended(outcome) => outcome,
            other => panic!("the prompt became {other:?}"),
        }
    }

    /// Prompts without waiting for the end.
    pub(crate) fn begin(&self, text: &str) -> tokio::task::JoinHandle<AgentOutcome> {
        let (session, text) = (self.session.clone(), text.to_owned());
        tokio::spawn(async move {
            match session.prompt(&text, PromptOptions::default()).await.unwrap() {
                Prompted::Ended(outcome) => outcome,
                other => panic!("the prompt became {other:?}"),
            }
        })
    }

    pub(crate) fn received_events(&mut self) -> Vec<SessionEvent> {
        std::iter::from_fn(|| self.events.try_recv().ok()).collect()
    }

    pub(crate) fn texts(&self) -> Vec<String> {
        texts(&self.session.messages())
    }
}

/// Each message in short form: `user: …`, `assistant: …`, `call id`, `result id: …`.
pub(crate) fn texts(messages: &[Arc<AgentMessage>]) -> Vec<String> {
    let joined = |content: &[UserContent]| {
        let parts = content.iter().map(|block| match block {
            UserContent::Text { text } => text.clone(),
            UserContent::Image { mime_type, .. } => format!("({mime_type})"),
        });
        parts.collect::<Vec<_>>().join(" ")
    };
    let mut all = Vec::new();
    for message in messages {
        match &**message {
            AgentMessage::User(user) => all.push(format!("user: {}", joined(&user.content))),
            AgentMessage::Assistant(reply) => {
                if !reply.text().is_empty() {
                    all.push(format!("assistant: {}", reply.text()));
                }
                all.extend(reply.tool_calls().map(|call| format!("call {}", call.id)));
            }
            AgentMessage::ToolResult(result) => {
                let mark = if result.is_error { "error" } else { "result" };
                all.push(format!("{mark} {}: {}", result.tool_call_id, joined(&result.content)));
            }
            AgentMessage::BashExecution(bash) => all.push(format!("ran {}", bash.command)),
        }
    }
    all
}

pub(crate) async fn within<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_mins(1), future).await.expect("it takes too long")
}

pub(crate) fn lines(file: &Path) -> Vec<Value> {
    std::fs::read_to_string(file).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

pub(crate) fn file(session: &AgentSession) -> PathBuf {
    session.state().file
}
