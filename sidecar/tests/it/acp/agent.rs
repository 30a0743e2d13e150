//! A fake ACP agent, for behaviour that real agents do not show on request. Its prompts are instructions. The adapter
//! that handles its responses and mistakes is real.
//!
//! The agent is this test program, in which the adapter runs only [`main`], an ignored test.

use std::io::Write as _;
use std::process::exit;

use serde_json::{Value, json};

mod gated;

const SESSION: &str = "fake-session";
/// Characters of a file whose content does not fit an envelope.
pub(super) const MUCH: usize = 200_000;
/// Characters of a file that takes long to write.
pub(super) const VERY_MUCH: usize = 8 * 1024 * 1024;
const DOCUMENT: &str =
    "<handoff_document>{\"summary\": \"Did a.\", \"remainingWork\": \"Do b.\"}</handoff_document>";

struct Fake {
    lines: std::io::Lines<std::io::StdinLock<'static>>,
    asked: u64,
    cancelled: bool,
    can: String,
    introduced: String,
    /// Whether the conversation has a call without a result, so that the model refuses it.
    broken: bool,
    /// Prompts that its provider rejected.
    rejected: u32,
    /// The names of the configured MCP servers.
    servers: String,
    /// Types and bytes of the images of the last prompt.
    images: Vec<String>,
}

#[test]
#[ignore = "the fake agent, which the adapter starts"]
fn main() {
    // Ends the line, which begins with the test's name.
    println!();
    let can = std::env::var("FAKE_CAN").unwrap_or_default();
    let mut fake = Fake {
        lines: std::io::stdin().lines(),
        asked: 0,
        cancelled: false,
        can,
        introduced: String::new(),
        broken: false,
        rejected: 0,
        servers: String::new(),
        images: Vec::new(),
    };
    if fake.can("late") {
        wait_at_the_gate();
    }
    while let Some(message) = fake.read() {
        fake.take(&message);
    }
    exit(0);
}

/// Notes the process in the file `started`, and waits until the test opens the named pipe `gate`.
fn wait_at_the_gate() {
    let mut started = std::fs::OpenOptions::new().create(true).append(true).open("started").unwrap();
    writeln!(started, "{}", std::process::id()).unwrap();
    std::fs::read_to_string("gate").unwrap();
}

impl Fake {
    fn can(&self, what: &str) -> bool {
        self.can.split(',').any(|can| can == what)
    }

    fn read(&mut self) -> Option<Value> {
        self.lines.next().map(|line| serde_json::from_str(&line.unwrap()).unwrap())
    }

    fn write(message: &Value) {
        let mut stdout = std::io::stdout().lock();
        writeln!(stdout, "{message}").unwrap();
        stdout.flush().unwrap();
    }

    fn update(update: &Value) {
        Self::write(
            &json!({"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": SESSION, "update": update}}),
        );
    }

    fn say(text: &str) {
        Self::update(
            &json!({"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}}),
        );
    }

    fn call(id: &str, status: &str) {
        let update = json!({"sessionUpdate": "tool_call", "toolCallId": id, "name": "Bash", "kind": "execute",
            "title": "touch x", "rawInput": {"command": "touch x"}, "status": status});
        Self::update(&update);
    }

    fn delegates(kind: &str) {
        Self::update(
            &json!({"sessionUpdate": "tool_call", "toolCallId": "t1", "name": "Task", "kind": "think",
            "title": "look", "rawInput": {"description": "look", "subagent_type": kind}, "status": "in_progress"}),
        );
    }

    fn cost(usd: usize) {
        Self::update(&json!({"sessionUpdate": "usage_update", "used": 100 * usd, "size": 1000,
            "cost": {"amount": usd, "currency": "USD"}}));
    }

    fn result(id: &str, status: &str, output: &str) {
        Self::update(
            &json!({"sessionUpdate": "tool_call_update", "toolCallId": id, "status": status, "rawOutput": output}),
        );
    }

    /// Sends a request to the adapter, and handles messages until the response.
    fn ask(&mut self, method: &str, params: Value) -> Value {
        self.send(method, params);
        self.response()
    }

    fn send(&mut self, method: &str, params: Value) {
        self.asked += 1;
        let mut params = params;
        params["sessionId"] = SESSION.into();
        Self::write(&json!({"jsonrpc": "2.0", "id": self.asked, "method": method, "params": params}));
    }

    fn response(&mut self) -> Value {
        let id = self.asked;
        loop {
            let message = self.read().unwrap_or_else(|| exit(0));
            if message.get("method").is_none() && message["id"] == id {
                return message
                    .get("result")
                    .cloned()
                    .unwrap_or_else(|| json!({ "error": message["error"] }));
            }
            self.take(&message);
        }
    }

    fn until_cancelled(&mut self) {
        while !self.cancelled {
            let message = self.read().unwrap_or_else(|| exit(0));
            self.take(&message);
        }
    }

    fn permission(&mut self, call: &str) -> String {
        self.send_permission(call);
        self.permitted()
    }

    fn send_permission(&mut self, call: &str) {
        self.send(
            "session/request_permission",
            json!({"toolCall": {"toolCallId": call, "title": "touch x", "kind": "execute"}, "options": [
                {"optionId": "yes", "name": "Yes", "kind": "allow_once"}, {"optionId": "no", "name": "No", "kind": "reject_once"}]}),
        );
    }

    fn permitted(&mut self) -> String {
        let response = self.response();
        let outcome = &response["outcome"];
        outcome["optionId"].as_str().or(outcome["outcome"].as_str()).unwrap().to_owned()
    }

    fn open(&mut self, params: &Value) {
        let servers = params["mcpServers"].as_array().unwrap().iter();
        self.servers =
            servers.map(|server| server["command"].as_str().unwrap_or("none")).collect::<Vec<_>>().join(" ");
        if self.can("compact") {
            Self::update(
                &json!({"sessionUpdate": "available_commands_update", "availableCommands": [{"name": "compact"}]}),
            );
        }
    }

    fn take(&mut self, message: &Value) {
        let id = &message["id"];
        let respond = |result: Value| Self::write(&json!({"jsonrpc": "2.0", "id": id, "result": result}));
        let params = &message["params"];
        match message["method"].as_str() {
            Some("initialize") => {
                assert_eq!(params["clientCapabilities"]["fs"]["readTextFile"], true);
                let steering = self.can("steer");
                respond(json!({"protocolVersion": if self.can("v9") { 9 } else { 1 },
                    "agentInfo": {"name": "fake", "version": "1"}, "authMethods": [{"id": "key", "name": "Key"}],
                    "agentCapabilities": {"loadSession": self.can("load"), "promptCapabilities": {"image": self.can("image")},
                        "sessionCapabilities": if self.can("resume") { json!({"resume": {}}) } else { json!({}) }},
                    "_meta": {"steering": {"supported": steering}}}));
            }
            Some("session/new") if self.can("auth") => {
                Self::write(
                    &json!({"jsonrpc": "2.0", "id": id, "error": {"code": -32000, "message": "Authentication required"}}),
                );
            }
            Some("session/new") => {
                self.open(params);
                respond(json!({"sessionId": SESSION, "configOptions": [
                {"id": "model", "category": "model", "name": "Model", "type": "select", "currentValue": "small",
                 "options": [{"value": "small", "name": "S"}, {"value": "large", "name": "L"}]}]}));
            }
            // Resumes only conversations in its memory.
            Some("session/resume") => Self::write(
                &json!({"jsonrpc": "2.0", "id": id, "error": {"code": -32002, "message": "Resource not found"}}),
            ),
            Some("session/load") if params["mcpServers"].to_string().contains("broken") => exit(4),
            Some("session/load") => {
                assert_eq!(params["sessionId"], SESSION);
                self.open(params);
                self.broken = self.can("breaks");
                Self::say("words of the past");
                Self::call("old", "completed");
                respond(json!({}));
            }
            Some("session/set_config_option") => respond(json!({"configOptions": [
                {"id": "model", "category": "model", "name": "Model", "type": "select", "currentValue": params["value"],
                 "options": [{"value": "small", "name": "S"}, {"value": "large", "name": "L"}]}]})),
            Some("session/cancel") => self.cancelled = true,
            // Accepts the message without confirming it.
            Some("_session/steering") if self.can("silent") => {}
            Some("_session/steering") => {
                let texts = self.hear(params);
                Self::say(&format!("steered: {}{}", texts[0], self.images.concat()));
                respond(json!({"outcome": "injected"}));
                self.cancelled = true;
            }
            Some("session/prompt") if self.broken => {
                let why =
                    "{\"code\":400,\"message\":\"a call has no response\",\"status\":\"INVALID_ARGUMENT\"}";
                Self::write(
                    &json!({"jsonrpc": "2.0", "id": id, "error": {"code": -32603, "message": "Internal error",
                    "data": {"details": why}}}),
                );
            }
            Some("session/prompt") => {
                self.cancelled = false;
                let texts = self.hear(params);
                if texts.len() > 1 {
                    self.introduced.clone_from(&texts[0]);
                }
                let reason = self.play(texts.last().unwrap(), id);
                if let Some(reason) = reason {
                    respond(json!({"stopReason": reason}));
                }
                self.broken = self.can("breaks") && reason == Some("cancelled");
                if reason == Some("cancelled") {
                    // Late messages about a turn that is over.
                    Self::say("late words");
                    Self::call("late", "in_progress");
                }
            }
            _ => {}
        }
    }

    /// The texts of a prompt. Keeps its images.
    fn hear(&mut self, params: &Value) -> Vec<String> {
        let (mut texts, mut images) = (Vec::new(), Vec::new());
        for block in params["prompt"].as_array().unwrap() {
            match block["type"].as_str() {
                Some("image") => {
                    let field = |name: &str| block[name].as_str().unwrap();
                    images.push(format!(" {} {}", field("mimeType"), field("data")));
                }
                _ => texts.push(block["text"].as_str().unwrap().to_owned()),
            }
        }
        self.images = images;
        texts
    }

    fn play_ask(&mut self) -> &'static str {
        Self::call("c1", "pending");
        let chosen = self.permission("c1");
        Self::result("c1", if chosen == "yes" { "completed" } else { "failed" }, &chosen);
        if chosen != "cancelled" {
            return "end_turn";
        }
        Self::say("the permission was cancelled");
        // Like opencode, which ends its turn as usual if the withdrawal arrives before the cancellation.
        if self.can("ends-turn") { "end_turn" } else { "cancelled" }
    }

    fn play(&mut self, direction: &str, id: &Value) -> Option<&'static str> {
        let (word, rest) = direction.split_once(' ').unwrap_or((direction, ""));
        match word {
            "say" => Self::say(rest),
            "images" => Self::say(&format!("seen:{}", self.images.concat())),
            "introduction" => Self::say(&self.introduced.clone()),
            "ask" => return Some(self.play_ask()),
            "ask-early" | "ask-alone" => return Some(self.ask_early(rest, word == "ask-early")),
            "hang" => {
                Self::call("c2", "in_progress");
                self.until_cancelled();
                return Some("cancelled");
            }
            "work" => {
                Self::say("working");
                Self::call("c3", "in_progress");
                self.until_cancelled();
                Self::result("c3", "completed", "done");
            }
            "delegate" => self.play_delegation(rest),
            "ask-to-delegate" => {
                Self::delegates(rest);
                let permitted = self.permission("t1");
                Self::result("t1", "completed", &permitted);
            }
            "crash" => {
                Self::call("c4", "in_progress");
                eprintln!("my last words");
                exit(3);
            }
            "huge" => {
                Self::say(&"x".repeat(3 * 1024 * 1024));
                Self::call("c5", "in_progress");
                Self::result("c5", "completed", &"y".repeat(5 * 1024 * 1024));
            }
            "strange" => {
                println!("a line that is no message");
                Self::write(&json!({"jsonrpc": "2.0", "method": "_vendor/news", "params": {"a": 1}}));
                Self::update(&json!({"sessionUpdate": "from_the_future", "what": "ever"}));
                let response = self.ask("_vendor/question", json!({}));
                Self::say(&format!("refused {}", response["error"]["code"]));
            }
            "files" => self.play_files(rest),
            "write" | "write-much" | "write-and-end" | "run" | "ask-and-run" => self.play_gated(word, rest),
            "terminal" => {
                let terminal = self.ask(
                    "terminal/create",
                    json!({"command": "/bin/sh", "args": ["-c", "echo out; exit 4"]}),
                );
                let id = terminal["terminalId"].clone();
                let exit = self.ask("terminal/wait_for_exit", json!({ "terminalId": id }));
                let update = json!({"sessionUpdate": "tool_call", "toolCallId": "c6", "name": "run", "status": "in_progress",
                    "rawInput": {"command": "echo"}, "content": [{"type": "terminal", "terminalId": id}]});
                Self::update(&update);
                self.ask("terminal/release", json!({ "terminalId": id }));
                Self::update(
                    &json!({"sessionUpdate": "tool_call_update", "toolCallId": "c6", "status": "completed"}),
                );
                Self::say(&format!("exit {}", exit["exitCode"]));
            }
            "form" => {
                let response = self.ask("elicitation/create", json!({"mode": "form", "message": "How many?",
                    "requestedSchema": {"type": "object", "properties": {"n": {"type": "integer", "title": "Number"}}}}));
                Self::say(&response.to_string());
            }
            "fail" => {
                Self::fail(id, "the model said no");
                return None;
            }
            "overloaded" | "The" if self.rejected < 2 => {
                self.reject(id);
                return None;
            }
            "give-up" => Self::give_up(id),
            "overloaded" | "The" => Self::say(&format!("at last, after: {direction}")),
            "escape" => {
                self.escape(rest);
                return Some("cancelled");
            }
            // Spends a dollar for each word, then says it and calls a tool.
            "spend" => {
                for (n, step) in rest.split_whitespace().enumerate() {
                    Self::cost(n + 1);
                    Self::say(step);
                    let call = format!("s{n}");
                    Self::call(&call, "in_progress");
                    Self::result(&call, "completed", step);
                }
            }
            // Fills its window to this percentage.
            "fill" => {
                let percent: u64 = rest.parse().unwrap();
                Self::update(&json!({"sessionUpdate": "usage_update", "used": percent, "size": 100}));
                Self::say("filled");
            }
            "document" => Self::say(DOCUMENT),
            "limit" => return Some("max_turn_requests"),
            _ => return Some(self.play_ends(direction, id)),
        }
        Some("end_turn")
    }

    fn play_files(&mut self, path: &str) {
        let outside = self.ask("fs/read_text_file", json!({"path": "/etc/hostname"}));
        let written = self.ask("fs/write_text_file", json!({"path": path, "content": "one\ntwo\n"}));
        let read = self.ask("fs/read_text_file", json!({"path": path, "line": 2}));
        let (is_refused, is_written) = (outside.get("error").is_some(), written.get("error").is_none());
        Self::say(&format!("{is_refused} {is_written} {}", read["content"]));
    }

    fn fail(id: &Value, details: &str) {
        let error = json!({"code": -32603, "message": "Internal error", "data": {"details": details}});
        Self::write(&json!({"jsonrpc": "2.0", "id": id, "error": error}));
    }

    /// Its provider rejects the first two prompts; before the second rejection it calls a tool.
    fn reject(&mut self, id: &Value) {
        self.rejected += 1;
        if self.rejected == 2 {
            Self::call("c7", "in_progress");
            Self::result("c7", "completed", "done");
        }
        Self::fail(id, r#"429 Too Many Requests {"retryDelay": "1200s"}"#);
    }

    /// Its provider rejects the prompt. The agent ends when the test has created the file `end` in its folder.
    fn give_up(id: &Value) -> ! {
        Self::write(
            &json!({"jsonrpc": "2.0", "id": id, "error": {"code": -32603, "message": "503 unavailable"}}),
        );
        while std::fs::remove_file("end").is_err() {
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        exit(3)
    }

    /// Starts a subagent of this kind, and does not ask.
    fn play_delegation(&mut self, kind: &str) {
        Self::delegates(kind);
        let chunk = json!({"type": "text", "text": "looking"});
        Self::update(&json!({"sessionUpdate": "agent_message_chunk", "content": chunk,
            "_meta": {"claudeCode": {"parentToolUseId": "t1"}}}));
        self.until_cancelled();
    }

    /// Asks before it announces the call, as a busy agent does, or never announces it.
    fn ask_early(&mut self, name: &str, announces: bool) -> &'static str {
        let call = format!("early{name}");
        self.send_permission(&call);
        if announces {
            Self::call(&call, "pending");
        }
        let chosen = self.permitted();
        Self::result(&call, if chosen == "yes" { "completed" } else { "failed" }, &chosen);
        if chosen == "cancelled" { "cancelled" } else { "end_turn" }
    }

    /// Runs a command that escapes, and ends its turn on request.
    fn escape(&mut self, how: &str) {
        let command = format!("{}; sleep 600", crate::guards::ESCAPE);
        if how == "terminal" {
            self.ask("terminal/create", json!({"command": "/bin/sh", "args": ["-c", command]}));
            return self.until_cancelled();
        }
        let mut shell = std::process::Command::new("/bin/sh");
        let mut running = shell.args(["-c", &command]).spawn().unwrap();
        self.until_cancelled();
        if how == "waiting" {
            // Ends its turn with its command still running.
            running.wait().unwrap();
        } else {
            // The command ends with the agent, or before the test is over.
            running.try_wait().unwrap();
        }
    }

    fn leave(id: &Value) -> ! {
        Self::say("bye");
        Self::write(&json!({"jsonrpc": "2.0", "id": id, "result": {"stopReason": "end_turn"}}));
        exit(5)
    }

    /// Instructions that end or restart it, or end its turn in another way.
    fn play_ends(&mut self, direction: &str, id: &Value) -> &'static str {
        let (word, rest) = direction.split_once(' ').unwrap_or((direction, ""));
        match word {
            // Ignores all messages.
            "stubborn" => loop {
                let message = self.read().unwrap_or_else(|| exit(0));
                self.take(&message);
            },
            "servers" => Self::say(&self.servers.clone()),
            // Writes a text and does not complete it.
            "draft" => {
                Self::say("The tea");
                Self::say("pot.");
                self.until_cancelled();
                return "cancelled";
            }
            "stop" if rest == "max_tokens" => return "max_tokens",
            "stop" if rest == "refusal" => return "refusal",
            "/compact" if rest == "slowly" => {
                self.until_cancelled();
                return "cancelled";
            }
            "/compact" => {
                Self::say("Summarised: ");
                Self::say(rest);
                Self::update(&json!({"sessionUpdate": "usage_update", "used": 5, "size": 100}));
            }
            // Reads a message, then answers and exits. With `silent`, it does not confirm the message.
            "read-and-leave" => {
                let message = self.read().unwrap_or_else(|| exit(0));
                self.take(&message);
                Self::leave(id);
            }
            // Answers and exits.
            "leave" => Self::leave(id),
            "Your" if direction.contains("write the handoff document") => Self::say(DOCUMENT),
            other => Self::say(&format!("unknown direction {other}")),
        }
        "end_turn"
    }
}
