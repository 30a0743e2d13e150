//! Control requests that Claude Code sends over the same stream. The adapter answers them. They produce no events,
//! because the `assistant` line already published the tool call.

use serde_json::Value;

use super::Ignored;
use super::translated::Translated;
use crate::kit::json::text;

pub(super) fn request(line: &Value, out: &mut Translated) {
    match line.get("request").and_then(|request| text(request, "subtype")) {
        Some("can_use_tool") => out.ignore(Ignored::PermissionRequest),
        Some("hook_callback") => out.ignore(Ignored::HookCallback),
        Some("mcp_message") => out.ignore(Ignored::McpMessage),
        Some(other) => out.unknown(&format!("control_request_{other}"), line),
        None => out.unknown("control_request", line),
    }
}
