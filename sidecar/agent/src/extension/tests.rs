use std::path::Path;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use serde_json::json;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::external::{External, ExternalConfig, Notify};
use super::*;
use crate::message::UserContent;
use crate::process::Program;
use crate::tool::ToolContext;
use crate::workspace::Environment;

/// A program that implements the protocol. It logs its requests to a file, and answers each hook as in `ANSWERS`.
const PROGRAM: &str = r#"
import json, os, subprocess, sys
answers = json.loads(os.environ.get("ANSWERS", "{}"))
log = open("log", "a", buffering=1)
for line in sys.stdin:
    message = json.loads(line)
    log.write(line)
    def say(**what): print(json.dumps(what), flush=True)
    if message["type"] == "hello":
        print(os.environ["HELLO"], flush=True)
    elif message["type"] == "request":
        answer = answers.get(message["hook"], {})
        if answer == "die":
            subprocess.Popen(["sleep", "600"])  # it holds the pipe
            os._exit(1)
        if answer == "garbage": print("no JSON", flush=True)
        if answer in ("nothing", "garbage"): continue
        if message["hook"] == "tool": say(type="progress", id=message["id"], text="half")
        say(type="answer", id=message["id"], **answer)
"#;

struct Fixture {
    dir: tempfile::TempDir,
    notices: Arc<Mutex<Vec<String>>>,
    config: ExternalConfig,
}

impl Fixture {
    fn new(hello: &Value, answers: &Value) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let environment = Environment::of_this_process(&[])
            .with("HELLO", hello.to_string())
            .with("ANSWERS", answers.to_string());
        let program = Program::new("python3", dir.path(), environment).args(["-c", PROGRAM]);
        let mut config = ExternalConfig::new("example", program);
        config.hook_timeout = Duration::from_secs(20);
        config.start_timeout = Duration::from_secs(20);
        Self { dir, notices: Arc::default(), config }
    }

    fn notify(&self) -> Notify {
        let notices = self.notices.clone();
        Arc::new(move |notice| notices.lock().unwrap().push(notice))
    }

    async fn start(&self) -> External {
        External::start(self.config.clone(), self.notify()).await.unwrap()
    }

    fn joined_notices(&self) -> String {
        self.notices.lock().unwrap().join("\n")
    }

    fn heard(&self) -> Vec<Value> {
        let log = std::fs::read_to_string(self.dir.path().join("log")).unwrap();
        log.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

fn all_hooks() -> Value {
    json!(["before_agent_start", "turn_start", "turn_end", "before_tool", "after_tool"])
}

fn call() -> ToolCall {
    ToolCall { id: "1".into(), name: "bash".into(), arguments: json!({"command": "ls"}) }
}

fn context() -> (ToolContext, mpsc::UnboundedReceiver<String>) {
    let (progress, updates) = mpsc::unbounded_channel();
    (ToolContext { tool_call_id: "1".into(), cancelled: CancellationToken::new(), progress }, updates)
}

async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while !holds() {
        assert!(Instant::now() < deadline, "it never came: {what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn extension_changes_prompts_calls_and_results() {
    let answers = json!({
        "before_agent_start": {"prompt": "other prompt", "system": "other system"},
        "turn_start": {"system": "turn system"},
        "turn_end": {"message": "go on"},
        "before_tool": {"arguments": {"command": "ls -l"}},
        "after_tool": {"content": "redacted", "is_error": true},
    });
    let fixture = Fixture::new(&json!({"type": "hello", "protocol": 1, "subscribe": all_hooks()}), &answers);
    let extensions = Extensions::new(vec![Arc::new(fixture.start().await)]);
    let start = AgentStart { prompt: "prompt".into(), system: "system".into() };
    let changed = AgentStart { prompt: "other prompt".into(), system: "other system".into() };
    assert_eq!(extensions.before_agent_start(start).await, changed);
    assert_eq!(extensions.turn_start(1, "system".into()).await, "turn system");
    let end = TurnEnd { turn: 1, text: "said".into(), tools: vec!["bash".into()] };
    assert_eq!(extensions.turn_end(&end).await, ["go on"]);
    assert_eq!(extensions.before_tool(call()).await.unwrap().arguments, json!({"command": "ls -l"}));
    let output =
        extensions.after_tool(&call(), ToolOutput { ends_turn: true, ..ToolOutput::text("secret") }).await;
    assert_eq!(output, ToolOutput { ends_turn: true, ..ToolOutput::error("redacted") });

    let heard = fixture.heard();
    assert_eq!(heard[0]["protocol"], 1);
    assert_eq!(
        heard[4],
        json!({"type": "request", "id": 4, "hook": "before_tool", "tool_call_id": "1", "tool": "bash", "arguments": {"command": "ls"}})
    );
    assert_eq!(heard[5]["content"], json!([{"type": "text", "text": "secret"}]));
    assert_eq!(fixture.joined_notices(), "");
}

#[tokio::test]
async fn extension_blocks_a_tool_with_a_reason() {
    let hello = json!({"type": "hello", "protocol": 1, "subscribe": ["before_tool"]});
    let fixture = Fixture::new(&hello, &json!({"before_tool": {"block": "not today"}}));
    let extensions = Extensions::new(vec![Arc::new(fixture.start().await)]);
    assert_eq!(extensions.before_tool(call()).await, Err("not today".to_owned()));
    // Hooks without a subscription are not called.
    extensions.turn_start(1, String::new()).await;
    assert_eq!(fixture.heard().len(), 2);
}

#[tokio::test]
async fn extension_provides_tools_commands_skills_and_prompts() {
    let schema = json!({"type": "object"});
    let hello = json!({
        "type": "hello", "protocol": 1,
        "tools": [
            {"name": "greet", "description": "Greets", "input_schema": schema},
            {"name": "no name", "input_schema": schema},
            {"name": "no_schema", "input_schema": {"type": "nonsense"}},
        ],
        "commands": [{"name": "go", "description": "Goes"}, {"name": "a b"}],
        "skills": ["skills"], "prompts": ["/prompts"],
    });
    let answers = json!({
        "tool": {"content": [{"type": "text", "text": "hello"}]},
        "command": {"prompt": "do it"},
    });
    let fixture = Fixture::new(&hello, &answers);
    let extensions = Extensions::new(vec![Arc::new(fixture.start().await)]);
    let notices = fixture.joined_notices();
    assert!(
        notices.contains("`no name`") && notices.contains("`no_schema`") && notices.contains("`a b`"),
        "{notices}"
    );

    let tools = extensions.tools();
    assert_eq!(tools.len(), 1);
    let (context, mut progress) = context();
    assert_eq!(tools[0].run(json!({}), context).await, ToolOutput::text("hello"));
    assert_eq!(progress.recv().await.as_deref(), Some("half"));

    assert_eq!(extensions.commands(), [CommandSpec { name: "go".into(), description: "Goes".into() }]);
    assert_eq!(extensions.command("go", "now").await, Some(CommandOutcome::Prompt("do it".into())));
    assert_eq!(extensions.command("none", "").await, None);
    let resources = extensions.resources();
    assert_eq!(resources.skills, [fixture.dir.path().join("skills")]);
    assert_eq!(resources.prompts, [Path::new("/prompts")]);
}

#[tokio::test]
async fn slow_extension_is_skipped_and_then_removed() {
    let hello = json!({"type": "hello", "protocol": 1, "subscribe": ["before_tool"]});
    let mut fixture = Fixture::new(&hello, &json!({"before_tool": "nothing"}));
    fixture.config.hook_timeout = Duration::from_millis(500);
    let external = Arc::new(fixture.start().await);
    let extensions = Extensions::new(vec![external.clone()]);
    for _ in 0..3 {
        assert_eq!(extensions.before_tool(call()).await, Ok(call()));
    }
    assert!(!external.is_alive());
    let asked = Instant::now();
    assert_eq!(extensions.before_tool(call()).await, Ok(call()));
    assert!(asked.elapsed() < Duration::from_millis(400), "the agent does not wait for a dead extension");
    let notices = fixture.joined_notices();
    assert_eq!(notices.lines().count(), 3, "{notices}");
    assert!(
        notices.ends_with("extension example: it does not answer; it is not asked any more"),
        "{notices}"
    );
}

#[tokio::test]
async fn crashed_or_invalid_extension_is_removed() {
    for (does, expected) in [("die", "it ended"), ("garbage", "it wrote an invalid message")] {
        let hello = json!({"type": "hello", "protocol": 1, "subscribe": ["turn_start"], "tools": [
            {"name": "greet", "input_schema": {}}
        ]});
        let fixture = Fixture::new(&hello, &json!({"turn_start": does}));
        let external = Arc::new(fixture.start().await);
        let extensions = Extensions::new(vec![external.clone()]);
        assert_eq!(extensions.turn_start(1, "system".into()).await, "system");
        until("it is gone", || !external.is_alive()).await;
        assert!(fixture.joined_notices().contains(expected), "{}", fixture.joined_notices());
        let output = extensions.tools()[0].run(json!({}), context().0).await;
        assert!(output.is_error, "{output:?}");
    }
}

#[tokio::test]
async fn without_a_required_extension_no_tool_runs() {
    let hello = json!({"type": "hello", "protocol": 1, "subscribe": ["before_tool"]});
    let mut fixture = Fixture::new(&hello, &json!({"before_tool": "die"}));
    fixture.config.required = true;
    let extensions = Extensions::new(vec![Arc::new(fixture.start().await)]);
    for _ in 0..2 {
        let refused = extensions.before_tool(call()).await.unwrap_err();
        assert!(refused.contains("without which no tool may run"), "{refused}");
    }
}

#[tokio::test]
async fn aborted_tool_is_cancelled_at_the_extension() {
    let hello = json!({"type": "hello", "protocol": 1, "tools": [{"name": "wait", "input_schema": {}}]});
    let fixture = Fixture::new(&hello, &json!({"tool": "nothing"}));
    let external = fixture.start().await;
    let (context, _progress) = context();
    let tools = external.tools();
    let running = tools[0].run(json!({}), context.clone());
    let cutting = async {
        until("it was asked", || fixture.heard().len() == 2).await;
        context.cancelled.cancel();
    };
    let (output, ()) = tokio::join!(running, cutting);
    assert_eq!(output.content, [UserContent::Text { text: "The call was stopped.".into() }]);
    until("it hears of it", || fixture.heard().len() == 3).await;
    assert_eq!(fixture.heard()[2], json!({"type": "cancel", "id": 1}));
}

#[tokio::test]
async fn program_without_a_hello_is_no_extension() {
    let cases = [
        (json!({"type": "hello", "protocol": 2}), "it speaks protocol 2, this is 1"),
        (json!({"type": "notice", "text": "still starting"}), "it took longer than"),
        (json!("hello"), "it ended, or wrote another message first"),
    ];
    for (hello, expected) in cases {
        let mut fixture = Fixture::new(&hello, &json!({}));
        if expected.ends_with("longer than") {
            fixture.config.start_timeout = Duration::from_secs(1);
        }
        let error =
            External::start(fixture.config.clone(), fixture.notify()).await.err().unwrap().to_string();
        assert!(error.contains(expected), "{error}");
    }
    let mut fixture = Fixture::new(&json!({}), &json!({}));
    fixture.config.program.program = "/no/such/program".into();
    let error = External::start(fixture.config.clone(), fixture.notify()).await.err().unwrap().to_string();
    assert!(error.contains("failed to start the extension"), "{error}");
}

/// A linked-in extension that appends its name to every value.
struct Named(&'static str);

#[async_trait]
impl Extension for Named {
    fn name(&self) -> &str {
        self.0
    }

    fn commands(&self) -> Vec<CommandSpec> {
        vec![CommandSpec { name: "who".into(), description: self.0.into() }]
    }

    async fn before_agent_start(&self, start: AgentStart) -> AgentStart {
        AgentStart { prompt: start.prompt + self.0, ..start }
    }

    async fn before_tool(&self, call: &ToolCall) -> BeforeTool {
        match call.name.as_str() {
            "forbidden" => BeforeTool::Block(self.0.into()),
            _ => BeforeTool::Change(json!(format!(
                "{}{}",
                call.arguments.as_str().unwrap_or_default(),
                self.0
            ))),
        }
    }

    async fn command(&self, _: &str, arguments: &str) -> CommandOutcome {
        CommandOutcome::Done(format!("{} {arguments}", self.0))
    }
}

#[tokio::test]
async fn extensions_are_called_in_their_order() {
    let extensions = Extensions::new(vec![Arc::new(Named("a")), Arc::new(Named("b"))]);
    let start = AgentStart { prompt: String::new(), system: String::new() };
    assert_eq!(extensions.before_agent_start(start).await.prompt, "ab");
    assert_eq!(extensions.before_tool(call()).await.unwrap().arguments, json!("ab"));
    let forbidden = ToolCall { name: "forbidden".into(), ..call() };
    assert_eq!(extensions.before_tool(forbidden).await, Err("a".to_owned()));
    assert_eq!(extensions.commands().len(), 1);
    assert_eq!(extensions.command("who", "x").await, Some(CommandOutcome::Done("a x".into())));
}
