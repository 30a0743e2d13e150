//! All descendants of an agent's programs end with the program and with the agent, even outside their process group and
//! session.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use pilothouse_agent::bash::{BashConfig, BashEnd, BashOutcome, BashRunner};
use pilothouse_agent::extension::external::{External, ExternalConfig, Notify};
use pilothouse_agent::mcp::{DeclineAll, Elicit, McpServerConfig, McpServers, McpTransport};
use pilothouse_agent::process::lease::{LeaseFile, boot_time};
use pilothouse_agent::process::{Ending, Guard, Program};
use pilothouse_agent::workspace::Environment;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// Starts two processes that ignore SIGTERM and write their ids to `pids`: one in a new session, and one that has
/// also lost its parent.
const ESCAPES: &str = r#"
escaped='echo $$ >>pids; trap "" TERM HUP INT; while :; do sleep 600; done'
setsid sh -c "$escaped" </dev/null >/dev/null 2>&1 &
(setsid sh -c "$escaped" </dev/null >/dev/null 2>&1 &)
while [ "$(cat pids 2>/dev/null | wc -l)" -lt 2 ]; do sleep 0.01; done
"#;

fn guard() -> Guard {
    Guard::at(env!("CARGO_BIN_EXE_pilothouse-guard").into())
}

fn runner(dir: &Path) -> BashRunner {
    let config = BashConfig::new(dir, Environment::of_this_process(&[]), dir.join("outputs"));
    BashRunner::new(BashConfig { guard: guard(), ..config })
}

async fn run(dir: &Path, command: &str, timeout: Option<Duration>) -> BashOutcome {
    let (progress, _) = mpsc::unbounded_channel();
    runner(dir).run(command, timeout, &CancellationToken::new(), &progress).await.unwrap()
}

fn program(dir: &Path, program: &str, script: &str) -> Program {
    let program = Program::new(program, dir, Environment::of_this_process(&[]));
    program.args(["-c", script]).guarded_by(&guard())
}

/// False for a zombie.
fn runs(pid: i32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit(") ").next().is_some_and(|rest| !rest.is_empty() && !rest.starts_with(['Z', 'X']))
}

async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(30);
    while !holds() {
        assert!(Instant::now() < deadline, "it never came: {what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

fn written(dir: &Path) -> Vec<i32> {
    let text = std::fs::read_to_string(dir.join("pids")).unwrap_or_default();
    text.split_inclusive('\n').filter_map(|line| line.strip_suffix('\n')?.parse().ok()).collect()
}

/// The escaped processes, once both are running.
async fn escaped(dir: &Path) -> Vec<i32> {
    until("both have escaped", || written(dir).len() >= 2).await;
    written(dir)
}

async fn gone(pids: Vec<i32>) {
    assert_eq!(pids.len(), 2);
    for pid in pids {
        until("it is dead", || !runs(pid)).await;
    }
}

#[tokio::test]
async fn escaped_processes_end_when_their_command_ends() {
    let dir = tempfile::tempdir().unwrap();
    let outcome = run(dir.path(), &format!("{ESCAPES} echo done; exit 3"), None).await;
    assert_eq!((outcome.output.as_str(), outcome.end), ("done", BashEnd::Exited(3)));
    let left: Vec<_> = escaped(dir.path()).await.into_iter().filter(|pid| runs(*pid)).collect();
    assert!(left.is_empty(), "{left:?} run on after the call");
}

#[tokio::test]
async fn escaped_processes_end_with_a_timed_out_command() {
    let dir = tempfile::tempdir().unwrap();
    // Long enough to start all processes.
    let limit = Duration::from_secs(3);
    let outcome = run(dir.path(), &format!("{ESCAPES} echo on; sleep 600"), Some(limit)).await;
    assert_eq!((outcome.output.as_str(), outcome.end), ("on", BashEnd::TimedOut(limit)));
    let left: Vec<_> = escaped(dir.path()).await.into_iter().filter(|pid| runs(*pid)).collect();
    assert!(left.is_empty(), "{left:?} run on after the call");
}

#[tokio::test]
async fn escaped_processes_end_with_an_aborted_or_dropped_command() {
    for dropped in [false, true] {
        let dir = tempfile::tempdir().unwrap();
        let (progress, _) = mpsc::unbounded_channel();
        let (runner, cancelled) = (runner(dir.path()), CancellationToken::new());
        let command = format!("{ESCAPES} sleep 600");
        let running = runner.run(&command, None, &cancelled, &progress);
        let pids = if dropped {
            tokio::select! {
                _ = running => panic!("it runs for minutes"),
                pids = escaped(dir.path()) => pids,
            }
        } else {
            let cutting = async {
                let pids = escaped(dir.path()).await;
                assert!(pids.iter().all(|pid| runs(*pid)));
                cancelled.cancel();
                pids
            };
            let (outcome, pids) = tokio::join!(running, cutting);
            assert_eq!(outcome.unwrap().end, BashEnd::Cancelled);
            assert!(!pids.iter().any(|pid| runs(*pid)), "a process continues after the call");
            pids
        };
        gone(pids).await;
    }
}

/// Each process starts the next one in a new session and exits, so that a listed process is gone when it is killed.
#[tokio::test]
async fn self_respawning_process_is_ended_too() {
    let dir = tempfile::tempdir().unwrap();
    // The relay also ends when its folder is deleted.
    let relay = "[ -e relay.sh ] || exit; echo $$ >>lives; setsid sh relay.sh </dev/null >/dev/null 2>&1 &";
    std::fs::write(dir.path().join("relay.sh"), relay).unwrap();
    let lives = || std::fs::read_to_string(dir.path().join("lives")).unwrap_or_default().lines().count();
    let command = "sh relay.sh; while [ \"$(cat lives 2>/dev/null | wc -l)\" -lt 10 ]; do :; done";
    let outcome = run(dir.path(), command, None).await;
    assert_eq!(outcome.end, BashEnd::Exited(0));
    let before = lives();
    // No further process appears during twenty commands.
    for _ in 0..20 {
        run(dir.path(), "true", None).await;
    }
    assert_eq!(lives(), before, "it goes on");
}

#[tokio::test]
async fn command_that_kills_its_guard_ends_itself() {
    let dir = tempfile::tempdir().unwrap();
    let outcome = run(dir.path(), &format!("{ESCAPES} kill $PPID; sleep 600"), None).await;
    assert_eq!(outcome.end, BashEnd::Signalled(9));
    gone(escaped(dir.path()).await).await;
}

#[tokio::test]
async fn signal_to_the_command_group_does_not_reach_its_guard() {
    let dir = tempfile::tempdir().unwrap();
    let outcome = run(dir.path(), &format!("{ESCAPES} kill -KILL 0"), None).await;
    assert_eq!(outcome.end, BashEnd::Signalled(9));
    gone(escaped(dir.path()).await).await;
}

#[tokio::test]
async fn stopped_guard_still_works() {
    let dir = tempfile::tempdir().unwrap();
    let command = format!("{ESCAPES} kill -STOP $PPID; touch stopped; sleep 600");
    let (progress, _) = mpsc::unbounded_channel();
    let (runner, cancelled) = (runner(dir.path()), CancellationToken::new());
    let cutting = async {
        until("the guard is stopped", || dir.path().join("stopped").exists()).await;
        cancelled.cancel();
    };
    let (outcome, ()) = tokio::join!(runner.run(&command, None, &cancelled, &progress), cutting);
    assert_eq!(outcome.unwrap().end, BashEnd::Cancelled);
    gone(escaped(dir.path()).await).await;
}

#[tokio::test]
async fn command_exit_and_subsequent_output_are_reported() {
    let dir = tempfile::tempdir().unwrap();
    for (command, end) in [
        ("exit 7", BashEnd::Exited(7)),
        ("exit 137", BashEnd::Exited(137)),
        ("kill -9 $$", BashEnd::Signalled(9)),
        ("kill -TERM $$", BashEnd::Signalled(15)),
        ("ulimit -c 0; kill -SEGV $$", BashEnd::Signalled(11)),
    ] {
        assert_eq!(run(dir.path(), command, None).await.end, end, "{command}");
    }
    let closely = run(dir.path(), "echo heard > >(sleep 0.05; cat)", None).await;
    assert_eq!(closely.output, "heard", "the shell does not wait for its reader");
    let piped = run(dir.path(), "yes | head -n 1", None).await;
    assert_eq!(piped.output, "y", "a closed pipe ends its writer");
    let silent = run(dir.path(), "read -r line; test -z \"$line\"", None).await;
    assert_eq!(silent.text(), "(no output)", "there is no input, and it waits for none");
}

/// A program gets default signal handling and its own input, whatever the guard does with its own.
#[tokio::test]
async fn guarded_program_has_normal_signals_and_streams() {
    let dir = tempfile::tempdir().unwrap();
    let look = "grep -E 'Sig(Blk|Ign)' /proc/self/status; ls /proc/self/fd";
    let guarded = run(dir.path(), look, None).await;
    let unguarded = BashConfig { guard: Guard::GroupAlone, ..runner(dir.path()).config().clone() };
    let (progress, _) = mpsc::unbounded_channel();
    let cancelled = CancellationToken::new();
    let alone = BashRunner::new(unguarded).run(look, None, &cancelled, &progress).await.unwrap();
    assert_eq!(guarded.output, alone.output);

    let mut echo = program(dir.path(), "sh", "read -r line; echo \"got $line\"; exec >&-; read -r never");
    echo.environment = Environment::of_this_process(&[]);
    let mut group =
        echo.start(Ending::default(), [Stdio::piped(), Stdio::piped(), Stdio::inherit()]).unwrap();
    let (mut input, output) = (group.stdin().unwrap(), group.stdout().unwrap());
    tokio::io::AsyncWriteExt::write_all(&mut input, b"a word\n").await.unwrap();
    let mut lines = BufReader::new(output).lines();
    assert_eq!(lines.next_line().await.unwrap().as_deref(), Some("got a word"));
    assert_eq!(lines.next_line().await.unwrap(), None, "it closed its output, and no other process holds it");
    drop(input);
    assert_eq!(group.wait().await.unwrap().code(), Some(1));
}

#[tokio::test]
async fn program_with_grace_may_exit_on_its_own_when_released() {
    let dir = tempfile::tempdir().unwrap();
    let script = format!("trap 'echo bye >bye; exit' TERM; {ESCAPES} echo on; while :; do sleep 0.01; done");
    let ending = Ending { grace: Duration::from_secs(30), ..Ending::default() };
    let streams = [Stdio::null(), Stdio::piped(), Stdio::inherit()];
    let mut group = program(dir.path(), "sh", &script).start(ending, streams).unwrap();
    let mut lines = BufReader::new(group.stdout().unwrap()).lines();
    assert_eq!(lines.next_line().await.unwrap().as_deref(), Some("on"));
    drop(group);
    until("it says good-bye", || dir.path().join("bye").exists()).await;
    gone(escaped(dir.path()).await).await;
}

#[tokio::test]
async fn paused_tool_processes_continue_and_can_end_while_paused() {
    let dir = tempfile::tempdir().unwrap();
    let script = format!("{ESCAPES} echo on; while :; do sleep 600; done");
    let streams = [Stdio::null(), Stdio::piped(), Stdio::inherit()];
    let mut group = program(dir.path(), "sh", &script).start(Ending::default(), streams).unwrap();
    let mut lines = BufReader::new(group.stdout().unwrap()).lines();
    assert_eq!(lines.next_line().await.unwrap().as_deref(), Some("on"));
    let pids = escaped(dir.path()).await;
    let state = |pid: i32| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
        stat.rsplit(") ").next().unwrap().chars().next().unwrap()
    };
    let handle = group.handle();
    handle.pause();
    for pid in &pids {
        until("it is stopped", || state(*pid) == 'T').await;
    }
    handle.resume();
    for pid in &pids {
        until("it goes on", || state(*pid) != 'T').await;
    }
    handle.pause();
    handle.kill();
    group.wait().await.unwrap();
    assert!(handle.has_ended() && !pids.iter().any(|pid| runs(*pid)), "nothing is left");
}

const FOLDER: &str = "PILOTHOUSE_TEST_GUARD_FOLDER";
const USER: &str = "PILOTHOUSE_TEST_GUARD_USER";

/// A minimal MCP server and extension that start escaping processes.
const SERVER: &str = r#"
import json, subprocess, sys
subprocess.run(["sh", "-c", sys.argv[1]])
for line in sys.stdin:
    message = json.loads(line)
    if message.get("type") == "hello":
        print(json.dumps({"type": "hello", "protocol": 1, "subscribe": []}), flush=True)
    if message.get("method") == "initialize":
        result = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": {"name": "s", "version": "1"}}
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)
    if message.get("method") == "tools/list":
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": {"tools": []}}), flush=True)
"#;

fn server(dir: &Path) -> Program {
    program(dir, "python3", SERVER).args([ESCAPES])
}

async fn connect(dir: &Path) -> McpServers {
    let config = McpServerConfig::new("test", McpTransport::Stdio(Box::new(server(dir))));
    let elicit: Arc<dyn Elicit> = Arc::new(DeclineAll);
    let notify: Notify = Arc::new(|notice| eprintln!("{notice}"));
    McpServers::connect(vec![config], &elicit, &notify).await
}

async fn extend(dir: &Path) -> External {
    External::start(ExternalConfig::new("test", server(dir)), Arc::new(|_| {})).await.unwrap()
}

/// The agent that the next test kills. That test starts this one as a process.
#[tokio::test]
async fn host() {
    let (Some(folder), Ok(user)) = (std::env::var_os(FOLDER).map(PathBuf::from), std::env::var(USER)) else {
        return;
    };
    let _kept: (Option<McpServers>, Option<External>) = match user.as_str() {
        "bash" => {
            run(&folder, &format!("{ESCAPES} sleep 600"), None).await;
            (None, None)
        }
        "mcp" => (Some(connect(&folder).await), None),
        "extension" => (None, Some(extend(&folder).await)),
        other => panic!("{other} uses no guard"),
    };
    std::future::pending::<()>().await;
}

#[tokio::test]
async fn agent_processes_end_when_the_agent_is_killed() {
    for user in ["bash", "mcp", "extension"] {
        let dir = tempfile::tempdir().unwrap();
        let mut host = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "guard::host", "--nocapture"])
            .env(FOLDER, dir.path())
            .env(USER, user)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let pids = escaped(dir.path()).await;
        assert!(pids.iter().all(|pid| runs(*pid)), "{user}");
        host.kill().unwrap();
        host.wait().unwrap();
        gone(pids).await;
    }
}

#[tokio::test]
async fn server_and_extension_processes_end_with_their_parent() {
    let dir = tempfile::tempdir().unwrap();
    let servers = connect(dir.path()).await;
    let pids = escaped(dir.path()).await;
    servers.close().await;
    drop(servers);
    gone(pids).await;

    let dir = tempfile::tempdir().unwrap();
    let extension = extend(dir.path()).await;
    let pids = escaped(dir.path()).await;
    drop(extension);
    gone(pids).await;
}

fn leased(dir: &Path, length: Duration) -> (Guard, LeaseFile) {
    let path = dir.join("lease");
    let lease = LeaseFile::create(&path, boot_time() + length).unwrap();
    (guard().leased(Some(path)), lease)
}

/// The host does nothing, as if it were stopped.
#[tokio::test]
async fn expired_lease_ends_everything_whatever_the_host_does() {
    let dir = tempfile::tempdir().unwrap();
    let (guard, _lease) = leased(dir.path(), Duration::from_secs(1));
    let script = format!("{ESCAPES} sleep 600");
    let program = Program::new("sh", dir.path(), Environment::of_this_process(&[]));
    let program = program.args(["-c", &script]).guarded_by(&guard);
    let _running = program.start(Ending::default(), [Stdio::null(), Stdio::null(), Stdio::null()]).unwrap();
    gone(escaped(dir.path()).await).await;
}

#[tokio::test]
async fn renewed_lease_keeps_a_program_and_an_expired_one_starts_none() {
    let dir = tempfile::tempdir().unwrap();
    let (guard, lease) = leased(dir.path(), Duration::from_millis(1500));
    lease.set(boot_time() + Duration::from_mins(10)).unwrap();
    let program = |script: &str| {
        let program = Program::new("sh", dir.path(), Environment::of_this_process(&[]));
        program.args(["-c", script]).guarded_by(&guard)
    };
    let streams = || [Stdio::null(), Stdio::null(), Stdio::null()];
    let mut longer = program("sleep 3; exit 7").start(Ending::default(), streams()).unwrap();
    assert_eq!(longer.wait().await.unwrap().code(), Some(7));
    lease.set(boot_time()).unwrap();
    let mut refused = program("touch started").start(Ending::default(), streams()).unwrap();
    assert_eq!(refused.wait().await.unwrap().code(), Some(126));
    assert!(!dir.path().join("started").exists());
}

/// The processes of a killed guard hold the lock themselves.
#[tokio::test]
async fn lock_is_held_until_the_last_process_ends() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("lock");
    let lock = std::fs::File::create(&path).unwrap();
    let is_free = || lock.try_lock().is_ok_and(|()| lock.unlock().is_ok());
    let guard = guard().locking(Some(path.clone()));
    let program = |script: &str| {
        let program = Program::new("sh", dir.path(), Environment::of_this_process(&[]));
        program.args(["-c", script]).guarded_by(&guard)
    };
    let streams = || [Stdio::null(), Stdio::null(), Stdio::null()];
    let running = program(&format!("{ESCAPES} sleep 600")).start(Ending::default(), streams()).unwrap();
    let left = escaped(dir.path()).await;
    assert!(!is_free());
    running.handle().kill();
    until("everything has ended", is_free).await;
    gone(left).await;

    std::fs::remove_file(dir.path().join("pids")).unwrap();
    let mut killed = program(&format!("{ESCAPES} echo $PPID >guard; sleep 600"))
        .start(Ending::default(), streams())
        .unwrap();
    let left = escaped(dir.path()).await;
    until("the guard is known", || {
        std::fs::read_to_string(dir.path().join("guard")).is_ok_and(|id| id.ends_with('\n'))
    })
    .await;
    let pid: i32 = std::fs::read_to_string(dir.path().join("guard")).unwrap().trim().parse().unwrap();
    let kill =
        |pid| nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), nix::sys::signal::Signal::SIGKILL);
    kill(pid).unwrap();
    killed.wait().await.unwrap();
    assert!(left.iter().all(|pid| runs(*pid)) && !is_free(), "the leftover processes run and hold the lock");
    // The shell and its `sleep` have their own process group.
    let mut all = left.clone();
    all.extend(holders(&path));
    for pid in all {
        _ = kill(pid);
    }
    until("the lock is free", is_free).await;
}

/// A guard refuses to start anything while another process waits for the end of all processes.
#[tokio::test]
async fn nothing_starts_below_an_exclusively_held_lock() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("lock");
    let lock = std::fs::File::create(&path).unwrap();
    lock.lock().unwrap();
    let program = Program::new("touch", dir.path(), Environment::of_this_process(&[]));
    let program = program.args(["started"]).guarded_by(&guard().locking(Some(path)));
    let mut refused =
        program.start(Ending::default(), [Stdio::null(), Stdio::null(), Stdio::null()]).unwrap();
    assert_eq!(refused.wait().await.unwrap().code(), Some(126));
    assert!(!dir.path().join("started").exists());
}

/// The processes other than this one that have a file open.
fn holders(path: &Path) -> Vec<i32> {
    let file = path.canonicalize().unwrap();
    let ids = std::fs::read_dir("/proc").unwrap().flatten();
    ids.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok())
        .filter(|pid| u32::try_from(*pid) != Ok(std::process::id()))
        .filter(|pid| {
            let open = std::fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
            open.into_iter().any(|fd| std::fs::read_link(fd.path()).is_ok_and(|to| to == file))
        })
        .collect()
}
