//! Additions to the native agent: MCP servers of the template and the skills, and MCP servers and extensions of
//! `adapterOptions`. Their programs run as the agent's user, and end with the conversation.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use futures_util::future::join_all;
use pilothouse_agent::extension::external::{External, ExternalConfig, Notify};
use pilothouse_agent::extension::{Extension, Extensions};
use pilothouse_agent::mcp::{Elicit, Endpoint, McpServerConfig, McpServers, McpTransport};
use pilothouse_agent::process::{Guard, Program};
use pilothouse_agent::tool::SharedTool;
use pilothouse_agent::workspace::Environment;
use pilothouse_domain::value::McpToolDefinition;
use pilothouse_wire::command::AgentSessionConfig;
use serde::Deserialize;
use serde_json::Value;
use tokio::sync::mpsc;

use super::elicit::AskOwner;
use super::options::{Address, McpServer, Options, ServerProgram};
use crate::adapter::EventSink;
use crate::kit::notices::detailed_notice;
use crate::own_tools::Requests;

/// Parameters for starting programs.
pub(super) struct Launch<'a> {
    pub folder: &'a Path,
    pub environment: Environment,
    pub guard: &'a Guard,
    pub events: &'a EventSink,
    /// Open requests, through which servers ask the owner.
    pub requests: &'a Requests,
    /// The text of `.mcp.json`, if its servers are used.
    pub project: Option<&'a str>,
}

pub(super) struct Additions {
    pub tools: Vec<SharedTool>,
    pub extensions: Extensions,
    /// The servers' descriptions of themselves, for the system prompt.
    pub instructions: String,
}

impl Additions {
    /// Starts and connects all concurrently. If an addition fails, a notice reports it; if a required extension fails,
    /// the start fails.
    pub(super) async fn start(
        config: &AgentSessionConfig,
        options: &Options,
        launch: Launch<'_>,
    ) -> Result<Self, String> {
        let notify = notify(launch.events);
        let servers = servers(config, options, &launch, &notify);
        let elicit: Arc<dyn Elicit> = Arc::new(AskOwner::new(launch.requests.clone(), launch.events.clone()));
        let starting = options.extensions.iter().map(|extension| {
            let program = launch.program(&extension.command, &extension.args, &extension.env);
            let mut external = ExternalConfig::new(&extension.name, program);
            external.required = extension.required;
            External::start(external, notify.clone())
        });
        let (servers, started) =
            tokio::join!(McpServers::connect(servers, &elicit, &notify), join_all(starting));
        let mut extensions: Vec<Arc<dyn Extension>> = Vec::new();
        for (extension, started) in options.extensions.iter().zip(started) {
            match started {
                Ok(external) => extensions.push(Arc::new(external)),
                Err(error) if extension.required => return Err(error.to_string()),
                Err(error) => notify(error.to_string()),
            }
        }
        let instructions = servers.instructions().await;
        let instructions: Vec<_> = instructions
            .into_iter()
            .map(|(server, text)| format!("<mcp_server name=\"{server}\">\n{text}\n</mcp_server>"))
            .collect();
        Ok(Self {
            tools: servers.tools(),
            extensions: Extensions::new(extensions),
            instructions: instructions.join("\n"),
        })
    }
}

impl Launch<'_> {
    fn program(&self, command: &str, args: &[String], env: &BTreeMap<String, String>) -> Program {
        let mut environment = self.environment.clone();
        for (name, value) in env {
            self.events.keep_secret(value);
            environment = environment.with_own(name, value);
        }
        Program::new(command, self.folder, environment).guarded_by(self.guard).args(args)
    }

    fn transport(&self, server: &McpServer) -> McpTransport {
        match server {
            McpServer::Program(ServerProgram { command, args, env }) => {
                McpTransport::Stdio(Box::new(self.program(command, args, env)))
            }
            McpServer::Http(Address { url, headers }) => {
                for value in headers.values() {
                    self.events.keep_secret(value);
                }
                McpTransport::Http { url: url.clone(), headers: headers.clone() }
            }
        }
    }
}

/// The servers of the options, and those of the template and skills, which offer only the tools that these define.
fn servers(
    config: &AgentSessionConfig,
    options: &Options,
    launch: &Launch<'_>,
    notify: &Notify,
) -> Vec<McpServerConfig> {
    let own = options.mcp_servers.iter();
    let mut servers: Vec<_> =
        own.map(|(name, server)| McpServerConfig::new(name, launch.transport(server))).collect();
    for (name, server) in project_servers(launch, notify) {
        if !servers.iter().any(|known| known.name == name) {
            servers.push(McpServerConfig::new(&name, launch.transport(&server)));
        }
    }
    let mut by_address: BTreeMap<&str, Vec<&McpToolDefinition>> = BTreeMap::new();
    for tool in &config.custom_tools {
        by_address.entry(tool.server_uri.as_str()).or_default().push(tool);
    }
    for (uri, tools) in by_address {
        let Some(endpoint) = Endpoint::parse(uri) else {
            notify(format!("the MCP server at {uri} is skipped: unsupported URI"));
            continue;
        };
        let wanted = endpoint.short_name();
        let taken = |name: &str| servers.iter().any(|server| server.name == name);
        let numbered = (2..).map(|number| format!("{wanted}-{number}"));
        let name = std::iter::once(wanted.clone()).chain(numbered).find(|name| !taken(name));
        let transport = launch.transport(&match endpoint {
            Endpoint::Program { path, args } => {
                McpServer::Program(ServerProgram { command: path, args, env: BTreeMap::new() })
            }
            Endpoint::Http(url) => McpServer::Http(Address { url, headers: BTreeMap::new() }),
        });
        let mut server = McpServerConfig::new(name.unwrap_or(wanted), transport);
        server.only = Some(tools.iter().map(|tool| tool.name.to_string()).collect::<BTreeSet<_>>());
        servers.push(server);
    }
    servers
}

/// The servers of `.mcp.json`.
fn project_servers(launch: &Launch<'_>, notify: &Notify) -> BTreeMap<String, McpServer> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct File {
        mcp_servers: BTreeMap<String, Value>,
    }
    let Some(text) = launch.project else { return BTreeMap::new() };
    let file: File = match serde_json::from_str(text) {
        Ok(file) => file,
        Err(error) => {
            notify(format!(".mcp.json is skipped: {error}"));
            return BTreeMap::new();
        }
    };
    let mut servers = BTreeMap::new();
    for (name, mut server) in file.mcp_servers {
        if let Some(fields) = server.as_object_mut() {
            fields.remove("type");
        }
        expand(&mut server, &launch.environment);
        match McpServer::deserialize(server) {
            Ok(server) => drop(servers.insert(name, server)),
            Err(_) => notify(format!("the MCP server `{name}` of .mcp.json is skipped: unknown form")),
        }
    }
    servers
}

/// Replaces `${NAME}` and `${NAME:-default}` by variables that the agent's programs have.
fn expand(value: &mut Value, environment: &Environment) {
    match value {
        Value::String(text) => *text = expanded(text, environment),
        Value::Array(values) => values.iter_mut().for_each(|value| expand(value, environment)),
        Value::Object(values) => values.values_mut().for_each(|value| expand(value, environment)),
        _ => {}
    }
}

fn expanded(text: &str, environment: &Environment) -> String {
    let (mut rest, mut result) = (text, String::new());
    while let Some((before, name, after)) = rest
        .split_once("${")
        .and_then(|(before, behind)| behind.split_once('}').map(|(name, after)| (before, name, after)))
    {
        let (name, default) = name.split_once(":-").unwrap_or((name, ""));
        result.push_str(before);
        result.push_str(&environment.get(name).unwrap_or_else(|| default.to_owned()));
        rest = after;
    }
    result + rest
}

/// Returns a callback that publishes notices in order. The task ends with the last sender.
fn notify(events: &EventSink) -> Notify {
    let (sender, mut sentences) = mpsc::unbounded_channel();
    let events = events.clone();
    tokio::spawn(async move {
        while let Some(sentence) = sentences.recv().await {
            // Other tasks report a failed spool.
            if events.emit(detailed_notice("agent_addition", sentence, Value::Null)).await.is_err() {
                return;
            }
        }
    });
    Arc::new(move |sentence| drop(sender.send(sentence)))
}
