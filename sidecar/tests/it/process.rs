//! Agent processes are isolated from the sidecar and end with it.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use nix::sys::signal::kill;
use nix::unistd::Pid;
use pilothouse_agent::process::confinement::{Support, support};
use pilothouse_sidecar::process::in_process::{AgentThread, Rights};
use pilothouse_sidecar::process::{AgentUser, Processes};
use pilothouse_wire::launch::LaunchConfinement;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, BufReader};

use crate::gateway::{DEADLINE, Gateway};
use crate::sidecar::Folders;

fn program() -> PathBuf {
    env!("CARGO_BIN_EXE_pilothouse-sidecar").into()
}

fn processes(user: Option<AgentUser>) -> Processes {
    Processes::guarded_by(program(), user)
}

/// A user other than root, if this test may switch users.
fn somebody(home: &Path) -> Option<AgentUser> {
    if !nix::unistd::geteuid().is_root() {
        eprintln!("not tested: only root can start processes of another user");
        return None;
    }
    Some(format!("10002:10002:{}", home.display()).parse().unwrap())
}

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
async fn guarded_process_has_its_streams_and_a_chosen_environment() {
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
async fn descendants_end_with_the_process_and_drop_ends_both() {
    let mut shell = processes(None).command("/bin/sh").unwrap();
    shell.command().args(["-c", "sleep 600 & echo $!; wait"]).stdin(Stdio::null()).stdout(Stdio::piped());
    let mut group = shell.spawn().unwrap();
    let mut lines = BufReader::new(group.stdout().unwrap()).lines();
    let background: i32 = lines.next_line().await.unwrap().unwrap().parse().unwrap();
    drop(group);
    gone(background).await;
}

#[tokio::test]
async fn process_that_ignores_termination_is_killed() {
    let mut shell = processes(None).command("/bin/sh").unwrap();
    let script = "trap '' TERM; echo $$; while :; do sleep 1; done";
    shell.command().args(["-c", script]).stdin(Stdio::null()).stdout(Stdio::piped());
    let mut group = shell.spawn().unwrap();
    let mut lines = BufReader::new(group.stdout().unwrap()).lines();
    let stubborn: i32 = lines.next_line().await.unwrap().unwrap().parse().unwrap();
    group.end(Duration::from_millis(50)).await.unwrap();
    gone(stubborn).await;
}

/// A shell in place of the sidecar holds the other end of the leash and is killed.
#[tokio::test]
async fn process_ends_when_the_sidecar_is_killed() {
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

/// Run by hand without a leash, as when testing the image.
#[tokio::test]
async fn guard_command_switches_users_and_reports_missing_programs() {
    let run = async |arguments: &[&str]| {
        let output = tokio::process::Command::new(program()).arg("guard").args(arguments).output().await;
        let output = output.unwrap();
        let text = [output.stdout, output.stderr].concat();
        (output.status.code(), String::from_utf8(text).unwrap().trim().to_owned())
    };
    assert_eq!(run(&["--", "/bin/sh", "-c", "echo done; exit 3"]).await, (Some(3), "done".into()));
    let (code, said) = run(&["--", "/no/such/program"]).await;
    assert!(code == Some(127) && said.starts_with("/no/such/program cannot be run"), "{said}");
    assert_eq!(run(&["--user", "0:0:/root", "--", "id"]).await.0, Some(126), "root is refused as the user");
    let (code, said) =
        run(&["--user", "10002:10002:/home/agent", "--", "/bin/sh", "-c", "id -u; id -G"]).await;
    if nix::unistd::geteuid().is_root() {
        assert_eq!((code, said.as_str()), (Some(0), "10002\n10002"));
    } else {
        assert_eq!(code, Some(126), "only root can switch to another user: {said}");
    }
}

#[tokio::test]
async fn agent_user_has_its_folders_and_cannot_read_the_sidecar() {
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

    // The same applies to the work of the sidecar's own process for the agent.
    let thread = AgentThread::start(Rights::OfUser(user)).unwrap();
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

/// The processes of a run that is confined to `work` below `dir`. `None` if the kernel does not support it.
async fn confined(dir: &Path) -> Option<Processes> {
    if support() == Support::Nothing {
        println!("not tested: this kernel has no Landlock");
        return None;
    }
    let gateway = Gateway::start().await;
    let mut launch = Folders::new(&gateway).launch(&gateway);
    let (data, work) = (dir.join("data"), dir.join("work"));
    std::fs::create_dir_all(data.join("sessions/one")).unwrap();
    std::fs::create_dir_all(data.join("sessions/two/agent")).unwrap();
    std::fs::create_dir(&work).unwrap();
    for file in ["secret", "sessions/one/claude.json", "sessions/two/agent/conversation"] {
        std::fs::write(data.join(file), "a secret").unwrap();
    }
    launch.session_home = data.join("sessions/one").to_str().unwrap().into();
    launch.request.working_directory = work.to_str().unwrap().into();
    launch.confinement = Some(LaunchConfinement { hidden: vec![data] });
    let processes = processes(None).confined_for(&launch);
    processes.check().unwrap();
    Some(processes)
}

#[tokio::test]
async fn confined_programs_stay_in_their_folders() {
    let dir = tempfile::tempdir().unwrap();
    let Some(processes) = confined(dir.path()).await else { return };
    let dir = dir.path().canonicalize().unwrap();
    let script = format!(
        "cd {dir}; for file in data/secret data/sessions/one/claude.json data/sessions/two/agent/conversation; do
           cat $file 2>/dev/null && echo \" of $file\"; done
         for folder in . data data/sessions data/sessions/one data/sessions/two/agent; do
           ls $folder >/dev/null 2>&1 && echo listed $folder
           touch $folder/made 2>/dev/null && echo made $folder/made; done
         mv data moved 2>/dev/null && echo moved; rm data/secret 2>/dev/null && echo removed
         true 2>/dev/null >data/secret && echo truncated
         kill -0 {me} 2>/dev/null && echo signalled
         [ $(id -u) = 0 ] || {{ cat /proc/{me}/environ >/dev/null 2>&1 && echo read its environment; }}
         cd work && echo x >file && mkdir sub && mv file sub/ && ln -s ../../data/secret link; cat link 2>/dev/null
         cat sub/file; cat /etc/passwd >/dev/null && echo y >\"$TMPDIR\"/file && cat \"$TMPDIR\"/file
         f=$(mktemp) && echo z >$f && cat $f; echo >/dev/null && echo done; sh -c 'echo nested'",
        dir = dir.display(),
        me = std::process::id(),
    );
    let said = says(&processes, &script).await;
    let signals = support() == Support::FilesAndSignals;
    let expected = if signals { "x\ny\nz\ndone\nnested" } else { "signalled\nx\ny\nz\ndone\nnested" };
    assert_eq!(said, expected);
    assert_eq!(says(&processes, "grep NoNewPrivs /proc/self/status").await, "NoNewPrivs:\t1");
    assert_eq!(
        std::fs::read_to_string(dir.join("data/secret")).unwrap(),
        "a secret",
        "this process is not confined"
    );
}

#[tokio::test]
async fn agent_in_a_container_reaches_everything_but_the_run_directory() {
    if support() == Support::Nothing {
        println!("not tested: this kernel has no Landlock");
        return;
    }
    let gateway = Gateway::start().await;
    let mut launch = Folders::new(&gateway).launch(&gateway);
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path().canonicalize().unwrap();
    std::fs::create_dir_all(dir.join("runs/one")).unwrap();
    std::fs::create_dir(dir.join("elsewhere")).unwrap();
    std::fs::write(dir.join("runs/one/launch.json"), "the keys").unwrap();
    launch.hidden_where_supported = vec![dir.join("runs/one")];
    let processes = processes(None).confined_for(&launch);
    processes.check().unwrap();
    assert!(!processes.are_confined(), "it writes where it wants");
    let script = format!(
        "cd {dir}; cat runs/one/launch.json 2>/dev/null && echo read
         true 2>/dev/null >runs/one/finished && echo finished
         mv runs/one runs/two 2>/dev/null && echo moved
         echo x >elsewhere/file && cat elsewhere/file",
        dir = dir.display(),
    );
    assert_eq!(says(&processes, &script).await, "x");
    let (keys, made) = (dir.join("runs/one/launch.json"), dir.join("elsewhere/made"));
    let thread = processes.file_thread().unwrap().unwrap();
    let (read, wrote) = thread
        .run(async move { (std::fs::read(keys).map_err(|e| e.kind()), std::fs::write(made, "y")) })
        .await
        .unwrap();
    assert_eq!(read, Err(std::io::ErrorKind::PermissionDenied));
    wrote.unwrap();
}

#[tokio::test]
async fn sidecar_operations_for_a_confined_agent_are_confined() {
    let dir = tempfile::tempdir().unwrap();
    let Some(processes) = confined(dir.path()).await else { return };
    let dir = dir.path().canonicalize().unwrap();
    let thread = processes.file_thread().unwrap().unwrap();
    let (secret, link, made) = (dir.join("data/secret"), dir.join("work/link"), dir.join("work/made"));
    std::os::unix::fs::symlink(&secret, &link).unwrap();
    let (read, linked, aside, wrote) = thread
        .run(async move {
            let read = std::fs::read(&secret).map_err(|e| e.kind());
            let linked = tokio::fs::read(&link).await.map_err(|e| e.kind());
            (
                read,
                linked,
                tokio::fs::write(&secret, "x").await.map_err(|e| e.kind()),
                tokio::fs::write(&made, "x").await,
            )
        })
        .await
        .unwrap();
    let denied = std::io::ErrorKind::PermissionDenied;
    assert_eq!((read, linked, aside), (Err(denied), Err(denied), Err(denied)));
    wrote.unwrap();
    assert!(std::fs::read(dir.join("data/secret")).is_ok(), "this thread is not confined");
}

#[tokio::test]
async fn leftovers_of_confined_programs_end_with_them() {
    let dir = tempfile::tempdir().unwrap();
    let Some(processes) = confined(dir.path()).await else { return };
    let mut shell = processes.command("/bin/sh").unwrap();
    shell
        .command()
        .args(["-c", "setsid sleep 600 & echo $!; wait"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped());
    let mut group = shell.spawn().unwrap();
    let mut lines = BufReader::new(group.stdout().unwrap()).lines();
    let background: i32 = lines.next_line().await.unwrap().unwrap().parse().unwrap();
    drop(group);
    gone(background).await;
}

#[tokio::test]
async fn working_directory_around_hidden_paths_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let gateway = Gateway::start().await;
    let mut launch = Folders::new(&gateway).launch(&gateway);
    let data = dir.path().join("data");
    std::fs::create_dir_all(data.join("home")).unwrap();
    launch.session_home = data.join("home").to_str().unwrap().into();
    launch.confinement = Some(LaunchConfinement { hidden: vec![data.clone()] });
    for folder in [dir.path(), &data, Path::new("/")] {
        launch.request.working_directory = folder.to_str().unwrap().into();
        let processes = processes(None).confined_for(&launch);
        assert!(processes.check().is_err(), "{}", folder.display());
        assert!(processes.command("/bin/true").is_err(), "nothing is started without its confinement");
    }
}
