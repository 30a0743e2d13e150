//! Opens a conversation: initialize, authenticate if the agent demands it, and create or resume a session.

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

use super::agents::{Advertised, Instructions, Resumption};
use super::connection::Connection;
use super::conversation_file::Conversation;
use super::mcp;
use super::options::Launch;
use super::prompt::Prompt;
use crate::kit::json::{list, one_line, text};
use crate::kit::notices::{limits_left_out, notice, sub_agents_left_out};
use crate::kit::outage::{self, is_transient};

/// The agent may have to start a whole runtime.
const INITIALIZE: Duration = Duration::from_mins(1);
/// Limit of opening a conversation, and of any other request except a prompt.
const OPEN: Duration = Duration::from_mins(2);
pub(super) const SET: Duration = Duration::from_secs(30);

pub(super) struct Opened {
    pub(super) id: String,
    /// The agent's response, with modes, models and options.
    pub(super) response: Value,
    /// Whether an earlier conversation was resumed.
    pub(super) taken_up: bool,
    pub(super) notices: Vec<RawEvent>,
}

/// Negotiates the protocol version and capabilities. The error is a sentence for people.
pub(super) async fn initialize(connection: &Connection, launch: &Launch) -> Result<Advertised, String> {
    let capabilities = ClientCapabilities::new()
        .fs(FileSystemCapabilities::new().read_text_file(true).write_text_file(true))
        .terminal(true);
    let request = InitializeRequest::new(ProtocolVersion::V1)
        .client_capabilities(capabilities)
        .client_info(Implementation::new("pilothouse", env!("CARGO_PKG_VERSION")));
    let mut parameters = serde_json::to_value(request).map_err(|e| e.to_string())?;
    // Forms, and subagents that are reported as separate sessions (a draft).
    parameters["clientCapabilities"]["elicitation"] = json!({ "form": {} });
    parameters["clientCapabilities"]["subagents"] = json!({});
    let response = ask(connection, INITIALIZE, "initialize", parameters).await?;
    match response.get("protocolVersion").and_then(Value::as_u64) {
        Some(1) => Ok(Advertised::read(&response, launch.profile)),
        Some(version) => {
            Err(format!("the agent speaks version {version} of the protocol, and this adapter version 1"))
        }
        None => Err("the agent's answer to `initialize` names no protocol version".into()),
    }
}

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
    notices.extend(sub_agents_left_out(config, "the protocol does not support defining subagents"));
    notices.extend(limits_left_out(config, &[], "the protocol has no option for these limits of the brief"));
    let mut parameters = json!({ "cwd": folder, "mcpServers": servers });
    let instructions = config.composed_system_prompt.trim();
    if agent.profile.instructions == Instructions::AppendedByMeta && !instructions.is_empty() {
        parameters["_meta"] = json!({ "systemPrompt": { "append": instructions } });
    }
    if let Some(earlier) = earlier {
        // Some agents resume only from memory, and load from disk.
        let methods: &[&str] = match agent.resumption {
            Resumption::Resume if agent.loads => &["session/resume", "session/load"],
            Resumption::Resume => &["session/resume"],
            Resumption::Load => &["session/load"],
            Resumption::Never => &[],
        };
        let mut lost = Vec::new();
        let methods = if earlier.refused {
            lost.push("its model refuses it".to_owned());
            &[]
        } else {
            methods
        };
        for method in methods {
            let mut parameters = parameters.clone();
            parameters["sessionId"] = earlier.id.as_str().into();
            match authenticated(connection, launch, agent, method, &parameters).await {
                Ok(response) => {
                    return Ok(Opened { id: earlier.id.clone(), response, taken_up: true, notices });
                }
                Err(why) => lost.push(why),
            }
        }
        let lost = if lost.is_empty() {
            "the agent does not support resuming a conversation".to_owned()
        } else {
            lost.join("; ")
        };
        let summary =
            format!("the earlier conversation cannot be resumed; a new one starts: {}", one_line(&lost));
        notices.push(notice("conversation_lost", summary));
    }
    let response = authenticated(connection, launch, agent, "session/new", &parameters).await?;
    let id = text(&response, "sessionId")
        .ok_or("the agent's answer to `session/new` names no session")?
        .to_owned();
    Ok(Opened { id, response, taken_up: false, notices })
}

/// Sends a request. If the agent demands authentication, authenticates with the configured method and sends it again.
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
        Ok(Ok(response)) => return Ok(response),
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

/// Sends a request with a time limit. The error is a sentence for people.
pub(super) async fn ask(
    connection: &Connection,
    limit: Duration,
    method: &str,
    parameters: Value,
) -> Result<Value, String> {
    match timeout(limit, connection.request(method, parameters)).await {
        Ok(Ok(response)) => Ok(response),
        Ok(Err(error)) => Err(failed(method, &error)),
        Err(_) => Err(format!("the agent did not answer `{method}` in time")),
    }
}

/// Whether the error comes from the connection because the agent has ended.
pub(super) fn is_gone(error: &Error) -> bool {
    is_incoming_transport_closed(error) || is_connection_terminated(error)
}

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

/// Whether the model's provider rejects the form of the conversation, such as a call without a result, which an
/// interrupted gemini leaves. It would reject every further prompt. A conversation that is too long does not count.
pub(super) fn refuses_conversation(error: &Error) -> bool {
    let why = failed("session/prompt", error).to_lowercase();
    let has = |words: &[&str]| words.iter().any(|word| why.contains(word));
    has(&["invalid_argument", "invalid_request"]) && !has(&["too long", "too large", "maximum", "exceed"])
}

/// Whether the agent's model does not answer for some time.
pub(super) fn is_outage(error: &Error) -> bool {
    !demands_authentication(error) && is_transient(&message_and_data(error))
}

/// The delay after which the model's provider may answer again.
pub(super) fn requested_delay(error: &Error) -> Option<Duration> {
    outage::requested_delay(&message_and_data(error))
}

fn message_and_data(error: &Error) -> String {
    let data = error.data.as_ref().map(Value::to_string).unwrap_or_default();
    format!("{} {data}", error.message)
}

pub(super) fn demands_authentication(error: &Error) -> bool {
    error.code == ErrorCode::AuthRequired
}

/// The parameters of `session/prompt`.
pub(super) fn prompt(session: &str, prompt: &Prompt) -> Value {
    json!({ "sessionId": session, "prompt": prompt.blocks() })
}

pub(super) fn has_options(response: &Value) -> bool {
    !list(response, "configOptions").is_empty()
}
