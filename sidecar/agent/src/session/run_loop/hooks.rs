//! Calls the hooks of extensions (S1 8). After an abort, the loop skips a hook's changes and does not wait for it.

use super::RunLoop;
use crate::extension::{AgentStart, TurnEnd};
use crate::message::{AgentMessage, AssistantMessage, ToolCall, UserContent, user_message, with_text};
use crate::session::state::Prompt;
use crate::session::status::SessionError;
use crate::tool::ToolOutput;

impl RunLoop {
    /// Hooks may change the prompt and the system prompt of its turns.
    pub(super) async fn before_start(&mut self, prompt: Prompt) -> Prompt {
        let extensions = &self.shared.config.extensions;
        if extensions.is_empty() {
            return prompt;
        }
        let given = text(&prompt.message);
        let start = AgentStart { prompt: given.clone(), system: self.system.clone() };
        let Some(start) = self.cancel.run_until_cancelled(extensions.before_agent_start(start)).await else {
            return prompt;
        };
        self.system = start.system;
        if start.prompt == given {
            return prompt;
        }
        Prompt { message: with_text(prompt.message, &start.prompt), ..prompt }
    }

    /// Hooks may change the system prompt of the turn.
    pub(super) async fn turn_start(&mut self) {
        let extensions = &self.shared.config.extensions;
        let system = self.system.clone();
        self.turn_system = if extensions.is_empty() {
            system
        } else {
            let asked = extensions.turn_start(self.turns, system.clone());
            self.cancel.run_until_cancelled(asked).await.unwrap_or(system)
        };
    }

    /// After a turn: returns whether a hook added a message, which requires another turn.
    pub(super) async fn turn_end(&self, reply: &AssistantMessage) -> Result<bool, SessionError> {
        let extensions = &self.shared.config.extensions;
        if extensions.is_empty() {
            return Ok(false);
        }
        let tools = reply.tool_calls().map(|call| call.name.clone()).collect();
        let turn = TurnEnd { turn: self.turns, text: reply.text(), tools };
        let said = self.cancel.run_until_cancelled(extensions.turn_end(&turn)).await.unwrap_or_default();
        for text in &said {
            self.shared.state().append(user_message(text, Vec::new()), &self.shared.events)?;
        }
        Ok(!said.is_empty())
    }

    /// Returns the arguments, which hooks may change, or why the tool must not run.
    pub(super) async fn before_tool(&self, call: ToolCall) -> Result<ToolCall, String> {
        let extensions = &self.shared.config.extensions;
        if extensions.is_empty() {
            return Ok(call);
        }
        // After an abort, the tool does not run.
        let asked = extensions.before_tool(call.clone());
        self.cancel.run_until_cancelled(asked).await.unwrap_or(Ok(call))
    }

    /// Hooks may change the result.
    pub(super) async fn after_tool(&self, call: &ToolCall, output: ToolOutput) -> ToolOutput {
        let extensions = &self.shared.config.extensions;
        if extensions.is_empty() {
            return output;
        }
        let asked = extensions.after_tool(call, output.clone());
        self.cancel.run_until_cancelled(asked).await.unwrap_or(output)
    }
}

fn text(message: &AgentMessage) -> String {
    let AgentMessage::User(user) = message else { return String::new() };
    let texts = user.content.iter().filter_map(|block| match block {
        UserContent::Text { text } => Some(text.as_str()),
        UserContent::Image { .. } => None,
    });
    texts.collect::<Vec<_>>().join("\n")
}
