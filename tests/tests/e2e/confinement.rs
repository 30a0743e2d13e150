//! What an agent can access on its machine: its working directory and its own folders, but nothing of Pilothouse.
//!
//! Confinement needs Landlock in the kernel; without it the tests are skipped.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use pilothouse_model_server::{ModelServer, Script, Step, fixture};
use pilothouse_tests::{ServerProcess, Session, programs};
use serde_json::{Value, json};

const KEY: &str = "sk-ant-the-key-of-a-confined-agent";

fn kernel_confines() -> bool {
    let confines = programs::confines_agents();
    if !confines {
        println!("not tested: this kernel has no Landlock");
    }
    confines
}

/// Returns the output of the script, which a native agent runs.
async fn printed(server: &ServerProcess, model: &ModelServer, script: &str) -> String {
    let folder = server.work_folder();
    std::fs::write(folder.join("script.sh"), script).unwrap();
    let body = json!({
        "adapter": "native", "workingDirectory": folder, "objective": "Run it", "budgetCapUsd": "5",
        "allowedTools": ["Bash"],
    });
    let session = Session::start(&server.api(), body).await;
    session.until_said("It ran.").await;
    session.until_status("Idle").await;
    let asked = model.prompts().last().unwrap().text();
    asked.rsplit_once("BEGIN").map(|(_, output)| output.to_owned()).unwrap_or(asked)
}

/// Files of the server whose readers would have the rights of an owner.
fn secrets(data: &Path) -> Vec<PathBuf> {
    let launches =
        std::fs::read_dir(data.join("runs")).unwrap().map(|run| run.unwrap().path().join("launch.json"));
    let mut secrets: Vec<_> = launches.filter(|launch| launch.exists()).collect();
    assert!(!secrets.is_empty(), "another session runs");
    secrets.extend(["secret", "signing-key.pk8", "pilothouse.db"].map(|file| data.join(file)));
    secrets
}

#[tokio::test]
async fn agent_reads_no_secret_and_gains_no_other_identity() {
    if !kernel_confines() {
        return;
    }
    let steps = [Step::tool("bash", json!({ "command": "sh script.sh" })), Step::text("It ran.")];
    let model = ModelServer::start(Script::of(steps)).await.unwrap();
    let outside = tempfile::tempdir().unwrap();
    let token_file = outside.path().join("token");
    let (base, token) = (model.base_url(), token_file.to_str().unwrap().to_owned());
    let environment =
        [("ANTHROPIC_BASE_URL", &*base), ("ANTHROPIC_API_KEY", KEY), ("PILOTHOUSE_TOKEN_FILE", &*token)];
    let mut server = ServerProcess::start_with(1, &environment).await;
    std::fs::write(&token_file, server.token("local")).unwrap();
    // A live sidecar runs a session of another owner.
    let script =
        json!({ "steps": [{ "turn": { "steps": [{ "say": "Hello" }] } }, { "waitForMessage": {} }] });
    let work = json!({ "adapter": "script", "workingDirectory": server.work_folder(), "objective": "Wait",
        "budgetCapUsd": "5", "adapterOptions": { "script": script } });
    let other = Session::start(&server.api_of("alice"), work).await;
    other.until_said("Hello").await;
    let data = server.data();
    let victim = server.sidecars()[0].pid;
    let (home, pilothouse) = (data.join("sessions").join(&other.id), programs::pilothouse());
    assert!(home.is_dir());

    let mut attack =
        "echo BEGIN\ntry() { if \"$@\" >/dev/null 2>&1; then echo \"REACHED $*\"; else echo refused; fi; }\n"
            .to_owned();
    let secrets = secrets(&data);
    for secret in secrets.iter().chain([&token_file]) {
        writeln!(attack, "try cat '{}'", secret.display()).unwrap();
    }
    for folder in [&data, &data.join("sessions"), &data.join("runs"), &home, &home.join("agent")] {
        writeln!(attack, "try ls '{0}'\ntry touch '{0}/planted'", folder.display()).unwrap();
    }
    let (data, pilothouse) = (data.display(), pilothouse.display());
    write!(
        attack,
        "try {pilothouse} --data '{data}' token --owner alice\n\
         try {pilothouse} --url {url} --data '{data}' ps\n\
         [ $(id -u) = 0 ] || try cat /proc/{victim}/environ\n\
         try cat /proc/{server}/root{data}/secret\n\
         try ln '{data}/secret' hard\n\
         try mv '{data}' moved\n\
         try touch ../beside\n\
         try kill -0 {victim}\n\
         try kill -0 {server}\n\
         ln -s '{data}/secret' link; try cat link\n\
         touch made && cat made && f=$(mktemp) && echo x >$f && cat $f && ls \"$TMPDIR\" >/dev/null && echo WORKS\n\
         echo END\n",
        url = server.url(),
        server = server.pid().unwrap(),
    )
    .unwrap();
    let said = printed(&server, &model, &attack).await;
    assert!(said.contains("WORKS") && said.contains("END"), "{said}");
    assert!(!said.contains("REACHED"), "{said}");
    assert!(said.matches("refused").count() >= secrets.len() + 20, "every attempt was made: {said}");
    assert!(server.is_alive());
}

#[tokio::test]
async fn a_working_directory_around_the_data_folder_is_refused() {
    if !kernel_confines() {
        return;
    }
    let model = ModelServer::start(Script::of([Step::text("Never asked.")])).await.unwrap();
    let base = model.base_url();
    let environment = [("ANTHROPIC_BASE_URL", &*base), ("ANTHROPIC_API_KEY", KEY)];
    let server = ServerProcess::start_with(1, &environment).await;
    for folder in [server.data().parent().unwrap().to_owned(), server.data(), server.data().join("sessions")]
    {
        let body = json!({ "adapter": "native", "workingDirectory": folder, "objective": "Look", "budgetCapUsd": "5" });
        let session = Session::start(&server.api(), body).await;
        let view = session.until_status("Failed").await;
        let state = session.everything().await;
        assert!(
            state.contains("--unconfined") && state.contains("another working directory"),
            "{view}: {state}"
        );
    }
    assert!(model.prompts().is_empty());
}

/// Reports a kernel without Landlock and otherwise works normally.
fn sidecar_without_landlock(folder: &Path) -> PathBuf {
    use std::os::unix::fs::PermissionsExt as _;
    let program = folder.join("pilothouse-sidecar");
    let real = programs::sidecar();
    let script = format!(
        "#!/bin/sh\n[ \"$1\" = confinement ] && echo nothing && exit\nexec '{}' \"$@\"\n",
        real.display()
    );
    std::fs::write(&program, script).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    program
}

#[tokio::test]
async fn without_confinement_only_the_first_owner_is_served() {
    let folder = tempfile::tempdir().unwrap();
    let sidecar = sidecar_without_landlock(folder.path());
    let environment = [("PILOTHOUSE_SIDECAR", sidecar.to_str().unwrap()), ("PILOTHOUSE_UNCONFINED", "false")];
    let mut server = ServerProcess::start_with(1, &environment).await;
    assert_eq!(server.said()["agentConfinement"], "unavailable");
    for _ in 0..2 {
        server.api().get("/api/agents/sessions").await.expect(200);
        let refused =
            server.api_of("alice").get("/api/agents/sessions").await.refused(403, "owner-not-served");
        assert!(refused.text.contains("--unconfined"), "{}", refused.text);
        server.restart().await;
    }
    let recorded = std::fs::read_to_string(server.data().join("first-owner")).unwrap();
    assert_eq!(recorded, "local");
}

#[tokio::test]
async fn unconfined_server_serves_every_owner() {
    let server = ServerProcess::start_with(1, &[("PILOTHOUSE_UNCONFINED", "true")]).await;
    assert_eq!(server.said()["agentConfinement"], "off");
    for owner in ["local", "alice"] {
        server.api_of(owner).get("/api/agents/sessions").await.expect(200);
    }
}

#[tokio::test]
async fn data_folder_and_databases_are_private() {
    use std::os::unix::fs::PermissionsExt as _;
    let mut server = ServerProcess::start(1).await;
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    let files = ["pilothouse.db", "pilothouse.db-wal", "pilothouse.db-shm", "pilothouse.db.lock"];
    for open in [false, true] {
        if open {
            server.kill9();
            // The modes of an earlier version.
            std::fs::set_permissions(server.data(), std::fs::Permissions::from_mode(0o755)).unwrap();
            for file in files.map(|file| server.data().join(file)).iter().filter(|file| file.exists()) {
                std::fs::set_permissions(file, std::fs::Permissions::from_mode(0o644)).unwrap();
            }
            server.restart().await;
        }
        server.api().get("/api/agents/sessions").await.expect(200);
        assert_eq!(mode(&server.data()), 0o700);
        for file in files {
            assert_eq!(mode(&server.data().join(file)), 0o600, "{file}");
        }
    }
}

struct AcpAgent {
    program: PathBuf,
    /// Its adapter options except the program.
    options: Value,
    /// Its tool for commands.
    shell: &'static str,
}

fn opencode(model: &ModelServer, home: &Path) -> AcpAgent {
    let provider = json!({
        "npm": "@ai-sdk/openai-compatible", "name": "Scripted",
        "options": { "baseURL": model.openai_base_url(), "apiKey": KEY },
        "models": { "small": { "name": "Small", "tool_call": true, "limit": { "context": 100_000, "output": 8000 } } },
    });
    let config = json!({ "provider": { "scripted": provider }, "model": "scripted/small",
        "small_model": "scripted/small", "autoupdate": false, "share": "disabled" });
    let options = json!({ "agent": "opencode", "args": ["acp"], "env": {
        "HOME": home, "OPENCODE_CONFIG_CONTENT": config.to_string(), "OPENCODE_DISABLE_MODELS_FETCH": "1",
        "OPENCODE_DISABLE_AUTOUPDATE": "1", "OPENCODE_DISABLE_LSP_DOWNLOAD": "1", "OPENCODE_PURE": "1",
        "OPENCODE_PERMISSION": "{\"bash\":\"allow\"}",
        "HTTP_PROXY": "http://127.0.0.1:9", "HTTPS_PROXY": "http://127.0.0.1:9", "NO_PROXY": "127.0.0.1" } });
    AcpAgent { program: installed("opencode/opencode"), options, shell: "bash" }
}

/// `codex-acp`, if it is installed; `tests/agents` does not install it because of its size.
fn codex(model: &ModelServer, home: &Path) -> AcpAgent {
    let config = format!(
        "model = \"gpt-5\"\nmodel_provider = \"scripted\"\napproval_policy = \"never\"\nsandbox_mode = \"danger-full-access\"\n\
         [model_providers.scripted]\nname = \"Scripted\"\nbase_url = \"{}\"\nenv_key = \"OPENAI_API_KEY\"\nwire_api = \"responses\"\n",
        model.openai_base_url()
    );
    std::fs::write(home.join("config.toml"), config).unwrap();
    let options = json!({ "agent": "codex", "args": [], "env": {
        "CODEX_HOME": home, "OPENAI_API_KEY": KEY, "NO_PROXY": "127.0.0.1" } });
    let named = std::env::var_os("PILOTHOUSE_ACP_CODEX").map(PathBuf::from);
    AcpAgent {
        program: named.unwrap_or_else(|| installed("codex/codex-acp")),
        options,
        shell: "shell_command",
    }
}

fn installed(program: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/agents").join(program)
}

/// Fixes the fixture and then tries to read a secret file.
fn fix(secret: &Path) -> String {
    let fix = r#"
import pathlib
file = pathlib.Path('calculator/evaluate.py')
text = file.read_text()
text = text.replace('    if rest and rest[0] in ("+", "-"):\n        sign = rest.pop(0)\n        other = add(rest)\n', '    while rest and rest[0] in ("+", "-"):\n        sign = rest.pop(0)\n        other = multiply(rest)\n')
text = text.replace('    if not rest:\n        return 0.0\n', '    if not rest:\n        raise ValueError("the sum ends too early")\n')
file.write_text(text)
"#;
    format!(
        "python3 - <<'FIX'\n{fix}FIX\npython3 -B -m unittest 2>&1; cat '{}' || echo is-den''ied",
        secret.display()
    )
}

/// Lets the agent fix the calculator and try to read a secret in one command.
async fn works_confined(agent: fn(&ModelServer, &Path) -> AcpAgent) {
    if !kernel_confines() {
        return;
    }
    let server = ServerProcess::start(1).await;
    let home = server.data().with_file_name("agent-home");
    std::fs::create_dir(&home).unwrap();
    let shell = agent(&ModelServer::start(Script::default()).await.unwrap(), &home).shell;
    let input = json!({ "command": fix(&server.data().join("secret")), "description": "Fix it" });
    let to = |when: &str, step: Step| Step { when: Some(when.into()), repeat: true, ..step };
    let mut script = Script::of([
        to("is-denied", Step::text("All tests pass.")),
        to("heliotrope", Step::tool(shell, input)),
    ]);
    script.otherwise = Some(Step::text("A title"));
    let model = ModelServer::start(script).await.unwrap();
    let AcpAgent { program, mut options, .. } = agent(&model, &home);
    if !program.exists() {
        println!("not tested: {} is not installed", program.display());
        return;
    }
    options["command"] = json!(program);
    let work = server.work_folder();
    fixture::broken_calculator(&work).unwrap();
    let body = json!({ "adapter": "acp", "workingDirectory": work, "objective": "heliotrope", "budgetCapUsd": "5",
        "allowedTools": ["execute"], "adapterOptions": options });
    let session = Session::start(&server.api(), body).await;
    session.until_said("All tests pass.").await;
    session.until_status("Idle").await;
    assert!(fixture::tests_pass(&work).unwrap());
}

#[tokio::test]
async fn opencode_makes_the_tests_pass_confined() {
    works_confined(opencode).await;
}

#[tokio::test]
async fn codex_makes_the_tests_pass_confined() {
    works_confined(codex).await;
}
