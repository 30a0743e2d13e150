//! What the agent reads before the first words of its conversation.

use pilothouse_wire::command::AgentSessionConfig;

use super::agents::{Advertised, Instructions};

/// Instructions where the agent has no other place for them, and what the session before it left (ruling 34).
pub(super) fn introduction(config: &AgentSessionConfig, agent: &Advertised) -> Vec<String> {
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
    texts
}

/// The instructions of template and skills, for an agent that is told them in words.
pub(super) fn instructions(config: &AgentSessionConfig, agent: &Advertised) -> Option<String> {
    let instructions = config.composed_system_prompt.trim();
    let in_words = agent.profile.instructions == Instructions::FirstPrompt && !instructions.is_empty();
    in_words.then(|| format!("Instructions for all of this conversation:\n\n{instructions}"))
}
