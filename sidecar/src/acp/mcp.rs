//! MCP servers of template and skills in the form of `session/new`.

use std::collections::BTreeSet;

use pilothouse_agent::mcp::Endpoint;
use pilothouse_domain::value::McpToolDefinition;
use serde_json::{Value, json};

use super::agents::Advertised;
use crate::process::tool_processes::MCP_SERVER_VARIABLE;

/// The servers that the agent can reach, and the URIs of those that it cannot.
pub(super) fn servers(tools: &[McpToolDefinition], agent: &Advertised) -> (Vec<Value>, Vec<String>) {
    let (mut servers, mut left_out, mut seen) = (Vec::new(), Vec::new(), BTreeSet::new());
    for tool in tools {
        let uri = tool.server_uri.as_str();
        if !seen.insert(uri) {
            continue;
        }
        let name = format!("server-{}", servers.len() + 1);
        let server = match tool.server_uri.scheme().to_ascii_lowercase().as_str() {
            "http" | "https" if agent.mcp.http => {
                Some(json!({"type": "http", "name": name, "url": uri, "headers": []}))
            }
            "sse" if agent.mcp.sse => {
                let url = format!("https{}", uri.get(3..).unwrap_or_default());
                Some(json!({"type": "sse", "name": name, "url": url, "headers": []}))
            }
            "stdio" | "file" => stdio(&name, uri),
            _ => None,
        };
        match server {
            Some(server) => servers.push(server),
            None => left_out.push(uri.to_owned()),
        }
    }
    (servers, left_out)
}

fn stdio(name: &str, uri: &str) -> Option<Value> {
    let Endpoint::Program { path, args } = Endpoint::parse(uri)? else { return None };
    let mark = json!({ "name": MCP_SERVER_VARIABLE, "value": name });
    Some(json!({"name": name, "command": path, "args": args, "env": [mark]}))
}

/// The command lines of the servers that are programs. `own_tools` is the configuration of the sidecar's own tools.
pub(super) fn command_lines(tools: &[McpToolDefinition], own_tools: &Value) -> Vec<String> {
    let named = tools.iter().filter_map(|tool| stdio("", tool.server_uri.as_str()));
    named.chain([own_tools.clone()]).filter_map(|server| command_line(&server)).collect()
}

fn command_line(server: &Value) -> Option<String> {
    let words = crate::kit::json::list(server, "args").iter().filter_map(Value::as_str);
    let words: Vec<_> = crate::kit::json::text(server, "command").into_iter().chain(words).collect();
    (!words.is_empty()).then(|| words.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::acp::agents::UNKNOWN;

    #[test]
    fn each_server_is_passed_once_by_a_supported_transport() {
        let tool = |name: &str, uri: &str| -> McpToolDefinition {
            serde_json::from_value(
                json!({"name": name, "description": "d", "inputSchema": "{}", "serverUri": uri}),
            )
            .unwrap()
        };
        let tools = [
            tool("a", "https://tools.example.com/mcp"),
            tool("b", "https://tools.example.com/mcp"),
            tool("c", "stdio:///opt/a%20b?arg=-x&arg=1%262"),
            tool("d", "ws://tools.example.com/"),
        ];
        let can = json!({"agentCapabilities": {"mcpCapabilities": {"http": true}}});
        let (servers, left_out) = super::servers(&tools, &Advertised::read(&can, UNKNOWN));
        assert_eq!(servers.len(), 2);
        assert_eq!(
            (servers[0]["type"].as_str(), servers[1]["command"].as_str()),
            (Some("http"), Some("/opt/a b"))
        );
        assert_eq!(servers[1]["args"], json!(["-x", "1&2"]));
        assert_eq!(servers[1]["env"][0]["name"], MCP_SERVER_VARIABLE);
        let own_tools = json!({"command": "/bin/own", "args": ["tools", "/s"]});
        assert_eq!(command_lines(&tools, &own_tools), ["/opt/a b -x 1&2", "/bin/own tools /s"]);
        assert_eq!(left_out, ["ws://tools.example.com/"]);
        let (servers, left_out) = super::servers(&tools, &Advertised::read(&json!({}), UNKNOWN));
        assert_eq!((servers.len(), left_out.len()), (1, 2));
    }
}
