//! Classification of tool calls by their effects (S2, "Tool risk classification"; decision 73).
//!
//! [`classify`] maps a tool call of an agent to [`Effects`]: what it does, how bad it can be, and how far it reaches. It looks at the
//! arguments and not only at the tool's name: shell commands are parsed, and paths are compared with the workspace and with a table
//! of protected files. A call that it does not know is `high`/`unknown`. This crate does no I/O and reads no clock.
//!
//! Paths are compared as text. Symbolic links are not resolved: the kernel's confinement (decision 63) holds for them.
//!
//! | module | contents |
//! |---|---|
//! | `registry` | the tools of each adapter: which argument is a command, a path or a URL |
//! | `path` | where a path points, and which paths are protected |
//! | `shell` | parses shell commands, expands words, and finds the effects of each program |
//! | `syntax`, `marks`, `braces` | a parsed script; unknown text in it; alternatives in braces |
//! | `tables` | programs, their options and their effects |

mod braces;
mod call;
mod findings;
mod marks;
mod path;
mod registry;
mod shell;
mod syntax;
mod tables;

pub use call::{Adapter, Context, ToolCall};
pub use findings::{Classification, Finding};
pub use path::InvalidPlaces;
pub use pilothouse_domain::effect::pattern;
pub use pilothouse_domain::effect::{ActionKind, BlastRadius, Confidence, Effect, Effects, Severity};

/// The names of the tools whose arguments are inspected, of all adapters.
pub fn known_tools() -> Vec<String> {
    registry::known_tools()
}

/// Whether the tool is one that Pilothouse offers to all agents.
pub fn is_own_tool(adapter: Adapter, tool: &str) -> bool {
    registry::own_tool(adapter, tool).is_some()
}

/// The shell command among the arguments of a call.
pub fn shell_command(arguments: &serde_json::Value) -> Option<&str> {
    registry::shell_command(arguments)
}

/// The files that a call of a known tool writes, as its arguments name them.
pub fn written_files<'a>(call: &ToolCall<'a>) -> Vec<&'a str> {
    registry::written_files(call)
}

/// An absolute path without `.`, `..` and repeated slashes; `None` if it is not absolute.
pub fn normalised(path: &str) -> Option<String> {
    path.starts_with('/').then(|| path::normalise("/", path))
}

/// Finds the effects of a tool call.
pub fn classify(call: &ToolCall<'_>, context: &Context<'_>) -> Classification {
    registry::classify(call, context)
}
