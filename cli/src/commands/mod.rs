//! The commands: one file each, or one for a few that differ in a word.

pub mod adjust;
pub mod answer;
pub mod budget;
pub mod chain;
pub mod completions;
pub mod criteria;
pub mod dead_letters;
pub mod deliverables;
pub mod demo;
pub mod follow;
pub mod keys;
pub mod lifecycle;
pub mod parse;
pub mod plan;
pub mod pool;
pub mod ps;
pub mod queue;
pub mod records;
pub mod review;
pub mod run;
pub mod show;
pub mod skill;
pub mod steer;
pub mod target;
pub mod telling;
pub mod template;
pub mod token;
pub mod up;
pub mod watch;
pub mod worker;

use crate::args::{Cli, Command};
use crate::context::Context;
use crate::error::CliError;
use crate::exit::Exit;
use crate::profile::Profile;

/// Runs a command line.
pub async fn run(cli: Cli) -> Result<Exit, CliError> {
    let globals = cli.globals;
    let cx = || Context::new(&globals);
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
        Command::Completions(command) => command.run(),

        Command::Run(command) => command.run(&cx()?).await,
        Command::Ps(command) => command.run(&cx()?).await,
        Command::Show(command) => command.run(&cx()?).await,
        Command::Watch(command) => command.run(&cx()?).await,
        Command::Logs(command) => command.run(&cx()?).await,
        Command::Messages(command) => command.run(&cx()?).await,
        Command::Tools(command) => command.run(&cx()?).await,
        Command::Deliverables(command) => command.run(&cx()?).await,
        Command::Model(command) => command.run(&cx()?).await,
        Command::Thinking(command) => command.run(&cx()?).await,
        Command::Compact(command) => command.run(&cx()?).await,
        Command::Fork(command) => command.run(&cx()?).await,
        Command::Tasks(command) => command.run(&cx()?).await,
        Command::Notifications(command) => command.run(&cx()?).await,
        Command::Replay(command) => command.run(&cx()?).await,
        Command::Export(command) => command.run(&cx()?).await,
        Command::Steer(command) => command.run(&cx()?).await,
        Command::Queue(command) => command.run(&cx()?).await,
        Command::Interrupt(command) => command.run(&cx()?).await,
        Command::Pause(command) => command.run(&cx()?).await,
        Command::Resume(command) => command.run(&cx()?).await,
        Command::Cancel(command) => command.run(&cx()?).await,
        Command::Answer(command) => command.run(&cx()?).await,
        Command::Plan(command) => command.run(&cx()?).await,
        Command::Approve(command) => command.run(&cx()?).await,
        Command::Reject(command) => command.run(&cx()?).await,
        Command::Close(command) => command.run(&cx()?).await,
        Command::Retry(command) => command.run(&cx()?).await,
        Command::Chain(command) => command.run(&cx()?).await,
        Command::Budget(command) => command.run(&cx()?).await,
        Command::Pool(command) => command.run(&cx()?).await,
        Command::Template(command) => command.run(&cx()?).await,
        Command::Skill(command) => command.run(&cx()?).await,
        Command::DeadLetters(command) => command.run(&cx()?).await,
    }
}

/// Why a command makes no sense with a deployment in the cloud.
const fn embedded_only(command: &Command) -> Option<&'static str> {
    match command {
        Command::Up(_) => Some(
            "`pilothouse up` starts the server of the embedded profile; a deployment in the cloud is always up",
        ),
        Command::Demo(_) => {
            Some("`pilothouse demo` plays on a server of the embedded profile; leave out --profile aws")
        }
        _ => None,
    }
}
