use std::path::Path;
use std::sync::Mutex;
use std::time::Instant;

use async_trait::async_trait;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::*;
use crate::message::UserContent;
use crate::tool::{ToolContext, ToolOutput};
use crate::workspace::Environment;

/// A minimal server with protocol version 2025-06-18. It logs its input to a file, lists two tools per page, and
/// behaves according to the tool's name.
const SERVER: &str = r#"
import json, os, subprocess, sys
log = open("log", "a", buffering=1)
schema = {"type": "object", "properties": {"text": {"type": "string"}}}
names = ["echo", "fail", "image", "wait", "die", "ask", "structured", "refuse"]
tools = [{"name": name, "description": "does " + name, "inputSchema": schema} for name in names]
tools.append({"name": "broken", "inputSchema": {"type": "nonsense"}})
def result(method, params, answer_of):
    if method == "initialize":
        return {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "instructions": "Be kind.",
                "serverInfo": {"name": "test", "version": "1"}}
    if method == "tools/list":
        start = int((params or {}).get("cursor") or 0)
        page = {"tools": tools[start:start + 2]}
        if start + 2 < len(tools): page["nextCursor"] = str(start + 2)
        return page
    name, arguments = params["name"], params.get("arguments") or {}
    text = lambda text, **more: {"content": [{"type": "text", "text": text}], **more}
    if name == "echo": return text(arguments.get("text", "") + os.environ.get("GIVEN", ""))
    if name == "fail": return text("it failed", isError=True)
    if name == "image": return {"content": [{"type": "image", "mimeType": "image/png", "data": "AAAA"},
        {"type": "resource_link", "name": "doc", "uri": "file:///doc"},
        {"type": "resource", "resource": {"uri": "file:///x", "text": "inner"}}]}
    if name == "structured": return {"content": [], "structuredContent": {"a": 1}}
    if name == "die": os._exit(1)
    if name == "ask":
        form = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
        answer = answer_of("elicitation/create", {"message": "Who?", "requestedSchema": form})
        return text(json.dumps(answer, sort_keys=True))
"#;

const STDIO: &str = r#"
child = subprocess.Popen(["sleep", "600"])
with open("pids", "a") as pids: pids.write(f"{os.getpid()}\n{child.pid}\n")
print("this is no message", flush=True)
print("a complaint", file=sys.stderr, flush=True)
def say(message): print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)
def answer_of(method, params):
    say({"id": "s1", "method": method, "params": params})
    for line in sys.stdin:
        message = json.loads(line)
        if message.get("id") == "s1": return message["result"]
if os.environ.get("SILENT"): sys.stdin.read()
for line in sys.stdin:
    log.write(line)
    message = json.loads(line)
    if "id" not in message or "method" not in message: continue
    name = (message.get("params") or {}).get("name")
    if name == "wait":
        command = subprocess.Popen(["sleep", "602"])
        with open("command.new", "w") as pid: pid.write(str(command.pid))
        os.rename("command.new", "command")
        continue
    if name == "refuse": say({"id": message["id"], "error": {"code": -32602, "message": "never"}}); continue
    say({"id": message["id"], "result": result(message["method"], message.get("params"), answer_of)})
"#;

/// Tools respond with an event stream, other requests with JSON.
const HTTP: &str = r#"
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
class Handler(BaseHTTPRequestHandler):
    def log_message(self, *args): pass
    def answer(self, status, kind=None, body=b"", **headers):
        self.send_response(status)
        if kind: self.send_header("Content-Type", kind)
        for name, value in headers.items(): self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def do_GET(self): self.answer(405)
    def do_DELETE(self): self.answer(200)
    def do_POST(self):
        message = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        log.write(json.dumps({"key": self.headers.get("X-Key"), "session": self.headers.get("Mcp-Session-Id"), **message}) + "\n")
        if "id" not in message: return self.answer(202)
        method = message["method"]
        body = {"jsonrpc": "2.0", "id": message["id"], "result": result(method, message.get("params"), None)}
        body = json.dumps(body).encode()
        if method == "initialize": return self.answer(200, "application/json", body, Mcp_Session_Id="one")
        if method == "tools/call": return self.answer(200, "text/event-stream", b"event: message\ndata: " + body + b"\n\n")
        self.answer(200, "application/json", body)
server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
with open("port.new", "w") as port: port.write(str(server.server_port))
os.rename("port.new", "port")
server.serve_forever()
"#;

struct Fixture {
    dir: tempfile::TempDir,
    notices: Arc<Mutex<Vec<String>>>,
}

impl Fixture {
    fn new() -> Self {
        Self { dir: tempfile::tempdir().unwrap(), notices: Arc::default() }
    }

    fn program(&self, rest: &str) -> Program {
        let environment = Environment::of_this_process(&[]).with("GIVEN", "!");
        Program::new("python3", self.dir.path(), environment).args(["-c", &format!("{SERVER}{rest}")])
    }

    fn stdio(&self) -> McpServerConfig {
        let config = McpServerConfig::new("test", McpTransport::Stdio(Box::new(self.program(STDIO))));
        McpServerConfig { call_timeout: Duration::from_secs(20), ..config }
    }

    async fn connect(&self, configs: Vec<McpServerConfig>, elicit: Arc<dyn Elicit>) -> McpServers {
        let notices = self.notices.clone();
        let notify: Notify = Arc::new(move |notice| notices.lock().unwrap().push(notice));
        McpServers::connect(configs, &elicit, &notify).await
    }

    fn joined_notices(&self) -> String {
        self.notices.lock().unwrap().join("\n")
    }

    fn heard(&self) -> Vec<Value> {
        let log = std::fs::read_to_string(self.dir.path().join("log")).unwrap_or_default();
        log.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// Process ids over all starts of a stdio server.
    fn pids(&self) -> Vec<i32> {
        let pids = std::fs::read_to_string(self.dir.path().join("pids")).unwrap_or_default();
        pids.lines().map(|line| line.parse().unwrap()).collect()
    }

    async fn assert_dead(&self, count: usize) {
        until("its processes started", || self.pids().len() >= count).await;
        for pid in self.pids() {
            until("the processes of the server are dead", || !runs(pid)).await;
        }
    }
}

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

async fn call_with(
    servers: &McpServers,
    tool: &str,
    arguments: Value,
    cancelled: CancellationToken,
) -> ToolOutput {
    let tools = servers.tools();
    let tool = tools.iter().find(|known| known.spec().name == format!("mcp__test__{tool}")).unwrap();
    let (progress, _) = mpsc::unbounded_channel();
    tool.run(arguments, ToolContext { tool_call_id: "1".into(), cancelled, progress }).await
}

async fn call(servers: &McpServers, tool: &str, arguments: Value) -> ToolOutput {
    call_with(servers, tool, arguments, CancellationToken::new()).await
}

fn text(output: &ToolOutput) -> &str {
    match &output.content[0] {
        UserContent::Text { text } => text,
        UserContent::Image { .. } => panic!("{output:?}"),
    }
}

#[tokio::test]
async fn server_tools_become_agent_tools() {
    let fixture = Fixture::new();
    let servers = fixture.connect(vec![fixture.stdio()], Arc::new(DeclineAll)).await;
    let tools = servers.tools();
    let names: Vec<_> = tools.iter().map(|tool| tool.spec().name.as_str()).collect();
    let expected = ["echo", "fail", "image", "wait", "die", "ask", "structured", "refuse"];
    assert_eq!(names, expected.map(|name| format!("mcp__test__{name}")), "all pages of them");
    assert_eq!(tools[0].spec().description, "does echo");
    assert!(
        fixture.joined_notices().contains("the tool `broken` of the MCP server test is skipped"),
        "{}",
        fixture.joined_notices()
    );
    assert_eq!(servers.instructions().await, [("test".to_owned(), "Be kind.".to_owned())]);

    assert_eq!(call(&servers, "echo", json!({"text": "hi"})).await, ToolOutput::text("hi!"));
    assert_eq!(call(&servers, "fail", json!({})).await, ToolOutput::error("it failed"));
    assert_eq!(call(&servers, "structured", json!({})).await, ToolOutput::text("{\"a\":1}"));
    let refused = call(&servers, "refuse", json!({})).await;
    assert_eq!(refused, ToolOutput::error("the MCP server test refused: never"));
    assert_eq!(
        call(&servers, "image", json!({})).await.content,
        [
            UserContent::Image { mime_type: "image/png".into(), data: "AAAA".into() },
            UserContent::Text { text: "[doc: file:///doc]".into() },
            UserContent::Text { text: "[file:///x]\ninner".into() },
        ]
    );
    servers.close().await;
    fixture.assert_dead(2).await;
}

#[tokio::test]
async fn unselected_tools_are_left_out() {
    let fixture = Fixture::new();
    let only = Some(BTreeSet::from(["echo".to_owned(), "unheard_of".to_owned()]));
    let servers =
        fixture.connect(vec![McpServerConfig { only, ..fixture.stdio() }], Arc::new(DeclineAll)).await;
    assert_eq!(servers.tools().len(), 1);
    assert_eq!(fixture.joined_notices(), "");
}

#[tokio::test]
async fn crashed_server_fails_its_call_and_restarts_for_the_next() {
    let fixture = Fixture::new();
    let servers = fixture.connect(vec![fixture.stdio()], Arc::new(DeclineAll)).await;
    let died = call(&servers, "die", json!({})).await;
    assert!(died.is_error && text(&died).contains("was gone before it answered"), "{died:?}");
    assert_eq!(call(&servers, "echo", json!({"text": "again"})).await, ToolOutput::text("again!"));
    let pids = fixture.pids();
    assert_eq!(pids.len(), 4, "it was started twice");
    until("the child of the first is dead", || !runs(pids[1])).await;
    // Concurrent calls start it once.
    call(&servers, "die", json!({})).await;
    tokio::join!(call(&servers, "echo", json!({})), call(&servers, "echo", json!({})));
    assert_eq!(fixture.pids().len(), 6);
    drop(servers);
    fixture.assert_dead(6).await;
}

#[tokio::test]
async fn aborted_call_is_cancelled_at_the_server() {
    let fixture = Fixture::new();
    let servers = fixture.connect(vec![fixture.stdio()], Arc::new(DeclineAll)).await;
    let cancelled = CancellationToken::new();
    let hears = |method: &str| fixture.heard().iter().any(|message| message["method"] == method);
    let cutting = async {
        until("it was called", || fixture.dir.path().join("command").exists()).await;
        cancelled.cancel();
    };
    let (output, ()) = tokio::join!(call_with(&servers, "wait", json!({}), cancelled.clone()), cutting);
    assert_eq!(output, ToolOutput::error("The call was stopped."));
    let command = std::fs::read_to_string(fixture.dir.path().join("command")).unwrap();
    assert!(!runs(command.parse().unwrap()), "the process that the server started for the call has ended");
    until("the server hears of it", || hears("notifications/cancelled")).await;
    // The connection remains usable.
    assert_eq!(call(&servers, "echo", json!({"text": "on"})).await, ToolOutput::text("on!"));
}

#[tokio::test]
async fn slow_call_times_out() {
    let fixture = Fixture::new();
    let config = McpServerConfig { call_timeout: Duration::from_millis(200), ..fixture.stdio() };
    let servers = fixture.connect(vec![config], Arc::new(DeclineAll)).await;
    let late = call(&servers, "wait", json!({})).await;
    assert!(late.is_error && text(&late).contains("took longer than"), "{late:?}");
}

/// A user who answers with a name.
struct Somebody(Mutex<Vec<ElicitRequest>>);

#[async_trait]
impl Elicit for Somebody {
    async fn elicit(&self, request: ElicitRequest) -> ElicitResponse {
        self.0.lock().unwrap().push(request);
        ElicitResponse::Accept(Some(json!({"name": "Ada"})))
    }
}

#[tokio::test]
async fn a_server_asks_the_user() {
    let fixture = Fixture::new();
    let user = Arc::new(Somebody(Mutex::default()));
    let servers = fixture.connect(vec![fixture.stdio()], user.clone()).await;
    let answered = call(&servers, "ask", json!({})).await;
    assert_eq!(text(&answered), r#"{"action": "accept", "content": {"name": "Ada"}}"#);
    {
        let asked = user.0.lock().unwrap();
        assert_eq!((asked[0].server.as_str(), asked[0].message.as_str()), ("test", "Who?"));
        assert!(matches!(&asked[0].kind, ElicitKind::Form(schema) if schema["required"] == json!(["name"])));
    }
    assert!(fixture.heard()[0]["params"]["capabilities"]["elicitation"].is_object());

    let nobody = Fixture::new();
    let servers = nobody.connect(vec![nobody.stdio()], Arc::new(DeclineAll)).await;
    assert_eq!(text(&call(&servers, "ask", json!({})).await), r#"{"action": "decline"}"#);
    assert_eq!(nobody.heard()[0]["params"]["capabilities"], json!({}));
}

#[tokio::test]
async fn unreachable_servers_are_left_out() {
    let fixture = Fixture::new();
    let mut missing = fixture.program("");
    missing.program = "/no/such/server".into();
    let mut silent = fixture.program(STDIO);
    silent.environment = silent.environment.with("SILENT", "1");
    let configs = vec![
        McpServerConfig::new("missing", McpTransport::Stdio(Box::new(missing))),
        McpServerConfig {
            start_timeout: Duration::from_secs(1),
            ..McpServerConfig::new("silent", McpTransport::Stdio(Box::new(silent)))
        },
        McpServerConfig::new(
            "closed",
            McpTransport::Http { url: "http://127.0.0.1:1/mcp".into(), headers: BTreeMap::new() },
        ),
    ];
    let servers = fixture.connect(configs, Arc::new(DeclineAll)).await;
    assert!(servers.tools().is_empty());
    let notices = fixture.joined_notices();
    assert!(notices.contains("the MCP server missing cannot be reached"), "{notices}");
    assert!(notices.contains("the MCP server silent took longer than 1 seconds"), "{notices}");
    assert!(notices.contains("the MCP server closed cannot be reached"), "{notices}");
    // A busy machine may need more than a second to start them all.
    fixture.assert_dead(0).await;
}

async fn port(dir: &Path) -> u16 {
    until("the server listens", || dir.join("port").exists()).await;
    std::fs::read_to_string(dir.join("port")).unwrap().parse().unwrap()
}

#[tokio::test]
async fn http_server_works_like_any_other() {
    let fixture = Fixture::new();
    let null = std::process::Stdio::null;
    let program = fixture.program(HTTP);
    let _server = program.start(crate::process::Ending::default(), [null(), null(), null()]).unwrap();
    let url = format!("http://127.0.0.1:{}/mcp", port(fixture.dir.path()).await);
    let headers = BTreeMap::from([("X-Key".to_owned(), "secret".to_owned())]);
    let config = McpServerConfig::new("test", McpTransport::Http { url, headers });
    assert!(!format!("{config:?}").contains("secret"), "headers are not printed");
    let servers = fixture.connect(vec![config], Arc::new(DeclineAll)).await;
    assert_eq!(servers.tools().len(), 8, "{}", fixture.joined_notices());
    assert_eq!(call(&servers, "echo", json!({"text": "hi"})).await, ToolOutput::text("hi!"));
    let heard = fixture.heard();
    assert!(heard.iter().all(|message| message["key"] == "secret"));
    assert!(heard.iter().skip(1).all(|message| message["session"] == "one"));
    servers.close().await;
}
