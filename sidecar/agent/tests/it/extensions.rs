//! Hooks, commands, skills and templates, and commands of the user (S1 6.3, 7, 8).

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use pilothouse_agent::bash::{BashConfig, BashRunner};
use pilothouse_agent::event::{AgentOutcome, SessionEvent};
use pilothouse_agent::extension::{
    AgentStart, BeforeTool, CommandOutcome, CommandSpec, Extension, Extensions, TurnEnd, TurnStart,
};
use pilothouse_agent::message::ToolCall;
use pilothouse_agent::resources::ResourceLoader;
use pilothouse_agent::session::{PromptOptions, Prompted, SessionError};
use pilothouse_agent::tool::{SharedTool, ToolOutput};
use pilothouse_agent::workspace::Environment;
use serde_json::json;

use crate::support::*;

/// Uses every hook to change its input.
#[derive(Default)]
struct Meddler {
    seen: Mutex<Vec<String>>,
    resources: ResourceLoader,
}

impl Meddler {
    fn note(&self, what: String) {
        self.seen.lock().unwrap().push(what);
    }
}

#[async_trait]
impl Extension for Meddler {
    fn name(&self) -> &'static str {
        "meddler"
    }

    fn resources(&self) -> ResourceLoader {
        self.resources.clone()
    }

    fn tools(&self) -> Vec<SharedTool> {
        vec![TestTool::named("extra", |_, _| ToolOutput::text("extra"))]
    }

    fn commands(&self) -> Vec<CommandSpec> {
        vec![
            CommandSpec { name: "status".into(), description: "Says how it is.".into() },
            CommandSpec { name: "ask".into(), description: "Asks the agent.".into() },
        ]
    }

    async fn before_agent_start(&self, start: AgentStart) -> AgentStart {
        AgentStart {
            prompt: format!("{} (please)", start.prompt),
            system: format!("{} Be kind.", start.system),
        }
    }

    async fn turn_start(&self, turn: &TurnStart) -> Option<String> {
        (turn.turn == 2).then(|| format!("{} Second turn.", turn.system))
    }

    async fn turn_end(&self, turn: &TurnEnd) -> Option<String> {
        self.note(format!("turn {}: {} {:?}", turn.turn, turn.text, turn.tools));
        (turn.text == "finished").then(|| "Really?".to_owned())
    }

    async fn before_tool(&self, call: &ToolCall) -> BeforeTool {
        match call.arguments["text"].as_str() {
            Some("forbidden") => BeforeTool::Block("that is forbidden".into()),
            Some("bad") => BeforeTool::Change(json!({ "text": 5 })),
            Some(text) => BeforeTool::Change(json!({ "text": format!("{text}!") })),
            None => BeforeTool::Go,
        }
    }

    async fn after_tool(&self, _: &ToolCall, output: ToolOutput) -> ToolOutput {
        ToolOutput { is_error: false, ..output }
    }

    async fn command(&self, name: &str, arguments: &str) -> CommandOutcome {
        match name {
            "ask" => CommandOutcome::Prompt(format!("What about {arguments}?")),
            _ => CommandOutcome::Done("all is well".into()),
        }
    }
}

fn setup(model: Arc<Scripted>, meddler: Arc<Meddler>) -> SessionSetup {
    let mut setup = SessionSetup::new(model, vec![TestTool::echo()]);
    setup.config.system_prompt = "You work.".into();
    setup.config.extensions = Extensions::new(vec![meddler]);
    setup
}

#[tokio::test]
async fn extensions_see_and_change_prompts_turns_and_tools() {
    let model = Scripted::new([
        call(&[
            ("a", "echo", json!({ "text": "one" })),
            ("b", "echo", json!({ "text": "forbidden" })),
            ("c", "echo", json!({ "text": "bad" })),
            ("d", "extra", json!({ "text": "x" })),
        ]),
        say("finished"),
        say("yes"),
    ]);
    let meddler = Arc::new(Meddler::default());
    let open = setup(model.clone(), meddler.clone()).open();
    assert_eq!(open.prompt("go").await, AgentOutcome::Completed);
    let texts = open.texts();
    assert_eq!(texts[0], "user: go (please)");
    assert_eq!(texts[5..7], ["result a: one!", "error b: that is forbidden"]);
    assert!(texts[7].starts_with("error c: The arguments of `echo` are not valid"), "{texts:?}");
    assert_eq!(texts[8..], ["result d: extra", "assistant: finished", "user: Really?", "assistant: yes"]);
    let systems: Vec<String> = model.requests().into_iter().map(|request| request.system).collect();
    let usual = "You work. Be kind.";
    assert_eq!(systems, [usual, "You work. Be kind. Second turn.", usual]);
    let seen = meddler.seen.lock().unwrap().clone();
    assert_eq!(seen[0], "turn 1:  [\"echo\", \"echo\", \"echo\", \"extra\"]");
}

#[tokio::test]
async fn extension_commands_answer_or_become_a_prompt() {
    let model = Scripted::new([say("fine")]);
    let open = setup(model.clone(), Arc::new(Meddler::default())).open();
    let status = open.session.prompt("/status", PromptOptions::default()).await.unwrap();
    assert_eq!(status, Prompted::Command("all is well".into()));
    assert!(open.texts().is_empty() && !open.session.state().running);
    open.prompt("/ask the tests").await;
    assert_eq!(open.texts()[0], "user: What about the tests? (please)");
}

#[tokio::test]
async fn skills_and_templates_replace_their_names() {
    let folder = tempfile::tempdir().unwrap();
    let (skills, prompts) = (folder.path().join("skills"), folder.path().join("prompts"));
    std::fs::create_dir_all(&skills).unwrap();
    std::fs::create_dir_all(&prompts).unwrap();
    std::fs::write(skills.join("review.md"), "---\ndescription: Reviews code.\n---\nLook twice.").unwrap();
    std::fs::write(prompts.join("fix.md"), "Fix $1 now.").unwrap();
    let resources = ResourceLoader { skills: vec![skills], prompts: vec![prompts] };
    let meddler = Arc::new(Meddler { resources, ..Meddler::default() });
    let model = Scripted::then_always([], say("ok"));
    let open = setup(model.clone(), meddler).open();
    open.prompt("/skill:review the parser").await;
    open.session.follow_up("/fix tests", PromptOptions::default()).unwrap();
    let plain = PromptOptions { expand: false, ..PromptOptions::default() };
    open.session.follow_up("/fix nothing", plain).unwrap();
    within(open.session.resume()).await.unwrap();
    let texts = open.texts();
    assert!(texts[0].contains("<skill") && texts[0].contains("Look twice."), "{texts:?}");
    assert_eq!(texts[2], "user: Fix tests now.");
    assert_eq!(texts[4], "user: /fix nothing");
    assert!(model.requests()[0].system.contains("review"), "the agent knows which skills there are");
}

fn with_bash(model: Arc<Scripted>) -> SessionSetup {
    let mut setup = SessionSetup::new(model, Vec::new());
    let environment = Environment::of_this_process(&[]);
    let config = BashConfig::new(setup.folder.path(), environment, setup.folder.path().join("output"));
    setup.config.bash = Some(BashRunner::new(config));
    setup
}

#[tokio::test]
async fn user_command_joins_the_conversation_unless_excluded() {
    let model = Scripted::then_always([], say("ok"));
    let mut setup = with_bash(model.clone());
    setup.config.shell_prefix = Some("word=prefixed".into());
    let mut open = setup.open();
    let shown = within(open.session.execute_bash("! echo seen $word; exit 3")).await.unwrap();
    assert_eq!((shown.output.trim(), shown.exit_code), ("seen prefixed", Some(3)));
    let hidden = within(open.session.execute_bash("!!echo secret")).await.unwrap();
    assert!(hidden.exclude_from_context);
    assert!(matches!(open.session.execute_bash("no mark").await, Err(SessionError::Bash(_))));
    let kept: Vec<_> =
        lines(&file(&open.session)).into_iter().filter(|line| line["type"] == "message").collect();
    assert_eq!(kept.len(), 2, "both are recorded at once");
    assert!(kept.iter().all(|line| line["message"]["role"] == "bashExecution"), "{kept:#?}");
    assert_eq!(kept[1]["message"]["excludeFromContext"], true);
    let events = open.received_events();
    assert!(
        events
            .iter()
            .any(|event| matches!(event, SessionEvent::BashUpdate { chunk } if chunk.contains("seen")))
    );
    open.prompt("go").await;
    let seen = texts(&model.requests()[0].messages).join("\n");
    assert!(
        seen.contains("echo seen $word") && seen.contains("seen prefixed") && seen.contains("exit code 3"),
        "{seen}"
    );
    assert!(!seen.contains("secret") && !seen.contains("word="), "{seen}");
    assert_eq!(open.texts()[..2], ["ran echo seen $word; exit 3", "ran echo secret"]);
}

#[tokio::test]
async fn user_command_during_a_run_keeps_calls_and_results_together() {
    let gated = Gated::new("wait");
    let model = Scripted::new([call(&[("a", "wait", json!({}))]), say("done")]);
    let mut setup = with_bash(model.clone());
    setup.config.tools = vec![gated.clone()];
    let open = setup.open();
    let run = open.begin("go");
    within(gated.started.notified()).await;
    within(open.session.execute_bash("!echo meanwhile")).await.unwrap();
    gated.open.notify_one();
    assert_eq!(within(run).await.unwrap(), AgentOutcome::Completed);
    assert_eq!(open.texts()[1..4], ["call a", "result a: done", "ran echo meanwhile"]);
}

#[tokio::test]
async fn closing_ends_a_user_command() {
    let setup = with_bash(Scripted::new([]));
    let open = setup.open();
    let session = open.session.clone();
    let running = tokio::spawn(async move { session.execute_bash("!echo up; sleep 600").await });
    let mut events = open.events;
    within(async { while !matches!(events.recv().await, Some(SessionEvent::BashUpdate { .. })) {} }).await;
    within(open.session.close()).await;
    assert!(within(running).await.unwrap().unwrap().cancelled);
    let refused = within(open.session.execute_bash("!echo more")).await;
    assert!(matches!(refused, Err(SessionError::Closed)), "{refused:?}");
}
