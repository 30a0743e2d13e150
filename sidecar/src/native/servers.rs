//! Tools of MCP servers that template and skills bring along (S0 8.5).

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use pilothouse_agent::mcp::{DeclineAll, Elicit, McpServerConfig, McpServers, McpTransport};
use pilothouse_agent::process::Program;
use pilothouse_agent::tool::SharedTool;
use pilothouse_agent::workspace::Environment;
use pilothouse_domain::value::McpToolDefinition;

/// The tools that are defined, as far as their servers have them; and what went wrong.
pub(super) async fn connect(
    definitions: &[McpToolDefinition],
    folder: &Path,
    environment: &Environment,
    launcher: &[OsString],
) -> (Vec<SharedTool>, Vec<String>) {
    if definitions.is_empty() {
        return (Vec::new(), Vec::new());
    }
    let configs = configs(definitions, folder, environment, launcher);
    let notices = Arc::new(Mutex::new(Vec::new()));
    let told = Arc::clone(&notices);
    let decline: Arc<dyn Elicit> = Arc::new(DeclineAll);
    let notify =
        Arc::new(move |notice: String| told.lock().unwrap_or_else(PoisonError::into_inner).push(notice));
    // The connections live as long as the tools do.
    let servers = McpServers::connect(configs, &decline, &(notify as _)).await;
    let mut tools = servers.tools();
    tools.retain(|tool| definitions.iter().any(|definition| is(&tool.spec().name, definition.name.as_str())));
    let mut notices = std::mem::take(&mut *notices.lock().unwrap_or_else(PoisonError::into_inner));
    for definition in definitions {
        if !tools.iter().any(|tool| is(&tool.spec().name, definition.name.as_str())) {
            notices.push(format!("no server brings the tool `{}`", definition.name));
        }
    }
    (tools, notices)
}

/// Whether `mcp__server__tool` is this tool.
fn is(name: &str, tool: &str) -> bool {
    name.rsplit_once("__").is_some_and(|(_, last)| last == tool) || name == tool
}

/// Each server once. Addresses of no known kind are tried as they are, and fail with a notice.
fn configs(
    definitions: &[McpToolDefinition],
    folder: &Path,
    environment: &Environment,
    launcher: &[OsString],
) -> Vec<McpServerConfig> {
    let mut servers: BTreeMap<&str, McpServerConfig> = BTreeMap::new();
    for definition in definitions {
        let uri = definition.server_uri.as_str();
        let name = format!("server-{}", servers.len() + 1);
        servers.entry(uri).or_insert_with(|| {
            let transport = match program(uri) {
                Some((program, arguments)) => {
                    let mut all = launcher.iter().cloned().chain([program.into()]);
                    let first = all.next().unwrap_or_default();
                    let arguments = all.chain(arguments.into_iter().map(OsString::from));
                    McpTransport::Stdio(Program::new(first, folder, environment.clone()).args(arguments))
                }
                None => McpTransport::Http { url: uri.to_owned(), headers: BTreeMap::new() },
            };
            McpServerConfig::new(name, transport)
        });
    }
    servers.into_values().collect()
}

/// `stdio:///usr/bin/lint?arg=--fast&arg=x` is a program with arguments, with `%` as in any URI.
fn program(uri: &str) -> Option<(String, Vec<String>)> {
    let (scheme, rest) = uri.split_once(':')?;
    if !scheme.eq_ignore_ascii_case("stdio") {
        return None;
    }
    let rest = rest.strip_prefix("//").unwrap_or(rest);
    let (program, query) = rest.split_once('?').unwrap_or((rest, ""));
    let arguments = query.split('&').filter_map(|pair| pair.strip_prefix("arg=")).map(decoded).collect();
    Some((decoded(program), arguments))
}

fn decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some(first) = rest.first() {
        let hex = (*first == b'%').then(|| rest.get(1..3)).flatten();
        let byte = hex.and_then(|hex| u8::from_str_radix(std::str::from_utf8(hex).ok()?, 16).ok());
        bytes.push(byte.unwrap_or(*first));
        rest = &rest[if byte.is_some() { 3 } else { 1 }..];
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_address_is_a_program_or_a_server() {
        assert_eq!(
            program("stdio:///usr/bin/a%20b?arg=--fast&arg=x%2Cy"),
            Some(("/usr/bin/a b".into(), vec!["--fast".into(), "x,y".into()]))
        );
        assert_eq!(program("https://example.org/mcp"), None);
        let schema = "{\"type\":\"object\"}";
        let define = |name: &str, uri: &str| json!({ "name": name, "description": "d", "inputSchema": schema, "serverUri": uri });
        let definitions: Vec<McpToolDefinition> = serde_json::from_value(json!([
            define("a", "https://example.org/mcp"),
            define("b", "https://example.org/mcp"),
            define("c", "stdio:///bin/true"),
        ]))
        .unwrap();
        let configs = configs(&definitions, Path::new("/"), &Environment::default(), &["as".into()]);
        assert_eq!(configs.len(), 2, "each server once");
        let stdio = configs.iter().find_map(|config| match &config.transport {
            McpTransport::Stdio(program) => Some(program.clone()),
            McpTransport::Http { .. } => None,
        });
        assert_eq!(stdio.unwrap().program, "as", "as the agent's user");
    }

    #[test]
    fn a_tool_is_known_by_the_end_of_its_name() {
        assert!(is("mcp__server-1__lint", "lint") && !is("mcp__server-1__lint", "int"));
    }
}
