//! The commands, one file for each or for a few similar ones.

pub mod adapter;
pub mod adjust;
pub mod agent;
pub mod answer;
pub mod args;
pub mod artifacts;
pub mod brake;
pub mod briefing;
pub mod budget;
pub mod chain;
pub mod coherence;
pub mod completions;
pub mod conversation;
pub mod criteria;
pub mod dead_letters;
pub mod deliverables;
pub mod demo;
pub mod events;
pub mod files;
pub mod follow;
pub mod inbox;
mod interactive;
pub mod keys;
pub mod knowledge;
pub mod lifecycle;
pub mod logins;
pub mod open;
mod pages;
pub mod parse;
pub mod plan;
pub mod pool;
pub mod project;
mod project_lookup;
pub mod project_watch;
pub mod ps;
pub mod queue;
pub mod records;
pub mod review;
pub mod run;
pub mod search;
pub mod shim;
pub mod show;
pub mod skill;
pub mod steer;
pub mod target;
pub mod template;
pub mod tick;
pub mod token;
pub mod trust;
pub mod up;
pub mod watch;
pub mod worker;
pub mod workers;

use args::{Cli, Command};
use clap::CommandFactory as _;

use crate::context::Context;
use crate::error::CliError;
use crate::exit::Exit;
use crate::profile::Profile;

pub async fn run(cli: Cli) -> Result<Exit, CliError> {
    let globals = cli.globals;
    let ctx = || Context::new(&globals);
    if globals.profile == Profile::Aws
        && let Some(why) = embedded_only(&cli.command)
    {
        return Err(CliError::Usage(why.into()));
    }
    match cli.command {
        // These need no server.
        Command::Up(command) => command.run(&globals).await,
        Command::Worker(command) => command.run(&globals).await,
        Command::Demo(command) => Box::pin(command.run()).await,
        Command::Token(command) => command.run(&globals),
        Command::Keys(command) => command.run(&globals),
        Command::Shim(command) => command.run(&globals).await,
        Command::Completions(command) => command.run(&mut Cli::command()),

        Command::Run(command) => command.run(&ctx()?).await,
        Command::Ps(command) => command.run(&ctx()?).await,
        Command::Search(command) => command.run(&ctx()?).await,
        Command::Show(command) => command.run(&ctx()?).await,
        Command::Watch(command) => command.run(&ctx()?).await,
        Command::Logs(command) => command.run(&ctx()?).await,
        Command::Messages(command) => command.run(&ctx()?).await,
        Command::Tools(command) => command.run(&ctx()?).await,
        Command::Deliverables(command) => command.run(&ctx()?).await,
        Command::Model(command) => command.run(&ctx()?).await,
        Command::Thinking(command) => command.run(&ctx()?).await,
        Command::Compact(command) => command.run(&ctx()?).await,
        Command::Fork(command) => command.run(&ctx()?).await,
        Command::Conversation(command) => command.run(&ctx()?).await,
        Command::Tasks(command) => command.run(&ctx()?).await,
        Command::Notifications(command) => command.run(&ctx()?).await,
        Command::Open(command) => command.run(&ctx()?, &globals).await,
        Command::Logins(command) => command.run(&ctx()?).await,
        Command::Replay(command) => command.run(&ctx()?).await,
        Command::Export(command) => command.run(&ctx()?).await,
        Command::Steer(command) => command.run(&ctx()?).await,
        Command::Queue(command) => command.run(&ctx()?).await,
        Command::Interrupt(command) => command.run(&ctx()?).await,
        Command::Pause(command) => command.run(&ctx()?).await,
        Command::Resume(command) => command.run(&ctx()?).await,
        Command::Brake(command) => command.run(&ctx()?).await,
        Command::Cancel(command) => command.run(&ctx()?).await,
        Command::Inbox(command) => command.run(&ctx()?).await,
        Command::Resolve(command) => command.run(&ctx()?).await,
        Command::Answer(command) => command.run(&ctx()?).await,
        Command::Plan(command) => command.run(&ctx()?).await,
        Command::Approve(command) => command.run(&ctx()?).await,
        Command::Reject(command) => command.run(&ctx()?).await,
        Command::Close(command) => command.run(&ctx()?).await,
        Command::Retry(command) => command.run(&ctx()?).await,
        Command::Chain(command) => command.run(&ctx()?).await,
        Command::Budget(command) => command.run(&ctx()?).await,
        Command::Pool(command) => command.run(&ctx()?).await,
        Command::Workers(command) => command.run(&ctx()?).await,
        Command::Template(command) => command.run(&ctx()?).await,
        Command::Skill(command) => command.run(&ctx()?).await,
        Command::Briefing(command) => command.run(&ctx()?).await,
        Command::Project(command) => command.run(&ctx()?).await,
        Command::Agent(command) => command.run(&ctx()?).await,
        Command::Artifacts(command) => command.run(&ctx()?).await,
        Command::Knowledge(command) => command.run(&ctx()?).await,
        Command::Coherence(command) => command.run(&ctx()?).await,
        Command::Trust(command) => command.run(&ctx()?).await,
        Command::Tick(command) => command.run(&ctx()?).await,
        Command::DeadLetters(command) => command.run(&ctx()?).await,
    }
}

/// The reason why a command is not available for a deployment in AWS.
const fn embedded_only(command: &Command) -> Option<&'static str> {
    match command {
        Command::Up(_) => Some(
            "`pilothouse up` starts the server of the embedded profile; a deployment in AWS is always up",
        ),
        Command::Logins(_) => {
            Some("`pilothouse logins` lists browsers of the embedded server; remove --profile aws")
        }
        Command::Demo(_) => {
            Some("`pilothouse demo` needs a server of the embedded profile; remove --profile aws")
        }
        _ => None,
    }
}
