//! Prompts at the start of a conversation.

use pilothouse_wire::command::AgentSessionConfig;

use super::environment::{API_KEY, API_URL, SESSION};
use crate::kit::conversation_summary::ConversationSummary;
use crate::own_tools::SERVER_NAME;

/// Appended to Claude Code's own system prompt: the session's prompt, general instructions, and the summary of a lost
/// conversation.
pub(super) fn system(config: &AgentSessionConfig, earlier: Option<&ConversationSummary>) -> String {
    let mut parts = Vec::new();
    if !config.composed_system_prompt.trim().is_empty() {
        parts.push(config.composed_system_prompt.clone());
    }
    parts.push(agent_api());
    parts.extend(earlier.map(|earlier| earlier.to_text(&config.objective)));
    parts.join("\n\n")
}

fn agent_api() -> String {
    format!(
        "You work in a session whose owner watches. The tools of the MCP server `{SERVER_NAME}` belong to it. When the work is \
         done, report what you produced, with the numbers as they are:\n\
         curl -sS -X POST \"${API_URL}/api/agent/sessions/${SESSION}/output\" -H \"Authorization: Bearer ${API_KEY}\" \
         -H 'Content-Type: application/json' -d '{{\"outputLineCount\": 0, \"filesChanged\": 0, \"testsAdded\": 0, \
         \"allTestsPassing\": true}}'\n\
         (`commitSha` may be added; the variables are set in your shell; never print the key.)"
    )
}

/// The first message: the previous session's handoff, if any, and the task.
pub(super) fn first(config: &AgentSessionConfig, words: &str) -> String {
    let Some(handoff) = &config.handoff else { return words.to_owned() };
    format!(
        "You go on with work that another agent began in this folder; you are number {} of its chain. It left this:\n\n{}\n\n\
         Your task:\n\n{words}",
        handoff.position.saturating_add(1),
        handoff.document.to_text()
    )
}

/// Sent after a limit that stopped the agent within a turn was lifted.
pub(super) const CONTINUE: &str =
    "The limit that interrupted you has been lifted. Go on exactly where you were stopped.";

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::tests::config;
    use super::*;

    #[test]
    fn system_prompt_starts_with_the_session_prompt() {
        let mut config = config(json!({}));
        config.composed_system_prompt = "Be brief.".into();
        let prompt = system(&config, None);
        assert!(prompt.starts_with("Be brief.\n\n"));
        assert!(
            prompt.contains("$PILOTHOUSE_API_URL/api/agent/sessions/$PILOTHOUSE_SESSION_ID/output"),
            "{prompt}"
        );
    }

    #[test]
    fn continuation_starts_with_its_handoff() {
        let mut config = config(json!({}));
        assert_eq!(first(&config, "Do it."), "Do it.");
        config.handoff = serde_json::from_value(json!({
            "fromSessionId": "0190b3c0-0000-7000-8000-000000000001", "position": 1,
            "summary": "Did a.", "remainingWork": "Do b.",
        }))
        .unwrap();
        let first = first(&config, "Do it.");
        assert!(first.contains("number 2 of its chain") && first.contains("What remains:\nDo b."), "{first}");
        assert!(first.ends_with("Your task:\n\nDo it."));
    }
}
