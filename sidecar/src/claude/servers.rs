//! Converts the MCP servers and subagents of a configuration to command-line arguments.

use std::collections::BTreeMap;

use pilothouse_agent::mcp::Endpoint;
use pilothouse_domain::value::McpToolDefinition;
use pilothouse_wire::command::AgentSessionConfig;
use serde_json::{Map, Value, json};

use crate::own_tools::SERVER_NAME;
use crate::process::tool_processes::MCP_SERVER_VARIABLE;

/// `--mcp-config`: the sidecar's own tools and the servers of the main agent. The servers of a subagent are in its
/// definition, so that only the subagent has its tools.
pub(super) fn mcp_config(config: &AgentSessionConfig, own_tools: Value) -> Value {
    let mut servers = servers_of(config, &config.custom_tools);
    servers.insert(SERVER_NAME.to_owned(), own_tools);
    json!({ "mcpServers": servers })
}

/// The command lines of the servers that are programs, also of subagents.
pub(super) fn command_lines(config: &AgentSessionConfig, own_tools: Value) -> Vec<String> {
    let mut servers: Map<String, Value> =
        by_name(config).into_iter().map(|(name, uri)| (name, server(uri))).collect();
    servers.insert(SERVER_NAME.to_owned(), own_tools);
    let line = |server: &Value| {
        let words = server.get("args").and_then(Value::as_array).into_iter().flatten();
        let words = std::iter::once(server.get("command")?).chain(words).filter_map(Value::as_str);
        Some(words.collect::<Vec<_>>().join(" "))
    };
    servers.values().filter_map(line).collect()
}

/// Claude Code's names of the configuration's tools, also of subagents. They are allowed, because the owner configured them.
pub(super) fn custom_tool_names(config: &AgentSessionConfig) -> Vec<String> {
    let names: BTreeMap<&str, String> = by_name(config).into_iter().map(|(name, uri)| (uri, name)).collect();
    all_tools(config)
        .filter_map(|tool| {
            let server = names.get(tool.server_uri.as_str())?;
            Some(format!("mcp__{server}__{}", tool.name))
        })
        .collect()
}

/// `--agents`: the configuration's subagents. `None` if there are none.
pub(super) fn agents(config: &AgentSessionConfig) -> Option<Value> {
    let agents: Map<String, Value> = config
        .sub_agents
        .iter()
        .map(|agent| {
            let mut definition = json!({
                "description": agent.description.to_string(),
                "prompt": agent.instructions.to_string(),
                "model": agent.model_id.to_string(),
            });
            let servers = sub_agent_servers(config, &agent.tool_definitions);
            if !servers.is_empty() {
                definition["mcpServers"] = servers.into();
            }
            (agent.name.to_string(), definition)
        })
        .collect();
    (!agents.is_empty()).then(|| agents.into())
}

/// The servers of a subagent's tools: a name if the main agent has the server, too, else a definition.
fn sub_agent_servers(config: &AgentSessionConfig, tools: &[McpToolDefinition]) -> Vec<Value> {
    let of_main = servers_of(config, &config.custom_tools);
    let servers = servers_of(config, tools).into_iter();
    servers
        .map(|(name, server)| if of_main.contains_key(&name) { name.into() } else { json!({ name: server }) })
        .collect()
}

/// The servers of these tools, by name.
fn servers_of(config: &AgentSessionConfig, tools: &[McpToolDefinition]) -> Map<String, Value> {
    let named = by_name(config).into_iter();
    let used = named.filter(|(_, uri)| tools.iter().any(|tool| tool.server_uri.as_str() == *uri));
    used.map(|(name, uri)| (name, server(uri))).collect()
}

fn all_tools(config: &AgentSessionConfig) -> impl Iterator<Item = &McpToolDefinition> {
    config.custom_tools.iter().chain(config.sub_agents.iter().flat_map(|agent| &agent.tool_definitions))
}

/// Each server once, with a name derived from its URI. A number distinguishes servers with the same name.
fn by_name(config: &AgentSessionConfig) -> BTreeMap<String, &str> {
    let mut names: BTreeMap<String, &str> = BTreeMap::new();
    for tool in all_tools(config) {
        let uri = tool.server_uri.as_str();
        if names.values().any(|known| *known == uri) {
            continue;
        }
        let wanted = short_name(uri);
        let mut name = wanted.clone();
        let mut number = 2;
        while names.contains_key(&name) {
            name = format!("{wanted}-{number}");
            number += 1;
        }
        names.insert(name, uri);
    }
    names
}

/// The last meaningful part of a URI: a program's name or a host's.
fn short_name(uri: &str) -> String {
    let (scheme, rest) = uri.split_once(':').unwrap_or(("", uri));
    let rest = rest.trim_start_matches('/').split(['?', '#']).next().unwrap_or_default();
    let part = if is_command(scheme) { rest.rsplit('/').next() } else { rest.split(['/', ':']).next() };
    let name: String = part
        .unwrap_or_default()
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() || c == '-' { c } else { '-' })
        .take(40)
        .collect();
    let name = name.trim_matches('-').to_owned();
    // Reserved for the sidecar's own server.
    if name.is_empty() || name == SERVER_NAME { "tools".to_owned() } else { name }
}

fn is_command(scheme: &str) -> bool {
    scheme.eq_ignore_ascii_case("stdio") || scheme.eq_ignore_ascii_case("file")
}

/// A program with arguments, or a URL.
fn server(uri: &str) -> Value {
    if let Some(Endpoint::Program { path, args }) = Endpoint::parse(uri) {
        let mark = json!({ MCP_SERVER_VARIABLE: "1" });
        return json!({ "type": "stdio", "command": path, "args": args, "env": mark });
    }
    match uri.split_once(':') {
        Some((scheme, rest)) if scheme.eq_ignore_ascii_case("sse") => {
            json!({ "type": "sse", "url": format!("https:{rest}") })
        }
        _ => json!({ "type": "http", "url": uri }),
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::config;
    use super::*;

    fn tool(name: &str, uri: &str) -> Value {
        json!({ "name": name, "description": "d", "inputSchema": "{}", "serverUri": uri })
    }

    #[test]
    fn tools_of_one_server_are_allowed_by_their_binary_names() {
        let mut config = config(json!({}));
        config.custom_tools = serde_json::from_value(json!([
            tool("lint", "stdio:///usr/bin/lint?arg=--fast&arg=a%20b"),
            tool("fix", "stdio:///usr/bin/lint?arg=--fast&arg=a%20b"),
            tool("search", "https://tools.example.com/mcp"),
        ]))
        .unwrap();
        let servers = mcp_config(&config, json!("own"));
        assert_eq!(
            servers["mcpServers"],
            json!({
                "pilothouse": "own",
                "lint": { "type": "stdio", "command": "/usr/bin/lint", "args": ["--fast", "a b"],
                    "env": { MCP_SERVER_VARIABLE: "1" } },
                "tools-example-com": { "type": "http", "url": "https://tools.example.com/mcp" },
            })
        );
        assert_eq!(
            command_lines(&config, json!("own")),
            ["/usr/bin/lint --fast a b"],
            "servers that are programs, as the system lists them"
        );
        assert_eq!(
            custom_tool_names(&config),
            ["mcp__lint__lint", "mcp__lint__fix", "mcp__tools-example-com__search"]
        );
    }

    #[test]
    fn a_subagent_alone_has_the_servers_of_its_tools() {
        let mut config = config(json!({}));
        config.custom_tools =
            serde_json::from_value(json!([tool("search", "https://tools.example.com/mcp")])).unwrap();
        config.sub_agents =
            serde_json::from_value(json!([{ "name": "tester", "description": "d", "modelId": "m",
            "instructions": "i", "toolDefinitions": [
                tool("run-tests", "stdio:///usr/bin/tests"), tool("search", "https://tools.example.com/mcp"),
            ] }]))
            .unwrap();
        let main = mcp_config(&config, json!("own"));
        let names: Vec<_> = main["mcpServers"].as_object().unwrap().keys().collect();
        assert_eq!(names, ["tools-example-com", "pilothouse"]);
        let own = json!({ "type": "stdio", "command": "/usr/bin/tests", "args": [],
            "env": { MCP_SERVER_VARIABLE: "1" } });
        assert_eq!(
            agents(&config).unwrap()["tester"]["mcpServers"],
            json!([{ "tests": own }, "tools-example-com"])
        );
        assert_eq!(command_lines(&config, json!("own")), ["/usr/bin/tests"], "also the subagent's program");
    }

    #[test]
    fn only_sidecar_tools_exist_without_tools_and_subagents() {
        let config = config(json!({}));
        assert_eq!(mcp_config(&config, json!(1)), json!({ "mcpServers": { "pilothouse": 1 } }));
        assert_eq!(agents(&config), None);
    }

    #[test]
    fn no_server_takes_the_name_of_the_sidecar_server() {
        assert_eq!(short_name("stdio:///usr/bin/pilothouse"), "tools");
        assert_eq!(short_name("https://[::1]/x"), "tools");
    }
}
