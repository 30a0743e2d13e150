use std::path::Path;
use std::time::Instant;

use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::*;

fn environment() -> Environment {
    Environment::of_this_process(&[])
}

fn config(dir: &Path) -> BashConfig {
    BashConfig::new(dir, environment(), dir.join("outputs"))
}

async fn run(config: BashConfig, command: &str, timeout: Option<Duration>) -> BashOutcome {
    let (progress, _) = mpsc::unbounded_channel();
    BashRunner::new(config).run(command, timeout, &CancellationToken::new(), &progress).await.unwrap()
}

/// False for a zombie.
fn runs(pid: i32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit(") ").next().is_some_and(|rest| !rest.is_empty() && !rest.starts_with(['Z', 'X']))
}

async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while !holds() {
        assert!(Instant::now() < deadline, "it never came: {what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Waits for `count` process ids, one per line.
async fn pids(file: &Path, count: usize) -> Vec<i32> {
    let read = || -> Vec<i32> {
        let text = std::fs::read_to_string(file).unwrap_or_default();
        text.split_inclusive('\n')
            .filter(|line| line.ends_with('\n'))
            .map(|line| line.trim().parse().unwrap())
            .collect()
    };
    until("the processes have started", || read().len() >= count).await;
    read()
}

/// A command with children and grandchildren that run for minutes, some of which ignore SIGTERM.
const FAMILY: &str = r#"
echo $$ >>pids
sleep 600 & echo $! >>pids
(trap '' TERM INT HUP; sh -c 'echo $$ >>pids; trap "" TERM; sleep 600; :' & sleep 600) &
echo $! >>pids
echo started
wait
"#;

#[tokio::test]
async fn command_returns_its_output_in_order_and_its_exit_code() {
    let dir = tempfile::tempdir().unwrap();
    let outcome = run(config(dir.path()), "echo out; echo err >&2; echo more; pwd; exit 3", None).await;
    let here = dir.path().canonicalize().unwrap();
    assert_eq!(outcome.output, format!("out\nerr\nmore\n{}", here.display()));
    assert_eq!((outcome.end, outcome.truncated, outcome.lines), (BashEnd::Exited(3), false, 4));
    assert!(outcome.text().ends_with("The command exited with code 3.") && outcome.is_error());

    let silent = run(config(dir.path()), "read -r line; test -z \"$line\"", None).await;
    assert_eq!(silent.text(), "(no output)", "there is no input, and it waits for none");
    let killed = run(config(dir.path()), "kill -9 $$", None).await;
    assert_eq!(killed.end, BashEnd::Signalled(9));
}

#[tokio::test]
async fn the_prefix_comes_before_the_command() {
    let dir = tempfile::tempdir().unwrap();
    let prefix = Some("shopt -s expand_aliases\nalias greet='echo hello'".to_owned());
    let outcome = run(BashConfig { prefix, ..config(dir.path()) }, "greet you", None).await;
    assert_eq!(outcome.output, "hello you");
}

#[tokio::test]
async fn commands_see_only_the_chosen_environment() {
    let dir = tempfile::tempdir().unwrap();
    let all = [("PATH", "/usr/bin:/bin"), ("MODEL_API_KEY", "secret"), ("OTHER", "x")];
    let chosen = Environment::chosen(all.map(|(name, value)| (name.into(), value.into())), &["OTHER".into()]);
    let outcome = run(BashConfig { environment: chosen, ..config(dir.path()) }, "env", None).await;
    let names = outcome.output.lines().filter_map(|line| line.split('=').next());
    let mut names: Vec<_> = names.filter(|name| !["PWD", "SHLVL", "_", "OLDPWD"].contains(name)).collect();
    names.sort_unstable();
    assert_eq!(names, ["OTHER", "PATH"]);
}

#[tokio::test]
async fn long_output_is_shown_from_its_end_and_kept_whole() {
    let dir = tempfile::tempdir().unwrap();
    let outcome = run(config(dir.path()), "seq 1 50000", None).await;
    assert!(outcome.truncated && outcome.output.ends_with("\n50000"));
    assert_eq!(outcome.output.lines().count(), MAX_LINES);
    assert_eq!(outcome.lines, 50000);
    let whole = outcome.whole.clone().unwrap();
    let expected: Vec<_> = (1..=50000).map(|number| format!("{number}\n")).collect();
    assert_eq!(std::fs::read_to_string(&whole).unwrap(), expected.concat());
    assert!(outcome.text().contains(&whole.display().to_string()));

    let one_line = run(config(dir.path()), "head -c 300000 /dev/zero | tr '\\0' x", None).await;
    assert!(one_line.truncated && one_line.output.len() == MAX_BYTES);
    let limited = BashConfig { max_kept: 1000, output_dir: dir.path().join("limited"), ..config(dir.path()) };
    let limited = run(limited, "seq 1 100000", None).await;
    assert!(std::fs::metadata(limited.whole.unwrap()).unwrap().len() <= 200_000);
}

#[tokio::test]
async fn output_is_reported_while_it_arrives() {
    let dir = tempfile::tempdir().unwrap();
    let (progress, mut pieces) = mpsc::unbounded_channel();
    let runner = BashRunner::new(config(dir.path()));
    let cancelled = CancellationToken::new();
    let command = "printf 'zw\\303'; printf '\\266lf\\n'; while [ ! -e go ]; do sleep 0.01; done; echo end";
    let running = runner.run(command, None, &cancelled, &progress);
    let listening = async {
        let mut heard = String::new();
        while !heard.contains("zwölf\n") {
            heard += &pieces.recv().await.unwrap();
        }
        std::fs::write(dir.path().join("go"), "").unwrap();
        while !heard.contains("end") {
            heard += &pieces.recv().await.unwrap();
        }
        heard
    };
    let (outcome, heard) = tokio::join!(running, listening);
    assert_eq!((outcome.unwrap().output.as_str(), heard.as_str()), ("zwölf\nend", "zwölf\nend\n"));
}

#[tokio::test]
async fn flood_of_output_does_not_fill_the_memory_of_the_reader() {
    let dir = tempfile::tempdir().unwrap();
    let (progress, mut pieces) = mpsc::unbounded_channel();
    let runner = BashRunner::new(config(dir.path()));
    let command = "head -c 30000000 /dev/zero | tr '\\0' 'x'";
    runner.run(command, None, &CancellationToken::new(), &progress).await.unwrap();
    drop(progress);
    let mut heard = 0;
    while let Some(piece) = pieces.recv().await {
        heard += piece.len();
    }
    assert!(heard < 10_000_000, "{heard} bytes were told");
}

#[tokio::test]
async fn timed_out_command_ends_with_all_descendants() {
    let dir = tempfile::tempdir().unwrap();
    // Long enough to start all processes.
    let outcome = run(config(dir.path()), FAMILY, Some(Duration::from_secs(2))).await;
    assert_eq!(outcome.end, BashEnd::TimedOut(Duration::from_secs(2)));
    assert_eq!(outcome.output, "started");
    for pid in pids(&dir.path().join("pids"), 4).await {
        until("it is dead", || !runs(pid)).await;
    }
}

#[tokio::test]
async fn aborted_command_ends_with_all_descendants() {
    let dir = tempfile::tempdir().unwrap();
    let (progress, _) = mpsc::unbounded_channel();
    let runner = BashRunner::new(config(dir.path()));
    let cancelled = CancellationToken::new();
    let cutting = async {
        let pids = pids(&dir.path().join("pids"), 4).await;
        assert!(pids.iter().all(|pid| runs(*pid)));
        cancelled.cancel();
        (pids, Instant::now())
    };
    let (outcome, (pids, at)) = tokio::join!(runner.run(FAMILY, None, &cancelled, &progress), cutting);
    assert_eq!(outcome.unwrap().end, BashEnd::Cancelled);
    assert!(at.elapsed() < Duration::from_secs(10), "it returns soon");
    for pid in pids {
        until("it is dead", || !runs(pid)).await;
    }
}

#[tokio::test]
async fn dropped_call_leaves_no_process() {
    let dir = tempfile::tempdir().unwrap();
    let (progress, _) = mpsc::unbounded_channel();
    let runner = BashRunner::new(config(dir.path()));
    let cancelled = CancellationToken::new();
    let pids = {
        let file = dir.path().join("pids");
        tokio::select! {
            _ = runner.run(FAMILY, None, &cancelled, &progress) => panic!("it runs for minutes"),
            pids = pids(&file, 4) => pids,
        }
    };
    for pid in pids {
        until("it is dead", || !runs(pid)).await;
    }
}

#[tokio::test]
async fn background_processes_end_with_their_command() {
    let dir = tempfile::tempdir().unwrap();
    let started = Instant::now();
    let outcome = run(config(dir.path()), "sleep 600 & echo $! >pids; echo done", None).await;
    assert_eq!((outcome.output.as_str(), outcome.end), ("done", BashEnd::Exited(0)));
    assert!(started.elapsed() < Duration::from_secs(10), "the open pipe is not waited for");
    for pid in pids(&dir.path().join("pids"), 1).await {
        until("it is dead", || !runs(pid)).await;
    }
}

#[test]
fn prefixes_decide_whether_the_model_sees_a_command() {
    let parsed =
        |text| UserCommand::parse(text).map(|command| (command.command, command.exclude_from_context));
    assert_eq!(parsed("!ls -l"), Some(("ls -l".into(), false)));
    assert_eq!(parsed(" !! git log \n"), Some(("git log".into(), true)));
    assert_eq!(parsed("!!!x"), Some(("!x".into(), true)));
    for text in ["ls", "!", "!!", " ! ", "", "/bash"] {
        assert_eq!(parsed(text), None, "{text}");
    }
}

mod background {
    use super::*;

    const NO_WAIT: Duration = Duration::ZERO;
    const PATIENCE: Duration = Duration::from_secs(20);

    async fn read_until(runner: &BashRunner, number: u32, text: &str) -> Reading {
        let mut all = String::new();
        loop {
            let reading =
                runner.background().read(number, PATIENCE, &CancellationToken::new()).await.unwrap();
            all.push_str(&reading.output);
            if all.contains(text) {
                return Reading { output: all, ..reading };
            }
            assert_eq!(reading.end, None, "{all}");
        }
    }

    #[tokio::test]
    async fn command_runs_beside_calls_and_its_output_is_read_once() {
        let dir = tempfile::tempdir().unwrap();
        let runner = BashRunner::new(config(dir.path()));
        let command = "echo ready; until [ -e go ]; do sleep 0.02; done; echo done; exit 3";
        let number = runner.background().start(runner.config(), command, None).await.unwrap();
        let first = read_until(&runner, number, "ready").await;
        assert!(first.text().ends_with("The command is running."), "{}", first.text());
        let nothing = runner.background().read(number, NO_WAIT, &CancellationToken::new()).await.unwrap();
        assert_eq!((nothing.output.as_str(), &nothing.end), ("", &None));
        std::fs::write(dir.path().join("go"), "").unwrap();
        let last = read_until(&runner, number, "done").await;
        let last = match last.end {
            Some(_) => last,
            None => runner.background().read(number, PATIENCE, &CancellationToken::new()).await.unwrap(),
        };
        assert_eq!(last.end, Some(Ok(BashEnd::Exited(3))));
        assert!(last.is_error());
        let unknown = runner.background().read(number, NO_WAIT, &CancellationToken::new()).await;
        assert_eq!(unknown, Err(UnknownCommand(number)));
    }

    #[tokio::test]
    async fn stop_ends_a_command_with_its_descendants() {
        let dir = tempfile::tempdir().unwrap();
        let runner = BashRunner::new(config(dir.path()));
        let first = runner.background().start(runner.config(), FAMILY, None).await.unwrap();
        let family = pids(&dir.path().join("pids"), 4).await;
        let stopped = runner.background().stop(first).await.unwrap();
        assert_eq!(stopped.end, Some(Ok(BashEnd::Cancelled)));
        assert!(!stopped.is_error());
        until("all have ended", || family.iter().all(|pid| !runs(*pid))).await;
        let second =
            runner.background().start(runner.config(), "echo $$ >others; sleep 600", None).await.unwrap();
        assert_ne!(second, first);
        let others = pids(&dir.path().join("others"), 1).await;
        runner.background().stop_all().await;
        assert!(others.iter().all(|pid| !runs(*pid)));
    }

    #[tokio::test]
    async fn paused_commands_do_nothing_until_they_are_resumed() {
        let dir = tempfile::tempdir().unwrap();
        let runner = BashRunner::new(config(dir.path()));
        let command = "echo $$ >pids; until [ -e go ]; do sleep 0.02; done; echo went";
        let number = runner.background().start(runner.config(), command, None).await.unwrap();
        let process = pids(&dir.path().join("pids"), 1).await[0];
        assert!(runner.background().pause().await);
        let state = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap();
        assert!(state.rsplit(") ").next().unwrap().starts_with('T'), "{state}");
        std::fs::write(dir.path().join("go"), "").unwrap();
        runner.background().resume();
        read_until(&runner, number, "went").await;
        assert!(runner.background().pause().await, "nothing runs any more");
    }

    #[tokio::test]
    async fn paused_command_can_be_stopped() {
        let dir = tempfile::tempdir().unwrap();
        let runner = BashRunner::new(config(dir.path()));
        let number =
            runner.background().start(runner.config(), "echo $$ >pids; sleep 600", None).await.unwrap();
        let processes = pids(&dir.path().join("pids"), 1).await;
        assert!(runner.background().pause().await);
        assert_eq!(runner.background().stop(number).await.unwrap().end, Some(Ok(BashEnd::Cancelled)));
        assert!(processes.iter().all(|pid| !runs(*pid)));
    }

    #[tokio::test]
    async fn at_most_eight_commands_run_at_once() {
        let dir = tempfile::tempdir().unwrap();
        let runner = BashRunner::new(config(dir.path()));
        for _ in 0..8 {
            runner.background().start(runner.config(), "sleep 600", None).await.unwrap();
        }
        let refused = runner.background().start(runner.config(), "sleep 600", None).await.unwrap_err();
        assert!(refused.contains("stop one first"), "{refused}");
        runner.background().stop(1).await.unwrap();
        runner.background().start(runner.config(), "sleep 600", None).await.unwrap();
        runner.background().stop_all().await;
    }

    #[tokio::test]
    async fn of_a_long_output_the_end_is_kept_until_it_is_read() {
        let dir = tempfile::tempdir().unwrap();
        let runner = BashRunner::new(config(dir.path()));
        let command = "for at in $(seq 1 40000); do echo line $at; done; touch written; sleep 600";
        let number = runner.background().start(runner.config(), command, None).await.unwrap();
        until("all is written", || dir.path().join("written").exists()).await;
        let reading = read_until(&runner, number, "line 40000").await;
        assert!(reading.text().starts_with("[Earlier output was left out.]"), "{}", reading.text());
        assert!(reading.output.len() <= 3 * crate::output_text::MAX_BYTES);
        runner.background().stop_all().await;
    }

    #[tokio::test]
    async fn output_of_one_moment_is_complete() {
        let dir = tempfile::tempdir().unwrap();
        let runner = BashRunner::new(config(dir.path()));
        let number = runner.background().start(runner.config(), "seq 1 8000; sleep 600", None).await.unwrap();
        let reading = read_until(&runner, number, "\n8000\n").await;
        assert!(reading.output.starts_with("1\n2\n") && !reading.is_cut, "{} bytes", reading.output.len());
        runner.background().stop_all().await;
    }

    #[tokio::test]
    async fn unfinished_line_waits_for_its_rest_or_the_end() {
        let dir = tempfile::tempdir().unwrap();
        let runner = BashRunner::new(config(dir.path()));
        let command =
            "echo whole; printf half; touch printed; until [ -e go ]; do sleep 0.02; done; printf -- '-done'";
        let number = runner.background().start(runner.config(), command, None).await.unwrap();
        until("it is printed", || dir.path().join("printed").exists()).await;
        assert_eq!(read_until(&runner, number, "whole").await.output, "whole\n");
        std::fs::write(dir.path().join("go"), "").unwrap();
        let last = read_until(&runner, number, "half-done").await;
        assert_eq!((last.output.as_str(), last.end), ("half-done", Some(Ok(BashEnd::Exited(0)))));
    }
}
