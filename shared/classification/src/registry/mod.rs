//! The tools of each adapter, and what their arguments are.

mod tools;

use pilothouse_domain::effect::Effect;
use serde_json::Value;

use crate::call::{Adapter, Context, ToolCall};
use crate::findings::{Classification, Collector};
use crate::path::Access;

use tools::{OWN_PREFIX, OWN_TOOLS};

/// How a tool is classified.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Rule {
    /// The argument is a shell command.
    Command,
    /// The argument is a path.
    Path(Access),
    /// Lists the names of files below a path, or below the workspace.
    List,
    /// Reads the files below a path whose names match a pattern.
    Search,
    /// The argument is a URL.
    Fetch,
    /// Always the same effect.
    Fixed(Effect),
    /// Paths that an ACP agent reports as locations.
    Locations(Access),
}

/// Arguments in which tools take a command, a path, a URL, and a pattern for the names of files.
const COMMANDS: &[&str] = &["command", "cmd", "script"];
const PATHS: &[&str] = &["file_path", "path", "filePath", "notebook_path", "file"];
const URLS: &[&str] = &["url", "uri"];
const GLOBS: &[&str] = &["glob", "include"];

/// Classifies a call. A project's pattern adds to what the arguments of a known tool say, and decides about other tools.
pub(crate) fn classify(call: &ToolCall<'_>, context: &Context<'_>) -> Classification {
    let mut findings = Collector::default();
    let pattern = context.patterns.find(call.tool);
    match find(call) {
        Some(rule) => apply(rule, call, context, &mut findings),
        None if pattern.is_some() => {}
        None => findings.unclassified(call.tool),
    }
    if let Some(pattern) = pattern {
        findings.add(pattern.effect(), call.tool);
    }
    let mut classification = findings.finish();
    classification.pattern = pattern.map(|pattern| pattern.name.clone());
    classification.requires_rationale = pattern.is_some_and(|pattern| pattern.requires_rationale);
    classification
}

pub(crate) fn known_tools() -> Vec<String> {
    let tables = [tools::CLAUDE, tools::NATIVE, tools::PLANNING, OWN_TOOLS];
    tables.iter().flat_map(|table| table.iter()).map(|(name, _)| (*name).to_owned()).collect()
}

/// The rule of a tool of Pilothouse.
pub(crate) fn own_tool(adapter: Adapter, tool: &str) -> Option<Rule> {
    let own = tool.strip_prefix(OWN_PREFIX).or_else(|| {
        // The native agent calls Pilothouse's tools directly.
        matches!(adapter, Adapter::Native | Adapter::Script).then_some(tool)
    })?;
    OWN_TOOLS.iter().find(|(name, _)| *name == own).map(|(_, rule)| *rule)
}

pub(crate) fn shell_command(arguments: &Value) -> Option<&str> {
    text(arguments, COMMANDS).and_then(Result::ok)
}

/// The paths that a call writes.
pub(crate) fn written_files<'a>(call: &ToolCall<'a>) -> Vec<&'a str> {
    let arguments = call.arguments;
    match find(call) {
        // An ACP agent may name the files of a tool outside of its input.
        Some(Rule::Path(Access::Update)) if call.adapter == Adapter::Acp => locations(arguments),
        Some(Rule::Path(Access::Update)) => text(arguments, PATHS).and_then(Result::ok).into_iter().collect(),
        Some(Rule::Locations(Access::Update)) => locations(arguments),
        _ => Vec::new(),
    }
}

/// The paths that an ACP agent reports for a call.
fn locations(arguments: &Value) -> Vec<&str> {
    let locations = arguments.get("locations").and_then(Value::as_array);
    locations
        .into_iter()
        .flatten()
        .filter_map(|location| location.get("path").and_then(Value::as_str))
        .chain(text(arguments, PATHS).and_then(Result::ok))
        .collect()
}

fn find(call: &ToolCall<'_>) -> Option<Rule> {
    if let Some(rule) = own_tool(call.adapter, call.tool) {
        return Some(rule);
    }
    let tables: &[&[(&str, Rule)]] = match call.adapter {
        Adapter::Claude => &[tools::CLAUDE],
        Adapter::Native => &[tools::NATIVE, tools::PLANNING],
        Adapter::Script | Adapter::Acp => &[tools::CLAUDE, tools::NATIVE],
        Adapter::Other => &[],
    };
    let by_name = tables.iter().flat_map(|table| table.iter()).find(|(name, _)| *name == call.tool);
    let by_kind = || {
        let kind = call.kind.filter(|_| call.adapter == Adapter::Acp)?;
        tools::ACP_KINDS.iter().find(|(name, _)| *name == kind)
    };
    // A call whose tool has no name is named after its kind, which other agents use as names of tools.
    let found = if call.kind == Some(call.tool) { by_kind().or(by_name) } else { by_name.or_else(by_kind) };
    found.map(|(_, rule)| *rule)
}

/// The first of the arguments that the call has. `Err` if it is no text.
fn text<'a>(arguments: &'a Value, names: &[&str]) -> Option<Result<&'a str, NotText>> {
    let value = names.iter().find_map(|name| arguments.get(name))?;
    Some(value.as_str().ok_or(NotText))
}

struct NotText;

fn apply(rule: Rule, call: &ToolCall<'_>, context: &Context<'_>, findings: &mut Collector) {
    let places = &context.places;
    let mut access = |path: &str, access: Access| {
        findings.access(places, places.workspace, path, access);
    };
    match rule {
        Rule::Fixed(effect) => findings.add(effect, call.tool),
        Rule::Command => match text(call.arguments, COMMANDS) {
            Some(Ok(command)) => crate::shell::inspect(command, places, findings),
            _ => findings.unclassified(call.tool),
        },
        Rule::Path(kind) => match text(call.arguments, PATHS) {
            Some(Ok(path)) => access(path, kind),
            _ => findings.unclassified(call.tool),
        },
        Rule::List | Rule::Search => {
            let folder = match text(call.arguments, PATHS) {
                Some(Ok(path)) => path,
                None => ".",
                Some(Err(NotText)) => return findings.unclassified(call.tool),
            };
            let kind = if matches!(rule, Rule::Search) { Access::Read } else { Access::List };
            access(folder, kind);
            match text(call.arguments, GLOBS).filter(|_| kind == Access::Read) {
                Some(Ok(glob)) if places.glob_names_secret(glob) => {
                    findings.add(crate::path::protected_effect(kind), glob);
                }
                Some(Err(NotText)) => findings.unclassified(call.tool),
                _ => {}
            }
        }
        Rule::Fetch => match text(call.arguments, URLS) {
            Some(Ok(url)) => {
                let effect = crate::shell::url_effect(url);
                findings.add(effect, url);
                if let Some(path) = url.strip_prefix("file://") {
                    findings.access(places, places.workspace, path, Access::Read);
                }
            }
            _ => findings.unclassified(call.tool),
        },
        Rule::Locations(kind) => {
            let paths = locations(call.arguments);
            for path in &paths {
                access(path, kind);
            }
            if paths.is_empty() {
                findings.unclassified(call.tool);
            }
        }
    }
}
