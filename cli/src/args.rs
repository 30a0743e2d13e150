//! The command line.

use std::path::{Path, PathBuf};

use clap::{Args, Parser, Subcommand};

use crate::commands::{
    answer, budget, completions, demo, lifecycle, plan, pool, ps, queue, records, review, run, show, steer,
    token, up, watch,
};

/// Where the embedded server listens when nothing else is said.
pub const DEFAULT_LISTEN: &str = "127.0.0.1:7433";

/// Start AI agents on real work and stay in command of them.
#[derive(Debug, Parser)]
#[command(name = "pilothouse", version, arg_required_else_help = true, after_help = FIRST_STEPS)]
pub struct Cli {
    /// What every command takes.
    #[command(flatten)]
    pub globals: Globals,
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The heading of what every command takes.
const EVERYWHERE: &str = "Everywhere";

const FIRST_STEPS: &str = "\
First steps:
  pilothouse demo                        see everything once, in about a minute; needs nothing
  pilothouse up                          start the server on this machine
  pilothouse run \"Make the tests pass\"   start a session here and watch it
  pilothouse ps                          what runs
  pilothouse steer @last \"Not that file\" say something to the agent while it works

A session is named by its id, by an unambiguous beginning (or end) of it of at least 4 characters, or as @last.

Exit codes: 0 done, 1 failed or refused, 2 usage, 3 not found, 4 server not reachable or token not accepted,
5 the watched session ended as Failed or Cancelled.";

/// What every command takes.
#[derive(Debug, Clone, Args)]
pub struct Globals {
    /// The server
    #[arg(
        long,
        global = true,
        help_heading = EVERYWHERE,
        env = "PILOTHOUSE_URL",
        default_value = "http://127.0.0.1:7433",
        value_name = "URL"
    )]
    pub url: String,
    /// The token to log in with; minted from the local data folder when not given
    #[arg(long, global = true, help_heading = EVERYWHERE, env = "PILOTHOUSE_TOKEN", hide_env_values = true, value_name = "JWT")]
    pub token: Option<String>,
    /// The data folder of the server on this machine [default: ~/.pilothouse]
    #[arg(long, global = true, help_heading = EVERYWHERE, env = "PILOTHOUSE_DATA", value_name = "FOLDER")]
    pub data: Option<PathBuf>,
    /// Write JSON for machines: one document, or one line for each message while watching
    #[arg(long, global = true, help_heading = EVERYWHERE)]
    pub json: bool,
}

impl Globals {
    /// The data folder: the one that was given, or the one in the home folder.
    pub fn data_folder(&self) -> Option<PathBuf> {
        let home = || std::env::var_os("HOME").filter(|home| !home.is_empty());
        self.data.clone().or_else(|| home().map(|home| Path::new(&home).join(".pilothouse")))
    }
}

/// What to do.
#[derive(Debug, Subcommand)]
#[allow(missing_docs)] // what each is for stands at its type, where the help takes it from
pub enum Command {
    Up(up::Up),
    Demo(demo::Demo),
    Token(token::Token),

    Run(run::Run),
    #[command(visible_alias = "ls")]
    Ps(ps::Ps),
    Show(show::Show),
    Watch(watch::Watch),
    Logs(records::Logs),
    Messages(records::Messages),
    Tools(records::Tools),

    Steer(steer::Steer),
    #[command(subcommand)]
    Queue(queue::Queue),
    Interrupt(lifecycle::Interrupt),
    Pause(lifecycle::Pause),
    Resume(lifecycle::Resume),
    Cancel(lifecycle::Cancel),
    Answer(answer::Answer),
    #[command(subcommand)]
    Plan(plan::Plan),
    Approve(review::Approve),
    Reject(review::Reject),
    Close(lifecycle::Close),
    Retry(lifecycle::Retry),
    #[command(subcommand)]
    Budget(budget::Budget),
    #[command(subcommand)]
    Pool(pool::Pool),

    Completions(completions::Completions),
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory as _, Parser as _};

    use super::{Cli, Command};

    fn parse(line: &[&str]) -> Result<Cli, clap::Error> {
        Cli::try_parse_from(std::iter::once(&"pilothouse").chain(line))
    }

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn global_options_stand_anywhere() {
        let before = parse(&["--json", "--url", "http://x", "ps"]).unwrap();
        let after = parse(&["ps", "--json", "--url", "http://x"]).unwrap();
        assert_eq!((before.globals.json, before.globals.url.as_str()), (true, "http://x"));
        assert_eq!((after.globals.json, after.globals.url.as_str()), (true, "http://x"));
    }

    #[test]
    fn every_command_of_the_manual_is_understood() {
        for line in [
            "up --listen 127.0.0.1:0 --data /tmp/x",
            "demo",
            "token --owner ada --ttl 30d",
            "run objective --dir . --budget 2.50 --name n --model m --adapter claude --label a=b --label c=d --detach",
            "run objective --script s.json",
            "run objective --recording r.jsonl",
            "ps --all --status WaitingForInput",
            "ls",
            "show 0197b1c0",
            "show --last",
            "watch @last --after j12 --until idle --logs",
            "logs @last --limit 5",
            "messages @last --subagent a1",
            "tools @last",
            "steer @last look left",
            "steer --last look left",
            "queue list @last",
            "queue add @last then right",
            "queue edit @last 1 no, left",
            "queue move @last 2 1",
            "queue promote @last 1",
            "queue release @last 1",
            "queue rm @last 1",
            "queue clear @last",
            "interrupt @last --clear-queue --no-wait",
            "pause @last",
            "resume @last --timeout 5",
            "cancel @last --force",
            "answer @last",
            "answer @last --request toolu_1 SQLite yes",
            "plan show @last",
            "plan approve @last",
            "plan reject @last --feedback shorter",
            "approve @last",
            "reject @last --reason wrong",
            "close @last",
            "retry @last --fresh look at the error first",
            "budget show @last",
            "budget set @last 10 --warn-at 90",
            "pool show",
            "pool set 4",
            "completions bash",
        ] {
            if let Err(e) = parse(&line.split(' ').collect::<Vec<_>>()) {
                panic!("{line}: {e}");
            }
        }
    }

    #[test]
    fn what_is_meant_by_nothing_is_refused() {
        for line in [
            "show",
            "ps --status Sleeping",
            "run objective --budget free",
            "run objective --label nothing",
            "run objective --script a --recording b",
            "token --ttl soon",
            "watch @last --until doomsday",
            "pool set 0",
            "answers",
        ] {
            let error = parse(&line.split(' ').collect::<Vec<_>>()).unwrap_err();
            assert_eq!(error.exit_code(), 2, "{line}");
        }
    }

    #[test]
    fn a_session_need_not_be_named_when_the_last_one_is_meant() {
        let Command::Steer(steer) = parse(&["steer", "--last", "look", "left"]).unwrap().command else {
            panic!()
        };
        assert_eq!(
            steer.target.split(steer.words),
            ("@last".into(), vec!["look".to_owned(), "left".to_owned()])
        );
        let Command::Steer(steer) = parse(&["steer", "0197", "look", "left"]).unwrap().command else {
            panic!()
        };
        assert_eq!(
            steer.target.split(steer.words),
            ("0197".into(), vec!["look".to_owned(), "left".to_owned()])
        );
    }
}
