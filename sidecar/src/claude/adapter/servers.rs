//! MCP servers and subagents of a configuration, as the binary takes them on its command line.

use std::collections::BTreeMap;

use pilothouse_agent::mcp::Endpoint;
use pilothouse_domain::value::McpToolDefinition;
use pilothouse_wire::command::AgentSessionConfig;
use serde_json::{Map, Value, json};

use crate::own_tools::SERVER_NAME;

/// The sidecar's own tools and the configuration's as servers: `--mcp-config`.
pub(super) fn mcp_config(config: &AgentSessionConfig, own_tools: Value) -> Value {
    let mut servers: Map<String, Value> =
        by_name(config).into_iter().map(|(name, uri)| (name, server(uri))).collect();
    servers.insert(SERVER_NAME.to_owned(), own_tools);
    json!({ "mcpServers": servers })
}

/// What the binary calls the configuration's tools: they are allowed, since the owner brought them along.
pub(super) fn custom_tool_names(config: &AgentSessionConfig) -> Vec<String> {
    let names: BTreeMap<&str, String> = by_name(config).into_iter().map(|(name, uri)| (uri, name)).collect();
    all_tools(config)
        .filter_map(|tool| {
            let server = names.get(tool.server_uri.as_str())?;
            Some(format!("mcp__{server}__{}", tool.name))
        })
        .collect()
}

/// The configuration's subagents: `--agents`. None without any.
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

/// Each server once, by a name made of what it is called; servers of one name are told apart by a number.
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

/// The last part of an address that says something: a program's name, or a host's.
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
    // The sidecar's own server has this name.
    if name.is_empty() || name == SERVER_NAME { "tools".to_owned() } else { name }
}

fn is_command(scheme: &str) -> bool {
    scheme.eq_ignore_ascii_case("stdio") || scheme.eq_ignore_ascii_case("file")
}

/// A program with arguments, or an address.
fn server(uri: &str) -> Value {
    if let Some(Endpoint::Program { path, args }) = Endpoint::parse(uri) {
        return json!({ "type": "stdio", "command": path, "args": args });
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
    fn tools_of_one_server_share_it_and_are_allowed_by_the_binarys_names_for_them() {
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
                "lint": { "type": "stdio", "command": "/usr/bin/lint", "args": ["--fast", "a b"] },
                "tools-example-com": { "type": "http", "url": "https://tools.example.com/mcp" },
            })
        );
        assert_eq!(
            custom_tool_names(&config),
            ["mcp__lint__lint", "mcp__lint__fix", "mcp__tools-example-com__search"]
        );
    }

    #[test]
    fn without_tools_and_subagents_there_are_the_sidecars_own_tools_alone() {
        let config = config(json!({}));
        assert_eq!(mcp_config(&config, json!(1)), json!({ "mcpServers": { "pilothouse": 1 } }));
        assert_eq!(agents(&config), None);
    }

    #[test]
    fn no_server_takes_the_name_of_the_sidecars_own() {
        assert_eq!(short_name("stdio:///usr/bin/pilothouse"), "tools");
        assert_eq!(short_name("https://[::1]/x"), "tools");
    }
}
