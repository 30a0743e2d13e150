//! From a started process to a conversation: initialize, authenticate when that is demanded, and a new session or the one
//! that is taken up.

use std::time::Duration;

use agent_client_protocol::schema::ProtocolVersion;
use agent_client_protocol::v1::schema::ErrorCode;
use agent_client_protocol::v1::schema::{
    ClientCapabilities, FileSystemCapabilities, Implementation, InitializeRequest,
};
use agent_client_protocol::{Error, is_connection_terminated, is_incoming_transport_closed};
use pilothouse_wire::RawEvent;
use pilothouse_wire::command::AgentSessionConfig;
use serde_json::{Value, json};
use tokio::time::timeout;

use super::agents::{Advertised, Instructions, TakingUp};
use super::connection::Connection;
use super::json::{list, one_line, text};
use super::mcp;
use super::memory::Conversation;
use super::options::Launch;

/// How long an agent may take to answer `initialize`: it may have to start a whole runtime.
const INITIALIZE: Duration = Duration::from_mins(1);
/// How long it may take to open a conversation, and any other request that is no turn.
const OPEN: Duration = Duration::from_mins(2);
/// How long it may take to change a setting.
pub(super) const SET: Duration = Duration::from_secs(30);

/// A conversation that is open.
pub(super) struct Opened {
    /// The agent's id of it.
    pub(super) id: String,
    /// What the agent said when it was opened: modes, models, options.
    pub(super) answer: Value,
    /// Whether an earlier one was taken up.
    pub(super) taken_up: bool,
    /// What there is to tell of it.
    pub(super) notices: Vec<RawEvent>,
}

/// Agrees on a version and on what both sides can do. An error is a sentence for a person.
pub(super) async fn initialize(connection: &Connection, launch: &Launch) -> Result<Advertised, String> {
    let capabilities = ClientCapabilities::new()
        .fs(FileSystemCapabilities::new().read_text_file(true).write_text_file(true))
        .terminal(true);
    let request = InitializeRequest::new(ProtocolVersion::V1)
        .client_capabilities(capabilities)
        .client_info(Implementation::new("pilothouse", env!("CARGO_PKG_VERSION")));
    let mut parameters = serde_json::to_value(request).map_err(|e| e.to_string())?;
    // Forms that can be filled in, and subagents that are told as sessions of their own; the second is a draft.
    parameters["clientCapabilities"]["elicitation"] = json!({ "form": {} });
    parameters["clientCapabilities"]["subagents"] = json!({});
    let answer = ask(connection, INITIALIZE, "initialize", parameters).await?;
    match answer.get("protocolVersion").and_then(Value::as_u64) {
        Some(1) => Ok(Advertised::read(&answer, launch.profile)),
        Some(version) => {
            Err(format!("the agent speaks version {version} of the protocol, and this adapter version 1"))
        }
        None => Err("the agent's answer to `initialize` names no protocol version".into()),
    }
}

/// Opens the conversation.
pub(super) async fn open(
    connection: &Connection,
    launch: &Launch,
    agent: &Advertised,
    config: &AgentSessionConfig,
    folder: &str,
    own_tools: Value,
    earlier: Option<&Conversation>,
) -> Result<Opened, String> {
    let (mut servers, left_out) = mcp::servers(&config.custom_tools, agent);
    servers.push(own_tools);
    let mut notices = Vec::new();
    if !left_out.is_empty() {
        let summary = format!("the agent cannot reach these MCP servers: {}", left_out.join(", "));
        notices.push(notice("mcp_servers_left_out", summary));
    }
    let mut parameters = json!({ "cwd": folder, "mcpServers": servers });
    let instructions = config.composed_system_prompt.trim();
    if agent.profile.instructions == Instructions::AppendedByMeta && !instructions.is_empty() {
        parameters["_meta"] = json!({ "systemPrompt": { "append": instructions } });
    }
    if let Some(earlier) = earlier {
        let method = match agent.taking_up {
            TakingUp::Resume => Some("session/resume"),
            TakingUp::Load => Some("session/load"),
            TakingUp::Never => None,
        };
        let lost = match method {
            None => "the agent cannot take up a conversation".to_owned(),
            Some(method) => {
                let mut parameters = parameters.clone();
                parameters["sessionId"] = earlier.id.as_str().into();
                match authenticated(connection, launch, agent, method, &parameters).await {
                    Ok(answer) => {
                        return Ok(Opened { id: earlier.id.clone(), answer, taken_up: true, notices });
                    }
                    Err(why) => why,
                }
            }
        };
        let summary =
            format!("the earlier conversation is not taken up, a new one begins: {}", one_line(&lost));
        notices.push(notice("conversation_lost", summary));
    }
    let answer = authenticated(connection, launch, agent, "session/new", &parameters).await?;
    let id =
        text(&answer, "sessionId").ok_or("the agent's answer to `session/new` names no session")?.to_owned();
    Ok(Opened { id, answer, taken_up: false, notices })
}

/// Asks; when the agent demands authentication, authenticates in the configured way and asks once more.
async fn authenticated(
    connection: &Connection,
    launch: &Launch,
    agent: &Advertised,
    method: &str,
    parameters: &Value,
) -> Result<Value, String> {
    let first = timeout(OPEN, connection.request(method, parameters.clone())).await;
    let error = match first {
        Err(_) => return Err(format!("the agent did not answer `{method}` in time")),
        Ok(Ok(answer)) => return Ok(answer),
        Ok(Err(error)) => error,
    };
    if !demands_authentication(&error) {
        return Err(failed(method, &error));
    }
    let Some(way) = &launch.auth_method else {
        let ways = if agent.auth_methods.is_empty() {
            String::new()
        } else {
            format!(", or name one of its ways in `authMethod`: {}", agent.auth_methods.join(", "))
        };
        return Err(format!(
            "the agent demands authentication: give it its key or sign in where it runs{ways}"
        ));
    };
    ask(connection, OPEN, "authenticate", json!({ "methodId": way })).await?;
    ask(connection, OPEN, method, parameters.clone()).await
}

/// Asks and waits, for so long. An error is a sentence for a person.
pub(super) async fn ask(
    connection: &Connection,
    limit: Duration,
    method: &str,
    parameters: Value,
) -> Result<Value, String> {
    match timeout(limit, connection.request(method, parameters)).await {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(error)) => Err(failed(method, &error)),
        Err(_) => Err(format!("the agent did not answer `{method}` in time")),
    }
}

/// Whether it is no answer of the agent: the agent is gone.
pub(super) fn is_gone(error: &Error) -> bool {
    is_incoming_transport_closed(error) || is_connection_terminated(error)
}

/// What the agent's error says, as a sentence.
pub(super) fn failed(method: &str, error: &Error) -> String {
    if is_gone(error) {
        return format!("the agent ended before it answered `{method}`");
    }
    let detail = error.data.as_ref().and_then(|data| match data {
        Value::String(detail) => Some(detail.clone()),
        data => ["details", "message", "detail"].iter().find_map(|key| text(data, key)).map(str::to_owned),
    });
    let message = detail.filter(|detail| !detail.is_empty()).unwrap_or_else(|| error.message.clone());
    format!("the agent answered `{method}` with an error: {}", one_line(&message))
}

/// Whether the agent demands authentication.
pub(super) fn demands_authentication(error: &Error) -> bool {
    error.code == ErrorCode::AuthRequired
}

/// Text blocks of a prompt.
pub(super) fn prompt(session: &str, texts: &[String]) -> Value {
    let blocks: Vec<Value> = texts.iter().map(|text| json!({ "type": "text", "text": text })).collect();
    json!({ "sessionId": session, "prompt": blocks })
}

/// Options that an answer to a change of settings repeats.
pub(super) fn has_options(answer: &Value) -> bool {
    !list(answer, "configOptions").is_empty()
}

/// A notice of the adapter.
pub(super) fn notice(name: &str, summary: String) -> RawEvent {
    RawEvent::Notice { name: name.to_owned(), summary, detail: None }
}
