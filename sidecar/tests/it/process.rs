//! The processes of agents: apart from the sidecar, and gone with it.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use nix::sys::signal::kill;
use nix::unistd::Pid;
use pilothouse_sidecar::process::in_process::AgentThread;
use pilothouse_sidecar::process::{AgentUser, Processes};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, BufReader};

use crate::gateway::DEADLINE;

fn program() -> PathBuf {
    env!("CARGO_BIN_EXE_pilothouse-sidecar").into()
}

fn processes(user: Option<AgentUser>) -> Processes {
    Processes::guarded_by(program(), user)
}

/// Somebody who is not root, when this test may become that one.
fn somebody(home: &Path) -> Option<AgentUser> {
    if !nix::unistd::geteuid().is_root() {
        eprintln!("not tested: only root can start processes of another user");
        return None;
    }
    Some(format!("10002:10002:{}", home.display()).parse().unwrap())
}

/// What a shell says under `processes`.
async fn says(processes: &Processes, script: &str) -> String {
    let mut shell = processes.command("/bin/sh").unwrap();
    shell.command().args(["-c", script]).stdin(Stdio::null()).stdout(Stdio::piped()).current_dir("/");
    let mut group = shell.spawn().unwrap();
    let mut said = String::new();
    let mut output = group.stdout().unwrap();
    tokio::time::timeout(DEADLINE, output.read_to_string(&mut said)).await.unwrap().unwrap();
    said.trim().to_owned()
}

async fn gone(process: i32) {
    let deadline = tokio::time::Instant::now() + DEADLINE;
    while std::fs::read_to_string(format!("/proc/{process}/stat")).is_ok_and(|stat| !stat.contains(") Z ")) {
        assert!(tokio::time::Instant::now() < deadline, "{process} is still there");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn it_is_talked_to_through_its_guard_and_sees_a_chosen_environment() {
    let mut shell = processes(None).command("/bin/sh").unwrap();
    shell.command().args(["-c", "read line; echo \"got $line\"; env; exit 7"]).env("GIVEN", "yes");
    shell.command().stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut group = shell.spawn().unwrap();
    let mut stdin = group.stdin().unwrap();
    tokio::io::AsyncWriteExt::write_all(&mut stdin, b"a word\n").await.unwrap();
    let mut said = String::new();
    group.stdout().unwrap().read_to_string(&mut said).await.unwrap();
    assert_eq!(group.wait().await.unwrap().code(), Some(7));
    assert!(said.starts_with("got a word\n") && said.contains("\nGIVEN=yes"), "{said}");
    assert!(!said.contains("CARGO_PKG_NAME"), "this test's own environment: {said}");
}

#[tokio::test]
async fn what_it_started_ends_with_it_and_it_ends_when_it_is_dropped() {
    let mut shell = processes(None).command("/bin/sh").unwrap();
    shell.command().args(["-c", "sleep 600 & echo $!; wait"]).stdin(Stdio::null()).stdout(Stdio::piped());
    let mut group = shell.spawn().unwrap();
    let mut lines = BufReader::new(group.stdout().unwrap()).lines();
    let background: i32 = lines.next_line().await.unwrap().unwrap().parse().unwrap();
    drop(group);
    gone(background).await;
}

#[tokio::test]
async fn what_does_not_end_when_it_is_asked_is_killed() {
    let mut shell = processes(None).command("/bin/sh").unwrap();
    let script = "trap '' TERM; echo $$; while :; do sleep 1; done";
    shell.command().args(["-c", script]).stdin(Stdio::null()).stdout(Stdio::piped());
    let mut group = shell.spawn().unwrap();
    let mut lines = BufReader::new(group.stdout().unwrap()).lines();
    let stubborn: i32 = lines.next_line().await.unwrap().unwrap().parse().unwrap();
    group.end(Duration::from_millis(50)).await.unwrap();
    gone(stubborn).await;
}

/// A shell stands for the sidecar: it holds the other end of the leash, and is killed.
#[tokio::test]
async fn it_ends_when_the_sidecar_is_killed() {
    let script = format!(
        "exec 3<>/dev/null; {} guard --leash 9 -- /bin/sh -c 'echo $$; exec sleep 600' 9<\"$0\" & exec sleep 600 >\"$0\"",
        program().display()
    );
    let dir = tempfile::tempdir().unwrap();
    let leash = dir.path().join("leash");
    nix::unistd::mkfifo(&leash, nix::sys::stat::Mode::from_bits_truncate(0o600)).unwrap();
    let mut sidecar = tokio::process::Command::new("/bin/sh");
    sidecar.args(["-c", &script]).arg(&leash).stdout(Stdio::piped()).kill_on_drop(true);
    let mut sidecar = sidecar.spawn().unwrap();
    let mut lines = BufReader::new(sidecar.stdout.take().unwrap()).lines();
    let agent: i32 = lines.next_line().await.unwrap().unwrap().parse().unwrap();
    kill(Pid::from_raw(agent), None).unwrap();
    sidecar.kill().await.unwrap();
    gone(agent).await;
}

/// As the image is tried: by hand, without a leash.
#[tokio::test]
async fn the_verb_takes_on_a_user_and_tells_of_what_it_cannot_run() {
    let run = async |arguments: &[&str]| {
        let output = tokio::process::Command::new(program()).arg("guard").args(arguments).output().await;
        let output = output.unwrap();
        let text = [output.stdout, output.stderr].concat();
        (output.status.code(), String::from_utf8(text).unwrap().trim().to_owned())
    };
    assert_eq!(run(&["--", "/bin/sh", "-c", "echo done; exit 3"]).await, (Some(3), "done".into()));
    let (code, said) = run(&["--", "/no/such/program"]).await;
    assert!(code == Some(127) && said.starts_with("/no/such/program cannot be run"), "{said}");
    assert_eq!(run(&["--user", "0:0:/root", "--", "id"]).await.0, Some(126), "nobody becomes root");
    let (code, said) = run(&["--user", "10002:10002:/home/agent", "--", "/bin/sh", "-c", "id -u; id -G"]).await;
    if nix::unistd::geteuid().is_root() {
        assert_eq!((code, said.as_str()), (Some(0), "10002\n10002"));
    } else {
        assert_eq!(code, Some(126), "only root can take on another user: {said}");
    }
}

#[tokio::test]
async fn the_agents_user_can_use_its_own_folders_and_read_nothing_of_the_sidecar() {
    let dir = tempfile::tempdir().unwrap();
    let Some(user) = somebody(dir.path()) else { return };
    let open = std::os::unix::fs::PermissionsExt::from_mode;
    std::fs::set_permissions(dir.path(), open(0o711)).unwrap();
    let run = dir.path().join("run");
    std::fs::create_dir(&run).unwrap();
    std::fs::set_permissions(&run, open(0o700)).unwrap();
    std::fs::write(run.join("launch.json"), "the keys of the run").unwrap();
    let as_agent = processes(Some(user.clone()));
    let own = dir.path().join("home/own");
    as_agent.folder(&own).unwrap();
    std::fs::set_permissions(dir.path().join("home"), open(0o711)).unwrap();

    assert_eq!(
        says(&as_agent, "id -u; id -G; echo $HOME").await,
        format!("10002\n10002\n{}", dir.path().display())
    );
    let read = format!("cat {}/launch.json || echo refused", run.display());
    assert_eq!(says(&as_agent, &read).await, "refused");
    let me = std::process::id();
    assert_eq!(says(&as_agent, &format!("cat /proc/{me}/environ || echo refused")).await, "refused");
    assert_eq!(says(&as_agent, &format!("kill -0 {me} || echo refused")).await, "refused");
    let write = format!("cd {} && echo x > file && cat file", own.display());
    assert_eq!(says(&as_agent, &write).await, "x");
    assert_eq!(says(&as_agent, "grep NoNewPrivs /proc/self/status").await, "NoNewPrivs:\t1");

    // The same holds for what the sidecar does for the agent in its own process.
    let thread = AgentThread::start(&user).unwrap();
    let (secret, file) = (run.join("launch.json"), own.join("made"));
    let (refused, also, made) = thread
        .run(async move {
            let refused = std::fs::read(&secret).map_err(|e| e.kind());
            let also = tokio::fs::read(&secret).await.map_err(|e| e.kind());
            (refused, also, tokio::fs::write(&file, "x").await)
        })
        .await
        .unwrap();
    assert_eq!(refused, Err(std::io::ErrorKind::PermissionDenied));
    assert_eq!(also, Err(std::io::ErrorKind::PermissionDenied));
    made.unwrap();
    assert_eq!(std::os::unix::fs::MetadataExt::uid(&own.join("made").metadata().unwrap()), 10002);
    assert!(std::fs::read(run.join("launch.json")).is_ok(), "this thread is who it was");
}
