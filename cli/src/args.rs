//! The command line.

use std::path::{Path, PathBuf};

use clap::{Args, Parser, Subcommand};

use crate::commands::{
    adjust, answer, budget, chain, completions, dead_letters, deliverables, demo, keys, lifecycle, plan,
    pool, ps, queue, records, review, run, show, skill, steer, telling, template, token, up, watch, worker,
};
use crate::profile::Profile;

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
/// The heading of what only a control plane in the cloud needs.
const CLOUD: &str = "With --profile aws";

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
#[derive(Debug, Clone, Default, Args)]
pub struct Globals {
    /// What the control plane runs on
    #[arg(
        long,
        global = true,
        help_heading = EVERYWHERE,
        env = "PILOTHOUSE_PROFILE",
        value_enum,
        default_value_t = Profile::Embedded
    )]
    pub profile: Profile,
    /// The server, or the HTTP API of a deployment [default: the server on this machine, port 7433]
    #[arg(long, global = true, help_heading = EVERYWHERE, env = "PILOTHOUSE_URL", value_name = "URL")]
    pub url: Option<String>,
    /// The token to log in with; minted from the local data folder when not given
    #[arg(long, global = true, help_heading = EVERYWHERE, env = "PILOTHOUSE_TOKEN", hide_env_values = true, value_name = "JWT")]
    pub token: Option<String>,
    /// A file that holds the token; read again whenever one is needed
    #[arg(long, global = true, help_heading = EVERYWHERE, env = "PILOTHOUSE_TOKEN_FILE", value_name = "FILE", conflicts_with = "token")]
    pub token_file: Option<PathBuf>,
    /// The data folder of the server on this machine [default: ~/.pilothouse]
    #[arg(long, global = true, help_heading = EVERYWHERE, env = "PILOTHOUSE_DATA", value_name = "FOLDER")]
    pub data: Option<PathBuf>,
    /// What infra/deploy wrote about a deployment [default: target/deploy/pilothouse.json, here or above]
    #[arg(long, global = true, help_heading = CLOUD, env = "PILOTHOUSE_DEPLOYMENT", value_name = "FILE")]
    pub deployment: Option<PathBuf>,
    /// The WebSocket API of a deployment
    #[arg(long, global = true, help_heading = CLOUD, env = "PILOTHOUSE_WS_URL", value_name = "URL")]
    pub ws_url: Option<String>,
    /// The issuer that tokens are minted for
    #[arg(long, global = true, help_heading = CLOUD, env = "PILOTHOUSE_ISSUER", value_name = "URL")]
    pub issuer: Option<String>,
    /// Whom minted tokens are for [default: pilothouse]
    #[arg(long, global = true, help_heading = CLOUD, env = "PILOTHOUSE_AUDIENCE", value_name = "NAME")]
    pub audience: Option<String>,
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
#[allow(clippy::large_enum_variant)] // there is one of it, once
pub enum Command {
    Up(up::Up),
    Worker(worker::Worker),
    Demo(demo::Demo),
    Token(token::Token),
    #[command(subcommand)]
    Keys(keys::Keys),

    Run(run::Run),
    #[command(visible_alias = "ls")]
    Ps(ps::Ps),
    Show(show::Show),
    Watch(watch::Watch),
    Logs(records::Logs),
    Messages(records::Messages),
    Tools(records::Tools),
    Tasks(telling::Tasks),
    Deliverables(deliverables::Deliverables),
    Notifications(telling::Notifications),
    Replay(telling::Replay),
    Export(telling::Export),

    Steer(steer::Steer),
    #[command(subcommand)]
    Queue(queue::Queue),
    Model(adjust::Model),
    Thinking(adjust::Thinking),
    Compact(adjust::Compact),
    Fork(adjust::Fork),
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
    Chain(chain::Chain),
    #[command(subcommand)]
    Budget(budget::Budget),
    #[command(subcommand)]
    Pool(pool::Pool),
    #[command(subcommand)]
    Template(template::Template),
    #[command(subcommand)]
    Skill(skill::Skill),
    #[command(subcommand)]
    DeadLetters(dead_letters::DeadLetters),

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
        assert_eq!((before.globals.json, before.globals.url.as_deref()), (true, Some("http://x")));
        assert_eq!((after.globals.json, after.globals.url.as_deref()), (true, Some("http://x")));
    }

    #[test]
    fn every_command_of_the_manual_is_understood() {
        for line in [
            "up --listen 127.0.0.1:0 --data /tmp/x",
            "worker --id mini --label gpu=a100 --label os=mac --capacity 2 --shared --ephemeral",
            "demo",
            "token --owner ada --ttl 30d",
            "keys jwks",
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
            "tasks @last",
            "deliverables @last --criteria",
            "model @last",
            "model @last large --no-wait",
            "model @last --next",
            "model --last --previous",
            "thinking @last high",
            "compact @last --instructions keep-the-plan",
            "fork @last --before-turn turn-1-2",
            "run objective --adapter native --model m --thinking high --option mode=fast --option depth=3",
            "run objective --criteria tests=make --criteria coverage:80=cov --max-continuations 3",
            "run objective --require-deliverables --validation-timeout 10m --idle-timeout 5m --paused-timeout never",
            "notifications --unread --limit 5",
            "notifications --read",
            "replay @last --from 7 --run 2 --limit 10",
            "export @last --out session.json",
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
            "chain list --status Active",
            "chain show 0197b1c0",
            "chain complete 0197b1c0",
            "chain cancel 0197b1c0",
            "run objective --chain 0197b1c0 --context-policy compact",
            "budget show @last",
            "budget set @last 10 --warn-at 90",
            "pool show",
            "pool set 4",
            "run objective --template triage",
            "template ls --active",
            "template show triage",
            "template create --file t.json --name n --model m --allow Read --allow Bash --skill s --budget 2",
            "template schedule triage @daily objective --zone Europe/Berlin --dir . --off",
            "template unschedule triage",
            "template activate triage",
            "template deactivate triage",
            "template start triage objective --dir . --budget 1 --detach",
            "skill list --inactive",
            "skill show testing",
            "skill create testing -d HowWeTest -i TestFirst",
            "skill edit testing --name tests --file -",
            "skill activate testing",
            "skill deactivate testing",
            "skill pills testing --status Active",
            "skill dismiss testing 0197b1c0-1111-7000-8000-00000000aaaa",
            "skill consolidate testing --dir . --budget 1 --adapter claude",
            "skill enable @last testing --no-reload",
            "skill disable @last testing",
            "completions bash",
            "--profile aws --url https://x/y --ws-url wss://x/live --token-file t ps",
            "ps --profile aws --deployment d.json --issuer https://i --audience a",
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
            "run objective --criteria style=x",
            "run objective --thinking hard",
            "run objective --option nothing",
            "model @last large --next",
            "fork @last",
            "skill pills testing --status Old",
            "skill create testing",
            "answers",
            "ps --profile azure",
            "ps --token t --token-file f",
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
