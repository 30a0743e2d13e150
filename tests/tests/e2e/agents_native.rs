//! The complete workflow with the native agent: it makes failing tests pass while its owner steers, pauses, resumes and approves. Only its
//! model is scripted.
//!
//! Functions in the cloud cannot reach that model, so these tests need the embedded server.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use pilothouse_model_server::{ModelServer, Script, Step, fixture};
use pilothouse_tests::{ServerProcess, Session, programs};
use serde_json::{Value, json};

/// Must not appear anywhere.
const KEY: &str = "sk-ant-the-key-of-the-main-job";
/// Observation time without a model call. An agent that is not held makes one within milliseconds.
const A_WHILE: Duration = Duration::from_secs(2);

/// The script of the fixture for the native agent. It waits at two of its answers and submits output.
fn script() -> Script {
    let mut script = fixture::make_the_tests_pass().unwrap();
    script.conversations.retain(|conversation| conversation.offers.as_deref() == Some("read"));
    let steps = &mut script.conversations[0].steps;
    steps[2].wait = Some("steer".into());
    steps[4].wait = Some("pause".into());
    let submit = json!({ "allTestsPassing": true, "testsAdded": 0, "filesChanged": 1, "outputLineCount": 4 });
    steps.insert(steps.len() - 1, Step::tool("submit_output", submit));
    let last = steps.last_mut().unwrap();
    last.text = Some("All tests pass. Differences are taken from the left now.".into());
    script
}

async fn pilothouse(server: &ServerProcess, folder: &Path, arguments: &[&str]) -> Value {
    let mut program = tokio::process::Command::new(programs::pilothouse());
    program.arg("--json").arg("--url").arg(server.url()).arg("--data").arg(server.data()).args(arguments);
    let said = program.current_dir(folder).stdin(Stdio::null()).kill_on_drop(true).output().await.unwrap();
    let complaint = String::from_utf8_lossy(&said.stderr);
    assert!(said.status.success(), "pilothouse {arguments:?}: {complaint}");
    serde_json::from_slice(&said.stdout)
        .unwrap_or_else(|e| panic!("{e}: {}", String::from_utf8_lossy(&said.stdout)))
}

#[tokio::test]
async fn native_agent_makes_the_tests_pass_under_owner_control() {
    let model = ModelServer::start(script()).await.unwrap();
    let environment = [("ANTHROPIC_BASE_URL", &*model.base_url()), ("ANTHROPIC_API_KEY", KEY)];
    let server = ServerProcess::start_with(1, &environment).await;
    let work = server.work_folder();
    fixture::broken_calculator(&work).unwrap();
    assert!(!fixture::tests_pass(&work).unwrap(), "the tests fail at first");

    let started =
        pilothouse(&server, &work, &["run", fixture::TASK, "--adapter", "native", "--detach"]).await;
    let session = Session::of_start(&server.api(), started);

    // The owner steers the agent during its third model call.
    within(model.wait_for(3)).await;
    let message = session.say("and keep the names as they are", "Immediate").await;
    session.until_reported(&["message_ack", message["messageId"].as_str().unwrap()]).await;
    model.open("steer");
    session
        .until_messages("the message", |all| all.iter().any(|m| m["messageId"] == message["messageId"]))
        .await;
    let fourth = within(model.wait_for(4)).await;
    assert!(
        fourth[3].text().contains("and keep the names as they are"),
        "the next model request contains the message"
    );

    // The owner pauses the agent during its fifth model call; the resulting tool calls are held.
    within(model.wait_for(5)).await;
    session.post("/pause", json!({})).await.expect(202);
    session.until_reported(&["pause_ack"]).await;
    model.open("pause");
    session.until_status("Paused").await;
    let before = std::fs::read_to_string(work.join("calculator/evaluate.py")).unwrap();
    tokio::time::sleep(A_WHILE).await;
    assert_eq!(model.prompts().len(), 5, "a model call was made during the pause");
    assert_eq!(std::fs::read_to_string(work.join("calculator/evaluate.py")).unwrap(), before);
    session.post("/resume", json!({})).await.expect(202);

    let view = session.until("output", |view| view["hasPendingReview"] == true).await;
    assert_eq!(view["status"], "Idle");
    assert!(fixture::tests_pass(&work).unwrap(), "the tests pass now");
    let output = &view["output"];
    assert_eq!((&output["allTestsPassing"], &output["filesChanged"]), (&json!(true), &json!(1)), "{output}");
    assert_ne!(view["budget"]["estimatedCostUsd"], "0", "{view}");
    assert_eq!(view["metrics"]["turnCount"], 1, "all of it was one turn");

    let calls = session.tool_calls().await;
    let names: Vec<_> = calls.iter().filter_map(|call| call["toolName"].as_str()).collect();
    assert_eq!(names, ["bash", "read", "bash", "edit", "bash", "edit", "bash", "submit_output"]);
    assert!(calls.iter().all(|call| call["status"] != "Running"), "every call has its result");

    let id = view["output"]["outputId"].as_str().unwrap();
    let view = session.post("/approve", json!({ "outputId": id })).await.expect(200).body;
    assert_eq!(view["status"], "Completed");
    assert!(!session.everything().await.contains(KEY), "the API key of the model is visible");
    for request in model.requests() {
        assert!(!request.is_refused(), "the model refused: {:?}", request.refused);
    }
}

/// The owner shows images to the native agent, and lets it work in two conversations, with the program `pilothouse`.
#[tokio::test]
async fn owner_shows_images_and_switches_the_conversation() {
    /// A picture of one point.
    const POINT: &str =
        "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
    let answers = ["A point.", "The same.", "Something.", "Back."].map(Step::text);
    let model = ModelServer::start(Script::of(answers)).await.unwrap();
    let environment = [("ANTHROPIC_BASE_URL", &*model.base_url()), ("ANTHROPIC_API_KEY", KEY)];
    let server = ServerProcess::start_with(1, &environment).await;
    let work = server.work_folder();
    std::fs::write(work.join("point.png"), STANDARD.decode(POINT).unwrap()).unwrap();
    let run = ["run", "What is this?", "--adapter", "native", "--detach", "--image", "point.png"];
    let started = pilothouse(&server, &work, &run).await;
    let session = Session::of_start(&server.api(), started);
    let id = session.id.clone();
    let turns = async |count: u64| {
        session.until("a turn", |v| v["status"] == "Idle" && v["metrics"]["turnCount"] == count).await;
        model.prompts().pop().unwrap().body["messages"].to_string()
    };
    let pictures = |messages: &str| messages.matches(POINT).count();
    assert_eq!(pictures(&turns(1).await), 1);
    pilothouse(&server, &work, &["send", &id, "And this?", "--image", "point.png"]).await;
    assert_eq!(pictures(&turns(2).await), 2);

    pilothouse(&server, &work, &["conversation", "label", &id, "two", "points"]).await;
    pilothouse(&server, &work, &["conversation", "new", &id]).await;
    session.say("Think of something else.", "Queued").await;
    let fresh = turns(3).await;
    assert!(pictures(&fresh) == 0 && !fresh.contains("What is this?"), "{fresh}");
    let listed = pilothouse(&server, &work, &["conversation", "list", &id]).await;
    assert_eq!(listed["labels"][0]["label"], "two points");
    let labelled = listed["labels"][0]["turnId"].as_str().unwrap();
    assert_eq!(listed["branches"][0]["lastTurnId"], labelled);
    pilothouse(&server, &work, &["conversation", "switch", &id, "--turn", labelled]).await;
    session.say("Go on.", "Queued").await;
    let back = turns(4).await;
    assert!(pictures(&back) == 2 && !back.contains("something else"), "{back}");
}

/// The native agent proposes options. Arguments that do not fit are returned to it with every violation; the owner's choice is the
/// result of its call.
#[tokio::test]
async fn native_agent_proposes_options_to_its_owner() {
    let option = |id: &str| json!({ "id": id, "label": id, "description": "d", "tradeoffs": "t" });
    let wrong = json!({ "title": "Which store?", "options": [{ "id": "a", "label": "A" }] });
    let right = json!({ "title": "Which store?", "summary": "We need one.", "options": [option("sqlite"), option("postgres")],
        "recommendedOptionId": "sqlite" });
    let steps =
        [Step::tool("request_decision", wrong), Step::tool("request_decision", right), Step::text("Done.")];
    let model = ModelServer::start(Script::of(steps)).await.unwrap();
    let environment = [("ANTHROPIC_BASE_URL", &*model.base_url()), ("ANTHROPIC_API_KEY", KEY)];
    let server = ServerProcess::start_with(1, &environment).await;
    let work = server.work_folder();
    let started =
        pilothouse(&server, &work, &["run", "Choose a store.", "--adapter", "native", "--detach"]).await;
    let session = Session::of_start(&server.api(), started);
    session.until_status("WaitingForInput").await;
    let found = session.api.all(&format!("/api/decisions?session={}", session.id)).await;
    assert_eq!((found[0]["kind"].as_str(), found.len()), (Some("option"), 1), "{found:#?}");
    let resolved = pilothouse(
        &server,
        &work,
        &["resolve", found[0]["id"].as_str().unwrap(), "choose", "2", "--rationale", "we have it"],
    )
    .await;
    assert_eq!(resolved["resolution"]["chosenOptionId"], "postgres");
    session.until_said("Done.").await;
    let calls = session.tool_calls().await;
    let results: Vec<_> = calls.iter().map(|call| call["result"]["content"].to_string()).collect();
    for violation in
        ["`summary` is missing", "`options` must have 2 to 9 options", "`options[0].tradeoffs` is missing"]
    {
        assert!(results.iter().any(|text| text.contains(violation)), "{violation}: {results:?}");
    }
    assert!(
        results.iter().any(|text| text.contains("postgres") && text.contains("we have it")),
        "{results:?}"
    );
}

/// A model without a known price is called only after its owner allows it. The owner is notified once.
#[tokio::test]
async fn unpriced_model_requires_unmetered_spend() {
    let said = || Step::text("Done without a price.");
    let model = ModelServer::start(Script::of([said(), said(), said()])).await.unwrap();
    let environment = [("ANTHROPIC_BASE_URL", &*model.base_url()), ("ANTHROPIC_API_KEY", KEY)];
    let server = ServerProcess::start_with(2, &environment).await;
    let work = server.work_folder();
    let run = ["run", "say it", "--adapter", "native", "--model", "anthropic/brand-new", "--detach"];

    let started = pilothouse(&server, &work, &run).await;
    let session = Session::of_start(&server.api(), started);
    let id = session.id.clone();
    let view = session.until_status("Paused").await;
    let reason = (&view["pausedReason"], &view["budget"]["unmetered"]);
    assert_eq!(reason, (&json!("unmetered"), &json!(true)), "{view}");
    assert!(model.prompts().is_empty(), "no model call before the owner allows it");
    session.post("/resume", json!({})).await.refused(409, "unmetered");
    session.patch("/budget", json!({ "capUsd": "50" })).await.refused(409, "unmetered");
    let notified = server.api().get("/api/notifications").await.expect(200).body;
    assert_eq!(notified["items"][0]["kind"], "spend-unmetered", "{notified}");
    let budget = pilothouse(&server, &work, &["budget", "set", &id, "--allow-unmetered"]).await;
    assert_eq!(budget["allowUnmetered"], true, "{budget}");
    session.post("/resume", json!({})).await.expect(202);
    session.until_said("Done without a price.").await;
    session.until_status("Idle").await;

    // After an unmetered session, a start with a cap is refused for the same model, but not for another one.
    let mut body = json!({ "workingDirectory": work, "objective": "say it", "adapter": "native",
        "modelId": "anthropic/brand-new", "budgetCapUsd": "5" });
    let start = async |body: &Value| server.api().post("/api/agents/sessions", body.clone()).await;
    let refused = start(&body).await.refused(409, "unmetered");
    assert!(refused.text.contains("allowUnmetered"), "{}", refused.text);
    assert_eq!(server.api().all("/api/agents/sessions").await.len(), 1, "nothing was started");
    body["modelId"] = json!("anthropic/claude-sonnet-4-5");
    let other = start(&body).await.expect(201).body;
    let other = Session::of_start(&server.api(), other);
    other.until_status("Idle").await;

    let started = pilothouse(&server, &work, &[&run[..], &["--allow-unmetered"]].concat()).await;
    let session = Session::of_start(&server.api(), started);
    session.until_said("Done without a price.").await;
    let view = session.until_status("Idle").await;
    assert_eq!(view["budget"]["unmetered"], true, "{view}");
}

async fn within<T>(waits: impl Future<Output = T>) -> T {
    tokio::time::timeout(pilothouse_tests::PATIENCE, waits).await.expect("the model is called")
}

/// A result that violates the schema of the brief is returned to the agent, which corrects it.
#[tokio::test]
async fn native_agent_corrects_a_result_that_violates_its_schema() {
    let submit =
        |result: Value| Step::tool("submit_output", json!({ "allTestsPassing": true, "result": result }));
    let steps = [
        submit(json!({ "total": "seven" })),
        Step::text("Submitted."),
        submit(json!({ "total": 7 })),
        Step::text("Corrected."),
    ];
    let model = ModelServer::start(Script::of(steps)).await.unwrap();
    let environment = [("ANTHROPIC_BASE_URL", &*model.base_url()), ("ANTHROPIC_API_KEY", KEY)];
    let server = ServerProcess::start_with(1, &environment).await;
    let api = server.api();
    let project = json!({ "name": "Shop", "workstreams": [{ "id": "shop", "name": "The shop" }] });
    let project = api.post("/api/projects", project).await.expect(201).body;
    let schema =
        json!({ "type": "object", "required": ["total"], "properties": { "total": { "type": "integer" } } });
    let body = json!({
        "projectId": project["id"],
        "brief": { "role": "Counter", "workstream": "shop", "adapter": "native", "outputSchema": schema },
        "objective": "Count the tea.", "workingDirectory": server.work_folder(), "budgetCapUsd": "5",
    });
    let session = Session::spawn(&api, body).await;
    let view = session.until("output", |view| view["hasPendingReview"] == true).await;
    assert_eq!(
        (&view["output"]["result"], &view["output"]["violations"]),
        (&json!({ "total": 7 }), &Value::Null)
    );
    let prompts = model.prompts();
    assert!(prompts[0].text().contains("\"integer\""), "the agent knows the schema");
    assert!(
        prompts[2].text().contains("- /total must be of type integer"),
        "the agent learns of the violation"
    );
}

/// The brief asks for some files. They are artifacts without a report by the agent.
#[tokio::test]
async fn files_that_the_brief_names_become_artifacts_when_the_agent_writes_them() {
    let write = |path: &str, content: &str| Step::tool("write", json!({ "path": path, "content": content }));
    let edit =
        json!({ "path": "docs/guide.md", "edits": [{ "old_text": "Kettles", "new_text": "Teapots" }] });
    let steps = [
        write("docs/guide.md", "Kettles have a lid.\n"),
        write("notes.txt", "Not a result.\n"),
        Step::tool("edit", edit),
        Step::text("Written."),
    ];
    let model = ModelServer::start(Script::of(steps)).await.unwrap();
    let environment = [("ANTHROPIC_BASE_URL", &*model.base_url()), ("ANTHROPIC_API_KEY", KEY)];
    let server = ServerProcess::start_with(1, &environment).await;
    let work = server.work_folder();
    let files = json!([{ "pattern": "docs/*.md", "kind": "document" }]);
    let brief = json!({ "role": "Writer", "workstream": "api", "adapter": "native", "artifactFiles": files });
    std::fs::write(work.join("brief.json"), brief.to_string()).unwrap();
    let run = async |arguments: &[&str]| pilothouse(&server, &work, arguments).await;
    run(&["project", "create", "Shop", "--workstream", "api"]).await;
    let spawned = run(&["agent", "spawn", "Write a guide", "--brief", "brief.json"]).await;
    let session = Session::of_start(&server.api(), spawned);
    session.until_said("Written.").await;
    let calls = session.tool_calls().await;
    let failed: Vec<_> = calls.iter().filter(|call| call["result"]["isError"] == true).collect();
    assert!(failed.is_empty(), "{failed:#?}");
    let listed = run(&["artifacts", "ls", "--workstream", "api"]).await;
    assert_eq!(listed["items"].as_array().unwrap().len(), 1, "{listed}");
    assert_eq!(
        (&listed["items"][0]["path"], &listed["items"][0]["version"]),
        (&json!("docs/guide.md"), &json!(2))
    );
    let shown = run(&["artifacts", "show", "docs/guide.md"]).await;
    assert_eq!(shown["artifact"]["latest"]["sourcePath"], "docs/guide.md");
    run(&["artifacts", "get", "docs/guide.md", "--output", "copy.md"]).await;
    assert_eq!(std::fs::read_to_string(work.join("copy.md")).unwrap(), "Teapots have a lid.\n");
}

/// The native agent reports a file. Its owner reads, compares and approves it with the command line.
#[tokio::test]
async fn native_agent_reports_a_file_of_its_working_directory() {
    let report = |path: &str| json!({ "path": path, "kind": "code", "tags": ["orders"] });
    let steps = [
        Step::tool("report_artifact", report("src/orders.py")),
        Step::tool("report_artifact", report("secret")),
        Step::tool("report_artifact", report("src/missing.py")),
        Step::text("Reported."),
    ];
    let model = ModelServer::start(Script::of(steps)).await.unwrap();
    let environment = [("ANTHROPIC_BASE_URL", &*model.base_url()), ("ANTHROPIC_API_KEY", KEY)];
    let server = ServerProcess::start_with(1, &environment).await;
    let work = server.work_folder();
    std::fs::create_dir_all(work.join("src")).unwrap();
    std::fs::write(work.join("src/orders.py"), "price = 5\n").unwrap();
    std::os::unix::fs::symlink("/etc/hostname", work.join("secret")).unwrap();
    std::fs::write(
        work.join("brief.json"),
        json!({ "role": "Builder", "workstream": "api", "adapter": "native" }).to_string(),
    )
    .unwrap();
    let run = async |arguments: &[&str]| pilothouse(&server, &work, arguments).await;
    run(&["project", "create", "Shop", "--workstream", "api"]).await;
    let spawned = run(&["agent", "spawn", "Build the orders", "--brief", "brief.json"]).await;
    let session = Session::of_start(&server.api(), spawned);
    session.until_said("Reported.").await;
    let calls = session.tool_calls().await;
    let results: Vec<_> = calls.iter().map(|call| call["result"]["content"].to_string()).collect();
    assert!(results[1].contains("outside of the working directory"), "{results:?}");
    assert!(results[2].contains("It was not stored"), "{results:?}");

    let listed = run(&["artifacts", "ls", "--workstream", "api", "--agent", "Builder"]).await;
    assert_eq!(listed["items"].as_array().unwrap().len(), 1, "{listed}");
    assert_eq!(listed["items"][0]["path"], "src/orders.py");
    let shown = run(&["artifacts", "show", "src/orders.py"]).await;
    assert_eq!(shown["artifact"]["latest"]["sourcePath"], "src/orders.py");
    run(&["artifacts", "get", "src/orders.py", "--output", "copy.py"]).await;
    assert_eq!(std::fs::read_to_string(work.join("copy.py")).unwrap(), "price = 5\n");
    let approved = run(&["artifacts", "approve", "src/orders.py"]).await;
    assert_eq!(approved["state"], "approved");
    let snapshot = run(&["knowledge", "snapshot", "Builder"]).await;
    assert_eq!(snapshot["artifactIndex"][0]["status"], "approved", "{snapshot}");
    let look = async || {
        let found = run(&["knowledge", "search", "orders"]).await;
        (found["items"].as_array().unwrap().len() == 2).then_some(())
    };
    session.until_within(pilothouse_tests::PATIENCE, "the index", look).await;
}
