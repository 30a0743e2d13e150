//! An agent in a folder, without a control plane: `cargo run --example agent -- make the tests pass`.
//!
//! It works in the current folder and continues the latest conversation there; `--new` begins another one. `MODEL`
//! selects the model (`anthropic/claude-sonnet-4-5`); the default is the first one with a key.
//! [`ModelRegistry::from_env`] reads keys and base URLs. Ctrl-C ends the work and keeps the conversation. A prompt that
//! begins with `!` is a command. The first argument `guard` is reserved: the program calls itself with it to run
//! commands that end together with it.

use std::error::Error;
use std::ffi::OsString;
use std::io::Write;
use std::process::ExitCode;
use std::sync::Arc;

use pilothouse_agent::bash::{BashConfig, BashRunner};
use pilothouse_agent::event::SessionEvent;
use pilothouse_agent::model::genai::GenaiModel;
use pilothouse_agent::model::registry::ModelRegistry;
use pilothouse_agent::process::{Guard, guard};
use pilothouse_agent::resources::ResourceLoader;
use pilothouse_agent::session::{AgentSession, PromptOptions, Prompted, SessionConfig, Start};
use pilothouse_agent::tool::builtin::builtin_tools;
use pilothouse_agent::workspace::{Environment, Workspace};
use tokio::sync::mpsc;

fn main() -> ExitCode {
    let arguments: Vec<OsString> = std::env::args_os().skip(1).collect();
    if let [verb, rest @ ..] = arguments.as_slice()
        && verb == guard::VERB
    {
        return guard::run(rest);
    }
    match work() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

#[tokio::main(flavor = "current_thread")]
async fn work() -> Result<(), Box<dyn Error>> {
    let mut words: Vec<String> = std::env::args().skip(1).collect();
    let start = if words.first().is_some_and(|word| word == "--new") {
        words.remove(0);
        Start::New { parent: None }
    } else {
        Start::ContinueRecent
    };
    let (session, events) = AgentSession::open(config()?, start)?;
    let printing = tokio::spawn(print_events(events));
    if let Some(command) = words.first().filter(|word| word.starts_with('!')) {
        session.execute_bash(&[command.as_str(), &words[1..].join(" ")].join(" ")).await?;
    } else {
        let interrupted = session.clone();
        tokio::spawn(async move {
            if tokio::signal::ctrl_c().await.is_ok() {
                interrupted.abort().await;
            }
        });
        match session.prompt(&words.join(" "), PromptOptions::default()).await? {
            Prompted::Ended(outcome) => eprintln!("[{outcome:?}]"),
            Prompted::Command(text) => println!("{text}"),
            Prompted::Queued => {}
        }
    }
    session.close().await;
    let state = session.state();
    eprintln!("[{} · ${}]", state.file.display(), state.meters.total().cost_usd);
    printing.abort();
    Ok(())
}

fn config() -> Result<SessionConfig, Box<dyn Error>> {
    let folder = std::env::current_dir()?;
    let own = folder.join(".pilothouse");
    let registry = Arc::new(ModelRegistry::from_env(|name| std::env::var(name).ok()));
    let model = Arc::new(GenaiModel::new(Arc::clone(&registry)));
    let mut config = SessionConfig::new(&folder, own.join("sessions"), model, registry);
    let workspace = Arc::new(Workspace::new(&folder, &[own.join("output")])?);
    let bash = BashConfig::new(&folder, Environment::of_this_process(&[]), own.join("output"));
    let bash = BashRunner::new(BashConfig { guard: Guard::this_program()?, ..bash });
    config.tools = builtin_tools(&workspace, &bash);
    config.bash = Some(bash);
    config.model = std::env::var("MODEL").ok();
    config.system_prompt = format!("You work on the software in {}. Be brief.", folder.display());
    let resources = ResourceLoader { skills: vec![own.join("skills")], prompts: vec![own.join("prompts")] };
    config.resources = Arc::new(resources.load());
    Ok(config)
}

/// Prints the agent's text to standard output, and everything else to standard error.
async fn print_events(mut events: mpsc::UnboundedReceiver<SessionEvent>) {
    while let Some(event) = events.recv().await {
        match event {
            SessionEvent::TextDelta(text) | SessionEvent::BashUpdate { chunk: text } => {
                print!("{text}");
                // The reader may have ended.
                let _ = std::io::stdout().flush();
            }
            SessionEvent::TurnEnd => println!(),
            SessionEvent::ToolExecutionStart(call) => eprintln!("[{} {}]", call.name, call.arguments),
            SessionEvent::ToolExecutionEnd(result) if result.is_error => {
                eprintln!("[{} failed]", result.tool_name);
            }
            SessionEvent::AutoRetryStart { delay, error, .. } => eprintln!("[again in {delay:?}: {error}]"),
            SessionEvent::CompactionStart { .. } => eprintln!("[summarising]"),
            _ => {}
        }
    }
}
