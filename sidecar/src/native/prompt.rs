//! Prompts about the agent's role and place.

use pilothouse_agent::context_files::{ContextFiles, date_and_platform};
use pilothouse_wire::command::AgentSessionConfig;

const IDENTITY: &str = "You are an agent that works on its own in a working directory, for an owner who watches, may speak to \
you at any time, and reviews what you produce.

- Look before you change something: read the files, search, run the tests.
- Make changes with your tools; do not describe changes that you did not make.
- Check your work by running it. Say what you have not checked.
- Ask your owner only what you cannot find out and cannot decide.
- When you produced something to be reviewed, submit it with `submit_output`, then say in a few sentences what you did.";

/// The system prompt: role, place, the instructions of the project, and those of the template and skills. `git`: the
/// state of the repository.
pub(super) fn system(config: &AgentSessionConfig, git: Option<&str>, context: &ContextFiles) -> String {
    let place = format!("Your working directory is {}.", config.working_directory);
    let place = [place, date_and_platform()].into_iter().chain(git.map(str::to_owned));
    let place = place.collect::<Vec<_>>().join("\n");
    let parts = [IDENTITY, &place, &context.section(), config.composed_system_prompt.trim()];
    parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("\n\n")
}

/// The text that opens the first turn: the handoff of the previous session, if any, and the prompt.
pub(super) fn opening(config: &AgentSessionConfig, prompt: String) -> String {
    match &config.handoff {
        None => prompt,
        Some(handoff) => format!(
            "Another session worked on this before you and handed its work over. What it left you:\n\n<handoff>\n{}\n</handoff>\n\n{prompt}",
            handoff.document.to_text()
        ),
    }
}
