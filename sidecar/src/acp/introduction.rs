//! Text before the first prompt of a conversation.

use pilothouse_wire::command::AgentSessionConfig;

use super::agents::{Advertised, Instructions};
use crate::kit::conversation_summary::ConversationSummary;
use crate::kit::handoff;

/// The instructions (if the agent takes them only in the prompt), the handoff of the previous session (decision 34),
/// and the summary of a lost conversation.
pub(super) fn introduction(
    config: &AgentSessionConfig,
    agent: &Advertised,
    earlier: Option<&ConversationSummary>,
) -> Vec<String> {
    let mut texts: Vec<String> = instructions(config, agent).into_iter().collect();
    texts.extend(config.handoff.as_ref().map(handoff::received));
    texts.extend(earlier.map(|earlier| earlier.to_text(&config.objective)));
    texts
}

/// The instructions of template and skills, for an agent that needs them in the prompt.
pub(super) fn instructions(config: &AgentSessionConfig, agent: &Advertised) -> Option<String> {
    let instructions = config.composed_system_prompt.trim();
    let in_words = agent.profile.instructions == Instructions::FirstPrompt && !instructions.is_empty();
    in_words.then(|| format!("Instructions for all of this conversation:\n\n{instructions}"))
}
