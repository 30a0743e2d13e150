//! Converts the MCP servers and subagents of a configuration to command-line arguments.

use std::collections::BTreeMap;

use pilothouse_agent::mcp::Endpoint;
use pilothouse_domain::value::McpToolDefinition;
use pilothouse_wire::command::AgentSessionConfig;
use serde_json::{Map, Value, json};

use crate::own_tools::SERVER_NAME;
use crate::process::tool_processes::MCP_SERVER_VARIABLE;

/// `--mcp-config`: the sidecar's own tools and the configuration's servers.
pub(super) fn mcp_config(config: &AgentSessionConfig, own_tools: Value) -> Value {
    let mut servers: Map<String, Value> =
        by_name(config).into_iter().map(|(name, uri)| (name, server(uri))).collect();
    servers.insert(SERVER_NAME.to_owned(), own_tools);
    json!({ "mcpServers": servers })
}

/// The command lines of the servers that are programs.
pub(super) fn command_lines(config: &Value) -> Vec<String> {
    let servers = config.get("mcpServers").and_then(Value::as_object).into_iter().flatten();
    let line = |server: &Value| {
        let words = server.get("args").and_then(Value::as_array).into_iter().flatten();
        let words = std::iter::once(server.get("command")?).chain(words).filter_map(Value::as_str);
        Some(words.collect::<Vec<_>>().join(" "))
    };
    servers.filter_map(|(_, server)| line(server)).collect()
}

/// Claude Code's names of the configuration's tools. They are allowed, because the owner configured them.
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
            let definition = json!({
                "description": agent.description.to_string(),
                "prompt": agent.instructions.to_string(),
                "model": agent.model_id.to_string(),
            });
            (agent.name.to_string(), definition)
        })
        .collect();
    (!agents.is_empty()).then(|| agents.into())
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
            command_lines(&servers),
            ["/usr/bin/lint --fast a b"],
            "servers that are programs, as the system lists them"
        );
        assert_eq!(
            custom_tool_names(&config),
            ["mcp__lint__lint", "mcp__lint__fix", "mcp__tools-example-com__search"]
        );
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
