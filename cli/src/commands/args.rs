//! The command line.

use clap::{Parser, Subcommand};

use super::{
    adjust, agent, answer, artifacts, brake, briefing, budget, chain, coherence, completions, conversation,
    dead_letters, deliverables, demo, events, inbox, keys, knowledge, lifecycle, logins, open, plan, pool,
    project, ps, queue, records, review, run, search, shim, show, skill, steer, template, tick, token, trust,
    up, watch, worker, workers,
};
use crate::globals::Globals;

/// Start AI agents on real work and stay in command of them.
#[derive(Debug, Parser)]
#[command(name = "pilothouse", version, arg_required_else_help = true, after_help = FIRST_STEPS)]
pub struct Cli {
    #[command(flatten)]
    pub globals: Globals,
    #[command(subcommand)]
    pub command: Command,
}

const FIRST_STEPS: &str = "\
First steps:
  pilothouse demo                        a tour in less than a minute; needs no set-up
  pilothouse up                          start the server on this machine
  pilothouse run \"Make the tests pass\"   start a session here and watch it
  pilothouse ps                          list sessions
  pilothouse steer @last \"Not that file\" send a message to the agent while it works

Name a session by its id, by at least 4 characters of an unambiguous beginning or end of the id, or as @last.

Exit codes: 0 done, 1 failed or refused, 2 wrong usage, 3 not found, 4 server not reachable or token not accepted,
5 the watched session ended as Failed or Cancelled, 130 a watch was stopped with Ctrl-C.";

#[derive(Debug, Subcommand)]
#[allow(clippy::large_enum_variant)] // a program has one value of it
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
    Search(search::Search),
    Show(show::Show),
    Watch(watch::Watch),
    Open(open::Open),
    #[command(subcommand)]
    Logins(logins::Logins),
    Logs(records::Logs),
    Messages(records::Messages),
    Tools(records::Tools),
    Tasks(events::Tasks),
    Deliverables(deliverables::Deliverables),
    Notifications(events::Notifications),
    Replay(events::Replay),
    Export(events::Export),

    #[command(visible_alias = "send")]
    Steer(steer::Steer),
    #[command(subcommand)]
    Queue(queue::Queue),
    Model(adjust::Model),
    Thinking(adjust::Thinking),
    Compact(adjust::Compact),
    Fork(adjust::Fork),
    #[command(subcommand)]
    Conversation(conversation::Conversation),
    Interrupt(lifecycle::Interrupt),
    Pause(lifecycle::Pause),
    Resume(lifecycle::Resume),
    Cancel(lifecycle::Cancel),
    Brake(brake::Brake),
    Inbox(inbox::Inbox),
    Resolve(inbox::Resolve),
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
    Workers(workers::Workers),
    #[command(subcommand)]
    Template(template::Template),
    #[command(subcommand)]
    Skill(skill::Skill),
    #[command(subcommand)]
    Project(project::Project),
    Briefing(briefing::ShowBriefing),
    #[command(subcommand)]
    Agent(agent::Agent),
    #[command(subcommand)]
    Artifacts(artifacts::Artifacts),
    #[command(subcommand)]
    Knowledge(knowledge::Knowledge),
    #[command(subcommand)]
    Coherence(coherence::Coherence),
    #[command(subcommand)]
    Trust(trust::Trust),
    Tick(tick::Tick),
    #[command(subcommand)]
    Shim(shim::Shim),
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
    fn commands_that_list_have_both_names() {
        let cli = Cli::command();
        let lists =
            cli.get_subcommands().flat_map(|group| group.get_subcommands().map(move |list| (group, list)));
        let mut counted = 0;
        for (group, list) in lists {
            let mut names: Vec<_> = list.get_visible_aliases().chain([list.get_name()]).collect();
            if names.contains(&"list") || names.contains(&"ls") {
                names.sort_unstable();
                assert_eq!(names, ["list", "ls"], "{}", group.get_name());
                counted += 1;
            }
        }
        assert!(counted > 10);
    }

    #[test]
    fn brake_stops_a_project_a_workstream_or_an_agent() {
        for scope in ["--project Shop", "--project Shop --workstream api", "--agent Builder --project Shop"] {
            let line = format!("brake {scope} --reason wrong");
            assert!(parse(&line.split(' ').collect::<Vec<_>>()).is_ok(), "{line}");
        }
        assert!(parse(&["brake", "--all", "--project", "Shop", "--reason", "wrong"]).is_err());
        assert!(parse(&["brake", "--reason", "wrong"]).is_err(), "something has to be named");
    }

    /// An option of a command that has the name of a global one would take its place, and fail when the global one is read.
    #[test]
    fn no_option_of_a_command_hides_a_global_one() {
        fn check(command: &clap::Command, globals: &[(String, Option<String>)]) {
            for argument in command.get_arguments() {
                let (id, long) = (argument.get_id().to_string(), argument.get_long());
                for (global, global_long) in globals {
                    let hides = id == *global || (long.is_some() && long == global_long.as_deref());
                    assert!(!hides, "`{}` hides the global option `{global}`", command.get_name());
                }
            }
            command.get_subcommands().for_each(|inner| check(inner, globals));
        }
        let cli = Cli::command();
        let globals = cli.get_arguments().filter(|argument| argument.is_global_set());
        let globals: Vec<_> =
            globals.map(|it| (it.get_id().to_string(), it.get_long().map(str::to_owned))).collect();
        assert!(globals.iter().any(|(id, _)| id == "profile"));
        cli.get_subcommands().for_each(|command| check(command, &globals));
    }

    #[test]
    fn global_options_are_accepted_in_any_position() {
        let before = parse(&["--json", "--url", "http://x", "ps"]).unwrap();
        let after = parse(&["ps", "--json", "--url", "http://x"]).unwrap();
        assert_eq!((before.globals.json, before.globals.url.as_deref()), (true, Some("http://x")));
        assert_eq!((after.globals.json, after.globals.url.as_deref()), (true, Some("http://x")));
    }

    #[test]
    fn every_command_of_the_manual_parses() {
        for line in [
            "up --listen 127.0.0.1:0 --data /tmp/x",
            "worker --id mini --label gpu=a100 --label os=mac --capacity 2 --shared --ephemeral",
            "workers list",
            "workers remove mini --lost",
            "demo",
            "token --owner ada --ttl 30d",
            "open @last --print",
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
            "brake --all --reason wrong --kill --no-wait",
            "brake @last --reason wrong --release-after 10m",
            "brake status",
            "brake status 0197b1c0",
            "brake release 0197b1c0 --session @last",
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
            let parsed = parse(&line.split(' ').collect::<Vec<_>>());
            assert!(parsed.is_ok(), "{line}: {:?}", parsed.err());
        }
    }

    #[test]
    fn images_conversations_and_searches_are_accepted() {
        for line in [
            "search tea kettle",
            "search --session @last --limit 5 --cursor j7 tea kettle",
            "conversation list @last",
            "conversation new --last --no-wait",
            "conversation switch @last 0197b1c0",
            "conversation switch @last --turn turn-1-2",
            "conversation label @last before the rewrite",
            "conversation label @last --turn turn-1-2 --remove",
            "run objective --image a.png --image b.jpg",
            "send @last look --image a.png",
            "queue add @last then this --image a.png",
        ] {
            let parsed = parse(&line.split(' ').collect::<Vec<_>>());
            assert!(parsed.is_ok(), "{line}: {:?}", parsed.err());
        }
    }

    #[test]
    fn invalid_command_lines_are_refused() {
        for line in [
            "search --limit 5 tea",
            "search --session @last",
            "show",
            "ps --status Sleeping",
            "run objective --budget free",
            "run objective --label nothing",
            "run objective --script a --recording b",
            "token --ttl soon",
            "token --ttl 9223372036854775808s",
            "resume @last --timeout 9223372036854775808",
            "resume @last --timeout -1",
            "compact @last --timeout 9223372036854775808",
            "watch @last --until doomsday",
            "pool set 0",
            "run objective --criteria style=x",
            "run objective --thinking hard",
            "run objective --option nothing",
            "model @last large --next",
            "fork @last",
            "conversation switch @last 0197b1c0 --turn turn-1-2",
            "conversation label @last a --remove",
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
    fn the_session_argument_defaults_to_the_last_session() {
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
