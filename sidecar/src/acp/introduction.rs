//! Text before the first prompt of a conversation.

use pilothouse_wire::command::AgentSessionConfig;

use super::agents::{Advertised, Instructions};
use crate::kit::conversation_summary::ConversationSummary;

/// The instructions (if the agent takes them only in the prompt), the handoff of the previous session (decision 34),
/// and the summary of a lost conversation.
pub(super) fn introduction(
    config: &AgentSessionConfig,
    agent: &Advertised,
    earlier: Option<&ConversationSummary>,
) -> Vec<String> {
    let mut texts: Vec<String> = instructions(config, agent).into_iter().collect();
    if let Some(handoff) = &config.handoff {
        let document = &handoff.document;
        let mut text = format!(
            "You go on with work that another session began.\n\nDone so far:\n{}\n\nRemaining:\n{}",
            document.summary, document.remaining_work
        );
        if let Some(decisions) = &document.key_decisions {
            text.push_str("\n\nDecisions to keep:\n");
            text.push_str(decisions.as_str());
        }
        texts.push(text);
    }
    texts.extend(earlier.map(|earlier| earlier.to_text(&config.objective)));
    texts
}

/// The instructions of template and skills, for an agent that needs them in the prompt.
pub(super) fn instructions(config: &AgentSessionConfig, agent: &Advertised) -> Option<String> {
    let instructions = config.composed_system_prompt.trim();
    let in_words = agent.profile.instructions == Instructions::FirstPrompt && !instructions.is_empty();
    in_words.then(|| format!("Instructions for all of this conversation:\n\n{instructions}"))
}
