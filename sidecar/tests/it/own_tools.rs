//! The sidecar's own tools over MCP, through the program that an agent starts. The agent API is a fake HTTP server
//! that records requests and returns prepared responses.

use std::fs::Permissions;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;
use std::process::Stdio;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::response::{IntoResponse as _, Response};
use pilothouse_domain::AgentSkillId;
use pilothouse_domain::value::Answer;
use pilothouse_sidecar::adapter::{EventSink, OwnerAnswers};
use pilothouse_sidecar::own_tools::{OwnTools, ToolServer, server};
use pilothouse_sidecar::process::{AgentUser, Processes};
use pilothouse_sidecar::spool::{Sealer, Spool};
use pilothouse_wire::Signed;
use pilothouse_wire::launch::SidecarLaunch;
use rmcp::ServiceExt as _;
use rmcp::model::CallToolRequestParams;
use rmcp::service::{RoleClient, RunningService};
use serde_json::{Value, json};
use tokio::process::{Child, Command};
use tokio::time::timeout;
use uuid::Uuid;

use crate::gateway::{DEADLINE, Gateway};
use crate::sidecar::Folders;

const KEY: &str = "ph_the_key_of_the_session";

/// Path, key, idempotency key, body.
type Asked = (String, Option<String>, Option<String>, Value);
/// Status, headers, body.
type Reply = (u16, Vec<(&'static str, &'static str)>, Value);

#[derive(Default)]
struct Fake {
    asked: Vec<Asked>,
    replies: Vec<Reply>,
}

type Shared = Arc<Mutex<Fake>>;

async fn reply(State(fake): State<Shared>, uri: Uri, headers: HeaderMap, body: Bytes) -> Response {
    let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).map(str::to_owned);
    let mut fake = fake.lock().unwrap();
    let body = serde_json::from_slice(&body).unwrap();
    fake.asked.push((uri.path().to_owned(), header("authorization"), header("idempotency-key"), body));
    let next = if fake.replies.is_empty() { (201, vec![], json!({})) } else { fake.replies.remove(0) };
    let (status, more, body) = next;
    let mut response = (StatusCode::from_u16(status).unwrap(), body.to_string()).into_response();
    for (name, value) in more {
        response.headers_mut().insert(name, value.parse().unwrap());
    }
    response
}

struct Given {
    launch: SidecarLaunch,
    fake: Shared,
    spool: Spool,
    tools: OwnTools,
    server: ToolServer,
    folders: Folders,
    _gateway: Gateway,
}

impl Given {
    async fn new() -> Self {
        Self::of_agent(None).await
    }

    /// A run whose agent runs as `user`, who may use its working directory.
    async fn of_agent(user: Option<AgentUser>) -> Self {
        let gateway = Gateway::start().await;
        let folders = Folders::new(&gateway);
        let fake = Shared::default();
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut launch = folders.launch(&gateway);
        launch.agent_api.url = format!("http://{}", listener.local_addr().unwrap());
        launch.agent_api.api_key = KEY.into();
        std::fs::create_dir_all(&launch.session_home).unwrap();
        if let Some(user) = &user {
            let passable = Permissions::from_mode(0o711);
            for folder in [folders.root(), Path::new(&launch.session_home)] {
                std::fs::set_permissions(folder, passable.clone()).unwrap();
            }
            let work = folders.root().join("work");
            std::fs::create_dir(&work).unwrap();
            user.own(&work).unwrap();
            launch.request.working_directory = work.to_str().unwrap().into();
        }
        let app = Router::new().fallback(reply).with_state(Arc::clone(&fake));
        tokio::spawn(async move { axum::serve(listener, app).await });
        let spool = Spool::open(&folders.root().join("spool.db"), Sealer::new(&launch)).unwrap();
        let processes = Processes::guarded_by(program().into(), user);
        let tools = OwnTools::new(&launch, EventSink::new(spool.clone()), &processes).unwrap();
        let server = tools.serve(&launch).unwrap();
        Self { launch, fake, spool, tools, server, folders, _gateway: gateway }
    }

    fn respond(&self, status: u16, headers: &[(&'static str, &'static str)], body: Value) {
        self.fake.lock().unwrap().replies.push((status, headers.to_vec(), body));
    }

    fn asked(&self) -> Vec<(String, Option<String>, Option<String>, Value)> {
        self.fake.lock().unwrap().asked.clone()
    }

    async fn events_of(&self, kind: &str) -> Vec<Value> {
        let batch = self.spool.batch(1000, usize::MAX).await.unwrap();
        let body = |text: &str| {
            let signed = Signed::parse(text).unwrap();
            let envelope: Value = serde_json::from_str(signed.envelope.get()).unwrap();
            envelope["body"].clone()
        };
        batch.entries.iter().map(|entry| body(&entry.body)).filter(|body| body["type"] == kind).collect()
    }

    /// An agent that knows only its MCP configuration.
    async fn agent(&self) -> Agent {
        let config = server::mcp_server_config(program(), self.server.socket());
        assert!(!format!("{config:?}").contains(KEY));
        let mut child = Command::new(&config.command)
            .args(&config.args)
            .env_clear()
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let streams = (child.stdout.take().unwrap(), child.stdin.take().unwrap());
        let client = timeout(DEADLINE, ().serve(streams)).await.unwrap().unwrap();
        Agent { client, child }
    }
}

fn program() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_pilothouse-sidecar"))
}

struct Agent {
    client: RunningService<RoleClient, ()>,
    child: Child,
}

impl Agent {
    /// Calls a tool. Returns whether it failed, and its text.
    async fn call(&self, name: &'static str, arguments: Value) -> (bool, String) {
        let request = CallToolRequestParams::new(name).with_arguments(arguments.as_object().unwrap().clone());
        let result = timeout(DEADLINE, self.client.call_tool(request)).await.unwrap().unwrap();
        let content = serde_json::to_value(&result.content).unwrap();
        let text = content[0]["text"].as_str().unwrap().to_owned();
        assert!(!text.contains(KEY));
        (result.is_error.unwrap_or(false), text)
    }
}

fn two() -> Value {
    let one = |id: &str| json!({ "id": id, "description": "d", "acceptanceCriteria": ["c"] });
    json!({ "operation": "create", "deliverables": [one("DL-1"), one("DL-2")] })
}

#[tokio::test]
async fn agent_sees_tools_with_schemas_that_every_provider_accepts() {
    let given = Given::new().await;
    let agent = given.agent().await;
    let listed = timeout(DEADLINE, agent.client.list_all_tools()).await.unwrap().unwrap();
    let names: Vec<_> = listed.iter().map(|tool| tool.name.as_ref()).collect();
    let all = [
        "deliverable",
        "handoff",
        "memory_pill",
        "create_task",
        "record_learning",
        "log_decision",
        "propose_consolidation",
        "request_decision",
        "submit_output",
    ];
    assert_eq!(names, all);
    for tool in listed {
        let schema = Value::Object(tool.input_schema.as_ref().clone());
        assert_eq!(schema["type"], "object", "{schema}");
        for name in ["oneOf", "anyOf", "allOf", "$defs", "$ref"] {
            assert!(schema.get(name).is_none(), "{}: {name}", tool.name);
        }
        assert!(!schema.to_string().contains("$ref"), "{schema}");
        assert!(!tool.description.unwrap().is_empty());
    }
}

#[tokio::test]
async fn deliverables_are_created_and_updated_over_mcp() {
    let given = Given::new().await;
    let agent = given.agent().await;
    let (failed, text) = agent.call("deliverable", two()).await;
    assert!(!failed, "{text}");
    let result: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(result, json!({ "success": true, "message": "Created 2 deliverables: DL-1, DL-2." }));
    let set =
        |id: &str, status: &str| json!({ "operation": "set_status", "deliverableId": id, "status": status });
    assert!(!agent.call("deliverable", set("DL-1", "passed")).await.0);
    let (failed, text) = agent.call("deliverable", set("DL-1", "blocked")).await;
    let refused: Value = serde_json::from_str(&text).unwrap();
    assert!(failed && refused["success"] == false && refused["message"].is_string(), "{text}");
    assert_eq!(refused["error"], "invalid-transition");
    let (failed, text) = agent.call("deliverable", two()).await;
    assert!(failed && text.contains("`DL-1` exists already; deliverables[1]"), "every violation: {text}");
    for wrong in [
        json!({}),
        json!({ "operation": "delete" }),
        json!({ "operation": "create" }),
        json!({ "operation": "set_status", "deliverableId": "DL-1" }),
        json!({ "operation": "set_status", "deliverableId": "DL-1", "status": "done" }),
    ] {
        assert!(agent.call("deliverable", wrong.clone()).await.0, "{wrong}");
    }
    let events = given.events_of("deliverables").await;
    assert_eq!(events.len(), 2);
    assert_eq!(events[1]["deliverables"][0]["status"], "passed");
    assert!(given.folders.root().join(".pilothouse/status.json").is_file());
}

#[tokio::test]
async fn handoff_counts_once_from_any_caller() {
    let given = Given::new().await;
    let (one, other) = (given.agent().await, given.agent().await);
    let document = json!({ "reason": "full", "summary": "did a", "remainingWork": "do b" });
    let (failed, text) = one.call("handoff", json!({ "reason": "full", "summary": "" })).await;
    assert!(failed && given.events_of("voluntary_handoff").await.is_empty(), "{text}");
    let (first, second) =
        tokio::join!(one.call("handoff", document.clone()), other.call("handoff", document));
    assert!(first.0 != second.0, "{first:?} {second:?}");
    let events = given.events_of("voluntary_handoff").await;
    assert_eq!(events.len(), 1);
    assert_eq!((&events[0]["reason"], &events[0]["remainingWork"]), (&json!("full"), &json!("do b")));
    assert_eq!(events[0]["summary"], "did a");
}

#[tokio::test]
async fn agent_api_calls_use_a_key_hidden_from_the_agent() {
    let given = Given::new().await;
    let agent = given.agent().await;
    let skill = AgentSkillId::new(Uuid::now_v7());
    let session = given.launch.request.session_id;
    let pill = json!({ "skillId": skill, "content": "Run the linter first.", "category": "Tip" });
    assert!(!agent.call("memory_pill", pill).await.0);
    given.respond(201, &[], json!({ "taskId": "t-1" }));
    let task = json!({ "title": "Update the docs", "priority": "High" });
    assert_eq!(
        agent.call("create_task", task.clone()).await,
        (false, "The task is created: t-1.".to_owned())
    );
    let learning = json!({ "kind": "Person", "subject": "Ada", "content": "Prefers short mails." });
    assert!(!agent.call("record_learning", learning.clone()).await.0);
    assert!(!agent.call("log_decision", json!({ "content": "SQLite, since one process writes." })).await.0);
    let proposal = json!({ "pillIds": [Uuid::now_v7()], "updatedInstructions": "Run the linter first." });
    let mut proposes = proposal.clone();
    proposes["skillId"] = json!(skill);
    assert!(!agent.call("propose_consolidation", proposes).await.0);
    let output = json!({ "allTestsPassing": true, "testsAdded": 2 });
    assert!(!agent.call("submit_output", output).await.0);
    let asked = given.asked();
    let paths: Vec<_> = asked.iter().map(|(path, ..)| path.clone()).collect();
    assert_eq!(
        paths,
        [
            format!("/api/agent/skills/{skill}/memory-pills"),
            "/api/agent/tasks".to_owned(),
            "/api/agent/learnings".to_owned(),
            format!("/api/agent/sessions/{session}/log"),
            format!("/api/agent/skills/{skill}/consolidation"),
            format!("/api/agent/sessions/{session}/output"),
        ]
    );
    assert_eq!(asked[0].3, json!({ "content": "Run the linter first.", "category": "Tip" }));
    assert_eq!((&asked[1].3, &asked[2].3), (&task, &learning));
    assert_eq!((&asked[4].3, &asked[5].3["testsAdded"]), (&proposal, &json!(2)));
    assert!(asked.iter().all(|(_, key, id, _)| *key == Some(format!("Bearer {KEY}")) && id.is_some()));
}

#[tokio::test]
async fn agent_api_refusal_is_reported_with_its_reason() {
    let given = Given::new().await;
    let agent = given.agent().await;
    let call = || agent.call("log_decision", json!({ "content": "x" }));
    given.respond(429, &[("retry-after", "7")], json!({ "title": "Too many calls" }));
    let (failed, text) = call().await;
    assert!(failed && text.starts_with("Too many calls. Try again in 7 s, at 20"), "{text}");
    given.respond(401, &[], json!({ "title": "no" }));
    assert!(call().await.1.contains("may not call the agent API any more"));
    let problem = json!({
        "title": "Unprocessable", "detail": "The input is not valid.",
        "violations": [{ "field": "content", "message": "must have 1 to 2000 characters" }],
    });
    given.respond(422, &[], problem);
    assert_eq!(
        call().await,
        (true, "It was not done: The input is not valid. content: must have 1 to 2000 characters".to_owned())
    );
    assert_eq!(given.asked().len(), 3, "none of these is tried again");
}

#[tokio::test]
async fn call_with_a_lost_response_is_retried_and_counts_once() {
    let given = Given::new().await;
    let agent = given.agent().await;
    given.respond(503, &[], json!({}));
    given.respond(500, &[], json!({}));
    assert!(!agent.call("log_decision", json!({ "content": "x" })).await.0);
    let ids: std::collections::HashSet<_> = given.asked().into_iter().map(|(_, _, id, _)| id).collect();
    assert_eq!((given.asked().len(), ids.len()), (3, 1), "the idempotency key stays the same");
}

#[tokio::test]
async fn an_unknown_tool_is_refused_and_the_connection_stays() {
    let given = Given::new().await;
    let agent = given.agent().await;
    let unknown = agent.client.call_tool(CallToolRequestParams::new("rm")).await;
    assert!(unknown.unwrap_err().to_string().contains("there is no tool `rm`"));
    assert!(!agent.call("deliverable", two()).await.0);
}

#[tokio::test]
async fn tool_program_ends_with_its_server() {
    let given = Given::new().await;
    let mut agent = given.agent().await;
    let socket = given.server.socket().to_owned();
    drop(given.server);
    let status = timeout(DEADLINE, agent.child.wait()).await.unwrap().unwrap();
    assert!(status.success());
    assert!(!socket.exists());
    let late = Command::new(program()).arg("tools").arg(&socket).stdin(Stdio::null()).output().await.unwrap();
    assert!(!late.status.success());
    let said = String::from_utf8_lossy(&late.stderr);
    assert!(said.contains("failed to connect to the tools of the session"), "{said}");
    assert!(given.tools.shared().len() > 1);
}

#[tokio::test]
async fn tool_program_ends_with_its_agent() {
    let given = Given::new().await;
    let Agent { client, mut child } = given.agent().await;
    client.cancel().await.unwrap();
    assert!(timeout(DEADLINE, child.wait()).await.unwrap().unwrap().success());
}

#[tokio::test]
async fn agent_under_another_user_has_tools_and_owns_deliverables() {
    if !nix::unistd::geteuid().is_root() {
        eprintln!("not tested: only root can start processes of another user");
        return;
    }
    let user: AgentUser = "10002:10002:/nonexistent".parse().unwrap();
    let given = Given::of_agent(Some(user.clone())).await;
    let socket = given.server.socket().to_owned();
    let mode = std::fs::metadata(&socket).unwrap();
    assert_eq!((mode.uid(), mode.permissions().mode() & 0o777), (10002, 0o600));
    let config = server::mcp_server_config(program(), &socket);
    let mut bridge = Processes::guarded_by(program().into(), Some(user)).command(&config.command).unwrap();
    bridge.command().args(&config.args).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut bridge = bridge.spawn().unwrap();
    let streams = (bridge.stdout().unwrap(), bridge.stdin().unwrap());
    let client = timeout(DEADLINE, ().serve(streams)).await.unwrap().unwrap();
    let request =
        CallToolRequestParams::new("deliverable").with_arguments(two().as_object().unwrap().clone());
    let result = timeout(DEADLINE, client.call_tool(request)).await.unwrap().unwrap();
    assert_eq!(result.is_error, Some(false));
    let file = given.folders.root().join("work/.pilothouse/status.json");
    assert_eq!(std::fs::metadata(&file).unwrap().uid(), 10002);
    assert_eq!(std::fs::metadata(file.parent().unwrap()).unwrap().uid(), 10002);
}

/// A served tool waits for the owner: its question is published, and the choice is its result. A call that ends without an answer ends
/// its question.
#[tokio::test]
async fn decision_of_the_owner_is_the_result_of_a_served_tool() {
    let given = Given::new().await;
    let agent = given.agent().await;
    let option = |id: &str| json!({ "id": id, "label": id, "description": "d", "tradeoffs": "t" });
    let arguments =
        json!({ "title": "Which store?", "summary": "s", "options": [option("sqlite"), option("postgres")] });
    let owner = async {
        let asked = loop {
            match given.events_of("question_asked").await.pop() {
                Some(asked) => break asked,
                None => tokio::task::yield_now().await,
            }
        };
        let request: pilothouse_domain::ToolCallId = asked["requestId"].as_str().unwrap().parse().unwrap();
        let question = asked["questions"][0]["question"].as_str().unwrap().to_owned();
        let answers = vec![Answer { question, answer: "postgres: we have it".to_owned() }];
        assert!(given.tools.requests().waiting().contains(&request));
        given.tools.requests().answer(OwnerAnswers { request, answers, modified_input: None }).unwrap();
    };
    let ((failed, text), ()) = tokio::join!(agent.call("request_decision", arguments.clone()), owner);
    let result: Value = serde_json::from_str(&text).unwrap();
    assert!(
        !failed && result["chosenOptionId"] == "postgres" && result["rationale"] == "we have it",
        "{text}"
    );
    assert_eq!(
        given.events_of("tool_result").await,
        [] as [Value; 0],
        "the agent reports the result of its call"
    );

    let asking = agent.call("request_decision", arguments);
    let leaving = async {
        while given.tools.requests().waiting().is_empty() {
            tokio::task::yield_now().await;
        }
    };
    tokio::select! {
        answered = asking => panic!("{answered:?}"),
        () = leaving => {}
    }
    drop(agent);
    let withdrawn = async {
        while given.events_of("tool_result").await.is_empty() {
            tokio::task::yield_now().await;
        }
    };
    timeout(DEADLINE, withdrawn).await.expect("the question ends with the agent");
    assert!(given.tools.requests().waiting().is_empty());
}
